"""A gang of 256 GPUs on a real InfiniBand fabric: as few leaf switches as an exact search finds, under random loads.

The fabric (shared/data/topology, from topograph's own test of `ibnetdiscover`) has 119 nodes in eight racks. It is
built by rails: every node of a rack has the same leaf switch on each rail, so the leaf on the first one stands for all.
"""

from __future__ import annotations

import csv
import itertools
import random
from pathlib import Path

import pytest

from extender.core.placement import Demand, Placement, place
from extender.core.snapshot import Room
from tests.builders import GPU, gpu_node, make_pod, make_room, make_shape

LEAF = "network.topology.nvidia.com/leaf"
LOADS = 100
GANG_GPUS = 256


@pytest.fixture(scope="module")
def leaves(shared: Path) -> dict[str, str]:
    """The leaf switch of each node on the first rail."""
    with (shared / "data/topology/topograph/ib_superpod_node_leaf.csv").open(newline="") as file:
        return {row["node"]: row["leaf_switch"] for row in csv.DictReader(file) if "-01-" in row["leaf_switch"]}


def loaded(leaves: dict[str, str], chance: random.Random, gpus: int) -> tuple[Room, dict[str, int]]:
    """The fabric under a load that leaves enough free in sum, and how many GPUs are free on each node."""
    while True:
        full, idle = chance.uniform(0.0, 0.4), chance.uniform(0.2, 1.0)
        busy = {name: chance.choices((gpus, 0, chance.randint(1, gpus)), (full, idle, 0.3))[0] for name in leaves}
        free = {name: gpus - used for name, used in busy.items()}
        if sum(free.values()) >= GANG_GPUS:
            break
    nodes = [gpu_node(name, gpus, {LEAF: leaf}) for name, leaf in leaves.items()]
    pods = [make_pod(f"busy-{name}", {GPU: used}, node=name) for name, used in busy.items() if used]
    return make_room(*nodes, *pods), free


def fewest(leaves: dict[str, str], free: dict[str, int], each: int, pods: int) -> int | None:
    """How many leaf switches a gang of so many pods needs at least, by trying every set of them."""
    takes: dict[str, int] = {}
    for name, leaf in leaves.items():
        takes[leaf] = takes.get(leaf, 0) + free[name] // each
    for number in range(1, len(takes) + 1):
        if any(sum(chosen) >= pods for chosen in itertools.combinations(takes.values(), number)):
            return number
    return None


@pytest.mark.parametrize(("gpus", "each"), [(8, 1), (8, 4), (8, 8), (4, 1)])
def test_a_gang_spans_the_fewest_leaf_switches(leaves: dict[str, str], gpus: int, each: int) -> None:
    chance, spans, pods = random.Random(f"{gpus}/{each}"), [], GANG_GPUS // each
    assert len(leaves) == 119
    for _ in range(LOADS):
        room, free = loaded(leaves, chance, gpus)
        placement = place(room, [Demand(make_shape({GPU: each}), pods)], preferred=LEAF)
        least = fewest(leaves, free, each, pods)
        assert isinstance(placement, Placement) == (least is not None)
        if isinstance(placement, Placement):
            names = [str(room.snapshot.names[row]) for rows in placement.rows for row in rows]
            assert len(names) == pods
            spans.append((len({leaves[name] for name in names}), least))
    assert [span for span, _ in spans] == [least for _, least in spans]
    assert len({least for _, least in spans}) > 1
