"""The gang of a job: our own PodGroup, owned by the job.

Takes a job, gives the object; must not know who runs. Its minimum is the job's, but never more than the members that
wait for no other task: a task that starts after others joins the gang as surplus, else nobody could start.
"""

from __future__ import annotations

from typing import Any

from extender.jobs.rules import marks
from extender.jobs.rules.model import Closeness, Job, Removal, TaskSpec, Wanted
from extender.jobs.rules.owning import owned

_API_VERSION, _KIND = "muster.dev/v1alpha1", "PodGroup"
_NAME_PART = 54
_MAX_PRIORITY_NAME = 253


def group_name(job: Job) -> str:
    """Name of the job's group: another Job of the same name has another, so that its pods are not counted here."""
    return f"{job.name[:_NAME_PART].rstrip('-.')}-{job.uid[:8].lower()}"


def group_of(job: Job) -> Wanted:
    """The PodGroup as it must be now; a change of replicas or minimums changes it."""
    spec = job.spec
    first = [task for task in spec.tasks if task.depends_on is None]
    least = max(1, min(spec.min_available, sum(task.replicas for task in first)))
    body: dict[str, Any] = {"minMember": least, "queue": spec.queue}
    if tasks := _tasks(first, least):
        body["tasks"] = tasks
    if spec.priority_class:
        body["priorityClassName"] = spec.priority_class[:_MAX_PRIORITY_NAME]
    if topology := _topology(spec.closeness):
        body["topology"] = topology
    if spec.expected_seconds is not None:
        body["expectedDurationSeconds"] = spec.expected_seconds
    if job.annotations.get(marks.PREEMPTABLE, job.labels.get(marks.PREEMPTABLE)) == "false":
        body["preemptible"] = False
    return owned(job, _API_VERSION, _KIND, group_name(job), {"spec": body})


def group_removal(job: Job) -> Removal:
    """The PodGroup, to be gone."""
    return Removal(_API_VERSION, _KIND, group_name(job))


def _topology(closeness: Closeness) -> dict[str, str]:
    named = (("required", closeness.required), ("preferred", closeness.preferred))
    return {name: level for name, level in named if level}


def _tasks(tasks: list[TaskSpec], least: int) -> list[dict[str, Any]]:
    """Minimums of tasks that state one. Where they add up to more than the gang's, none counts, as with Volcano, whose
    webhook states all pods of a task for who names no minimum."""
    stated = [(task, task.min_available or 0) for task in tasks]
    counts = sum(minimum for _, minimum in stated) <= least
    found = []
    for task, minimum in stated:
        row: dict[str, Any] = {"name": task.name, "minMember": minimum if counts else 0}
        if task.closeness.required:
            row["topology"] = {"required": task.closeness.required}
            row["topology"] |= {"size": task.partition_size} if task.partition_size else {}
        if row["minMember"] or "topology" in row:
            found.append(row)
    return found
