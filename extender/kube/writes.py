"""The small writes to pods and their surroundings; `bind` has the one that must be proved.

Takes: an Api and plain values. Gives: one write each, and whether it found its object. Must not: retry, or
touch an object of another uid: names are used again, and a decision about a pod is about that pod.

A write gives False if its object is gone or another one has its name. All other failures are
exceptions.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from extender.core import ids
from extender.core.switches import Switch
from extender.kube import client, errors, resources
from extender.wire import kinds, marks, small
from extender.wire.answers import micro_time, time_text

NOTE_LIMIT = 1024
#: who our Events say they come from
REPORTER = "muster"
#: the API server itself tries for 10 s to evict a pending pod of another uid before it says Conflict
EVICT_SECONDS = 15.0
_PODS = resources.Served(resources.PODS, "v1")


async def read_pod(api: client.Api, namespace: str, name: str) -> dict[str, Any] | None:
    """The pod as the API server has it now; None if there is none."""
    return await _read_or_none(api, _PODS.path(namespace, name))


async def read_group(api: client.Api, served: resources.Served, namespace: str, name: str) -> dict[str, Any] | None:
    """The group object as the API server has it now; None if there is none."""
    return await _read_or_none(api, served.path(namespace, name))


async def ungate(api: client.Api, namespace: str, name: str, uid: str) -> bool:
    """Remove our scheduling gate and no other; a pod that no longer has it stays as it is."""
    gates = [{"$patch": "delete", "name": ids.QUEUE_GATE}]
    return await _patch_pod(api, namespace, name, uid, {"spec": {"schedulingGates": gates}})


async def nominate(api: client.Api, namespace: str, name: str, uid: str, node: str | None) -> bool:
    """Set the pod's nominated node, or clear it with None: it is a reservation inside the scheduler."""
    return await _patch_pod(api, namespace, name, uid, {"status": {"nominatedNodeName": node}}, subresource="/status")


async def wake(api: client.Api, namespace: str, name: str, uid: str, token: str) -> bool:
    """Have the scheduler look at a rejected pod again: any change does that, so `token` must differ."""
    return await post_annotations(api, namespace, name, uid, {marks.WAKE_ANNOTATION: token})


async def post_annotations(
    api: client.Api, namespace: str, name: str, uid: str, annotations: Mapping[str, str | None]
) -> bool:
    """Set annotations of a pod; None removes one."""
    return await _patch_pod(api, namespace, name, uid, {"metadata": {"annotations": dict(annotations)}})


async def annotate_by_status(
    api: client.Api, namespace: str, name: str, uid: str, annotations: Mapping[str, str | None]
) -> bool:
    """As post_annotations, for those who may patch no more than the pod's status."""
    return await _patch_pod(
        api, namespace, name, uid, {"metadata": {"annotations": dict(annotations)}}, subresource="/status"
    )


async def set_pod_condition(api: client.Api, namespace: str, name: str, uid: str, condition: Mapping[str, str]) -> bool:
    """Set one condition of a pod, found by its `type`, which must not be one of the kubelet's."""
    return await _patch_pod(
        api, namespace, name, uid, {"status": {"conditions": [dict(condition)]}}, subresource="/status"
    )


async def _patch_pod(
    api: client.Api, namespace: str, name: str, uid: str, patch: dict[str, Any], subresource: str = ""
) -> bool:
    """A strategic merge patch that only the pod with `uid` takes."""
    body = patch | {"metadata": {**patch.get("metadata", {}), "uid": uid}}
    return await _patch(api, _PODS.path(namespace, name), subresource, uid, body, client.STRATEGIC_PATCH)


async def _patch(
    api: client.Api, path: str, subresource: str, uid: str | None, body: object, content_type: str
) -> bool:
    """A patch that names the uid, if there is one; another one is answered by 409 or 422, as are other faults."""
    try:
        await api.request("PATCH", path + subresource, body=body, content_type=content_type)
    except errors.NotFound:
        return False
    except (errors.Conflict, errors.Invalid):
        if uid is None or await _is_live(api, path, uid):
            raise
        return False
    return True


async def evict(api: client.Api, namespace: str, name: str, uid: str) -> bool:
    """Evict the pod, unless a disruption budget refuses it (Budget); its end itself is seen by the watch."""
    path = _PODS.path(namespace, name)
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    try:
        await api.request("POST", f"{path}/eviction", body=body, timeout=EVICT_SECONDS)
    except errors.NotFound:
        return False
    except (errors.Conflict, errors.ServerError, errors.Unreachable, errors.TooManyRequests) as error:
        if _is_of_budget(error):
            raise errors.Budget(str(error)) from error
        if isinstance(error, errors.TooManyRequests):
            raise
        found = await _read_or_none(api, path)
        if _has_uid(found, uid) and not _is_leaving(found):
            raise
        return _has_uid(found, uid)
    return True


def _is_of_budget(error: errors.KubeError) -> bool:
    """True for an answer of disruption budgets. A pod under two of them cannot be evicted, which comes as a 500."""
    if isinstance(error, errors.ServerError):
        return error.status == 500 and "more than one PodDisruptionBudget" in error.message
    return isinstance(error, errors.TooManyRequests) and "DisruptionBudget" in error.causes


async def suspend(api: client.Api, path: str, switch: Switch, on: bool, at: float) -> bool:
    """Have the object make its pods, and note that its turn has come at this time; or (`on`) stop them.

    One write, upon the object as it was read just before; Stale when it is to make its pods, and its spec is not that
    of the decision any more.
    """
    found = await _read_or_none(api, path)
    if found is None or not _has_uid(found, switch.uid):
        return False
    if (kinds.find(found, switch.field) is True) is on:
        return True
    meta = _metadata(found)
    if switch.own and not on and meta.get("generation", 0) != switch.generation:
        raise errors.Stale("its spec was changed since its turn came")
    value: Any = on
    for key in reversed(switch.field.split(".")):
        value = {key: value}
    # never before its creation, whoever's clock is late: a mark that is older is taken for another object's
    admitted = None if on else max(time_text(at), str(meta.get("creationTimestamp", "")))
    meta = {"resourceVersion": meta.get("resourceVersion"), "annotations": {marks.ADMITTED_ANNOTATION: admitted}}
    return await _patch(api, path, "", switch.uid, value | {"metadata": meta | {"uid": switch.uid}}, client.MERGE_PATCH)


async def put_open_queues(api: client.Api, namespace: str, names: Iterable[str]) -> None:
    """Write the list that the admission policy reads; one write when the ConfigMap exists."""
    collection = f"/api/v1/namespaces/{resources.quote(namespace)}/configmaps"
    data = {small.OPEN_KEY: small.encode_open_queues(frozenset(map(ids.QueueName, names)))}
    try:
        await api.request(
            "PATCH", f"{collection}/{small.OPEN_QUEUES}", body={"data": data}, content_type=client.MERGE_PATCH
        )
    except errors.NotFound:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": small.OPEN_QUEUES}, "data": data}
        await api.request("POST", collection, body=body)


async def patch_status(api: client.Api, path: str, patch: Mapping[str, Any], *, strategic: bool = False) -> bool:
    """Merge `patch`, which holds `status` and perhaps metadata.uid, into the object; False if it is gone.

    `strategic` merges lists by their keys, as only built-in kinds can. The status of custom resources ignores the uid.
    """
    metadata = patch.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    kind = client.STRATEGIC_PATCH if strategic else client.MERGE_PATCH
    return await _patch(api, path, "/status", uid, patch, kind)


async def patch_annotations(api: client.Api, path: str, uid: str, annotations: Mapping[str, str | None]) -> bool:
    """Set annotations of any object; False if it is gone."""
    body = {"metadata": {"uid": uid, "annotations": dict(annotations)}}
    return await _patch(api, path, "", uid, body, client.MERGE_PATCH)


async def create_event(
    api: client.Api,
    namespace: str,
    involved: Mapping[str, str],
    reason: str,
    message: str,
    type_: str,
) -> None:
    """Create an Event about `involved` (apiVersion, kind, namespace, name, uid), of type Normal or Warning.

    `namespace` is that of the object; cluster-scoped ones have their Events in `default`.
    """
    where = namespace or "default"
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": "muster-", "namespace": where},
        "eventTime": micro_time(time.time()),
        "reportingController": REPORTER,
        "reportingInstance": REPORTER,
        "action": reason,
        "reason": reason,
        "regarding": dict(involved),
        "note": cut(message, NOTE_LIMIT),
        "type": type_,
    }
    await api.request("POST", f"/apis/events.k8s.io/v1/namespaces/{resources.quote(where)}/events", body=body)


def cut(text: str, limit: int) -> str:
    """The text in at most `limit` bytes of UTF-8, which is how the API server counts."""
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


async def _read_or_none(api: client.Api, path: str) -> dict[str, Any] | None:
    try:
        return await api.read(path)
    except errors.NotFound:
        return None


async def _is_live(api: client.Api, path: str, uid: str) -> bool:
    return _has_uid(await _read_or_none(api, path), uid)


def _has_uid(found: Mapping[str, Any] | None, uid: str) -> bool:
    return _metadata(found).get("uid") == uid


def _is_leaving(found: Mapping[str, Any] | None) -> bool:
    return _metadata(found).get("deletionTimestamp") is not None


def _metadata(found: Mapping[str, Any] | None) -> Mapping[str, Any]:
    metadata = found.get("metadata") if found is not None else None
    return metadata if isinstance(metadata, dict) else {}
