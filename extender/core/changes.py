"""Which parts of an object a decision rests on: a change of anything else asks for no new one.

Takes two states of an object one after the other, gives values to compare; must not decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import replace

from extender.core.ids import NodeName
from extender.core.model import Group, Node, Pod, Queue, QueueStatus
from extender.core.usage import Charge


def judged_by(pod: Pod) -> tuple[object, ...]:
    """What of a waiting pod changes its group's judgement."""
    said = (pod.shape, pod.task, pod.queue, pod.priority, pod.declared, pod.parts, pod.prefers, pod.problems)
    return (*said, pod.planned)


def use(pod: Pod | None) -> tuple[NodeName, object, object] | None:
    """What the pod takes, and where."""
    if pod is None or pod.node is None or pod.ended:
        return None
    return (pod.node, pod.shape.request, pod.shares)


def node_facts(node: Node) -> tuple[object, ...]:
    """What of a node plans rest on."""
    return (node.labels, node.taints, node.unschedulable, node.ready, node.allocatable, node.cards, node.refusing)


def asked(group: Group | None) -> tuple[object, ...]:
    """The part of a group's object that its owner writes."""
    if group is None:
        return ()
    return (
        group.uid,
        group.min_member,
        group.tasks,
        group.queue,
        group.topology_required,
        group.topology_preferred,
        group.parts,
        group.schedule_timeout,
        group.priority,
        group.priority_class,
        group.problems,
        group.done,
    )


def domains(group: Group) -> tuple[object, ...]:
    """What a group's object says of domains that must not be left."""
    return (group.topology_required, group.parts)


def charge(pod: Pod | None, managed: Set[str]) -> Charge | None:
    """What the pod itself uses of its queue, from when it is bound; before, its reservation does.

    Pods of other schedulers use something in managed namespaces, and nothing elsewhere.
    """
    if pod is None or pod.node is None or pod.ended or not (pod.ours or pod.namespace in managed):
        return None
    return pod.group, pod.queue, pod.shape.request


def charges(before: Pod | None, pod: Pod | None, managed: Set[str]) -> Iterator[tuple[Charge, int]]:
    """What is charged from now on (1) and no more (-1), when a pod has changed so."""
    was, is_now = charge(before, managed), charge(pod, managed)
    if was != is_now:
        for found, sign in ((is_now, 1), (was, -1)):
            if found is not None:
                yield found, sign


def foreign_charges(pods: Iterable[Pod], namespace: str) -> Iterator[Charge]:
    """What the pods of other schedulers use in this namespace while it is managed."""
    for pod in pods:
        found = charge(pod, {namespace}) if pod.namespace == namespace and not pod.ours else None
        if found is not None:
            yield found


def rules(queue: Queue | None) -> Queue | None:
    """The part of a queue that its owner writes."""
    return None if queue is None else replace(queue, status=QueueStatus(), generation=0)
