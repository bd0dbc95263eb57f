"""What waits in each queue, and which queues are open: new pods of an open queue need no gate.

Takes one record per group, gives sums per queue kept up to date; must not look at pods.

A queue is open while nothing of it waits for room, and it closes when `STRAY_LIMIT` of its pods are strays,
whatever they wait for (design 3.1): the ConfigMap and the admission policy need some milliseconds to follow,
and pods created meanwhile come ungated. A stray came through the queue that it names itself, also where its
group waits because it names another one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TypeVar

from extender.core.ids import GroupKey, QueueName
from extender.core.resources import Amounts

K = TypeVar("K")

#: a queue is closed from so many strays on; half of the 32 that the design allows
STRAY_LIMIT = 16


@dataclass(frozen=True, slots=True)
class Waiting:
    """One group that is not admitted: its queue, if it waits for room, its strays by queue, and what it asks for."""

    queue: QueueName
    for_room: bool
    strays: tuple[tuple[QueueName, int], ...] = ()
    asked: Amounts = ()


class Backlog:
    """Sums over the waiting groups, by queue."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Waiting] = {}
        self.strays: Counter[QueueName] = Counter()
        self.for_room: Counter[QueueName] = Counter()
        self.groups: Counter[QueueName] = Counter()
        self.asked: dict[QueueName, Counter[str]] = {}

    def put(self, key: GroupKey, waiting: Waiting | None) -> None:
        """Replace what is known of a group; None when it does not wait."""
        before = self._groups.pop(key, None)
        if before is not None:
            self._count(before, -1)
        if waiting is not None:
            self._groups[key] = waiting
            self._count(waiting, 1)

    def has(self, key: GroupKey, queue: QueueName) -> bool:
        """True when the group is known to wait in this queue."""
        waiting = self._groups.get(key)
        return waiting is not None and waiting.queue == queue

    def waiting(self) -> list[tuple[GroupKey, QueueName]]:
        """All waiting groups with their queues, in no order."""
        return [(key, waiting.queue) for key, waiting in self._groups.items()]

    def is_open(self, queue: QueueName) -> bool:
        """True when new pods of this queue may come ungated."""
        return not self.for_room[queue] and self.strays[queue] < STRAY_LIMIT

    def _count(self, waiting: Waiting, sign: int) -> None:
        queue = waiting.queue
        for named, number in waiting.strays:
            _add(self.strays, named, sign * number)
        _add(self.for_room, queue, sign * waiting.for_room)
        _add(self.groups, queue, sign)
        asked = self.asked.setdefault(queue, Counter())
        for resource, amount in waiting.asked:
            _add(asked, resource, sign * amount)
        if not asked:
            del self.asked[queue]


def _add(sums: Counter[K], key: K, number: int) -> None:
    sums[key] += number
    if not sums[key]:
        del sums[key]
