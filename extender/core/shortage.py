"""Why demands found no place: the refusals of placement, with exact numbers.

Takes what placement looked at after it failed, gives a refusal; must not try placements of its own beyond
counting how many members a domain would take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from extender.core import matching, packing
from extender.core.ids import TaskName
from extender.core.matching import Ints, Mask
from extender.core.model import Shape
from extender.core.packing import Ask, Field
from extender.core.reasons import Detail, Reason, Refusal
from extender.core.snapshot import Room
from extender.core.topology import Domains

#: in so many of the likeliest domains the members that fit are counted
_COUNTED = 8


class Named(Protocol):
    """What a refusal says of a demand."""

    @property
    def task(self) -> TaskName:
        """The task that the pods belong to."""

    @property
    def member(self) -> str:
        """The name of one of the pods, if it exists."""

    @property
    def shape(self) -> Shape:
        """What each of the pods asks for."""


def of_nodes(room: Room, demands: Sequence[Named], asks: Sequence[Ask]) -> Refusal | None:
    """The refusal when a demand has no node by its constraints, or none that it was offered."""
    for demand, ask in zip(demands, asks, strict=True):
        if not ask.count or ask.mask.any():
            continue
        if ask.want.mask.any():
            return Refusal(Reason.SCHEDULER_REFUSED, _task(demand))
        facts = room.snapshot.facts
        why = matching.unmatched(demand.shape.constraints, facts, facts.roster.alive)
        return Refusal(Reason.CONSTRAINTS, (*_blocker(demands, demand), *why))
    return None


def of_room(room: Room, demands: Sequence[Named], asks: Sequence[Ask]) -> Refusal:
    """Too little of a resource on the nodes that fit, or enough in sum that is in pieces too small."""
    worst: tuple[float, Refusal] | None = None
    for demand, ask in zip(demands, asks, strict=True):
        worst = _worse(worst, _lacking(room, [ask], _blocker(demands, demand)))
    worst = worst or _lacking(room, asks, ())
    if worst is not None:
        return worst[1]
    for demand, ask in zip(demands, asks, strict=True):
        fit = int(ask.capacity(room.free, ask.mask, room.cards).sum())
        if fit < ask.count:
            device = _device(room, ask)
            if device is not None:
                return Refusal(Reason.DEVICE_NO_FIT, (*_blocker(demands, demand), *device))
            small = _too_small(room, ask)
            if small is not None:
                return Refusal(Reason.RESOURCES, (*_blocker(demands, demand), *small))
            detail = (*_amount(room, ask), ("asked", ask.count), ("fit", fit))
            return Refusal(Reason.FRAGMENTED, (*_blocker(demands, demand), *detail))
    everything = Field(room.free, room.snapshot.facts.roster.order, asks, room.cards)
    asked, fit = sum(ask.count for ask in asks), packing.fitting_count(everything)
    return Refusal(Reason.FRAGMENTED, (("asked", asked), ("fit", min(fit, asked - 1))))


def of_domains(
    room: Room, asks: Sequence[Ask], capacities: Sequence[Ints], domains: Domains, home: int | None
) -> Refusal:
    """There is room, but in no single domain: which would take most, and how many.

    Where nodes that bear no label of the level would make the difference, that is the reason.
    """
    level = domains.keys[-1]
    asked = sum(ask.count for ask in asks)
    if not domains.paths:
        everywhere = room.snapshot.facts.roster.order
        return _unlabelled(room, asks, domains, everywhere[:0]) or Refusal(
            Reason.TOPOLOGY, (("level", level), ("asked", asked), ("fit", 0))
        )
    if home is not None:
        best, fit = home, _fitting(room, asks, domains, home)
    else:
        hopes = np.zeros(len(domains.paths), dtype=np.int64)
        for capacity, ask in zip(capacities, asks, strict=True):
            hopes += np.minimum(domains.sums(capacity), ask.count)
        likely = np.argsort(-hopes, kind="stable")[:_COUNTED].tolist()
        fits = [_fitting(room, asks, domains, domain) for domain in likely]
        fit = max(fits)
        best = likely[fits.index(fit)]
    unlabelled = _unlabelled(room, asks, domains, domains.rows(best))
    if unlabelled is not None:
        return unlabelled
    path = "/".join(domains.paths[best])
    detail = (("level", level), ("domain", path), ("asked", asked), ("fit", min(fit, asked - 1)))
    return Refusal(Reason.TOPOLOGY, detail)


def _unlabelled(room: Room, asks: Sequence[Ask], domains: Domains, inside: Ints) -> Refusal | None:
    """The refusal when there would be room if all nodes that lack a label of the level stood in this domain too."""
    facts = room.snapshot.facts
    usable = np.logical_or.reduce([ask.mask for ask in asks]) & (domains.ids < 0)
    lacking = facts.roster.order[usable[facts.roster.order]]
    asked = sum(ask.count for ask in asks)
    both = np.concatenate([inside, lacking])
    both = both[np.argsort(facts.roster.rank[both])]
    if not len(lacking) or packing.fitting_count(Field(room.free, both, asks, room.cards)) < asked:
        return None
    without = {key: int((~facts.level(key).present[lacking]).sum()) for key in reversed(domains.keys)}
    label = max(without, key=without.__getitem__)
    detail = (("level", domains.keys[-1]), ("label", label), ("unlabelled", without[label]), ("asked", asked))
    return Refusal(Reason.UNLABELLED, detail)


def _fitting(room: Room, asks: Sequence[Ask], domains: Domains, domain: int) -> int:
    return packing.fitting_count(Field(room.free, domains.rows(domain), asks, room.cards))


def _task(demand: Named) -> Detail:
    return (("task", demand.task),) if demand.task else ()


def _blocker(demands: Sequence[Named], demand: Named) -> Detail:
    """Which part of the group it is: its task, and one member's name where others ask for something else."""
    told = len(demands) > 1 and demand.member
    return (*_task(demand), ("member", demand.member)) if told else _task(demand)


def _too_small(room: Room, ask: Ask) -> Detail | None:
    """The resource of which one pod asks for more than any node has that it accepts."""
    for column, amount in ask.want.asked:
        largest = int(room.snapshot.allocatable[ask.mask, column].max())
        if largest < amount:
            name = room.snapshot.columns.names[column]
            return (("resource", name), ("asked", amount), ("largest", largest), ("problem", "no node is so large"))
    return None


def _device(room: Room, ask: Ask) -> Detail | None:
    """What the cards lack of nodes that have all else; None when all else is lacking too."""
    request = ask.want.cards
    if request is None or room.cards is None:
        return None
    beside = replace(ask, want=replace(ask.want, cards=None)).capacity(room.free, ask.mask)
    if int(beside.sum()) < ask.count:
        return None
    return room.cards.lacking(request, np.flatnonzero(beside), room.snapshot.names)


def _amount(room: Room, ask: Ask) -> Detail:
    """What one pod asks for, of the resource of which it asks the largest share."""
    column = ask.want.dominant
    amount = next(amount for asked, amount in ask.want.asked if asked == column)
    return (("resource", room.snapshot.columns.names[column]), ("each", amount))


def _worse(one: tuple[float, Refusal] | None, other: tuple[float, Refusal] | None) -> tuple[float, Refusal] | None:
    if one is None or other is None:
        return one or other
    return other if other[0] > one[0] else one


def _lacking(room: Room, asks: Sequence[Ask], part: Detail) -> tuple[float, Refusal] | None:
    """The resource that these asks together lack most, as the ratio of asked to free and its refusal.

    What no node offers comes before what is only short.
    """
    asked: dict[str, int] = {}
    usable: dict[str, Mask] = {}
    names = room.snapshot.columns.names
    asks = [ask for ask in asks if ask.count]  # the nodes of a task that needs none are of no use to the others
    for ask in asks:
        requested = [(names[column], amount) for column, amount in ask.want.asked]
        for name, amount in (*requested, *ask.want.unknown):
            asked[name] = asked.get(name, 0) + amount * ask.count
            usable[name] = usable[name] | ask.mask if name in usable else ask.mask
    free = {name: room.usable_on(rows, name) for name, rows in usable.items()}
    unknown = {name for ask in asks for name, _ in ask.want.unknown}
    ratios = {
        name: float("inf") if name in unknown else asked[name] / max(free[name], 1)
        for name in asked
        if asked[name] > free[name]
    }
    if not ratios:
        return None
    name = max(sorted(ratios), key=ratios.__getitem__)
    detail = (*part, ("resource", name), ("asked", asked[name]), ("free", free[name]))
    if name in unknown:
        detail += (("problem", "no node offers it"),)
    return ratios[name], Refusal(Reason.RESOURCES, detail)
