"""Room and usage as they would be without some pods: the sums of who leaves, and of who is thought away.

Takes pods, gives copies of room and usage; must not know why they should be away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from extender.core import changes
from extender.core.ids import NodeName, PodUid, QueueName
from extender.core.model import Pod
from extender.core.quota import Sums
from extender.core.resources import Amounts, Row, add
from extender.core.snapshot import Room
from extender.core.usage import Usage
from extender.core.world import World

#: what one pod is counted with: amounts of a queue, and a row of the room's array
_Counted = tuple[tuple[QueueName, Amounts] | None, int | None]
#: rows of the room's array on which there is a pod of a request, by request
_There = dict[Amounts, tuple[Row, list[int]]]


class Absence:
    """Pods that are away. `charges` is what they use of their queues, `relief` what they take of each node."""

    def __init__(self, world: World, shape: tuple[int, ...], pods: Iterable[Pod] = ()) -> None:
        """`shape` is that of the room's array."""
        self._world = world
        self._relief = np.zeros(shape, dtype=np.int64)
        self._charges: Counter[tuple[QueueName, Amounts]] = Counter()
        #: sums of those, by queue, as far as they were asked for
        self._uses: dict[QueueName, Sums] = {}
        self.pods: dict[PodUid, Pod] = {}
        self._counted: dict[PodUid, _Counted] = {}
        self._on: dict[NodeName, dict[PodUid, Pod]] = {}
        #: those that have shares of their node's cards, with its row
        self._sharing: dict[PodUid, tuple[int, Pod]] = {}
        self.add(pods)

    def add(self, pods: Iterable[Pod]) -> None:
        """These are away too; each may be added once."""
        self._uses.clear()
        added: _There = {}
        row_of, managed = self._world.nodes.row_of, self._world.managed
        for pod in pods:
            self.pods[pod.uid] = pod
            row = None
            if pod.node is not None:
                self._on.setdefault(pod.node, {})[pod.uid] = pod
                row = row_of.get(pod.node)
            charge, charged = changes.charge(pod, managed), None
            if charge is not None:
                key, named, amounts = charge
                charged = (named or self._world.queue_of(key), amounts)
                self._charges[charged] += 1
            self._counted[pod.uid] = (charged, row)
            if row is not None:
                self._note(added, pod, row)
                if pod.shares:
                    self._sharing[pod.uid] = (row, pod)
        self._relieve(added, 1)

    def remove(self, uids: Iterable[PodUid]) -> None:
        """These are not away any more; each must be."""
        self._uses.clear()
        removed: _There = {}
        for uid in uids:
            pod, (charged, row) = self.pods.pop(uid), self._counted.pop(uid)
            self._sharing.pop(uid, None)
            if pod.node is not None:
                there = self._on[pod.node]
                del there[uid]
                if not there:
                    del self._on[pod.node]
            if charged is not None:
                self._charges[charged] -= 1
                if not self._charges[charged]:
                    del self._charges[charged]
            if row is not None:
                self._note(removed, pod, row)
        self._relieve(removed, -1)

    def _note(self, there: _There, pod: Pod, row: int) -> None:
        found = there.get(pod.shape.request)
        if found is None:
            found = there[pod.shape.request] = (self._world.request_row(pod), [])
        found[1].append(row)

    def _relieve(self, there: _There, sign: int) -> None:
        height, width = self._relief.shape
        for request, rows in there.values():
            each = sign * request[:width]
            if len(rows) == 1:
                self._relief[rows[0], : len(each)] += each
            else:
                self._relief[:, : len(each)] += np.bincount(rows, minlength=height)[:, None] * each

    def on(self, node: NodeName) -> Iterable[Pod]:
        """Those that are away from a node."""
        return self._on.get(node, {}).values()

    def uses(self, queue: QueueName) -> Mapping[str, int]:
        """What they use of a queue; not to be changed."""
        found = self._uses.get(queue)
        if found is None:
            found = self._uses[queue] = {}
            for (name, amounts), number in self._charges.items():
                if name == queue:
                    add(found, amounts, number)
        return found

    def room(self, room: Room) -> Room:
        """The room without them."""
        without = Room(room.snapshot, room.free + self._relief, cards=room.cards)
        for row, pod in self._sharing.values():
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
