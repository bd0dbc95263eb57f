"""Fragmentation gradient descent, written after its paper: "Beware of Fragmentation: Scheduling GPU-Sharing Workloads
with Fragmentation Gradient Descent" (USENIX ATC'23), and the defaults of its authors' simulator.

A node's fragments, for one typical pod: all that is free of its GPUs where the pod does not fit, or asks for none;
else what is free on those GPUs that have too little for it. A pod goes where the fragments, weighted by how typical
the pods are, grow least, and on the GPU where they do. Takes the cluster and pods; must not use up room.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from tests.perf.openb.cluster import Cluster
from tests.perf.openb.policies import Choice
from tests.perf.openb.trace import MILLI, MOST_GPUS, Arrivals, Hosts, Ints, Shape

Floats = npt.NDArray[np.float64]

#: the most frequent shapes that make up so much of the workload are typical
_TYPICAL = 0.95
_MOST_SCORE = 100
_EARLIER = np.tri(MOST_GPUS, k=-1, dtype=bool)


class Typical:
    """The typical pods of a workload that ask for GPUs, as arrays with a place for each."""

    def __init__(self, workload: tuple[Shape, ...], hosts: Hosts) -> None:
        # memory is not looked at
        count = Counter(Shape(pod.cpu, 0, pod.gpus, pod.milli, pod.models) for pod in workload)
        ordered = sorted(count, key=lambda s: (count[s], s.cpu, s.milli, s.gpus, "|".join(s.models)), reverse=True)
        enough = int((np.cumsum([count[shape] for shape in ordered]) < _TYPICAL * len(workload)).sum()) + 1
        chosen = ordered[:enough]
        asking = [shape for shape in chosen if shape.gpus]
        self.weights = np.array([count[shape] for shape in asking]) / sum(count[shape] for shape in chosen)
        self.cpu = np.array([shape.cpu for shape in asking], dtype=np.int64)
        self.gpus = np.array([shape.gpus for shape in asking], dtype=np.int64)
        self.accepted = np.array([hosts.accepted(shape) for shape in asking]).T.copy()
        #: the different amounts of one GPU, and which of them each asks for
        self._amounts, self._which = np.unique([shape.milli for shape in asking], return_inverse=True)

    def fragments(self, rows: Ints, cpu: Ints, left: Ints) -> Floats:
        """Thousandths of GPUs for which typical pods have no use, on nodes with this much CPU and on their GPUs."""
        enough = left[:, None, :] >= self._amounts[:, None]
        number = enough.sum(axis=2)[:, self._which]
        useful = (enough * left[:, None, :]).sum(axis=2)[:, self._which]
        fits = (number >= self.gpus) & (cpu[:, None] >= self.cpu) & self.accepted[rows]
        return left.sum(axis=1) - (useful * fits) @ self.weights


class _Kept:
    """Scores of a shape by row, the best GPU there, and when they were worked out."""

    def __init__(self, size: int) -> None:
        self.scores = np.zeros(size, dtype=np.int64)
        self.gpus = np.zeros(size, dtype=np.int64)
        self.since = np.full(size, -1, dtype=np.int64)


class Fgd:
    """Keeps the scores of each shape, and works out anew those of nodes that have changed since."""

    def __init__(self, run: Arrivals, seed: int) -> None:
        self._typical = Typical(run.workload, run.hosts)
        self._kept: dict[Shape, _Kept] = {}

    def choose(self, cluster: Cluster, shape: Shape, rows: Ints) -> Choice:
        """The row where fragments grow least, and the GPU there."""
        kept = self._kept.get(shape)
        if kept is None:
            kept = self._kept[shape] = _Kept(len(cluster.cpu))
        changed = rows[kept.since[rows] < cluster.changed[rows]]
        if len(changed):
            kept.scores[changed], kept.gpus[changed] = self._of(cluster, shape, changed)
            kept.since[changed] = cluster.changed[changed]
        row = int(rows[kept.scores[rows].argmax()])
        return row, int(kept.gpus[row]) if shape.shared else None

    def placed(self, row: int, shape: Shape) -> None:
        """The cluster knows what has changed."""

    def _of(self, cluster: Cluster, shape: Shape, rows: Ints) -> tuple[Ints, Ints]:
        """Scores, and the best GPU where the pod takes a part of one, on rows on which it fits."""
        cpu, left = cluster.cpu[rows], cluster.left[rows]
        before, gpus = self._typical.fragments(rows, cpu, left), np.zeros(len(rows), dtype=np.int64)
        if not shape.shared:
            whole = left == MILLI
            taken = whole & (np.cumsum(whole, axis=1) <= shape.gpus)
            after = self._typical.fragments(rows, cpu - shape.cpu, np.where(taken, 0, left))
            return _score(before - after), gpus
        # a GPU with as much left as an earlier one scores the same
        again = ((left[:, :, None] == left[:, None, :]) & _EARLIER).any(axis=2)
        which, gpu = np.nonzero((left >= shape.milli) & ~again)
        taken = left[which]
        taken[np.arange(len(which)), gpu] -= shape.milli
        after = self._typical.fragments(rows[which], cpu[which] - shape.cpu, taken)
        scores = np.full(left.shape, -1, dtype=np.int64)
        scores[which, gpu] = _score(before[which] - after)
        gpus = scores.argmax(axis=1)
        return scores[np.arange(len(rows)), gpus], gpus


def _score(fewer: Floats) -> Ints:
    return (_MOST_SCORE / (1 + np.exp(-fewer / MILLI))).astype(np.int64)
