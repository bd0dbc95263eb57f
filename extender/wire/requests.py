"""What a pod asks for, computed as kube-scheduler computes it (component-helpers/resource, 1.37).

Takes a decoded pod, gives amounts in base units; must not default requests from limits: the API server
has done that. Everything is summed in nano units and rounded up once, at the end.

The rules: containers add up; an init container needs its own request beside the sidecars (restartPolicy
Always) started before it; sidecars also add to the containers. A resize in place makes the request the
largest of what is asked, allotted and in force, or of the latter two when the resize is infeasible.
Requests of the pod itself replace the sum for cpu, memory and huge pages. Overhead comes on top.
"""

from __future__ import annotations

from collections.abc import Callable

from extender.core.resources import MAX_ON_NODE, MAX_PODS_ON_NODE, PODS, Amounts, amounts
from extender.wire import quantity
from extender.wire.fields import Object, Reader

_Nanos = dict[str, int]
#: a container's request under one view of it: as asked, as allotted, as in force
_View = Callable[[Reader, Object, Object | None, bool], Object]

_PLAIN = frozenset({"cpu", "memory", "ephemeral-storage"})
_POD_LEVEL = frozenset({"cpu", "memory"})
_HUGE_PAGES = "hugepages-"


def counted(name: str) -> bool:
    """True for the resources that kube-scheduler counts; `pods` is counted by the piece, not by requests."""
    if name in _PLAIN:
        return True
    if "/" in name:
        return not name.startswith("requests.")
    return name.startswith((_HUGE_PAGES, "attachable-volumes-"))


def pod_request(reader: Reader, spec: Object, status: Object) -> Amounts:
    """What the pod asks for, with one piece of `pods`; a bad amount is noted and counts as nothing."""
    total = _containers(reader, spec, status)
    _apply_pod_level(reader, spec, status, total)
    if spec.get("overhead") is not None:
        _add(total, _read(reader, reader.mapping(spec, "overhead", "spec.overhead"), "spec.overhead"))
    result = {PODS: 1}
    for name, amount in total.items():
        try:
            result[name] = quantity.units(name, amount, MAX_ON_NODE)
        except quantity.QuantityError as error:
            reader.say(f"request of {name}", str(error))
    return amounts(result)


def read_amounts(reader: Reader, values: Object, path: str) -> dict[str, int]:
    """Base units of a node's resource list, where `pods` counts too; a bad amount is noted and 0.

    A node may well have more than we count: the surplus is left unused.
    """
    result = {}
    for name, text in values.items():
        if name == PODS or counted(name):
            try:
                most = MAX_PODS_ON_NODE if name == PODS else MAX_ON_NODE
                result[name] = min(quantity.units(name, quantity.nanos(text)), most)
            except quantity.QuantityError as error:
                reader.say(f"{path}[{name}]", str(error))
                result[name] = 0
    return result


def _read(reader: Reader, values: Object, path: str) -> _Nanos:
    result = {}
    for name, text in values.items():
        if counted(name):
            try:
                result[name] = quantity.nanos(text)
            except quantity.QuantityError as error:
                reader.say(f"{path}[{name}]", str(error))
    return result


def _add(total: _Nanos, more: _Nanos) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: _Nanos, other: _Nanos) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def _infeasible(reader: Reader, status: Object) -> bool:
    for condition in reader.objects(status, "conditions", "status.conditions"):
        if condition.get("type") == "PodResizePending":
            return condition.get("reason") == "Infeasible"
    return False


def _containers(reader: Reader, spec: Object, status: Object) -> _Nanos:
    infeasible = _infeasible(reader, status)
    statuses = _resource_statuses(reader, status)
    if statuses and not infeasible:
        statuses = _differing(reader, spec, statuses)
    pod_allotted = status.get("allocatedResources")
    if not statuses and not infeasible and pod_allotted is None:
        return _aggregate(reader, spec, statuses, False, _asked)
    total = {} if infeasible else _aggregate(reader, spec, statuses, infeasible, _asked)
    resources = reader.mapping(status, "resources", "status.resources")
    if pod_allotted is not None and resources.get("requests") is not None:
        for parent, key, path in (
            (status, "allocatedResources", "status.allocatedResources"),
            (resources, "requests", "status.resources.requests"),
        ):
            _raise_to(total, _read(reader, reader.mapping(parent, key, path), path))
    else:
        _raise_to(total, _aggregate(reader, spec, statuses, infeasible, _allotted))
        _raise_to(total, _aggregate(reader, spec, statuses, infeasible, _in_force))
    return total


def _resource_statuses(reader: Reader, status: Object) -> dict[str, Object]:
    """By container name the statuses that say something of resources; the first of a name counts."""
    found: dict[str, Object] = {}
    for key in ("containerStatuses", "initContainerStatuses"):
        for one in reader.objects(status, key, f"status.{key}"):
            name = one.get("name")
            if isinstance(name, str):
                found.setdefault(name, one)
    return {
        name: one
        for name, one in found.items()
        if one.get("resources") is not None or one.get("allocatedResources") is not None
    }


def _differing(reader: Reader, spec: Object, statuses: dict[str, Object]) -> dict[str, Object]:
    """The statuses that say something else than is asked: of most running pods, none."""
    differing: dict[str, Object] = {}
    for key in ("containers", "initContainers"):
        for container in reader.objects(spec, key, f"spec.{key}"):
            name = container.get("name")
            status = statuses.get(name) if isinstance(name, str) else None
            if status is not None and _differs(status, _asked(reader, container, None, False)):
                differing[str(name)] = status
    return differing


def _differs(status: Object, asked: Object) -> bool:
    if status.get("allocatedResources") not in (None, asked):
        return True
    resources = status.get("resources")
    return resources is not None and (resources.__class__ is not dict or resources.get("requests") not in (None, asked))


def _aggregate(reader: Reader, spec: Object, statuses: dict[str, Object], infeasible: bool, view: _View) -> _Nanos:
    total: _Nanos = {}
    for container in reader.objects(spec, "containers", "spec.containers"):
        _add(total, _of_container(reader, container, statuses, infeasible, view))
    if spec.get("initContainers") is None:
        return total
    sidecars: _Nanos = {}
    peak: _Nanos = {}
    for container in reader.objects(spec, "initContainers", "spec.initContainers"):
        own = _of_container(reader, container, statuses, infeasible, view)
        if container.get("restartPolicy") == "Always":
            _add(total, own)
            _add(sidecars, own)
        else:
            _add(own, sidecars)
            _raise_to(peak, own)
    _raise_to(total, peak)
    return total


def _of_container(
    reader: Reader, container: Object, statuses: dict[str, Object], infeasible: bool, view: _View
) -> _Nanos:
    name = container.get("name")
    status = statuses.get(name) if statuses and isinstance(name, str) else None
    return _read(reader, view(reader, container, status, infeasible), f"requests of container {name}")


def _asked(reader: Reader, container: Object, status: Object | None, infeasible: bool) -> Object:
    resources = reader.mapping(container, "resources", "container.resources")
    return reader.mapping(resources, "requests", "container.resources.requests")


def _allotted(reader: Reader, container: Object, status: Object | None, infeasible: bool) -> Object:
    if status is not None and status.get("allocatedResources") is not None:
        return reader.mapping(status, "allocatedResources", "containerStatus.allocatedResources")
    return {} if infeasible else _asked(reader, container, status, infeasible)


def _in_force(reader: Reader, container: Object, status: Object | None, infeasible: bool) -> Object:
    if status is not None:
        resources = reader.mapping(status, "resources", "containerStatus.resources")
        if resources.get("requests") is not None:
            return reader.mapping(resources, "requests", "containerStatus.resources.requests")
    return _allotted(reader, container, status, infeasible)


def _apply_pod_level(reader: Reader, spec: Object, status: Object, total: _Nanos) -> None:
    if spec.get("resources") is None:
        return
    path = "spec.resources.requests"
    asked = reader.mapping(reader.mapping(spec, "resources", "spec.resources"), "requests", path)
    own = _pod_level(_read(reader, asked, path))
    if not own:
        return
    if status.get("resources") is not None:
        own = {} if _infeasible(reader, status) else own
        resources = reader.mapping(status, "resources", "status.resources")
        for parent, key in ((resources, "requests"), (status, "allocatedResources")):
            _raise_to(own, _pod_level(_read(reader, reader.mapping(parent, key, f"status {key}"), key)))
    total.update(own)


def _pod_level(values: _Nanos) -> _Nanos:
    return {k: v for k, v in values.items() if k in _POD_LEVEL or k.startswith(_HUGE_PAGES)}
