"""What waits for room in sight of a cluster autoscaler: the whole gang is Unschedulable, and starts when nodes come.

An autoscaler looks for pods with PodScheduled=False and the reason Unschedulable; behind a gate it is SchedulingGated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e import kube as kube_module
from e2e import objects, waiting
from e2e.cluster.muster import Replica
from e2e.scenes import SOON, Scene

GPU = objects.GPU
#: a group waits so long before it is shown, and is looked at every 5 s
SHOWN_WITHIN = 15.0 + SOON
MakeNodes = Callable[..., list[str]]
Object = dict[str, Any]

pytestmark = pytest.mark.gates


@pytest.fixture
def scene(kube: kube_module.Kube, muster: Replica, namespace: str) -> Scene:
    return Scene(kube, muster, namespace)


def start(scene: Scene, name: str, size: int, queue: str, **options: Any) -> None:
    """A group whose pods come gated, as those of a queue with a backlog do."""
    scene.group(name, size, queue=queue)
    scene.gang(name, size, spec={"schedulingGates": [{"name": "muster.dev/queue"}]}, **options)


def standings(scene: Scene, group: str) -> list[str]:
    """The reason of each pod's PodScheduled condition."""
    found = [one["status"].get("conditions", []) for one in scene.pods(group)]
    return [one["reason"] for conditions in found for one in conditions if one["type"] == "PodScheduled"]


def wait_seen(scene: Scene, group: str, size: int) -> None:
    """Wait until an autoscaler would see every pod of the group."""
    waiting.wait_for(
        lambda: standings(scene, group),
        SHOWN_WITHIN,
        f"all {size} of {group} are in sight",
        until=lambda found: found == size * ["Unschedulable"],
    )


def test_a_whole_gang_is_in_sight_and_is_bound_when_nodes_appear(
    scene: Scene, queue: str, make_nodes: MakeNodes
) -> None:
    (node,) = make_nodes(1)
    scene.fill(node, 6)
    scene.kube.patch("queues.muster.dev", queue, {"spec": {"autoscaling": "Visible", "capability": {GPU: 8}}})
    start(scene, "gang", 4, queue)  # two would fit: it is our filter that says no
    start(scene, "later", 5, queue)  # beside the gang, it is not within the quota
    scene.wait_says("gang", "InsufficientResources")
    assert standings(scene, "gang") == 4 * ["SchedulingGated"]
    wait_seen(scene, "gang", 4)
    scene.wait_text("gang-0", "not enough free resources for the whole group")
    assert scene.bound("gang") == {}
    make_nodes(1)
    placed = scene.wait_whole("gang", 4)
    assert len(placed) == 4
    scene.wait_says("later", "QuotaExceeded")
    assert standings(scene, "later") == 5 * ["SchedulingGated"]
    scene.wait_sound()


def test_a_gang_for_which_there_is_no_node_at_all_is_in_sight(scene: Scene, queue: str, make_nodes: MakeNodes) -> None:
    make_nodes(1)
    scene.kube.patch("queues.muster.dev", queue, {"spec": {"autoscaling": "Visible"}})
    pool = {"nodeSelector": {"pool": "large"}, "schedulingGates": [{"name": "muster.dev/queue"}]}
    scene.group("gang", 3, queue=queue)
    for member in objects.gang("gang", scene.namespace, 3, 8, spec=pool):
        scene.kube.create(member)
    wait_seen(scene, "gang", 3)
    make_nodes(3, labels={"pool": "large"})
    scene.wait_whole("gang", 3)


def test_what_waits_in_other_queues_stays_behind_its_gates(scene: Scene, queue: str, make_nodes: MakeNodes) -> None:
    make_nodes(1)
    start(scene, "hidden", 9, queue)
    scene.wait_says("hidden", "InsufficientResources")
    shown = f"{queue}-shown"
    scene.kube.create(objects.queue(shown, autoscaling="Visible"))
    try:
        start(scene, "seen", 9, shown)
        wait_seen(scene, "seen", 9)
        assert standings(scene, "hidden") == 9 * ["SchedulingGated"]
    finally:
        scene.kube.delete("queues.muster.dev", shown)
