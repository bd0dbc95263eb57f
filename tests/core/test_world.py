"""The newest state: indexes and sums are what counting anew gives, in whatever order events come."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core import messages
from extender.core import world as world_module
from extender.core.ids import NodeName, PodUid, QueueName, Source
from extender.core.membership import Need
from extender.core.model import Pod
from extender.core.world import World
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_node, make_pod, make_queue, make_topology, make_world

N0 = NodeName("gpu-0")


def used(world: World, node: NodeName = N0) -> dict[str, int]:
    """What is used on a node, by resource, without zeros."""
    row = world.nodes.used[world.nodes.row_of[node]]
    amounts = dict(zip(world.columns.names, row.tolist(), strict=False))
    return {name: amount for name, amount in amounts.items() if amount}


def on(pod: Pod, node: str = "gpu-0", **fields: object) -> Pod:
    return replace(builders.bound(pod, node), **fields)  # type: ignore[arg-type]


POD = make_pod("one", {GPU: 2})


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(POD, {}, id="a pod that waits uses nothing"),
        pytest.param(on(POD), {GPU: 2, "pods": 1}, id="a bound one its request"),
        pytest.param(on(POD, scheduler="s"), {GPU: 2, "pods": 1}, id="of any scheduler"),
        pytest.param(on(POD, terminating=True), {GPU: 2, "pods": 1}, id="also while it is being deleted"),
        pytest.param(on(POD, phase="Succeeded"), {}, id="not when it ended well"),
        pytest.param(on(POD, phase="Failed"), {}, id="nor when it failed"),
    ],
)
def test_used_room(pod: Pod, expected: dict[str, int]) -> None:
    assert used(make_world(gpu_node(), pod)) == expected
    assert used(make_world(pod, gpu_node())) == expected  # the node may come later
    twice = make_world(gpu_node(), pod, pod)
    assert used(twice) == expected
    twice.apply(messages.PodGone(pod.uid))
    assert used(twice) == {}


def test_a_pod_that_is_resized_is_counted_as_it_is_now() -> None:
    world = make_world(gpu_node(), on(POD))
    builders.show(world, [on(replace(POD, shape=builders.make_shape({GPU: 5})))])
    assert used(world) == {GPU: 5, "pods": 1}


def test_a_node_that_comes_back_has_its_pods_and_a_new_node_in_its_row_has_none() -> None:
    world = make_world(gpu_node(), on(POD))
    world.apply(messages.NodeGone(N0))
    builders.show(world, [gpu_node("gpu-1")])
    assert world.nodes.row_of == {"gpu-1": 0}
    assert used(world, NodeName("gpu-1")) == {}
    builders.show(world, [gpu_node()])
    assert used(world) == {GPU: 2, "pods": 1}
    world.apply(messages.NodeGone(NodeName("gpu-7")))
    assert set(world.nodes.row_of) == {"gpu-0", "gpu-1"}


def test_late_news_do_not_bring_a_pod_back() -> None:
    world = make_world(gpu_node(), on(POD))
    world.apply(messages.PodGone(POD.uid))
    builders.show(world, [on(POD)])
    assert (world.pods, world.members, world.tallies, used(world)) == ({}, {}, {}, {})
    assert world.knows(POD.uid)
    early = PodUid("uid-never-seen")
    world.apply(messages.PodGone(early))
    assert world.knows(early)


def test_pods_that_are_gone_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_module, "_REMEMBERED_GONE", 3)
    world = World()
    for number in range(5):
        world.apply(messages.PodGone(PodUid(f"uid-{number}")))
    assert [world.knows(PodUid(f"uid-{number}")) for number in range(5)] == [False, False, True, True, True]


def test_needs_follow_members_objects_and_namespaces() -> None:
    key = builders.group_key("train")
    pod = make_pod("a", group="train", priority=5)
    world = make_world(pod, make_group("train", 2))

    def need() -> Need:
        found = world.need(key)
        assert isinstance(found, Need)
        return found

    assert (need().min_member, need().priority, need().queue) == (2, 5, "default")
    builders.show(world, [make_pod("b", group="train", priority=1)])
    assert need().priority == 1
    world.apply(messages.PodGone(PodUid("uid-b")))
    assert need().priority == 5
    builders.show(world, [make_group("train", 3)])
    assert need().min_member == 3
    world.apply(messages.NamespaceSeen("team", QueueName("red")))
    assert need().queue == "red"
    world.apply(messages.NamespaceSeen("team", None))
    assert need().queue == "default"
    world.apply(messages.NamespaceSeen("team", QueueName("red")))
    assert need().queue == "red"
    world.apply(messages.NamespaceGone("team"))
    assert need().queue == "default"
    world.apply(messages.GroupGone(key))
    assert not isinstance(world.need(key), Need)


def test_objects_come_and_go_and_go_again() -> None:
    world = make_world(make_queue("red"), make_topology(), make_group("train"))
    for _ in range(2):
        world.apply(messages.QueueGone(Source.MUSTER, QueueName("red")))
        world.apply(messages.TopologyGone("network"))
        world.apply(messages.GroupGone(builders.group_key("train")))
        world.apply(messages.NamespaceGone("team"))
    assert (world.queues, world.topologies, world.groups) == ({}, {}, {})


def test_of_two_queues_of_one_name_ours_counts_for_as_long_as_it_is_there() -> None:
    red = QueueName("red")
    world = make_world(make_queue("red", weight=2), make_queue("red", source=Source.VOLCANO, weight=7))
    assert world.queues[red].weight == 2
    world.apply(messages.QueueGone(Source.MUSTER, red))
    assert world.queues[red].weight == 7
    builders.show(world, [make_queue("red", weight=3)])
    assert world.queues[red].weight == 3
    world.apply(messages.QueueGone(Source.VOLCANO, red))
    assert world.queues[red].weight == 3


def test_resources_that_pods_invent_cost_no_columns() -> None:
    world = make_world(gpu_node(), make_node("other"))
    before = (world.columns.names, world.nodes.used.shape)
    for n in range(200):
        pod = make_pod(f"p{n}", {f"example.com/r{n}": 1, GPU: 1})
        builders.show(world, [on(pod) if n % 2 else pod])
    assert (world.columns.names, world.nodes.used.shape) == before
    assert used(world) == {GPU: 100, "pods": 100}


def test_a_resource_that_a_node_offers_later_counts_for_the_pods_that_asked_before() -> None:
    odd = "example.com/r"
    there, elsewhere = on(make_pod("p", {odd: 2})), on(make_pod("q", {odd: 3}), "other")
    world = make_world(gpu_node(), make_node("other"), there, elsewhere)
    assert used(world) == {"pods": 1}
    builders.show(world, [make_node("gpu-0", {odd: 4})])
    assert used(world) == {odd: 2, "pods": 1}
    assert used(world, NodeName("other")) == {odd: 3, "pods": 1}
    world.apply(messages.PodGone(there.uid))
    assert used(world) == {}


def test_an_event_of_no_known_kind_is_a_fault() -> None:
    with pytest.raises(KeyError):
        World().apply(messages.Tick())  # type: ignore[arg-type]


def test_only_what_placement_looks_at_touches_a_row() -> None:
    world = make_world(gpu_node())
    before = list(world.nodes.touched)
    builders.show(world, [gpu_node(gpus=4)])
    assert world.nodes.touched == before
    builders.show(world, [gpu_node(gpus=4, labels={"rack": "r1"})])
    builders.show(world, [gpu_node(gpus=4, labels={"rack": "r1"}, ready=False)])
    world.apply(messages.NodeGone(N0))
    assert world.nodes.touched == [*before, 0, 0, 0]


pods = st.builds(
    lambda n, gpus, **fields: make_pod(f"p{n}", {GPU: gpus, **({f"example.com/r{n}": 1} if n > 2 else {})}, **fields),
    st.integers(0, 11),
    st.integers(0, 3),
    group=st.sampled_from((None, "a", "b")),
    node=st.sampled_from((None, "n0", "n1", "n2")),
    phase=st.sampled_from(("Pending", "Running", "Succeeded", "Failed")),
    terminating=st.booleans(),
)
nodes = st.builds(
    lambda n, gpus, odd: make_node(f"n{n}", {"cpu": 96_000, GPU: gpus, **{f"example.com/r{r}": 5 for r in odd}}),
    st.integers(0, 2),
    st.integers(0, 8),
    st.sets(st.integers(3, 11), max_size=3),
)
events = st.one_of(
    pods.map(messages.PodSeen),
    st.integers(0, 11).map(lambda n: messages.PodGone(PodUid(f"uid-p{n}"))),
    nodes.map(messages.NodeSeen),
    st.integers(0, 2).map(lambda n: messages.NodeGone(NodeName(f"n{n}"))),
)


class Plain:
    """The newest state, kept in the plainest way."""

    def __init__(self) -> None:
        self.pods: dict[PodUid, Pod] = {}
        self.nodes: dict[NodeName, builders.Node] = {}
        self.offered = {"cpu", "memory", "pods"}
        self._gone: set[PodUid] = set()

    def apply(self, event: messages.WorldEvent) -> None:
        match event:
            case messages.PodSeen(pod) if pod.uid not in self._gone:
                self.pods[pod.uid] = pod
            case messages.PodGone(uid):
                self._gone.add(uid)
                self.pods.pop(uid, None)
            case messages.NodeSeen(node):
                self.nodes[node.name] = node
                self.offered |= {name for name, _ in node.allocatable}
            case messages.NodeGone(name):
                self.nodes.pop(name, None)

    def used(self, name: NodeName) -> dict[str, int]:
        found: dict[str, int] = {}
        for pod in self.pods.values():
            if pod.node == name and not pod.ended:
                for resource, amount in pod.shape.request:
                    found[resource] = found.get(resource, 0) + amount
        return {resource: amount for resource, amount in found.items() if amount and resource in self.offered}


@given(st.lists(events, max_size=40))
def test_sums_and_indexes_are_what_counting_anew_gives(happened: list[messages.WorldEvent]) -> None:
    world, plain = World(), Plain()
    for event in happened:
        world.apply(event)
        plain.apply(event)
    assert world.pods == plain.pods
    assert world.nodes.row_of.keys() == plain.nodes.keys()
    for name, node in plain.nodes.items():
        assert used(world, name) == plain.used(name)
        row = world.nodes.allocatable[world.nodes.row_of[name]]
        there = dict(zip(world.columns.names, row.tolist(), strict=False))
        assert {resource: there[resource] for resource, _ in node.allocatable} == dict(node.allocatable)
        assert int((row != 0).sum()) == len(node.allocatable)
    assert set(world.columns.names) == plain.offered
    groups = {pod.group for pod in plain.pods.values()}
    assert world.members.keys() == world.tallies.keys() == groups
    for key in groups:
        assert world.members[key] == {uid: pod for uid, pod in plain.pods.items() if pod.group == key}
