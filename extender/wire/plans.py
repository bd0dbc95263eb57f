"""A question "what if", and its answer, as objects of the API group `visibility.muster.dev`.

Takes decoded JSON of a group that is to be supposed and its pods, gives model values; takes an outlook, gives JSON
data. Must not decide anything. Nothing of it is ever stored: a Plan is answered when it is created, as reviews are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from extender.core import explain
from extender.core.ids import GroupKey, PodUid, Source
from extender.core.makers import Maker, group_of, joined
from extender.core.model import Group, Pod
from extender.wire import answers, objects
from extender.wire.fields import DecodeError, Object, Reader
from extender.wire.kinds import kind_of
from extender.wire.makers import decode_maker

if TYPE_CHECKING:  # as in wire.answers
    from extender.core.losses import Loss
    from extender.core.whatif import Outlook

#: more pods in one question would keep filter calls waiting
MAX_PODS = 5_000
_SOURCES = {
    "scheduling.k8s.io": Source.NATIVE,
    "scheduling.x-k8s.io": Source.SCHEDULER_PLUGINS,
    "scheduling.volcano.sh": Source.VOLCANO,
    "muster.dev": Source.MUSTER,
}


def source_of(content: Mapping[str, Any]) -> Source | None:
    """Whose PodGroup an object is; None when it is none."""
    version = content.get("apiVersion")
    if content.get("kind") != "PodGroup" or not isinstance(version, str):
        return None
    return _SOURCES.get(version.partition("/")[0])


def decode_plan(asked: object, namespace: str, now: float) -> tuple[Group | None, list[Pod]]:
    """The group's object, if one is to be supposed, and its pods; DecodeError names what cannot be used."""
    reader = Reader()
    spec = reader.mapping(asked, "spec", "spec") if isinstance(asked, dict) else {}
    pods: list[Pod] = []
    for number, part in enumerate(reader.objects(spec, "pods", "spec.pods")):
        count = reader.integer(part, "count", f"spec.pods[{number}].count", 1, MAX_PODS)
        content = reader.mapping(part, "pod", f"spec.pods[{number}].pod")
        _refuse(reader)
        count = 1 if count is None else count
        if len(pods) + count > MAX_PODS:
            raise DecodeError(f"spec.pods: more than {MAX_PODS} pods")
        pods += _pods(content, count, len(pods), namespace, now)
    content = reader.mapping(spec, "group", "spec.group")
    _refuse(reader)
    maker = maker_of(content, namespace)
    if maker is not None:
        pods = [replace(pod, group=supposed_group(maker, pod) or pod.group) for pod in pods]
    keys = {pod.group for pod in pods}
    if len(keys) != 1:
        raise DecodeError("spec.pods: not pods of one group; pods that are alone are asked about one by one")
    key = keys.pop()
    return _group(content, key, namespace) if maker is None else group_of(maker, key), pods


def supposed_group(maker: Maker, pod: Pod) -> GroupKey | None:
    """The group in which a pod of the maker would be, the first of its wholes; None when alone, or in one by a mark."""
    return joined(maker, pod, "0") if pod.group.lone else None


def maker_of(content: Object, namespace: str) -> Maker | None:
    """What is to make the pods, where that stands in the place of the group's object."""
    kind = kind_of(content)
    if kind is None or kind.together is None:
        return None
    meta = content.get("metadata")
    named = {"name": "supposed", **(meta if isinstance(meta, dict) else {}), "uid": "supposed", "namespace": namespace}
    return decode_maker(kind, {**content, "metadata": named})


def _refuse(reader: Reader) -> None:
    if reader.problems:
        raise DecodeError(reader.problems[0])


def _pods(content: Object, count: int, first: int, namespace: str, now: float) -> list[Pod]:
    """So many equal pods, as they would be created; their uids are nobody's."""
    meta = content.get("metadata")
    named = {"name": "pod", **(meta if isinstance(meta, dict) else {}), "uid": "supposed-0", "namespace": namespace}
    pod = objects.decode_pod({**content, "metadata": named, "status": {}})
    if not pod.ours:
        raise DecodeError(f"spec.schedulerName: {pod.scheduler} schedules it, and Muster does not")
    if pod.node is not None:
        raise DecodeError("spec.nodeName: names a node, so that nobody schedules it")
    made = []
    for number in range(first, first + count):
        uid = PodUid(f"supposed-{number}")
        key = GroupKey(Source.POD, namespace, uid) if pod.group.lone else pod.group
        made.append(
            replace(pod, uid=uid, name=f"{pod.name}-{number}" if count > 1 else pod.name, group=key, created=now)
        )
    return made


def _group(content: Object, key: GroupKey, namespace: str) -> Group | None:
    if not content:
        return None
    source, meta = source_of(content), content.get("metadata")
    if source is None:
        raise DecodeError("spec.group: no PodGroup of a kind that is known")
    named = {**(meta if isinstance(meta, dict) else {}), "uid": "supposed", "namespace": namespace}
    group = objects.decode_group(source, {**content, "metadata": named, "status": {}})
    if group.key != key:
        raise DecodeError(f"spec.group: it is {group.key}, and the pods are members of {key}")
    return group


def encode_outlook(found: Outlook, name: str) -> dict[str, Any]:
    """The answer; `name` is the group's, or the pod's."""
    status: dict[str, Any] = {
        "name": answers.name_of(found.key.source, name),
        "starts": found.starts,
        "queue": found.queue,
        **answers.why(found.refusal),
        "startsWhen": answers.changes(found.mends),
        "nodes": answers.places(found.nodes),
    }
    if found.position is not None:
        status["position"] = found.position
    if found.losses is not None:
        status["evictions"] = [_loss(loss) for loss in found.losses]
    return {"apiVersion": answers.API_VERSION, "kind": answers.PLANS.kind, "metadata": {}, "status": status}


def _loss(loss: Loss) -> dict[str, Any]:
    name = loss.pods[0].name if loss.group.lone else loss.group.name
    return {
        "name": answers.name_of(loss.group.source, name),
        "namespace": loss.group.namespace,
        "pods": [pod.name for pod in loss.pods],
        "rule": loss.ground.value,
        "message": explain.why_evicted(loss.ground, loss.detail),
    }
