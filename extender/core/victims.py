"""Which pods go so that an overcommitted node fits again: the fewest, and never a part of a gang.

Takes a case (a node, what must leave it, who may go at all), gives pods or none; must not decide whether anybody
is to be evicted. Design invariant 1: an eviction leaves of a group none, or at least every minimum. So a member goes
singly while the minimums stay reached without it, and else the group goes as a whole or not at all.

Not the least number in every case (that would be a search over all subsets): step by step the smallest unit is
taken that makes the node fit, or, if none of that size does, the one that helps most; at the end, whoever turned out
not to be needed stays. For one resource and pods that go singly that is the least number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from extender.core.ids import GroupKey, NodeName, PodUid
from extender.core.membership import STARTED, Standing, standing
from extender.core.model import Pod
from extender.core.reasons import Refusal
from extender.core.resources import Row
from extender.core.world import World

#: pods that go together
Unit = tuple[Pod, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One node that has too much on it."""

    world: World
    node: NodeName
    #: what must leave the node, by column; never negative
    excess: Row
    #: bound pods that are leaving already, though the watch does not show it
    going: Set[PodUid]
    #: whether a bound pod may be evicted as far as it alone is concerned
    may_go: Callable[[Pod], bool]
    #: whether members of a group may be bound at any moment: then it cannot go as a whole
    starting: Callable[[GroupKey], bool]


def choose(case: Case) -> Sequence[Pod]:
    """The pods to evict; () when no choice of those that may go makes the node fit."""
    there = case.world.on_node.get(case.node, {}).values()
    candidates = [pod for pod in there if standing(pod) is Standing.BOUND and _may_go(case, pod)]
    if _left(case, [tuple(candidates)]).any():
        return ()
    picked: list[Unit] = []
    left = case.excess
    while left.any():
        taken = _pods(picked)
        units = _units(case, candidates, taken)
        if not units:
            return ()
        picked.append(min(units, key=lambda unit: _order(case, unit, taken, left)))
        left = _left(case, picked)
    return _needed(case, picked)


def _may_go(case: Case, pod: Pod) -> bool:
    return pod.uid not in case.going and case.may_go(pod)


def _units(case: Case, candidates: list[Pod], taken: Mapping[PodUid, Pod]) -> list[Unit]:
    """What may go next: members of groups that can spare them singly, other groups as wholes."""
    wholes: dict[GroupKey, Unit] = {}
    units: list[Unit] = []
    for pod in candidates:
        if pod.uid in taken:
            continue
        if _spared(case, pod, taken):
            units.append((pod,))
        elif pod.group not in wholes:
            wholes[pod.group] = _whole(case, pod.group)
    return [unit for unit in [*units, *wholes.values()] if _relief(case, unit).any()]


def _spared(case: Case, pod: Pod, taken: Mapping[PodUid, Pod]) -> bool:
    """True when its group reaches every minimum without it and those that are going or taken."""
    if pod.group.lone:
        return True
    need, tally = case.world.need(pod.group), case.world.tallies[pod.group]
    if isinstance(need, Refusal):
        return False
    members = case.world.members[pod.group].values()
    gone = [pod.task]
    gone += [p.task for p in members if standing(p) is Standing.BOUND and (p.uid in case.going or p.uid in taken)]
    of = Counter(gone)
    left_of = {task: tally.count(*STARTED, task=task) - of[task] for task, _ in need.tasks}
    return need.missing(tally.count(*STARTED) - len(gone), left_of) == (0, {})


def _whole(case: Case, key: GroupKey) -> Unit:
    """All bound members of a group, those taken singly too; () when it cannot go as a whole."""
    bound = [pod for pod in case.world.members[key].values() if standing(pod) is Standing.BOUND]
    staying = [pod for pod in bound if pod.uid not in case.going]
    if case.starting(key) or not all(case.may_go(pod) for pod in staying):
        return ()
    return tuple(staying)


def _order(case: Case, unit: Unit, taken: Mapping[PodUid, Pod], left: Row) -> tuple[object, ...]:
    """Fewest pods; those that make the node fit, else what helps most; lowest priority; bound last."""
    news = [pod for pod in unit if pod.uid not in taken]
    gain, short = np.minimum(_relief(case, news), left), left > 0
    fits = bool((gain[short] == left[short]).all())
    share = 0.0 if fits else -float((gain[short] / left[short]).sum())
    newest = max(pod.bound_at or 0.0 for pod in news)
    return (len(news), not fits, share, max(pod.priority for pod in news), -newest, min(pod.uid for pod in news))


def _relief(case: Case, pods: Iterable[Pod]) -> Row:
    """What these take of what is in excess on the node."""
    total = np.zeros_like(case.excess)
    for pod in pods:
        if pod.node == case.node:
            request = case.world.request_row(pod)
            total[: len(request)] += request
    relief: Row = np.where(case.excess > 0, total, 0)
    return relief


def _left(case: Case, units: Iterable[Unit]) -> Row:
    """What is still in excess when these have gone."""
    left: Row = np.maximum(case.excess - _relief(case, _pods(units).values()), 0)
    return left


def _needed(case: Case, picked: list[Unit]) -> Sequence[Pod]:
    """The pods of those units that the others do not make needless; the largest is reprieved first."""
    kept = list(picked)
    for unit in sorted(picked, key=len, reverse=True):
        others = [other for other in kept if other is not unit]
        if not _left(case, others).any():
            kept = others
    return tuple(_pods(kept).values())


def _pods(units: Iterable[Unit]) -> dict[PodUid, Pod]:
    return {pod.uid: pod for unit in units for pod in unit}
