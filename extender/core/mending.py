"""What would end a group's wait: the smallest change that is known to do, in numbers.

Takes a group that waits, with the plans, usage and room of this moment; gives changes as values. Must not change
anything, make sentences, or say how likely a change is.

All changes of one answer are needed together, and are enough as far as the group alone is concerned: who waits before
it is served first all the same. Where its pods are all alike, fewer than it names would not do; where they are not, the
answer may not be the least. What only a person can mend has no numbers beyond those of the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from extender.core import placing
from extender.core.allowance import Allowance, excesses
from extender.core.ids import NodeName, QueueName, TaskName
from extender.core.model import Part, Shape
from extender.core.planning import Entry, Member, Plan, Wish
from extender.core.plans import Plans
from extender.core.reasons import Detail, Reason, Refusal
from extender.core.resources import told
from extender.core.snapshot import Room
from extender.core.usage import Usage

#: so many nodes are named
_NAMED = 8
#: more room would end these
_ROOM = frozenset({Reason.RESOURCES, Reason.FRAGMENTED, Reason.TOPOLOGY, Reason.NO_VICTIMS, Reason.NODE_UNAVAILABLE})

_Kind = tuple[TaskName, Shape]


@dataclass(frozen=True, slots=True)
class Mend:
    """One change. Its words are those of the reason in `explain`, its numbers are `detail`."""

    reason: Reason
    detail: Detail = ()


def mends(
    plans: Plans, usage: Usage, queue: QueueName, entry: Entry, room: Callable[[], Room], now: float
) -> tuple[Mend, ...]:
    """The changes that this group waits for; () when it does not wait. `room` gives a scratch of what is free."""
    refusal = entry.refusal
    if refusal is None:
        return ()
    asks = refusal.reason in _ROOM or refusal.reason is Reason.QUOTA
    wish = plans.wish(entry, now) if asks else None
    if not isinstance(wish, Wish) or not wish.members:
        return (of_refusal(refusal),)
    part = _least(wish)
    found = [*_excess(usage, queue, part), *_room(part, refusal, room(), queue)]
    return tuple(found) or (of_refusal(refusal),)


def of_refusal(refusal: Refusal) -> Mend:
    """The change that a refusal by itself tells of."""
    return Mend(refusal.reason, _numbers(refusal))


def _numbers(refusal: Refusal) -> Detail:
    """The numbers of the refusal as those of a change."""
    detail = dict(refusal.detail)
    match refusal.reason, detail:
        case Reason.MEMBERS, {"have": int(have), "minimum": int(minimum)}:
            return _missing(refusal.detail) if "task" in detail else (("pods", minimum - have),)
        case Reason.FIRM, {"resource": resource, "asked": int(asked), "used": int(used), "owned": int(owned)}:
            return (("queue", detail["queue"]), ("resource", resource), ("more", used + asked - owned))
        case Reason.UNLABELLED, {"label": label, "unlabelled": nodes}:
            return (("label", label), ("nodes", nodes))
    return refusal.detail


def _missing(detail: Detail) -> Detail:
    """What each task lacks that has too few, or else the group: as `members_missing` tells it."""
    rows = list(zip(detail[2::3], detail[3::3], detail[4::3], strict=True))
    lacking: list[tuple[str, str | int]] = []
    for task, (_, have), (_, minimum) in rows:
        lacking += [task, ("pods", int(minimum) - int(have))]
    return tuple(lacking)


def _least(wish: Wish) -> Wish:
    """The smallest part that may start next, on any nodes: those that were offered are of an earlier moment."""
    members = wish.least or wish.whole or wish.surplus[:1]
    return replace(wish, whole=tuple(replace(one, allowed=None) for one in members), least=(), surplus=())


# --- quota -------------------------------------------------------------------------------------------


def _excess(usage: Usage, queue: QueueName, wish: Wish) -> Iterator[Mend]:
    """By how much each queue from this one up would exceed its capability."""
    asked = wish.asked
    for name, resource, used, most in excesses(usage, queue, asked):
        yield Mend(Reason.QUOTA, (("queue", name), *told(resource, more=used + asked[resource] - most)))


# --- room -------------------------------------------------------------------------------------------


def _room(wish: Wish, refusal: Refusal, room: Room, queue: QueueName) -> Iterator[Mend]:
    """The nodes that must come back, or the pods that have no place beside those that have one."""
    if refusal.reason is Reason.NODE_UNAVAILABLE:
        yield Mend(refusal.reason, _nodes_out(wish, room, queue) or refusal.detail)
        return
    placed = _most(wish, room, queue)
    there = {member.slot for member, _ in placed.places}
    lacking = [member for member in wish.whole if member.slot not in there]
    numbers: Counter[tuple[TaskName, Shape, Detail]] = Counter()
    level = wish.required if len(lacking) > 1 or there or wish.fixed else None
    everywhere = _domain(level, [*wish.fixed, *(node for _, node in placed.places)], room)
    for (task, shape, parts), number in Counter((one.task, one.shape, one.parts) for one in lacking).items():
        numbers[task, shape, (*everywhere, *_parts(parts, wish, placed, lacking, room))] += number
    for (task, shape, where), number in numbers.items():
        of_task = (("task", task),) if task else ()
        asked = _each(room, shape, dict(refusal.detail).get("resource"))
        yield Mend(Reason.TOPOLOGY if where else Reason.RESOURCES, (*of_task, ("pods", number), *asked, *where))


def _nodes_out(wish: Wish, room: Room, queue: QueueName) -> Detail:
    whole = room.mended()
    plan = None if whole is None else _place(wish, whole, queue)
    if plan is None:
        return ()
    outage, row_of = room.snapshot.facts.outage, room.snapshot.row_of
    names = sorted({node for _, node in plan.places if outage[row_of[node]]})
    return (("nodes", len(names)), *(("node", name) for name in names[:_NAMED]))


def _most(wish: Wish, room: Room, queue: QueueName) -> Plan:
    """As many members as have places at the same time; of each kind as many as fit beside those of the kinds before."""
    chosen: tuple[Member, ...] = ()
    best = Plan(())
    for members in _alike(wish.whole).values():
        fits, fails = 0, len(members) + 1
        while fails - fits > 1:
            middle = (fits + fails) // 2
            plan = _place(replace(wish, whole=(*chosen, *members[:middle])), room, queue)
            if plan is None:
                fails = middle
            else:
                fits, best = middle, plan
        chosen += tuple(members[:fits])
    return best


def _place(wish: Wish, room: Room, queue: QueueName) -> Plan | None:
    """Places for all of the wish in this room, whatever queues may use and whoever comes before it."""
    there = room.copy()
    outcome = placing.fulfil(wish, there, Allowance(Usage(lambda _: queue), queue, there))
    return outcome if isinstance(outcome, Plan) else None


def _parts(parts: Sequence[Part], wish: Wish, placed: Plan, lacking: Sequence[Member], room: Room) -> Detail:
    """For each part of the group, from broad to narrow: its level, and the domain of those that have a place."""
    found: Detail = ()
    for part in parts:
        nodes = [node for one, node in wish.standing if one == part]
        nodes += [node for one, node in placed.places if part in one.parts]
        if nodes or sum(part in one.parts for one in lacking) > 1:
            found += _domain(part.level, nodes, room)
    return found


def _domain(level: str | None, nodes: Sequence[NodeName], room: Room) -> Detail:
    """The level in one domain of which all must stand, and the domain of those that have a place."""
    if level is None:
        return ()
    domains = room.snapshot.facts.domains(room.snapshot.facts.path(level))
    inside = [int(domains.ids[row]) for row in room.snapshot.rows(nodes) if domains.ids[row] >= 0]
    return (("level", level), *((("domain", "/".join(domains.paths[inside[0]])),) if inside else ()))


def _alike(members: Iterable[Member]) -> dict[_Kind, list[Member]]:
    """Members by what they ask for, neighbours beside each other."""
    found: dict[_Kind, list[Member]] = {}
    for member in sorted(members, key=lambda one: one.index):
        found.setdefault((member.task, member.shape), []).append(member)
    return found


def _each(room: Room, shape: Shape, named: str | int | None) -> Detail:
    """What each pod of this shape asks for: of the resource that was named, or of which it asks the largest share."""
    asked = dict(shape.request)
    dominant = room.snapshot.columns.names[room.snapshot.want(shape).dominant]
    resource = named if isinstance(named, str) and named in asked else dominant
    return (("resource", resource), ("each", asked[resource]))
