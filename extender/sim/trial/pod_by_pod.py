"""A model of kube-scheduler 1.37 that takes pods one by one (simulated): queues, filters, scores and preemption.

Takes pods, binds and evicts; must not know gangs or queues. What it leaves out: nothing of a trace asks for it (taints,
spreading, affinity between pods, volumes), and the time that a cycle takes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from extender.sim.traces.common import Ask
from extender.sim.trial.cluster import Cluster, Ints, Pod, State
from extender.sim.trial.hosts import Hosts
from extender.sim.trial.replay import Stage
from extender.sim.trial.scoring import Scores
from extender.sim.trial.waiting import Waiting


class PodByPod:
    """The model."""

    def __init__(self, stage: Stage, scores: Scores, seed: int) -> None:
        self._stage = stage
        self._cluster = stage.cluster
        self._hosts = Hosts(stage.cluster, scores, seed)
        self._waiting: Waiting[Pod] = Waiting()
        #: pods that are not to be tried any more
        self._withdrawn: set[Pod] = set()
        #: room that victims left, by who it is for
        self._nominated: dict[Pod, int] = {}
        #: what fitted nowhere since anything was freed
        self._hopeless: set[tuple[Ask, int]] = set()

    def submitted(self, pods: Sequence[Pod], now: float) -> None:
        """These pods have come."""
        for pod in pods:
            self._withdrawn.discard(pod)
            self._waiting.add(pod, pod.work.job.priority, now)

    def ended(self, pods: Sequence[Pod], now: float) -> None:
        """Room has become free."""
        self.freed(now)

    def freed(self, now: float) -> None:
        """Room has become free."""
        self._hopeless.clear()
        self._waiting.freed(now)

    def withdraw(self, pod: Pod) -> None:
        """The pod is not to be tried any more."""
        self._withdrawn.add(pod)
        self._waiting.drop(pod)
        self._nominated.pop(pod, None)

    def decide(self, now: float) -> None:
        """Try each pod that may be tried."""
        self._waiting.flush(now)
        while (pod := self._waiting.pop(now)) is not None:
            if pod.state is State.WAITING and pod not in self._withdrawn:
                self._try(pod, now)

    def looks_at(self, now: float) -> float | None:
        """When who fitted nowhere is tried again."""
        return self._waiting.looks_at()

    def _try(self, pod: Pod, now: float) -> None:
        what = (pod.ask, pod.work.job.priority)
        row = None if what in self._hopeless else self._hosts.choose(pod.ask, self._free_for(pod))
        if row is not None:
            self._nominated.pop(pod, None)
            self._waiting.drop(pod)
            self._stage.bind(pod, row)
            return
        self._waiting.put_aside(pod, pod.work.job.priority, now)
        if what not in self._hopeless and not self._preempt(pod, now):
            self._hopeless.add(what)

    def _free_for(self, pod: Pod) -> Ints:
        """What is free, less what is kept for others of no less priority whose victims have left."""
        priority = pod.work.job.priority
        kept = [(o, row) for o, row in self._nominated.items() if o is not pod and o.work.job.priority >= priority]
        if not kept:
            return self._cluster.free
        free = self._cluster.free.copy()
        for other, row in kept:
            free[row] -= self._cluster.row_of(other.ask)
        return free

    def _preempt(self, pod: Pod, now: float) -> bool:
        """Evict the least important pods of one host that make room; False when no host has them."""
        found = preempting(self._cluster, pod, self._free_for(pod))
        if found is None:
            return False
        row, victims = found
        self._nominated[pod] = row
        heirs = [self._stage.evict(victim) for victim in victims]
        self.freed(now)
        self.submitted(heirs, now)
        return True


def preempting(cluster: Cluster, pod: Pod, free: Ints) -> tuple[int, list[Pod]] | None:
    """The host on which the least important victims are, and these; None when their leaving would not do anywhere."""
    row_of = cluster.row_of(pod.ask)
    best: tuple[tuple[int, int, int, float], int, list[Pod]] | None = None
    for row in np.flatnonzero(cluster.accepted(pod.ask) & (cluster.total >= row_of).all(axis=1)):
        victims = _victims(cluster, pod, int(row), free[row] - row_of)
        if victims:
            key = _cost(victims)
            if best is None or key < best[0]:
                best = (key, int(row), victims)
    return None if best is None else best[1:]


def _cost(victims: Sequence[Pod]) -> tuple[int, int, int, float]:
    """The highest priority first, then their sum, their number, and how long the most important ones run."""
    ranks = [pod.work.job.priority for pod in victims]
    longest = min(pod.bound_at for pod in victims if pod.work.job.priority == max(ranks))
    return max(ranks), sum(ranks) + len(ranks) * 2**31, len(ranks), -longest


def _victims(cluster: Cluster, pod: Pod, row: int, lacks: Ints) -> list[Pod]:
    """Who must go from a host: the more important ones stay as far as there is room. None when all would not do."""
    priority = pod.work.job.priority
    lower = [other for other in cluster.on[row].values() if other.work.job.priority < priority]
    room = lacks + sum((cluster.row_of(other.ask) for other in lower), np.zeros_like(lacks))
    if not lower or (room < 0).any():
        return []
    victims = []
    for other in sorted(lower, key=lambda other: (-other.work.job.priority, other.bound_at, other.uid)):
        takes = cluster.row_of(other.ask)
        if (room >= takes).all():
            room = room - takes
        else:
            victims.append(other)
    return victims
