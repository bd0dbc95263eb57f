"""The pod groups that controllers make for the objects that they run, and what they write on the pods for it.

Takes such an object and its parts, gives the group's object with its marks, or None where the controller makes none;
must not make pods.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from extender.core.ids import Source
from extender.sim.api import Json
from extender.wire import kinds, marks
from extender.wire.fields import Object, Reader

_EMPTY: Object = {}
_QUEUE_LABEL = "volcano.sh/queue-name"
_TOPOLOGY_MODE = "volcano.sh/network-topology-mode"
_TOPOLOGY_TIER = "volcano.sh/network-topology-highest-tier-allowed"
_GANG_LABEL = "ray.io/gang-scheduling-enabled"
_STEP_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
#: the trainer's container, by its newer and its older name
_TRAINER_CONTAINERS = ("node", "trainer")


@dataclass(frozen=True, slots=True)
class Gang:
    """A group's object, and the marks that its members bear."""

    source: Source
    obj: Json
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    #: members bear the name of their role as Volcano's task too
    tasks: bool = False


def mapping(parent: Object, key: str) -> Object:
    """The object in a field; empty where there is none."""
    found = parent.get(key)
    return found if isinstance(found, dict) else _EMPTY


def meta_of(obj: Object) -> Object:
    """The metadata of an object."""
    return mapping(obj, "metadata")


def name_of(obj: Object) -> str:
    """The name of an object."""
    return str(meta_of(obj).get("name"))


def namespace_of(obj: Object) -> str:
    """The namespace of an object."""
    return str(meta_of(obj).get("namespace") or "default")


def api_group(obj: Object) -> str:
    """The API group of an object, whatever its version."""
    group, slash, _ = str(obj.get("apiVersion")).rpartition("/")
    return group if slash else ""


def gang_of(reader: Reader, obj: Object, kind: kinds.Kind, parts: Sequence[kinds.Part]) -> Gang | None:
    """The group that the controller of this object makes for all its pods."""
    maker = _MAKERS.get((kind.group, kind.name))
    if maker is None and kind.group == "kubeflow.org":
        maker = _of_policy
    return maker(reader, obj, kind, parts) if maker is not None and parts else None


def _volcano(obj: Object, name: str, spec: Json, tasks: bool = False) -> Gang:
    made = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": _named(obj, name),
        "spec": {key: value for key, value in spec.items() if value is not None},
    }
    return Gang(Source.VOLCANO, made, {}, {marks.VOLCANO_GROUP_ANNOTATION: name}, tasks)


def _plugins(obj: Object, name: str, spec: Json) -> Gang:
    made = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": _named(obj, name),
        "spec": {key: value for key, value in spec.items() if value is not None},
    }
    return Gang(Source.SCHEDULER_PLUGINS, made, {marks.SCHEDULER_PLUGINS_LABEL: name})


def _named(obj: Object, name: str) -> Json:
    return {"name": name, "namespace": namespace_of(obj), "uid": f"uid-of-PodGroup-{name}"}


def _size(parts: Sequence[kinds.Part]) -> int:
    return sum(part.number for part in parts)


def _of_volcano_job(reader: Reader, obj: Object, kind: kinds.Kind, parts: Sequence[kinds.Part]) -> Gang:
    """Volcano states each task's minimum, which is all its pods where the job does not say it."""
    least: dict[str, int] = {}
    for part in parts:
        least[part.role] = least.get(part.role, 0) + (part.number if part.minimum is None else part.minimum)
    minimum = kinds.whole_number(reader, obj, kind.minimum, None) or sum(least.values())
    spec = {key: kinds.find(obj, f"spec.{key}") for key in ("priorityClassName", "networkTopology")}
    spec["queue"] = kinds.find(obj, kind.queue)
    policies = [
        policy for task in reader.objects(mapping(obj, "spec"), "tasks", "spec.tasks") if (policy := _sub(task))
    ]
    more = {"minMember": minimum, "minTaskMember": least, "subGroupPolicy": policies or None}
    return _volcano(obj, f"{name_of(obj)}-{meta_of(obj).get('uid')}", spec | more)


def _sub(task: Object) -> Json | None:
    """A task that is cut into partitions, as Volcano's group says it."""
    policy = mapping(task, "partitionPolicy")
    if not policy:
        return None
    made = {
        "name": task.get("name"),
        "labelSelector": {"matchLabels": {"volcano.sh/task-spec": task.get("name")}},
        "matchLabelKeys": ["volcano.sh/partition-id"],
        "subGroupSize": policy.get("partitionSize"),
        "minSubGroups": policy.get("minPartitions"),
        "networkTopology": policy.get("networkTopology"),
    }
    return {key: value for key, value in made.items() if value is not None}


def _of_ray(reader: Reader, obj: Object, kind: kinds.Kind, parts: Sequence[kinds.Part]) -> Gang | None:
    """KubeRay gathers a cluster for Volcano or scheduler-plugins, by its own setting and the cluster's labels."""
    labels = mapping(meta_of(obj), "labels")
    least = _size(parts)
    if kinds.find(obj, "spec.enableInTreeAutoscaling") is True:  # what it may shrink to: the head, and least workers
        least = 1 + sum((part.minimum or 0) * part.inner for part in parts)
    if any(key in labels for key in (_QUEUE_LABEL, _TOPOLOGY_MODE)):
        spec: dict[str, Any] = {
            "minMember": least,
            "queue": labels.get(_QUEUE_LABEL),
            "networkTopology": _topology(labels),
        }
        workers = reader.objects(mapping(obj, "spec"), "workerGroupSpecs", "spec.workerGroupSpecs")
        spec["subGroupPolicy"] = [policy for one in workers if (policy := _ray_sub(one))] or None
        return _volcano(obj, f"ray-{name_of(obj)}-pg", spec, tasks=True)
    if _GANG_LABEL in labels:
        return _plugins(obj, name_of(obj), {"minMember": least})
    return None


def _topology(labels: Object) -> Json | None:
    if _TOPOLOGY_MODE not in labels:
        return None
    tier = str(labels.get(_TOPOLOGY_TIER, ""))
    return {"mode": labels[_TOPOLOGY_MODE]} | ({"highestTierAllowed": int(tier)} if tier.isdecimal() else {})


def _ray_sub(group: Object) -> Json | None:
    labels = kinds.find(group, "template.metadata.labels")
    topology = _topology(labels) if isinstance(labels, dict) else None
    if topology is None:
        return None
    selector = {"matchLabels": {"ray.io/group": group.get("groupName")}}
    return {"name": group.get("groupName"), "labelSelector": selector, "networkTopology": topology}


def _of_spark(reader: Reader, obj: Object, kind: kinds.Kind, parts: Sequence[kinds.Part]) -> Gang | None:
    """The driver makes the executors, so the group's minimum is the driver."""
    if kinds.find(obj, "spec.batchScheduler") != "volcano":
        return None
    priority = kinds.find(obj, "spec.batchSchedulerOptions.priorityClassName")
    spec = {"minMember": 1, "queue": kinds.find(obj, kind.queue), "priorityClassName": priority}
    return _volcano(obj, f"spark-{name_of(obj)}-pg", spec)


def _of_policy(reader: Reader, obj: Object, kind: kinds.Kind, parts: Sequence[kinds.Part]) -> Gang | None:
    """Kubeflow's operators gather a job when they are told to; a job with a policy was written for that."""
    policy = kinds.find(obj, "spec.runPolicy.schedulingPolicy")
    if not isinstance(policy, dict):
        return None
    minimum = kinds.whole_number(reader, obj, "spec.runPolicy.schedulingPolicy.minAvailable", None)
    spec = {"minMember": minimum or _size(parts), "queue": kinds.find(obj, kind.queue)}
    return _volcano(obj, name_of(obj), spec | {"priorityClassName": policy.get("priorityClass")}, tasks=True)


_MAKERS: dict[tuple[str, str], Callable[[Reader, Object, kinds.Kind, Sequence[kinds.Part]], Gang | None]] = {
    ("batch.volcano.sh", "Job"): _of_volcano_job,
    ("ray.io", "RayCluster"): _of_ray,
    ("sparkoperator.k8s.io", "SparkApplication"): _of_spark,
}


def of_train_job(reader: Reader, obj: Object, runtime: Object) -> Iterator[Json]:
    """The JobSet of a TrainJob with the marks of its group, and the group where the runtime wants one."""
    spec: Json = copy.deepcopy(dict(mapping(mapping(mapping(runtime, "spec"), "template"), "spec")))
    nodes = kinds.whole_number(reader, obj, "spec.trainer.numNodes", None)
    if nodes is None:
        nodes = kinds.whole_number(reader, runtime, "spec.mlPolicy.numNodes")
    trainer = kinds.find(obj, "spec.trainer")
    for job in reader.objects(spec, "replicatedJobs", "spec.replicatedJobs"):
        if mapping(mapping(mapping(job, "template"), "metadata"), "labels").get(_STEP_LABEL) == "trainer":
            _set_nodes(job, nodes or 0, trainer if isinstance(trainer, dict) else {})
    made = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": dict(meta_of(obj)), "spec": spec}
    kind = kinds.kind_of(made)
    assert kind is not None
    gang = _of_runtime(made, mapping(mapping(runtime, "spec"), "podGroupPolicy"), kinds.parts_of(reader, made, kind))
    if gang is not None:
        for job in reader.objects(spec, "replicatedJobs", "spec.replicatedJobs"):
            _mark(job, gang)
        yield gang.obj
    yield made


def _set_nodes(job: Object, nodes: int, trainer: Object) -> None:
    """So many pods of the job, with the resources that the TrainJob names for its trainer."""
    spec = mapping(mapping(job, "template"), "spec")
    if not isinstance(spec, dict):
        return
    spec |= {"parallelism": nodes, "completions": nodes}
    resources = trainer.get("resourcesPerNode")
    containers = mapping(mapping(spec, "template"), "spec").get("containers")
    for container in containers if isinstance(containers, list) and resources is not None else ():
        if isinstance(container, dict) and container.get("name") in _TRAINER_CONTAINERS:
            container["resources"] = resources


def _of_runtime(made: Object, policy: Object, parts: Sequence[kinds.Part]) -> Gang | None:
    if "coscheduling" in policy:
        seconds = mapping(policy, "coscheduling").get("scheduleTimeoutSeconds")
        return _plugins(made, name_of(made), {"minMember": _size(parts), "scheduleTimeoutSeconds": seconds})
    if "volcano" in policy:
        topology = mapping(policy, "volcano").get("networkTopology")
        return _volcano(made, name_of(made), {"minMember": _size(parts), "networkTopology": topology})
    return None


def _mark(job: Object, gang: Gang) -> None:
    template = mapping(mapping(mapping(job, "template"), "spec"), "template")
    if isinstance(template, dict):
        meta = dict(mapping(template, "metadata"))
        meta["labels"] = {**mapping(meta, "labels"), **gang.labels}
        meta["annotations"] = {**mapping(meta, "annotations"), **gang.notes}
        template["metadata"] = meta
