"""A model of kube-scheduler 1.37's own gangs (simulated; gate GenericWorkload, off by default there).

Takes gangs whole, binds and evicts; must not know queues. As in its source: a gang is tried when it is complete, its
members one after the other as single pods would be, and is bound when all found a host; else none is. Who fits nowhere
preempts: all of lower priority are taken away, the gang is placed once, and the more important ones come back as far
as they still fit (a victim goes whole: disruptionMode `all`).
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.sim.traces.common import Ask
from extender.sim.trial.cluster import Ints, Pod, State, Work
from extender.sim.trial.hosts import Hosts
from extender.sim.trial.replay import Stage
from extender.sim.trial.scoring import Scores
from extender.sim.trial.waiting import Waiting


class Gang:
    """What waits of a job. Identity counts: it is a key."""

    def __init__(self, work: Work) -> None:
        self.work = work


class NativeGang:
    """The model."""

    def __init__(self, stage: Stage, scores: Scores, seed: int) -> None:
        self._stage = stage
        self._cluster = stage.cluster
        self._hosts = Hosts(stage.cluster, scores, seed)
        self._waiting: Waiting[Gang] = Waiting()
        self._running: dict[str, Work] = {}
        #: what fitted nowhere since anything was freed: request, pods, priority
        self._hopeless: set[tuple[Ask, int, int]] = set()

    def submitted(self, pods: Sequence[Pod], now: float) -> None:
        """A gang is complete."""
        work = pods[0].work
        self._waiting.add(Gang(work), work.job.priority, now)

    def ended(self, pods: Sequence[Pod], now: float) -> None:
        """Room has become free."""
        self._running.pop(pods[0].work.job.name, None)
        self._freed(now)

    def _freed(self, now: float) -> None:
        self._hopeless.clear()
        self._waiting.freed(now)

    def decide(self, now: float) -> None:
        """Try each gang that may be tried."""
        self._waiting.flush(now)
        while (gang := self._waiting.pop(now)) is not None:
            self._try(gang, now)

    def looks_at(self, now: float) -> float | None:
        """When who fitted nowhere is tried again."""
        return self._waiting.looks_at()

    def _try(self, gang: Gang, now: float) -> None:
        work = gang.work
        what = (work.job.ask, work.job.pods, work.job.priority)
        rows = None if what in self._hopeless else self._place(work, self._cluster.free.copy())
        if rows is None and what not in self._hopeless:
            rows = self._preempt(work, now)
        if rows is None:
            self._hopeless.add(what)
            self._waiting.put_aside(gang, work.job.priority, now)
            return
        self._waiting.drop(gang)
        self._running[work.job.name] = work
        for pod, row in zip(work.pods, rows, strict=True):
            self._stage.bind(pod, row)

    def _place(self, work: Work, free: Ints) -> list[int] | None:
        """A host for each member, taken of what is free; None when one finds none."""
        rows = []
        for _ in work.pods:
            row = self._hosts.choose(work.job.ask, free)
            if row is None:
                return None
            free[row] -= self._cluster.row_of(work.job.ask)
            rows.append(row)
        return rows

    def _preempt(self, work: Work, now: float) -> list[int] | None:
        """The hosts of its members, when jobs of lower priority have left; None when that would not do."""
        lower = [other for other in self._running.values() if other.job.priority < work.job.priority]
        if not lower:
            return None
        free = self._cluster.free.copy()
        for other in lower:
            self._add(free, other, 1)
        rows = self._place(work, free)
        if rows is None:
            return None
        victims = []
        for other in sorted(lower, key=lambda other: (-other.job.priority, -other.job.pods, other.pods[0].bound_at)):
            self._add(free, other, -1)
            if (free < 0).any():
                self._add(free, other, 1)
                victims.append(other)
        for victim in victims:
            del self._running[victim.job.name]
            for pod in list(victim.pods):
                self._stage.evict(pod)
        self._freed(now)
        for victim in victims:
            self.submitted(victim.pods, now)
        return rows

    def _add(self, free: Ints, work: Work, sign: int) -> None:
        for pod in work.pods:
            if pod.state is State.ON_HOST:
                free[pod.row] += sign * self._cluster.row_of(pod.ask)
