"""What can be seen of the network: which levels there are, and what a group got of them against what it asked for.

Takes the facts of the nodes and where members stand, gives numbers; must not decide. A node without the label of a
level is in no domain of it, and counts as one of its own where a group spans it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from extender.core.feasibility import Facts
from extender.core.ids import GroupKey, NodeName
from extender.core.membership import Need
from extender.core.model import Span
from extender.core.reasons import Refusal
from extender.core.world import World

#: so many levels are told of
LEVELS_SHOWN = 16


@dataclass(frozen=True, slots=True)
class LevelState:
    """One level: how many domains it has, and how many nodes are in none."""

    level: str
    domains: int
    unlabelled: int


def levels(facts: Facts) -> tuple[LevelState, ...]:
    """All levels that are declared or that nodes bear, each once."""
    found: dict[str, LevelState] = {}
    for keys in facts.levels.all(facts.borne):
        for end in range(1, len(keys) + 1):
            if len(found) == LEVELS_SHOWN:
                return tuple(found.values())
            domains = facts.domains(keys[:end])
            unlabelled = len(facts.roster.order) - len(domains.order)
            found.setdefault(keys[end - 1], LevelState(keys[end - 1], len(domains.paths), unlabelled))
    return tuple(found.values())


def of_group(facts: Facts, world: World, key: GroupKey, planned: Iterable[NodeName] = ()) -> Span | None:
    """Where a group's members stand that are bound, and those for which these nodes are planned."""
    need = world.need(key)
    bound = (pod.node for pod in world.members.get(key, {}).values() if pod.bound and pod.node is not None)
    return None if isinstance(need, Refusal) else span(facts, need, (*bound, *planned))


def span(facts: Facts, need: Need, nodes: Iterable[NodeName]) -> Span | None:
    """Where a group on these nodes stands; None when there are neither levels nor nodes."""
    asked = [
        None if one is None else facts.levels.level(one) for one in (need.topology_required, need.topology_preferred)
    ]
    keys = facts.chain(asked[1] or asked[0])
    rows = [facts.roster.row_of[node] for node in dict.fromkeys(nodes) if node in facts.roster.row_of]
    if not keys or not rows:
        return None
    counts: list[tuple[str, int]] = []
    level: str | None = None
    domain: tuple[str, ...] = ()
    for end in range(1, len(keys) + 1):
        domains = facts.domains(keys[:end])
        ids = domains.ids[rows]
        inside = np.unique(ids[ids >= 0])
        counts.append((keys[end - 1], len(inside) + int((ids < 0).sum())))
        if counts[-1][1] == 1 and len(inside):
            level, domain = keys[end - 1], domains.paths[int(inside[0])]
    return Span(asked[0], asked[1], tuple(counts), level, domain)
