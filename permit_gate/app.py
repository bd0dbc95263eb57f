"""The permit gate's composition root: what is made of what, and in which order it starts and ends.

Takes settings, gives a running process; must not decide. The port opens first, so that probes are answered;
bind calls are refused until every list is read. At the end held calls are refused first, bindings under way
are finished, and only then the connections close.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
from aiohttp import web

from extender import settings
from extender.core import gate_messages as gm
from extender.core import messages
from extender.core.gate import Gate
from extender.core.world import World
from extender.kube import client, feeds
from extender.replica import Replica
from extender.runtime import process, stopping, tasks
from extender.telemetry.metrics import GateMetrics
from extender.web import serve, tls
from permit_gate.forwarding import Hami
from permit_gate.outside import Extender, Kubernetes
from permit_gate.owner import Owner
from permit_gate.web import BODY_LIMIT, Handlers

#: longer than the longest binding
STOP_SECONDS = 35.0


def main(argv: Sequence[str]) -> int:
    """Run the gate until it is asked to stop; the exit status."""
    told = settings.read_gate(argv, socket.gethostname())
    return process.main("the permit gate", told.logging, _serve(told))


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
        await stack.enter_async_context(serve.metrics(metrics.registry, told.metrics_listen))
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
        self._replica = Replica(api, told, metrics, feeds.GANGS, self._tell, ready=self._ready, acts=self._acts)
        self._owner = Owner(
            Gate(World(), told.http_timeout),
            Kubernetes(api, self._replica.makers, None if told.hami is None else Hami(session, told.hami)),
            Extender(session, told.extender),
            process.wall_clock(),
            metrics,
        )
        handlers = Handlers(self._owner, self._replica.leadership, metrics)
        metrics.oldest_hold(handlers.oldest)
        self.app = serve.application(
            [*handlers.routes(), *serve.health_routes(self._replica.not_ready, metrics.registry)], BODY_LIMIT
        )
        self.app.on_shutdown.append(self._stop)

    def start(self, eternal: tasks.Tasks) -> None:
        """Start every eternal task."""
        self._replica.start(eternal)
        eternal.start("owner", self._owner.run())

    def _tell(self, event: Any) -> None:
        self._owner.post(event)

    def _ready(self) -> None:
        self._owner.post(gm.Synced())

    def _acts(self, active: bool) -> None:
        self._owner.post(messages.ActivityChanged(active))

    async def _stop(self, _app: web.Application) -> None:
        await self._owner.stop(STOP_SECONDS)
