"""One round over the groups that are to be looked at, in order, in as many pieces as the shell wants.

Takes lines of groups and the room at its beginning, gives one group after the other; must not judge them.

While a round lasts, room and quota only shrink for it: what becomes free between two pieces is left to the next
round, which begins with the first group again. So nobody is overtaken because a round was made in pieces, and
groups that fare alike go on doing so. What is taken between two pieces counts at once, and who comes is put
into the order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from extender.core.ids import QueueName
from extender.core.node_table import NodeTable
from extender.core.ordering import Line, Turns
from extender.core.quota import Sums
from extender.core.reasons import Refusal
from extender.core.snapshot import Matrix, Room, Snapshot
from extender.core.usage import Usage
from extender.core.waiting import Place

#: tells a group of the refusal of one that is the same; False when the group must be looked at itself
HandOn = Callable[[Place, Refusal], bool]


class Sweep:
    """One round over what was added to it."""

    def __init__(self, room: Room, nodes: NodeTable, usage: Usage, totals: Sums, now: float) -> None:
        self.room = room
        self.began = now
        #: room or quota has become free since, which is left to the next round
        self.withholds = False
        #: what the first of those that are the same was refused for
        self.failed: dict[object, Refusal] = {}
        self._nodes = nodes
        self._usage = usage
        #: those who ask for nothing come first: they may only free room, and would hide what their queues ask for
        self._others: deque[Place] = deque()
        self._turns: Turns[Place] = Turns(usage, totals)
        #: the first of a line was given out: its queue is to be compared with others when that turn is over
        self._taken = False
        #: lines were added, or usage changed between two pieces: all queues are to be compared
        self._unranked = False
        self._lines: list[Line[Place]] = []
        #: lines of which a refusal has been handed on, or that have none in common
        self._handed: set[Line[Place]] = set()
        self._read = nodes.touches
        #: at the end of a piece: the state of usage, what counted as used where a cap is, and what of that is free
        self._changes = usage.changes
        self._used: dict[tuple[QueueName, str], int] = {}
        self._withheld: Mapping[tuple[QueueName, str], int] = {}

    def add_all(self, lines: Iterable[list[Place]]) -> None:
        """Lines of groups that fare alike. Those that nobody else is like share one line a queue."""
        alone: dict[QueueName, list[Place]] = {}
        for line in lines:
            if len(line) == 1 and line[0].asks:
                alone.setdefault(line[0].queue, []).append(line[0])
            else:
                self.add(line)
        for places in alone.values():
            places.sort(key=lambda place: place.order)
            self.add(places)
            self._handed.add(self._lines[-1])

    def add(self, line: list[Place]) -> None:
        """Groups of one queue in order."""
        if line[0].asks:
            self._lines.append(Line(line[::-1]))
            self._turns.put(line[0].queue, self._lines[-1])
            self._unranked = True
        else:
            self._others += line
        for place in line:
            place.due_in = self

    def insert(self, place: Place) -> None:
        """A group that something happened to is looked at whatever befell those before it."""
        place.settled = False
        if place.due_in is not self:
            self.add([place])

    def left(self) -> list[Place]:
        """Those whose turn is still to come."""
        lines = (self._others, *(line.items for line in self._lines))
        return [place for places in lines for place in places if place.due_in is self]

    def next(self, hand_on: HandOn) -> Place | None:
        """The group whose turn it is; None when all had theirs."""
        while self._others:
            place = self._others.popleft()
            if place.due_in is self:
                place.due_in = None
                return place
        self._end_turn()
        if self._unranked:
            self._turns.rank()
            self._unranked = False
        while (line := self._turns.first()) is not None:
            place = line.items[-1]
            refusal = self.failed.get(place.same) if line not in self._handed and place.same is not None else None
            if refusal is not None:
                self._hand_on_all(line, refusal, hand_on)
                continue
            line.items.pop()
            self._taken = True
            if place.due_in is self:
                place.due_in = None
                return place
            self._end_turn()
        return None

    def _end_turn(self) -> None:
        if self._taken:
            self._turns.shortened()
            self._taken = False

    def _hand_on_all(self, line: Line[Place], refusal: Refusal, hand_on: HandOn) -> None:
        self._handed.add(line)
        kept = []
        for place in line.items:
            if place.due_in is not self:
                continue
            if hand_on(place, refusal):
                place.due_in = None
            else:
                kept.append(place)
        line.items = kept
        self._turns.shortened()

    # --- in pieces ------------------------------------------------------------------------------

    def pause(self) -> None:
        """The piece ends."""
        self._end_turn()
        usage = self._usage
        before, self._withheld, usage.withheld = self._withheld, usage.withheld, {}
        if usage.changes == self._changes and self._withheld is before and self._used:
            return
        self._used = {
            (name, resource): usage.of(name).get(resource, 0) + self._withheld.get((name, resource), 0)
            for name, resource in usage.tree.capped
        }
        self._changes = usage.changes

    def resume(self, snapshot: Snapshot | None) -> None:
        """The next piece begins. When events came in between: with what is free now, where that is no more than
        was left of the room."""
        if snapshot is not None:
            self.room = Room(snapshot, self._least(snapshot))
            self.withholds |= bool((self.room.free < snapshot.free).any())
        usage = self._usage
        usage.withheld = self._withheld
        if usage.changes != self._changes:
            self._unranked = True
            usage.withheld = {
                (name, resource): used - now
                for (name, resource), used in self._used.items()
                if used > (now := usage.of(name).get(resource, 0))
            }
        self.withholds |= bool(usage.withheld)

    def _least(self, snapshot: Snapshot) -> Matrix:
        before, after = self.room.free, snapshot.free
        rows, width = before.shape
        least = np.minimum(after, 0)
        np.minimum(after[:rows, :width], before, out=least[:rows, :width])
        changed = self._nodes.touched_since(self._read)
        least[changed] = np.minimum(least[changed], 0)
        self._read = self._nodes.touches
        return least
