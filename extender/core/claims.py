"""What waits holds back: room that a queue owns and is not given yet is not lent on.

Takes groups that wait for room inside what their queues own, gives them to whoever wants to borrow; must not
place. Of each queue it is the first group only, so that nothing is held back that will not be used next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from extender.core.ids import GroupKey, QueueName
from extender.core.model import Constraints
from extender.core.ordering import OrderKey
from extender.core.resources import Amounts


@dataclass(frozen=True, slots=True)
class Claim:
    """A waiting group: its place in its queue, what it asks for in all, and on which nodes."""

    key: GroupKey
    order: OrderKey
    asked: Amounts
    constraints: frozenset[Constraints]


class Claims:
    """At most one claim a queue."""

    def __init__(self) -> None:
        self._of: dict[QueueName, Claim] = {}
        self._queue: dict[GroupKey, QueueName] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[tuple[QueueName, Claim]]:
        return iter(self._of.items())

    def of(self, queue: QueueName) -> Claim | None:
        """The queue's claim."""
        return self._of.get(queue)

    def is_first(self, queue: QueueName, key: GroupKey, order: OrderKey) -> bool:
        """True when no group that comes before this one has a claim in the queue."""
        there = self._of.get(queue)
        return there is None or there.key == key or order < there.order

    def put(self, queue: QueueName, claim: Claim) -> None:
        """The claim of the queue from now on."""
        self.drop(claim.key)
        there = self._of.get(queue)
        if there is not None:
            del self._queue[there.key]
        self._of[queue], self._queue[claim.key] = claim, queue

    def drop(self, key: GroupKey) -> bool:
        """The group claims nothing any more; True when it did."""
        queue = self._queue.pop(key, None)
        if queue is None:
            return False
        del self._of[queue]
        return True
