"""The life of a job: one call judges it whole and says what follows.

    (new) -> Pending -> Running -> Completed | Failed              by the members' own doing (`outcome`)
    Pending, Running -> Restarting -> Pending                      a policy restarts the job, a task or pods
    Restarting -> Failed                                           retried too often
    active -> Completing -> Completed                              CompleteJob
    active -> Terminating -> Terminated                            TerminateJob
    active -> Aborting -> Aborted -> Restarting                    AbortJob, and ResumeJob

Takes a job, its pods as they are seen, Commands and the time; gives a Step. Must not remember anything: what must
survive stands in the job's status, and is written before it is acted upon.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from extender.jobs.rules import plugins
from extender.jobs.rules.answering import Answer, judge, obey
from extender.jobs.rules.counting import count
from extender.jobs.rules.dependencies import unlocked
from extender.jobs.rules.group import group_of, group_removal
from extender.jobs.rules.model import (
    ACTIVE,
    ENDINGS,
    FINISHED,
    Command,
    Job,
    JobStatus,
    Phase,
    PodDelete,
    PodOrder,
    PodPhase,
    PodState,
    Removal,
    Slot,
    Step,
    Wanted,
)
from extender.jobs.rules.outcome import outcome
from extender.jobs.rules.phases import enter
from extender.jobs.rules.plugins.hosts import pod_name
from extender.jobs.rules.pods import claims, order_pod, slots_of
from extender.jobs.rules.refusals import Reason
from extender.jobs.rules.remembering import remember
from extender.jobs.rules.restarts import ready_at, restart_ends
from extender.jobs.rules.scaling import shrink
from extender.jobs.rules.sight import Sight, is_live, look

#: seconds after which a name is tried again that a pod of somebody else has
_NAME_SECONDS = 5.0
NAME_TAKEN = "NameTaken"
_REFUSALS = frozenset(reason.value for reason in Reason)


def reconcile(job: Job, pods: Sequence[PodState], commands: Sequence[Command], now: float) -> Step:
    """What follows for a job that can be read; `model.Step` says in which order to carry it out.

    `pods` are all pods whose label `volcano.sh/job-name` names the job (also those of an earlier Job of that name:
    they hold the names). They may be older than the truth, but never older than those of an earlier call for this job,
    by whatever process: the list after a start must be a consistent read (no resourceVersion=0). `job` must bear the
    newest status that the caller knows, the answer to its own last write included. `now` is seconds since the epoch
    and may step. The same state gives the same step; once that is carried out it names objects and removals only.
    """
    if job.deleting:
        return Step(done=tuple(command.name for command in commands))
    sight = look(job, pods, job.status.record)
    answer = Answer(remember(job, _begun(job.status, now), sight, now))
    done = obey(job, sight, commands, now, answer)
    if answer.status.phase in ACTIVE:
        current = replace(job, status=answer.status)
        judge(current, look(current, pods, current.status.record), now, answer)
        answer.status = shrink(job, sight, answer.status, now)
    current = replace(job, status=answer.status)
    sight = look(current, pods, current.status.record)
    status = _with_obstacle(current, _advanced(current, sight, now, answer), sight)
    status = count(current, status, sight)
    return _step(job, replace(job, status=status), sight, now, answer, done)


def _begun(status: JobStatus, now: float) -> JobStatus:
    """A new job is Pending; one that was refused while it ran, and was mended, is refused no more."""
    if status.phase is None:
        return enter(status, Phase.PENDING, now)
    return replace(status, reason="", message="") if _is_refused(status) else status


def _is_refused(status: JobStatus) -> bool:
    return status.reason in _REFUSALS and status.phase in ACTIVE


def _advanced(job: Job, sight: Sight, now: float, answer: Answer) -> JobStatus:
    """The status in the phase that follows from what is seen."""
    status = job.status
    if status.phase in ENDINGS and not any(sight.live()):
        status = enter(status, ENDINGS[status.phase], now, status.reason, status.message)
    elif status.phase in ACTIVE:
        status = _active(job, sight, now, answer)
    if status.phase in FINISHED and status.running_seconds is None:
        status = replace(status, running_seconds=float(max(0, int(now - job.created))))
    return status


def _active(job: Job, sight: Sight, now: float, answer: Answer) -> JobStatus:
    status = job.status
    found = outcome(job, not answer.due and _has_ended(job, sight))
    if found is not None:
        return enter(status, found, now)
    if status.phase is Phase.RESTARTING and (sight.stale or now < restart_ends(status, now)):
        return status
    if status.phase is Phase.RUNNING:
        return status
    return enter(status, Phase.RUNNING if _is_up(job, sight) else Phase.PENDING, now)


def _with_obstacle(job: Job, status: JobStatus, sight: Sight) -> JobStatus:
    """Say of a job that goes on whose pod holds the name of one of its members; and no more when it is gone."""
    own = {pod.name for pod in sight.own}
    foreign = sight.names - own
    taken = [name for slot in slots_of(job) if (name := pod_name(job.name, *slot)) in foreign] if foreign else []
    if taken and status.phase in ACTIVE:
        text = f"the pod {taken[0]} is not of this job; {len(taken)} of its members wait for such names"
        return replace(status, reason=NAME_TAKEN, message=text)
    return replace(status, reason="", message="") if status.reason == NAME_TAKEN else status


def _is_up(job: Job, sight: Sight) -> bool:
    """As Volcano counts it: the minimum of the job runs, or has ended this way or that."""
    record = job.status.record
    ended = sum(len(found) for found in record.done.values())
    for (task, index), pod in sight.members.items():
        if index not in record.done.get(task, ()) and not pod.deleting:
            ended += pod.phase in (PodPhase.RUNNING, PodPhase.FAILED)
    return ended >= job.spec.min_available


def _has_ended(job: Job, sight: Sight) -> bool:
    """No member does anything, and none will: what has not ended waits for a task that will never be up."""
    if sight.stale or any(is_live(pod) or pod.deleting for pod in sight.own):
        return False
    free = unlocked(job, sight)
    done = job.status.record.done
    return all(
        slot in sight.members or slot[1] in done.get(slot[0], ()) or slot[0] not in free for slot in slots_of(job)
    )


def _step(before: Job, job: Job, sight: Sight, now: float, answer: Answer, done: tuple[str, ...]) -> Step:
    status = job.status
    active, at_rest = status.phase in ACTIVE, status.phase not in ACTIVE and not any(sight.live())
    creates, times = _creates(job, sight, now) if active else ((), [])
    delete_job = False
    if status.phase in FINISHED and job.spec.ttl is not None:
        delete_job = now >= status.since + job.spec.ttl
        times = [status.since + job.spec.ttl]
    times += answer.due
    if status.phase is Phase.RESTARTING:
        times.append(restart_ends(status, now))
    return Step(
        status=status if status != before.status else None,
        urgent=_decisive(status) != _decisive(_begun(before.status, now)),
        objects=_objects(job) if active else (),
        removals=_removals(job) if at_rest else (),
        deletes=tuple(_deletes(sight, active)),
        creates=creates,
        done=done,
        delete_job=delete_job,
        events=tuple(answer.events),
        wake_at=min((time for time in times if time > now), default=None) if not delete_job else None,
    )


def _decisive(status: JobStatus) -> JobStatus:
    """The status without what is only counted or noted."""
    marks = replace(status.record, seen={}, done={}, nodes={})
    return replace(status, counts=type(status.counts)(), task_counts={}, min_available=0, record=marks)


def _objects(job: Job) -> tuple[Wanted, ...]:
    return (group_of(job), *claims(job), *plugins.objects(job))


def _removals(job: Job) -> tuple[Removal, ...]:
    return (group_removal(job), *plugins.removals(job))


def _deletes(sight: Sight, active: bool) -> Iterable[PodDelete]:
    gone = [(pod, "restarted") for pod in sight.stale] + [(pod, "above the replicas") for pod in sight.surplus]
    if not active:
        gone += [(pod, "the job has ended") for pod in sight.members.values() if is_live(pod)]
    for pod, why in gone:
        if not pod.deleting:
            yield PodDelete(pod.name, pod.uid, why)


def _creates(job: Job, sight: Sight, now: float) -> tuple[tuple[PodOrder, ...], list[float]]:
    """Members that have no pod and may have one now, and when others may."""
    record, free, times = job.status.record, unlocked(job, sight), []
    # who was restarted together starts together: a new worker must not meet an old master
    leaving = {floor for pod in sight.stale if pod.version < (floor := record.floors.get(pod.task, 0))}
    orders: list[PodOrder] = []
    for task in job.spec.tasks:
        if task.name not in free or record.floors.get(task.name, 0) in leaving:
            continue
        done = record.done.get(task.name, frozenset())
        for index in range(task.replicas):
            slot: Slot = (task.name, index)
            if index in done or slot in sight.members:
                continue
            at = ready_at(job.status, slot, now)
            if pod_name(job.name, task.name, index) in sight.names:
                times.append(now + _NAME_SECONDS)
            elif now < at:
                times.append(at)
            else:
                orders.append(order_pod(job, task, index, now))
    return tuple(orders), times
