"""Which objects the sidecar's two processes watch, and what they hear of a change: through the real decoders.

Takes changes of the API server, gives events of the core; must not keep anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from extender.core import messages
from extender.core.ids import GroupKey, NodeName, PodUid, QueueName, Source
from extender.sim.api import Change, Json
from extender.wire import objects

Event = messages.WorldEvent | messages.OpenQueuesSeen


@dataclass(frozen=True, slots=True)
class Watch:
    """What a change of one kind means; `gate` is true where the permit gate watches it too."""

    seen: Callable[[Json], Event]
    gone: Callable[[Json], Event]
    gate: bool = False


WATCHES: Mapping[str, Watch] = {
    "Pod": Watch(
        lambda thing: messages.PodSeen(objects.decode_pod(thing)),
        lambda thing: messages.PodGone(PodUid(thing["metadata"]["uid"])),
        gate=True,
    ),
    "Node": Watch(
        lambda thing: messages.NodeSeen(objects.decode_node(thing)),
        lambda thing: messages.NodeGone(NodeName(_name(thing))),
        gate=True,
    ),
    "PodGroup": Watch(
        lambda thing: messages.GroupSeen(objects.decode_group(Source.MUSTER, thing)),
        lambda thing: messages.GroupGone(GroupKey(Source.MUSTER, thing["metadata"]["namespace"], _name(thing))),
        gate=True,
    ),
    "Namespace": Watch(
        lambda thing: messages.NamespaceSeen(*objects.decode_namespace(thing)),
        lambda thing: messages.NamespaceGone(_name(thing)),
    ),
    "Queue": Watch(
        lambda thing: messages.QueueSeen(objects.decode_queue(Source.MUSTER, thing)),
        lambda thing: messages.QueueGone(Source.MUSTER, QueueName(_name(thing))),
    ),
    "Topology": Watch(
        lambda thing: messages.TopologySeen(objects.decode_topology(thing)),
        lambda thing: messages.TopologyGone(_name(thing)),
    ),
    "PodDisruptionBudget": Watch(
        lambda thing: messages.BudgetSeen(objects.decode_budget(thing)),
        lambda thing: messages.BudgetGone(thing["metadata"]["namespace"], _name(thing)),
    ),
    "ConfigMap": Watch(
        lambda thing: messages.OpenQueuesSeen(objects.decode_open_queues(thing)),
        lambda thing: messages.OpenQueuesSeen(None),
    ),
}


def event_of(change: Change) -> Event | None:
    """What a watch makes of a change; None when it is not watched, or has no identity."""
    watch = WATCHES.get(change.kind)
    if watch is None:
        return None
    try:
        return watch.gone(change.object) if change.type == "DELETED" else watch.seen(change.object)
    except objects.DecodeError:
        return None


def _name(thing: Json) -> str:
    return str(thing["metadata"]["name"])
