"""The heads: of each queue the first group that waits for room or quota.

Takes groups with their places in their queues, gives whoever is first; must not know what is kept for a head.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from extender.core.ids import GroupKey, QueueName
from extender.core.ordering import OrderKey
from extender.core.resources import Amounts


@dataclass(frozen=True, slots=True)
class Head:
    """A waiting group: its place in its queue, and what it asks for in all."""

    key: GroupKey
    order: OrderKey
    asked: Amounts


class Heads:
    """At most one a queue."""

    def __init__(self) -> None:
        self._of: dict[QueueName, Head] = {}
        self._queue: dict[GroupKey, QueueName] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[tuple[QueueName, Head]]:
        return iter(self._of.items())

    def of(self, queue: QueueName) -> Head | None:
        """The queue's head."""
        return self._of.get(queue)

    def is_first(self, queue: QueueName, key: GroupKey, order: OrderKey) -> bool:
        """True when the queue has no head that comes before this group."""
        there = self._of.get(queue)
        return there is None or there.key == key or order < there.order

    def put(self, queue: QueueName, head: Head) -> None:
        """The head of the queue from now on."""
        self.drop(head.key)
        there = self._of.get(queue)
        if there is not None:
            del self._queue[there.key]
        self._of[queue], self._queue[head.key] = head, queue

    def drop(self, key: GroupKey) -> bool:
        """The group is no head any more; True when it was."""
        queue = self._queue.pop(key, None)
        if queue is None:
            return False
        del self._of[queue]
        return True
