"""A node from its JSON object.

Takes decoded JSON of core/v1 Node, gives a Node; must not raise for a node that has a name. Capacity is
read from status.allocatable only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from extender.core import links
from extender.core.ids import NodeName
from extender.core.links import Links
from extender.core.model import Node, Taint
from extender.core.resources import PODS, Amounts
from extender.wire import gpu_topology, hami, requests
from extender.wire.fields import Object, Reader, metadata

#: labels of GPU feature discovery
_GPU_PRODUCT, _GPU_COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"
_COUNT = re.compile(r"[1-9][0-9]?", re.ASCII)
_HARD = frozenset({"NoSchedule", "NoExecute"})


def decode_node(obj: object) -> Node:
    """The node that the object describes; DecodeError when it has no name."""
    meta = metadata(obj, "name")
    assert isinstance(obj, dict)
    reader = Reader()
    spec = reader.mapping(obj, "spec", "spec")
    status = reader.mapping(obj, "status", "status")
    notes = reader.mapping(meta, "annotations", "metadata.annotations")
    labels = _labels(reader, meta)
    return Node(
        name=NodeName(meta["name"]),
        labels=labels,
        allocatable=_allocatable(reader, status),
        taints=_taints(reader, spec),
        unschedulable=reader.flag(spec, "unschedulable", "spec.unschedulable") is True,
        ready=_ready(reader, status),
        hami=_hami(notes),
        cards=hami.decode_cards(reader, notes),
        links=_links(reader, notes, labels),
        problems=tuple(reader.problems),
    )


def _labels(reader: Reader, meta: Object) -> Mapping[str, str]:
    labels = reader.mapping(meta, "labels", "metadata.labels")
    return {key: reader.text(labels, key, "metadata.labels") for key in labels}


def _links(reader: Reader, notes: Object, labels: Mapping[str, str]) -> Links | None:
    """How the GPUs are joined: as the node agent publishes it, else as the product's name tells."""
    if gpu_topology.ANNOTATION in notes:
        return gpu_topology.decode(reader, reader.text(notes, gpu_topology.ANNOTATION, "metadata.annotations"))
    number = labels.get(_GPU_COUNT, "")
    if not _COUNT.fullmatch(number):
        return None
    return links.uniform(labels.get(_GPU_PRODUCT, ""), int(number))


def _allocatable(reader: Reader, status: Object) -> Amounts:
    """Amounts of the node; `pods` is always named, because a node that states none takes none."""
    path = "status.allocatable"
    values = requests.read_amounts(reader, reader.mapping(status, "allocatable", path), path)
    values.setdefault(PODS, 0)
    return tuple(sorted((name, value) for name, value in values.items() if value or name == PODS))


def _taints(reader: Reader, spec: Object) -> tuple[Taint, ...]:
    read = (
        Taint(
            reader.text(taint, "key", "spec.taints.key"),
            reader.text(taint, "value", "spec.taints.value"),
            reader.text(taint, "effect", "spec.taints.effect"),
        )
        for taint in reader.objects(spec, "taints", "spec.taints")
    )
    return tuple(taint for taint in read if taint.effect in _HARD)


def _ready(reader: Reader, status: Object) -> bool:
    for condition in reader.objects(status, "conditions", "status.conditions"):
        if condition.get("type") == "Ready":
            return condition.get("status") == "True"
    return True


def _hami(notes: Object) -> bool:
    return any(key.startswith("hami.io/node-") and key.endswith("-register") for key in notes)
