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
from extender.answering import Answering
from extender.core import messages
from extender.core.reasons import Reason
from extender.core.series import Series
from extender.kube import client, effects, errors, feeds, resources, scheduler
from extender.replica import Replica
from extender.runtime import census, journal, process, stopping, tasks
from extender.runtime.dispatcher import Dispatcher, Final, Transient
from extender.runtime.evictions import Evictions
from extender.runtime.owner import TURNS, Owner
from extender.showing import Showing
from extender.telemetry.metrics import ExtenderMetrics
from extender.web import serve, tls
from extender.web.gate_client import GateClient
from extender.web.verbs import BODY_LIMIT, Verbs
from extender.wire import objects, small
from extender.wire.journal import Settings

#: what is awaited beside the lists, as /readyz names it
_HOLDS, _SCHEDULER = "the gate's holds", "a fit kube-scheduler"


def main(argv: Sequence[str]) -> int:
    """Run the extender until it is asked to stop; the exit status."""
    told = settings.read_extender(argv, socket.gethostname())
    return process.main("the extender", told.logging, _serve(told))


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
        await stack.enter_async_context(serve.metrics(metrics.registry, told.metrics_listen))
        stack.callback(parts.close)
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
        self._effects = effects.Effects(api, told.cluster.namespace, lambda: datetime.datetime.now(datetime.UTC))
        made_of = Settings(told.nominate_above_nodes, TURNS)
        self._engine = made_of.engine()
        self._dispatcher = Dispatcher(self._write, self._report)
        self._wall = process.wall_clock()
        self._series = Series()
        self._showing = None if told.page is None else self._show(told.page)
        self._evictions = Evictions(metrics, self._wall)
        self._journal = self._recording(told.decision_log, made_of)
        record = None if self._journal is None else self._journal.handled
        self._owner = Owner(self._engine, self._carry_out, time.perf_counter, self._wall, metrics, record)
        self._replica = Replica(
            api,
            told,
            metrics,
            (*feeds.GANGS, *feeds.QUEUES, self._open_queues_feed()),
            self._owner.post,
            ready=self._ready,
            acts=self._acts,
            awaited=(_HOLDS, _SCHEDULER),
            wall=self._wall,
        )
        self.not_ready = self._replica.not_ready
        self.verbs = Verbs(self._engine, self._owner, self._replica.leadership, metrics, self._replica.makers.hear)

    def start(self, running: tasks.Tasks) -> None:
        """Start every eternal task."""
        self._replica.start(running)
        scheduler_fits = functools.partial(self._replica.found, _SCHEDULER)
        running.start("scheduler", scheduler.follow(self._api, self._told.scheduler, scheduler_fits))
        running.start("owner", self._owner.run())
        running.start("dispatcher", self._dispatcher.run())
        running.start("holds", self._gate.follow_holds(self._holds_seen))
        running.start("census", census.take(self._engine, self._metrics, self._series, self._wall))
        if self._told.answers is not None:
            self._answering(self._told.answers).start(running)
        if self._showing is not None:
            self._showing.start(running)

    def _show(self, told: settings.Page) -> Showing:
        return Showing(
            *(self._api, told, self._engine, self._series),
            silent=self._silent,
            wall=self._wall,
            metrics=self._metrics,
        )

    def close(self) -> None:
        """Nothing is handled any more."""
        if self._journal is not None:
            self._journal.close()

    def _recording(self, told: settings.DecisionLog | None, made_of: Settings) -> journal.Journal | None:
        return None if told is None else journal.Journal(journal.room(told), self._engine, made_of, self._metrics)

    def _answering(self, told: settings.Answers) -> Answering:
        return Answering(
            self._api,
            told,
            self._engine,
            self._series,
            silent=self._silent,
            wall=self._wall,
            metrics=self._metrics,
            observer=self._metrics.api,
        )

    def _silent(self) -> Reason | None:
        """Why there are no answers now."""
        if not self.verbs.ready:
            return Reason.NOT_READY
        return None if self._engine.active else Reason.INACTIVE

    def _open_queues_feed(self) -> feeds.Feed:
        return feeds.Feed(
            resources.config_map(self._told.cluster.namespace, small.OPEN_QUEUES),
            lambda content: messages.OpenQueuesSeen(objects.decode_open_queues(content)),
            lambda _: messages.OpenQueuesSeen(None),
        )

    def _holds_seen(self, event: messages.HoldsSeen) -> None:
        self._owner.post(event)
        self._replica.found(_HOLDS)

    def _ready(self) -> None:
        self.verbs.ready = True
        self._acts(self._replica.leadership.active)

    def _acts(self, active: bool) -> None:
        if self.verbs.ready:
            self._owner.post(messages.ActivityChanged(active))

    def _carry_out(self, effect: messages.Effect, cause: str) -> None:
        self._dispatcher.put(effect, cause)

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
        if isinstance(event.effect, messages.Evict) and not event.error:
            self._evictions.done(event.effect.ground, self._engine.world.pods.get(event.effect.uid))
        self._owner.post(event)
