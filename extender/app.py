"""The extender's composition root: what is made of what, and in which order it starts.

Takes settings, gives a running process; must not decide. The port opens first, so that probes are answered;
verbs answer with an Error until every list is read, the gate's holds are known and the scheduler is found fit.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import socket
import time
from collections.abc import Sequence

from extender import settings
from extender.core import messages
from extender.core.activity import Activity
from extender.core.engine import Engine
from extender.core.model import Lease
from extender.kube import client, effects, errors, feeds, lease, resources, scheduler, writes
from extender.runtime import census, lag, process, stopping, tasks
from extender.runtime.dispatcher import Dispatcher, Final, Transient
from extender.runtime.leadership import Leadership
from extender.runtime.owner import Owner
from extender.telemetry import logs
from extender.telemetry.metrics import ExtenderMetrics
from extender.web import serve, tls
from extender.web.gate_client import GateClient
from extender.web.verbs import BODY_LIMIT, Verbs
from extender.wire import objects

LOG = logs.Log(__name__)


def main(argv: Sequence[str]) -> int:
    """Run the extender until it is asked to stop; the exit status."""
    told = settings.read_extender(argv, socket.gethostname())
    logs.configure(told.logging)
    try:
        process.run(_serve(told))
    except (tasks.Fault, errors.Unconfigured, settings.Unusable, OSError) as error:
        LOG.error("the extender ends", fault=error)
        return 1
    return 0


async def _serve(told: settings.ExtenderSettings) -> None:
    metrics = ExtenderMetrics()
    cluster = told.cluster
    async with contextlib.AsyncExitStack() as stack:
        stop = stack.enter_context(stopping.asked_to_stop())
        api = await stack.enter_async_context(
            client.connect(cluster.kubeconfig, cluster.context, component="muster-extender", observer=metrics.api)
        )
        session = await stack.enter_async_context(tls.client_session(told.tls))
        parts = _Process(told, metrics, api, GateClient(session, told.gate))
        app = serve.application(
            [*parts.verbs.routes(), *serve.health_routes(parts.not_ready, metrics.registry)],
            body_limit=BODY_LIMIT,
        )
        await stack.enter_async_context(serve.serve(app, told.listen, told.tls))
        running = await stack.enter_async_context(tasks.Tasks())
        parts.start(running)
        await running.run_until(stop)


class _Process:
    """The parts and how they are joined."""

    def __init__(
        self, told: settings.ExtenderSettings, metrics: ExtenderMetrics, api: client.Api, gate: GateClient
    ) -> None:
        self._told = told
        self._metrics = metrics
        self._api = api
        self._gate = gate
        self._unsynced: set[str] = {"the gate's holds", "a fit kube-scheduler"}
        self._effects = effects.Effects(api, told.cluster.namespace, lambda: datetime.datetime.now(datetime.UTC))
        self._engine = Engine(told.nominate_above_nodes)
        self._dispatcher = Dispatcher(self._write, self._report)
        self._owner = Owner(self._engine, self._dispatcher.put, time.perf_counter, process.wall_clock(), metrics)
        self._leadership = Leadership(Activity(told.hostname), self._read_lease, time.monotonic, self._activity_changed)
        self.verbs = Verbs(self._engine, self._owner, self._leadership, metrics)

    def start(self, running: tasks.Tasks) -> None:
        """Start every eternal task."""
        cluster = self._told.cluster
        for feed in (*feeds.GANGS, *feeds.QUEUES, self._open_queues_feed()):
            label = feed.resource.label
            self._unsynced.add(label)
            running.start(
                f"feed {label}",
                feeds.run(
                    self._api,
                    feed,
                    self._owner.post,
                    functools.partial(self._synced, label),
                    self._metrics.api,
                ),
            )
        running.start(
            "feed lease",
            feeds.run(
                self._api,
                lease.feed(cluster.namespace, cluster.lease),
                self._leadership.seen,
                lambda: None,
                self._metrics.api,
            ),
        )
        scheduler_fits = functools.partial(self._synced, "a fit kube-scheduler")
        running.start("scheduler", scheduler.follow(self._api, self._told.scheduler, scheduler_fits))
        running.start("owner", self._owner.run())
        running.start("dispatcher", self._dispatcher.run())
        running.start("holds", self._gate.follow_holds(self._holds_seen))
        running.start("activity", self._leadership.watch_the_clock())
        running.start("census", census.take(self._engine, self._metrics))
        running.start("lag", lag.measure(self._metrics.api.loop_lag))

    def not_ready(self) -> str | None:
        """What has not been read or found yet."""
        return f"waiting for {', '.join(sorted(self._unsynced))}" if self._unsynced else None

    def _open_queues_feed(self) -> feeds.Feed:
        return feeds.Feed(
            resources.config_map(self._told.cluster.namespace, writes.OPEN_QUEUES),
            lambda content: messages.OpenQueuesSeen(objects.decode_open_queues(content)),
            lambda _: messages.OpenQueuesSeen(None),
        )

    def _synced(self, what: str) -> None:
        self._unsynced.discard(what)
        if not self._unsynced and not self.verbs.ready:
            self.verbs.ready = True
            LOG.info("ready")
            self._owner.post(messages.ActivityChanged(self._leadership.active))

    def _holds_seen(self, event: messages.HoldsSeen) -> None:
        self._owner.post(event)
        self._synced("the gate's holds")

    def _activity_changed(self, active: bool) -> None:
        self._metrics.active(active)
        LOG.info("this replica acts" if active else "this replica does not act")
        if self.verbs.ready:
            self._owner.post(messages.ActivityChanged(active))

    async def _read_lease(self) -> Lease | None:
        return await lease.read_lease(self._api, self._told.cluster.namespace, self._told.cluster.lease)

    async def _write(self, effect: messages.Effect) -> None:
        if not self._engine.active:
            raise Final("this replica no longer acts")
        if isinstance(effect, messages.Withdraw):
            await self._gate.withdraw(effect.uids)
            return
        try:
            await self._effects.write(effect)
        except errors.KubeError as error:
            again = effects.retry_of(error)
            if again is None:
                raise Final(str(error)) from error
            raise Transient(str(error), again) from error

    def _report(self, event: messages.EffectDone) -> None:
        self._owner.post(event)
