"""Places for what a group wishes: for all of it, for the smallest start, and for the rest one by one.

Takes a wish, the cycle's room and what the queue may take, gives a plan or a refusal; uses up room and allowance for
what it places. Must not know the world nor change the ledger (the engine applies plans).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from extender.core import placement
from extender.core.allowance import Allowance, Barred
from extender.core.headroom import Behind
from extender.core.ids import NodeName
from extender.core.model import Part
from extender.core.planning import Member, Plan, Wish
from extender.core.reasons import ALSO, Kind, Reason, Refusal
from extender.core.snapshot import Room


def fulfil(wish: Wish, room: Room, allowance: Allowance) -> Plan | Refusal:
    """Place what the wish says; room and allowance are used up by what is placed, and untouched by a refusal."""
    places = _together(wish, wish.whole, room, allowance)
    surplus = wish.surplus
    if isinstance(places, Refusal) and wish.least:
        left = places
        places = _together(wish, wish.least, room, allowance)
        if isinstance(places, Refusal):
            return left
        started = {member.slot for member in wish.least}
        surplus = tuple(member for member in wish.whole if member.slot not in started)
    if isinstance(places, Refusal):
        return places if wish.missing is None else _besides(wish.missing, places)
    return _one_by_one(wish, surplus, places, room, allowance)


def begin(wish: Wish, room: Room, allowance: Allowance) -> Plan | Refusal:
    """As `fulfil`, but of a group that may start with less just the smallest part, where it is if all have a place."""
    if not wish.least:
        return fulfil(wish, room, allowance)
    aside = room.copy()
    places = _together(wish, wish.whole, aside, allowance.aside(aside))
    if isinstance(places, Refusal):
        whole = places
        places = _together(wish, wish.least, room, allowance)
        return whole if isinstance(places, Refusal) else Plan(tuple(places))
    least = {member.slot for member in wish.least}
    places = [(member, node) for member, node in places if member.slot in least]
    row_of, want = room.snapshot.row_of, room.snapshot.want
    for member, node in places:
        row, request = row_of[node], want(member.shape).request
        room.take(row, request)
        room.take_cards(row, member.shares)
        allowance.take([(member.shape, 1)])
        allowance.lend(((row, request),), [(member.shape, 1)])
    return Plan(tuple(places))


def _besides(missing: Refusal, places: Refusal) -> Refusal:
    """Of a group that lacks members and room that is the reason which would be so with room too."""
    if places.kind is Kind.NEVER or places.reason is Reason.SCHEDULER_REFUSED:
        return places
    return Refusal(missing.reason, (*missing.detail, (ALSO, places.reason.value), *places.detail))


def _together(
    wish: Wish, members: Sequence[Member], room: Room, allowance: Allowance
) -> list[tuple[Member, NodeName]] | Refusal:
    """A place for each of these. Where those that they replace stood comes first, if all have room there."""
    homing = [_at_home(member) for member in members]
    if any(narrowed is not member for narrowed, member in zip(homing, members, strict=True)):
        found = _placed(wish, homing, room, allowance)
        if not isinstance(found, Refusal):
            return found
    return _placed(wish, members, room, allowance)


def _at_home(member: Member) -> Member:
    if member.home is None or (member.allowed is not None and member.home not in member.allowed):
        return member
    return replace(member, allowed=frozenset((member.home,)))


def _placed(
    wish: Wish, members: Sequence[Member], room: Room, allowance: Allowance
) -> list[tuple[Member, NodeName]] | Refusal:
    alike: dict[tuple[object, ...], list[Member]] = {}
    for member in sorted(members, key=lambda member: member.index):  # neighbours by index are neighbours in the room
        alike.setdefault((member.task, member.shape, member.allowed, member.parts), []).append(member)
    demands = [_demand(room, equals[0], len(equals)) for equals in alike.values()]
    if not demands:
        return []
    asked = [(demand.shape, demand.count) for demand in demands]
    refused = allowance.refusal(asked)
    if refused is not None:
        return refused
    snapshot = room.snapshot
    rows, standing = snapshot.rows(wish.fixed), _rows_of_parts(wish, room)

    def place(demands: Sequence[placement.Demand], room: Room) -> placement.Placement | Refusal:
        levels = (wish.required, wish.preferred)
        return placement.place(room, demands, fixed=rows, required=levels[0], preferred=levels[1], standing=standing)

    barred, left = allowance.barred(asked), allowance.behind.narrowed(room)
    apart = demands if barred is None else [_outside(demand, barred) for demand in demands]
    found = place(apart, left or room)
    if isinstance(found, Refusal):
        return _blamed(found, demands, apart, barred, left, room, allowance.behind, place)
    found.take(room)
    allowance.take(asked)
    requests = [snapshot.want(demand.shape).request for demand in demands]
    allowance.lend(((row, req) for req, to in zip(requests, found.rows, strict=True) for row in to), asked)
    return [
        (replace(member, shares=shares) if shares else member, name)
        for number, equals in enumerate(alike.values())
        for member, row, shares in zip(equals, found.rows[number], found.shares_of(number), strict=True)
        if (name := snapshot.names[row]) is not None
    ]


def _blamed(
    found: Refusal,
    demands: Sequence[placement.Demand],
    apart: Sequence[placement.Demand],
    barred: Barred | None,
    left: Room | None,
    room: Room,
    behind: Behind,
    place: Callable[[Sequence[placement.Demand], Room], placement.Placement | Refusal],
) -> Refusal:
    """Why these have no place: there is none at all, or it is kept for others."""
    if barred is None and left is None:
        return found
    anywhere = place(demands, room)
    if isinstance(anywhere, Refusal):
        return anywhere
    if barred is not None and (left is None or isinstance(place(apart, room), Refusal)):
        return Refusal(Reason.RESERVED, (("for", str(barred.by)),))
    return behind.refusal(lambda less: not isinstance(place(apart, less), Refusal), room)


def _demand(room: Room, member: Member, count: int) -> placement.Demand:
    allowed = None if member.allowed is None else room.snapshot.mask(member.allowed)
    return placement.Demand(member.shape, count, member.task, allowed, member.name, member.parts)


def _rows_of_parts(wish: Wish, room: Room) -> dict[Part, list[int]]:
    found: dict[Part, list[int]] = {}
    for part, node in wish.standing:
        found.setdefault(part, []).extend(room.snapshot.rows((node,)))
    return found


def _beside(wish: Wish, places: Sequence[tuple[Member, NodeName]]) -> Wish:
    """The same wish where these stand too."""
    nodes = (*wish.fixed, *(node for _, node in places))
    parts = ((part, node) for member, node in places for part in member.parts)
    return replace(wish, fixed=nodes, standing=(*wish.standing, *parts))


def _outside(demand: placement.Demand, barred: Barred) -> placement.Demand:
    allowed = ~barred.rows if demand.allowed is None else demand.allowed & ~barred.rows
    return replace(demand, allowed=allowed)


def _one_by_one(
    wish: Wish,
    surplus: Sequence[Member],
    places: list[tuple[Member, NodeName]],
    room: Room,
    allowance: Allowance,
) -> Plan:
    """As many of the surplus as have a place: all at once if that goes, which is how they are closest together; else
    slices of which nobody stands yet, each whole; then each member for itself."""
    left: dict[tuple[object, ...], Refusal] = {}
    waiting = {member.slot: member for member in surplus}
    for together in ([surplus] if len(surplus) > 1 else []), _new_slices(wish, surplus):
        for members in together:
            found = _together(_beside(wish, places), members, room, allowance)
            if not isinstance(found, Refusal):
                places += found
                waiting = {slot: member for slot, member in waiting.items() if slot not in {m.slot for m in members}}
        if not waiting:
            return Plan(tuple(places))
    for member in waiting.values():
        alike = (member.shape, member.allowed, member.parts)
        if alike in left:
            continue
        found = _together(_beside(wish, places), (member,), room, allowance)
        if isinstance(found, Refusal):
            left[alike] = found
        else:
            places += found
    return Plan(tuple(places), next(iter(left.values()), None))


def _new_slices(wish: Wish, surplus: Sequence[Member]) -> list[list[Member]]:
    """The members of each slice of which nobody stands yet."""
    standing = {part for part, _ in wish.standing}
    slices: dict[Part, list[Member]] = {}
    for member in surplus:
        new = next((part for part in member.parts if part.divided and part not in standing), None)
        if new is not None:
            slices.setdefault(new, []).append(member)
    return [members for members in slices.values() if 1 < len(members) < len(surplus)]
