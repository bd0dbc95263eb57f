"""How the GPUs of each node are joined, and which of them are taken.

Takes nodes and pods as they come and go, gives arrays by row; must not choose nodes.

Which GPUs of a node a pod has is known of nodes that publish cards only. Of others it is an assumption: the device
plugin gives each pod, in the order in which they were bound, those of the free ones that are joined best.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from extender.core import links
from extender.core.ids import NodeName, PodUid
from extender.core.links import Links
from extender.core.model import Pod
from extender.core.resources import GPU

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """By row of the node table: which of the matrices a node has (-1: not known), and its free GPUs as bits."""

    matrices: tuple[Links, ...]
    which: Ints
    free: Bits


@dataclass(slots=True)
class _Held:
    """A node's matrix, and the GPUs that each pod is taken to have, as bits."""

    row: int
    matrix: Links
    taken: dict[PodUid, int] = field(default_factory=dict)

    @property
    def free(self) -> int:
        """GPUs that nobody has."""
        return ((1 << len(self.matrix)) - 1) & ~sum(self.taken.values())


class LinkTable:
    """Kept by the node table. Invariant: no GPU is taken by two pods."""

    def __init__(self) -> None:
        self._nodes: dict[NodeName, _Held] = {}
        self._node_of: dict[PodUid, NodeName] = {}
        self._joined: Joined | None = None

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def put(self, node: NodeName, row: int, matrix: Links | None) -> bool:
        """Take in what is known of a node; True when it is news: its pods must be counted anew."""
        before = self._nodes.get(node)
        if (before and before.matrix) == matrix:
            return False
        self.drop(node)
        if matrix is not None:
            self._nodes[node] = _Held(row, matrix)
        return matrix is not None

    def drop(self, node: NodeName) -> None:
        """Forget a node and what was counted there."""
        held = self._nodes.pop(node, None)
        if held is not None:
            self._joined = None
            for uid in held.taken:
                del self._node_of[uid]

    def recount(self, pods: Iterable[Pod]) -> None:
        """Count what these have anew, in the order in which they were bound."""
        counted = list(pods)
        for pod in counted:
            self.uncount(pod.uid)
        for pod in sorted(counted, key=lambda pod: (pod.bound_at or 0.0, pod.uid)):
            self.count(pod)

    def count(self, pod: Pod) -> None:
        """A pod has come to its node: it has the best of the free GPUs there, as many as there are."""
        held = self._nodes.get(pod.node) if pod.node is not None else None
        number = dict(pod.shape.request).get(GPU, 0)
        if held is None or pod.node is None or not number or pod.uid in self._node_of:
            return
        free = held.free
        fit = links.fit(held.matrix, free, min(number, free.bit_count()))
        held.taken[pod.uid] = fit.bits if fit is not None else 0
        self._node_of[pod.uid] = pod.node
        self._joined = None

    def uncount(self, uid: PodUid) -> None:
        """The pod has what it had no more."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            del self._nodes[node].taken[uid]
            self._joined = None

    def joined(self, size: int) -> Joined | None:
        """What is known, for a node table of so many rows; None when nothing is."""
        if not self._nodes:
            return None
        if self._joined is None or len(self._joined.which) != size:
            matrices = tuple(dict.fromkeys(held.matrix for held in self._nodes.values()))
            place = {matrix: number for number, matrix in enumerate(matrices)}
            which, free = np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=np.uint64)
            for held in self._nodes.values():
                which[held.row], free[held.row] = place[held.matrix], held.free
            self._joined = Joined(matrices, which, free)
        return self._joined
