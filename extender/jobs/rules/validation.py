"""What Volcano's webhook refuses of a Job, beyond fields that cannot be read.

Takes a spec that was read, raises Refused for the first thing that is wrong; must not change anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.jobs.rules.model import Event, JobSpec, Policy, TaskSpec
from extender.jobs.rules.plugins import KNOWN, check
from extender.jobs.rules.reading_spec import LABEL, MAX_PODS
from extender.jobs.rules.refusals import Reason, Refused

_MAX_NAME = 63


def validate(spec: JobSpec, job_name: str) -> None:
    """Refuse what cannot be run."""
    _check_name(spec, job_name)
    if not spec.tasks:
        raise Refused(Reason.NO_TASKS, "spec.tasks: no task")
    _check_tasks(spec.tasks, job_name)
    total = sum(task.replicas for task in spec.tasks)
    if total > MAX_PODS:
        raise Refused(Reason.TOO_MANY_PODS, f"{total} replicas are more than {MAX_PODS}")
    if spec.min_available > total:
        text = f"spec.minAvailable: {spec.min_available} is more than the {total} replicas of all tasks"
        raise Refused(Reason.INVALID_MIN_AVAILABLE, text)
    _check_policies(spec.policies, "spec.policies")
    _check_order(spec.tasks)
    _check_plugins(spec)
    _check_volumes(spec)


def _check_name(spec: JobSpec, name: str) -> None:
    """It is the value of a label, and with `svc` part of the names of hosts, where a dot would part them."""
    if not LABEL.fullmatch(name if "svc" in spec.plugins else name.replace(".", "-")):
        raise Refused(Reason.INVALID_NAME, f"metadata.name: {name[:80]!r} cannot be in the names of its pods or hosts")


def _check_tasks(tasks: Iterable[TaskSpec], job_name: str) -> None:
    names: set[str] = set()
    for task in tasks:
        if not LABEL.fullmatch(task.name):
            raise Refused(Reason.INVALID_TASK_NAME, f"task {task.name[:80]!r}: not a name of a-z, 0-9 and -")
        if task.name in names:
            raise Refused(Reason.DUPLICATE_TASK_NAME, f"two tasks have the name {task.name}")
        names.add(task.name)
        last = f"{job_name}-{task.name}-{max(0, task.replicas - 1)}"
        if len(last) > _MAX_NAME:
            raise Refused(Reason.INVALID_NAME, f"the pod {last[:80]} would have a name of more than {_MAX_NAME}")
        if task.min_available is not None and task.min_available > task.replicas:
            text = f"task {task.name}: minAvailable {task.min_available} is more than its {task.replicas} replicas"
            raise Refused(Reason.INVALID_MIN_AVAILABLE, text)
        _check_policies(task.policies, f"task {task.name}")
        _check_template(task)


def _check_template(task: TaskSpec) -> None:
    spec = task.template.get("spec")
    meta = task.template.get("metadata")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    if not isinstance(containers, list) or not containers:
        raise Refused(Reason.INVALID_TEMPLATE, f"task {task.name}: its template has no containers")
    assert isinstance(spec, dict)
    inits = spec.get("initContainers") or []
    if not isinstance(inits, list) or not all(isinstance(one, dict) for one in [*containers, *inits]):
        raise Refused(Reason.INVALID_TEMPLATE, f"task {task.name}: its template has containers that are no objects")
    if meta is not None and not isinstance(meta, dict):
        raise Refused(Reason.INVALID_TEMPLATE, f"task {task.name}: its template's metadata is no object")
    for name in ("env", "ports", "volumeMounts"):
        if not all(isinstance(one.get(name) or [], list) for one in [*containers, *inits]):
            raise Refused(Reason.INVALID_TEMPLATE, f"task {task.name}: {name} of a container is no list")
    if not isinstance(spec.get("volumes") or [], list):
        raise Refused(Reason.INVALID_TEMPLATE, f"task {task.name}: volumes are no list")


def _check_policies(policies: Iterable[Policy], path: str) -> None:
    events: set[Event] = set()
    codes: set[int] = set()
    for policy in policies:
        if again := events & policy.events:
            raise Refused(Reason.DUPLICATE_POLICY, f"{path}: two policies wait for {min(again)}")
        events |= policy.events
        if policy.exit_code is not None:
            if policy.exit_code in codes:
                raise Refused(Reason.DUPLICATE_POLICY, f"{path}: two policies wait for exit code {policy.exit_code}")
            codes.add(policy.exit_code)
    if Event.ANY in events and len(events) > 1:
        raise Refused(Reason.DUPLICATE_POLICY, f"{path}: beside * no other event makes sense")


def _check_order(tasks: tuple[TaskSpec, ...]) -> None:
    """Dependencies name other tasks of the job and go round in no circle."""
    waits = {task.name: set(task.depends_on.tasks) if task.depends_on else set() for task in tasks}
    for name, needed in waits.items():
        if unknown := needed - waits.keys():
            text = f"task {name} depends on {min(unknown)[:63]}, which is no task of the job"
            raise Refused(Reason.INVALID_DEPENDENCY, text)
    while free := {name for name, needed in waits.items() if not needed}:
        waits = {name: needed - free for name, needed in waits.items() if name not in free}
    if waits:
        raise Refused(Reason.INVALID_DEPENDENCY, f"tasks depend on each other in a circle: {', '.join(sorted(waits))}")


def _check_plugins(spec: JobSpec) -> None:
    for name in spec.plugins:
        if name not in KNOWN:
            raise Refused(Reason.INVALID_PLUGIN, f"spec.plugins: {name[:40]!r} is not known")
        if wrong := check(name, spec):
            raise Refused(Reason.INVALID_PLUGIN, f"spec.plugins.{name}: {wrong}")


def _check_volumes(spec: JobSpec) -> None:
    mounts: set[str] = set()
    for volume in spec.volumes:
        if not volume.mount_path or ":" in volume.mount_path:
            raise Refused(Reason.INVALID_VOLUME, f"spec.volumes: mountPath {volume.mount_path[:80]!r}")
        if volume.mount_path in mounts:
            raise Refused(Reason.INVALID_VOLUME, f"spec.volumes: two are mounted at {volume.mount_path[:80]}")
        mounts.add(volume.mount_path)
