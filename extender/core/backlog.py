"""What waits in each queue, and which queues are open: new pods of an open queue need no gate.

Takes one record per group, gives sums per queue kept up to date; must not look at pods.

A queue is open while nothing of it waits for room, and it closes well before `STRAY_LIMIT` of its pods
are strays (design 3.1): the ConfigMap and the admission policy need some milliseconds to follow, and
pods created meanwhile come ungated.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from extender.core.ids import GroupKey, QueueName
from extender.core.resources import Amounts

#: a queue is closed from so many strays on; half of the 32 that the design allows
STRAY_LIMIT = 16


@dataclass(frozen=True, slots=True)
class Waiting:
    """One group that is not admitted: its queue, its strays, whether it waits for room, and what it asks for."""

    queue: QueueName
    strays: int
    for_room: bool
    asked: Amounts = ()


class Backlog:
    """Sums over the waiting groups, by queue."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Waiting] = {}
        self.strays: Counter[QueueName] = Counter()
        self.for_room: Counter[QueueName] = Counter()
        self.groups: Counter[QueueName] = Counter()
        self.asked: dict[QueueName, dict[str, int]] = {}

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

    def is_open(self, queue: QueueName) -> bool:
        """True when new pods of this queue may come ungated."""
        return not self.for_room[queue] and self.strays[queue] < STRAY_LIMIT

    def _count(self, waiting: Waiting, sign: int) -> None:
        queue = waiting.queue
        for sums, number in ((self.strays, waiting.strays), (self.for_room, int(waiting.for_room)), (self.groups, 1)):
            sums[queue] += sign * number
            if not sums[queue]:
                del sums[queue]
        asked = self.asked.setdefault(queue, {})
        for resource, amount in waiting.asked:
            asked[resource] = asked.get(resource, 0) + sign * amount
            if not asked[resource]:
                del asked[resource]
        if not asked:
            del self.asked[queue]
