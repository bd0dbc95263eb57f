"""What the API server refuses or adds when an object is written: the rules of our CRDs, and the queue gate.

Takes an object as sent, gives it as stored, or Refused; must not look at other objects but the list of open
queues. The rules are those of manifests/base/crds, which a test compares by their messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from extender.core.ids import QUEUE_GATE, SCHEDULER_NAME
from extender.sim.api import Json, Refused
from extender.wire import marks, quantity

Rule = Callable[[str, Json], bool]
#: what the schema says of numbers: (kind, field) -> lowest and highest
BOUNDS: Mapping[tuple[str, str], tuple[int, int]] = {
    ("PodGroup", "minMember"): (1, 100_000),
    ("PodGroup", "expectedDurationSeconds"): (1, 31_536_000),
    ("PodGroup", "scheduleTimeoutSeconds"): (1, 86_400),
    ("Queue", "weight"): (0, 65_535),
    ("Queue", "priority"): (-1_000_000_000, 1_000_000_000),
    ("Queue", "staleSeconds"): (0, 31_536_000),
}


def _within(low: str, high: str) -> Rule:
    return lambda name, spec: all(
        quantity.nanos(amount) <= quantity.nanos(_amounts(spec, high)[resource])
        for resource, amount in _amounts(spec, low).items()
        if resource in _amounts(spec, high)
    )


def _amounts(spec: Json, key: str) -> Mapping[str, str]:
    found = spec.get(key) or {}
    return found.get("resource", {}) if key == "guarantee" else found


#: rules of the CRDs by kind: message -> what must hold
RULES: Mapping[str, Mapping[str, Rule]] = {
    "PodGroup": {
        "a group's name is the value of the label muster.dev/pod-group: at most 63 characters": (
            lambda name, spec: len(name) <= 63
        ),
        "the minimums of the tasks add up to more than minMember: raise minMember or lower a task's minMember": (
            lambda name, spec: sum(task["minMember"] for task in spec.get("tasks", ())) <= spec["minMember"]
        ),
    },
    "Queue": {
        "a queue's name is the value of the label muster.dev/queue: at most 63 characters": (
            lambda name, spec: len(name) <= 63
        ),
        "spec.parent names the queue itself: name another queue, or leave it out for a queue at the top": (
            lambda name, spec: spec.get("parent") != name
        ),
        "guarantee is a part of deserved: for each resource that both name, guarantee <= deserved": _within(
            "guarantee", "deserved"
        ),
        "capability is the hard cap: for each resource that both name, deserved <= capability": _within(
            "deserved", "capability"
        ),
        "capability is the hard cap: for each resource that both name, guarantee <= capability": _within(
            "guarantee", "capability"
        ),
    },
}


def judge(kind: str, thing: Json) -> None:
    """Raise Refused when a rule of the object's CRD does not hold."""
    spec = thing.get("spec", {})
    for (of, field), (low, high) in BOUNDS.items():
        if of == kind and field in spec and not low <= spec[field] <= high:
            raise Refused(422, f"spec.{field}: {spec[field]} is not from {low} to {high}")
    for message, holds in RULES.get(kind, {}).items():
        if not holds(thing["metadata"]["name"], spec):
            raise Refused(422, message)


def gate(pod: Json, open_queues: Collection[str] | None) -> Json:
    """The new pod with our scheduling gate, unless its queue is open; without a list nothing is done."""
    spec, labels = pod["spec"], pod["metadata"].get("labels", {})
    if open_queues is None or spec.get("schedulerName") != SCHEDULER_NAME or spec.get("nodeName"):
        return pod
    queue = labels.get(marks.QUEUE_LABEL, "" if marks.GROUP_LABEL in labels else "default")
    if queue in open_queues:
        return pod
    return {**pod, "spec": {**spec, "schedulingGates": [*spec.get("schedulingGates", ()), {"name": QUEUE_GATE}]}}
