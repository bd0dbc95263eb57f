"""How kube-scheduler searches hosts and chooses one (simulated), for pods one by one and for those of a gang alike.

Takes what a pod asks for and what is free, gives a row; must not take it. Of more than 100 hosts only a part is
scored, from where the last search ended; equals are chosen among by chance, here by a seed.
"""

from __future__ import annotations

import itertools

import numpy as np

from extender.sim.traces import chance
from extender.sim.traces.common import Ask
from extender.sim.trial.cluster import Cluster, Ints, Mask
from extender.sim.trial.scoring import Scores

_ALL_UP_TO = 100


class Hosts:
    """One scheduler's search."""

    def __init__(self, cluster: Cluster, scores: Scores, seed: int) -> None:
        self._cluster = cluster
        self._scores = scores
        self._seed = seed
        self._from = 0
        self._draws = itertools.count()

    def choose(self, ask: Ask, free: Ints, kept: Ints | None = None) -> int | None:
        """The host for a pod with this free; None when it fits nowhere.

        `kept`: what is free without room that is kept for others. Filters know of it, and scores do not.
        """
        fitting = self._cluster.fitting(ask, free if kept is None else kept)
        best = self.best(ask, free, self._found(fitting))
        if not len(best):
            return None
        return int(best[int(chance.unit(self._seed, "tie", next(self._draws)) * len(best))])

    def best(self, ask: Ask, free: Ints, rows: Ints) -> Ints:
        """Of these hosts those with the highest score."""
        if len(rows) < 2:
            return rows
        scores = self.scores(ask, free, rows)
        found: Ints = rows[scores == scores.max()]
        return found

    def scores(self, ask: Ask, free: Ints, rows: Ints) -> Ints:
        """The score of each of these hosts."""
        return self._scores(self._cluster.total[rows], free[rows], self._cluster.row_of(ask))

    def _found(self, fits: Mask) -> Ints:
        number = len(fits)
        enough = scored_of(number)
        order = (np.arange(number) + self._from) % number
        places = np.flatnonzero(fits[order])
        looked_at = number if len(places) < enough else int(places[enough - 1]) + 1
        self._from = (self._from + looked_at) % number
        found: Ints = order[places[:enough]]
        return found


def scored_of(number: int) -> int:
    """So many hosts that fit are scored, of so many in all; percentageOfNodesToScore is not set."""
    if number < _ALL_UP_TO:
        return number
    return max(number * max(50 - number // 125, 5) // 100, _ALL_UP_TO)
