"""One replay: jobs come, a policy binds their pods, they work and end.

Takes jobs, hosts and a policy, gives what came of it; must not decide where a pod goes. The same for all policies:
deciding takes no time; pods that end or are evicted leave at once; an evicted pod is replaced at once; a job works
only while all its pods are on hosts, and when one is evicted it goes back to its newest checkpoint, while the others
wait on their hosts. All at one instant: first ends, then arrivals, then decisions, until nothing follows.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from extender.sim.traces.common import Host, Job
from extender.sim.trial.cluster import Cluster, Pod, State, Work

#: jobs save their work so often, in seconds
CHECKPOINT_SECONDS = 1800.0
#: a replay ends when all jobs have ended, or so many times the span of arrivals, and so many seconds, after the start
HORIZON_SPANS, HORIZON_SECONDS = 3.0, 3600.0
#: what is free is counted anew after so many steps
_RECOUNT = 500


class Stage(Protocol):
    """What a policy may do, and see."""

    cluster: Cluster

    def bind(self, pod: Pod, row: int) -> None:
        """Put a pod that waits on a host."""

    def evict(self, pod: Pod) -> Pod:
        """Take a pod off its host; the one that waits in its place."""


class Policy(Protocol):
    """Who decides. All pods and jobs that it hears of are those of its stage."""

    def submitted(self, pods: Sequence[Pod], now: float) -> None:
        """These pods of one job have come, and wait."""

    def ended(self, pods: Sequence[Pod], now: float) -> None:
        """These pods of one job have done their work, and have left their hosts."""

    def decide(self, now: float) -> None:
        """Bind and evict, through the stage, until nothing more is to be done now."""

    def looks_at(self, now: float) -> float | None:
        """When time alone may change something, if anything waits for that."""


Maker = Callable[[Stage, Sequence[Job]], Policy]


class Watcher(Protocol):
    """Who measures."""

    def passed(self, since: float, until: float) -> None:
        """Nothing has changed between these times."""

    def bound(self, pod: Pod, now: float) -> None:
        """A pod got its host."""

    def started(self, work: Work, now: float) -> None:
        """All pods of a job are on hosts: it works."""

    def stopped(self, work: Work, lost: float, now: float) -> None:
        """A job that worked does not any more, as a pod was evicted; seconds of work were lost."""

    def evicted(self, pod: Pod, now: float) -> None:
        """A pod was evicted."""

    def ended(self, work: Work, now: float) -> None:
        """A job has done its work."""


@dataclass(frozen=True, slots=True)
class Ends:
    """A job's end that is foreseen."""

    work: Work
    turn: int


class Replay:
    """One policy's replay. It is the stage, too."""

    def __init__(self, jobs: Sequence[Job], hosts: Sequence[Host], maker: Maker) -> None:
        self.cluster = Cluster(hosts)
        self.now = jobs[0].submitted
        self.horizon = self.now + HORIZON_SPANS * (jobs[-1].submitted - self.now) + HORIZON_SECONDS
        self.works = [Work(job, left=job.duration) for job in jobs]
        self.watcher: Watcher | None = None
        self.pods_submitted = 0
        self.steps = 0
        self._numbers = itertools.count()
        self._agenda: list[tuple[float, int, int, Ends | Work]] = []
        for work in self.works:
            self._put(work.job.submitted, 1, work)
        self._policy = maker(self, jobs)

    def run(self, progress: Callable[[float, float], None] = lambda now, end: None) -> None:
        """Play it to its end."""
        watcher = self._watcher
        while (when := self._next()) is not None and when <= self.horizon:
            watcher.passed(self.now, when)
            self.now = when
            self._happen(when)
            self._policy.decide(when)
            self._check()
            progress(when, self.horizon)
        if any(work.ended is None for work in self.works):
            watcher.passed(self.now, self.horizon)
            self.now = self.horizon
        self.cluster.check_room()

    @property
    def _watcher(self) -> Watcher:
        assert self.watcher is not None, "nobody measures"
        return self.watcher

    def _put(self, time: float, order: int, what: Ends | Work) -> None:
        heapq.heappush(self._agenda, (time, order, next(self._numbers), what))

    def _next(self) -> float | None:
        """The next instant: something happens then, or time alone matters to who decides."""
        while self._agenda and self._outdated(self._agenda[0][3]):
            heapq.heappop(self._agenda)
        happens = self._agenda[0][0] if self._agenda else None
        if happens is None and not self.cluster.count[State.WAITING]:
            return None
        looks = self._policy.looks_at(self.now)
        if looks is None or (happens is not None and happens <= looks):
            return happens
        return max(looks, self.now)

    @staticmethod
    def _outdated(what: Ends | Work) -> bool:
        return isinstance(what, Ends) and what.turn != what.work.turn

    def _happen(self, now: float) -> None:
        while self._agenda and self._agenda[0][0] <= now:
            _, _, _, what = heapq.heappop(self._agenda)
            if isinstance(what, Work):
                what.pods = [self._pod(what, number, "") for number in range(what.job.pods)]
                self._policy.submitted(what.pods, now)
            elif not self._outdated(what):
                self._end(what.work)

    def _pod(self, work: Work, number: int, suffix: str) -> Pod:
        self.pods_submitted += 1
        return self.cluster.submit(work, number, f"{work.job.name}-{number}{suffix}", self.now)

    def _end(self, work: Work) -> None:
        work.ended, work.started, work.left, work.on_hosts = self.now, None, 0.0, 0
        work.turn += 1
        for pod in work.pods:
            self.cluster.leave(pod, State.ENDED)
        self._watcher.ended(work, self.now)
        self._policy.ended(work.pods, self.now)

    def bind(self, pod: Pod, row: int) -> None:
        """Put a pod that waits on a host; a job of which it is the last begins to work."""
        self.cluster.bind(pod, row, self.now)
        work = pod.work
        work.on_hosts += 1
        self._watcher.bound(pod, self.now)
        if work.whole:
            work.started, work.turn = self.now, work.turn + 1
            if work.first_started is None:
                work.first_started = self.now
            self._put(self.now + work.left, 0, Ends(work, work.turn))
            self._watcher.started(work, self.now)

    def evict(self, pod: Pod) -> Pod:
        """Take a pod off its host; the one that waits in its place."""
        work = pod.work
        self.cluster.leave(pod, State.EVICTED)
        self._watcher.evicted(pod, self.now)
        if work.started is not None:
            ran = self.now - work.started
            kept = ran // CHECKPOINT_SECONDS * CHECKPOINT_SECONDS
            work.left, work.started, work.turn = work.left - kept, None, work.turn + 1
            self._watcher.stopped(work, ran - kept, self.now)
        work.on_hosts -= 1
        heir = self._pod(work, pod.number, f"~{self.pods_submitted}")
        work.pods[pod.number] = heir
        return heir

    def _check(self) -> None:
        self.steps += 1
        self.cluster.check(self.pods_submitted)
        if self.steps % _RECOUNT == 0:
            self.cluster.check_room()
