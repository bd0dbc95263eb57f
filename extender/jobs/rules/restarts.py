"""How members are given up and made anew: versions, back-off, and which nodes are to blame.

Takes a status, gives the next one; must not decide whether. To give a member up is one number: the version that its
pod must have at least. Pods below it are deleted, their end is no event, and their replacements bear the new version.
A status is written before anything of this is done, so that whoever goes on after a crash does the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from extender.jobs.rules.model import JobSpec, JobStatus, Loss, Phase, PodPhase, PodState, Record, Slot, Trouble
from extender.jobs.rules.phases import enter

#: seconds before the second replacement in a row; each further one waits twice as long, at most MAX_BACKOFF.
#: The first is made at once: the extender keeps a lost member's room for ten seconds
BACKOFF = 10.0
MAX_BACKOFF = 300.0
#: a member whose replacement has run that long has recovered, and its losses are forgotten
RECOVERED = 600.0
#: nodes of which failures are remembered, the latest
_MAX_NODES = 64
MAX_RETRY = "MaxRetryReached"


def backoff(times: int) -> float:
    """Seconds to wait before the replacement that follows the n-th loss in a row."""
    return min(MAX_BACKOFF, BACKOFF * 2.0 ** min(times - 2, 16)) if times > 1 else 0.0


def ready_at(status: JobStatus, slot: Slot, now: float) -> float:
    """From when on the pod of a member may be made: after its own back-off, and after that of the job's restarts."""
    loss = status.record.losses.get(slot)
    own = min(loss.at, now) + backoff(loss.times) if loss is not None else 0.0
    return max(own, restart_ends(status, now))


def restart_ends(status: JobStatus, now: float) -> float:
    """The end of the back-off after the last restart. What lies in the future counts as now: the clock was set back."""
    return min(status.record.restarted_at, now) + backoff(status.retries) if status.record.restarted_at else 0.0


def give_up(status: JobStatus, losses: Mapping[Slot, Loss]) -> JobStatus:
    """Give members up with what is to be remembered of each. Their floors are those of a new version."""
    if not losses:
        return status
    record = status.record
    gone: dict[str, set[int]] = {}
    for task, index in losses:
        gone.setdefault(task, set()).add(index)
    after = replace(
        record,
        losses={**record.losses, **losses},
        seen=_less(record.seen, gone),
        done=_less(record.done, gone),
        answered=record.answered - gone.keys(),
    )
    version = max(status.version, *(loss.floor for loss in losses.values()))
    return replace(status, version=version, record=after)


def next_loss(status: JobStatus, slot: Slot, node: str, now: float, waits: bool = False) -> Loss:
    """What is remembered of a member that is given up: one loss more, the node to go back to, and a new version."""
    before = status.record.losses.get(slot)
    return Loss(status.version + 1, (before.times if before is not None else 0) + 1, now, node, waits)


def home_of(record: Record, slot: Slot, pod: PodState | None) -> str:
    """The node to which a member had better go back: where it ran, but not one that threw it out by itself."""
    if pod is not None and pod.node:
        return "" if pod.phase is PodPhase.FAILED and pod.disrupted else pod.node
    before = record.losses.get(slot)
    return before.node if before is not None else ""


def dismiss(status: JobStatus, slots: Iterable[Slot], now: float) -> JobStatus:
    """Give members up without counting it as a loss: they are too many, or the job was stopped."""
    return give_up(status, {slot: Loss(status.version + 1, 0, now) for slot in slots})


def retry(status: JobStatus, spec: JobSpec, tasks: Iterable[str], now: float, why: str) -> JobStatus:
    """Restart whole tasks, or the job when these are all of its tasks; Failed when it was retried too often."""
    after = _counted(status, spec, now, why)
    if after.phase is Phase.FAILED:
        return after
    record, again, version = after.record, set(tasks), after.version + 1
    record = replace(
        record,
        floors={**record.floors, **{task: version for task in again}},
        seen={task: found for task, found in record.seen.items() if task not in again},
        done={task: found for task, found in record.done.items() if task not in again},
        losses={slot: loss for slot, loss in record.losses.items() if slot[0] not in again},
        answered=record.answered - again,
        run=version if again >= {task.name for task in spec.tasks} else record.run,
    )
    return replace(after, version=version, record=record)


def retry_members(status: JobStatus, spec: JobSpec, nodes: Mapping[Slot, str], now: float, why: str) -> JobStatus:
    """Restart single members, given with the nodes on which they ran; Failed when the job was retried too often."""
    after = _counted(status, spec, now, why)
    if after.phase is Phase.FAILED:
        return after
    return give_up(after, {slot: next_loss(after, slot, node, now) for slot, node in nodes.items()})


def _counted(status: JobStatus, spec: JobSpec, now: float, why: str) -> JobStatus:
    """One retry more. The last one is not made: as with Volcano, a job with maxRetry 3 is restarted twice."""
    retries = status.retries + 1
    if retries >= spec.max_retry:
        text = f"{why}; maxRetry is {spec.max_retry}"
        return enter(replace(status, retries=retries), Phase.FAILED, now, MAX_RETRY, text)
    after = replace(status, retries=retries, record=replace(status.record, restarted_at=now))
    return enter(after, Phase.RESTARTING, now, "Restarting", why)


def blame(record: Record, nodes: Iterable[str], now: float) -> Record:
    """Count a failure of the job on each of these nodes."""
    found = dict(record.nodes)
    for node in nodes:
        if node:
            found[node] = Trouble(found[node].times + 1 if node in found else 1, now)
    latest = sorted(found, key=lambda node: (found[node].at, node))[-_MAX_NODES:]
    return replace(record, nodes={node: found[node] for node in sorted(latest)})


def _less(found: Mapping[str, frozenset[int]], gone: Mapping[str, set[int]]) -> dict[str, frozenset[int]]:
    left = {task: indexes - gone.get(task, set()) for task, indexes in found.items()}
    return {task: frozenset(indexes) for task, indexes in left.items() if indexes}
