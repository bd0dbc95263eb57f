"""Gangs that were hurt, gangs that may be larger than they must, finished members, and groups without members.

Members that somebody would replace have a ConfigMap as their controller: the tests make the replacements themselves,
so that it is known when they come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e import kube as kube_module
from e2e import objects, waiting
from e2e.cluster.muster import Replica
from e2e.scenes import EXPECTED, SOON, Scene

MakeNodes = Callable[..., list[str]]
Object = dict[str, Any]
#: how long a gang below its minimum is borne by the queue of these tests
STALE = 6


@pytest.fixture
def scene(kube: kube_module.Kube, muster: Replica, namespace: str) -> Scene:
    return Scene(kube, muster, namespace)


@pytest.fixture
def owner(kube: kube_module.Kube, namespace: str) -> Object:
    """Something that may be the controller of pods."""
    meta = {"name": "owner", "namespace": namespace}
    return kube.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})


@pytest.fixture
def stale_queue(kube: kube_module.Kube, namespace: str) -> Iterator[str]:
    """A queue that bears a gang below its minimum for a few seconds."""
    kube.create(objects.queue(namespace, staleSeconds=STALE))
    yield namespace
    kube.delete("queues.muster.dev", namespace)


def status(scene: Scene, name: str) -> Object:
    """The status of a group of ours."""
    found: Object = scene.get_group(name).get("status") or {}
    return found


def wait_status(scene: Scene, name: str, **fields: Any) -> Object:
    """Wait until the group's status has these fields."""
    return waiting.wait_for(
        lambda: status(scene, name),
        SOON,
        f"{name} says {fields}",
        until=lambda said: all(said.get(key) == value for key, value in fields.items()),
    )


# --- members above the minimum -----------------------------------------------------------------------


def test_members_above_the_minimum_come_as_room_appears_and_come_back(
    scene: Scene, make_nodes: MakeNodes, owner: Object
) -> None:
    (node,) = make_nodes(1)
    scene.fill(node, 4, "filler-0")
    scene.fill(node, 1, "filler-1")
    scene.group("e", 2)
    scene.gang("e", 6, owner=owner)
    scene.wait_whole("e", 3)
    scene.wait_running("e")
    scene.wait_says("e", "InsufficientResources")
    assert scene.phase("e") == "Running", "what waits is not needed"
    scene.delete("filler-1")
    scene.wait_bound("e", 4)
    scene.delete("filler-0")
    scene.wait_whole("e", 6)
    wait_status(scene, "e", phase="Running", reason=None)
    lost = ("e-4", "e-5")
    scene.delete(*lost)
    scene.wait_bound("e", 4)
    assert scene.phase("e") == "Running"
    scene.gang("e", 2, first=6, owner=owner)
    scene.wait_whole("e", 6)
    scene.wait_sound()


def test_of_what_appears_a_minimum_gets_its_part_before_more_of_a_group_that_runs(
    scene: Scene, make_nodes: MakeNodes
) -> None:
    (node,) = make_nodes(1)
    scene.fill(node, 5)
    scene.group("e", 2)
    scene.gang("e", 6)
    scene.wait_whole("e", 3)
    scene.group("late", 4)
    scene.gang("late", 5)
    scene.wait_says("late", "InsufficientResources")
    scene.delete("filler")
    scene.wait_whole("late", 4)
    assert len(scene.wait_bound("e", 4)) == 4
    scene.wait_sound()


# --- gangs that were hurt ----------------------------------------------------------------------------


def test_the_room_of_a_lost_member_is_for_its_replacement_whoever_waits(
    scene: Scene, make_nodes: MakeNodes, owner: Object
) -> None:
    make_nodes(1)
    scene.group("hurt", 8)
    scene.gang("hurt", 8, owner=owner)
    scene.wait_whole("hurt", 8)
    scene.group("waits", 1)
    scene.gang("waits", 1)
    scene.wait_says("waits", "InsufficientResources")
    scene.delete("hurt-3")
    waiting.holds_for(lambda: not scene.bound("waits"), 2.0, "the room is kept")
    scene.gang("hurt", 1, first=8, owner=owner)
    scene.wait_whole("hurt", 8)
    assert not scene.bound("waits")
    # and when nobody comes, it is kept no longer than that
    scene.delete("hurt-8")
    scene.wait_bound("waits", 1, EXPECTED + SOON)
    wait_status(scene, "hurt", phase="Pending", reason="WaitingForMembers")
    assert len(scene.bound("hurt")) == 7, "no queue of its says that it is to go"
    scene.wait_sound()


def test_a_gang_that_stays_below_its_minimum_goes_whole_when_its_queue_says_so(
    scene: Scene, make_nodes: MakeNodes, owner: Object, stale_queue: str
) -> None:
    make_nodes(1)
    scene.group("hurt", 4, queue=stale_queue)
    scene.gang("hurt", 2, owner=owner)
    scene.gang("hurt", 2, first=2)
    scene.wait_whole("hurt", 4)
    scene.group("waits", 8)
    scene.gang("waits", 8)
    scene.wait_says("waits", "InsufficientResources")
    scene.delete("hurt-0")
    waiting.holds_for(lambda: len(scene.bound("hurt")) == 3, STALE - 3, "it is borne for a while")
    scene.wait_bound("hurt", 0)
    scene.wait_whole("waits", 8)
    said = wait_status(scene, "hurt", phase="Pending")
    assert said["lastEviction"]["rule"] == "BelowMinimum"
    assert "have 3, minimum 4" in said["lastEviction"]["message"]
    evicted = {event["involvedObject"]["name"] for event in scene.events("Pod") if event["reason"] == "BelowMinimum"}
    assert evicted == {"hurt-1", "hurt-2", "hurt-3"}
    scene.wait_sound()


# --- members that have finished, and groups that have no members --------------------------------------


def test_a_member_that_finished_and_is_gone_counts_for_extender_and_gate(
    scene: Scene, make_nodes: MakeNodes, owner: Object, stale_queue: str
) -> None:
    make_nodes(1)
    scene.group("g", 4, queue=stale_queue)
    scene.gang("g", 4, owner=owner)
    scene.wait_whole("g", 4)
    scene.kube.patch("pods", "g-0", {"status": {"phase": "Succeeded"}}, scene.namespace, subresource="status")
    wait_status(scene, "g", phase="Running")
    scene.delete("g-0", "g-2")
    scene.wait_bound("g", 2)
    scene.gang("g", 1, first=4, owner=owner)
    scene.wait_whole("g", 3)
    waiting.holds_for(lambda: len(scene.bound("g")) == 3, STALE + 2, "nobody is evicted")
    scene.wait_sound()


def test_a_group_without_members_says_that_it_waits_for_them(scene: Scene, make_nodes: MakeNodes) -> None:
    make_nodes(1)
    scene.group("empty", 3)
    scene.group("emptied", 2)
    scene.gang("emptied", 2)
    scene.wait_whole("emptied", 2)
    scene.wait_running("emptied")
    scene.delete("emptied-0", "emptied-1")
    said = wait_status(scene, "emptied", phase="Pending", reason="WaitingForMembers", members=0)
    assert "have 0, minimum 2" in said["message"]
    said = wait_status(scene, "empty", phase="Pending", reason="WaitingForMembers", members=0)
    assert "have 0, minimum 3" in said["message"]
    scene.gang("emptied", 2, first=2)
    scene.wait_whole("emptied", 2)
    scene.wait_running("emptied")
    scene.wait_sound()
