"""Why demands found no place: the refusals of placement, with exact numbers.

Takes what placement looked at after it failed, gives a refusal; must not try placements of its own beyond
counting how many members a domain would take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from extender.core import packing
from extender.core.ids import TaskName
from extender.core.matching import Ints, Mask
from extender.core.packing import Ask, Field
from extender.core.reasons import Reason, Refusal
from extender.core.snapshot import Room
from extender.core.topology import Domains

#: in so many of the likeliest domains the members that fit are counted
_COUNTED = 8


class Named(Protocol):
    """What a refusal says of a demand."""

    @property
    def task(self) -> TaskName:
        """The task that the pods belong to."""


def of_nodes(demands: Sequence[Named], asks: Sequence[Ask]) -> Refusal | None:
    """The refusal when a demand has no node by its constraints, or none that it was offered."""
    for demand, ask in zip(demands, asks, strict=True):
        if ask.count and not ask.mask.any():
            reason = Reason.SCHEDULER_REFUSED if ask.want.mask.any() else Reason.CONSTRAINTS
            return Refusal(reason, _task(demand))
    return None


def of_room(room: Room, demands: Sequence[Named], asks: Sequence[Ask]) -> Refusal:
    """Too little of a resource on the nodes that fit, or enough in sum that is in pieces too small."""
    worst: tuple[float, Refusal] | None = None
    for demand, ask in zip(demands, asks, strict=True):
        worst = _worse(worst, _lacking(room, [ask], _task(demand)))
    worst = worst or _lacking(room, asks, ())
    if worst is not None:
        return worst[1]
    for demand, ask in zip(demands, asks, strict=True):
        fit = int(ask.capacity(room.free, ask.mask).sum())
        if fit < ask.count:
            return Refusal(Reason.FRAGMENTED, (*_task(demand), ("asked", ask.count), ("fit", fit)))
    everything = Field(room.free, room.snapshot.facts.roster.order, asks)
    asked, fit = sum(ask.count for ask in asks), packing.fitting_count(everything)
    return Refusal(Reason.FRAGMENTED, (("asked", asked), ("fit", min(fit, asked - 1))))


def of_domains(
    room: Room, asks: Sequence[Ask], capacities: Sequence[Ints], domains: Domains, home: int | None
) -> Refusal:
    """There is room, but in no single domain: which would take most, and how many."""
    level = domains.keys[-1]
    asked = sum(ask.count for ask in asks)
    if not domains.paths:
        return Refusal(Reason.TOPOLOGY, (("level", level), ("asked", asked), ("fit", 0)))
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
    path = "/".join(domains.paths[best])
    detail = (("level", level), ("domain", path), ("asked", asked), ("fit", min(fit, asked - 1)))
    return Refusal(Reason.TOPOLOGY, detail)


def _fitting(room: Room, asks: Sequence[Ask], domains: Domains, domain: int) -> int:
    return packing.fitting_count(Field(room.free, domains.rows(domain), asks))


def _task(demand: Named) -> tuple[tuple[str, str | int], ...]:
    return (("task", demand.task),) if demand.task else ()


def _worse(one: tuple[float, Refusal] | None, other: tuple[float, Refusal] | None) -> tuple[float, Refusal] | None:
    if one is None or other is None:
        return one or other
    return other if other[0] > one[0] else one


def _lacking(room: Room, asks: Sequence[Ask], task: tuple[tuple[str, str | int], ...]) -> tuple[float, Refusal] | None:
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
    detail = (*task, ("resource", name), ("asked", asked[name]), ("free", free[name]))
    if name in unknown:
        detail += (("problem", "no node offers it"),)
    return ratios[name], Refusal(Reason.RESOURCES, detail)
