"""The messages of the scheduler extender protocol (k8s.io/kube-scheduler/extender/v1).

Takes bodies of calls, gives their arguments; takes results, gives bodies. Must not decide anything, nor
decode the pod: handlers do that only for pods of ours. Field names are those of Go, unlike in the pod.

A reply never holds null where kube-scheduler follows a pointer, never a name that was not offered, and
scores are integers: it drops all scores of a reply with one float in it, and says nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from extender.core.ids import NodeName, PodUid

Object = Mapping[str, Any]

MAX_SCORE = 10
#: the reply that lets kube-scheduler evict nothing
PREEMPT_VETO = b'{"NodeNameToMetaVictims":{}}'
_MAX_ERROR = 500


class WireError(ValueError):
    """A body that is no message of this protocol; the text is short and fit for a reply."""


@dataclass(frozen=True, slots=True)
class NodeArgs:
    """Arguments of filter and prioritize. `items` are the nodes themselves when the caller sent those."""

    pod: Object
    #: in the order given, each once
    offered: tuple[NodeName, ...]
    items: tuple[Object, ...] | None = None


@dataclass(frozen=True, slots=True)
class BindArgs:
    """Arguments of bind."""

    name: str
    namespace: str
    uid: PodUid
    node: NodeName


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that kube-scheduler would evict from one node, most important first."""

    uids: tuple[PodUid, ...]
    pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class PreemptArgs:
    """Arguments of preempt."""

    pod: Object
    victims: Mapping[NodeName, Victims]


def scheduler_of(pod: Object) -> str:
    """Name of the scheduler of a pod in a message, read without decoding the pod; empty if unknown."""
    spec = pod.get("spec")
    name = spec.get("schedulerName") if isinstance(spec, dict) else None
    return name if isinstance(name, str) else ""


def load(body: bytes | bytearray | memoryview) -> dict[str, Any]:
    """The JSON object in a body."""
    try:
        loaded = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise WireError("the body is not JSON") from None
    if not isinstance(loaded, dict):
        raise WireError("the body is not a JSON object")
    return loaded


# --- filter and prioritize -------------------------------------------------------------------------


def decode_node_args(body: bytes) -> NodeArgs:
    """Arguments of filter and prioritize."""
    message = load(body)
    pod = _pod(message)
    names = message.get("NodeNames")
    if names is not None:
        return NodeArgs(pod, _names(names))
    nodes = message.get("Nodes")
    if nodes is None:
        return NodeArgs(pod, ())
    return _with_nodes(pod, nodes)


def _names(names: object) -> tuple[NodeName, ...]:
    if not isinstance(names, list):
        raise WireError("NodeNames is not a list")
    kinds = set(map(type, names))
    if kinds - {str} or "" in names:
        raise WireError("NodeNames holds something that is not a name")
    return tuple(dict.fromkeys(names))


def _with_nodes(pod: Object, nodes: object) -> NodeArgs:
    items = nodes.get("items") if isinstance(nodes, dict) else None
    if items is None:
        items = []
    if not isinstance(nodes, dict) or not isinstance(items, list):
        raise WireError("Nodes is not a list of nodes")
    by_name: dict[NodeName, Object] = {}
    for item in items:
        metadata = item.get("metadata") if isinstance(item, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(name, str) or not name:
            raise WireError("Nodes holds a node without a name")
        by_name.setdefault(NodeName(name), item)
    return NodeArgs(pod, tuple(by_name), tuple(by_name.values()))


def encode_passed(args: NodeArgs, passed: Sequence[NodeName]) -> bytes:
    """Reply of filter that leaves these nodes; the others need no word, as one at least is left."""
    if args.items is None:
        return orjson.dumps({"NodeNames": list(passed), "Error": ""})
    kept = frozenset(passed)
    items = [item for name, item in zip(args.offered, args.items, strict=True) if name in kept]
    return orjson.dumps({"Nodes": {"items": items}, "Error": ""})


def encode_rejected(args: NodeArgs, text: str) -> bytes:
    """Reply of filter that leaves no node, for one constant reason that eviction would not cure."""
    left: dict[str, Any] = {"NodeNames": []} if args.items is None else {"Nodes": {"items": []}}
    left["FailedAndUnresolvableNodes"] = dict.fromkeys(args.offered, text)
    left["Error"] = ""
    return orjson.dumps(left)


def encode_error(text: str) -> bytes:
    """Reply of filter or bind that reports a fault; the scheduler tries the pod again later."""
    return orjson.dumps({"Error": _error(text)})


def encode_scores(scores: Iterable[tuple[NodeName, int]]) -> bytes:
    """Reply of prioritize; scores beyond the protocol's range are brought into it, floats are refused."""
    return orjson.dumps(
        [{"Host": host, "Score": max(0, min(MAX_SCORE, operator.index(score)))} for host, score in scores]
    )


# --- bind ------------------------------------------------------------------------------------------


def encode_bind_args(namespace: str, name: str, uid: str, node: str) -> bytes:
    """Arguments of bind, for another extender."""
    return orjson.dumps({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node})


def decode_bind_result(body: bytes) -> str:
    """What another extender's reply to bind says against it; "" when it says that it is done."""
    said = load(body).get("Error")
    if said is not None and not isinstance(said, str):
        raise WireError("Error is not a text")
    return (said or "")[:_MAX_ERROR]


def decode_bind_args(body: bytes) -> BindArgs:
    """Arguments of bind."""
    message = load(body)
    return BindArgs(
        name=_text(message, "PodName"),
        namespace=_text(message, "PodNamespace"),
        uid=PodUid(_text(message, "PodUID")),
        node=NodeName(_text(message, "Node")),
    )


#: reply of bind once the binding is proved to stand
BOUND = b'{"Error":""}'


# --- preempt ---------------------------------------------------------------------------------------


def decode_preempt_args(body: bytes) -> PreemptArgs:
    """Arguments of preempt, whether victims are told by uid or as whole pods; what is null is left out."""
    message = load(body)
    pod = _pod(message)
    by_uid = message.get("NodeNameToMetaVictims")
    candidates = by_uid if by_uid is not None else message.get("NodeNameToVictims")
    if candidates is None:
        candidates = {}
    if not isinstance(candidates, dict):
        raise WireError("the victims are not given by node")
    return PreemptArgs(
        pod, {NodeName(name): _victims(one) for name, one in candidates.items() if name and one is not None}
    )


def encode_candidates(victims: Mapping[NodeName, Victims]) -> bytes:
    """Reply of preempt that accepts these candidates, told by uid whatever shape was asked."""
    return orjson.dumps(
        {
            "NodeNameToMetaVictims": {
                name: {"Pods": [{"UID": uid} for uid in one.uids], "NumPDBViolations": one.pdb_violations}
                for name, one in victims.items()
            }
        }
    )


def _victims(candidate: object) -> Victims:
    if not isinstance(candidate, dict):
        raise WireError("the victims of a node are not an object")
    pods = candidate.get("Pods")
    if pods is None:
        pods = []
    violations = candidate.get("NumPDBViolations", 0)
    if not isinstance(pods, list) or type(violations) is not int:
        raise WireError("the victims of a node are malformed")
    return Victims(tuple(_victim(pod) for pod in pods if pod is not None), violations)


def _victim(pod: object) -> PodUid:
    if isinstance(pod, dict):
        metadata = pod.get("metadata")
        uid = metadata.get("uid") if isinstance(metadata, dict) else pod.get("UID")
        if isinstance(uid, str) and uid:
            return PodUid(uid)
    raise WireError("a victim without a uid")


# --- parts -----------------------------------------------------------------------------------------


def _pod(message: Object) -> Object:
    pod = message.get("Pod")
    if not isinstance(pod, dict):
        raise WireError("Pod is missing")
    return pod


def _text(message: Object, key: str) -> str:
    found = message.get(key)
    if not isinstance(found, str) or not found:
        raise WireError(f"{key} is missing")
    return found


def _error(text: str) -> str:
    """A text that is not empty, because an empty one would mean success, and not long."""
    return text[:_MAX_ERROR] or "unknown error"
