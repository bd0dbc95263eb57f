"""What policies and Commands make of a job: its status, changed.

Takes a job with the status that counts and what is seen of its pods; gives the next status. Must not say which pods to
make or delete: that follows from the status.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from extender.jobs.rules import policies, restarts
from extender.jobs.rules.model import (
    ACTIVE,
    Action,
    Command,
    Event,
    Job,
    JobEvent,
    JobStatus,
    Loss,
    Phase,
    PodPhase,
    Slot,
)
from extender.jobs.rules.occurrences import Occurrence, happened, lost
from extender.jobs.rules.phases import enter
from extender.jobs.rules.places import BAD_SECONDS, BAD_TIMES, avoided
from extender.jobs.rules.restarts import dismiss, give_up, home_of, next_loss
from extender.jobs.rules.sight import Sight, floor_of

#: Commands that are carried out in one step, and uids of them that are remembered
MAX_COMMANDS = 16
_ENDS = {
    Action.ABORT_JOB: Phase.ABORTING,
    Action.TERMINATE_JOB: Phase.TERMINATING,
    Action.COMPLETE_JOB: Phase.COMPLETING,
}
_STOPPED = (Phase.ABORTING, Phase.ABORTED)


@dataclass(slots=True)
class Answer:
    """A status on its way through one judgement, and what is to be told of it."""

    status: JobStatus
    events: list[JobEvent] = field(default_factory=list)
    #: when a policy that waits is due
    due: list[float] = field(default_factory=list)
    #: members whose eviction a policy waits on
    waiting: set[Slot] = field(default_factory=set)

    def tell(self, reason: str, message: str, warning: bool = False) -> None:
        """Send an Event with this step."""
        self.events.append(JobEvent(warning, reason, message))


def obey(job: Job, sight: Sight, commands: Sequence[Command], now: float, answer: Answer) -> tuple[str, ...]:
    """Carry Commands out, each once; the names of those that may be deleted."""
    handled = commands[:MAX_COMMANDS]
    for command in handled:
        if command.uid in answer.status.record.commands:
            continue
        before = answer.status
        if command.action is not None and command.target_uid in ("", job.uid):
            answer.status = _obeyed(replace(job, status=before), sight, command.action, now)
        if answer.status != before:
            uids = (*answer.status.record.commands, command.uid)[-MAX_COMMANDS:]
            answer.status = replace(answer.status, record=replace(answer.status.record, commands=uids))
            answer.tell("CommandIssued", f"{command.said} by the Command {command.name}")
    return tuple(command.name for command in handled)


def _obeyed(job: Job, sight: Sight, action: Action, now: float) -> JobStatus:
    status = job.status
    if action is Action.RESUME_JOB:
        return _resumed(status, sight, now) if status.phase in _STOPPED else status
    if status.phase not in ACTIVE or action not in policies.WHOLE:
        return status
    return _whole(job, action, now, "by a Command")


def _resumed(status: JobStatus, sight: Sight, now: float) -> JobStatus:
    """Members that succeeded stay; all others start anew. A resumption is no retry: nothing has failed."""
    done = status.record.done
    rest = [slot for slot in sight.members if slot[1] not in done.get(slot[0], ())]
    after = dismiss(status, rest, now)
    after = replace(after, record=replace(after.record, seen=dict(after.record.done)))
    return enter(after, Phase.RESTARTING, now, "Resumed", "resumed by a Command")


def _whole(job: Job, action: Action, now: float, why: str) -> JobStatus:
    """An action about the whole job, in a phase in which it is active."""
    if action is Action.RESTART_JOB:
        tasks = [task.name for task in job.spec.tasks]
        return restarts.retry(job.status, job.spec, tasks, now, f"{action} {why}")
    return enter(job.status, _ENDS[action], now, action.value, f"{action} {why}") if action in _ENDS else job.status


def judge(job: Job, sight: Sight, now: float, answer: Answer) -> None:
    """Let policies answer what has happened; members that were lost and for which none acts are replaced."""
    acting: list[tuple[Action, Occurrence]] = []
    for occurrence in happened(job, sight, now):
        policy = policies.answer(job, occurrence)
        if policy is None:
            continue
        at = occurrence.since + policy.timeout
        if at <= now:
            acting.append((policy.action, occurrence))
        else:
            answer.due.append(at)
            answer.waiting |= set(occurrence.slots) if Event.POD_EVICTED in occurrence.events else set()
    _act(job, sight, now, acting, answer)
    if answer.status.phase in ACTIVE:
        _replace_lost(replace(job, status=answer.status), sight, now, answer)


def _act(job: Job, sight: Sight, now: float, acting: list[tuple[Action, Occurrence]], answer: Answer) -> None:
    """The oldest occurrence answered for the whole job counts alone; else all of tasks and pods, as one retry."""
    if not acting:
        return
    _remember(job, sight, now, acting, answer)
    scoped = [(_scope(action, occurrence), occurrence) for action, occurrence in acting]
    whole = [(action, one) for action, one in scoped if action in policies.WHOLE and action is not Action.RESUME_JOB]
    before = answer.status
    if whole:
        action, one = whole[0]
        answer.status = _whole(replace(job, status=before), action, now, f"on {_said(one)}")
    else:
        answer.status = _parts(job, sight, now, scoped, before)
    if answer.status.phase is not before.phase or answer.status.retries != before.retries:
        failed = answer.status.phase is Phase.FAILED
        reason = answer.status.reason if failed else "ExecuteAction"
        answer.tell(reason, answer.status.message, warning=failed)


def _scope(action: Action, occurrence: Occurrence) -> Action:
    """What is about the whole job cannot restart one task or pod of it."""
    parts = (Action.RESTART_TASK, Action.RESTART_POD)
    return Action.RESTART_JOB if action in parts and not occurrence.task else action


def _parts(job: Job, sight: Sight, now: float, scoped: list[tuple[Action, Occurrence]], status: JobStatus) -> JobStatus:
    tasks = {one.task: one for action, one in scoped if action is Action.RESTART_TASK}
    slots = {
        slot: one
        for action, one in scoped
        if action is Action.RESTART_POD
        for slot in one.slots
        if slot[0] not in tasks
    }
    if not tasks and not slots:
        return status
    first = next(iter(tasks.values() or slots.values()))
    action = Action.RESTART_TASK if tasks else Action.RESTART_POD
    why = f"{action} on {_said(first)}"
    nodes = {slot: home_of(status.record, slot, sight.members.get(slot)) for slot in slots}
    if not tasks:
        return restarts.retry_members(status, job.spec, nodes, now, why)
    after = restarts.retry(status, job.spec, tasks, now, why)
    if after.phase is Phase.FAILED:
        return after
    return give_up(after, {slot: next_loss(after, slot, node, now) for slot, node in nodes.items()})


def _remember(job: Job, sight: Sight, now: float, acting: Iterable[tuple[Action, Occurrence]], answer: Answer) -> None:
    """Completions that are answered are not answered again, and failures count against the node."""
    restarting = (Action.RESTART_JOB, Action.RESTART_TASK, Action.RESTART_POD)
    answered, failed = set(answer.status.record.answered), set()
    for action, one in acting:
        if Event.TASK_COMPLETED in one.events:
            answered.add(one.task)
        if Event.POD_FAILED in one.events and Event.POD_EVICTED not in one.events and action in restarting:
            failed |= set(one.slots)
    before = answer.status.record
    record = replace(before, answered=frozenset(answered))
    record = restarts.blame(record, [sight.members[slot].node for slot in sorted(failed)], now)
    answer.status = replace(answer.status, record=record)
    for node in sorted(set(avoided(record, now)) - set(avoided(before, now))):
        text = f"{BAD_TIMES} failures of this job on node {node}: avoided for {BAD_SECONDS / 60:.0f} min"
        answer.tell("BadNode", text, warning=True)


def _replace_lost(job: Job, sight: Sight, now: float, answer: Answer) -> None:
    """Members that are gone, are being deleted or were evicted, and are not given up already, are replaced in place."""
    found: dict[Slot, Loss] = {}
    record = job.status.record
    for task in job.spec.tasks:
        for index in lost(job.status, sight, task):
            slot = (task.name, index)
            found[slot] = next_loss(job.status, slot, home_of(record, slot, None), now)
    for slot, pod in sight.members.items():
        over = pod.deleting or (pod.phase is PodPhase.FAILED and pod.disrupted)
        done = slot[1] in record.done.get(slot[0], ())
        if over and not done and pod.version >= floor_of(record, slot):
            found[slot] = next_loss(job.status, slot, home_of(record, slot, pod), now)
    if not found:
        return
    waiting = {slot: replace(loss, waits=slot in answer.waiting) for slot, loss in found.items()}
    answer.status = give_up(job.status, waiting)
    some = ", ".join(f"{task}-{index}" for task, index in sorted(found)[:5])
    answer.tell("MemberLost", f"{len(found)} of the job's members lost: {some}; they are replaced", warning=True)


def _said(occurrence: Occurrence) -> str:
    names = ", ".join(f"{task}-{index}" for task, index in occurrence.slots[:3])
    of = names if len(occurrence.slots) <= 3 else occurrence.task
    codes = f" (exit code {occurrence.exit_codes[0]})" if occurrence.exit_codes else ""
    return f"{occurrence.events[0]} of {of}{codes}" if of else f"{occurrence.events[0]}"
