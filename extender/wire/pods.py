"""A pod from its JSON object.

Takes decoded JSON of core/v1 Pod, gives a Pod; must not raise for a pod that has a name and a uid: what
is wrong with it goes into `problems`, with safe values in its place (a bad amount counts as nothing: no
node admits such a pod).
"""

from __future__ import annotations

from extender.core.ids import NodeName, PodUid
from extender.core.model import Owner, Pod
from extender.core.resources import GPU, MIG
from extender.wire import constraints, departed, hami, marks, places, requests
from extender.wire.fields import Object, Reader, api_group, metadata

_MAX_PRIORITY = 2**31 - 1
#: the reason of a pod that its kubelet could not give its devices
NOT_ADMITTED = "UnexpectedAdmissionError"
_DEFAULT_SCHEDULER = "default-scheduler"


def decode_pod(obj: object) -> Pod:
    """The pod that the object describes; DecodeError when it has no name or uid."""
    meta = metadata(obj, "name", "uid")
    assert isinstance(obj, dict)
    reader = Reader()
    spec = reader.mapping(obj, "spec", "spec")
    status = reader.mapping(obj, "status", "status")
    labels = reader.mapping(meta, "labels", "metadata.labels")
    notes = reader.mapping(meta, "annotations", "metadata.annotations")
    namespace = reader.text(meta, "namespace", "metadata.namespace") or "default"
    phase = reader.text(status, "phase", "status.phase") or "Pending"
    bound_at, rejection, disrupted = _conditions(reader, status)
    task = marks.task_of(reader, labels, notes)
    index = places.index_of(labels, notes, meta["name"])
    parts, prefers = places.parts_of(reader, labels, notes, task, index)
    request = requests.pod_request(reader, spec, status)
    shape = constraints.shape_of(reader, spec, request)
    group = marks.group_of(reader, namespace, meta["uid"], spec, labels, notes)
    if any(name.startswith((GPU, MIG)) for name, _ in request):
        shape = constraints.with_gpus(shape, hami.card_request(reader, spec, notes))
    return Pod(
        uid=PodUid(meta["uid"]),
        namespace=namespace,
        name=meta["name"],
        shape=shape,
        group=group,
        scheduler=reader.text(spec, "schedulerName", "spec.schedulerName") or _DEFAULT_SCHEDULER,
        node=NodeName(reader.text(spec, "nodeName", "spec.nodeName")) or None,
        nominated=NodeName(reader.text(status, "nominatedNodeName", "status.nominatedNodeName")) or None,
        phase=phase,
        terminating=meta.get("deletionTimestamp") is not None,
        gates=_gates(reader, spec),
        priority=reader.integer(spec, "priority", "spec.priority", -_MAX_PRIORITY - 1, _MAX_PRIORITY) or 0,
        task=task,
        queue=marks.pod_queue_of(reader, labels, notes),
        declared=marks.declared_of(reader, group.source, notes),
        index=index,
        parts=parts,
        prefers=prefers,
        owner=_owner(reader, meta),
        labels=_sorted(labels),
        checkpoint=marks.checkpoint_of(notes),
        created=reader.time(meta, "creationTimestamp", "metadata.creationTimestamp") or 0.0,
        bound_at=bound_at,
        rejection=rejection,
        not_admitted=phase == "Failed" and status.get("reason") == NOT_ADMITTED,
        shares=hami.decode_shares(notes, shape.cards),
        evicted=departed.of_pod(notes, disrupted),
        problems=tuple(reader.problems),
    )


def _sorted(labels: Object) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, value) for key, value in labels.items() if value.__class__ is str))


def _conditions(reader: Reader, status: Object) -> tuple[float | None, str, Object | None]:
    """When the pod was bound, what the scheduler said when it was not, and the condition of one that is disrupted."""
    scheduled: tuple[float | None, str] = (None, "")
    disrupted: Object | None = None
    for condition in reader.objects(status, "conditions", "status.conditions"):
        kind = condition.get("type")
        if kind == "PodScheduled":
            scheduled = _scheduled(reader, condition)
        elif kind == departed.DISRUPTED:
            disrupted = condition
    return *scheduled, disrupted


def _scheduled(reader: Reader, condition: Object) -> tuple[float | None, str]:
    path = "status.conditions[PodScheduled]"
    if condition.get("status") == "True":
        return reader.time(condition, "lastTransitionTime", path), ""
    if condition.get("status") == "False" and condition.get("reason") == "Unschedulable":
        return None, reader.text(condition, "message", path)
    return None, ""


def _gates(reader: Reader, spec: Object) -> tuple[str, ...]:
    if not spec.get("schedulingGates"):
        return ()
    gates = reader.objects(spec, "schedulingGates", "spec.schedulingGates")
    return tuple(reader.text(gate, "name", "spec.schedulingGates.name") for gate in gates)


def _owner(reader: Reader, meta: Object) -> Owner | None:
    if not meta.get("ownerReferences"):
        return None
    path = "metadata.ownerReferences"
    for owner in reader.objects(meta, "ownerReferences", path):
        if owner.get("controller") is True:
            return Owner(
                reader.text(owner, "kind", path),
                reader.text(owner, "name", path),
                reader.text(owner, "uid", path),
                api_group(reader.text(owner, "apiVersion", path)),
            )
    return None
