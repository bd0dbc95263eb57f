"""What is measured of a replay, the same for all policies.

Takes what happens, gives figures; must not decide. All means over time are over the window of arrivals, from the first
submission to the last: what comes after it is the tail of what is left. A GPU is allocated while a pod that asked for
it is on its host, and useful while all pods of its job are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from extender.sim.traces.common import Ask, Job
from extender.sim.traces.describe import percentile
from extender.sim.trial.cluster import GPUS, Cluster, Pod, Work
from extender.sim.trial.network import Ring

#: the state is noted so many times over the window
SAMPLES = 200
#: classes of jobs by GPUs: the name, and the fewest
SIZES = (("0", 0), ("1", 1), ("2-7", 2), ("8-63", 8), ("64+", 64))
#: so many requests, the most frequent, stand for the workload where fragments are looked for
_TYPICAL = 50


@dataclass(frozen=True, slots=True)
class Sample:
    """The state at a time, in GPUs; `fragments`: free, but of no use to a pod that the workload may bring."""

    at: float
    allocated: int
    useful: int
    fragments: float


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds from submission to start. Who never started counts with what it waited until the end."""

    number: int
    never: int
    p50: float
    p95: float
    most: float


@dataclass(slots=True)
class Figures:
    """All that came of one replay."""

    #: mean shares of the GPUs over the window
    allocated: float = 0.0
    useful: float = 0.0
    fragments: float = 0.0
    #: seconds from the first submission to the last end; None when some job had not ended
    makespan: float | None = None
    unfinished: int = 0
    evictions: int = 0
    #: seconds times GPUs of work that had to be done again
    lost: float = 0.0
    by_size: dict[str, Waits] = field(default_factory=dict)
    by_queue: dict[str, Waits] = field(default_factory=dict)
    gangs: Waits = field(default_factory=lambda: Waits(0, 0, 0.0, 0.0, 0.0))
    #: Jain's index of what queues had over what was fair, and both by queue (mean GPUs)
    jain: float = 1.0
    had: dict[str, float] = field(default_factory=dict)
    fair: dict[str, float] = field(default_factory=dict)
    #: means over gangs of several pods, weighted by GPUs
    off_nvlink: float = 0.0
    across_racks: float = 0.0
    throughput: float = 1.0
    samples: list[Sample] = field(default_factory=list)


class Measures:
    """Watches one replay."""

    def __init__(self, cluster: Cluster, jobs: Sequence[Job]) -> None:
        self._cluster = cluster
        self._begin, self._end = jobs[0].submitted, jobs[-1].submitted
        self._jobs = jobs
        self._gpus = max(1, int(cluster.total[:, GPUS].sum()))
        self._allocated = self._useful = 0
        self._sums = {"allocated": 0.0, "useful": 0.0}
        self._now_by_queue: Counter[str] = Counter()
        self._sum_by_queue: dict[str, float] = {job.queue: 0.0 for job in jobs}
        self._typical = _typical(jobs)
        self._samples: list[Sample] = []
        self._evictions, self._lost = 0, 0.0
        #: rings of gangs that work and that have more than one host
        self._rings: dict[str, Ring] = {}
        self._seen: list[Ring] = []

    # --- what happens ---------------------------------------------------------------------------

    def passed(self, since: float, until: float) -> None:
        """Nothing has changed between these times."""
        while len(self._samples) < SAMPLES and (at := self._due()) < until:
            self._samples.append(Sample(at, self._allocated, self._useful, self._fragments()))
        seconds = min(until, self._end) - min(since, self._end)
        if seconds > 0:
            self._sums["allocated"] += seconds * self._allocated
            self._sums["useful"] += seconds * self._useful
            for queue, gpus in self._now_by_queue.items():
                self._sum_by_queue[queue] += seconds * gpus

    def _due(self) -> float:
        return self._begin + (len(self._samples) + 1) * (self._end - self._begin) / (SAMPLES + 1)

    def bound(self, pod: Pod, now: float) -> None:
        """A pod got its host."""
        self._count(pod, 1)

    def started(self, work: Work, now: float) -> None:
        """All pods of a job are on hosts: it works."""
        self._useful += work.job.gpus
        if work.job.pods == 1 or not work.job.gpus:
            return
        hosts = {pod.row for pod in work.pods}
        racks = {int(self._cluster.rack_of[row]) for row in hosts}
        ring = Ring(work.job.gpus, len(hosts), len(racks))
        if len(hosts) > 1:
            self._rings[work.job.name] = ring
            ring = Ring(work.job.gpus, len(hosts), len(racks), max(map(self._through, hosts)))
        self._seen.append(ring)

    def _through(self, row: int) -> int:
        names = {pod.work.job.name for pod in self._cluster.on[row].values()}
        return len(names & self._rings.keys())

    def stopped(self, work: Work, lost: float, now: float) -> None:
        """A job that worked does not any more."""
        self._useful -= work.job.gpus
        self._lost += lost * work.job.gpus
        self._rings.pop(work.job.name, None)

    def evicted(self, pod: Pod, now: float) -> None:
        """A pod was evicted."""
        self._evictions += 1
        self._count(pod, -1)

    def ended(self, work: Work, now: float) -> None:
        """A job has done its work."""
        self._useful -= work.job.gpus
        self._rings.pop(work.job.name, None)
        for pod in work.pods:
            self._count(pod, -1)

    def _count(self, pod: Pod, sign: int) -> None:
        gpus = sign * pod.ask.gpus
        self._allocated += gpus
        self._now_by_queue[pod.work.job.queue] += gpus

    def _fragments(self) -> float:
        """GPUs that are free where a pod of the workload does not fit, by how frequent such pods are."""
        free = self._cluster.free[:, GPUS]
        return sum(weight * float(free[~self._cluster.fitting(ask)].sum()) for ask, weight in self._typical)

    # --- what came of it ------------------------------------------------------------------------

    def figures(self, works: Sequence[Work], now: float) -> Figures:
        """All figures; `now` is the end of the replay."""
        seconds = (self._end - self._begin) or 1.0
        ends = [work.ended for work in works if work.ended is not None]
        whole = len(ends) == len(works)
        had = {queue: self._sum_by_queue[queue] / seconds for queue in sorted(self._sum_by_queue)}
        fair = fair_shares(self._asked(), float(self._gpus))
        found = Figures(
            allocated=self._sums["allocated"] / seconds / self._gpus,
            useful=self._sums["useful"] / seconds / self._gpus,
            fragments=sum(sample.fragments for sample in self._samples) / max(len(self._samples), 1) / self._gpus,
            makespan=max(ends) - self._begin if whole else None,
            unfinished=len(works) - len(ends),
            evictions=self._evictions,
            lost=self._lost,
            gangs=_waits([work for work in works if work.job.pods > 1], now),
            jain=jain([had[queue] / fair[queue] for queue in had if fair[queue] > 0]),
            had=had,
            fair=fair,
            samples=self._samples,
        )
        for queue in had:
            found.by_queue[queue] = _waits([work for work in works if work.job.queue == queue], now)
        for name, _ in SIZES:
            found.by_size[name] = _waits([work for work in works if size_of(work.job) == name], now)
        gpus = sum(ring.gpus for ring in self._seen)
        if gpus:
            found.off_nvlink = sum(ring.gpus * ring.off_nvlink for ring in self._seen) / gpus
            found.across_racks = sum(ring.gpus * ring.across_racks for ring in self._seen) / gpus
            found.throughput = sum(ring.gpus * ring.throughput for ring in self._seen) / gpus
        return found

    def _asked(self) -> dict[str, float]:
        """Mean GPUs over the window that each queue would have on a cluster without bounds."""
        asked: dict[str, float] = dict.fromkeys(sorted(self._sum_by_queue), 0.0)
        for job in self._jobs:
            asked[job.queue] += job.gpus * min(job.duration, self._end - job.submitted)
        seconds = (self._end - self._begin) or 1.0
        return {queue: amount / seconds for queue, amount in asked.items()}


def size_of(job: Job) -> str:
    """The class of a job by its GPUs."""
    return next(name for name, least in reversed(SIZES) if job.gpus >= least)


def fair_shares(asked: Mapping[str, float], there: float) -> dict[str, float]:
    """To each what it asks for, as far as nobody gets more than another who asks for more."""
    fair: dict[str, float] = {}
    for number, (queue, amount) in enumerate(sorted(asked.items(), key=lambda item: (item[1], item[0]))):
        fair[queue] = min(amount, there / (len(asked) - number))
        there -= fair[queue]
    return {queue: fair[queue] for queue in asked}


def jain(values: Sequence[float]) -> float:
    """1 when all are equal, 1/n when one has all."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def _typical(jobs: Sequence[Job]) -> list[tuple[Ask, float]]:
    count: Counter[Ask] = Counter()
    for job in jobs:
        if job.ask.gpus:
            count[job.ask] += job.pods
    chosen = sorted(count.items(), key=lambda item: (-item[1], item[0].gpus, item[0].cpu, item[0].memory))[:_TYPICAL]
    total = sum(number for _, number in chosen) or 1
    return [(ask, number / total) for ask, number in chosen]


def _waits(works: Sequence[Work], now: float) -> Waits:
    never = sum(work.first_started is None for work in works)
    waited = sorted((now if w.first_started is None else w.first_started) - w.job.submitted for w in works)
    return Waits(len(works), never, percentile(waited, 0.5), percentile(waited, 0.95), percentile(waited, 1.0))
