"""Why nothing fits: refusals of placement with their numbers, by table."""

from __future__ import annotations

import pytest

from extender.core.ids import NodeName, TaskName
from extender.core.model import Expression, Node, Taint, Term
from extender.core.placement import Demand, place
from extender.core.reasons import Reason, Refusal
from extender.core.resources import MAX_ON_NODE, PODS, amounts
from extender.core.topology import HOSTNAME
from tests.builders import GPU, gpu_node, make_node, make_room, make_shape, make_topology

ONE_GPU = make_shape({GPU: 1})


def rack_node(name: str, gpus: int, block: int, rack: int) -> Node:
    """A GPU node in a rack."""
    return gpu_node(name, gpus, {"block": f"b{block}", "rack": f"r{rack}"})


WORKER, LAUNCHER = TaskName("worker"), TaskName("launcher")
CLUSTER = (
    make_topology(),
    rack_node("a", 4, 0, 0),
    rack_node("b", 4, 0, 1),
    rack_node("c", 6, 1, 0),
    make_node("far", labels={"zone": "z"}, taints=(Taint("t", "", "NoSchedule"),)),
)
ONE_IN_B0 = make_shape({GPU: 1}, selector=(("block", "b0"),))
ON_FAST_DISK = make_shape(selector=(("disk", "fast"),))
GPU_AND_CPU = make_shape({"cpu": 90_000, GPU: 1})

TAINTED = ("problem", "taints keep it off them, or they are not ready")
TOO_LARGE = ("problem", "no node is so large")
NOT_OFFERED = ("problem", "no node offers it")

REFUSALS: dict[str, tuple[list[Demand], dict[str, str], Refusal]] = {
    "a selector that no node has": (
        [Demand(ONE_GPU, 1, WORKER), Demand(make_shape(selector=(("block", "b9"),)), 1, LAUNCHER)],
        {},
        Refusal(Reason.CONSTRAINTS, (("task", "launcher"), ("unmatched", "block=b9"))),
    ),
    "a member's name, where others ask for something else": (
        [
            Demand(ONE_GPU, 1, WORKER, None, "w-0"),
            Demand(ON_FAST_DISK, 1, LAUNCHER, None, "l-0"),
        ],
        {},
        Refusal(Reason.CONSTRAINTS, (("task", "launcher"), ("member", "l-0"), ("unmatched", "disk=fast"))),
    ),
    "labels that nodes have, but none has both": (
        [Demand(make_shape(selector=(("block", "b0"), ("rack", "r9"))), 1)],
        {},
        Refusal(Reason.CONSTRAINTS, (("unmatched", "rack=r9"),)),
    ),
    "labels of two blocks": (
        [Demand(make_shape(selector=(("block", "b1"), ("rack", "r1"))), 1)],
        {},
        Refusal(Reason.CONSTRAINTS, (("unmatched", "block=b1"), ("unmatched", "rack=r1"))),
    ),
    "a node that does not tolerate it": (
        [Demand(make_shape(selector=(("zone", "z"),)), 1)],
        {},
        Refusal(Reason.CONSTRAINTS, (("matching", 1), TAINTED)),
    ),
    "a required label of which no node has this value": (
        [Demand(make_shape(affinity=(Term((Expression("rack", "In", ("r7", "r8")),)),)), 1)],
        {},
        Refusal(Reason.CONSTRAINTS, (("unmatched", "rack"),)),
    ),
    "a lone pod that no node accepts": (
        [Demand(make_shape(affinity=()), 1)],
        {},
        Refusal(Reason.CONSTRAINTS, (("problem", "its node affinity can match no node"),)),
    ),
    "more of a resource than is free, with the numbers": (
        [Demand(ONE_GPU, 15, WORKER)],
        {},
        Refusal(
            Reason.RESOURCES,
            (("task", "worker"), ("resource", GPU), ("asked", 15), ("free", 14)),
        ),
    ),
    "what lacks most is named": (
        [Demand(make_shape({"cpu": 96_000, GPU: 5}), 4)],
        {},
        Refusal(Reason.RESOURCES, (("resource", GPU), ("asked", 20), ("free", 14))),
    ),
    "each task has enough, but not all together": (
        [Demand(ONE_GPU, 10, WORKER), Demand(ONE_GPU, 5, LAUNCHER)],
        {},
        Refusal(Reason.RESOURCES, (("resource", GPU), ("asked", 15), ("free", 14))),
    ),
    "the room of a task that needs nobody is no room for the others": (
        [*(Demand(ONE_IN_B0, n, task) for n, task in ((8, WORKER), (1, LAUNCHER))), Demand(ONE_GPU, 0)],
        {},
        Refusal(Reason.RESOURCES, (("resource", GPU), ("asked", 9), ("free", 8))),
    ),
    "a resource that nobody has": (
        [Demand(make_shape({"example.com/fpga": 1}), 2, WORKER)],
        {},
        Refusal(
            Reason.RESOURCES,
            (("task", "worker"), ("resource", "example.com/fpga"), ("asked", 2), ("free", 0), NOT_OFFERED),
        ),
    ),
    "a resource that nobody has is named before one of which there is far too little": (
        [Demand(make_shape({"example.com/fpga": 1, GPU: 100}), 1)],
        {},
        Refusal(Reason.RESOURCES, (("resource", "example.com/fpga"), ("asked", 1), ("free", 0), NOT_OFFERED)),
    ),
    "also one of another task": (
        [Demand(make_shape({GPU: 100}), 1, LAUNCHER), Demand(make_shape({"example.com/fpga": 1}), 1, WORKER)],
        {},
        Refusal(
            Reason.RESOURCES,
            (("task", "worker"), ("resource", "example.com/fpga"), ("asked", 1), ("free", 0), NOT_OFFERED),
        ),
    ),
    "a lone pod for a resource that nobody has": (
        [Demand(make_shape({"example.com/fpga": 1}), 1)],
        {},
        Refusal(Reason.RESOURCES, (("resource", "example.com/fpga"), ("asked", 1), ("free", 0), NOT_OFFERED)),
    ),
    "a pod larger than any node": (
        [Demand(make_shape({GPU: 7}), 1)],
        {},
        Refusal(Reason.RESOURCES, (("resource", GPU), ("asked", 7), ("largest", 6), TOO_LARGE)),
    ),
    "pieces too small for one task": (
        [Demand(make_shape(), 1, LAUNCHER), Demand(make_shape({GPU: 5}), 2, WORKER)],
        {},
        Refusal(Reason.FRAGMENTED, (("task", "worker"), ("resource", GPU), ("each", 5), ("asked", 2), ("fit", 1))),
    ),
    "pieces too small for the two tasks together": (
        [Demand(GPU_AND_CPU, 2, WORKER), Demand(make_shape({"cpu": 50_000}), 2, LAUNCHER)],
        {},
        Refusal(Reason.FRAGMENTED, (("asked", 4), ("fit", 3))),
    ),
    "room, but in no single block": (
        [Demand(ONE_GPU, 9)],
        {"required": "block"},
        Refusal(Reason.TOPOLOGY, (("level", "block"), ("domain", "b0"), ("asked", 9), ("fit", 8))),
    ),
    "room, but in no single rack; preferred does not help": (
        [Demand(ONE_GPU, 4, WORKER), Demand(make_shape({"cpu": 1, GPU: 2}), 2, LAUNCHER)],
        {"required": "rack", "preferred": "block"},
        Refusal(Reason.TOPOLOGY, (("level", "rack"), ("domain", "b1/r0"), ("asked", 6), ("fit", 5))),
    ),
    "nowhere at all is not blamed on topology": (
        [Demand(ONE_GPU, 15)],
        {"required": "block"},
        Refusal(Reason.RESOURCES, (("resource", GPU), ("asked", 15), ("free", 14))),
    ),
    "a required level that nobody knows": (
        [Demand(ONE_GPU, 1)],
        {"required": "row"},
        Refusal(Reason.TOPOLOGY, (("level", "row"), ("problem", "no topology has this level"))),
    ),
    "a preferred level that nobody knows": (
        [Demand(ONE_GPU, 1)],
        {"preferred": "row"},
        Refusal(Reason.TOPOLOGY, (("level", "row"), ("problem", "no topology has this level"))),
    ),
    "a required level whose labels no node has": (
        [Demand(ONE_GPU, 1)],
        {"required": "kubernetes.io/hostname"},
        Refusal(Reason.UNLABELLED, (("level", HOSTNAME), ("label", HOSTNAME), ("unlabelled", 3), ("asked", 1))),
    ),
}


@pytest.mark.parametrize("case", REFUSALS, ids=str)
def test_a_refusal_says_why_with_numbers(case: str) -> None:
    demands, levels, expected = REFUSALS[case]
    assert place(make_room(*CLUSTER), demands, **levels) == expected


def test_an_empty_cluster_refuses() -> None:
    assert place(make_room(), [Demand(ONE_GPU, 1)]) == Refusal(Reason.CONSTRAINTS)
    assert place(make_room(), [Demand(ONE_GPU, 2)], required="kubernetes.io/hostname") == Refusal(Reason.CONSTRAINTS)


def test_sums_of_the_largest_amounts_are_exact() -> None:
    largest = MAX_ON_NODE
    nodes = [Node(NodeName(f"n{n}"), {}, amounts({PODS: 9, "memory": largest})) for n in range(40_000)]
    refusal = place(make_room(*nodes), [Demand(make_shape({"memory": largest}), 40_001)])
    assert refusal == Refusal(
        Reason.RESOURCES, (("resource", "memory"), ("asked", 40_001 * largest), ("free", 40_000 * largest))
    )


TWO_BLOCKS = (rack_node("a", 2, 0, 0), rack_node("b", 2, 1, 0))


@pytest.mark.parametrize(
    ("others", "asked", "wanted"),
    [
        pytest.param((gpu_node("x", 8), gpu_node("y", 8)), 8, ("rack", 2, 8), id="two that bear none of the labels"),
        pytest.param((gpu_node("x", 2, {"block": "b0"}),), 4, ("rack", 1, 4), id="one that would complete a rack"),
        pytest.param((gpu_node("x", 8, {"rack": "r0"}),), 8, ("block", 1, 8), id="one that lacks the level above"),
        pytest.param((gpu_node("x", 1),), 4, None, id="too small to matter"),
        pytest.param((gpu_node("x", 8, taints=(Taint("t", "", "NoSchedule"),)),), 4, None, id="one that is tainted"),
    ],
)
def test_nodes_without_a_label_of_the_level(
    others: tuple[Node, ...], asked: int, wanted: tuple[str, int, int] | None
) -> None:
    room = make_room(make_topology(), *TWO_BLOCKS, rack_node("c", 2, 1, 1), *others)
    found = place(room, [Demand(ONE_GPU, asked)], required="rack")
    assert isinstance(found, Refusal)
    if wanted is None:
        assert found.reason is Reason.TOPOLOGY
    else:
        label, lacking, count = wanted
        detail = (("level", "rack"), ("label", label), ("unlabelled", lacking), ("asked", count))
        assert found == Refusal(Reason.UNLABELLED, detail)
