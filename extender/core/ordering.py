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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

from extender.core import fairshare
from extender.core.ids import GroupKey, QueueName
from extender.core.resources import Amounts
from extender.core.usage import Usage

OrderKey = tuple[int, int, float, bool, str]
T = TypeVar("T")


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


def passes(usage: Usage, mine: Turn, theirs: Turn) -> bool:
    """True when room that is kept for the other may be given to this one.

    In one queue that is their order. Between queues, what is guaranteed may always be taken, then comes who stays
    inside what his queue owns, then the queue of higher priority. A smaller share is no reason: shares change with
    each pod, and what was promised would be worth nothing.
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
    inside = fairshare.inside(at, usage.of(name), turn.asked)
    return (not _guaranteed(usage, turn), not inside, -at.queue.priority)


def _guaranteed(usage: Usage, turn: Turn) -> bool:
    """True when all that is asked for and of which something is kept comes out of the group's own guarantees."""
    kept = [(resource, amount) for resource, amount in turn.asked if usage.unused.get(resource)]
    return bool(kept) and not any(usage.commits(turn.queue, resource, amount)[-1][1] for resource, amount in kept)


class Turns(Generic[T]):
    """Items by queue, given out in order. What is asked for is asked of an item when its turn is near."""

    def __init__(self, usage: Usage, totals: Mapping[str, int], asked: Callable[[T], Amounts]) -> None:
        self._usage = usage
        self._totals = totals
        self._asked = asked
        self._of: dict[QueueName, list[tuple[OrderKey, T]]] = {}
        #: by queue, None for the top: the queues below it in which something is left
        self._below: dict[QueueName | None, list[tuple[fairshare.Rank, QueueName]]] = {}
        #: place of the item that has its turn
        self._current: OrderKey | None = None

    def put(self, queue: QueueName, key: OrderKey, item: T) -> None:
        """One item; all must be put before the first is taken."""
        self._of.setdefault(queue, []).append((key, item))

    def again(self, queue: QueueName, key: OrderKey, item: T) -> None:
        """The item that has its turn gets another one, if that is at a later place in its queue."""
        left = self._of.get(queue)
        if left is None or self._current is None or key <= self._current:
            return
        low, high = 0, len(left)
        while low < high:  # the last one is the next
            middle = (low + high) // 2
            low, high = (middle + 1, high) if left[middle][0] > key else (low, middle)
        left.insert(low, (key, item))

    def __iter__(self) -> Iterator[T]:
        """All items. Those of queues that admit nothing come last: their order does not matter."""
        barred = [name for name in self._of if name not in self._usage.tree.admitting]
        others = [item for name in barred for _, item in self._of.pop(name)]
        for items in self._of.values():
            items.sort(key=lambda one: one[0], reverse=True)
        self._rank_all()
        while self._below[None]:
            yield from self._take()
        yield from others

    def _take(self) -> Iterator[T]:
        way: list[QueueName | None] = [None]
        name = self._below[None][0][1]
        while name in self._below:
            way.append(name)
            name = self._below[name][0][1]
        left, before = self._of[name], self._usage.changes
        self._current, item = left.pop()
        yield item
        if left and self._usage.changes == before and self._asked(left[-1][1]) == self._asked(item):
            return  # nothing was given, and the next one asks for the same
        for above in reversed(way):
            ranked = self._below[above]
            if not (self._of.get(name) or self._below.get(name)):
                heapq.heappop(ranked)
            elif len(ranked) > 1:
                heapq.heapreplace(ranked, (self._rank(name), name))
            if above is not None:
                name = above

    def _rank_all(self) -> None:
        levels: dict[QueueName | None, set[QueueName]] = {None: set()}
        for queue in self._of:
            path = self._usage.tree.path(queue)
            for name, above in zip(path, (*path[1:], None), strict=True):
                levels.setdefault(above, set()).add(name)
        for above in sorted(levels, key=self._depth, reverse=True):
            names = sorted(levels[above])
            self._below[above] = [(self._rank(name) if len(names) > 1 else _ALONE, name) for name in names]
            heapq.heapify(self._below[above])

    def _depth(self, name: QueueName | None) -> int:
        return 0 if name is None else len(self._usage.tree.path(name))

    def _rank(self, name: QueueName) -> fairshare.Rank:
        at = self._usage.tree.at(name)
        assert at is not None
        return fairshare.rank(at, self._usage.of(name), self._asked(self._next(name)) if at.owned else (), self._totals)

    def _next(self, name: QueueName) -> T:
        while name in self._below:
            name = self._below[name][0][1]
        return self._of[name][-1][1]


#: the rank of a queue that has no siblings to be compared with
_ALONE: fairshare.Rank = (False, 0, False, 0)
