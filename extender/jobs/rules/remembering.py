"""What a look at the pods adds to the record of a job, and what may be forgotten.

Takes a status and what is seen, gives the status; must not decide. That a member was seen is remembered, so that its
absence means a loss; that it succeeded is remembered, so that it counts when its pod is gone.
"""

from __future__ import annotations

from dataclasses import replace

from extender.jobs.rules.model import Job, JobStatus, Loss, PodPhase, Record, Slot
from extender.jobs.rules.places import BAD_SECONDS
from extender.jobs.rules.plugins.hosts import pod_name
from extender.jobs.rules.restarts import RECOVERED
from extender.jobs.rules.sight import Sight


def remember(job: Job, status: JobStatus, sight: Sight, now: float) -> JobStatus:
    """The status with what was seen."""
    record = status.record
    seen, done = {}, {}
    for task in job.spec.tasks:
        among = frozenset(range(task.replicas))
        there = {index for (name, index) in sight.members if name == task.name}
        ended = {index for index in there if sight.members[task.name, index].phase is PodPhase.SUCCEEDED}
        seen[task.name] = (record.seen.get(task.name, frozenset()) & among) | there
        done[task.name] = (record.done.get(task.name, frozenset()) & among) | ended
    after = replace(
        record,
        seen={task: frozenset(found) for task, found in seen.items() if found},
        done={task: frozenset(found) for task, found in done.items() if found},
        losses=_losses(job, record, sight, now),
        nodes={node: trouble for node, trouble in record.nodes.items() if now < trouble.at + BAD_SECONDS},
    )
    return replace(status, record=after)


def _losses(job: Job, record: Record, sight: Sight, now: float) -> dict[Slot, Loss]:
    wanted = {task.name: task.replicas for task in job.spec.tasks}
    kept = {}
    for slot, loss in record.losses.items():
        pod = sight.members.get(slot)
        runs = pod is not None and pod.phase is PodPhase.RUNNING and not pod.deleting
        if slot[1] >= wanted.get(slot[0], 0):
            forgotten = pod_name(job.name, *slot) not in sight.names
        elif runs:
            forgotten = loss.times == 0 or now >= loss.at + RECOVERED
        else:
            forgotten = pod is not None and pod.phase is PodPhase.SUCCEEDED
        if not forgotten:
            kept[slot] = replace(loss, waits=False) if runs and loss.waits else loss
    return kept
