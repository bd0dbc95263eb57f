"""What a decision log tells of the workload: who came when, how long it ran, and what else happened to the cluster.

Takes entries of a log, gives events of others and jobs; must not use what was decided, but to tell evictions of ours
from ends. A pod that a controller makes in the place of one that we evicted is the same job, which goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from extender.core import messages
from extender.core.engine import Engine
from extender.core.ids import PodUid
from extender.core.model import Pod
from extender.wire import journal

#: what others do, which is as it was whatever we decide
_OF_OTHERS = (
    *(messages.NodeSeen, messages.NodeGone, messages.GroupSeen, messages.GroupGone, messages.TopologySeen),
    *(messages.TopologyGone, messages.HyperNodeSeen, messages.HyperNodeGone, messages.QueueSeen, messages.QueueGone),
    *(messages.BudgetSeen, messages.BudgetGone, messages.NamespaceSeen, messages.NamespaceGone),
    *(messages.PriorityClassSeen, messages.PriorityClassGone),
)


@dataclass(slots=True)
class Job:
    """One pod of ours, and those that came in its place. Times are seconds since the epoch."""

    pod: Pod
    at: float
    #: when the newest of them got its node
    began: float | None = None
    #: how long one of them ran to its end; None: none did
    ran: float | None = None
    #: it was deleted before any of them ran
    gone: float | None = None
    #: it ran when the log began
    running: bool = False


class Recorded:
    """The workload of a log, entry by entry."""

    def __init__(self) -> None:
        self.events: list[tuple[float, messages.EngineEvent]] = []
        self.jobs: list[Job] = []
        self.first: float | None = None
        self.last = 0.0
        self._of: dict[PodUid, Job] = {}
        #: pods of ours that have ended, or are on their way: when their objects go says nothing more
        self._past: set[PodUid] = set()
        #: jobs whose newest pod we evicted, by controller and group, and for whom another pod is to come
        self._evicted: dict[object, list[Job]] = {}
        self._evicting: set[PodUid] = set()

    def begin(self, engine: Engine, at: float) -> None:
        """What was there when the log began."""
        for event in events_of(engine):
            self._event(event, at)

    def take(self, entry: journal.Entry) -> None:
        """What an entry tells."""
        self.first = entry.at if self.first is None else self.first
        self.last = entry.at
        self._event(entry.event, entry.at)
        for told in entry.effects:
            if told[0] == "Evict":
                self._evicting.add(PodUid(told[1]["uid"]))

    def _event(self, event: messages.EngineEvent, at: float) -> None:
        match event:
            case messages.PodSeen(pod) | messages.FilterCalled(pod) if pod.ours:
                self._pod(pod, at)
            case messages.PodGone(uid) if uid in self._of:
                self._end(uid, at)
            case messages.PodGone(uid) if uid in self._past:
                self._past.discard(uid)
            case messages.EffectDone(messages.Evict(uid), error) if error:
                self._evicting.discard(uid)
            case messages.PodSeen() | messages.PodGone():
                self.events.append((at, event))
            case _ if isinstance(event, _OF_OTHERS):
                self.events.append((at, event))

    def _pod(self, pod: Pod, at: float) -> None:
        job = self._of.get(pod.uid)
        if job is None:
            if pod.ended or pod.terminating:
                return
            job = self._of[pod.uid] = self._heir(pod) or self._new(pod, at)
        if pod.bound and job.began is None:
            job.began = pod.bound_at or at
        if pod.ended or pod.terminating:
            self._end(pod.uid, at)

    def _new(self, pod: Pod, at: float) -> Job:
        job = Job(pod, at, running=pod.bound)
        self.jobs.append(job)
        return job

    def _heir(self, pod: Pod) -> Job | None:
        """The job of an evicted pod whose controller has made this one."""
        waiting = self._evicted.get(_kind(pod))
        if not waiting:
            return None
        job = waiting.pop(0)
        job.began = None
        return job

    def _end(self, uid: PodUid, at: float) -> None:
        job = self._of.pop(uid)
        self._past.add(uid)
        if uid in self._evicting:
            self._evicting.discard(uid)
            if job.pod.owner is not None:
                self._evicted.setdefault(_kind(job.pod), []).append(job)
        elif job.began is not None:
            job.ran = max(0.0, at - job.began)
        else:
            job.gone = at


def _kind(pod: Pod) -> object:
    owner = pod.owner.uid if pod.owner is not None else ""
    return owner, pod.namespace, pod.task, "" if pod.group.lone else pod.group


def events_of(engine: Engine) -> Iterator[messages.WorldEvent]:
    """What the watches have shown an engine, as events that would show it anew."""
    world = engine.world
    yield from (messages.TopologySeen(one) for one in world.topologies.values())
    yield from (messages.HyperNodeSeen(one) for one in world.hypernodes.values())
    yield from (messages.PriorityClassSeen(*one) for one in world.priority_classes.items())
    yield from (messages.NodeSeen(one) for one in world.nodes.nodes if one is not None)
    for name, queue in world.namespace_queue.items():
        yield messages.NamespaceSeen(name, queue, name in world.managed)
    yield from (messages.QueueSeen(one) for one in world.queues.values())
    yield from (messages.GroupSeen(one) for one in world.groups.values())
    yield from (messages.BudgetSeen(one) for some in world.budgets.values() for one in some.values())
    yield from (messages.PodSeen(one) for one in world.pods.values())


def recorded(entries: Iterable[journal.Entry], engine: Engine, at: float) -> Recorded:
    """The workload of a log that begins with this engine."""
    found = Recorded()
    found.begin(engine, at)
    for entry in entries:
        found.take(entry)
    return found
