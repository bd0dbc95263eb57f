"""Groups of every source in one cluster at once, what their objects say, and where a topology puts their members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from e2e import kube, objects, scenes, waiting
from e2e.scenes import SOON, Scene

MakeNodes = Callable[..., list[str]]
MIN_MEMBER = "muster.dev/min-member"
KUEUE_COUNT = "kueue.x-k8s.io/pod-group-total-count"


def served(scene: Scene) -> list[str]:
    """The sources of which this server has group objects."""
    return [source for source, version in objects.GROUP_API.items() if scene.kube.serves(version, "PodGroup")]


def state_of(scene: Scene, name: str, source: str) -> str:
    """What the group's object says of its start: Running, Pending, or nothing yet, in the words of its source."""
    status = scene.get_group(name, source).get("status") or {}
    if source != "native":
        return str(status.get("phase", ""))
    conditions = {entry["type"]: entry["status"] for entry in status.get("conditions") or []}
    return {"True": "Running", "False": "Pending"}.get(conditions.get("PodGroupInitiallyScheduled", ""), "")


def wait_states(scene: Scene, names: dict[str, str], state: str) -> None:
    waiting.wait_for(
        lambda: {name: state_of(scene, name, source) for name, source in names.items()},
        SOON,
        f"all say {state}",
        until=lambda found: set(found.values()) == {state},
    )


# -- all sources at once


def test_groups_of_all_sources_before_and_after_their_objects_and_lone_pods_start_beside_each_other(
    scene: Scene, make_nodes: MakeNodes
) -> None:
    make_nodes(8)
    sources = served(scene)
    # <source>-first has its object before its members, <source>-last after them.
    names = {f"{source}-{when}": source for source in sources for when in ("first", "last")}
    for source in sources:
        scene.group(f"{source}-first", 3, source)
    for number in range(3):
        for name, source in names.items():
            scene.gang(name, 1, first=number, source=source)
        scene.gang("label", 1, first=number, source="label", annotations={MIN_MEMBER: "3"})
        scene.gang("kueue", 1, first=number, source="kueue", annotations={KUEUE_COUNT: "3"})
        scene.pod(f"lone-{number}")
        scene.pod(f"other-{number}", scheduler="default-scheduler")
    for source in sources:
        scene.wait_bound(f"{source}-first", 3)
        assert scene.bound(f"{source}-last") == {}
    for source in sources:
        scene.group(f"{source}-last", 3, source)
    for name in [*names, "label", "kueue", "lone", "other"]:
        scene.wait_bound(name, 3)
    wait_states(scene, names, "Running")
    for name, source in names.items():
        assert scene.said(name, source) == ""
    scene.wait_sound()
    assert_events_are_of_groups_only(scene, set(names))


def test_groups_of_all_sources_that_wait_say_why_in_their_own_object(scene: Scene, make_nodes: MakeNodes) -> None:
    make_nodes(1, gpus=2)
    names = {source: source for source in served(scene)}
    for name, source in names.items():
        scene.group(name, 3, source)
        scene.gang(name, 3, source=source)
    for name, source in names.items():
        scene.wait_says(name, "InsufficientResources", source)
        assert state_of(scene, name, source) == "Pending"
    assert scene.bound() == {}
    assert "asked 3, free 2" in scene.message("muster")
    assert_events_are_of_groups_only(scene, set(names))
    make_nodes(1, gpus=4 * 3)
    for name in names:
        scene.wait_bound(name, 3)
    wait_states(scene, names, "Running")
    for name, source in names.items():
        waiting.wait_for(
            lambda name=name, source=source: scene.said(name, source), SOON, "no reason", until=lambda why: not why
        )


def assert_events_are_of_groups_only(scene: Scene, names: set[str]) -> None:
    """Each group has an Event of ours, and no pod has one."""
    waiting.wait_for(
        lambda: {event["involvedObject"]["name"] for event in scene.events("PodGroup")},
        SOON,
        "each group has an Event",
        until=lambda found: found == names,
    )
    assert scene.events("Pod") == []


@pytest.mark.parametrize(
    "second",
    [
        pytest.param({MIN_MEMBER: "3"}, id="another minimum"),
        pytest.param({}, id="none"),
        pytest.param({MIN_MEMBER: "two"}, id="no number"),
    ],
)
def test_members_without_an_object_must_agree_on_their_minimum(
    scene: Scene, make_nodes: MakeNodes, second: dict[str, str]
) -> None:
    make_nodes(1)
    scene.gang("g", 1, source="label", annotations={MIN_MEMBER: "2"}, queue="default")
    scene.gang("g", 1, first=1, source="label", annotations=second, queue="default")
    for number in range(2):
        scene.wait_text(f"g-{number}", "the pod group's request is invalid")
    assert scene.bound("g") == {}


def test_pods_of_other_schedulers_are_left_as_they_are(scene: Scene, make_nodes: MakeNodes) -> None:
    make_nodes(1)
    foreign = scene.pod("foreign", scheduler="somebody-else", queue="nowhere")
    lone = scene.pod("lone")
    assert lone["spec"]["schedulerName"] == "muster"
    scene.wait_bound("", 1)
    assert list(scene.bound()) == ["lone"]
    assert scene.kube.get("pods", "foreign", scene.namespace) == foreign


# -- objects of others that hold anything


BAD: list[tuple[str, str, dict[str, Any], str]] = [
    ("scheduler-plugins", "no number", {"minMember": "many"}, "spec.minMember"),
    ("scheduler-plugins", "negative", {"minMember": -1}, "spec.minMember"),
    ("scheduler-plugins", "huge", {"minMember": 2**62}, "spec.minMember"),
    ("volcano", "a list for a map", {"minTaskMember": ["worker"]}, "spec.minTaskMember"),
    ("volcano", "half a member", {"minTaskMember": {"worker": 0.5}}, "spec.minTaskMember[worker]"),
    ("volcano", "a queue that is a number", {"queue": 7}, "spec.queue"),
]


def test_objects_with_impossible_values_are_named_and_all_else_goes_on(scene: Scene, make_nodes: MakeNodes) -> None:
    make_nodes(2)
    for number, (source, _, spec, _) in enumerate(BAD):
        scene.group(f"bad{number}", 1, source, spec=spec)
        scene.gang(f"bad{number}", 1, source=source)
    for source in served(scene):
        scene.group(source, 2, source)
        scene.gang(source, 2, source=source)
    for number, (source, what, _, field) in enumerate(BAD):
        scene.wait_says(f"bad{number}", "InvalidRequest", source)
        told = str(scene.get_group(f"bad{number}", source))
        assert field in told, what
        assert scene.bound(f"bad{number}") == {}
    for source in served(scene):
        scene.wait_bound(source, 2)
    # Mended, it starts.
    scene.kube.patch("podgroups.scheduling.x-k8s.io", "bad0", {"spec": {"minMember": 1}}, scene.namespace)
    scene.wait_started("bad0", 1)


def test_a_priority_class_of_a_group_lowers_it_as_soon_as_there_is_one(
    scene: Scene, make_nodes: MakeNodes, queue: str
) -> None:
    (node,) = make_nodes(1)
    scene.fill(node, 8)
    low = f"{scene.namespace}-low"
    for source in ("muster", "volcano"):
        scene.group(source, 1, source, queue=queue, spec={"priorityClassName": low})
        scene.gang(source, 1, gpus=8, source=source)
        scene.wait_says(source, "InvalidRequest", source)
        assert f"there is no PriorityClass {low}" in str(scene.get_group(source, source))
    scene.group("later", 1, queue=queue)
    scene.gang("later", 1, gpus=8)
    with scenes.priority_classes(scene.kube, **{low: -5}):
        for source in ("muster", "volcano"):
            scene.wait_says(source, "InsufficientResources", source)
        scene.delete("filler")
        scene.wait_bound("later", 1)
        assert (scene.bound("muster"), scene.bound("volcano")) == ({}, {})


# -- topology


@pytest.fixture
def racks(scene: Scene, make_nodes: MakeNodes) -> dict[str, str]:
    """Two blocks of two racks of two nodes of 4 GPUs, and a Topology that says so; node: rack."""
    name = f"{scene.namespace}-net"
    scene.kube.apply(objects.topology(name, [objects.BLOCK, objects.RACK]))
    of: dict[str, str] = {}
    for block in ("b0", "b1"):
        for rack in ("r0", "r1"):
            of |= dict.fromkeys(make_nodes(2, gpus=4, rack=f"{block}{rack}", block=block), f"{block}{rack}")
    return of


@pytest.fixture(autouse=True)
def no_topology_is_left(kube: kube.Kube, namespace: str) -> Any:
    yield
    kube.delete("topologies.muster.dev", f"{namespace}-net")


def test_a_required_level_holds_the_whole_gang_or_it_waits(scene: Scene, racks: dict[str, str]) -> None:
    scene.group("fits", 8, spec={"topology": {"required": objects.RACK}})
    scene.gang("fits", 8)
    placed = scene.wait_bound("fits", 8)
    assert len({racks[node] for node in placed.values()}) == 1
    scene.group("large", 9, spec={"topology": {"required": objects.RACK}})
    scene.gang("large", 9)
    scene.wait_says("large", "TopologyUnsatisfied")
    assert f"level {objects.RACK}" in scene.message("large")
    assert scene.bound("large") == {}
    # All in one block is possible: two racks of the block where none of `fits` is.
    scene.group("block", 16, spec={"topology": {"required": objects.BLOCK}})
    scene.gang("block", 16)
    placed = scene.wait_bound("block", 16)
    assert len({racks[node][:2] for node in placed.values()}) == 1


def test_a_preferred_level_takes_the_narrowest_domain_that_fits(scene: Scene, racks: dict[str, str]) -> None:
    prefer = {"topology": {"preferred": objects.RACK}}
    scene.group("rack", 5, spec=prefer)
    scene.gang("rack", 5)
    used = {racks[node] for node in scene.wait_bound("rack", 5).values()}
    assert len(used) == 1
    scene.group("block", 12, spec=prefer)
    scene.gang("block", 12)
    used = {racks[node] for node in scene.wait_bound("block", 12).values()}
    assert len(used) == 2
    assert len({rack[:2] for rack in used}) == 1
    scene.group("any", 15, spec=prefer)
    scene.gang("any", 15)
    assert len({racks[node][:2] for node in scene.wait_bound("any", 15).values()}) == 2


def test_a_level_that_no_topology_has_is_named(scene: Scene, racks: dict[str, str]) -> None:
    scene.group("g", 2, spec={"topology": {"required": "example.com/row"}})
    scene.gang("g", 2)
    scene.wait_says("g", "TopologyUnsatisfied")
    assert "level example.com/row" in scene.message("g")
    assert scene.bound("g") == {}


def test_a_node_without_the_label_is_in_no_domain(scene: Scene, racks: dict[str, str], make_nodes: MakeNodes) -> None:
    make_nodes(1, gpus=32)
    scene.group("g", 9, spec={"topology": {"required": objects.RACK}})
    scene.gang("g", 9)
    scene.wait_says("g", "TopologyUnlabelled")
    scene.group("free", 32)
    scene.gang("free", 32)
    assert sum(Counter(scene.wait_bound("free", 32).values()).values()) == 32
    assert scene.bound("g") == {}


def test_members_of_unequal_tasks_share_the_required_domain(scene: Scene, racks: dict[str, str]) -> None:
    scene.group("job", 5, tasks={"launcher": 1, "worker": 4}, spec={"topology": {"required": objects.RACK}})
    scene.gang("job", 1, gpus=0, task="launcher")
    scene.gang("job", 4, gpus=2, first=1, task="worker")
    placed = scene.wait_bound("job", 5)
    assert len({racks[node] for node in placed.values()}) == 1
