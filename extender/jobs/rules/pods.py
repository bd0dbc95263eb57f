"""The pod of a member: its template, Volcano's labels and annotations, our group, volumes, plugins, and its place.

Takes a job with the status that counts now, and a member; gives the pod to create. Must not change the template.
"""

from __future__ import annotations

import copy
from typing import Any

from extender.core.ids import RUN_LABEL
from extender.jobs.rules import marks, plugins
from extender.jobs.rules.group import group_name
from extender.jobs.rules.model import Job, PodOrder, Slot, TaskSpec, Upkeep, Wanted
from extender.jobs.rules.owning import owned, owner_of
from extender.jobs.rules.places import place
from extender.jobs.rules.plugins.container import Pod
from extender.jobs.rules.plugins.hosts import pod_name
from extender.wire.marks import (
    GROUP_LABEL,
    SCHEDULER_PLUGINS_LABEL,
    TASK_LABEL,
    VOLCANO_GROUP_ANNOTATION,
    VOLCANO_GROUP_ANNOTATION_2,
)

#: of the template: they would make it a member of another group
_FOREIGN = (SCHEDULER_PLUGINS_LABEL, VOLCANO_GROUP_ANNOTATION, VOLCANO_GROUP_ANNOTATION_2)


def order_pod(job: Job, task: TaskSpec, index: int, now: float) -> PodOrder:
    """The pod of a member as it must be made now."""
    name = pod_name(job.name, task.name, index)
    spec: dict[str, Any] = copy.deepcopy(dict(task.template["spec"]))
    spec["schedulerName"] = spec.get("schedulerName") or job.spec.scheduler_name
    if job.spec.priority_class and not spec.get("priorityClassName"):
        spec["priorityClassName"] = job.spec.priority_class
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    _mount_volumes(job, Pod(task.name, index, spec))
    plugins.mend(job, task.name, index, spec)
    place(job.status.record, (task.name, index), spec, now)
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(job, task, index, name), "spec": spec}
    return PodOrder(name, (task.name, index), body)


def claims(job: Job) -> tuple[Wanted, ...]:
    """The volume claims that the job has made; they stay until the job is deleted."""
    return tuple(
        owned(job, "v1", "PersistentVolumeClaim", volume.claim_name, {"spec": volume.claim}, Upkeep.CREATE)
        for volume in job.spec.volumes
        if volume.claim is not None
    )


def _mount_volumes(job: Job, pod: Pod) -> None:
    for number, volume in enumerate(job.spec.volumes):
        name = f"vcjob-volume-{number}"
        pod.mount(
            {"name": name, "persistentVolumeClaim": {"claimName": volume.claim_name}},
            {"name": name, "mountPath": volume.mount_path},
        )


def _metadata(job: Job, task: TaskSpec, index: int, name: str) -> dict[str, Any]:
    meta = task.template.get("metadata") or {}
    labels, notes = _texts(meta.get("labels")), _texts(meta.get("annotations"))
    shared = {
        marks.JOB_NAME: job.name,
        marks.TASK: task.name,
        marks.INDEX: str(index),
        marks.QUEUE: job.spec.queue,
    }
    record = job.status.record
    if task.partition_size:
        shared[marks.PARTITION] = str(index // task.partition_size)
    for marked, given in ((job.labels, labels), (job.annotations, notes)):
        if marks.PREEMPTABLE in marked:
            given[marks.PREEMPTABLE] = marked[marks.PREEMPTABLE]
    labels |= shared | {marks.JOB_NAMESPACE: job.namespace, GROUP_LABEL: group_name(job), TASK_LABEL: task.name}
    labels[RUN_LABEL] = f"{record.run}.{record.floors.get(task.name, 0)}"
    notes |= shared | {
        marks.JOB_VERSION: str(job.status.version),
        marks.JOB_RETRIES: str(job.status.retries),
        marks.TEMPLATE: f"{job.name}-{task.name}",
    }
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": labels,
        "annotations": notes,
        "ownerReferences": [owner_of(job)],
    }


def _texts(found: object) -> dict[str, str]:
    pairs = found.items() if isinstance(found, dict) else ()
    return {key: text for key, text in pairs if isinstance(text, str) and key not in _FOREIGN}


def slots_of(job: Job) -> list[Slot]:
    """All members that the job wants, in the order of its tasks and of indexes."""
    return [(task.name, index) for task in job.spec.tasks for index in range(task.replicas)]
