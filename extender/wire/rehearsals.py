"""Questions about draining a node and about other queues, and their answers, as objects of `visibility.muster.dev`.

Takes decoded JSON, gives a node's name or queues; takes what a rehearsal came to, gives JSON data. Must not decide
anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from extender.core import explain
from extender.core.ids import NodeName, Source
from extender.core.model import Queue
from extender.wire import answers, objects
from extender.wire.fields import DecodeError, Reader
from extender.wire.queues import encode_amounts

if TYPE_CHECKING:  # as in wire.answers
    from extender.core.queue_rehearsal import Compared, Figures, Moved, Outcome
    from extender.core.rehearsal import Drained, Fate, Loss, Named

#: so many queues in one question
MAX_QUEUES = 500
_QUEUES = {"muster.dev": Source.MUSTER, "scheduling.volcano.sh": Source.VOLCANO}
Object = dict[str, Any]


def queue_source(content: object) -> Source | None:
    """Whose Queue an object is; None when it is none."""
    if not isinstance(content, dict) or content.get("kind") != "Queue":
        return None
    version = content.get("apiVersion")
    return _QUEUES.get(version.partition("/")[0]) if isinstance(version, str) else None


def decode_drain(asked: object) -> NodeName:
    """The node that is to be drained."""
    spec = asked.get("spec") if isinstance(asked, dict) else None
    node = spec.get("node") if isinstance(spec, dict) else None
    if not isinstance(node, str) or not node:
        raise DecodeError("spec.node: not the name of a node")
    return NodeName(node)


def decode_queues(asked: object) -> list[Queue]:
    """The queues as they would be; their status is not theirs to say."""
    reader = Reader()
    spec = reader.mapping(asked, "spec", "spec") if isinstance(asked, dict) else {}
    found: dict[str, Queue] = {}
    for number, part in enumerate(reader.objects(spec, "queues", "spec.queues")):
        path = f"spec.queues[{number}]"
        source, meta = queue_source(part), part.get("metadata")
        if source is None:
            raise DecodeError(f"{path}: no Queue of a kind that is known")
        known = {**(meta if isinstance(meta, dict) else {}), "uid": "supposed"}
        queue = objects.decode_queue(source, {**part, "metadata": known, "status": {}})
        if queue.problems:
            raise DecodeError(f"{path}.{queue.problems[0]}")
        found[queue.name] = queue
    if reader.problems:
        raise DecodeError(reader.problems[0])
    if not found or len(found) > MAX_QUEUES:
        raise DecodeError(f"spec.queues: {len(found)} queues, and 1 to {MAX_QUEUES} can be asked about")
    return list(found.values())


def in_place(queues: Iterable[Queue], known: Iterable[Queue]) -> list[Queue]:
    """Each with the status and the identity of the one in whose place it would be."""
    of = {(one.name, one.source): one for one in known}
    found = []
    for queue in queues:
        before = of.get((queue.name, queue.source), queue)
        found.append(replace(queue, uid=before.uid, status=before.status))
    return found


# --- answers -----------------------------------------------------------------------------------------


def encode_drained(found: Drained) -> Object:
    """What becomes of a node's pods."""
    status: Object = {
        "node": found.node,
        "groups": [_fate(one) for one in found.fates],
        "strangers": found.strangers,
        "staying": found.stay,
        "budgets": [
            {"namespace": one.namespace, "name": one.name, "allowed": one.allowed, "pods": one.pods}
            for one in found.obstacles
        ],
        "evictions": [_loss(one) for one in found.evictions],
        "settled": found.settled,
    }
    return _object(answers.DRAIN_PLANS, status)


def encode_outcome(found: Outcome) -> Object:
    """What other queues come to."""
    status: Object = {
        "queues": [_compared(one) for one in found.queues],
        "gains": [_moved(one) for one in found.gains],
        "loses": [_moved(one) for one in found.loses],
        "evictions": [_loss(one) for one in found.evictions],
        "gaining": found.numbers[0],
        "losing": found.numbers[1],
        "evicted": found.numbers[2],
        "warnings": [{"queue": one.queue, "reason": one.doubt.value, "message": one.message} for one in found.warnings],
        "settled": found.settled,
        "seconds": int(found.seconds),
    }
    return _object(answers.QUEUE_PLANS, status)


def _object(resource: answers.Resource, status: Object) -> Object:
    return {"apiVersion": answers.API_VERSION, "kind": resource.kind, "metadata": {}, "status": status}


def _named(of: Named) -> Object:
    name = answers.name_of(of.key.source, of.name)
    return {"name": name, "namespace": of.key.namespace, "queue": of.queue}


def _fate(one: Fate) -> Object:
    told = _named(one.of) | {
        "pods": list(one.pods),
        "replaced": one.replaced,
        "left": one.left,
        "minimum": one.minimum,
        "belowMinimum": one.below,
        "nodes": answers.places(one.nodes),
        "waiting": one.waiting,
    }
    return told | answers.why(one.refusal)


def _loss(one: Loss) -> Object:
    message = explain.why_evicted(one.ground, one.detail)
    return _named(one.of) | {"pods": one.pods, "rule": one.ground.value, "message": message, "times": one.times}


def _compared(one: Compared) -> Object:
    told: Object = {"name": one.name}
    for name, figures in (("before", one.before), ("after", one.after)):
        if figures is not None:
            told[name] = _figures(figures)
    return told


def _figures(one: Figures) -> Object:
    told: Object = {
        "allocated": encode_amounts(one.used),
        "fairShare": encode_amounts(one.fair),
        "waiting": one.waiting,
    }
    return told | ({} if one.share is None else {"share": round(one.share, 2)})


def _moved(one: Moved) -> Object:
    return _named(one.of) | {"before": one.before, "after": one.after} | answers.why(one.refusal)
