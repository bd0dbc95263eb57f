"""The permit gate's composition root: what is made of what, and in which order it starts and ends.

Takes settings, gives a running process; must not decide. The port opens first, so that probes are answered;
bind calls are refused until every list is read. At the end held calls are refused first, bindings under way
are finished, and only then the connections close.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import time
from collections.abc import AsyncIterator, Sequence

import aiohttp
from aiohttp import web

from extender import settings
from extender.core import gate_messages as gm
from extender.core import messages
from extender.core.activity import Activity
from extender.core.gate import Gate
from extender.core.world import World
from extender.kube import client, errors, feeds, lease
from extender.runtime import lag, process, stopping, tasks
from extender.runtime.leadership import Leadership
from extender.telemetry import logs
from extender.telemetry.metrics import GateMetrics
from extender.web import serve, tls
from permit_gate.outside import Extender, Kubernetes
from permit_gate.owner import Owner
from permit_gate.web import BODY_LIMIT, Handlers

LOG = logs.Log(__name__)
#: longer than the longest binding
STOP_SECONDS = 35.0


def main(argv: Sequence[str]) -> int:
    """Run the gate until it is asked to stop; the exit status."""
    told = settings.read_gate(argv, socket.gethostname())
    logs.configure(told.logging)
    try:
        process.run(_serve(told))
    except (tasks.Fault, errors.Unconfigured, settings.Unusable, OSError) as error:
        LOG.error("the permit gate ends", fault=error)
        return 1
    return 0


async def _serve(told: settings.GateSettings) -> None:
    with stopping.asked_to_stop() as stop:
        async with running(told) as (_, eternal):
            await eternal.run_until(stop)


@contextlib.asynccontextmanager
async def running(told: settings.GateSettings) -> AsyncIterator[tuple[int, tasks.Tasks]]:
    """The gate, running inside the block: its port, and the tasks whose end would be a fault."""
    metrics = GateMetrics()
    cluster = told.cluster
    async with contextlib.AsyncExitStack() as stack:
        api = await stack.enter_async_context(
            client.connect(cluster.kubeconfig, cluster.context, component="muster-permit-gate", observer=metrics.api)
        )
        session = await stack.enter_async_context(tls.client_session(told.tls))
        parts = Process(told, metrics, api, session)
        # left in the opposite order: the tasks live until the last call is answered
        eternal = await stack.enter_async_context(tasks.Tasks())
        port = await stack.enter_async_context(serve.serve(parts.app, told.listen, told.tls, cancel_abandoned=True))
        parts.start(eternal)
        yield port, eternal


class Process:
    """The parts and how they are joined."""

    def __init__(
        self,
        told: settings.GateSettings,
        metrics: GateMetrics,
        api: client.Api,
        session: aiohttp.ClientSession,
    ) -> None:
        self._told = told
        self._metrics = metrics
        self._api = api
        self._unsynced = {feed.resource.label for feed in feeds.GANGS}
        kubernetes = Kubernetes(api, told.cluster.namespace, told.cluster.lease)
        self._owner = Owner(
            Gate(World(), told.http_timeout),
            kubernetes,
            Extender(session, told.extender),
            process.wall_clock(),
            metrics,
        )
        self._leadership = Leadership(
            Activity(told.hostname), kubernetes.read_lease, time.monotonic, self._activity_changed
        )
        handlers = Handlers(self._owner, self._leadership, metrics)
        self.app = serve.application(
            [*handlers.routes(), *serve.health_routes(self._not_ready, metrics.registry)], BODY_LIMIT
        )
        self.app.on_shutdown.append(self._stop)

    def start(self, eternal: tasks.Tasks) -> None:
        """Start every eternal task."""
        for feed in feeds.GANGS:
            synced = functools.partial(self._synced, feed.resource.label)
            eternal.start(
                f"feed {feed.resource.label}",
                feeds.run(self._api, feed, self._owner.post, synced, self._metrics.api),
            )
        cluster = self._told.cluster
        watched = lease.feed(cluster.namespace, cluster.lease)
        eternal.start(
            "feed lease",
            feeds.run(self._api, watched, self._leadership.seen, lambda: None, self._metrics.api),
        )
        eternal.start("owner", self._owner.run())
        eternal.start("activity", self._leadership.watch_the_clock())
        eternal.start("lag", lag.measure(self._metrics.api.loop_lag))

    def _not_ready(self) -> str | None:
        """What has not been listed yet."""
        return f"waiting for {', '.join(sorted(self._unsynced))}" if self._unsynced else None

    def _synced(self, what: str) -> None:
        self._unsynced.discard(what)
        if not self._unsynced:
            LOG.info("ready")
            self._owner.post(gm.Synced())

    def _activity_changed(self, active: bool) -> None:
        self._metrics.active(active)
        LOG.info("this replica acts" if active else "this replica does not act")
        self._owner.post(messages.ActivityChanged(active))

    async def _stop(self, _app: web.Application) -> None:
        await self._owner.stop(STOP_SECONDS)
