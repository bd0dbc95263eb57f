"""Jobs that grow and shrink while they run: replicas may be edited between a task's minimum and what the job may have.

Takes a job and what is seen of its pods, gives the status; must not choose a size: users edit it, and of the replicas
those above the gang's minimum run as far as there is room.

The rules for who runs:
- A member keeps its index, its name and its rank as long as its task has so many replicas; nobody moves up.
- Members that run are never touched by a change of size. The highest indexes go first, and come last.
- The size that a pod learns in variables (WORLD_SIZE, TF_CONFIG, MPI_HOST, VC_<TASK>_NUM) is that of when it was made;
  the files of `svc` under /etc/volcano follow in pods that run. Whoever rendezvouses anew reads those.
"""

from __future__ import annotations

from extender.jobs.rules.model import Job, JobStatus
from extender.jobs.rules.restarts import dismiss
from extender.jobs.rules.sight import Sight, floor_of


def shrink(job: Job, sight: Sight, status: JobStatus, now: float) -> JobStatus:
    """Give up the members above the replicas: that they go is no loss, also when they are wanted again meanwhile."""
    tasks = {task.name for task in job.spec.tasks}
    extra = [
        (pod.task, pod.index)
        for pod in sight.surplus
        if pod.task in tasks and pod.index >= 0 and pod.version >= floor_of(status.record, (pod.task, pod.index))
    ]
    return dismiss(status, extra, now)
