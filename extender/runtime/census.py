"""Counts of groups, strays, and nodes that are overcommitted or cannot be read, for the metrics, at a steady pace.

Takes the engine to read, gives figures; must not change anything.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from extender.core.engine import Engine
from extender.core.reasons import Reason
from extender.telemetry import logs

LOG = logs.Log(__name__)
#: an overcommit by a concurrent foreign binding is reported within this time
PERIOD_SECONDS = 1.0
NAMED_NODES = 5
#: what takes longer than a filter answer may wait, as counting anew what queues use or looking at all nodes, is done in
#: every so manieth round
USAGE_ROUNDS = 10
SEEN = "Seen"


class Metrics(Protocol):
    """Where the figures go."""

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


async def take(engine: Engine, metrics: Metrics) -> None:
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
        if number % USAGE_ROUNDS == 0:
            metrics.usage_difference(engine.check_usage())
            unread = _tell_unread(engine, metrics, unread)
            metrics.fragmented(engine.view.fragmented())
            wrong = _network(engine, metrics, wrong)
        over = _overcommits(engine)
        metrics.overcommitted(Counter(over.values()))
        if over:
            LOG.warning("more is bound to nodes than they have", nodes=list(over)[:NAMED_NODES], number=len(over))
        for name in _news(told, over):
            LOG.info("what becomes of an overcommitted node", node=name, outlook=over[name])
        told = over


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


def _overcommits(engine: Engine) -> Mapping[str, str]:
    """Each overcommitted node, and what becomes of it; a replica that does not act, or not yet, has only seen it."""
    outlooks = engine.overcommits
    return {name: outlooks.get(name, SEEN) for name in engine.world.overcommitted()}
