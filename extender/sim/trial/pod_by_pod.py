"""A model of kube-scheduler 1.37 that takes pods one by one (simulated): queues, filters, scores and preemption.

Takes pods, binds and evicts; must not know gangs or queues. What it leaves out: nothing of a trace asks for it (taints,
spreading, affinity between pods, volumes), and the time that a cycle takes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from extender.sim.traces import chance
from extender.sim.traces.common import Ask
from extender.sim.trial.cluster import Cluster, Ints, Mask, Pod, State
from extender.sim.trial.hosts import Hosts
from extender.sim.trial.replay import Stage
from extender.sim.trial.scoring import Scores
from extender.sim.trial.waiting import Waiting

#: victims are looked for until this part of all hosts has some, and this many: its defaults
_CANDIDATES_PERCENT, _CANDIDATES = 10, 100


class PodByPod:
    """The model."""

    def __init__(self, stage: Stage, scores: Scores, seed: int) -> None:
        self._stage = stage
        self._cluster = stage.cluster
        self._hosts = Hosts(stage.cluster, scores, seed)
        self._seed = seed
        self._searches = itertools.count()
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
        row = self._fitting_nominated(pod)
        if row is None and what not in self._hopeless:
            row = self._hosts.choose(pod.ask, self._cluster.free, self._free_for(pod))
        if row is not None:
            self._nominated.pop(pod, None)
            self._waiting.drop(pod)
            self._stage.bind(pod, row)
            return
        self._waiting.put_aside(pod, pod.work.job.priority, now)
        if what not in self._hopeless and not self._preempt(pod, now):
            self._hopeless.add(what)

    def _fitting_nominated(self, pod: Pod) -> int | None:
        """The host that victims left for the pod; it is tried first, and taken when the pod fits there."""
        row = self._nominated.get(pod)
        if row is None or not self._cluster.fitting(pod.ask, self._free_for(pod))[row]:
            return None
        return row

    def _free_for(self, pod: Pod) -> Ints:
        return free_for(self._cluster, self._nominated, pod)

    def _preempt(self, pod: Pod, now: float) -> bool:
        """Evict the least important pods of one host that make room; False when no host has them."""
        choices = self._choices(pod)
        if not choices:
            return False
        chosen = min(choices, key=lambda choice: choice.cost)
        self._nominated[pod] = chosen.row
        heirs = [self._stage.evict(victim) for victim in chosen.victims]
        self.freed(now)
        self.submitted(heirs, now)
        return True

    def _choices(self, pod: Pod) -> list[Choice]:
        """Some of the hosts on which victims make room: the search begins anywhere, and ends when it has enough."""
        rows = possible(self._cluster, pod)
        begin = int(chance.unit(self._seed, "offset", next(self._searches)) * len(rows))
        free = self._free_for(pod)
        found = (choice_on(self._cluster, pod, row, free) for row in (*rows[begin:], *rows[:begin]))
        enough = max(len(self._cluster.hosts) * _CANDIDATES_PERCENT // 100, _CANDIDATES)
        return list(itertools.islice((choice for choice in found if choice is not None), enough))


def free_for(cluster: Cluster, nominated: Mapping[Pod, int], pod: Pod) -> Ints:
    """What is free, less what is kept for others of no less priority whose victims have left."""
    priority = pod.work.job.priority
    kept = [(o, row) for o, row in nominated.items() if o is not pod and o.work.job.priority >= priority]
    if not kept:
        return cluster.free
    free = cluster.free.copy()
    for other, row in kept:
        free[row] -= cluster.row_of(other.ask)
    return free


Cost = tuple[int, int, int, float]


@dataclass(frozen=True, slots=True)
class Choice:
    """Victims on one host whose leaving makes room, and what is compared between hosts: the least is chosen."""

    row: int
    victims: list[Pod]
    cost: Cost


def possible(cluster: Cluster, pod: Pod) -> list[int]:
    """Hosts on which the pod would fit if they were empty."""
    large_enough: Mask = np.all(cluster.total >= cluster.row_of(pod.ask), axis=1)
    return [int(row) for row in np.flatnonzero(cluster.accepted(pod.ask) & large_enough)]


def choice_on(cluster: Cluster, pod: Pod, row: int, free: Ints) -> Choice | None:
    """Who would have to leave this host for the pod; None when all of lower priority would not do."""
    victims = _victims(cluster, pod, row, free[row] - cluster.row_of(pod.ask))
    return Choice(row, victims, _cost(victims)) if victims else None


def _cost(victims: Sequence[Pod]) -> Cost:
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
