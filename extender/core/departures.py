"""When what stands on the nodes will be gone, as far as somebody has said so.

Takes the world, gives for a moment the rooms that will be given back, by time; must not decide who gets them.

A member of a group that declares how long it runs ends so long after it was bound. One that is leaving ends at once,
whoever's it is. One that is past its end may end at any moment, and is taken to do so for a short time, as hardly
any job ends to the second; after that nothing is known of it. All others stay for ever.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from extender.core.changes import charge
from extender.core.ids import GroupKey, NodeName, QueueName
from extender.core.matching import Ints
from extender.core.membership import Need, Standing, standing
from extender.core.model import Pod
from extender.core.reasons import Refusal
from extender.core.resources import Amounts, Row
from extender.core.snapshot import Matrix
from extender.core.world import World

Floats = npt.NDArray[np.float64]
#: a queue and a request that count there
Sort = tuple[QueueName, Amounts]
#: one departure: when, from which row of the node table, what it gives back, and of which sort it is
Leave = tuple[float, int, Row, Sort]

#: so long past its end a member is still taken to end at any moment
OVERDUE_SECONDS = 60.0
_AT_ONCE = -math.inf
_NEVER = math.inf
#: sorts that are kept; beyond them the table is made anew
_SORTS = 10_000
#: a slot of the table that nobody has
_NOBODY = -1


def duration(need: Need | Refusal) -> int | None:
    """How long the group runs, as it declares; None when it does not."""
    declared = None if isinstance(need, Refusal) else need.expected_duration
    return declared if declared is not None and declared > 0 else None


def overdue(world: World, key: GroupKey, now: float) -> float:
    """For how long all that runs of the group has been past its declared end; 0 while something is not."""
    seconds = duration(world.need(key))
    bound = [pod for pod in world.members.get(key, {}).values() if standing(pod) is Standing.BOUND]
    if seconds is None or not bound:
        return 0.0
    return max(0.0, now - max(now if pod.bound_at is None else pod.bound_at for pod in bound) - seconds)


@dataclass(frozen=True, eq=False)
class Departures:
    """Rooms that will be given back, the earliest first. The first `n` of them are meant by a number."""

    when: Floats
    rows: Ints
    requests: Matrix
    #: index of each one's sort in `sorts`
    of: Ints
    sorts: Sequence[Sort]

    @cached_property
    def times(self) -> list[float]:
        """The times at which something leaves."""
        found: list[float] = np.unique(self.when).tolist()
        return found

    def until(self, at: float) -> int:
        """How many are gone by then."""
        return int(np.searchsorted(self.when, at, side="right"))

    def give_back(self, free: Matrix, number: int) -> None:
        """Add the room of the first ones to free room on the nodes."""
        width = min(free.shape[1], self.requests.shape[1])
        np.add.at(free[:, :width], self.rows[:number], self.requests[:number, :width])

    def given_back(self, number: int, free: Matrix, only: Iterable[int]) -> Matrix:
        """What the first ones give back on these rows, in an array like `free`; 0 elsewhere."""
        wanted, given = np.zeros(len(free), dtype=bool), np.zeros_like(free)
        wanted[list(only)] = True
        there = np.flatnonzero(wanted[self.rows[:number]])
        width = min(free.shape[1], self.requests.shape[1])
        np.add.at(given[:, :width], self.rows[there], self.requests[there, :width])
        return given

    def freed(self, number: int) -> Iterator[tuple[QueueName, Amounts, int]]:
        """What the first ones used of their queues, with how many there are of each sort."""
        counts = np.bincount(self.of[:number], minlength=len(self.sorts))
        for which in np.flatnonzero(counts).tolist():
            yield (*self.sorts[which], int(counts[which]))

    def by(self, order: Floats) -> Departures:
        """The same in another order of time."""
        first = np.argsort(order, kind="stable")
        return Departures(order[first], self.rows[first], self.requests[first], self.of[first], self.sorts)


class Runs:
    """What stands on nodes as a table with a slot for each pod, brought up to date when it is read.

    Invariant after `_read_doubted`: each pod of ours on a known node, and each one of anybody's that is leaving one,
    has exactly one slot.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._doubted: dict[GroupKey, None] = {}
        self._width = 0
        self._forget()

    def doubt(self, key: GroupKey) -> None:
        """What the group declares may have changed."""
        if key in self._world.members or key in self._slots:
            self._doubted[key] = None
        else:  # it came and went, and nobody has read the table meanwhile
            self._doubted.pop(key, None)

    def seen(self, before: Pod | None, pod: Pod | None) -> None:
        """A pod has changed."""
        for one in (before, pod):
            if one is not None and one.node is not None:
                self.doubt(one.group)

    def doubt_node(self, name: NodeName) -> None:
        """This node came, changed or went."""
        for pod in self._world.on_node.get(name, {}).values():
            self._doubted[pod.group] = None

    @property
    def doubted(self) -> bool:
        """True when something has changed since the table was read."""
        return bool(self._doubted)

    def next_unknown(self, now: float) -> float:
        """When the next of those that may end at any moment, or will end, is taken to do so no more."""
        lapse = self._ends[(self._rows != _NOBODY) & (self._ends > now - OVERDUE_SECONDS)]
        return float(lapse.min(initial=_NEVER)) + OVERDUE_SECONDS

    def foreseen(self, now: float, others: Iterable[Leave] = ()) -> Departures:
        """All departures that can be foreseen, and these."""
        self._read_doubted()
        when = np.where((self._ends <= now) & (self._ends > now - OVERDUE_SECONDS), now, self._ends)
        when[self._ends == _AT_ONCE] = now
        slots = np.flatnonzero((self._rows != _NOBODY) & (when >= now) & (when < _NEVER))
        return self._with_others(self._some(slots, when), (leave for leave in others if leave[0] < _NEVER))

    def everything(self, others: Iterable[Leave] = ()) -> Departures:
        """All that stands there of ours or is leaving, and these; without a time."""
        self._read_doubted()
        return self._with_others(self._some(np.flatnonzero(self._rows != _NOBODY), self._ends), others)

    def _with_others(self, departures: Departures, others: Iterable[Leave]) -> Departures:
        more = list(others)
        if not more:
            return departures
        whens = np.append(departures.when, [leave[0] for leave in more])
        rows = np.append(departures.rows, [leave[1] for leave in more])
        requests = np.concatenate((departures.requests, [_wide(leave[2], self._width) for leave in more]))
        of = np.append(departures.of, [self._number(leave[3]) for leave in more])
        return Departures(whens, rows, requests, of, self._sorts).by(whens)

    def _some(self, slots: Ints, when: Floats) -> Departures:
        slots = slots[np.argsort(when[slots], kind="stable")]
        return Departures(when[slots], self._rows[slots], self._requests[slots], self._of[slots], self._sorts)

    def _forget(self) -> None:
        self._slots: dict[GroupKey, list[int]] = {}
        self._spare: list[int] = []
        self._ends: Floats = np.empty(0)
        self._rows: Ints = np.empty(0, dtype=np.int64)
        self._of: Ints = np.empty(0, dtype=np.int64)
        self._requests: Matrix = np.empty((0, self._width), dtype=np.int64)
        self._sorts: list[Sort] = []
        self._numbers: dict[Sort, int] = {}

    def _read_doubted(self) -> None:
        if len(self._world.columns) != self._width or len(self._sorts) > _SORTS:
            self._width = len(self._world.columns)
            self._forget()
            self._doubted = dict.fromkeys(self._world.members)
        for key in self._doubted:
            self._read(key)
        self._doubted.clear()

    def _read(self, key: GroupKey) -> None:
        for slot in self._slots.pop(key, ()):
            self._rows[slot] = _NOBODY
            self._spare.append(slot)
        seconds, slots = duration(self._world.need(key)), []
        for pod in self._world.members.get(key, {}).values():
            row = None if pod.node is None or pod.ended else self._world.nodes.row_of.get(pod.node)
            if row is not None and (pod.ours or pod.terminating):
                slots.append(self._put(pod, row, seconds))
        if slots:
            self._slots[key] = slots

    def _put(self, pod: Pod, row: int, seconds: int | None) -> int:
        if not self._spare:
            self._grow()
        slot = self._spare.pop()
        self._ends[slot] = _AT_ONCE if pod.terminating else _end(pod, seconds)
        self._rows[slot] = row
        self._requests[slot] = self._world.request_row(pod)
        charged = charge(pod, self._world.managed)
        self._of[slot] = self._number((pod.queue or self._world.queue_of(pod.group), charged[2] if charged else ()))
        return slot

    def _number(self, sort: Sort) -> int:
        number = self._numbers.get(sort)
        if number is None:
            number = self._numbers[sort] = len(self._sorts)
            self._sorts.append(sort)
        return number

    def _grow(self) -> None:
        have = len(self._rows)
        more = max(64, have)
        self._spare += range(have + more - 1, have - 1, -1)
        self._ends = np.append(self._ends, np.full(more, _NEVER))
        self._rows = np.append(self._rows, np.full(more, _NOBODY))
        self._of = np.append(self._of, np.zeros(more, dtype=np.int64))
        self._requests = np.concatenate((self._requests, np.zeros((more, self._width), dtype=np.int64)))


def _end(pod: Pod, seconds: int | None) -> float:
    return _NEVER if seconds is None or pod.bound_at is None else pod.bound_at + seconds


def _wide(row: Row, width: int) -> Row:
    return row if len(row) == width else np.pad(row, (0, width - len(row)))
