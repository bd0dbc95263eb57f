"""Where parts of a group go in the network, and that replacements come back, under the real kube-scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e import objects, waiting
from e2e.scenes import SOON, Scene

MakeNodes = Callable[..., list[str]]
WHOLE = {"topology": {"required": objects.BLOCK}}


@pytest.fixture
def places(scene: Scene, make_nodes: MakeNodes) -> Iterator[dict[str, tuple[str, str]]]:
    """Block and rack by node: two blocks of two racks of two nodes with two GPUs; racks of both have the same names."""
    found: dict[str, tuple[str, str]] = {}
    for block in ("b0", "b1"):
        for rack in ("r0", "r1"):
            found |= dict.fromkeys(make_nodes(2, gpus=2, block=block, rack=rack), (block, rack))
    name = f"{scene.namespace}-net"
    scene.kube.create(objects.topology(name, [objects.BLOCK, objects.RACK]))
    yield found
    scene.kube.delete("topologies.muster.dev", name)


def workers(level: str, size: int, least: int) -> dict[str, list[dict[str, object]]]:
    """The field `tasks` of a group whose workers go by so many into domains of this level."""
    return {"tasks": [{"name": "worker", "minMember": least, "topology": {"required": level, "size": size}}]}


def racks(scene: Scene, places: dict[str, tuple[str, str]], group: str, first: int, count: int) -> set[tuple[str, str]]:
    """Where the members from `first` on stand."""
    bound = scene.bound(group)
    return {places[bound[f"{group}-{number}"]] for number in range(first, first + count)}


def test_each_slice_is_in_one_rack_the_group_in_one_block_and_a_replacement_comes_back(
    scene: Scene, places: dict[str, tuple[str, str]]
) -> None:
    # block 0 has room for all eight, but its rack 0 takes no whole slice
    nodes = list(places)
    scene.fill(nodes[0], 1)
    scene.group("train", 8, spec=WHOLE | workers(objects.RACK, 4, 8))
    scene.gang("train", 8, task="worker")
    before = scene.wait_bound("train", 8)
    assert [racks(scene, places, "train", first, 4) for first in (0, 4)] == [{("b1", "r0")}, {("b1", "r1")}]
    # neighbours by index stand together
    assert [before[f"train-{number}"] for number in range(8)] == sorted(before.values())

    scene.delete("train-5")
    scene.pod("train-5", task="worker", labels={"muster.dev/pod-group": "train"})
    waiting.wait_for(lambda: scene.bound("train"), SOON, "it is back where it was", until=lambda now: now == before)

    # its slice is bound to a rack that is full: it waits, though there is room elsewhere
    scene.group("next", 4, spec=workers(objects.RACK, 4, 4))
    scene.gang("next", 4, task="worker")
    scene.wait_bound("next", 4)
    assert racks(scene, places, "next", 0, 4) == {("b0", "r1")}
    scene.delete("train-6")
    scene.fill(before["train-6"], 1, "thief")
    scene.pod("train-6", task="worker", labels={"muster.dev/pod-group": "train"})
    scene.wait_says("train", "TopologyUnsatisfied")
    assert f"level {objects.RACK}" in scene.message("train")
    scene.delete("thief")
    waiting.wait_for(lambda: scene.bound("train"), SOON, "it is back where it was", until=lambda now: now == before)
    scene.wait_sound()


def test_hypernodes_are_domains_and_one_that_makes_no_sense_harms_nobody(scene: Scene, make_nodes: MakeNodes) -> None:
    nodes = make_nodes(4, gpus=2)
    prefix = f"s-{scene.namespace}"
    hypernodes = {
        f"{prefix}-0": (1, [("Node", "exactMatch", "name", nodes[0]), ("Node", "exactMatch", "name", nodes[3])]),
        f"{prefix}-1": (1, [("Node", "regexMatch", "pattern", f"^({nodes[1]}|{nodes[2]})$")]),
        f"{prefix}-2": (2, [("HyperNode", "regexMatch", "pattern", f"^{prefix}-[01]$")]),
        f"{prefix}-bad": (
            1,
            [("HyperNode", "exactMatch", "name", f"{prefix}-2"), ("Node", "regexMatch", "pattern", "(")],
        ),
    }
    try:
        for name, (tier, members) in hypernodes.items():
            rows = [{"type": kind, "selector": {how: {key: value}}} for kind, how, key, value in members]
            meta, spec = {"name": name}, {"tier": tier, "members": rows}
            scene.kube.create(
                {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": meta, "spec": spec}
            )
        scene.fill(nodes[0], 1)
        for name, tier, size in (("hard", 1, 4), ("wide", 2, 3)):
            wish = {"networkTopology": {"mode": "hard", "highestTierAllowed": tier}}
            scene.group(name, size, "volcano", spec=wish)
            scene.gang(name, size, source="volcano")
            scene.wait_bound(name, size)
        assert set(scene.bound("hard").values()) == {nodes[1], nodes[2]}
        assert set(scene.bound("wide").values()) == {nodes[0], nodes[3]}
    finally:
        for name in hypernodes:
            scene.kube.delete("hypernodes.topology.volcano.sh", name)
