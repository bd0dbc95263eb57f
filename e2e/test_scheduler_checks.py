"""What kube-scheduler checks and Muster does not model (design 3.4): the nodes that it offers are the truth.

Every gang here starts whole on nodes that kube-scheduler accepts, or waits and keeps nothing from others. Of what
Muster does model (selectors, taints) the same is shown, with its own reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e import kube, objects, waiting
from e2e.scenes import SOON, Scene

MakeNodes = Callable[..., list[str]]
Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
APP = {"matchLabels": {"muster.dev/pod-group": "g"}}
ALONE_ON_A_NODE: Object = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": objects.HOSTNAME, "labelSelector": APP}]
        }
    }
}
SPREAD: Object = {
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": objects.RACK, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": APP}
    ]
}
# kube-scheduler may look at a refused gang again only after its own back-off, and Muster after 2 s, then 4 s.
RETRIED = 30.0


@pytest.fixture
def zoned_volume(kube: kube.Kube, namespace: str) -> Iterator[Callable[[str], str]]:
    """A function that makes a claim bound to a volume of a zone; gives the claim's name."""

    def make(zone: str) -> str:
        inside = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "csi": {"driver": "example.com", "volumeHandle": namespace},
            "claimRef": {"namespace": namespace, "name": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [inside]}},
        }
        kube.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": namespace}, "spec": spec})
        wanted = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeName": namespace,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        meta = {"name": "data", "namespace": namespace}
        kube.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": wanted})
        waiting.wait_for(
            lambda: kube.get("persistentvolumeclaims", "data", namespace)["status"].get("phase"),
            SOON,
            "the claim is bound",
            until=lambda phase: phase == "Bound",
        )
        return "data"

    yield make
    kube.delete("persistentvolumes", namespace)


def with_volume(claim: str) -> Object:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


def with_host_port(gpus: int = 1) -> Object:
    resources = {"cpu": "1", objects.GPU: str(gpus)}
    ports = [{"containerPort": 29500, "hostPort": 29500}]
    container = {
        "name": "main",
        "image": "none.invalid/none",
        "ports": ports,
        "resources": {"requests": resources, "limits": {objects.GPU: str(gpus)}},
    }
    return {"containers": [container]}


def assert_nothing_is_kept(scene: Scene, gpus: int) -> None:
    """Another gang gets all of the room that there is, and the books agree."""
    scene.group("other", gpus)
    scene.gang("other", gpus)
    scene.wait_started("other", gpus)
    scene.wait_sound()


# -- volumes


def test_a_member_with_a_volume_is_bound_in_its_zone_and_the_others_around_it(
    scene: Scene, make_nodes: MakeNodes, zoned_volume: Callable[[str], str]
) -> None:
    """All four nodes are needed, so two members must change places when the volume's zone is found out."""
    near = make_nodes(3, gpus=1, labels={ZONE: "a"})
    far = make_nodes(1, gpus=1, labels={ZONE: "b"})
    claim = zoned_volume("b")
    scene.group("g", 4)
    scene.gang("g", 1, spec=with_volume(claim))
    scene.gang("g", 3, first=1)
    placed = scene.wait_bound("g", 4, RETRIED)
    assert placed.pop("g-0") == far[0]
    assert sorted(placed.values()) == sorted(near)
    scene.wait_sound()


def test_a_member_whose_volume_is_where_no_node_is_waits_and_keeps_nothing(
    scene: Scene, make_nodes: MakeNodes, zoned_volume: Callable[[str], str]
) -> None:
    make_nodes(4, gpus=1, labels={ZONE: "a"})
    claim = zoned_volume("elsewhere")
    scene.group("g", 4)
    scene.gang("g", 1, spec=with_volume(claim))
    scene.gang("g", 3, first=1)
    wait_refused(scene, "node affinity")
    assert_nothing_is_kept(scene, 4)
    scene.kube.delete_all("pods", scene.namespace, labels="muster.dev/pod-group=other", grace=0)
    make_nodes(1, gpus=1, labels={ZONE: "elsewhere"})
    scene.wait_bound("g", 4, RETRIED)
    scene.wait_sound()


def wait_refused(scene: Scene, text: str, reason: str = "RefusedByScheduler") -> None:
    """The group waits for this reason, in kube-scheduler's own words, and nothing of it is bound or held."""
    waiting.wait_for(
        lambda: (scene.said("g"), scene.message("g")),
        RETRIED,
        f"g says {reason} and {text!r}",
        until=lambda said: said[0] == reason and text in said[1],
    )
    assert scene.bound("g") == {}
    waiting.wait_for(lambda: scene.held("g"), SOON, "no member is held", until=lambda held: not held)


# -- members that keep each other away


KEEP_APART: list[Any] = [
    pytest.param(ALONE_ON_A_NODE, "anti-affinity", id="pod anti-affinity"),
    pytest.param(with_host_port(), "free ports", id="host ports"),
]


@pytest.mark.parametrize(("spec", "text"), KEEP_APART)
def test_members_that_may_not_share_a_node_start_on_nodes_of_their_own(
    scene: Scene, make_nodes: MakeNodes, spec: Object, text: str
) -> None:
    nodes = make_nodes(4)
    scene.group("g", 4)
    scene.gang("g", 4, spec=spec)
    assert sorted(scene.wait_bound("g", 4, RETRIED).values()) == sorted(nodes)
    scene.wait_sound()


@pytest.mark.parametrize(("spec", "text"), KEEP_APART)
def test_with_a_node_too_few_members_that_may_not_share_one_wait_and_keep_nothing(
    scene: Scene, make_nodes: MakeNodes, spec: Object, text: str
) -> None:
    make_nodes(3, gpus=4)
    scene.group("g", 4)
    scene.gang("g", 4, spec=spec)
    wait_refused(scene, text)
    assert_nothing_is_kept(scene, 12)
    scene.kube.delete_all("pods", scene.namespace, labels="muster.dev/pod-group=other", grace=0)
    make_nodes(1, gpus=4)
    assert len(set(scene.wait_bound("g", 4, RETRIED).values())) == 4
    scene.wait_sound()


def test_a_spread_over_racks_is_kept(scene: Scene, make_nodes: MakeNodes) -> None:
    nodes = make_nodes(4, racks=2)
    scene.group("g", 8)
    scene.gang("g", 8, spec=SPREAD)
    placed = scene.wait_bound("g", 8, RETRIED)
    racks = Counter(nodes.index(node) % 2 for node in placed.values())
    assert racks == {0: 4, 1: 4}
    scene.wait_sound()


def test_a_spread_that_cannot_be_kept_makes_the_gang_wait_and_keeps_nothing(
    scene: Scene, make_nodes: MakeNodes
) -> None:
    make_nodes(1, gpus=6, rack="r0")
    make_nodes(1, gpus=1, rack="r1")
    scene.group("g", 6)
    scene.gang("g", 6, spec=SPREAD)
    wait_refused(scene, "topology spread constraints")
    assert_nothing_is_kept(scene, 7)


# -- what Muster models itself


def test_a_selector_that_no_node_has_is_named_keeps_nothing_and_starts_when_a_node_has_it(
    scene: Scene, make_nodes: MakeNodes
) -> None:
    nodes = make_nodes(2, gpus=2)
    scene.group("g", 4)
    scene.gang("g", 4, spec={"nodeSelector": {"pool": "h100"}})
    wait_refused(scene, "no node matches", "NoMatchingNode")
    assert_nothing_is_kept(scene, 4)
    scene.kube.delete_all("pods", scene.namespace, labels="muster.dev/pod-group=other", grace=0)
    waiting.wait_for(lambda: scene.pods("other"), SOON, "the others are gone", until=lambda left: not left)
    scene.kube.patch("nodes", nodes[0], {"metadata": {"labels": {"pool": "h100"}}})
    scene.wait_says("g", "InsufficientResources")
    scene.kube.patch("nodes", nodes[1], {"metadata": {"labels": {"pool": "h100"}}})
    scene.wait_started("g", 4)


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_tainted_nodes_are_for_those_that_tolerate_it(scene: Scene, make_nodes: MakeNodes, effect: str) -> None:
    nodes = make_nodes(2, gpus=2, taints=[{"key": "gpu", "value": "train", "effect": effect}])
    scene.group("g", 4)
    scene.gang("g", 4)
    wait_refused(scene, "no node matches", "NoMatchingNode")
    scene.group("tolerant", 4)
    toleration = {"key": "gpu", "operator": "Equal", "value": "train", "effect": effect}
    scene.gang("tolerant", 4, spec={"tolerations": [toleration]})
    scene.wait_bound("tolerant", 4)
    scene.kube.delete_all("pods", scene.namespace, labels="muster.dev/pod-group=tolerant", grace=0)
    for node in nodes:
        scene.kube.patch("nodes", node, {"spec": {"taints": None}})
    scene.wait_started("g", 4)
    scene.wait_sound()
