"""Watches as events of the core, the same for both processes.

Takes an Api and rows of a table (resource, how an object becomes an event, how its end does), gives events
to a callback in order; must not decide anything. Decoding is done here, so that nobody holds raw objects.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from extender.core import messages
from extender.core.ids import GroupKey, NodeName, PodUid, QueueName, Source
from extender.kube import client, observing, resources, watch
from extender.kube.identities import Identity
from extender.wire import objects

Put = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Feed:
    """One watched resource: `seen` decodes an object into an event, `gone` names one that ended."""

    resource: resources.Resource
    seen: Callable[[dict[str, Any]], Any]
    gone: Callable[[Identity], Any]


def _group_feed(source: Source, resource: resources.Resource) -> Feed:
    return Feed(
        resource,
        lambda content: messages.GroupSeen(objects.decode_group(source, content)),
        lambda identity: messages.GroupGone(GroupKey(source, identity.namespace, identity.name)),
    )


def _queue_feed(source: Source, resource: resources.Resource) -> Feed:
    return Feed(
        resource,
        lambda content: messages.QueueSeen(objects.decode_queue(source, content)),
        lambda identity: messages.QueueGone(source, QueueName(identity.name)),
    )


GROUP_RESOURCES: dict[Source, resources.Resource] = {
    Source.NATIVE: resources.NATIVE_POD_GROUPS,
    Source.SCHEDULER_PLUGINS: resources.PLUGIN_POD_GROUPS,
    Source.VOLCANO: resources.VOLCANO_POD_GROUPS,
    Source.MUSTER: resources.POD_GROUPS,
}

QUEUE_RESOURCES: dict[Source, resources.Resource] = {
    Source.MUSTER: resources.QUEUES,
    Source.VOLCANO: resources.VOLCANO_QUEUES,
}

#: what both processes need: pods, nodes and groups of every source
GANGS = (
    Feed(
        resources.PODS,
        lambda content: messages.PodSeen(objects.decode_pod(content)),
        lambda identity: messages.PodGone(PodUid(identity.uid)),
    ),
    Feed(
        resources.NODES,
        lambda content: messages.NodeSeen(objects.decode_node(content)),
        lambda identity: messages.NodeGone(NodeName(identity.name)),
    ),
    *(_group_feed(source, resource) for source, resource in GROUP_RESOURCES.items()),
)

#: what only the engine needs
QUEUES = (
    Feed(
        resources.NAMESPACES,
        lambda content: messages.NamespaceSeen(*objects.decode_namespace(content)),
        lambda identity: messages.NamespaceGone(identity.name),
    ),
    *(_queue_feed(source, resource) for source, resource in QUEUE_RESOURCES.items()),
    Feed(
        resources.TOPOLOGIES,
        lambda content: messages.TopologySeen(objects.decode_topology(content)),
        lambda identity: messages.TopologyGone(identity.name),
    ),
    Feed(
        resources.KUEUE_TOPOLOGIES,
        lambda content: messages.TopologySeen(objects.decode_kueue_topology(content)),
        lambda identity: messages.TopologyGone(objects.kueue_topology(identity.name)),
    ),
    Feed(
        resources.HYPERNODES,
        lambda content: messages.HyperNodeSeen(objects.decode_hypernode(content)),
        lambda identity: messages.HyperNodeGone(identity.name),
    ),
    Feed(
        resources.BUDGETS,
        lambda content: messages.BudgetSeen(objects.decode_budget(content)),
        lambda identity: messages.BudgetGone(identity.namespace, identity.name),
    ),
    Feed(
        resources.PRIORITY_CLASSES,
        lambda content: messages.PriorityClassSeen(*objects.decode_priority_class(content)),
        lambda identity: messages.PriorityClassGone(identity.name),
    ),
)


async def run(
    api: client.Api,
    feed: Feed,
    put: Put,
    synced: Callable[[], None],
    observer: observing.Observer,
) -> None:
    """Follow one resource for ever; `synced` is called once, after the first complete list was put."""
    events = watch.follow(api, feed.resource, observer=observer, decode=feed.seen)
    async with contextlib.aclosing(events):
        async for event in events:
            if isinstance(event, watch.Synced):
                synced()
            elif event.kind == watch.DELETED:
                put(feed.gone(event.identity))
            else:
                put(event.object)
