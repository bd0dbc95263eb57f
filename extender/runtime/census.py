"""Counts of groups, strays, GPUs, and nodes that are overcommitted or cannot be read, at a steady pace.

Takes the engine to read, gives figures to the metrics and to the series of live answers; must not change anything, but
that it takes note of what has started.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from extender.core import utilisation
from extender.core.engine import Engine
from extender.core.reasons import Reason
from extender.core.series import STATES, Series, Start
from extender.telemetry import logs

LOG = logs.Log(__name__)
#: an overcommit by a concurrent foreign binding is reported within this time
PERIOD_SECONDS = 1.0
NAMED_NODES = 5
#: what costs more, as counting anew what queues use or looking at all nodes, is done in every so manieth round
USAGE_ROUNDS = 10
SEEN = "Seen"


_FRAGMENTED = STATES.index("fragmented")


class Gpus(Protocol):
    """Where figures of GPUs go, and of starts."""

    def show(self, pools: Mapping[str, Sequence[float]], queues: Mapping[str, Sequence[float]]) -> None:
        """What becomes of the GPUs of each pool, and of each queue."""

    def oldest(self, seconds: Mapping[str, float]) -> None:
        """For how long the oldest group of each queue has waited."""

    def started(self, starts: Collection[Start]) -> None:
        """These groups have started."""


class Metrics(Protocol):
    """Where the other figures go."""

    @property
    def gpus(self) -> Gpus:
        """Figures by pool and queue."""

    def groups(self, by_phase: Counter[str], waiting: Counter[Reason]) -> None:
        """How many groups there are, and why those that wait do."""

    def strays(self, number: int) -> None:
        """How many strays there are."""

    def ledger_difference(self, number: int) -> None:
        """On how many pods ledger and watches disagree."""

    def usage_difference(self, number: int) -> None:
        """In how many queues usage and watches disagree."""

    def fragmented(self, gpus: float) -> None:
        """How many GPUs are free and of no use to the workload."""

    def levels(self, domains: Mapping[str, int], unlabelled: Mapping[str, int], problems: int) -> None:
        """How many domains each level of the network has and how many nodes lack it; objects that make no sense."""

    def overcommitted(self, by_outlook: Counter[str]) -> None:
        """On how many nodes with pods of ours more is used than there is, by what becomes of them."""

    def unreadable(self, number: int) -> None:
        """Of how many nodes something cannot be read."""


async def take(engine: Engine, metrics: Metrics, series: Series, wall: Callable[[], float]) -> None:
    """Count for ever."""
    told: Mapping[str, str] = {}
    unread: Mapping[str, str] = {}
    wrong: Mapping[str, str] = {}
    for number in itertools.count():
        await asyncio.sleep(PERIOD_SECONDS)
        phases: Counter[str] = Counter()
        waiting: Counter[Reason] = Counter()
        for entry in engine.entries.values():
            phases["running" if entry.running else "waiting" if entry.refusal else "starting"] += 1
            if entry.refusal is not None:
                waiting[entry.refusal.reason] += 1
        metrics.groups(phases, waiting)
        metrics.strays(engine.backlog.strays.total())
        metrics.ledger_difference(engine.self_check())
        _starts(engine, metrics.gpus, series, wall())
        if number % USAGE_ROUNDS == 0:
            await _usage(engine, metrics)
            unread = _tell_unread(engine, metrics, unread)
            await _gpus(engine, metrics, series, wall)
            wrong = _network(engine, metrics, wrong)
        over = _overcommits(engine)
        metrics.overcommitted(Counter(over.values()))
        if over:
            LOG.warning("more is bound to nodes than they have", nodes=list(over)[:NAMED_NODES], number=len(over))
        for name in _news(told, over):
            LOG.info("what becomes of an overcommitted node", node=name, outlook=over[name])
        told = over


async def _usage(engine: Engine, metrics: Metrics) -> None:
    """Tell whether what queues use was kept up rightly, with a turn for filter calls after each step."""
    for found in engine.check_usage():
        if found is not None:
            metrics.usage_difference(found)
        await asyncio.sleep(0)


def _news(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Some of those of which something else is said than before."""
    return [name for name in now if before.get(name) != now[name]][:NAMED_NODES]


def _tell_unread(engine: Engine, metrics: Metrics, before: Mapping[str, str]) -> Mapping[str, str]:
    """Count the nodes of which something cannot be read, and name those that were not named before; all of them."""
    unread = {
        str(node.name): node.problems[0] for node in engine.world.nodes.nodes if node is not None and node.problems
    }
    metrics.unreadable(len(unread))
    for name in _news(before, unread):
        LOG.warning("something of a node cannot be read", node=name, problem=unread[name])
    return unread


def _network(engine: Engine, metrics: Metrics, told: Mapping[str, str]) -> Mapping[str, str]:
    """Tell of the levels of the network, and of objects that make no sense, each time that they do so otherwise."""
    levels, wrong = engine.view.levels(), dict(engine.view.network_problems())
    metrics.levels(
        {one.level: one.domains for one in levels}, {one.level: one.unlabelled for one in levels}, len(wrong)
    )
    for name in _news(told, wrong):
        LOG.warning("a HyperNode makes no sense, and something of it is left out", hypernode=name, problem=wrong[name])
    return wrong


def _starts(engine: Engine, gpus: Gpus, series: Series, now: float) -> None:
    """Take note of the groups that have started."""
    starts = list(engine.starts)
    engine.starts.clear()
    gpus.started(starts)
    series.started(now, starts)


async def _gpus(engine: Engine, metrics: Metrics, series: Series, wall: Callable[[], float]) -> None:
    """Tell what becomes of the GPUs, with a turn for filter calls between two sums. A replica that does not act knows
    of no plans: it tells nothing, so that the sums over both replicas are true."""
    active, now = engine.active, wall()
    pools = utilisation.of_pools(engine) if active else {}
    await asyncio.sleep(0)
    queues = utilisation.of_queues(engine) if active else {}
    await asyncio.sleep(0)
    metrics.gpus.show(pools, queues)
    metrics.gpus.oldest(utilisation.oldest(engine, now) if active else {})
    metrics.fragmented(sum(figures[_FRAGMENTED] for figures in pools.values()))
    if active and series.due(now):
        series.note(now, pools, queues)


def _overcommits(engine: Engine) -> Mapping[str, str]:
    """Each overcommitted node, and what becomes of it; a replica that does not act, or not yet, has only seen it."""
    outlooks = engine.overcommits
    return {name: outlooks.get(name, SEEN) for name in engine.world.overcommitted()}
