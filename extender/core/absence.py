"""Room and usage as they would be without some pods: the sums of who leaves, and of who is thought away.

Takes pods, gives copies of room and usage; must not know why they should be away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from extender.core import changes
from extender.core.ids import NodeName, PodUid, QueueName
from extender.core.model import Pod
from extender.core.resources import Amounts, Row
from extender.core.snapshot import Room
from extender.core.usage import Usage
from extender.core.world import World


class Absence:
    """Pods that are away. `charges` is what they use of their queues, `relief` what they take of each node."""

    def __init__(self, world: World, shape: tuple[int, ...], pods: Iterable[Pod] = ()) -> None:
        """`shape` is that of the room's array."""
        self._world = world
        self._relief = np.zeros(shape, dtype=np.int64)
        self._charges: Counter[tuple[QueueName, Amounts]] = Counter()
        self.pods: dict[PodUid, Pod] = {}
        self._on: dict[NodeName, list[Pod]] = {}
        #: those that have shares of their node's cards, with its row
        self._sharing: list[tuple[int, Pod]] = []
        self.add(pods)

    def add(self, pods: Iterable[Pod]) -> None:
        """These are away too; each may be added once."""
        rows: dict[Amounts, list[int]] = {}
        requests: dict[Amounts, Row] = {}
        row_of = self._world.nodes.row_of
        for pod in pods:
            self.pods[pod.uid] = pod
            if pod.node is not None:
                self._on.setdefault(pod.node, []).append(pod)
            charge = changes.charge(pod, self._world.managed)
            if charge is not None:
                key, named, amounts = charge
                self._charges[named or self._world.queue_of(key), amounts] += 1
            row = row_of.get(pod.node) if pod.node is not None else None
            if row is not None:
                rows.setdefault(pod.shape.request, []).append(row)
                requests[pod.shape.request] = self._world.request_row(pod)
                if pod.shares:
                    self._sharing.append((row, pod))
        height, width = self._relief.shape
        for request, there in rows.items():
            each = requests[request][:width]
            self._relief[:, : len(each)] += np.bincount(there, minlength=height)[:, None] * each

    def on(self, node: NodeName) -> Sequence[Pod]:
        """Those that are away from a node."""
        return self._on.get(node, ())

    def room(self, room: Room) -> Room:
        """The room without them."""
        without = Room(room.snapshot, room.free + self._relief, cards=room.cards)
        for row, pod in self._sharing:
            without.take_cards(row, pod.shares, -1)
        return without

    def usage(self, usage: Usage) -> Usage:
        """What queues use without them; not to be changed."""
        if not self._charges:
            return usage
        less = usage.scratch()
        for (queue, amounts), number in self._charges.items():
            less.book(queue, amounts, -number)
        return less
