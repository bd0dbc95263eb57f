"""A Job's spec from JSON, with the defaults that Volcano's webhook fills in.

Takes decoded JSON, gives a JobSpec; raises Refused for what cannot be run, with the field and the value.
"""

from __future__ import annotations

import re
from typing import Any

from extender.jobs.rules.durations import parse_duration
from extender.jobs.rules.model import (
    Action,
    Closeness,
    DependsOn,
    Event,
    JobSpec,
    Object,
    Policy,
    TaskSpec,
    Volume,
)
from extender.jobs.rules.refusals import Reason, Refused
from extender.wire.fields import Reader
from extender.wire.network import volcano_levels

#: most pods of one job
MAX_PODS = 100_000
_MAX_TASKS = 64
_MAX_POLICIES = 64
_MAX_COUNT = 2**31 - 1
_DEFAULT_RETRIES = 3
_MAX_EXPECTED = 31_536_000
_EVENTS = {event.value: event for event in Event}
_ACTIONS = {action.value: action for action in Action}
#: happen inside the controller, no policy may name them
_INTERNAL = (Event.OUT_OF_SYNC, Event.COMMAND_ISSUED)
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_CLASS = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_LEVEL = re.compile(r"([a-z0-9][-a-z0-9.]{0,252}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_QUEUE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", re.ASCII)
#: what a plugin cannot do without
_NEEDS = {"tensorflow": ("svc",), "pytorch": ("svc",), "ray": ("svc",), "mpi": ("svc", "ssh")}


def read_spec(spec: Object, job_name: str) -> JobSpec:
    """The spec of a Job with that name."""
    reader = Reader()
    tasks = tuple(
        _task(reader, row, number) for number, row in enumerate(_rows(reader, spec, "tasks", "spec.tasks", _MAX_TASKS))
    )
    least = _number(spec, "minAvailable", "spec.minAvailable", Reason.INVALID_MIN_AVAILABLE)
    queue = reader.text(spec, "queue", "spec.queue") or "default"
    if not _QUEUE.fullmatch(queue):
        reader.note("spec.queue", queue, "the name of a queue")
    priority = reader.text(spec, "priorityClassName", "spec.priorityClassName")
    if priority and not _CLASS.fullmatch(priority):
        reader.note("spec.priorityClassName", priority, "the name of a priority class")
    estimate = _duration(reader, spec, "runningEstimate", "spec.runningEstimate")
    found = JobSpec(
        tasks=tasks,
        min_available=least or sum(floor_of(task) for task in tasks),
        min_success=_number(spec, "minSuccess", "spec.minSuccess", Reason.INVALID_FIELD, 1),
        policies=_policies(reader, spec, "spec.policies"),
        plugins=_plugins(spec.get("plugins")),
        volumes=_volumes(reader, spec, job_name),
        scheduler_name=reader.text(spec, "schedulerName", "spec.schedulerName"),
        queue=queue,
        priority_class=priority,
        max_retry=_number(spec, "maxRetry", "spec.maxRetry", Reason.INVALID_FIELD) or _DEFAULT_RETRIES,
        ttl=_number(spec, "ttlSecondsAfterFinished", "spec.ttlSecondsAfterFinished", Reason.INVALID_FIELD),
        expected_seconds=min(_MAX_EXPECTED, max(1, int(estimate))) if estimate else None,
        closeness=_closeness(reader, spec, "spec"),
    )
    if reader.problems:
        raise Refused(Reason.INVALID_FIELD, reader.problems[0])
    return found


def floor_of(task: TaskSpec) -> int:
    """The minimum of a task: what it says, else all of it."""
    return task.replicas if task.min_available is None else task.min_available


def _rows(reader: Reader, parent: Object, key: str, path: str, most: int) -> list[Object]:
    rows = reader.objects(parent, key, path)
    if len(rows) > most:
        raise Refused(Reason.INVALID_FIELD, f"{path}: more than {most}")
    return rows


def _number(parent: Object, key: str, path: str, reason: Reason, low: int = 0) -> int | None:
    reader = Reader()
    found = reader.integer(parent, key, path, low, _MAX_COUNT)
    if reader.problems:
        raise Refused(reason, reader.problems[0])
    return found


def _duration(reader: Reader, parent: Object, key: str, path: str) -> float:
    text = reader.text(parent, key, path)
    found = parse_duration(text) if text else 0.0
    if found is None:
        reader.note(path, text, "a duration like 1h30m")
    return found or 0.0


def _task(reader: Reader, row: Object, number: int) -> TaskSpec:
    path = f"spec.tasks[{number}]"
    name = reader.text(row, "name", f"{path}.name") or f"default{number}"
    template = reader.mapping(row, "template", f"{path}.template")
    partition = reader.mapping(row, "partitionPolicy", f"{path}.partitionPolicy")
    retries = reader.integer(row, "maxRetry", f"{path}.maxRetry", -1, _MAX_COUNT)
    return TaskSpec(
        name=name,
        replicas=_number(row, "replicas", f"{path}.replicas", Reason.INVALID_FIELD) or 0,
        template=template,
        min_available=_number(row, "minAvailable", f"{path}.minAvailable", Reason.INVALID_MIN_AVAILABLE),
        policies=_policies(reader, row, f"{path}.policies"),
        max_retry=retries or _DEFAULT_RETRIES,
        depends_on=_depends_on(reader, row, f"{path}.dependsOn"),
        partition_size=_number(partition, "partitionSize", f"{path}.partitionPolicy", Reason.INVALID_FIELD) or 0,
        closeness=_closeness(reader, partition, f"{path}.partitionPolicy"),
    )


def _closeness(reader: Reader, parent: Object, path: str) -> Closeness:
    required, preferred = volcano_levels(reader, parent, path)
    if required and not _LEVEL.fullmatch(required):
        reader.note(f"{path}.networkTopology.highestTierName", required, "a name that a label may have")
    return Closeness(required or "", preferred or "")


def _depends_on(reader: Reader, row: Object, path: str) -> DependsOn | None:
    if row.get("dependsOn") is None:
        return None
    found = reader.mapping(row, "dependsOn", path)
    iteration = reader.text(found, "iteration", f"{path}.iteration") or "all"
    if iteration not in ("any", "all"):
        raise Refused(Reason.INVALID_DEPENDENCY, f"{path}.iteration: {iteration[:40]!r} is not any or all")
    names = reader.texts(found, "name", f"{path}.name")
    return DependsOn(names, iteration == "any") if names else None


def _policies(reader: Reader, parent: Object, path: str) -> tuple[Policy, ...]:
    return tuple(_policy(reader, row, path) for row in _rows(reader, parent, "policies", path, _MAX_POLICIES))


def _policy(reader: Reader, row: Object, path: str) -> Policy:
    names = {*reader.texts(row, "events", f"{path}.events")}
    single = reader.text(row, "event", f"{path}.event")
    names |= {single} if single else set()
    events = frozenset(_known_event(name, path) for name in names)
    code = _number(row, "exitCode", f"{path}.exitCode", Reason.INVALID_POLICY, -_MAX_COUNT)
    action = _ACTIONS.get(reader.text(row, "action", f"{path}.action"))
    if action is None:
        raise Refused(Reason.INVALID_POLICY, f"{path}.action: {str(row.get('action'))[:40]!r} is no action")
    if bool(events) == (code is not None):
        raise Refused(Reason.INVALID_POLICY, f"{path}: one of event, events and exitCode must be given")
    if code == 0:
        raise Refused(Reason.INVALID_POLICY, f"{path}.exitCode: 0 is no failure")
    return Policy(action, events, code, _duration(reader, row, "timeout", f"{path}.timeout"))


def _known_event(name: str, path: str) -> Event:
    event = _EVENTS.get(name)
    if event is None or event in _INTERNAL:
        raise Refused(Reason.INVALID_POLICY, f"{path}.event: a policy cannot wait for {name[:40]!r}")
    return event


def _plugins(found: object) -> dict[str, tuple[str, ...]]:
    """Plugins in the order of their names, and those that they need."""
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise Refused(Reason.INVALID_PLUGIN, "spec.plugins: not an object")
    read = {name: _arguments(name, arguments) for name, arguments in found.items()}
    for name in tuple(read):
        for needed in _NEEDS.get(name, ()):
            read.setdefault(needed, ())
    return dict(sorted(read.items()))


def _arguments(name: str, found: Any) -> tuple[str, ...]:
    rows = [] if found is None else found
    if not isinstance(rows, list) or not all(isinstance(one, str) for one in rows):
        raise Refused(Reason.INVALID_PLUGIN, f"spec.plugins.{name[:40]}: not a list of texts")
    return tuple(rows)


def _volumes(reader: Reader, spec: Object, job_name: str) -> tuple[Volume, ...]:
    path = "spec.volumes"
    read = []
    for number, row in enumerate(_rows(reader, spec, "volumes", path, _MAX_TASKS)):
        name = reader.text(row, "volumeClaimName", f"{path}.volumeClaimName")
        claim = reader.mapping(row, "volumeClaim", f"{path}.volumeClaim") or None
        if (claim is None) == (not name):
            raise Refused(Reason.INVALID_VOLUME, f"{path}[{number}]: one of volumeClaim and volumeClaimName")
        mount = reader.text(row, "mountPath", f"{path}.mountPath")
        read.append(Volume(mount, name or f"{job_name}-pvc-{number}", claim))
    return tuple(read)
