"""The live answers as objects of the API group `visibility.muster.dev`, their tables and its discovery.

Takes values of core.answers and times in seconds, gives JSON data; must not decide who may read them. A group is
named `<source>:<name>` (`muster:train`, `native:train`, `pod:web-0`): in one namespace the same name may stand for
a group of each kind, and for a pod.
"""

from __future__ import annotations

import base64
import binascii
import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from extender.core import explain
from extender.core.ids import Source
from extender.core.reasons import Detail, Reason, Refusal
from extender.wire.fields import seconds_of
from extender.wire.network import span_object
from extender.wire.queues import encode_amounts

if TYPE_CHECKING:  # kubectl's plugin takes names and times from here, and none of the engine
    from extender.core.answers import Closer, Places, QueueState, Waiter, Workload
    from extender.core.evictions import Eviction
    from extender.core.mending import Mend

GROUP, VERSION = "visibility.muster.dev", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
Object = dict[str, Any]
_META = "meta.k8s.io/v1"
#: phase of what is not there any more
GONE = "Gone"


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the group, with the columns of its table: name, type, and what it shows."""

    plural: str
    kind: str
    short: tuple[str, ...]
    namespaced: bool
    columns: tuple[tuple[str, str, str], ...] = ()
    verbs: tuple[str, ...] = ("get", "list")


WORKLOADS = Resource(
    "workloads",
    "Workload",
    ("mwl",),
    True,
    (
        ("Name", "string", "The kind of group, and its name."),
        ("Phase", "string", "Pending, Running or Ended; Gone of what was evicted and is not there any more."),
        ("Reason", "string", "Why something of it waits."),
        ("Queue", "string", "The queue that it is in."),
        ("Position", "string", "Its place among those that wait in the queue."),
        ("Bound", "string", "Members bound or succeeded, of the minimum."),
        ("Since", "string", "For how long it has waited for that reason."),
    ),
)
QUEUES = Resource(
    "queues",
    "Queue",
    (),
    False,
    (
        ("Name", "string", "The queue."),
        ("State", "string", "Open, Closing or Closed."),
        ("Share", "string", "The largest part of its fair share that it uses."),
        ("Pending", "integer", "Groups that wait in it."),
        ("First", "string", "The group that is next."),
        ("Reason", "string", "Why that one waits."),
    ),
)
#: what becomes of GPUs over time; see wire.usages
USAGES = Resource("usages", "Usage", (), False, verbs=("get",))
#: what if; see wire.plans
PLANS = Resource("plans", "Plan", (), True, verbs=("create",))
#: what would follow from draining a node, and from other queues; they show groups of all namespaces
DRAIN_PLANS = Resource("drainplans", "DrainPlan", (), False, verbs=("create",))
QUEUE_PLANS = Resource("queueplans", "QueuePlan", (), False, verbs=("create",))
RESOURCES = (WORKLOADS, QUEUES, USAGES, PLANS, DRAIN_PLANS, QUEUE_PLANS)

#: words of the names; what is not in it names no group
_SOURCES: Mapping[str, Source] = {source.value: source for source in Source}


# --- names and pages ---------------------------------------------------------------------------------


def name_of(source: Source, name: str) -> str:
    """The name of a group."""
    return f"{source.value}:{name}"


def parse_name(text: str) -> tuple[Source, str] | None:
    """Source and name that a name stands for; None when it cannot be one."""
    word, colon, name = text.partition(":")
    source = _SOURCES.get(word)
    return None if source is None or not (colon and name) else (source, name)


def encode_continue(namespace: str, name: str) -> str:
    """A token that says behind which object a list goes on."""
    return base64.urlsafe_b64encode(orjson.dumps([namespace, name])).decode()


def decode_continue(token: str) -> tuple[str, str] | None:
    """Namespace and name that a token holds; None when it is none of ours."""
    try:
        content = orjson.loads(base64.b64decode(token, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):  # JSON's and ASCII's errors are ValueErrors
        return None
    match content:
        case [str(namespace), str(name)]:
            return namespace, name
    return None


# --- objects -----------------------------------------------------------------------------------------


def workload(answer: Workload, now: float, closer: Closer | None = None) -> Object:
    """One group as an object; with what was worked out for it alone."""
    members, nodes = answer.members, sum(place.members for place in answer.nodes)
    status: Object = {
        "phase": answer.phase,
        **why(answer.refusal),
        "queue": answer.queue,
        "members": {
            "have": members.have,
            "minimum": members.minimum,
            "planned": members.planned,
            "bound": members.bound,
            "succeeded": members.succeeded,
            "failed": members.failed,
        },
        "plannedNodes": places(answer.nodes),
        "observedAt": micro_time(now),
    }
    if answer.since is not None:
        status["since"] = time_text(answer.since)
    if answer.position is not None:
        status["position"] = answer.position
    if nodes < members.planned:
        status["plannedElsewhere"] = members.planned - nodes
    if closer is not None:
        status |= _closer(closer)
    meta: Object = {"name": name_of(answer.key.source, answer.name), "namespace": answer.key.namespace}
    if answer.uid:
        meta["uid"] = answer.uid
    meta["creationTimestamp"] = time_text(answer.created) if answer.created else None
    return {"apiVersion": API_VERSION, "kind": WORKLOADS.kind, "metadata": meta, "status": status}


def gone(source: Source, namespace: str, name: str, evictions: Sequence[Eviction], now: float) -> Object:
    """A group, or a pod of one, that is not there any more, by how it was evicted."""
    last = evictions[-1]
    status: Object = {
        "phase": GONE,
        "queue": last.queue,
        "evictions": [_eviction(one) for one in evictions],
        "observedAt": micro_time(now),
    }
    if source is Source.POD and not last.group.lone:
        status["group"] = name_of(last.group.source, last.name)
    meta: Object = {"name": name_of(source, name), "namespace": namespace, "creationTimestamp": None}
    return {"apiVersion": API_VERSION, "kind": WORKLOADS.kind, "metadata": meta, "status": status}


def _eviction(one: Eviction) -> Object:
    """Pods that went in one go: by which rule, when the last one did, and why in words."""
    message = explain.why_evicted(one.ground, one.detail)
    return {"rule": one.ground.value, "at": time_text(one.last), "message": message, "pods": one.pods}


def queue(answer: QueueState, now: float) -> Object:
    """One queue as an object."""
    status: Object = {
        "state": answer.status.state,
        "allocated": encode_amounts(answer.status.allocated),
        "fairShare": encode_amounts(answer.share),
        "share": answer.status.share,
        "pending": answer.status.pending,
        "waiting": [_waiter(one) for one in answer.waiting],
        "observedAt": micro_time(now),
    }
    if answer.parent is not None:
        status["parent"] = answer.parent
    meta: Object = {"name": answer.name, "creationTimestamp": None}
    return {"apiVersion": API_VERSION, "kind": QUEUES.kind, "metadata": meta, "status": status}


def _closer(closer: Closer) -> Object:
    told: Object = {
        "startsWhen": changes(closer.mends),
        "history": [{"since": time_text(since), **_past(reason)} for since, reason in closer.past],
    }
    if closer.evictions:
        told["evictions"] = [_eviction(one) for one in closer.evictions]
    if closer.span is not None:
        told["topology"] = span_object(closer.span)
    if closer.starts is not None:
        told["expectedStart"] = time_text(closer.starts)
    return told


def _past(reason: Reason | None) -> Object:
    """A reason of earlier in words; HELD_ELSEWHERE where it had its places."""
    reason = Reason.HELD_ELSEWHERE if reason is None else reason
    return {"reason": reason.value, "message": explain.sentence(Refusal(reason))}


def _waiter(one: Waiter) -> Object:
    return {
        "position": one.position,
        "namespace": one.namespace,
        "name": name_of(one.source, one.name),
        "reason": one.refusal.reason.value,
        "since": time_text(one.since),
    }


def places(nodes: Iterable[Places]) -> list[Object]:
    """Nodes, how many members have places there, and what they take."""
    return [{"name": one.node, "members": one.members, "requests": encode_amounts(one.asked)} for one in nodes]


def changes(mends: Iterable[Mend]) -> list[Object]:
    """What would end a wait."""
    return [
        {"reason": one.reason.value, "message": explain.mend(one.reason, one.detail), "detail": _detail(one.detail)}
        for one in mends
    ]


def why(refusal: Refusal | None) -> Object:
    """A reason with its words and numbers."""
    if refusal is None:
        return {}
    return {
        "reason": refusal.reason.value,
        "reasonKind": refusal.kind.value,
        "message": explain.sentence(refusal),
        "detail": _detail(refusal.detail),
    }


def _detail(detail: Detail) -> list[Object]:
    """A name may come more than once, so this is a list."""
    return [{"name": name, "value": value} for name, value in detail]


def listed(resource: Resource, items: Sequence[Object], more: Object) -> Object:
    """A list of objects; `more` is its metadata."""
    return {"apiVersion": API_VERSION, "kind": f"{resource.kind}List", "metadata": more, "items": items}


# --- tables ------------------------------------------------------------------------------------------


def table(resource: Resource, items: Iterable[Object], more: Object, include: str, now: float) -> Object:
    """Objects as kubectl shows them. `include` says what of each goes along: None, Metadata or Object."""
    cells = {"Workload": _workload_cells, "Queue": _queue_cells}[resource.kind]
    return {
        "apiVersion": _META,
        "kind": "Table",
        "metadata": more,
        "columnDefinitions": [
            {"name": name, "type": kind, "format": "name" if name == "Name" else "", "description": text, "priority": 0}
            for name, kind, text in resource.columns
        ],
        "rows": [{"cells": cells(item, now), "object": _along(item, include)} for item in items],
    }


def _along(item: Object, include: str) -> Object | None:
    if include == "None":
        return None
    if include == "Object":
        return item
    return {"apiVersion": _META, "kind": "PartialObjectMetadata", "metadata": item["metadata"]}


def _workload_cells(item: Object, now: float) -> list[Any]:
    status = item["status"]
    members = status.get("members") or {"bound": 0, "succeeded": 0, "minimum": None}
    minimum = members["minimum"]
    return [
        item["metadata"]["name"],
        status["phase"],
        status.get("reason", ""),
        status["queue"],
        str(status.get("position", "")),
        f"{members['bound'] + members['succeeded']}/{'?' if minimum is None else minimum}",
        age(now - (seconds_of(status["since"]) or now)) if "since" in status else "",
    ]


def _queue_cells(item: Object, _now: float) -> list[Any]:
    status = item["status"]
    first = status["waiting"][0] if status["waiting"] else {"namespace": "", "name": "", "reason": ""}
    where = f"{first['namespace']}/{first['name']}" if first["name"] else ""
    name, state = item["metadata"]["name"], status["state"]
    return [name, state, status["share"], status["pending"], where, first["reason"]]


def age(seconds: float) -> str:
    """A duration in its two largest units: `5s`, `3m20s`, `2d4h`."""
    left, parts = max(0, int(seconds)), []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        number, left = divmod(left, size)
        parts.append((number, unit))
    while len(parts) > 1 and not parts[0][0]:
        del parts[0]
    shown = [one for one in parts[:2] if one[0]] or parts[:1]
    return "".join(f"{number}{unit}" for number, unit in shown)


# --- discovery ---------------------------------------------------------------------------------------


def group_list() -> Object:
    """GET /apis."""
    return {"apiVersion": "v1", "kind": "APIGroupList", "groups": [_group()]}


def group() -> Object:
    """GET /apis/visibility.muster.dev."""
    return {"apiVersion": "v1", "kind": "APIGroup", **_group()}


def _group() -> Object:
    version = {"groupVersion": API_VERSION, "version": VERSION}
    return {"name": GROUP, "versions": [version], "preferredVersion": version}


def resource_list() -> Object:
    """GET /apis/visibility.muster.dev/v1alpha1."""
    return {
        "apiVersion": "v1",
        "kind": "APIResourceList",
        "groupVersion": API_VERSION,
        "resources": [
            {
                "name": one.plural,
                "singularName": one.kind.lower(),
                "shortNames": one.short,
                "namespaced": one.namespaced,
                "kind": one.kind,
                "verbs": one.verbs,
            }
            for one in RESOURCES
        ],
    }


def openapi() -> Object:
    """GET /openapi/v2: nothing is described, but an API server that finds none goes on looking, and logs it."""
    return {"swagger": "2.0", "info": {"title": "Muster: live answers", "version": VERSION}, "paths": {}}


def status_object(code: int, reason: str, message: str, details: Object | None = None) -> Object:
    """A refusal as API servers tell it."""
    told: Object = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure"}
    return told | {"message": message, "reason": reason, "code": code} | ({"details": details} if details else {})


def time_text(seconds: float) -> str:
    """RFC 3339 in UTC, to the second."""
    return f"{_utc(seconds):%Y-%m-%dT%H:%M:%SZ}"


def micro_time(seconds: float) -> str:
    """The same to the microsecond."""
    return f"{_utc(seconds):%Y-%m-%dT%H:%M:%S.%fZ}"


def _utc(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
