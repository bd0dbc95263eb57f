"""A queue from its JSON object, ours or Volcano's, and our queue's status as a patch.

Takes decoded JSON and the source it was watched from, gives a Queue; must not raise for an object that has
a name: what is wrong goes into `problems`, and a limit that cannot be read is left out of the value.
"""

from __future__ import annotations

import datetime
from typing import Any

from extender.core.ids import QueueName, Source
from extender.core.model import Queue, QueueCondition, QueueStatus
from extender.core.resources import CPU, GPU, GPU_PARTS, GPU_SHARE, PODS, Amounts
from extender.wire import quantity, requests
from extender.wire.fields import Object, Reader, metadata

MAX_WEIGHT = 65_535
MAX_PRIORITY = 10**9
_MAX_SECONDS = 365 * 24 * 3600
_MAX_NAMES = 32
#: Volcano's queue above all of its queues that name no parent
_VOLCANO_ROOT = "root"
_CLOSED = frozenset({"Closed", "Closing"})


def decode_queue(source: Source, obj: object) -> Queue:
    """The queue that an object of this source (ours or Volcano's) describes; DecodeError when it has no name."""
    meta = metadata(obj, "name")
    assert isinstance(obj, dict)
    reader = Reader()
    spec, status = reader.mapping(obj, "spec", "spec"), reader.mapping(obj, "status", "status")
    guarantee = reader.mapping(spec, "guarantee", "spec.guarantee")
    shared = _shared(reader, spec)
    capability = _charged(_amounts(reader, spec, "capability", "spec.capability"), shared)
    weight = reader.integer(spec, "weight", "spec.weight", 0, MAX_WEIGHT)
    return Queue(
        name=QueueName(meta["name"]),
        source=source,
        parent=_parent(reader, source, meta["name"], spec),
        weight=1 if weight is None else weight,
        capability=capability,
        deserved=_charged(_amounts(reader, spec, "deserved", "spec.deserved"), shared),
        guarantee=_charged(_amounts(reader, guarantee, "resource", "spec.guarantee.resource"), shared),
        reclaimable=reader.flag(spec, "reclaimable", "spec.reclaimable") is not False,
        priority=reader.integer(spec, "priority", "spec.priority", -MAX_PRIORITY, MAX_PRIORITY) or 0,
        closed=_closed(reader, source, spec, status),
        namespaces=_namespaces(reader, spec),
        min_runtime=reader.integer(spec, "minRuntimeSeconds", "spec.minRuntimeSeconds", 0, _MAX_SECONDS) or 0,
        stale=reader.integer(spec, "staleSeconds", "spec.staleSeconds", 0, _MAX_SECONDS),
        visible=_visible(reader, spec),
        by_share=shared,
        uid=reader.text(meta, "uid", "metadata.uid"),
        generation=reader.integer(meta, "generation", "metadata.generation") or 0,
        status=_status(status) if source is Source.MUSTER else QueueStatus(),
        problems=tuple(reader.problems),
    )


def _parent(reader: Reader, source: Source, name: str, spec: Object) -> QueueName | None:
    parent = reader.text(spec, "parent", "spec.parent")
    if source is Source.VOLCANO and not parent and name != _VOLCANO_ROOT:
        parent = _VOLCANO_ROOT
    return QueueName(parent) or None


def _closed(reader: Reader, source: Source, spec: Object, status: Object) -> bool:
    """Ours say it in the spec; Volcano's keep it in the status, and older ones in the spec."""
    state = reader.text(spec, "state", "spec.state") or "Open"
    if state not in ("Open", "Closed"):
        reader.note("spec.state", state, "Open or Closed")
    stands = reader.text(status, "state", "status.state") if source is Source.VOLCANO else ""
    return state == "Closed" or stands in _CLOSED


def _visible(reader: Reader, spec: Object) -> bool:
    said = reader.text(spec, "autoscaling", "spec.autoscaling") or "Hidden"
    if said not in ("Hidden", "Visible"):
        reader.note("spec.autoscaling", said, "Hidden or Visible")
    return said == "Visible"


def _shared(reader: Reader, spec: Object) -> bool:
    said = reader.text(spec, "gpuCharge", "spec.gpuCharge") or "gpus"
    if said not in ("gpus", "share"):
        reader.note("spec.gpuCharge", said, "gpus or share")
    return said == "share"


def _charged(limits: Amounts, shared: bool) -> Amounts:
    """The limits in what the queue charges."""
    if not shared:
        return limits
    found = dict(limits)
    if GPU in found:
        found[GPU_SHARE] = GPU_PARTS * found.pop(GPU)
    return tuple(sorted(found.items()))


def _namespaces(reader: Reader, spec: Object) -> frozenset[str] | None:
    if spec.get("namespaces") is None:
        return None
    return frozenset(reader.texts(spec, "namespaces", "spec.namespaces"))


def _amounts(reader: Reader, parent: Object, key: str, path: str) -> Amounts:
    """Amounts by resource name; nothing of a resource is kept, because it forbids."""
    found: dict[str, int] = {}
    for name, text in reader.mapping(parent, key, path).items():
        if name != PODS and not requests.counted(name):
            reader.say(f"{path}[{name}]", "no pod asks for a resource of this name")
            continue
        try:
            found[name] = _limit(name, text)
        except quantity.QuantityError as error:
            reader.say(f"{path}[{name}]", str(error))
    return tuple(sorted(found.items()))


def _limit(name: str, text: object) -> int:
    """Base units, rounded down: requests are rounded up. What is counted by the piece must be whole."""
    exact = quantity.nanos(text)
    up = quantity.units(name, exact)
    whole = up * (quantity.NANO // 1000 if name == CPU else quantity.NANO)
    if whole != exact and (name == PODS or "/" in name):
        raise quantity.QuantityError(f"{str(text)!r} is not a whole number")
    return up if whole == exact else up - 1


# --- status ----------------------------------------------------------------------------------------


def _status(status: Object) -> QueueStatus:
    """What our queue's status says; it is ours to write, so what is wrong in it is written anew, not reported."""
    reader = Reader()
    return QueueStatus(
        allocated=_amounts(reader, status, "allocated", "status.allocated"),
        share=reader.text(status, "share", "status.share"),
        pending=reader.integer(status, "pending", "status.pending") or 0,
        state=reader.text(status, "state", "status.state"),
        generation=reader.integer(status, "observedGeneration", "status.observedGeneration") or 0,
        conditions=tuple(
            QueueCondition(
                kind=reader.text(one, "type", "type"),
                true=one.get("status") == "True",
                reason=reader.text(one, "reason", "reason"),
                message=reader.text(one, "message", "message"),
                since=int(reader.time(one, "lastTransitionTime", "lastTransitionTime") or 0),
            )
            for one in reader.objects(status, "conditions", "status.conditions")
        ),
    )


def encode_queue_status(status: QueueStatus, before: Amounts) -> dict[str, Any]:
    """The status as the body of a merge patch; resources that stood there `before` and are used no more go."""
    allocated: dict[str, str | None] = {name: None for name, _ in before}
    allocated |= encode_amounts(status.allocated[:_MAX_NAMES])
    return {
        "allocated": allocated,
        "share": status.share,
        "pending": status.pending,
        "state": status.state,
        "observedGeneration": status.generation,
        "conditions": [_condition(one, status.generation) for one in status.conditions],
    }


def _condition(one: QueueCondition, generation: int) -> dict[str, Any]:
    since = datetime.datetime.fromtimestamp(one.since, datetime.UTC)
    return {
        "type": one.kind,
        "status": "True" if one.true else "False",
        "reason": one.reason,
        "message": one.message,
        "lastTransitionTime": f"{since:%Y-%m-%dT%H:%M:%SZ}",
        "observedGeneration": generation,
    }


def encode_amounts(amounts: Amounts) -> dict[str, str]:
    """Amounts as a resource list."""
    return {name: _text(name, amount) for name, amount in amounts}


def _text(name: str, amount: int) -> str:
    """The quantity of an amount in base units."""
    return f"{amount}m" if name == CPU and amount % 1000 else str(amount // 1000 if name == CPU else amount)
