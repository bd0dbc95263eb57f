"""What changes while a gang is on its way: members, nodes, minimums; members that disagree; members that never come.

Most gangs here are of four members on nodes of one GPU. Three exist, so that they are held at the gate, as long as
the fourth is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e import kube, objects, waiting
from e2e.cluster.muster import Replica
from e2e.scenes import ANSWERED_WITHIN, EXPECTED, SOON, Scene, priority_classes, uids

MakeNodes = Callable[..., list[str]]
SOURCES = ["muster", "native", "scheduler-plugins", "volcano"]


@pytest.fixture
def elsewhere(kube: kube.Kube, muster: Replica, namespace: str) -> Iterator[Scene]:
    """A second namespace."""
    other = f"{namespace}-b"
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    waiting.wait_for(lambda: kube.find("serviceaccounts", "default", other), SOON, "its service account")
    yield Scene(kube, muster, other)
    kube.delete("namespaces", other)
    kube.delete_all("pods", other, grace=0)


def hold_three_of_four(scene: Scene) -> dict[str, str]:
    """A gang of which three members are held; gives their nodes."""
    scene.group("g", 4)
    scene.gang("g", 3)
    return scene.wait_held("g", 3, EXPECTED / 2)


def uid_of(scene: Scene, name: str) -> str:
    return str(scene.kube.get("pods", name, scene.namespace)["metadata"]["uid"])


# -- members


def test_of_a_member_deleted_while_held_only_its_own_call_is_answered(scene: Scene, make_nodes: MakeNodes) -> None:
    make_nodes(4, gpus=1)
    hold_three_of_four(scene)
    gone = uid_of(scene, "g-1")
    scene.delete("g-1")
    scene.wait_answered([gone])
    assert sorted(scene.held("g")) == ["g-0", "g-2"]
    assert scene.bound("g") == {}
    scene.gang("g", 2, first=3)
    scene.wait_started("g", 4)
    scene.wait_sound()


def test_a_member_created_anew_under_its_old_name_is_another_member(scene: Scene, make_nodes: MakeNodes) -> None:
    make_nodes(4, gpus=1)
    hold_three_of_four(scene)
    gone = uid_of(scene, "g-0")
    scene.delete("g-0")
    scene.gang("g", 1)
    scene.wait_answered([gone])
    scene.wait_held("g", 3)
    scene.gang("g", 1, first=3)
    scene.wait_started("g", 4)
    scene.wait_sound()


# -- nodes


@pytest.mark.parametrize("loss", ["deleted", "cordoned"])
def test_when_the_node_of_a_held_member_is(scene: Scene, make_nodes: MakeNodes, loss: str) -> None:
    """Its call is answered, the others stay held, and the gang starts without that node."""
    make_nodes(5, gpus=1)
    placed = hold_three_of_four(scene)
    lost = placed["g-1"]
    before = {hold["uid"]: hold["node"] for hold in scene.replica.holds()["holds"]}
    if loss == "deleted":
        scene.kube.delete("nodes", lost)
    else:
        scene.kube.patch("nodes", lost, {"spec": {"unschedulable": True}})
    waiting.wait_for(scene.held, ANSWERED_WITHIN, "its call is answered", until=lambda held: lost not in held.values())
    after = {hold["uid"]: hold["node"] for hold in scene.replica.holds()["holds"]}
    kept = {uid: node for uid, node in before.items() if node != lost}
    assert kept.items() <= after.items()
    scene.gang("g", 1, first=3)
    # the member that lost its node sits out its back-off first
    placed = scene.wait_bound("g", 4)
    assert lost not in placed.values()
    scene.wait_sound()


# -- minimums


def test_a_minimum_raised_while_its_members_are_held_is_kept(scene: Scene, make_nodes: MakeNodes) -> None:
    make_nodes(6, gpus=1)
    hold_three_of_four(scene)
    scene.kube.patch("podgroups.muster.dev", "g", {"spec": {"minMember": 5}}, scene.namespace)
    scene.gang("g", 1, first=3)
    scene.wait_held("g", 4)
    assert scene.bound("g") == {}
    scene.gang("g", 1, first=4)
    scene.wait_started("g", 5)
    scene.wait_sound()


def test_a_minimum_lowered_while_its_members_are_held_lets_them_start(scene: Scene, make_nodes: MakeNodes) -> None:
    make_nodes(4, gpus=1)
    hold_three_of_four(scene)
    scene.kube.patch("podgroups.muster.dev", "g", {"spec": {"minMember": 3}}, scene.namespace)
    scene.wait_started("g", 3)
    scene.wait_sound()


# -- members that disagree


def test_the_priority_of_a_group_is_that_of_its_lowest_member(scene: Scene, make_nodes: MakeNodes) -> None:
    make_nodes(1, gpus=1)
    prefix = scene.namespace
    classes = {f"{prefix}-low": 10, f"{prefix}-middle": 20, f"{prefix}-high": 30}
    with priority_classes(scene.kube, **classes):
        for group, named in (("mixed", ("high", "low")), ("even", ("middle", "middle"))):
            scene.group(group, 2)
            for number, name in enumerate(named):
                scene.gang(group, 1, first=number, spec={"priorityClassName": f"{prefix}-{name}"})
            scene.wait_says(group, "InsufficientResources")
        make_nodes(1, gpus=2)
        scene.wait_started("even", 2)
        scene.wait_sound()
        assert scene.bound("mixed") == {}


def test_members_that_name_different_queues_wait_and_the_status_names_both(
    scene: Scene, make_nodes: MakeNodes, queue: str
) -> None:
    make_nodes(2)
    scene.group("g", 2)
    scene.gang("g", 1, queue=queue)
    scene.gang("g", 1, first=1, queue="red")
    scene.wait_says("g", "InvalidRequest")
    said = scene.message("g")
    assert "members name different queues" in said
    assert queue in said
    assert "red" in said
    scene.delete("g-1")
    scene.gang("g", 1, first=2, queue=queue)
    scene.wait_started("g", 2)


def test_a_member_of_another_scheduler_counts_once_it_is_bound(scene: Scene, make_nodes: MakeNodes) -> None:
    nodes = make_nodes(2)
    scene.group("g", 3)
    foreign = scene.gang("g", 1, scheduler="somebody-else")
    assert not foreign[0]["spec"].get("schedulingGates")
    scene.gang("g", 2, first=1)
    scene.wait_held("g", 2)
    assert scene.bound("g") == {}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "g-0"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": nodes[1]},
    }
    path = scene.kube.resource("pods").path(scene.namespace, "g-0", "binding")
    scene.kube.request("POST", path, binding)
    assert scene.wait_started("g", 3)["g-0"] == nodes[1]
    scene.wait_sound()


# -- members and objects that do not come


@pytest.mark.parametrize("source", SOURCES)
def test_a_mark_whose_object_is_missing_waits_until_it_comes(scene: Scene, make_nodes: MakeNodes, source: str) -> None:
    if not scene.kube.serves(objects.GROUP_API[source], "PodGroup"):
        # Where the server has no such objects it drops the mark too: there is nothing to wait for.
        member = scene.kube.create(objects.pod("p", scene.namespace, group="g", source=source))
        assert "schedulingGroup" not in member["spec"]
        return
    make_nodes(1)
    scene.gang("g", 2, source=source, queue="default")
    for number in range(2):
        scene.wait_text(f"g-{number}", "the pod group that this pod names does not exist")
    assert scene.bound("g") == {}
    assert scene.held("g") == {}
    scene.group("g", 2, source)
    scene.wait_started("g", 2)
    scene.wait_sound()


def test_when_a_quota_refuses_siblings_all_calls_are_answered_the_room_is_freed_and_later_it_starts(
    scene: Scene, elsewhere: Scene, make_nodes: MakeNodes
) -> None:
    make_nodes(4, gpus=1)
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": scene.namespace}}
    scene.kube.create(quota | {"spec": {"hard": {"pods": "3"}}})
    waiting.wait_for(
        lambda: scene.kube.get("resourcequotas", "q", scene.namespace).get("status", {}).get("hard"), SOON, "quota acts"
    )
    hold_three_of_four(scene)
    with pytest.raises(kube.ApiError) as caught:
        scene.gang("g", 1, first=3)
    assert caught.value.status == 403
    held = scene.held_uids()
    # Meanwhile the room is kept, also that of the fourth; then all of it is everybody's.
    elsewhere.group("other", 4)
    elsewhere.gang("other", 4)
    elsewhere.wait_says("other", "InsufficientResources", deadline=EXPECTED / 2)
    scene.wait_says("g", "WaitingForMembers", deadline=EXPECTED + 5)
    scene.wait_answered(held)
    assert scene.bound("g") == {}
    elsewhere.wait_started("other", 4)
    elsewhere.kube.delete_all("pods", elsewhere.namespace, grace=0)
    scene.kube.patch("resourcequotas", "q", {"spec": {"hard": {"pods": "4"}}}, scene.namespace)
    waiting.wait_for(lambda: scene.gang("g", 1, first=3), SOON, "the fourth is created")
    scene.wait_bound("g", 4)
    scene.wait_sound()


def test_a_deadline_of_its_own_calls_a_start_off(scene: Scene, make_nodes: MakeNodes) -> None:
    """scheduleTimeoutSeconds is shorter than the time for which missing members are expected."""
    make_nodes(4, gpus=1)
    scene.group("g", 4, spec={"scheduleTimeoutSeconds": 3})
    members: list[dict[str, Any]] = scene.gang("g", 3)
    scene.wait_held("g", 3)
    scene.wait_answered(uids(members), 3 + 1)
    assert scene.bound("g") == {}
    scene.gang("g", 1, first=3)
    scene.wait_bound("g", 4)
