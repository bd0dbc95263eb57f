"""Which groups wait, in lines of those that fare alike; and what is known of each group until it changes.

Takes groups as they begin and cease to wait, and is told of everything that changes; gives lines in order. Must
not decide. What a group asks for, and its place in the order, are worked out once and not in each round.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from extender.core import backlog
from extender.core.asking import Asking
from extender.core.ids import GroupKey, PodUid, QueueName
from extender.core.ledger import Ledger
from extender.core.membership import Standing, Tally, standing
from extender.core.ordering import OrderKey
from extender.core.planning import Entry
from extender.core.resources import Amounts
from extender.core.world import World


@dataclass(slots=True, eq=False)
class Place:
    """What is known of a group, as long as nothing of it changes."""

    entry: Entry
    queue: QueueName
    order: OrderKey
    #: a member waits without a place; and what all of those ask for
    asks: bool
    asked: Amounts
    #: groups of one queue with an equal value fare alike in one round; None: like nobody else
    same: object | None
    #: it was looked at since it was made
    settled: bool = False
    #: the round in which its turn is to come
    due_in: object | None = None


def _order(place: Place) -> OrderKey:
    return place.order


class Waiting(Asking):
    """The groups that wait. Invariant: each of them is in one line, or `_loose`."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        super().__init__(world, ledger)
        self._queue_of = world.queue_of
        self._entries: dict[GroupKey, Entry] = {}
        self._places: dict[GroupKey, Place] = {}
        self._lines: dict[object, list[Place]] = {}
        #: waiting groups that changed since they were put into a line
        self._loose: dict[GroupKey, None] = {}

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def clear(self) -> None:
        """Nobody waits, and nothing is known."""
        for known in (self._entries, self._places, self._lines, self._loose):
            known.clear()

    def put(self, entry: Entry) -> None:
        """The group waits."""
        if entry.key not in self._entries:
            self._entries[entry.key] = entry
            self._loose[entry.key] = None

    def drop(self, key: GroupKey) -> None:
        """The group does not wait any more."""
        self.doubt(key)
        self._entries.pop(key, None)
        self._loose.pop(key, None)

    def doubt(self, key: GroupKey) -> None:
        """Something of the group may have changed: what is known of it is worked out anew when it is asked for."""
        place = self._places.pop(key, None)
        if place is None or key not in self._entries or key in self._loose:
            return
        self._loose[key] = None
        line = self._lines[_line_of(place)]
        del line[bisect_left(line, place.order, key=_order)]
        if not line:
            del self._lines[_line_of(place)]

    def place(self, entry: Entry) -> Place:
        """What is known of the group, whether or not it waits."""
        place = self._places.get(entry.key)
        if place is None:
            asks = super().asks(entry)
            lists, entry.offered = entry.offered, {}  # they come and go with no word to us
            place = self._places[entry.key] = Place(
                entry,
                self._queue_of(entry.key),
                super().order_key(entry),
                asks,
                super().asked(entry),
                super().same(entry) if asks else None,
            )
            entry.offered = lists
        return place

    def due(self, key: GroupKey, sweep: object) -> bool:
        """True when the group's turn in this round is to come."""
        place = self._places.get(key)
        return place is not None and place.due_in is sweep

    def lines(self) -> Iterator[list[Place]]:
        """All that wait, by line; each line in order. Not to be changed."""
        for key in list(self._loose):
            self.line_up(key)
        return iter(self._lines.values())

    def line_up(self, key: GroupKey) -> None:
        """Give the group its place in a line, if it waits."""
        if key in self._loose:
            del self._loose[key]
            place = self.place(self._entries[key])
            insort(self._lines.setdefault(_line_of(place), []), place, key=_order)

    def record(self, entry: Entry, for_room: bool) -> backlog.Waiting:
        """What the backlog counts of a group that waits."""
        tally = self._world.tallies.get(entry.key) or Tally()
        queue = self._queue_of(entry.key)
        strays: Counter[QueueName] = Counter()
        for named, number in tally.ungated.items():
            strays[named or queue] += number
        if strays:
            for slot in self._ledger.of_group(entry.key):
                pod = self._world.pods.get(PodUid(slot))
                if pod is not None and standing(pod) is Standing.WAITING and not pod.queue_gated:
                    strays[pod.queue or queue] -= 1
        return backlog.Waiting(queue, for_room, tuple(strays.items()), self.asked(entry))

    # --- answers, kept --------------------------------------------------------------------------

    def asks(self, entry: Entry) -> bool:
        """True when a member waits without a place."""
        return self.place(entry).asks

    def asked(self, entry: Entry) -> Amounts:
        """What the members that wait without a place ask for together."""
        return self.place(entry).asked

    def order_key(self, entry: Entry) -> OrderKey:
        """The group's place in its queue."""
        return self.place(entry).order

    def same(self, entry: Entry) -> object | None:
        """Groups with an equal value fare alike in one round, but for offered lists."""
        return None if entry.offered else self.place(entry).same


def _line_of(place: Place) -> object:
    """The name of its line: that of all that are the same, or one of its own."""
    return place.entry.key if place.same is None else (place.queue, place.same)
