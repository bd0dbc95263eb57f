"""Five policies that FGD is compared with, as the simulator of its authors has them.

Each takes the cluster, a pod and the rows on which it fits, and gives a row and a GPU, or None for whole ones.
Scores are integers from 0 to 100, the highest wins, and among equals the first row; must not use up room.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from tests.perf.openb.cluster import Cluster
from tests.perf.openb.trace import MILLI, MOST_GPUS, Arrivals, Ints, Shape

#: the largest node, by which amounts are made comparable
_MOST_CPU = 128_000
_MOST_GPU = MOST_GPUS * MILLI
_MOST_SCORE = 100

#: a row, and the GPU of which a part is taken
Choice = tuple[int, int | None]


class Policy(Protocol):
    """Where a pod goes."""

    def choose(self, cluster: Cluster, shape: Shape, rows: Ints) -> Choice:
        """One of these rows, on all of which it fits."""
        ...

    def placed(self, row: int, shape: Shape) -> None:
        """The pod was placed there."""
        ...


class Random:
    """Any node, any GPU."""

    def __init__(self, run: Arrivals, seed: int) -> None:
        self._chance = np.random.default_rng((seed, 1))

    def choose(self, cluster: Cluster, shape: Shape, rows: Ints) -> Choice:
        """One of these rows."""
        row = int(self._chance.choice(rows))
        if not shape.shared:
            return row, None
        return row, int(self._chance.choice(np.flatnonzero(cluster.left[row] >= shape.milli)))

    def placed(self, row: int, shape: Shape) -> None:
        """Nothing is kept."""


class Scored:
    """The node with the highest score; on it the GPU with least to spare."""

    def __init__(self, run: Arrivals, seed: int) -> None:
        pass

    def choose(self, cluster: Cluster, shape: Shape, rows: Ints) -> Choice:
        """The best of these rows."""
        row = int(rows[self.scores(cluster, shape, rows).argmax()])
        return row, tightest(cluster, shape, row)

    def scores(self, cluster: Cluster, shape: Shape, rows: Ints) -> Ints:
        """A score for each of these rows."""
        raise NotImplementedError

    def placed(self, row: int, shape: Shape) -> None:
        """Nothing is kept."""


def tightest(cluster: Cluster, shape: Shape, row: int) -> int | None:
    """The GPU of a node that has least to spare for the pod, the first of equals; None for whole ones."""
    if not shape.shared:
        return None
    left = cluster.left[row]
    return int(np.where(left >= shape.milli, left, MILLI + 1).argmin())


class DotProd(Scored):
    """The node whose free CPU and GPUs are least along what the pod asks for."""

    def scores(self, cluster: Cluster, shape: Shape, rows: Ints) -> Ints:
        """100 less half the product of what is asked and what is free."""
        cpu = cluster.cpu[rows] / _MOST_CPU * (shape.cpu / _MOST_CPU)
        gpu = cluster.total[rows] / _MOST_GPU * (shape.demand / _MOST_GPU)
        return (_MOST_SCORE * (1 - (cpu + gpu) / 2)).astype(np.int64)


class BestFit(Scored):
    """The node that has least CPU and GPUs left after it."""

    def scores(self, cluster: Cluster, shape: Shape, rows: Ints) -> Ints:
        """100 less half of what is left."""
        cpu = (cluster.cpu[rows] - shape.cpu) / _MOST_CPU
        gpu = (cluster.total[rows] - shape.demand) / _MOST_GPU
        return ((1 - (cpu + gpu) / 2) * _MOST_SCORE).astype(np.int64)


class Packing(Scored):
    """GPUs in use before free ones, and these on nodes in use before free nodes."""

    def scores(self, cluster: Cluster, shape: Shape, rows: Ints) -> Ints:
        """By what the pod would have to open; 0 for pods without GPUs."""
        if not shape.gpus:
            return np.zeros(len(rows), dtype=np.int64)
        gpus, whole = cluster.hosts.gpus[rows], cluster.whole[rows]
        idle = np.maximum(_MOST_SCORE // 3 - whole, whole)
        opening = np.full(len(rows), max(_MOST_SCORE // 2 - shape.gpus, _MOST_SCORE // 3))
        if not shape.shared:
            return np.where(whole == gpus, idle, opening)
        left = cluster.left[rows]
        least = np.where(left >= shape.milli, left, MILLI).min(axis=1)
        joining = np.maximum(_MOST_SCORE - least * 100 // MILLI // 10, _MOST_SCORE // 2)
        return np.where(whole == gpus, idle, np.where(least == MILLI, opening, joining))


class Clustering(Scored):
    """Pods of one size together: nodes with that size alone, with it among others, with nothing, with others."""

    def __init__(self, run: Arrivals, seed: int) -> None:
        super().__init__(run, seed)
        #: how many pods of each size each node has; columns: parts, then by number of GPUs
        self._sizes = np.zeros((len(run.hosts.names), MOST_GPUS + 1), dtype=np.int64)

    def scores(self, cluster: Cluster, shape: Shape, rows: Ints) -> Ints:
        """A quarter of the range for each of the four kinds of nodes, the fullest first; 0 for pods without GPUs."""
        if not shape.gpus:
            return np.zeros(len(rows), dtype=np.int64)
        there = self._sizes[rows] > 0
        mine, kinds = there[:, _size(shape)], there.sum(axis=1)
        quarter = np.where(mine, np.where(kinds == 1, 3, 2), np.where(kinds == 0, 1, 0))
        within = _MOST_SCORE // 4 * (_MOST_GPU - cluster.total[rows]) // _MOST_GPU
        return quarter * (_MOST_SCORE // 4) + within

    def placed(self, row: int, shape: Shape) -> None:
        """The node has one more of this size."""
        if shape.gpus:
            self._sizes[row, _size(shape)] += 1


def _size(shape: Shape) -> int:
    return 0 if shape.shared else shape.gpus


PolicyMaker = Callable[[Arrivals, int], Policy]
