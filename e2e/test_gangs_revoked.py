"""A plan that is given up leaves nothing behind: the next gang has its room at once, however it is led to its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e import kube
from e2e.cluster import base, manifests
from e2e.cluster.muster import Replica, ReplicaOptions
from e2e.scenes import EXPECTED, Scene

pytestmark = pytest.mark.gates

MakeNodes = Callable[..., list[str]]
CAUSES = ["its pods are deleted", "its group is deleted", "its minimum is raised"]
by_cause = pytest.mark.parametrize("cause", CAUSES)


@by_cause
def test_led_by_filter_the_second_gang_has_the_room_of_the_first_at_once(
    kube: kube.Kube, muster: Replica, namespace: str, make_nodes: MakeNodes, cause: str
) -> None:
    scene = Scene(kube, muster, namespace)
    plan_two_gangs_for_one_room(scene, make_nodes)
    assert nominated(scene) == {}
    revoke_the_first(scene, cause)


@pytest.fixture(scope="class")
def nominating(cluster: base.Cluster, installed: manifests.Manifests, _replica: Replica) -> Iterator[Replica]:
    """A replica that leads by nomination. Only one acts at a time; the fixture `muster` brings the other one back."""
    _replica.stop()
    options = ReplicaOptions(arguments={"extender": ["--nominate-above-nodes", "0"]})
    with Replica(cluster, installed, options) as replica:
        replica.wait_active()
        yield replica


class TestNominated:
    """The same with the other way of design 3.3, by which large clusters are led."""

    @by_cause
    def test_led_by_nomination_the_second_gang_has_the_room_of_the_first_at_once(
        self, kube: kube.Kube, nominating: Replica, namespace: str, make_nodes: MakeNodes, cause: str
    ) -> None:
        scene = Scene(kube, nominating, namespace)
        plan_two_gangs_for_one_room(scene, make_nodes)
        assert sorted(nominated(scene)) == ["first-0", "first-1", "first-2"]
        revoke_the_first(scene, cause)

    def test_a_nominated_gang_of_64_binds_whole_where_it_was_nominated(
        self, kube: kube.Kube, nominating: Replica, namespace: str, make_nodes: MakeNodes
    ) -> None:
        make_nodes(9)
        scene = Scene(kube, nominating, namespace)
        scene.group("g", 64)
        members = scene.gang("g", 64, queue="default")
        assert all(member["spec"]["schedulingGates"] for member in members)
        placed = scene.wait_whole("g", 64)
        assert len(set(placed.values())) == 8
        scene.wait_sound()


def plan_two_gangs_for_one_room(scene: Scene, make_nodes: MakeNodes) -> None:
    """Two gated gangs of equal priority; the first is planned and held, for its last member is not there yet."""
    make_nodes(1)
    scene.group("first", 4)
    members = scene.gang("first", 3, gpus=2)
    scene.wait_held("first", 3)
    scene.group("second", 4)
    members += scene.gang("second", 4, gpus=2)
    assert all(member["spec"]["schedulingGates"] for member in members)
    scene.wait_says("second", "InsufficientResources", deadline=EXPECTED / 2)
    assert len(scene.held("first")) == 3


def revoke_the_first(scene: Scene, cause: str) -> None:
    """Give up the plan of the first gang, and see the second start."""
    held = scene.held_uids()
    if cause == "its pods are deleted":
        scene.delete("first-0", "first-1", "first-2")
    elif cause == "its group is deleted":
        scene.kube.delete("podgroups.muster.dev", "first", scene.namespace)
    else:
        scene.kube.patch("podgroups.muster.dev", "first", {"spec": {"minMember": 5}}, scene.namespace)
    scene.wait_started("second", 4)
    assert scene.bound("first") == {}
    scene.wait_answered(held)
    assert not {name for name in nominated(scene) if name.startswith("first")}
    scene.wait_sound()


def nominated(scene: Scene) -> dict[str, str]:
    """The node that each waiting pod is nominated to."""
    pods = [pod for pod in scene.pods() if not pod["spec"].get("nodeName")]
    nodes = {pod["metadata"]["name"]: pod["status"].get("nominatedNodeName") for pod in pods}
    return {name: node for name, node in nodes.items() if node}
