"""What an eviction costs those who lose by it, and for whom it is: the record of a decision.

Takes a draft and its case, gives one record a group; must not decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from extender.core.choosing import lost_seconds, saved_at
from extender.core.draft import Case, Unit
from extender.core.eligible import Holder, Terms
from extender.core.ids import GroupKey
from extender.core.model import Pod
from extender.core.reasons import Detail, Ground
from extender.core.world import World


@dataclass(frozen=True, slots=True)
class Loss:
    """What one group loses, by which rule, and why in numbers and names."""

    group: GroupKey
    ground: Ground
    pods: tuple[Pod, ...]
    detail: Detail


def losses(world: World, key: GroupKey, case: Case, units: Iterable[Unit]) -> Iterator[Loss]:
    """The losses of all groups of which somebody goes for the group `key`."""
    of: dict[GroupKey, list[Pod]] = {}
    for unit in units:
        of.setdefault(unit[0].group, []).extend(unit)
    for group, pods in of.items():
        holder = case.holders[group]
        on_terms = case.terms.get(holder.queue)
        ground = Ground.PREEMPTED if on_terms is None else Ground.RECLAIMED
        yield Loss(group, ground, tuple(pods), _detail(world, key, case, holder, on_terms, pods))


def _detail(world: World, key: GroupKey, case: Case, holder: Holder, on_terms: Terms | None, pods: list[Pod]) -> Detail:
    if on_terms is None:
        why: Detail = (("priority", holder.priority), ("by-priority", world.priority(key)))
    else:
        why = (("owed", "guarantee" if on_terms.guaranteed else "deserved"),)
    saved = saved_at(holder, case.now)
    lost = sum(int(lost_seconds(pod, saved or 0.0, case.now)) for pod in pods if pod.bound_at is not None)
    return (
        ("for", next(iter(world.members[key].values())).name if key.lone else key.name),
        ("namespace", key.namespace),
        ("queue", holder.queue),
        ("by-queue", case.queue),
        *why,
        ("evicted", len(pods)),
        ("of", len(holder.pods)),
        ("lost-seconds", lost),
        ("checkpoint", "none" if saved is None else f"{int(case.now - saved)} s old"),
    )
