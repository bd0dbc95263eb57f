"""What an eviction costs those who lose by it, for whom it is, and who else was considered: the record of a decision.

Takes a draft and its case, gives one record a group; must not decide. Of the others there are numbers by what spared or
protected them, and the first few names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from extender.core.choosing import lost_seconds, saved_at
from extender.core.draft import Case, Unit
from extender.core.eligible import Holder, Terms
from extender.core.ids import GroupKey, NodeName, QueueName
from extender.core.model import Pod
from extender.core.planning import Plan
from extender.core.reasons import Detail, Ground
from extender.core.world import World


@dataclass(frozen=True, slots=True)
class Loss:
    """What one group loses, by which rule, and why in numbers and names."""

    group: GroupKey
    ground: Ground
    pods: tuple[Pod, ...]
    detail: Detail


#: so many of a kind are named
NAMED = 3


def losses(
    world: World, key: GroupKey, case: Case, units: Iterable[Unit], plan: Plan, barred: Iterable[tuple[str, str]]
) -> Iterator[Loss]:
    """The losses of all groups of which somebody goes for the group `key`. `barred`: by what others are protected."""
    of: dict[GroupKey, list[Pod]] = {}
    for unit in units:
        of.setdefault(unit[0].group, []).extend(unit)
    others = _others(case, of.keys(), {node for _, node in plan.places}, tuple(barred))
    for group, pods in of.items():
        holder = case.holders[group]
        on_terms = case.terms.get(holder.queue)
        ground = Ground.PREEMPTED if on_terms is None else Ground.RECLAIMED
        detail = (*_detail(world, key, case, holder, on_terms, pods), *others)
        yield Loss(group, ground, tuple(pods), detail)


def _others(case: Case, gone: Set[GroupKey], nodes: Set[NodeName], barred: tuple[tuple[str, str], ...]) -> Detail:
    """Who else was considered, and why nobody of them goes."""
    highest: dict[QueueName, int] = {}
    for key in gone:
        holder = case.holders[key]
        highest[holder.queue] = max(holder.priority, highest.get(holder.queue, holder.priority))
    stay = [holder for key, holder in case.holders.items() if key not in gone]
    spared = tuple((_spared(case, holder, highest, nodes), holder.name) for holder in stay)
    found: Detail = (("considered", len(case.holders) + len(barred)),)
    found += (("spared", _told(spared)),) if spared else ()
    return found + ((("protected", _told(barred)),) if barred else ())


def _spared(case: Case, holder: Holder, highest: Mapping[QueueName, int], nodes: Set[NodeName]) -> str:
    """Why a group that may go stays, in the order in which victims are preferred."""
    if holder.queue not in case.terms and any(queue in case.terms for queue in highest):
        return "of its own queue"
    if holder.priority > highest.get(holder.queue, holder.priority):
        return "of higher priority"
    if all(pod.node not in nodes for pod in holder.pods):
        return "on other nodes"
    return "would lose more, or help less"


def _told(pairs: tuple[tuple[str, str], ...]) -> str:
    of: dict[str, list[str]] = {}
    for kind, name in sorted(pairs):
        of.setdefault(kind, []).append(name)
    return "; ".join(f"{len(names)} {kind}: {' '.join(_few(names))}" for kind, names in of.items())


def _few(names: list[str]) -> list[str]:
    return names if len(names) <= NAMED else [*names[:NAMED], "..."]


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
