"""A trace of what pods do, out of what a watch tells of them: a row for each job.

Takes pods as they are seen and when, gives rows that `python -m extender.sim trace replay` reads; must not read a
cluster. Pods of one group are one job, and pods of one controller; those of DaemonSets and of kubelets are left out, as
they belong to their nodes. What is kept is bounded: so many jobs, and of each what stands in its row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from extender.core.ids import DEFAULT_QUEUE, GroupKey, PodUid, Source
from extender.core.model import Node, Pod
from extender.core.resources import CPU, GPU, MEMORY

COLUMNS = ("job", "submitted", "duration", "pods", "gpus", "cpu", "memory", "queue", "priority")
HOST_COLUMNS = ("host", "gpus", "cpu", "memory", "model")
#: the label by which NVIDIA's feature discovery names the model of a node's GPUs
PRODUCT = "nvidia.com/gpu.product"
_OF_NODES = ("DaemonSet", "Node")
_MIB = 2**20
#: names of jobs are cut there; the number behind keeps them apart
_LONGEST_NAME = 50

Row = tuple[str, ...]
Ask = tuple[int, int, int]


@dataclass(slots=True)
class Job:
    """What is known of one job. Times are seconds since 1970."""

    name: str
    submitted: float
    priority: int
    queue: str
    #: seconds that it says it will run
    declared: int | None
    asks: Counter[Ask] = field(default_factory=Counter)
    #: pods that have not ended: on a node since then, or waiting
    live: dict[PodUid, float | None] = field(default_factory=dict)
    #: the most at one time
    pods: int = 0
    #: seconds on nodes of all pods that have ended
    ran: float = 0.0
    started: bool = False


class Recording:
    """What was seen so far. `full`: there were more jobs than it keeps; those are not counted."""

    def __init__(self, most: int) -> None:
        self.full = False
        self._most = most
        self._jobs: dict[str, Job] = {}
        self._of: dict[PodUid, Job] = {}

    def is_new(self, pod: Pod) -> bool:
        """True when the pod begins a job, of which nothing is known yet."""
        return self._counts(pod) and pod.uid not in self._of and _key(pod) not in self._jobs and not pod.ended

    @staticmethod
    def _counts(pod: Pod) -> bool:
        return pod.owner is None or pod.owner.kind not in _OF_NODES

    def begin(self, pod: Pod, queue: str | None, declared: int | None) -> None:
        """A job begins with this pod; `queue` and `declared` are what its group's object or namespace says."""
        if len(self._jobs) >= self._most:
            self.full = True
            return
        name = f"{pod.namespace}-{_name(pod)}"[:_LONGEST_NAME]
        self._jobs[_key(pod)] = Job(
            f"{name}-{len(self._jobs)}",
            pod.created,
            pod.priority,
            pod.queue or queue or DEFAULT_QUEUE,
            pod.declared.expected_duration or declared,
        )

    def see(self, pod: Pod, now: float) -> None:
        """A pod as it is now. One that had ended before it was first seen tells nothing, and does not count."""
        job = self._of.get(pod.uid)
        if job is None:
            job = self._jobs.get(_key(pod))
            if job is None or pod.ended or not self._counts(pod):
                return
            self._of[pod.uid] = job
            job.submitted = min(job.submitted, pod.created)
            job.asks[_ask(pod)] += 1
            job.live[pod.uid] = None
            job.pods = max(job.pods, len(job.live))
        if pod.node is not None and job.live[pod.uid] is None:
            job.live[pod.uid] = min(pod.bound_at or now, now)
            job.started = True
        if pod.ended:
            self.gone(pod.uid, now)

    def gone(self, uid: PodUid, now: float) -> None:
        """A pod has ended or was deleted."""
        job = self._of.pop(uid, None)
        if job is not None:
            since = job.live.pop(uid)
            job.ran += 0.0 if since is None else now - since

    def counts(self) -> tuple[int, int, int]:
        """Jobs in all, those with pods on nodes, and those that wait."""
        jobs = self._jobs.values()
        running = sum(any(since is not None for since in job.live.values()) for job in jobs)
        return len(jobs), running, sum(not job.started and bool(job.live) for job in jobs)

    def rows(self, now: float) -> Iterator[Row]:
        """A row for each job, in order of submission; times from the first one on."""
        # times of creation are whole seconds; jobs of one second stay in the order in which they were seen
        ordered = sorted(self._jobs.values(), key=lambda job: job.submitted)
        for job in ordered:
            if not job.pods:
                continue
            gpus, cpu, memory = max(sorted(job.asks), key=lambda ask: job.asks[ask])
            numbers = (job.pods, gpus, cpu, memory)
            submitted = f"{job.submitted - ordered[0].submitted:.3f}"
            yield (job.name, submitted, _duration(job, now), *map(str, numbers), job.queue, str(job.priority))


def hosts(nodes: Iterable[Node]) -> Iterator[Row]:
    """A row for each node that takes pods."""
    for node in sorted(nodes, key=lambda node: node.name):
        there = dict(node.allocatable)
        if node.ready and not node.unschedulable:
            numbers = (there.get(GPU, 0), there.get(CPU, 0), there.get(MEMORY, 0) // _MIB)
            yield (node.name, *map(str, numbers), node.labels.get(PRODUCT, ""))


def _duration(job: Job, now: float) -> str:
    """The mean time of a pod on nodes, so far; of a job that never started what it declares, if it does."""
    if not job.started:
        return "" if job.declared is None else f"{job.declared}"
    on_nodes = job.ran + sum(now - since for since in job.live.values() if since is not None)
    return f"{on_nodes / job.pods:.3f}"


def group_of(pod: Pod) -> GroupKey | None:
    """The group that its marks name."""
    return None if pod.group.source is Source.POD else pod.group


def _key(pod: Pod) -> str:
    group = group_of(pod)
    if group is not None:
        return f"{group.source.value}/{group.namespace}/{group.name}"
    return pod.owner.uid if pod.owner is not None else pod.uid


def _name(pod: Pod) -> str:
    group = group_of(pod)
    if group is not None:
        return group.name
    return pod.owner.name if pod.owner is not None else pod.name


def _ask(pod: Pod) -> Ask:
    request = dict(pod.shape.request)
    return request.get(GPU, 0), request.get(CPU, 0), request.get(MEMORY, 0) // _MIB
