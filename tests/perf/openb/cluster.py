"""What is free of the nodes of a trace while pods arrive, and which of them a pod fits on.

Takes hosts, shapes and choices; must not choose. Amounts as in the trace: millicores, MiB, thousandths of a GPU.
"""

from __future__ import annotations

import numpy as np

from tests.perf.openb.trace import MILLI, MOST_GPUS, Hosts, Ints, Mask, Shape


class Cluster:
    """Free room by row of the hosts. `left` is a row for each node and a column for each GPU; 0 where there is none."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        self.cpu = hosts.cpu.copy()
        self.memory = hosts.memory.copy()
        self.left = np.where(np.arange(MOST_GPUS) < hosts.gpus[:, None], MILLI, 0).astype(np.int64)
        #: sums over the GPUs of a node, kept: thousandths that are free, GPUs wholly free, most free on one
        self.total = self.left.sum(axis=1)
        self.whole = hosts.gpus.copy()
        self.most = self.left.max(axis=1)
        #: how often each row changed: for those who keep something by row
        self.changed = np.zeros(len(hosts.names), dtype=np.int64)
        self._accepted: dict[tuple[str, ...], Mask] = {}

    def fitting(self, shape: Shape) -> Ints:
        """Rows on which the pod fits, in order."""
        fits = (self.cpu >= shape.cpu) & (self.memory >= shape.memory)
        if shape.shared:
            fits &= self.most >= shape.milli
        elif shape.gpus:
            fits &= self.whole >= shape.gpus
        if shape.models:
            fits &= self.accepted(shape)
        return np.flatnonzero(fits)

    def accepted(self, shape: Shape) -> Mask:
        """Rows of models that the shape takes."""
        if shape.models not in self._accepted:
            self._accepted[shape.models] = self.hosts.accepted(shape)
        return self._accepted[shape.models]

    def take(self, row: int, shape: Shape, gpu: int | None = None) -> None:
        """Use up what the pod asks for; `gpu` says of which GPU its part is, whole ones are the first that are free."""
        self.cpu[row] -= shape.cpu
        self.memory[row] -= shape.memory
        left = self.left[row]
        if shape.shared:
            left[gpu] -= shape.milli
        elif shape.gpus:
            left[np.flatnonzero(left == MILLI)[: shape.gpus]] = 0
        assert left.min() >= 0 <= min(self.cpu[row], self.memory[row]), "more is taken than there is"
        if shape.gpus:
            self.total[row] = left.sum()
            self.whole[row] = np.count_nonzero(left == MILLI)
            self.most[row] = left.max()
        self.changed[row] += 1
