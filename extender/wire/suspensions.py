"""What an object that makes pods says of its queueing by suspension: the pods that it would make, and its switch.

Takes decoded JSON of an object, the row of its kind and the roles that start first; gives a Suspension; must not raise
for a bad template: what is wrong stands in the problems of the pods, or of the reader. A planned pod is read out of its
template as a pod of the API server is, with what its kind's controller and the API server add to it; so all that is
known of pods (requests, cards, selectors, tolerations, slices) is known of it alike.

Whose switch counts: an object that is made by one that hands its own `suspend` on is stopped by that one, if the table
knows how (a JobSet by its TrainJob); made by any other that has such a field, it is not ours to switch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from extender.core.ids import NO_TASK, QUEUE_GATE, SCHEDULER_NAME, PodUid
from extender.core.makers import Suspension
from extender.core.model import Pod
from extender.core.switches import Switch
from extender.wire import marks, places
from extender.wire.fields import Object, Reader, api_group, seconds_of
from extender.wire.kinds import KINDS, Kind, Part, Writes, find
from extender.wire.pods import decode_pod

#: so many pods at most are planned for one object
MAX_PLANNED = 10_000
#: conditions of an object that makes no more pods
_ENDED = frozenset(("Complete", "Completed", "Succeeded", "Failed", "Finished"))
#: kinds that say themselves when what they make runs
_DECIDES = {(kind.group, kind.name) for kind in KINDS if kind.together is not None and kind.together.suspend} | {
    ("ray.io", "RayJob"),
    ("ray.io", "RayService"),
}
#: what the API server adds to each pod that does not say it
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def by_suspension(obj: Object) -> bool:
    """True when its writer wants it to be queued by suspension, however the mark is spelt out."""
    return _text_map(obj, "labels").get(marks.QUEUE_BY_LABEL) is not None


def suspension_of(reader: Reader, obj: Object, kind: Kind, parts: Sequence[Part]) -> Suspension | None:
    """How the object is queued by suspension; None where it is not. `parts` are the roles whose pods start first."""
    if not by_suspension(obj) or _is_ended(obj):
        return None
    switch = _switch_of(obj, kind)
    if switch is None:
        return None
    value = _text_map(obj, "labels")[marks.QUEUE_BY_LABEL]
    if value != marks.BY_SUSPENSION:
        reader.note(f"metadata.labels[{marks.QUEUE_BY_LABEL}]", value, f"{marks.BY_SUSPENSION!r}")
    assert kind.together is not None
    if find(obj, kind.together.suspend) is not True:
        return Suspension(switch, waits=False)
    if _is_admitted(obj):  # and suspended after that by somebody else, who has taken it out of its queue
        return None
    found = list(_planned(reader, obj, kind, parts, switch))
    return Suspension(switch, True, tuple(pod for pod, _ in found), tuple(name for _, name in found))


def written(writes: Writes, words: Mapping[str, str]) -> dict[str, str]:
    """What a controller writes on a pod of its; words that are empty are left out."""
    made = {key: value.format_map(words) for key, value in writes}
    return {key: value for key, value in made.items() if value}


def words_of(part: Part, index: int, order: int, copy: int, size: int) -> dict[str, str]:
    """What `Writes` name of a pod: its number among those of its role, of its whole, and of what it is made by."""
    numbers = {"index": index, "order": order, "copy": copy, "size": size}
    numbers |= {"outer": index // part.inner, "inner": index % part.inner}
    words = {key: str(number) for key, number in numbers.items()}
    return words | {"role": part.role, "partition": str(index // part.partition) if part.partition else ""}


# --- whose switch ------------------------------------------------------------------------------------


def _switch_of(obj: Object, kind: Kind) -> Switch | None:
    together = kind.together
    if together is None or not together.suspend:
        return None
    meta = obj["metadata"]
    namespace = meta.get("namespace") or "default"
    owner, generation = _controller(meta), meta.get("generation")
    number = generation if type(generation) is int else 0
    stop = together.stopped_by
    if owner is not None and stop is not None and owner[:2] == (stop.group, stop.name):
        return Switch(stop.group, stop.versions, stop.plural, stop.suspend, namespace, *owner[2:], number, own=False)
    if owner is not None and owner[:2] in _DECIDES:
        return None
    names = (namespace, meta["name"], meta["uid"])
    return Switch(kind.group, together.versions, together.plural, together.suspend, *names, number)


def _controller(meta: Object) -> tuple[str, str, str, str] | None:
    """API group, kind, name and uid of the object's controller."""
    owners = meta.get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict) and owner.get("controller") is True:
            texts = tuple(str(owner.get(key) or "") for key in ("apiVersion", "kind", "name", "uid"))
            return api_group(texts[0]), texts[1], texts[2], texts[3]
    return None


def _is_ended(obj: Object) -> bool:
    conditions = find(obj, "status.conditions")
    ended = any(
        isinstance(one, dict) and one.get("type") in _ENDED and one.get("status") == "True"
        for one in (conditions if isinstance(conditions, list) else ())
    )
    return ended or find(obj, "metadata.deletionTimestamp") is not None


def _is_admitted(obj: Object) -> bool:
    """True when its turn has come. A mark that is older than the object is copied from another one."""
    at = seconds_of(_text_map(obj, "annotations").get(marks.ADMITTED_ANNOTATION, ""))
    created = find(obj, "metadata.creationTimestamp")
    return at is not None and at >= ((seconds_of(created) if isinstance(created, str) else None) or 0.0)


# --- planned pods ------------------------------------------------------------------------------------


def _planned(
    reader: Reader, obj: Object, kind: Kind, parts: Sequence[Part], switch: Switch
) -> Iterator[tuple[Pod, str]]:
    """The pods with the names of their priority classes; those of other schedulers are not ours to plan."""
    size = sum(part.number for part in parts)
    if size > MAX_PLANNED:
        reader.say("metadata.labels", f"{size} pods, and at most {MAX_PLANNED} are queued by suspension")
    if reader.problems and (size > MAX_PLANNED or not size):
        # somebody must wait, so that it can be told why
        yield _pod(obj, kind, Part(NO_TASK, 1, {"spec": {"schedulerName": SCHEDULER_NAME}}), 0, 1, switch), ""
        return
    for part in parts:
        first = _pod(obj, kind, part, 0, size, switch)
        if first.scheduler != SCHEDULER_NAME:
            continue
        if not first.group.lone:
            reader.say("template", "names a group by a mark, and what is queued by suspension is a group itself")
        name = find(part.template, "spec.priorityClassName")
        for index in range(_left(obj, kind, part)):
            yield _like(first, obj, kind, part, index, size, switch), name if isinstance(name, str) else ""


def _left(obj: Object, kind: Kind, part: Part) -> int:
    """How many pods of the role there will be at the same time: of a Job that goes on, those that are not done."""
    assert kind.together is not None
    done = find(obj, kind.together.done) if kind.together.done else None
    most = find(obj, f"{kind.roles[0].at}.{kind.roles[0].most}")
    if type(done) is int and type(most) is int and done > 0:
        return max(0, min(part.number, most - done))
    return part.number


def _like(first: Pod, obj: Object, kind: Kind, part: Part, index: int, size: int, switch: Switch) -> Pod:
    if index == 0:
        return first
    if first.parts:  # which slice it is of is said by its number
        return _pod(obj, kind, part, index, size, switch)
    labels, notes = _marks(obj, kind, part, index, size)
    name, uid = _names(obj, part, index)
    return replace(first, name=name, uid=uid, index=places.index_of(labels, notes, name))


def _pod(obj: Object, kind: Kind, part: Part, index: int, size: int, switch: Switch) -> Pod:
    meta = obj["metadata"]
    labels, notes = _marks(obj, kind, part, index, size)
    name, uid = _names(obj, part, index)
    owner = {"apiVersion": f"{kind.group}/v1", "kind": kind.name, "name": meta["name"], "uid": meta["uid"]}
    spec = part.template.get("spec")
    made = {
        "metadata": {
            **{"name": name, "uid": uid, "namespace": switch.namespace, "labels": labels, "annotations": notes},
            "creationTimestamp": meta.get("creationTimestamp"),
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": _spec(spec if isinstance(spec, dict) else {}),
    }
    return replace(decode_pod(made), planned=switch)


def _names(obj: Object, part: Part, index: int) -> tuple[str, PodUid]:
    meta = obj["metadata"]
    own = f"{part.role or 'pod'}-{index}"
    return f"{meta['name']}-{own}", PodUid(f"{meta['uid']}/{own}")


def _marks(obj: Object, kind: Kind, part: Part, index: int, size: int) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations: those of the template, and what the controller writes."""
    meta = obj["metadata"]
    words = words_of(part, index, index, 0, size)
    words |= {"name": meta["name"], "uid": meta["uid"], "namespace": meta.get("namespace") or "default"}
    labels = _text_map(part.template, "labels") | written(kind.labels, words)
    if find(obj, "spec.completionMode") == "Indexed":
        labels["batch.kubernetes.io/job-completion-index"] = str(index)
    return labels, _text_map(part.template, "annotations") | written(kind.notes, words)


def _spec(spec: Object) -> Object:
    """The spec as the API server holds it: behind our gate, on no node, with requests where only limits are stated."""
    made = {key: value for key, value in spec.items() if key not in ("nodeName", "priority")}
    made["schedulingGates"] = [{"name": QUEUE_GATE}]
    for key in ("containers", "initContainers"):
        found = spec.get(key)
        if isinstance(found, list):
            made[key] = [_requested(one) if isinstance(one, dict) else one for one in found]
    if isinstance(spec.get("resources"), dict):
        made |= _requested(spec)
    tolerations = spec.get("tolerations")
    if tolerations is None or isinstance(tolerations, list):
        made["tolerations"] = [*(tolerations or ()), *_more_tolerations(tolerations or ())]
    return made


def _requested(container: Object) -> Object:
    found = container.get("resources")
    if not isinstance(found, dict):
        return container
    limits, requests = (found.get(key) or {} for key in ("limits", "requests"))
    if not isinstance(limits, dict) or not isinstance(requests, dict):
        return container  # it is said of the pod what is wrong
    amounts = {
        name: str(value) if isinstance(value, int | float) else value for name, value in (limits | requests).items()
    }
    return {**container, "resources": {**found, "requests": amounts}}


def _more_tolerations(there: Sequence[object]) -> Iterator[Object]:
    """As the admission plugin DefaultTolerationSeconds, which is on by default."""
    keys = {str(one.get("key") or "") for one in there if isinstance(one, dict)}
    for key in _TOLERATED:
        if keys.isdisjoint((key, "")):
            yield {"key": key, "operator": "Exists", "effect": "NoExecute"}


def _text_map(obj: Object, key: str) -> dict[str, str]:
    """Labels or annotations, as far as they are texts."""
    found = find(obj, f"metadata.{key}")
    values = found.items() if isinstance(found, dict) else ()
    return {str(name): value for name, value in values if isinstance(value, str)}
