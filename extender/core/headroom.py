"""Room that is kept for the first groups that wait: how much of which nodes and queues, until when, and from whom.

Takes the places that were planned for them (`backfill`), gives whoever comes after them the room that is left; must
not plan.

A group that is promised to start at a time needs its plan's places then. What ends there before needs not be kept
free now; so what is kept (`held`) is the plan less what will have ended. Whoever ends by then may take that too.
A group that is drained for has no such time: its plan's places are kept from all that come after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from extender.core.ids import GroupKey, QueueName
from extender.core.ordering import OrderKey
from extender.core.quota import Sums
from extender.core.reasons import Reason, Refusal
from extender.core.resources import Amounts, Row, add
from extender.core.snapshot import Room


@dataclass(slots=True, eq=False)
class Headroom:
    """What is kept for one group, the head: the first of its queue that waits."""

    key: GroupKey
    #: as people call it
    name: str
    queue: QueueName
    order: OrderKey
    asked: Amounts
    #: when it can start; None when that cannot be foreseen: then it is drained for
    at: float | None
    #: since when it has been promised to start, or drained for
    since: float
    #: when it will have ended then, as it declares
    ends: float | None
    #: what its places take, by row of the node table
    plan: dict[int, Row]
    #: of each of these rows, and of each queue with a capability, so much must stay free now; below 0: there is more
    held: dict[int, Row] = field(default_factory=dict)
    quota: dict[QueueName, Sums] = field(default_factory=dict)

    def stands_at(self, at: float | None) -> bool:
        """True when the head has its places at that time, as far as is foreseen; None: now."""
        if self.at is None or at is None:
            return self.at is None
        return self.at <= at and (self.ends is None or self.ends > at)

    def without(self, others: Iterable[Headroom]) -> Headroom:
        """The same, if these had no headroom."""
        held, quota = dict(self.held), {name: dict(sums) for name, sums in self.quota.items()}
        for other in others:
            if other.stands_at(self.at):
                for row, request in other.plan.items():
                    if row in held:
                        held[row] = _less(held[row], request)
                for sums in (quota[name] for name in other.quota if name in quota):
                    add(sums, other.asked, -1)
        return replace(self, held=held, quota=quota)

    def refusal(self, seconds: int | None) -> Refusal:
        """For one that declares so many seconds, and would fit but for this."""
        detail: list[tuple[str, str | int]] = [("head", self.name), ("namespace", self.key.namespace)]
        if self.at is not None:
            detail.append(("expected_at", int(-(-self.at // 1))))
        if seconds is not None:
            detail.append(("declared_seconds", seconds))
        return Refusal(Reason.RESERVED_FOR_HEAD, tuple(detail))


class Left:
    """What headrooms leave of a room, worked out again only when either has changed: most that ask are refused."""

    def __init__(self) -> None:
        self._state: tuple[Room, int] | None = None
        self._rooms: dict[tuple[Headroom, ...], Room | None] = {}

    def of(self, room: Room, marks: tuple[Headroom, ...]) -> Room | None:
        """The room that is left by these; None when that is all."""
        if self._state != (room, room.changes):
            self._state = (room, room.changes)
            self._rooms.clear()
        if marks not in self._rooms:
            self._rooms[marks] = _narrowed(room, marks)
        return self._rooms[marks]

    def forget(self) -> None:
        """An headroom has changed."""
        self._rooms.clear()


def _narrowed(room: Room, marks: Iterable[Headroom]) -> Room | None:
    most: dict[int, Row] = {}
    for mark in marks:
        for row, held in mark.held.items():
            most[row] = np.maximum(most[row], held) if row in most else np.maximum(held, 0)
    taken = [(row, held) for row, held in most.items() if held.any()]
    if not taken:
        return None
    left = room.copy()
    for row, held in taken:
        left.take(row, held)
    return left


@dataclass(frozen=True, slots=True, eq=False)
class Behind:
    """What binds one group that comes after others: their headrooms, but for those by whose time it ends."""

    marks: tuple[Headroom, ...] = ()
    #: those by whose time it ends, so that it gives back to them what it takes
    lenders: tuple[Headroom, ...] = ()
    seconds: int | None = None
    #: heads of which it is foreseen when they start, so that nothing more needs to be kept for them
    foreseen: frozenset[GroupKey] = frozenset()
    left: Left = field(default_factory=lambda: Left())

    def narrowed(self, room: Room) -> Room | None:
        """The room that is left to it; None when that is all."""
        return self.left.of(room, self.marks) if self.marks else None

    def aside(self) -> Behind:
        """The same for a trial: nothing is given back for what is not taken."""
        return replace(self, lenders=())

    def kept(self, queue: QueueName) -> Iterator[tuple[Headroom, Mapping[str, int]]]:
        """What heads will need of a queue's capability, for each."""
        for mark in self.marks:
            if queue in mark.quota:
                yield mark, mark.quota[queue]

    def refusal(self, fits: Callable[[Room], bool], room: Room) -> Refusal:
        """For one that would fit in the room: the first head that alone is reason enough, else the first of all."""
        for mark in self.marks:
            left = self.left.of(room, (mark,))
            if left is not None and not fits(left):
                return mark.refusal(self.seconds)
        return self.marks[0].refusal(self.seconds)

    def take(self, places: Iterable[tuple[int, Row]], queues: Iterable[QueueName], asked: Mapping[str, int]) -> None:
        """These places were given to it: of what ends in time for a head so much less must be free."""
        for mark in self.lenders:
            for row, request in places:
                if row in mark.held:
                    mark.held[row] = _less(mark.held[row], request)
            for name in queues:
                if name in mark.quota:
                    add(mark.quota[name], asked.items(), -1)
        self.left.forget()


def _less(held: Row, request: Row) -> Row:
    left, width = held.copy(), min(len(held), len(request))
    left[:width] -= request[:width]
    return left


#: nothing is kept from it
FREE = Behind()


@dataclass(frozen=True, slots=True)
class Promise:
    """A waiting group starts at this time at the latest, as long as what runs ends as declared."""

    head: GroupKey
    at: float
    since: float


class Headrooms:
    """All of them, those first that leave nothing to the others. At most one a group."""

    def __init__(self) -> None:
        self._marks: list[Headroom] = []
        self._left = Left()

    def __len__(self) -> int:
        return len(self._marks)

    def __iter__(self) -> Iterator[Headroom]:
        return iter(self._marks)

    def get(self, key: GroupKey) -> Headroom | None:
        """The group's own."""
        return next((mark for mark in self._marks if mark.key == key), None)

    def promise(self, key: GroupKey) -> Promise | None:
        """What the group was promised; None when its start is not foreseen."""
        mark = self.get(key)
        return None if mark is None or mark.at is None else Promise(key, mark.at, mark.since)

    def replace(self, marks: Iterable[Headroom]) -> None:
        """These and no others."""
        self._marks = list(marks)
        self._left.forget()

    def drop(self, key: GroupKey) -> bool:
        """Nothing is kept for the group any more; True when something was."""
        own = self.get(key)
        if own is None:
            return False
        self._marks = [mark.without((own,)) for mark in self._marks if mark is not own]
        return True

    def before(self, key: GroupKey, passes: Callable[[Headroom], bool]) -> Iterator[Headroom]:
        """Those of groups that come before this one."""
        for mark in self._marks:
            if mark.key == key:
                return
            if not passes(mark):
                yield mark

    def behind(self, key: GroupKey, now: float, seconds: int | None, passes: Callable[[Headroom], bool]) -> Behind:
        """What binds a group that starts now and runs for so long; `passes` says before which heads it comes."""
        marks: list[Headroom] = []
        lenders: list[Headroom] = []
        for mark in self.before(key, passes):
            in_time = mark.at is not None and seconds is not None and now + seconds <= mark.at
            (lenders if in_time else marks).append(mark)
        if not marks and not lenders:
            return FREE
        if self.get(key) is not None:  # heads that come after this one leave it what is kept for them, and so does it
            after = [mark for mark in self._marks if mark not in marks and mark not in lenders]
            marks = [mark.without(after) for mark in marks]
        foreseen = frozenset(mark.key for mark in (*marks, *lenders) if mark.at is not None)
        return Behind(tuple(marks), tuple(lenders), seconds, foreseen, self._left)
