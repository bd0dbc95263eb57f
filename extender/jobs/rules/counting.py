"""How many pods of a job do what: the numbers of its status.

Takes what is seen, gives counts. Each pod of this Job object counts once: as terminating while it is being deleted,
else by its phase; members that succeeded and whose pods are gone count as succeeded.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from extender.jobs.rules.model import Counts, Job, JobStatus, PodPhase
from extender.jobs.rules.sight import Sight


def count(job: Job, status: JobStatus, sight: Sight) -> JobStatus:
    """The status with the numbers of what is seen."""
    phases = Counter(pod.phase for pod in sight.own if not pod.deleting)
    tasks: dict[str, Counter[str]] = {task.name: Counter() for task in job.spec.tasks}
    for pod in sight.own:
        if not pod.deleting and pod.task in tasks:
            tasks[pod.task][pod.phase.value] += 1
    for task, done in status.record.done.items():
        gone = sum(1 for index in done if (task, index) not in sight.members)
        if gone and task in tasks:
            phases[PodPhase.SUCCEEDED] += gone
            tasks[task][PodPhase.SUCCEEDED.value] += gone
    counts = Counts(
        pending=phases[PodPhase.PENDING],
        running=phases[PodPhase.RUNNING],
        succeeded=phases[PodPhase.SUCCEEDED],
        failed=phases[PodPhase.FAILED],
        terminating=sum(1 for pod in sight.own if pod.deleting),
        unknown=phases[PodPhase.UNKNOWN],
    )
    told = {task: dict(sorted(numbers.items())) for task, numbers in tasks.items() if numbers}
    return replace(status, counts=counts, task_counts=told, min_available=job.spec.min_available)
