"""Queues: caps at every level, what a queue is owed, why a group waits in its queue, and what Queue objects say.

Queues belong to the cluster, so each test names its own after its namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e import kube as kube_module
from e2e import objects, waiting
from e2e.cluster import manifests
from e2e.cluster.muster import Replica
from e2e.queue_trees import Queues
from e2e.scenes import SOON, Scene

GPU = objects.GPU
MakeNodes = Callable[..., list[str]]
Object = dict[str, Any]


@pytest.fixture
def scene(kube: kube_module.Kube, muster: Replica, namespace: str) -> Scene:
    return Scene(kube, muster, namespace)


@pytest.fixture
def queues(kube: kube_module.Kube, namespace: str) -> Iterator[Queues]:
    made = Queues(kube, namespace)
    yield made
    made.delete()


def gpus(number: int) -> dict[str, int]:
    return {GPU: number}


def start(scene: Scene, name: str, size: int, queue: str, **options: Any) -> None:
    """Create a group and its members in a queue."""
    scene.group(name, size, queue=queue)
    scene.gang(name, size, **options)


def wait_usage_sound(scene: Scene) -> None:
    """Wait until the gate holds nothing and what queues use agrees with the cluster."""
    scene.wait_sound()
    assert scene.replica.metric("extender", "muster_extender_usage_difference") == 0


# --- capability --------------------------------------------------------------------------------------


def test_capabilities_hold_at_two_levels_and_what_waits_starts_when_usage_falls(
    installed: manifests.Manifests, scene: Scene, queues: Queues, make_nodes: MakeNodes
) -> None:
    make_nodes(2)
    queues.make("dept", capability=gpus(6))
    a = queues.make("a", "dept", capability=gpus(4))
    b = queues.make("b", "dept")
    start(scene, "first", 4, a)
    scene.wait_whole("first", 4)
    start(scene, "own", 1, a)
    scene.wait_says("own", "QuotaExceeded")
    assert a in scene.message("own")
    start(scene, "above", 3, b)
    scene.wait_says("above", "QuotaExceeded")
    assert queues.name("dept") in scene.message("above")
    start(scene, "fits", 2, b)
    scene.wait_whole("fits", 2)
    if installed.gates_pods:
        assert all(pod["spec"].get("schedulingGates") for pod in [*scene.pods("own"), *scene.pods("above")])
    queues.wait_status("dept", gpus=6, state="Open")
    queues.wait_status("a", gpus=4, pending=1)
    scene.delete(*(f"first-{number}" for number in range(4)))
    scene.wait_started("own", 1)
    scene.wait_started("above", 3)
    queues.wait_status("dept", gpus=6, pending=0)
    wait_usage_sound(scene)


def test_a_gang_of_unequal_tasks_counts_as_a_whole(scene: Scene, queues: Queues, make_nodes: MakeNodes) -> None:
    make_nodes(2)
    queue = queues.make("q", capability=gpus(5))
    scene.group("g", 3, queue=queue)
    scene.gang("g", 1, 4, task="ps")
    scene.gang("g", 2, 1, first=1, task="worker")
    scene.wait_says("g", "QuotaExceeded")
    assert scene.bound("g") == {}
    queues.patch("q", capability=gpus(6))
    scene.wait_started("g", 3)


def test_nothing_of_a_resource_forbids_it_and_what_is_not_named_is_free(
    scene: Scene, queues: Queues, make_nodes: MakeNodes
) -> None:
    make_nodes(1)
    queue = queues.make("q", capability=gpus(0))
    start(scene, "cpu", 1, queue, gpus=0)
    start(scene, "gpu", 1, queue)
    scene.wait_whole("cpu", 1)
    scene.wait_says("gpu", "QuotaExceeded")


def test_a_changed_queue_starts_what_waits_without_a_restart(
    scene: Scene, queues: Queues, make_nodes: MakeNodes
) -> None:
    make_nodes(1)
    queue = queues.make("q", capability=gpus(3))
    start(scene, "g", 4, queue)
    scene.wait_says("g", "QuotaExceeded")
    assert scene.bound("g") == {}
    queues.patch("q", capability=gpus(4))
    scene.wait_started("g", 4)
    queues.wait_status("q", gpus=4, share="1.00")


# --- reasons -----------------------------------------------------------------------------------------


def test_each_queue_that_admits_nothing_has_its_reason_and_each_heals(
    scene: Scene, queues: Queues, make_nodes: MakeNodes
) -> None:
    make_nodes(1)
    queues.make("dept")
    fine = queues.make("fine", "dept")
    shut = queues.make("shut", state="Closed")
    orphan = queues.make("orphan", "ghost")
    theirs = queues.make("theirs", namespaces=["default"])
    wanted = {
        "unknown": (queues.name("mistyped"), "QueueNotFound"),
        "inner": (queues.name("dept"), "QueueNotLeaf"),
        "closed": (shut, "QueueClosed"),
        "orphan": (orphan, "QueueInvalid"),
        "theirs": (theirs, "NamespaceNotAllowed"),
    }
    for name, (queue, _) in wanted.items():
        start(scene, name, 1, queue)
    start(scene, "fine", 1, fine)
    scene.wait_whole("fine", 1)
    for name, (queue, reason) in wanted.items():
        scene.wait_says(name, reason)
        assert queue in scene.message(name)
    condition = waiting.wait_for(lambda: queues.condition("orphan", "Valid"), SOON, "the orphan is told")
    assert (condition["status"], condition["reason"]) == ("False", "ParentNotFound")
    assert queues.name("ghost") in condition["message"]
    queues.make("mistyped")
    queues.make("ghost")
    queues.patch("shut", state="Open")
    queues.patch("theirs", namespaces=["default", scene.namespace])
    for name in ("unknown", "orphan", "closed", "theirs"):
        scene.wait_started(name, 1)
    assert scene.bound("inner") == {}


def test_a_ring_of_queues_is_named_and_stops_nobody_else(scene: Scene, queues: Queues, make_nodes: MakeNodes) -> None:
    make_nodes(1)
    ring = queues.make("one", "two")
    queues.make("two", "one")
    other = queues.make("other")
    start(scene, "g", 1, ring)
    start(scene, "fine", 1, other)
    scene.wait_whole("fine", 1)
    scene.wait_says("g", "QueueInvalid")
    condition = waiting.wait_for(lambda: queues.condition("two", "Valid"), SOON, "the ring is told")
    assert condition["reason"] == "ParentCycle"


def test_closing_leaves_what_runs_and_is_closed_when_that_has_ended(
    scene: Scene, queues: Queues, make_nodes: MakeNodes
) -> None:
    make_nodes(1)
    queue = queues.make("q")
    start(scene, "runs", 2, queue)
    scene.wait_whole("runs", 2)
    queues.patch("q", state="Closed")
    start(scene, "late", 1, queue)
    scene.wait_says("late", "QueueClosed")
    queues.wait_status("q", state="Closing", gpus=2)
    assert len(scene.bound("runs")) == 2
    scene.delete("runs-0", "runs-1")
    queues.wait_status("q", state="Closed", gpus=0, pending=1)


def test_volcano_s_queues_are_read_as_they_are(
    kube: kube_module.Kube, scene: Scene, queues: Queues, make_nodes: MakeNodes
) -> None:
    make_nodes(1)
    name = queues.name("volcano")
    meta = {"name": name}
    spec = {"weight": 1, "capability": gpus(1)}
    theirs = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": meta, "spec": spec}
    kube.create(theirs)
    try:
        start(scene, "one", 1, name)
        scene.wait_whole("one", 1)
        start(scene, "two", 1, name)
        scene.wait_says("two", "QuotaExceeded")
        kube.patch("queues.scheduling.volcano.sh", name, {"spec": {"capability": gpus(2)}})
        scene.wait_started("two", 1)
    finally:
        kube.delete("queues.scheduling.volcano.sh", name)


# --- shares ------------------------------------------------------------------------------------------


def test_room_is_divided_by_what_queues_deserve_and_idle_room_is_lent(
    scene: Scene, queues: Queues, make_nodes: MakeNodes
) -> None:
    (node,) = make_nodes(1)
    scene.fill(node, 8)
    a = queues.make("a", deserved=gpus(6))
    b = queues.make("b", deserved=gpus(2))
    for number in range(9):
        scene.pod(f"b-{number}", queue=b)
    for number in range(9):
        scene.pod(f"a-{number}", queue=a)
    queues.wait_status("a", pending=9)
    queues.wait_status("b", pending=9)
    scene.delete("filler")
    scene.wait_bound("a", 6)
    scene.wait_bound("b", 2)
    queues.wait_status("a", gpus=6, pending=3)
    # what one does not want any more, the other has
    scene.delete(*(f"a-{number}" for number in range(9)))
    scene.wait_bound("b", 8)
    queues.wait_status("b", gpus=8, pending=1)
    wait_usage_sound(scene)


def test_room_that_a_queue_is_owed_is_not_lent_on_piece_by_piece(
    scene: Scene, queues: Queues, make_nodes: MakeNodes
) -> None:
    make_nodes(1)
    a = queues.make("a", deserved=gpus(4))
    b = queues.make("b", reclaimable=False)
    for number in range(8):
        scene.pod(f"b-{number}", queue=b)
    scene.wait_bound("b", 8)
    start(scene, "gang", 4, a)
    scene.wait_says("gang", "NoEligibleVictims")
    scene.group("next", 1, queue=b)
    scene.gang("next", 1)
    scene.delete("b-0", "b-1", "b-2")
    scene.wait_says("next", "ReservedForOthers")
    assert scene.bound("next") == {}
    scene.delete("b-3")
    scene.wait_started("gang", 4)
    scene.delete("b-4")
    scene.wait_started("next", 1)


def test_a_guarantee_is_never_lent(scene: Scene, queues: Queues, make_nodes: MakeNodes) -> None:
    make_nodes(1)
    queues.make("kept", guarantee={"resource": gpus(3)})
    other = queues.make("other")
    queues.wait_status("kept", state="Open")
    for number in range(8):
        scene.pod(f"o-{number}", queue=other)
    scene.wait_bound("o", 5)
    queues.wait_status("other", gpus=5, pending=3)
    assert len(scene.bound("o")) == 5
    start(scene, "mine", 3, queues.name("kept"))
    scene.wait_whole("mine", 3)
    assert queues.condition("kept", "GuaranteeCovered")["status"] == "True"


def test_a_restart_of_the_extender_changes_nothing(scene: Scene, queues: Queues, make_nodes: MakeNodes) -> None:
    make_nodes(1)
    queue = queues.make("q", capability=gpus(4))
    start(scene, "runs", 4, queue)
    scene.wait_whole("runs", 4)
    start(scene, "waits", 2, queue)
    scene.wait_says("waits", "QuotaExceeded")
    queues.wait_status("q", gpus=4, pending=1)
    version = scene.kube.get("queues.muster.dev", queue)["metadata"]["resourceVersion"]
    scene.replica.extender.kill9()
    scene.replica.heal()
    waiting.wait_for(
        lambda: scene.replica.metric("extender", "muster_extender_cycle_seconds_count"),
        SOON,
        "the new life has looked at everything, again and again",
        until=lambda cycles: cycles >= 40,
    )
    assert scene.kube.get("queues.muster.dev", queue)["metadata"]["resourceVersion"] == version
    assert scene.said("waits") == "QuotaExceeded"
    scene.delete("runs-0", "runs-1")
    scene.wait_started("waits", 2)
    queues.wait_status("q", gpus=4, pending=1)  # the other one waits for members, whom nobody replaces
