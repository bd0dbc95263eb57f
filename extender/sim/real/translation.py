"""The objects of a scenario as a real cluster takes them, and what it says of them in the scenario's names again.

Takes objects as the virtual cluster holds them, gives new ones; must not talk to a cluster. Each run has a prefix of
its own for what stands in no namespace, a label on everything it makes, a taint on its nodes, and a selector on its
pods, so that neither side meets the other's; the scenario's own labels and selectors stay beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from extender.core.ids import DEFAULT_QUEUE
from extender.sim import report
from extender.sim.api import Json
from extender.sim.objects import Making
from extender.wire import marks

#: on everything that a run makes: a label with its name, and the key of its nodes' taint
RUN = "scenario.muster.dev/run"
HOSTNAME = "kubernetes.io/hostname"
#: who plays what: KWOK the heartbeat of nodes, and nothing that is annotated so
KWOK_LABEL, KWOK_NODE, KWOK_STATUS, CUSTOM = "type", "kwok.x-k8s.io/node", "kwok.x-k8s.io/status", "custom"
CLUSTER_WIDE = frozenset({"Node", "Queue", "Topology", "PriorityClass", "RuntimeClass", "Namespace"})
#: a queue of the run that no scenario names
PROBE = "is-muster-at-work"
_SECONDS = ("scheduleTimeoutSeconds", "expectedDurationSeconds")


@dataclass(frozen=True, slots=True)
class Translation:
    """One run: `name` is that of its namespace, `scale` the scenario's seconds in a real one."""

    name: str
    scale: float

    # --- names ----------------------------------------------------------------------------------

    def name_of(self, kind: str, name: str) -> str:
        """What the cluster calls it."""
        there_for_all = kind not in CLUSTER_WIDE or (kind, name) == ("Queue", DEFAULT_QUEUE)
        return name if there_for_all else f"{self.name}-{name}"

    def owns(self, kind: str, name: str) -> bool:
        """Whether an object of this name is the run's, or everybody's."""
        return kind not in CLUSTER_WIDE or name == DEFAULT_QUEUE or name.startswith(f"{self.name}-")

    def told(self, thing: Json) -> Json:
        """What the cluster holds or says, in the scenario's names."""
        found: Json = orjson.loads(orjson.dumps(thing).replace(f"{self.name}-".encode(), b""))
        return found

    def told_text(self, text: str) -> str:
        """The same for a text."""
        return text.replace(f"{self.name}-", "")

    def whole_seconds(self, scenario: float) -> int:
        """Scenario seconds as real ones in a field that takes whole ones: at least 1 if there are any."""
        return math.ceil(scenario / self.scale) if scenario > 0 else int(scenario)

    # --- objects --------------------------------------------------------------------------------

    def made(self, kind: str, thing: Json) -> Json:
        """An object of the scenario for the cluster."""
        change: Callable[[Json], Json] = getattr(self, f"_{kind.lower()}", _same)
        return self._marked(kind, change({key: value for key, value in thing.items() if key != "status"}), thing)

    def patched(self, kind: str, patch: Mapping[str, Any]) -> Json:
        """A patch of the scenario for the cluster."""
        spec = patch.get("spec", {})
        changed = self._queue({"spec": spec}) if kind == "Queue" else {"spec": spec}
        return {**patch, **changed} if "spec" in patch else dict(patch)

    def _marked(self, kind: str, new: Json, thing: Json) -> Json:
        meta = new["metadata"]
        meta = {**meta, "name": self.name_of(kind, meta["name"]), "labels": {**meta.get("labels", {}), RUN: self.name}}
        if kind not in CLUSTER_WIDE:
            meta["namespace"] = self.name
        return {"kind": kind, **new, "metadata": meta, **self._status(kind, thing)}

    def _status(self, kind: str, thing: Json) -> Json:
        if kind != "Node":
            return {}
        return {"status": {key: thing["status"][key] for key in ("allocatable", "capacity")}}

    def _node(self, thing: Json) -> Json:
        meta = thing["metadata"]
        labels = {KWOK_LABEL: "kwok", **meta["labels"]}
        if labels.get(HOSTNAME) == meta["name"]:
            labels[HOSTNAME] = self.name_of("Node", meta["name"])
        notes = {**meta.get("annotations", {}), KWOK_NODE: "fake"}
        taint = {"key": RUN, "value": self.name, "effect": "NoSchedule"}
        return {**thing, "metadata": {**meta, "labels": labels, "annotations": notes}, "spec": {"taints": [taint]}}

    def _queue(self, thing: Json) -> Json:
        spec = dict(thing["spec"])
        if spec.get("parent") is not None:
            spec["parent"] = self.name_of("Queue", spec["parent"])
        if "staleSeconds" in spec:
            spec["staleSeconds"] = self.whole_seconds(spec["staleSeconds"])
        return {**thing, "spec": spec}

    def _podgroup(self, thing: Json) -> Json:
        spec = dict(thing["spec"])
        if "queue" in spec:
            spec["queue"] = self.name_of("Queue", spec["queue"])
        spec |= {key: self.whole_seconds(spec[key]) for key in _SECONDS if key in spec}
        return {**thing, "spec": spec}

    # --- pods -----------------------------------------------------------------------------------

    def pod(self, making: Making, thing: Json, owner: str | None) -> Json:
        """A pod; `owner` is the uid of its owner's object, if it has one."""
        meta, spec = thing["metadata"], dict(thing["spec"])
        labels = dict(meta["labels"])
        if marks.QUEUE_LABEL in labels:
            labels[marks.QUEUE_LABEL] = self.name_of("Queue", labels[marks.QUEUE_LABEL])
        new: Json = {"name": meta["name"], "labels": labels, "annotations": {KWOK_STATUS: CUSTOM}}
        if owner is not None and making.group is not None:
            new["ownerReferences"] = [_reference(making.group.name, owner)]
        for key in ("priority", "overhead"):  # the API server's own admission puts them there
            spec.pop(key, None)
        if making.task.overhead is not None:
            spec["runtimeClassName"] = self.name_of("RuntimeClass", runtime_class(making.task.overhead))
        grace = self.whole_seconds(making.grace)
        spec |= {
            "priorityClassName": self.name_of("PriorityClass", priority_class(making.priority, making.ours)),
            "terminationGracePeriodSeconds": grace,
            "nodeSelector": {**spec.get("nodeSelector", {}), RUN: self.name},
            "tolerations": [{"key": RUN, "operator": "Equal", "value": self.name}, *_FOR_EVER],
            "automountServiceAccountToken": False,
        }
        return self._marked("Pod", {"apiVersion": "v1", "metadata": new, "spec": spec}, {})

    # --- what the objects of a scenario need around them ----------------------------------------

    def namespace(self) -> Json:
        """The namespace of the run."""
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name, "labels": {RUN: self.name}}}

    def probe(self) -> Json:
        """A queue whose status shows that Muster is at work."""
        return self._marked("Queue", {"apiVersion": "muster.dev/v1alpha1", "metadata": {"name": PROBE}}, {})

    def surroundings(self, scenario: report.Scenario) -> list[Json]:
        """Priority and runtime classes of all pods that there may be, and an owner for each group that has one."""
        tasks = [task for group in scenario.groups for task in group.tasks]
        tasks += [event.fields["task"] for event in scenario.events if event.fields.get("task") is not None]
        priorities = {(group.priority, True): None for group in scenario.groups}
        priorities |= {(pod.priority, pod.queue is not None): None for pod in scenario.pods}
        overheads = {runtime_class(task.overhead): task.overhead for task in tasks if task.overhead is not None}
        return [
            *(self._priority_class(*one) for one in priorities),
            *(self._runtime_class(*one) for one in overheads.items()),
            *(self._owner(group.name) for group in scenario.groups if group.recreate),
        ]

    def _priority_class(self, value: int, ours: bool) -> Json:
        # a pod of another scheduler is nobody's victim here, and takes nobody's place
        policy = "PreemptLowerPriority" if ours else "Never"
        meta = {"name": priority_class(value, ours)}
        thing = {"apiVersion": "scheduling.k8s.io/v1", "metadata": meta, "value": value, "preemptionPolicy": policy}
        return self._marked("PriorityClass", thing, {})

    def _runtime_class(self, name: str, overhead: Mapping[str, str]) -> Json:
        thing = {"apiVersion": "node.k8s.io/v1", "metadata": {"name": name}, "handler": "sandboxed"}
        return self._marked("RuntimeClass", {**thing, "overhead": {"podFixed": dict(overhead)}}, {})

    def _owner(self, group: str) -> Json:
        return self._marked("ConfigMap", {"apiVersion": "v1", "metadata": {"name": owner_of(group)}}, {})


#: pods stay on a node that failed until an event ends them
_FOR_EVER: Iterable[Json] = [
    {"key": f"node.kubernetes.io/{trouble}", "operator": "Exists", "effect": "NoExecute"}
    for trouble in ("not-ready", "unreachable")
]


def priority_class(value: int, ours: bool) -> str:
    """The name of the class with this value."""
    return f"{'ours' if ours else 'other'}-{'minus-' if value < 0 else ''}{abs(value)}"


def runtime_class(overhead: Mapping[str, str]) -> str:
    """The name of the class with this overhead."""
    return "-".join(f"{name}-{amount}" for name, amount in sorted(overhead.items())).replace("/", "-").lower()


def owner_of(group: str) -> str:
    """The name of the object that owns a group's pods: the cluster collects pods whose owner is not there."""
    return f"owner-of-{group}"


def _reference(group: str, uid: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": owner_of(group), "uid": uid, "controller": True}


def _same(thing: Json) -> Json:
    return thing
