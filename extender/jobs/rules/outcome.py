"""How a job ends by itself, as Volcano judges it.

Takes a job and how many members succeeded, gives the phase; must not look at pods.
"""

from __future__ import annotations

from extender.jobs.rules.model import Job, Phase
from extender.jobs.rules.reading_spec import floor_of


def outcome(job: Job, ended: bool) -> Phase | None:
    """Completed as soon as minSuccess members have succeeded; else, when no member will do any more (`ended`), by the
    minimums of the job and of its tasks. None while it goes on, and for a job that is scaled to nothing."""
    spec = job.spec
    done = {task.name: len(job.status.record.done.get(task.name, ())) for task in spec.tasks}
    succeeded = sum(done.values())
    if not sum(task.replicas for task in spec.tasks):
        return None
    if spec.min_success is not None and succeeded >= spec.min_success:
        return Phase.COMPLETED
    if not ended:
        return None
    # where the tasks' minimums add up to more than the job's they do not count, as in the gang
    if spec.min_available >= sum(floor_of(task) for task in spec.tasks):
        stated = [task for task in spec.tasks if task.min_available is not None]
        if any(done[task.name] < (task.min_available or 0) for task in stated):
            return Phase.FAILED
    if spec.min_success is not None:
        return Phase.FAILED
    return Phase.COMPLETED if succeeded >= spec.min_available else Phase.FAILED
