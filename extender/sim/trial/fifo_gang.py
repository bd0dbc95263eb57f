"""Gangs in the order in which they came, without queues and priorities (simulated): the head holds up all others.

Takes gangs whole, binds them; evicts nobody. Hosts are chosen as kube-scheduler does that packs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from extender.sim.trial.cluster import Pod
from extender.sim.trial.hosts import Hosts
from extender.sim.trial.replay import Stage
from extender.sim.trial.scoring import most_allocated


class FifoGang:
    """The model."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._hosts = Hosts(stage.cluster, most_allocated, seed)
        self._waiting: deque[Sequence[Pod]] = deque()
        #: the head fitted nowhere, and nothing has been freed since
        self._hopeless = False

    def submitted(self, pods: Sequence[Pod], now: float) -> None:
        """A gang goes to the end."""
        self._waiting.append(tuple(pods))

    def ended(self, pods: Sequence[Pod], now: float) -> None:
        """Room has become free."""
        self._hopeless = False

    def decide(self, now: float) -> None:
        """Start gangs until the first that does not fit."""
        while self._waiting and not self._hopeless:
            pods = self._waiting[0]
            rows = self._place(pods)
            if rows is None:
                self._hopeless = True
                return
            self._waiting.popleft()
            for pod, row in zip(pods, rows, strict=True):
                self._stage.bind(pod, row)

    def _place(self, pods: Sequence[Pod]) -> list[int] | None:
        cluster = self._stage.cluster
        free, rows = cluster.free.copy(), []
        for pod in pods:
            row = self._hosts.choose(pod.ask, free)
            if row is None:
                return None
            free[row] -= cluster.row_of(pod.ask)
            rows.append(row)
        return rows

    def looks_at(self, now: float) -> float | None:
        """Time alone changes nothing."""
        return None
