"""Topologies, namespaces, priority classes, leases and the list of open queues from their JSON objects.

Takes decoded JSON, gives values; must not raise but DecodeError, for an object without a name or a
topology without sound levels.
"""

from __future__ import annotations

from extender.core.activity import Lease
from extender.core.ids import QueueName
from extender.core.model import Topology
from extender.wire import marks
from extender.wire.fields import DecodeError, Object, Reader, metadata

#: name of the ConfigMap that lists the open queues
OPEN_QUEUES = "muster-admission"
#: key of the ConfigMap's data under which the open queues are named, one a line
OPEN_KEY = "open"
_DEFAULT_DURATION = 15
_MAX_DURATION = 24 * 3600
_MAX_PRIORITY = 2**31 - 1


def decode_topology(obj: object) -> Topology:
    """The topology that the object describes; DecodeError when its levels are not texts, or repeat."""
    reader, meta, spec = _opened(obj)
    levels = reader.texts(spec, "levels", "spec.levels")
    if reader.problems:
        raise DecodeError(reader.problems[0])
    if not levels or not all(levels) or len(set(levels)) != len(levels):
        raise DecodeError("spec.levels: not a list of different label keys")
    return Topology(meta["name"], levels)


def decode_namespace(obj: object) -> tuple[str, QueueName | None, bool]:
    """Name of a namespace, the queue that its label names, and whether it is managed."""
    meta = metadata(obj, "name")
    reader = Reader()
    labels = reader.mapping(meta, "labels", "metadata.labels")
    return meta["name"], marks.queue_of(reader, labels), marks.managed(reader, labels)


def decode_priority_class(obj: object) -> tuple[str, int]:
    """Name and value of a priority class; DecodeError when it has no value."""
    meta = metadata(obj, "name")
    assert isinstance(obj, dict)
    value = Reader().integer(obj, "value", "value", -_MAX_PRIORITY - 1, _MAX_PRIORITY)
    if value is None:
        raise DecodeError("value: not an integer of 32 bits")
    return meta["name"], value


def decode_lease(obj: object) -> Lease:
    """The leader election record in a Lease; an unheld one has an empty holder."""
    reader, _, spec = _opened(obj)
    duration = reader.integer(spec, "leaseDurationSeconds", "spec.leaseDurationSeconds", 1, _MAX_DURATION)
    return Lease(
        holder=reader.text(spec, "holderIdentity", "spec.holderIdentity"),
        renewed=reader.text(spec, "renewTime", "spec.renewTime"),
        duration=float(duration or _DEFAULT_DURATION),
    )


def decode_open_queues(obj: object) -> frozenset[QueueName]:
    """The names of the open queues as they stand in our ConfigMap."""
    if not isinstance(obj, dict):
        raise DecodeError("not an object")
    reader = Reader()
    text = reader.text(reader.mapping(obj, "data", "data"), OPEN_KEY, "data.open")
    return frozenset(QueueName(name) for line in text.split("\n") if (name := line.strip()))


def encode_open_queues(names: frozenset[QueueName]) -> str:
    """The text of the ConfigMap's key for these queues: sorted, so that equal sets are equal texts."""
    return "\n".join(sorted(names))


def _opened(obj: object) -> tuple[Reader, Object, Object]:
    meta = metadata(obj, "name")
    assert isinstance(obj, dict)
    reader = Reader()
    return reader, meta, reader.mapping(obj, "spec", "spec")
