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

from extender.core.ids import GroupKey, QueueName

#: a queue is closed from so many strays on; half of the 32 that the design allows
STRAY_LIMIT = 16


@dataclass(frozen=True, slots=True)
class Waiting:
    """One group that is not admitted: its queue, whether it waits for room, and its strays by queue."""

    queue: QueueName
    for_room: bool
    strays: tuple[tuple[QueueName, int], ...] = ()


class Backlog:
    """Sums over the waiting groups, by queue."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Waiting] = {}
        self.strays: Counter[QueueName] = Counter()
        self.for_room: Counter[QueueName] = Counter()

    def put(self, key: GroupKey, waiting: Waiting | None) -> None:
        """Replace what is known of a group; None when it does not wait."""
        before = self._groups.pop(key, None)
        if before is not None:
            self._count(before, -1)
        if waiting is not None:
            self._groups[key] = waiting
            self._count(waiting, 1)

    def is_open(self, queue: QueueName) -> bool:
        """True when new pods of this queue may come ungated."""
        return not self.for_room[queue] and self.strays[queue] < STRAY_LIMIT

    def _count(self, waiting: Waiting, sign: int) -> None:
        for queue, number in waiting.strays:
            _add(self.strays, queue, sign * number)
        _add(self.for_room, waiting.queue, sign * waiting.for_room)


def _add(sums: Counter[QueueName], queue: QueueName, number: int) -> None:
    sums[queue] += number
    if not sums[queue]:
        del sums[queue]
