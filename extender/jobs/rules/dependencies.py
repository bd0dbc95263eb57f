"""Which tasks may start: those that wait for no other, and those whose others are up.

Takes a job and what is seen, gives names of tasks; must not make anything. A task that has started once is not held
back again until it is restarted.
"""

from __future__ import annotations

from extender.jobs.rules.model import Job, PodPhase, TaskSpec
from extender.jobs.rules.reading_spec import floor_of
from extender.jobs.rules.sight import Sight


def unlocked(job: Job, sight: Sight) -> frozenset[str]:
    """Names of the tasks whose members may be made."""
    ready = {task.name for task in job.spec.tasks if _is_up(job, task, sight)}
    return frozenset(task.name for task in job.spec.tasks if _may_start(job, task, ready))


def _may_start(job: Job, task: TaskSpec, ready: set[str]) -> bool:
    if task.depends_on is None or job.status.record.seen.get(task.name):
        return True
    met = (name in ready for name in task.depends_on.tasks)
    return any(met) if task.depends_on.any_of else all(met)


def _is_up(job: Job, task: TaskSpec, sight: Sight) -> bool:
    """As many as the task's minimum run or have succeeded."""
    done = job.status.record.done.get(task.name, frozenset())
    runs = sum(
        1
        for (name, index), pod in sight.members.items()
        if name == task.name and index not in done and pod.phase is PodPhase.RUNNING and not pod.deleting
    )
    return runs + len(done) >= floor_of(task)
