"""Who waits first in each queue, when it can start, and what is kept for it until then (design section 5, step 6).

Takes the records of groups that wait for room, gives headrooms; must not place anybody: `allowance` holds those who
come later to what is kept.

A queue's *head* is its first group that waits for room or quota and could start if nothing else ran. Where it can be
foreseen when the head starts (what ends, or is leaving, by then makes room), that is its promise, and what its plan
needs at that time is kept for it: others may pass if they end by then or fit beside the plan. Each head's promise
leaves the plans of the heads before it as they are.

Where it cannot be foreseen others pass freely, so that nobody waits for nothing, but not for ever: a head that has
waited for `AGING_SECONDS` is drained for. The emptiest nodes on which it could start are kept from all that come
after it, and so is its part of the queue's quota. As what runs there may never end, this too has its time: after
each window of draining one of the same length follows in which others pass again, and each pair of windows is twice
as long as the one before. So a head starts when what runs ends at all, at the latest in the first window that is
longer than what runs there then; and whoever is held back loses, in the long run, half of that room at most.
Priorities do not age: a group that rose above its priority would be preempted by the next one that did not.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from extender.core import ordering, placing
from extender.core.allowance import Allowance
from extender.core.departures import Departures, Leave, Runs, duration
from extender.core.headroom import Behind, Headroom
from extender.core.heads import Head, Heads
from extender.core.ids import GroupKey, NodeName, QueueName
from extender.core.planning import Entry, Plan, Wish
from extender.core.plans import Plans
from extender.core.quota import Sums
from extender.core.reasons import Reason, Refusal
from extender.core.resources import Row, add
from extender.core.snapshot import Room
from extender.core.usage import Usage
from extender.core.world import World

#: a head that has waited so long is drained for
AGING_SECONDS = 300.0
#: for so many heads something is kept at the same time
MOST_HEADS = 8
#: before anything departs
_BEFORE = -math.inf
#: what room or quota would end
_WAITS = (
    *(Reason.RESOURCES, Reason.FRAGMENTED, Reason.TOPOLOGY, Reason.UNLABELLED),
    *(Reason.RESERVED, Reason.RESERVED_FOR_HEAD, Reason.QUOTA, Reason.NO_VICTIMS),
)


class Backfill:
    """The heads, and the headrooms that `plans` goes by. `runs` is told of what comes and goes on nodes."""

    def __init__(self, world: World, plans: Plans, usage: Usage, entries: Mapping[GroupKey, Entry]) -> None:
        self.runs = Runs(world)
        self._world = world
        self._plans = plans
        self._usage = usage
        self._entries = entries
        self._heads = Heads()
        #: whether a group could start if nothing else ran, while it asks for the same
        self._able: dict[GroupKey, tuple[object, bool]] = {}
        #: how often something was charged when the headrooms were made
        self._made_at = -1
        #: when time alone changes a headroom
        self._due = math.inf
        self._tried = 0
        self._base: tuple[object, Departures] | None = None

    def reset(self) -> None:
        """Forget all heads."""
        self._heads = Heads()
        self._able.clear()
        self._made_at, self._due = -1, math.inf

    def cluster_changed(self) -> None:
        """Nodes or queues are others now."""
        self._able.clear()
        self._made_at = -1

    def knows(self, key: GroupKey) -> bool:
        """True when it is known whether the group could start if nothing else ran."""
        return key in self._able

    def able(self, entry: Entry, room: Room, now: float) -> bool:
        """True when the group could start if nothing else ran: else nothing is kept for it."""
        asked = self._plans.asking.asked(entry)
        known = self._able.get(entry.key)
        if known is None or known[0] != asked:
            known = self._able[entry.key] = (asked, self._plans.could_start(entry, room, now))
        return known[1]

    def doubts(self, now: float) -> bool:
        """True when the headrooms may rest on what is not so any more."""
        return len(self._heads) > 0 and (self._made_at != self._usage.changes or self.runs.doubted or now >= self._due)

    def begin(self, room: Room, now: float, grown: bool) -> bool:
        """Make the headrooms anew, if need be, before a round of turns; True when less is kept than before."""
        self._tried = 0
        if not grown and not self.doubts(now):
            return False
        before = list(self._plans.headrooms)
        marks: list[Headroom] = []
        for head in self._in_order(before):
            if len(marks) < MOST_HEADS:
                mark = self._headroom(self._entries[head.key], marks, room, now)
                marks += [] if mark is None else [mark]
        self._put(marks, room, now)
        after = {mark.key: _kept(mark, now) for mark in marks}
        return any(after.get(mark.key) != _kept(mark, now) for mark in before)

    def refused(self, entry: Entry, refusal: Refusal, waits: bool, room: Room, now: float) -> bool:
        """The group has no place in this turn; `waits`: not for more members. True when less is kept than before."""
        queue, order = self._world.queue_of(entry.key), self._plans.asking.order_key(entry)
        if (
            not waits
            or refusal.reason not in _WAITS
            or not self._heads.is_first(queue, entry.key, order)
            or not self.able(entry, room, now)
        ):
            return self.forget(entry.key)
        there = self._heads.of(queue)
        self._heads.put(queue, Head(entry.key, order, self._plans.asking.asked(entry)))
        if there is not None and there.key == entry.key:
            return False
        dropped = there is not None and self._plans.headrooms.drop(there.key)
        self._add(entry, room, now)
        return dropped

    def forget(self, key: GroupKey) -> bool:
        """The group waits no more, or not for room: nothing is kept for it; True when it was a head."""
        self._able.pop(key, None)
        self._plans.headrooms.drop(key)
        return self._heads.drop(key)

    # --- which heads ----------------------------------------------------------------------------

    def _in_order(self, marks: list[Headroom]) -> list[Head]:
        """Heads of which each is behind those before it: those with a promise, then who waits longest.

        Who is drained for has no promise: else heads of little need, one after the other, would take the windows of
        one that needs much.
        """
        queues = {head.key: (queue, head) for queue, head in self._heads}
        promised = [mark.key for mark in marks if mark.at is not None and mark.key in queues]
        kept = [queues[key] for key in promised]
        others = [queues[key] for key in queues if key not in promised]
        others.sort(key=lambda one: (self._entries[one[1].key].waits_since or 0.0, one[1].order))
        found: list[tuple[QueueName, Head]] = []
        for queue, head in (*kept, *others[:MOST_HEADS]):
            mine = self._plans.turn(queue, head.order, head.asked)
            turns = (self._plans.turn(at, other.order, other.asked) for at, other in found)
            place = next((n for n, turn in enumerate(turns) if ordering.passes(self._usage, mine, turn)), len(found))
            found.insert(place, (queue, head))
        return [head for _, head in found]

    def _add(self, entry: Entry, room: Room, now: float) -> None:
        """Keep something for a head that is new, behind all heads that it does not pass."""
        marks = list(self._plans.headrooms)
        if len(marks) >= MOST_HEADS or self._tried >= MOST_HEADS:
            self._due = now
            return
        self._tried += 1
        before = list(self._plans.before(entry))
        mark = self._headroom(entry, before, room, now)
        if mark is not None:
            marks.insert(len(before), mark)
            self._put(marks, room, now)
        else:
            self._due = min(self._due, _next_change(entry, now))

    # --- what is kept ---------------------------------------------------------------------------

    def _headroom(self, entry: Entry, earlier: list[Headroom], room: Room, now: float) -> Headroom | None:
        wish = self._plans.wish(entry, now)
        if not isinstance(wish, Wish) or not wish.whole:
            return None
        found = self._foresee(entry, wish, earlier, room, now)
        if found is None and not _drains(entry, now):
            return None
        at, plan = found or (None, self._drain(entry, wish, earlier, room, now))
        if plan is None:
            return None
        seconds = duration(self._world.need(entry.key))
        old = self._plans.headrooms.get(entry.key)
        return Headroom(
            key=entry.key,
            name=_name(self._world, entry.key),
            queue=self._world.queue_of(entry.key),
            order=self._plans.asking.order_key(entry),
            asked=self._plans.asking.asked(entry),
            at=at,
            since=old.since if old is not None and (old.at is None) == (at is None) else now,
            ends=None if at is None or seconds is None else at + seconds,
            plan=self._rows(plan),
        )

    def _foresee(
        self, entry: Entry, wish: Wish, earlier: list[Headroom], room: Room, now: float
    ) -> tuple[float, Plan] | None:
        """The earliest time at which the group has its places, and which."""
        departures = self._departures(now)
        ends = {mark.ends for mark in earlier if mark.ends is not None}
        times = sorted({*departures.times, *ends}) if ends else departures.times
        old = self._plans.headrooms.get(entry.key)
        if not times and old is None:
            return None

        def gone(at: float) -> Plan | None:
            standing = [mark for mark in earlier if mark.ends is None or mark.ends > at]
            usage = self._later(self._world.queue_of(entry.key), departures, departures.until(at))
            return self._try(entry, wish, standing, room, departures, at, usage)

        found = _first([_BEFORE, *times], gone, None if old is None else old.at)
        return None if found is None else (max(found[0], now), found[1])

    def _drain(self, entry: Entry, wish: Wish, earlier: list[Headroom], room: Room, now: float) -> Plan | None:
        """Its places on the emptiest nodes on which it could start; none on nodes if it waits for quota."""
        if entry.refusal is not None and entry.refusal.reason is Reason.QUOTA:
            return Plan(())
        everything = self.runs.everything(self._planned(now))
        column = room.snapshot.want(wish.whole[0].shape).dominant
        used = (room.snapshot.allocatable - room.free)[:, column]
        rank = np.empty(len(used))
        rank[np.argsort(used, kind="stable")] = np.arange(len(used))
        departures = everything.by(rank[everything.rows])

        def gone(least: float) -> Plan | None:
            return self._try(entry, wish, earlier, room, departures, least, self._usage.emptied())

        found = _first([_BEFORE, *departures.times], gone)
        return None if found is None else found[1]

    def _try(
        self,
        entry: Entry,
        wish: Wish,
        standing: list[Headroom],
        room: Room,
        departures: Departures,
        at: float,
        usage: Usage,
    ) -> Plan | None:
        """Its places when what departs by then is gone and these heads have theirs."""
        free = room.free.copy(order="F")
        departures.give_back(free, departures.until(at))
        there = Room(room.snapshot, free, cards=room.cards)
        if standing and usage is self._usage:
            usage = usage.scratch()
        for mark in standing:
            usage.book(mark.queue, mark.asked, 1)
            for row, request in mark.plan.items():
                there.take(row, request)
        behind = Behind(foreseen=frozenset(mark.key for mark in standing if mark.at is not None))
        queue, claims = self._world.queue_of(entry.key), self._plans.against(entry.key, usage)
        outcome = placing.fulfil(wish, there, Allowance(usage, queue, there, claims, behind=behind))
        return outcome if isinstance(outcome, Plan) else None

    def _put(self, marks: list[Headroom], room: Room, now: float) -> None:
        """These are the headrooms now; what each keeps is less what will have ended by its time."""
        for mark in marks:
            standing = [other for other in marks if other.stands_at(mark.at)]
            self._hold(mark, standing, room, now)
        self._plans.headrooms.replace(marks)
        self._made_at = self._usage.changes
        heads = [self._entries[head.key] for _, head in self._heads]
        self._due = min((_next_change(entry, now) for entry in heads), default=math.inf)
        if any(mark.at is not None for mark in marks):
            self._due = min(self._due, self.runs.next_unknown(now))

    def _hold(self, mark: Headroom, standing: list[Headroom], room: Room, now: float) -> None:
        free, usage = np.zeros_like(room.free), self._usage
        if mark.at is not None:
            departures = self._departures(now)
            number = departures.until(mark.at)
            free = departures.given_back(number, room.free, (row for other in standing for row in other.plan))
            usage = self._later(mark.queue, departures, number)
        mark.held = {}
        for other in standing:
            for row, request in other.plan.items():
                held = mark.held.get(row)
                mark.held[row] = (-free[row] if held is None else held) + request[: free.shape[1]]
        mark.quota = {}
        for name in self._usage.tree.path(mark.queue):
            at = self._usage.tree.at(name)
            if at is not None and at.capability:
                mark.quota[name] = self._needed(name, standing, usage)

    def _later(self, queue: QueueName, departures: Departures, number: int) -> Usage:
        """What will be used when the first departures are gone, as far as it limits the queue."""
        tree = self._usage.tree
        capped = {name for name in tree.path(queue) if (at := tree.at(name)) is not None and at.capability}
        everywhere = bool(self._usage.grants.kept)
        if not capped and not everywhere:
            return self._usage
        usage = self._usage.scratch()
        for there, amounts, count in departures.freed(number):
            if everywhere or not capped.isdisjoint(tree.path(there)):
                usage.book(there, amounts, -count)
        return usage

    def _needed(self, name: QueueName, standing: list[Headroom], later: Usage) -> Sums:
        """What heads will need of a queue beyond what is free of it now; below 0: there will be more."""
        needed: Sums = {}
        for other in standing:
            if name in self._usage.tree.path(other.queue):
                add(needed, other.asked)
        add(needed, self._usage.of(name).items(), -1)
        add(needed, later.of(name).items())
        return needed

    # --- what is foreseen -----------------------------------------------------------------------

    def _departures(self, now: float) -> Departures:
        """All that can be foreseen, read once while nothing changes."""
        state = (self._usage.changes, now)
        if self._base is None or self._base[0] != state or self.runs.doubted:
            self._base = (state, self.runs.foreseen(now, self._planned(now)))
        return self._base[1]

    def _planned(self, now: float) -> Iterator[Leave]:
        """Members that are about to be bound run from now on, and undone plans are gone at once."""
        ledger, nodes, need = self._plans.ledger, self._world.nodes, self._world.need
        for reservation in ledger.planned().values():
            seconds = duration(need(reservation.group))
            sort = (self._world.queue_of(reservation.group), reservation.shape.request)
            ends = math.inf if seconds is None else now + seconds
            yield ends, nodes.row_of[reservation.node], reservation.request, sort
        for reservation in ledger.lingering().values():
            sort = (self._world.queue_of(reservation.group), reservation.shape.request)
            yield now, nodes.row_of[reservation.node], reservation.request, sort

    def _rows(self, plan: Plan) -> dict[int, Row]:
        rows: dict[int, Row] = {}
        for member, node in plan.places:
            row, request = self._world.nodes.row_of[NodeName(node)], self._world.columns.row(member.shape.request)
            rows[row] = rows[row] + request if row in rows else request
        return rows


def _first(
    steps: list[float], gone: Callable[[float], Plan | None], guess: float | None = None
) -> tuple[float, Plan] | None:
    """The first step at which there is a plan, if there is one at the last: room only grows. A guess saves time."""
    low, high = 0, len(steps) - 1
    best: Plan | None = None
    if guess is not None:
        near = min(bisect.bisect_left(steps, guess), high)
        for at in (near, near - 1):
            found = gone(steps[at]) if at >= 0 else None
            if found is None:
                low = at + 1
                break
            high, best = at, found
    if best is None:
        best = gone(steps[high]) if low <= high else None
    if best is None:
        return None
    while low < high:
        middle = (low + high) // 2
        found = gone(steps[middle])
        if found is None:
            low = middle + 1
        else:
            high, best = middle, found
    return steps[high], best


def _kept(mark: Headroom, now: float) -> object:
    """What others see of a headroom."""
    at = None if mark.at is None else max(mark.at, now)
    return at, sorted((row, request.tolist()) for row, request in mark.plan.items())


def _name(world: World, key: GroupKey) -> str:
    """A lone pod's own name, else the group's."""
    pods = world.members.get(key, {})
    return next(iter(pods.values())).name if key.lone and pods else key.name


def _window(waited: float) -> tuple[bool, float]:
    """Whether a head that has waited so long is drained for, and when that changes."""
    length, begins = AGING_SECONDS, AGING_SECONDS
    if waited < begins:
        return False, begins
    while waited >= begins + 2 * length:
        begins += 2 * length
        length *= 2
    middle = begins + length
    return (True, middle) if waited < middle else (False, middle + length)


def _drains(entry: Entry, now: float) -> bool:
    return entry.waits_since is not None and _window(now - entry.waits_since)[0]


def _next_change(entry: Entry, now: float) -> float:
    return math.inf if entry.waits_since is None else entry.waits_since + _window(now - entry.waits_since)[1]
