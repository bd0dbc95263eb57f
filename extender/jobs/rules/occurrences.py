"""What has happened to a job, read from its state: the same state says the same again until it is answered.

Takes a job, its pods and what is remembered; gives occurrences in the order in which they came. Must not judge what
follows. Pods that we are deleting ourselves do not appear here: `sight` has left them out. Times are of many clocks:
what lies in the future has happened now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from extender.jobs.rules.model import Event, Job, JobStatus, Loss, Phase, PodPhase, PodState, Slot, TaskSpec
from extender.jobs.rules.sight import Sight

#: seconds for which a gang may be below its minimum before its state is Unknown: so long room is kept for replacements
UNKNOWN_AFTER = 10.0
_BY_PHASE = {PodPhase.PENDING: Event.POD_PENDING, PodPhase.RUNNING: Event.POD_RUNNING}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that a policy may answer."""

    #: what it may be called, the most telling first
    events: tuple[Event, ...]
    since: float
    #: empty when it is about the whole job
    task: str = ""
    #: members that it is about
    slots: tuple[Slot, ...] = ()
    exit_codes: tuple[int, ...] = ()


def happened(job: Job, sight: Sight, now: float) -> list[Occurrence]:
    """All that holds now, the oldest first; of equals the pods before the tasks, in the order of the tasks."""
    found: list[Occurrence] = []
    for task in job.spec.tasks:
        found += _to_members(job.status, sight, task, now)
    for task in job.spec.tasks:
        found += _to_task(job.status, sight, task, now)
    found += _to_job(job, sight, now)
    return sorted(found, key=lambda one: one.since)


def lost(status: JobStatus, sight: Sight, task: TaskSpec) -> list[int]:
    """Members that were there and have no pod any more, though they had not succeeded."""
    seen = status.record.seen.get(task.name, frozenset()) - status.record.done.get(task.name, frozenset())
    return sorted(index for index in seen if index < task.replicas and (task.name, index) not in sight.members)


def _to_members(status: JobStatus, sight: Sight, task: TaskSpec, now: float) -> Iterable[Occurrence]:
    done = status.record.done.get(task.name, frozenset())
    for index in lost(status, sight, task):
        yield Occurrence((Event.POD_EVICTED,), now, task.name, ((task.name, index),))
    for index in range(task.replicas):
        slot = (task.name, index)
        loss = status.record.losses.get(slot)
        pod = sight.members.get(slot)
        if loss is not None and loss.waits and (pod is None or pod.phase is not PodPhase.RUNNING):
            yield Occurrence((Event.POD_EVICTED,), min(loss.at, now), task.name, (slot,))
        if pod is not None and index not in done and (events := _of_pod(pod)):
            since = now if pod.deleting else min(pod.since, now)
            yield Occurrence(events, since, task.name, (slot,), pod.exit_codes)


def _of_pod(pod: PodState) -> tuple[Event, ...]:
    if pod.deleting:
        return (Event.POD_EVICTED,)
    if pod.phase is PodPhase.FAILED:
        return (Event.POD_EVICTED, Event.POD_FAILED) if pod.disrupted else (Event.POD_FAILED,)
    event = _BY_PHASE.get(pod.phase)
    return (event,) if event is not None else ()


def _to_task(status: JobStatus, sight: Sight, task: TaskSpec, now: float) -> Iterable[Occurrence]:
    pods = [(slot, pod) for slot, pod in sight.members.items() if slot[0] == task.name]
    done = status.record.done.get(task.name, frozenset())
    if task.replicas and len(done) >= task.replicas and task.name not in status.record.answered:
        since = max((pod.since for _, pod in pods), default=status.since)
        slots = tuple((task.name, index) for index in range(task.replicas))
        yield Occurrence((Event.TASK_COMPLETED,), min(since, now), task.name, slots)
    tried = [(slot, pod) for slot, pod in pods if pod.restarts and pod.phase in _BY_PHASE and not pod.deleting]
    if 0 <= task.max_retry < sum(pod.restarts for _, pod in tried):
        since = max(pod.since for _, pod in tried)
        yield Occurrence((Event.TASK_FAILED,), min(since, now), task.name, tuple(slot for slot, _ in tried))


def _to_job(job: Job, sight: Sight, now: float) -> Iterable[Occurrence]:
    """Unknown: some of a gang that ran run on, others are missing, and that for longer than their room is kept."""
    record = job.status.record
    up = sum(len(found) for found in record.done.values())
    running, missing = 0, []
    for task in job.spec.tasks:
        done = record.done.get(task.name, frozenset())
        for index in range(task.replicas):
            pod, loss = sight.members.get((task.name, index)), record.losses.get((task.name, index))
            if index in done or (pod is not None and pod.phase is PodPhase.FAILED and not pod.deleting):
                continue
            if pod is not None and pod.phase is PodPhase.RUNNING and not pod.deleting:
                running += 1
            elif index in record.seen.get(task.name, ()) or loss is not None:
                missing.append(_missing_since(pod, loss, now))
    if job.status.phase is Phase.RUNNING and running and missing and up + running < job.spec.min_available:
        yield Occurrence((Event.UNKNOWN,), max(missing) + UNKNOWN_AFTER)


def _missing_since(pod: PodState | None, loss: Loss | None, now: float) -> float:
    """Since when a member is missing: it was lost, or its pod was made; now, when its loss is only seen now."""
    if (pod is None and loss is None) or (pod is not None and pod.deleting):
        return now
    return min(max(pod.since if pod is not None else 0.0, loss.at if loss is not None else 0.0), now)
