"""A virtual clock around an engine: jobs come, start at the instant at which they are planned, and end when they do.

Takes jobs and nodes, gives when each started; must not know how the engine decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from extender.core import messages
from extender.core.engine import Engine
from extender.core.ids import GroupKey, QueueName
from extender.core.model import Declared, Node, Pod, Queue
from tests import builders
from tests.builders import GPU

START = 1_000_000.0


@dataclass(frozen=True)
class Job:
    """So many equal pods that start together. `runs` None: for ever; `declares` None: nobody says for how long."""

    name: str
    at: int
    pods: int
    gpus: int
    runs: int | None
    declares: int | None
    queue: str = "default"
    priority: int = 0
    zone: str = ""

    @property
    def key(self) -> GroupKey:
        return builders.group_key(self.name)


class Cluster:
    """Time jumps to the next instant at which a job comes or ends, or at which the engine is woken (`step`)."""

    def __init__(self, nodes: list[Node], queues: list[Queue] = [], step: float = 1e9) -> None:  # noqa: B006
        self.engine = Engine(10_000)
        self.now = 0.0
        self.started: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.jobs: dict[str, Job] = {}
        self.nodes = {str(node.name): node for node in nodes}
        self._step = step
        self._pods: dict[str, list[Pod]] = {}
        for thing in (*nodes, *queues):
            self._send(builders.seen(thing))
        self._send(messages.ActivityChanged(True))

    def _send(self, event: messages.EngineEvent) -> None:
        self.engine.handle(event, START + self.now)

    def play(self, jobs: list[Job], until: float, look: Callable[[Cluster], None] = lambda _: None) -> None:
        """Let these jobs come, and look at each instant."""
        coming = sorted(jobs, key=lambda job: job.at)
        while True:
            ends = [self.started[n] + j.runs for n, j in self.jobs.items() if self._runs(n) and j.runs is not None]
            due = [*ends, *(job.at for job in coming[:1]), self.now + self._step]
            self.now = min(time for time in due if time > self.now or time in ends or (coming and time == coming[0].at))
            if self.now > until:
                return
            for name in [n for n, j in self.jobs.items() if self._runs(n)]:
                if self.jobs[name].runs is not None and self.started[name] + (self.jobs[name].runs or 0) <= self.now:
                    self.end(name)
            while coming and coming[0].at <= self.now:
                self._come(coming.pop(0))
            self._decide()
            look(self)

    def _runs(self, name: str) -> bool:
        return name in self.started and name not in self.ended

    def _come(self, job: Job) -> None:
        self.jobs[job.name] = job
        constraints = {"selector": (("zone", job.zone),)} if job.zone else {}
        declared = Declared(min_member=job.pods, expected_duration=job.declares)
        self._pods[job.name] = [
            builders.make_pod(
                f"{job.name}-{n}", {GPU: job.gpus}, group=job.name, queue=QueueName(job.queue),
                priority=job.priority, created=START + job.at, declared=declared, constraints=constraints,
            )
            for n in range(job.pods)
        ]  # fmt: skip
        for pod in self._pods[job.name]:
            self._send(messages.PodSeen(pod))

    def end(self, name: str) -> None:
        """All pods of the job end well."""
        self.ended[name] = self.now
        for pod in self._pods[name]:
            self._send(messages.PodSeen(replace(pod, phase="Succeeded")))

    def _decide(self) -> None:
        """Cycles, and bindings of what is planned, until nothing changes."""
        for _ in range(100):
            self._send(messages.Tick())
            new = [name for name in self.jobs if name not in self.started and self._planned(name)]
            for name in new:
                self.started[name] = self.now
                nodes = [self.engine.view.planned(pod.uid) for pod in self._pods[name]]
                pairs = zip(self._pods[name], nodes, strict=True)
                self._pods[name] = [builders.bound(pod, str(node), START + self.now) for pod, node in pairs]
                for pod in self._pods[name]:
                    self._send(messages.PodSeen(pod))
            if not new and not self.engine._cycle.grown and not self.engine._cycle.dirty:
                return
        raise AssertionError("no rest")

    def _planned(self, name: str) -> bool:
        return all(self.engine.view.planned(pod.uid) is not None for pod in self._pods[name])

    # --- what is so -----------------------------------------------------------------------------

    def waiting(self) -> list[Job]:
        """In the order in which they came, those of higher priority first."""
        found = [job for job in self.jobs.values() if job.name not in self.started]
        return sorted(found, key=lambda job: (-job.priority, job.at, job.name))

    def running(self) -> list[tuple[Job, dict[str, int]]]:
        """With the GPUs that they take of each node."""
        found = []
        for name, job in self.jobs.items():
            if self._runs(name):
                taken: dict[str, int] = {}
                for pod in self._pods[name]:
                    taken[str(pod.node)] = taken.get(str(pod.node), 0) + job.gpus
                found.append((job, taken))
        return found

    def promised(self, job: Job) -> float | None:
        """When the engine says that the job starts."""
        promise = self.engine.view.promise(job.key)
        return None if promise is None else promise.at - START
