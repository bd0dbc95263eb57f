"""What stands in a scenario as the JSON objects that a real cluster would hold.

Takes values of a report, gives new objects; must not know what is in the cluster already.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from extender.core.ids import DEFAULT_QUEUE, SCHEDULER_NAME
from extender.sim import report
from extender.sim.api import Json
from extender.wire import marks

#: a node takes so many pods unless the report says another number
PODS = "110"
HAMI_REGISTER = "hami.io/node-nvidia-register"
HAMI_ALLOCATED = "hami.io/vgpu-devices-allocated"
#: labels by which a scenario's pods are told apart; any owner of pods sets some
NAME_LABEL = "app.kubernetes.io/name"
TAINTS = {
    "node.kubernetes.io/unschedulable": ("NoSchedule",),
    "node.kubernetes.io/not-ready": ("NoSchedule", "NoExecute"),
}


@dataclass(frozen=True, slots=True)
class Making:
    """All that is needed to make a pod, and to make it again. `group` None: a loose pod."""

    name: str
    task: report.Task
    group: report.Group | None = None
    queue: str | None = None
    priority: int = 0

    @property
    def ours(self) -> bool:
        """False for another scheduler's pod."""
        return self.group is not None or self.queue is not None

    @property
    def grace(self) -> float:
        """Seconds that it takes to end when it is asked to."""
        return self.group.grace if self.group is not None else 0.0

    @property
    def runtime(self) -> float | None:
        """Seconds after which it ends by itself."""
        return self.group.runtime if self.group is not None else None

    @property
    def recreated(self) -> bool:
        """True when an owner makes it again."""
        return self.group is not None and self.group.recreate


def of_group(group: report.Group, task: report.Task, index: int) -> Making:
    """The pod of a task with this index."""
    return Making(f"{group.name}-{task.name}-{index}", task, group, group.queue, group.priority)


def of_loose(pod: report.Pod) -> Making:
    """A loose pod."""
    task = report.Task("", 1, pod.requests, node_selector=pod.node_selector)
    return Making(pod.name, task, None, pod.queue, pod.priority)


def pod(making: Making) -> Json:
    """A new pod, before admission."""
    labels = {NAME_LABEL: making.name}
    if making.group is not None:
        labels |= {marks.GROUP_LABEL: making.group.name, marks.TASK_LABEL: making.task.name}
    elif making.queue is not None:
        labels[marks.QUEUE_LABEL] = making.queue
    meta: Json = {"name": making.name, "labels": labels, "annotations": {}}
    if making.group is not None and making.recreated:
        meta["ownerReferences"] = [_owner(making.group.name)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": _spec(making), "status": {"phase": "Pending"}}


def _owner(name: str) -> Json:
    uid = f"owner-of-{name}"
    return {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}


def _spec(making: Making) -> Json:
    task = making.task
    spec: Json = {
        "schedulerName": SCHEDULER_NAME if making.ours else "default-scheduler",
        "restartPolicy": "Never",
        "priority": making.priority,
        "terminationGracePeriodSeconds": int(making.grace),
        "containers": [_container("main", task.requests)],
        # as the API server's own admission adds them
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{trouble}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for trouble in ("not-ready", "unreachable")
        ],
    }
    if task.node_selector:
        spec["nodeSelector"] = dict(task.node_selector)
    first = []
    if task.sidecar_requests is not None:
        first.append({**_container("sidecar", task.sidecar_requests), "restartPolicy": "Always"})
    if task.init_requests is not None:
        first.append(_container("init", task.init_requests))
    if first:
        spec["initContainers"] = first
    if task.overhead is not None:
        spec |= {"runtimeClassName": "sandboxed", "overhead": dict(task.overhead)}
    return spec


def _container(name: str, requests: Mapping[str, str]) -> Json:
    limits = {key: value for key, value in requests.items() if "/" in key}
    return {"name": name, "image": "example.com/work", "resources": {"requests": dict(requests), "limits": limits}}


def pod_group(group: report.Group, settings: report.Settings) -> Json:
    """The group's object."""
    spec: Json = {"minMember": group.minMember}
    tasks = [{"name": task.name, "minMember": task.min} for task in group.tasks if task.min is not None]
    optional: dict[str, Any] = {
        "tasks": tasks or None,
        "queue": group.queue,
        "topology": dict(group.topology) or None,
        "preemptible": None if group.preemptible else False,
        "expectedDurationSeconds": group.declared_runtime,
        "scheduleTimeoutSeconds": None if settings.hold_seconds is None else math.ceil(settings.hold_seconds),
    }
    spec |= {key: value for key, value in optional.items() if value is not None}
    return _custom("PodGroup", group.name, spec)


def queues(scenario: report.Scenario) -> list[report.Queue]:
    """Those that the report tells of. Where a setting is one of all queues, the default one needs an object too."""
    told = list(scenario.queues)
    if scenario.settings.stale_gang_seconds is not None and all(queue.name != DEFAULT_QUEUE for queue in told):
        told.append(report.Queue(DEFAULT_QUEUE))
    return told


def queue(told: report.Queue, settings: report.Settings) -> Json:
    """A Queue with every field that the report names."""
    fields = {
        key: getattr(told, key)
        for key in ("parent", "weight", "capability", "deserved", "guarantee", "reclaimable", "priority", "state")
    }
    spec = queue_fields(fields)
    if settings.stale_gang_seconds is not None:
        spec["staleSeconds"] = settings.stale_gang_seconds
    if settings.gpu_charge == "share":
        spec["gpuCharge"] = "share"
    return _custom("Queue", told.name, {key: value for key, value in spec.items() if value is not None})


def queue_fields(fields: Mapping[str, Any]) -> Json:
    """Fields of a report's queue as they stand in the spec; None removes one from a patch."""
    spec = dict(fields)
    if spec.get("guarantee") is not None:
        spec["guarantee"] = {"resource": dict(spec["guarantee"])}
    return spec


def topologies(groups: Iterable[report.Group]) -> list[Json]:
    """Topology objects that know every level which a group names."""
    found: dict[tuple[str, ...], None] = {}
    for group in groups:
        levels = tuple(dict.fromkeys(group.topology[key] for key in ("required", "preferred") if key in group.topology))
        if levels:
            found[levels] = None
    wanted = [levels for levels in found if not any(set(levels) < set(other) for other in found)]
    return [_custom("Topology", f"levels-{n}", {"levels": list(levels)}) for n, levels in enumerate(wanted)]


def budget(told: report.Budget) -> Json:
    """A PodDisruptionBudget over a group's pods."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": told.name},
        "spec": {
            "minAvailable": told.min_available,
            "selector": {"matchLabels": {marks.GROUP_LABEL: told.group}},
        },
        "status": {},
    }


def node(told: report.Node) -> Json:
    """A ready node with its cards as they are published."""
    allocatable = {"pods": PODS, **told.allocatable}
    annotations = {HAMI_REGISTER: cards(told.devices)} if told.devices else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": told.name,
            "labels": {"kubernetes.io/hostname": told.name, **told.labels},
            "annotations": annotations,
        },
        "spec": {},
        "status": {
            "allocatable": allocatable,
            "capacity": dict(allocatable),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def cards(devices: Iterable[report.Card]) -> str:
    """The text with which a device plugin publishes a node's cards; a field that is false is left out, as there."""
    return json.dumps(
        [
            {
                "id": card.id,
                "index": index,
                "count": card.slots,
                "devmem": card.memory_mib,
                "devcore": card.cores,
                "type": "NVIDIA",
                "mode": "hami-core",
                **({"health": True} if card.healthy else {}),
            }
            for index, card in enumerate(devices)
        ]
    )


def _custom(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": "muster.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
