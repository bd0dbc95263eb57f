"""A recorded day again, with other queues: the same jobs come and run as long, and the engine decides anew.

Takes the workload of a log and queues, gives figures by queue; must not use what was decided that day. Two such days
are compared with each other, one with the queues as they were, not with what happened: on both kube-scheduler's own
checks pass, evicted pods leave and are replaced at once, and others' gates are open. A job of which no end is on record
runs on.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from extender.core import messages
from extender.core.engine import Engine
from extender.core.ids import GroupKey, PodUid, QueueName
from extender.core.model import Pod, Queue
from extender.core.queue_rehearsal import TOO_OFTEN
from extender.core.resources import GPU
from extender.core.stage import Eviction, Stage
from extender.sim.recorded import Job, Recorded

#: time alone may change a decision: looked at so often where nothing happens
LOOK_SECONDS = 30.0
#: steps at one moment, until nothing follows any more
_STEPS = 100
#: so long an eviction is counted together with later ones of the same job
AGAIN_SECONDS = 3600.0

#: progress is told after this part of the day
_PROGRESS = 0.01

#: told how much of the day has passed, from 0 to 1
Progress = Callable[[float], None]


@dataclass(slots=True)
class Figures:
    """One queue's day."""

    #: seconds that each group waited for its first node
    waits: list[float] = field(default_factory=list)
    #: groups that have none at the end
    waiting: int = 0
    #: pods that were evicted, and seconds of work that were lost with them
    evicted: int = 0
    lost: float = 0.0
    #: seconds times GPUs
    used: float = 0.0
    #: groups that do not come to rest: how often within an hour a pod of theirs was evicted, at most
    often: dict[str, int] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """Of the waits."""
        return sum(self.waits) / len(self.waits) if self.waits else 0.0


def play(
    found: Recorded, engine: Engine, queues: Sequence[Queue] = (), progress: Progress = lambda _: None
) -> dict[QueueName, Figures]:
    """A day with these queues in the place of those of their names."""
    return _Day(found, engine, {queue.name: queue for queue in queues}).play(progress)


class _Day:
    def __init__(self, found: Recorded, engine: Engine, queues: Mapping[QueueName, Queue]) -> None:
        self._found = found
        self._queues = queues
        self._engine = engine
        self._numbers = itertools.count()
        #: what is to happen: when, in which order, and what (an event, a job that comes, or a pod that ends)
        self._agenda: list[tuple[float, int, messages.EngineEvent | Job | PodUid]] = []
        self._jobs: dict[PodUid, Job] = {}
        self._came: dict[GroupKey, float] = {}
        self._queue: dict[GroupKey, QueueName] = {}
        self._figures: dict[QueueName, Figures] = {}
        #: when each pod that runs got its node
        self._began: dict[PodUid, float] = {}
        self._seen_evictions = 0
        #: when each job was evicted within the last hour, by its first pod
        self._hits: dict[PodUid, deque[float]] = {}
        first = found.first if found.first is not None else 0.0
        self._stage = Stage(engine, first, self._bound)
        for at, event in found.events:
            if not self._is_changed(event):
                self._put(at, event)
        for queue in queues.values():
            self._put(first, messages.QueueSeen(queue))
        for job in found.jobs:
            self._put(job.at, job)
            if job.gone is not None:
                self._put(job.gone, job.pod.uid)

    def play(self, progress: Progress) -> dict[QueueName, Figures]:
        stage, end = self._stage, self._found.last
        first, told = stage.now, stage.now
        stage.tell(messages.ActivityChanged(True))
        while self._agenda and self._agenda[0][0] <= end:
            self._pass_to(self._agenda[0][0])
            self._now()
            if stage.now >= told + _PROGRESS * (end - first):
                told = stage.now
                progress((told - first) / (end - first))
        self._pass_to(end)
        for key in self._came:
            self._of(key).waiting += 1
        for uid in list(self._began):
            self._ended(uid)
        return self._figures

    def _is_changed(self, event: messages.EngineEvent) -> bool:
        match event:
            case messages.QueueSeen(queue):
                return queue.name in self._queues
            case messages.QueueGone(_, name):
                return name in self._queues
        return False

    def _put(self, at: float, what: messages.EngineEvent | Job | PodUid) -> None:
        heapq.heappush(self._agenda, (at, next(self._numbers), what))

    def _pass_to(self, when: float) -> None:
        """Nothing comes until then; what time alone brings about does."""
        while self._stage.now + LOOK_SECONDS < when and not self._due(self._stage.now + LOOK_SECONDS):
            self._stage.pass_by(LOOK_SECONDS)
            self._settle()
        if not self._due(when):
            self._stage.now = max(self._stage.now, when)

    def _due(self, when: float) -> bool:
        return bool(self._agenda) and self._agenda[0][0] < when

    def _now(self) -> None:
        """All that is to happen at this moment, and what follows."""
        now = self._agenda[0][0]
        self._stage.now = max(self._stage.now, now)
        while self._agenda and self._agenda[0][0] <= now:
            _, _, what = heapq.heappop(self._agenda)
            if isinstance(what, Job):
                self._come(what)
            elif isinstance(what, str):
                self._end(what)
            else:
                self._stage.hear(what)
        self._settle()

    def _settle(self) -> None:
        for _ in range(_STEPS):
            if not self._stage.pass_by(0.0):
                break
        for one in self._stage.evictions[self._seen_evictions :]:
            figures = self._figures.setdefault(one.queue, Figures())
            figures.evicted += 1
            figures.lost += one.at - self._began.get(one.pod.uid, one.at)
            self._hit(one, figures)
            self._ended(one.pod.uid)
        self._seen_evictions = len(self._stage.evictions)

    def _hit(self, one: Eviction, figures: Figures) -> None:
        """The job was evicted: perhaps too often."""
        times = self._hits.setdefault(self._stage.first(one.pod.uid), deque())
        times.append(one.at)
        while times[0] <= one.at - AGAIN_SECONDS:
            times.popleft()
        job = self._job(one.pod.uid)
        if job is not None and len(times) >= TOO_OFTEN:
            name = job.pod.name if job.pod.group.lone else job.pod.group.name
            figures.often[name] = max(len(times), figures.often.get(name, 0))

    def _come(self, job: Job) -> None:
        pod = job.pod
        self._jobs[pod.uid] = job
        if not job.running:
            pod = replace(pod, node=None, nominated=None, phase="Pending", gates=(), bound_at=None, rejection="")
            self._came.setdefault(pod.group, self._stage.now)
        self._stage.hear(messages.PodSeen(pod))
        self._queue[pod.group] = self._engine.world.queue_of(pod.group)
        if job.running:
            self._runs(pod.uid, job, job.began or self._stage.now)

    def _bound(self, pod: Pod) -> None:
        job = self._job(pod.uid)
        if job is None:
            return
        came = self._came.pop(job.pod.group, None)
        if came is not None:
            self._of(job.pod.group).waits.append(self._stage.now - came)
        self._runs(pod.uid, job, self._stage.now)

    def _runs(self, uid: PodUid, job: Job, since: float) -> None:
        self._began[uid] = self._stage.now
        if job.ran is not None:
            self._put(max(since + job.ran, self._stage.now), uid)

    def _job(self, uid: PodUid) -> Job | None:
        return self._jobs.get(self._stage.first(uid))

    def _end(self, uid: PodUid) -> None:
        """The pod has done its work; or it is deleted, whoever stands for it now."""
        job = self._job(uid)
        newest = self._stage.newest(uid)
        pod = self._engine.world.pods.get(newest)
        if pod is None or job is None:
            return
        if job.ran is None:
            self._came.pop(pod.group, None)
            self._ended(newest)
            self._stage.hear(messages.PodGone(newest))
        elif newest == uid and pod.bound:
            self._ended(uid)
            self._stage.hear(messages.PodSeen(replace(pod, phase="Succeeded")))

    def _ended(self, uid: PodUid) -> None:
        """It does not use its GPUs any more."""
        began = self._began.pop(uid, None)
        job = self._job(uid)
        if began is not None and job is not None:
            gpus = dict(job.pod.shape.request).get(GPU, 0)
            self._of(job.pod.group).used += gpus * (self._stage.now - began)

    def _of(self, key: GroupKey) -> Figures:
        return self._figures.setdefault(self._queue[key], Figures())
