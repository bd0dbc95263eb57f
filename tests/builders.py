"""Short ways to make the core's values in tests: every field has a default that is sound.

Takes what the test is about, gives model objects and worlds; must not hold expectations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from extender.core import messages, quota
from extender.core.allowance import Allowance
from extender.core.feasibility import Feasibility
from extender.core.ids import NO_TASK, GroupKey, NodeName, PodUid, QueueName, Source, TaskName
from extender.core.model import Budget, Constraints, Group, Node, Pod, Queue, Shape, Topology
from extender.core.resources import PODS, amounts
from extender.core.snapshot import Room, Snapshot
from extender.core.usage import Usage
from extender.core.world import World

GPU = "nvidia.com/gpu"
GI = 1024**3


def make_shape(request: Mapping[str, int] | None = None, **constraints: Any) -> Shape:
    """A shape; the request gets its one piece of `pods`. Constraints are those of model.Constraints."""
    asked = {"cpu": 1000, "memory": GI} if request is None else dict(request)
    return Shape(amounts({PODS: 1, **asked}), Constraints(**constraints))


def make_node(
    name: str = "node-0",
    allocatable: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
    **fields: Any,
) -> Node:
    """A ready node of 8 cores and 32 GiB, or of what is given; it takes 110 pods unless told."""
    there = {"cpu": 8000, "memory": 32 * GI} if allocatable is None else dict(allocatable)
    return Node(NodeName(name), dict(labels or {}), amounts({PODS: 110, **there}), **fields)


def gpu_node(name: str = "gpu-0", gpus: int = 8, labels: Mapping[str, str] | None = None, **fields: Any) -> Node:
    """A node of eight GPUs with 96 cores and 1 TiB."""
    return make_node(name, {"cpu": 96_000, "memory": 1024 * GI, GPU: gpus}, labels, **fields)


def group_key(name: str = "train", source: Source = Source.MUSTER, namespace: str = "team") -> GroupKey:
    """Identity of a group."""
    return GroupKey(source, namespace, name)


def make_pod(
    name: str = "pod-0",
    request: Mapping[str, int] | None = None,
    *,
    group: GroupKey | str | None = None,
    node: str | None = None,
    task: str = NO_TASK,
    constraints: Mapping[str, Any] | None = None,
    namespace: str = "team",
    **fields: Any,
) -> Pod:
    """A pending pod of ours, alone unless a group (its key or its name) is given; its uid is `uid-<name>`."""
    uid = fields.pop("uid", f"uid-{name}")
    if group is None:
        group = GroupKey(Source.POD, namespace, uid)
    elif isinstance(group, str):
        group = group_key(group, namespace=namespace)
    return Pod(
        uid=PodUid(uid),
        namespace=namespace,
        name=name,
        shape=fields.pop("shape", None) or make_shape(request, **(constraints or {})),
        group=group,
        node=NodeName(node) if node is not None else None,
        task=TaskName(task),
        **fields,
    )


def make_pods(count: int, name: str = "pod", **fields: Any) -> list[Pod]:
    """Equal pods `<name>-0`, `<name>-1` ...; fields as for make_pod."""
    return [make_pod(f"{name}-{n}", **fields) for n in range(count)]


def make_group(
    name: str = "train",
    min_member: int = 1,
    tasks: Mapping[str, int] | None = None,
    *,
    source: Source = Source.MUSTER,
    namespace: str = "team",
    queue: str | None = None,
    **fields: Any,
) -> Group:
    """A sound group object."""
    key = group_key(name, source, namespace)
    return Group(
        key=key,
        uid=f"uid-of-{name}",
        min_member=min_member,
        tasks=tuple((TaskName(task), least) for task, least in sorted((tasks or {}).items())),
        queue=QueueName(queue) if queue is not None else None,
        **fields,
    )


def make_topology(*levels: str, name: str = "network") -> Topology:
    """A topology of these levels; block and rack when none are given."""
    return Topology(name, levels or ("block", "rack"))


def make_queue(name: str = "research", **fields: Any) -> Queue:
    """A queue."""
    return Queue(QueueName(name), **fields)


def bound(pod: Pod, node: str, at: float = 0.0) -> Pod:
    """The pod as it stands on a node."""
    return replace(pod, node=NodeName(node), phase="Running", gates=(), bound_at=at)


def make_world(*things: Node | Pod | Group | Topology | Queue) -> World:
    """A world that has seen these objects, in this order."""
    world = World()
    show(world, things)
    return world


def show(world: World, things: Iterable[Node | Pod | Group | Topology | Queue]) -> None:
    """Let the world see these objects."""
    for thing in things:
        world.apply(seen(thing))


def seen(thing: Node | Pod | Group | Topology | Queue | Budget) -> messages.WorldEvent:
    """The event that shows an object."""
    match thing:
        case Node():
            return messages.NodeSeen(thing)
        case Pod():
            return messages.PodSeen(thing)
        case Group():
            return messages.GroupSeen(thing)
        case Topology():
            return messages.TopologySeen(thing)
        case Queue():
            return messages.QueueSeen(thing)
        case Budget():
            return messages.BudgetSeen(thing)


def make_room(*things: Node | Pod | Topology) -> Room:
    """Free room of a world that has seen these objects."""
    return Room(Snapshot.take(make_world(*things), Feasibility()))


def make_allowance(
    room: Room, *queues: Queue, queue: str = "default", totals: Mapping[str, int] | None = None
) -> Allowance:
    """What a group of this queue may take when nothing is used; without queues, everything."""
    usage = Usage(lambda _: QueueName(queue))
    tree = quota.Tree({one.name: one for one in queues})
    usage.follow(tree, quota.grants(tree, totals or {}))
    return Allowance(usage, QueueName(queue), room)
