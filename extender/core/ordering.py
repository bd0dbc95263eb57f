"""In which order groups are looked at. A policy: the mechanism is in `cycle`.

Takes what is known of waiting groups and of what their queues use, gives one group after the other; must not
look at nodes.

At each level of the tree the queue goes first that the fair share ranks first, and in a queue the group of
higher priority; of equals one that was hurt, then those that wait for their minimum, then what is above minimums;
last the earlier one. What one group is given counts for whose turn is next. Who has to wait holds nobody up: the
next one is asked. A group that is hurt does not come before groups of other queues: what is owed to those is not
less for it, and its queue is ranked by what it uses now, without those that were lost.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, Protocol, TypeVar

from extender.core import fairshare
from extender.core.ids import GroupKey, QueueName
from extender.core.resources import Amounts
from extender.core.usage import Usage

OrderKey = tuple[int, int, float, bool, str]


class Item(Protocol):
    """What waits for its turn."""

    @property
    def order(self) -> OrderKey:
        """Its place in its queue."""

    @property
    def asked(self) -> Amounts:
        """What it asks for."""


T = TypeVar("T", bound=Item)


class Stage(IntEnum):
    """What a group asks for, in the order in which groups of equal priority get it."""

    REPAIR = 0  # members run, and are fewer than its minimum: without more their work is lost
    START = 1  # its minimum
    SURPLUS = 2  # members above its minimum


def order_key(key: GroupKey, priority: int, arrival: float, gated: bool, stage: Stage = Stage.START) -> OrderKey:
    """Higher priority first, then by stage, then earlier arrival, last of all the name.

    Arrivals are known to the second. Within one, a group whose members are all behind our gate comes after
    one that was let go, perhaps by an earlier life of ours.
    """
    return (-priority, stage, arrival, gated, f"{key.namespace}/{key.name}/{key.source}")


@dataclass(frozen=True, slots=True)
class Turn:
    """What decides whose turn comes first: a group's queue, its place in it, and what it asks for."""

    queue: QueueName
    order: OrderKey
    asked: Amounts
    #: what could be evicted for it in its own queue
    lower: Mapping[str, int]


def passes(usage: Usage, mine: Turn, theirs: Turn) -> bool:
    """True when room that is kept for the other may be given to this one.

    In one queue that is their order. Between queues, what is guaranteed may always be taken, then comes who stays
    inside what his queue owns, if need be when its own lower work has made room, then the queue of higher priority.
    A smaller share is no reason: shares change with each pod, and what was promised would be worth nothing.
    """
    if mine.queue == theirs.queue:
        return mine.order < theirs.order
    return _standing(usage, mine, theirs) < _standing(usage, theirs, mine)


def _standing(usage: Usage, turn: Turn, other: Turn) -> tuple[bool, bool, int]:
    """The place of a group's queue, or of the one above it, among those of which the other is in another."""
    above = usage.tree.path(other.queue)
    name = next((name for name in reversed(usage.tree.path(turn.queue)) if name not in above), turn.queue)
    at = usage.tree.at(name)
    if at is None:
        return (True, True, 0)
    inside = fairshare.inside(at, usage.of(name), turn.asked, turn.lower)
    return (not _guaranteed(usage, turn), not inside, -at.queue.priority)


def _guaranteed(usage: Usage, turn: Turn) -> bool:
    """True when all that is asked for and of which something is kept comes out of the group's own guarantees."""
    kept = [(resource, amount) for resource, amount in turn.asked if usage.unused.get(resource)]
    return bool(kept) and not any(usage.commits(turn.queue, resource, amount)[-1][1] for resource, amount in kept)


@dataclass(slots=True, eq=False)
class Line(Generic[T]):
    """Items of one queue in order, the first at the end. Whoever takes some away tells `Turns.shortened`."""

    items: list[T]


class Turns(Generic[T]):
    """Lines of items by queue, given out in order. What is asked for is asked of an item when its turn is near."""

    def __init__(self, usage: Usage, totals: Mapping[str, int]) -> None:
        self._usage = usage
        self._totals = totals
        #: heaps; the number tells lines with equal items apart
        self._of: dict[QueueName, list[tuple[OrderKey, int, Line[T]]]] = {}
        self._numbers = itertools.count()
        #: lines of queues that admit nothing
        self._barred: list[Line[T]] = []
        #: by queue, None for the top: the queues below it in which something is left
        self._below: dict[QueueName | None, list[tuple[fairshare.Rank, QueueName]]] = {}
        #: what was asked, and the state of usage, when the first line was given out
        self._before: tuple[Amounts, int] = ((), 0)

    def put(self, queue: QueueName, line: Line[T]) -> None:
        """A line that is not empty; `rank` is due before the first one is taken."""
        if queue in self._usage.tree.admitting:
            heapq.heappush(self._of.setdefault(queue, []), (line.items[-1].order, next(self._numbers), line))
        else:
            self._barred.append(line)

    def rank(self) -> None:
        """Compare all queues anew: lines were put, or usage has changed by what is no turn."""
        levels: dict[QueueName | None, set[QueueName]] = {None: set()}
        for queue in self._of:
            path = self._usage.tree.path(queue)
            for name, above in zip(path, (*path[1:], None), strict=True):
                levels.setdefault(above, set()).add(name)
        self._below.clear()
        for above in sorted(levels, key=self._depth, reverse=True):
            names = sorted(levels[above])
            self._below[above] = [(self._rank(name) if len(names) > 1 else _ALONE, name) for name in names]
            heapq.heapify(self._below[above])

    def first(self) -> Line[T] | None:
        """The line whose turn it is; None when nothing is left. Those that admit nothing come last, in any order."""
        if not self._of:
            return self._barred[-1] if self._barred else None
        line = self._of[self._way()[-1]][0][2]
        self._before = (line.items[-1].asked, self._usage.changes)
        return line

    def shortened(self) -> None:
        """Items of the first line were taken away, at least the first one."""
        if not self._of:
            if not self._barred[-1].items:
                self._barred.pop()
            return
        way = self._way()
        name = way[-1]
        lines = self._of[name]
        _, number, line = lines[0]
        if line.items:
            heapq.heapreplace(lines, (line.items[-1].order, number, line))
        else:
            heapq.heappop(lines)
        if lines and self._before == (lines[0][2].items[-1].asked, self._usage.changes):
            return  # nothing was given, and the next one asks for the same
        if not lines:
            del self._of[name]
        self._rank_way(way)

    def _rank_way(self, way: list[QueueName]) -> None:
        """Compare the queues on this way with their siblings anew, from below; those with nothing left go."""
        for name, above in zip(reversed(way), (*reversed(way[:-1]), None), strict=True):
            ranked = self._below[above]
            if not (self._of.get(name) or self._below.get(name)):
                heapq.heappop(ranked)
                if not ranked:
                    del self._below[above]
            elif len(ranked) > 1:
                heapq.heapreplace(ranked, (self._rank(name), name))

    def _way(self) -> list[QueueName]:
        """From the top to the queue whose turn it is, the best of its siblings at each level."""
        way = [self._below[None][0][1]]
        while way[-1] in self._below:
            way.append(self._below[way[-1]][0][1])
        return way

    def _depth(self, name: QueueName | None) -> int:
        return 0 if name is None else len(self._usage.tree.path(name))

    def _rank(self, name: QueueName) -> fairshare.Rank:
        at = self._usage.tree.at(name)
        assert at is not None
        return fairshare.rank(at, self._usage.of(name), self._next(name).asked if at.owned else (), self._totals)

    def _next(self, name: QueueName) -> T:
        while name in self._below:
            name = self._below[name][0][1]
        return self._of[name][0][2].items[-1]


#: the rank of a queue that has no siblings to be compared with
_ALONE: fairshare.Rank = (False, 0, False, 0)
