"""A pod group from its JSON object, whichever project's it is.

Takes decoded JSON and the source it was watched from, gives a Group; must not raise for an object that
has a name and a uid: custom resources of others may hold anything, and what is wrong goes into `problems`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from extender.core.ids import GroupKey, QueueName, Source, TaskName
from extender.core.model import Group, PartRule
from extender.core.reasons import Reason
from extender.wire import departed, marks
from extender.wire.fields import Object, Reader, metadata
from extender.wire.network import volcano_levels
from extender.wire.selectors import expressions

_MAX_PRIORITY = 2**31 - 1
_INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
WHY_ANNOTATION = "muster.dev/why"
_REASONS = frozenset(reason.value for reason in Reason)

#: so many tasks and sub-groups of a group may have levels of their own
_MAX_PARTS = 64

_Tasks = tuple[tuple[TaskName, int], ...]


@dataclass(frozen=True, slots=True)
class _Stated:
    """What the fields of one source say; the rest of a Group is read alike for all."""

    min_member: int | None = None
    tasks: _Tasks = ()
    topology_required: str | None = None
    topology_preferred: str | None = None
    parts: tuple[PartRule, ...] = ()
    schedule_timeout: int | None = None
    expected_duration: int | None = None
    preemptible: bool | None = None
    priority: int | None = None
    priority_class: str | None = None
    initially_scheduled: bool = False
    phase: str = ""
    stated_reason: str = ""


def decode_group(source: Source, obj: object) -> Group:
    """The group that an object of this source describes; DecodeError when it has no name or uid."""
    meta = metadata(obj, "name", "uid")
    assert isinstance(obj, dict)
    reader = Reader()
    spec = reader.mapping(obj, "spec", "spec")
    status = reader.mapping(obj, "status", "status")
    stated = _READERS[source](reader, spec, status)
    namespace = reader.text(meta, "namespace", "metadata.namespace") or "default"
    return Group(
        key=GroupKey(source, namespace, meta["name"]),
        uid=meta["uid"],
        min_member=stated.min_member or max(1, sum(minimum for _, minimum in stated.tasks)),
        tasks=stated.tasks,
        queue=_queue(reader, meta, spec),
        topology_required=stated.topology_required,
        topology_preferred=stated.topology_preferred,
        parts=stated.parts,
        schedule_timeout=stated.schedule_timeout,
        expected_duration=stated.expected_duration,
        preemptible=stated.preemptible,
        priority=stated.priority,
        priority_class=stated.priority_class,
        created=reader.time(meta, "creationTimestamp", "metadata.creationTimestamp") or 0.0,
        generation=reader.integer(meta, "generation", "metadata.generation") or 0,
        initially_scheduled=stated.initially_scheduled,
        phase=stated.phase,
        stated_reason=stated.stated_reason or _why(reader, meta),
        evicted_at=departed.evicted_at(source, obj),
        problems=tuple(reader.problems),
    )


def _native(reader: Reader, spec: Object, status: Object) -> _Stated:
    path = "spec.schedulingPolicy"
    policy = reader.mapping(spec, "schedulingPolicy", path)
    minimum: int | None = 1
    if policy.get("gang") is not None:
        minimum = _minimum(reader, reader.mapping(policy, "gang", f"{path}.gang"), "minCount", f"{path}.gang.minCount")
    elif policy.get("basic") is None:
        reader.note(path, policy.get("basic"), "a basic or a gang policy")
    priority = _priority(reader, spec)
    scheduled, reason, message = _condition(reader, status, _INITIALLY_SCHEDULED)
    return _Stated(
        min_member=minimum,
        topology_required=_native_level(reader, spec),
        priority=priority,
        priority_class=_priority_class(reader, spec) if priority is None else None,
        initially_scheduled=scheduled == "True",
        stated_reason=(_leading_reason(message) or reason) if scheduled == "False" else "",
    )


def _native_level(reader: Reader, spec: Object) -> str | None:
    path = "spec.schedulingConstraints.topology"
    limits = reader.mapping(spec, "schedulingConstraints", "spec.schedulingConstraints")
    levels = reader.objects(limits, "topology", path)
    if len(levels) > 1:
        reader.note(path, levels, "a list of one level")
    return reader.text(levels[0], "key", f"{path}.key") or None if levels else None


def _scheduler_plugins(reader: Reader, spec: Object, status: Object) -> _Stated:
    unstated = spec.get("scheduleTimeoutSeconds") == 0  # as controllers write it that leave it to the scheduler
    return _Stated(
        min_member=_minimum(reader, spec, "minMember", "spec.minMember"),
        schedule_timeout=None if unstated else _seconds(reader, spec, "scheduleTimeoutSeconds"),
    )


def _volcano(reader: Reader, spec: Object, status: Object) -> _Stated:
    path = "spec.minTaskMember"
    minima = reader.mapping(spec, "minTaskMember", path)
    tasks = [
        (TaskName(name), reader.integer(minima, name, f"{path}[{name}]", 0, marks.MAX_MEMBERS))
        for name in sorted(minima)
    ]
    stated = tuple((name, minimum) for name, minimum in tasks if minimum)
    waiting, reason, _ = _condition(reader, status, "Unschedulable")
    least = _minimum(reader, spec, "minMember", "spec.minMember")
    if least is not None and least < sum(minimum for _, minimum in stated):
        stated = ()  # Volcano states all pods of a task for who names no minimum of it, and then looks at none of them
    required, preferred = volcano_levels(reader, spec, "spec")
    return _Stated(
        min_member=least,
        tasks=stated,
        topology_required=required,
        topology_preferred=preferred,
        parts=_subgroups(reader, spec),
        priority_class=_priority_class(reader, spec),
        stated_reason=reason if waiting == "True" else "",
    )


def _subgroups(reader: Reader, spec: Object) -> tuple[PartRule, ...]:
    """Volcano's sub-groups that must each be inside one HyperNode."""
    path, found = "spec.subGroupPolicy", []
    for policy in reader.objects(spec, "subGroupPolicy", path)[:_MAX_PARTS]:
        required, _ = volcano_levels(reader, policy, path)
        selector = expressions(reader, reader.mapping(policy, "labelSelector", path), f"{path}.labelSelector")
        keys = reader.texts(policy, "matchLabelKeys", f"{path}.matchLabelKeys")
        if required is not None:
            found.append(PartRule(required, None, selector, keys))
    return tuple(found)


def _muster(reader: Reader, spec: Object, status: Object) -> _Stated:
    topology = reader.mapping(spec, "topology", "spec.topology")
    phase = reader.text(status, "phase", "status.phase")
    return _Stated(
        min_member=_minimum(reader, spec, "minMember", "spec.minMember"),
        tasks=_muster_tasks(reader, spec),
        parts=_muster_parts(reader, spec),
        topology_required=reader.text(topology, "required", "spec.topology.required") or None,
        topology_preferred=reader.text(topology, "preferred", "spec.topology.preferred") or None,
        schedule_timeout=_seconds(reader, spec, "scheduleTimeoutSeconds"),
        expected_duration=_seconds(reader, spec, "expectedDurationSeconds"),
        preemptible=reader.flag(spec, "preemptible", "spec.preemptible"),
        priority_class=_priority_class(reader, spec),
        initially_scheduled=phase == "Running",
        phase=phase,
        stated_reason=reader.text(status, "reason", "status.reason"),
    )


def _muster_tasks(reader: Reader, spec: Object) -> _Tasks:
    path = "spec.tasks"
    minima: dict[TaskName, int] = {}
    for task in reader.objects(spec, "tasks", path):
        name = TaskName(reader.text(task, "name", f"{path}.name"))
        minimum = reader.integer(task, "minMember", f"{path}[{name}].minMember", 0, marks.MAX_MEMBERS)
        if not name or name in minima:
            reader.note(f"{path}.name", name, "a name of its own")
            continue
        if task.get("minMember") is None:
            reader.say(f"{path}[{name}].minMember", "is missing")
        minima[name] = minimum or 0
    return tuple((name, minimum) for name, minimum in minima.items() if minimum)


def _muster_parts(reader: Reader, spec: Object) -> tuple[PartRule, ...]:
    """Tasks of which all members, or so many by index, must be in one domain."""
    path, found = "spec.tasks[].topology", []
    for task in reader.objects(spec, "tasks", "spec.tasks")[:_MAX_PARTS]:
        wish = reader.mapping(task, "topology", path)
        level = reader.text(wish, "required", f"{path}.required")
        size = reader.integer(wish, "size", f"{path}.size", 1, marks.MAX_MEMBERS)
        if level:
            found.append(PartRule(level, TaskName(reader.text(task, "name", "spec.tasks.name")), size=size))
        elif wish:
            reader.say(f"{path}.required", "is missing")
    return tuple(found)


_READERS: dict[Source, Callable[[Reader, Object, Object], _Stated]] = {
    Source.NATIVE: _native,
    Source.SCHEDULER_PLUGINS: _scheduler_plugins,
    Source.VOLCANO: _volcano,
    Source.MUSTER: _muster,
}


def _minimum(reader: Reader, parent: Object, key: str, path: str) -> int | None:
    return reader.integer(parent, key, path, 1, marks.MAX_MEMBERS)


def _seconds(reader: Reader, spec: Object, key: str) -> int | None:
    return reader.integer(spec, key, f"spec.{key}", 1, marks.MAX_SECONDS)


def _priority(reader: Reader, spec: Object) -> int | None:
    return reader.integer(spec, "priority", "spec.priority", -_MAX_PRIORITY - 1, _MAX_PRIORITY)


def _priority_class(reader: Reader, spec: Object) -> str | None:
    return reader.text(spec, "priorityClassName", "spec.priorityClassName") or None


def _queue(reader: Reader, meta: Object, spec: Object) -> QueueName | None:
    """The queue of the group: its own field, else the label that any object may bear."""
    named = reader.text(spec, "queue", "spec.queue")
    labels = reader.mapping(meta, "labels", "metadata.labels")
    return QueueName(named) if named else marks.queue_of(reader, labels)


def _condition(reader: Reader, status: Object, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition."""
    for condition in reader.objects(status, "conditions", "status.conditions"):
        if condition.get("type") == kind:
            path = f"status.conditions[{kind}]"
            said = [reader.text(condition, key, path) for key in ("status", "reason", "message")]
            return said[0], said[1], said[2]
    return "", "", ""


def _why(reader: Reader, meta: Object) -> str:
    """The reason in our own annotation, where a status has no place for it."""
    notes = reader.mapping(meta, "annotations", "metadata.annotations")
    return _leading_reason(reader.text(notes, WHY_ANNOTATION, WHY_ANNOTATION))


def _leading_reason(text: str) -> str:
    """The reason of ours with which a text begins ("Reason: sentence", see status), else nothing."""
    word = text.partition(":")[0]
    return word if word in _REASONS else ""
