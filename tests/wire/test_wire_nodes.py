"""Nodes: capacity, taints, readiness, and bad fields."""

from __future__ import annotations

import pytest
from wire_objects import node, table

from extender.core.model import Node, Taint
from extender.core.resources import MAX_AMOUNT, MAX_ON_NODE, MAX_PODS_ON_NODE
from extender.wire.gpu_topology import ANNOTATION
from extender.wire.objects import DecodeError, decode_node

PAIR = '{"version": 1, "links": [["X", "NV4"], ["NV4", "X"]], "numa": []}'
PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8"}


def test_a_plain_node() -> None:
    assert decode_node(node(meta={"labels": {"rack": "r1"}})) == Node(
        name="n",
        labels={"rack": "r1"},
        allocatable=(("cpu", 96_000), ("memory", 2**40), ("nvidia.com/gpu", 8), ("pods", 110)),
    )


def test_a_node_that_states_nothing_takes_no_pod_and_is_ready() -> None:
    got = decode_node({"metadata": {"name": "n"}})
    assert (got.allocatable, got.ready, got.unschedulable, got.problems) == ((("pods", 0),), True, False, ())


def test_only_taints_that_keep_pods_off_are_read() -> None:
    taints = [
        {"key": "a", "value": "1", "effect": "NoSchedule"},
        {"key": "b", "effect": "NoExecute"},
        {"key": "c", "effect": "PreferNoSchedule"},
    ]
    got = decode_node(node(spec={"taints": taints, "unschedulable": True}))
    assert got.taints == (Taint("a", "1", "NoSchedule"), Taint("b", "", "NoExecute"))
    assert got.unschedulable


@table(
    "conditions, want",
    {
        "true": ([{"type": "Ready", "status": "True"}], True),
        "false": ([{"type": "Ready", "status": "False"}], False),
        "unknown is not ready": ([{"type": "Ready", "status": "Unknown"}], False),
        "absent": ([{"type": "MemoryPressure", "status": "True"}], True),
    },
)
def test_ready(conditions: list, want: bool) -> None:
    assert decode_node(node(status={"conditions": conditions})).ready is want


@table(
    "labels, notes, want",
    {
        "what is published": ({}, {ANNOTATION: PAIR}, ("NV4", ())),
        "it wins over the product": ({**PRODUCT}, {ANNOTATION: PAIR}, ("NV4", ())),
        "the product alone": ({**PRODUCT}, {}, ("NV18", ())),
        "a product that is not joined alike": ({**PRODUCT, "nvidia.com/gpu.product": "Tesla-T4"}, {}, (None, ())),
        "a count that is none": ({**PRODUCT, "nvidia.com/gpu.count": "-1"}, {}, (None, ())),
        "nothing": ({}, {}, (None, ())),
        "what cannot be read": (
            {**PRODUCT},
            {ANNOTATION: "{}"},
            (None, (f"metadata.annotations[{ANNOTATION}]: no GPU topology that can be read",)),
        ),
    },
)
def test_links(labels: dict, notes: dict, want: tuple[str | None, tuple[str, ...]]) -> None:
    got = decode_node(node(meta={"labels": labels, "annotations": notes}))
    assert (got.links and got.links.rows[0][1], got.problems) == want


@table(
    "notes, want",
    {
        "cards of one maker": ({"hami.io/node-nvidia-register": "[]"}, True),
        "cards of another": ({"hami.io/node-dcu-register": ""}, True),
        "the handshake alone is no registration": ({"hami.io/node-handshake": "x"}, False),
        "another project's": ({"example.com/node-nvidia-register": "x"}, False),
        "none": ({}, False),
    },
)
def test_hami(notes: dict, want: bool) -> None:
    assert decode_node(node(meta={"annotations": notes})).hami is want


@table(
    "allocatable, want, problem",
    {
        "a negative amount is 0": (
            {"cpu": "1", "nvidia.com/gpu": "-8", "pods": "9"},
            (("cpu", 1000), ("pods", 9)),
            "status.allocatable[nvidia.com/gpu]: '-8' is negative",
        ),
        "an absurd amount is 0": (
            {"memory": str(MAX_AMOUNT + 1), "pods": "9"},
            (("pods", 9),),
            f"status.allocatable[memory]: '{MAX_AMOUNT + 1}' is too large an amount",
        ),
        "a bad number of pods is 0": (
            {"cpu": "1", "pods": "many"},
            (("cpu", 1000), ("pods", 0)),
            "status.allocatable[pods]: 'many' is not a quantity",
        ),
        "no object": ("much", (("pods", 0),), "status.allocatable: 'much' is not an object"),
    },
)
def test_bad_capacity_is_none_and_stated(allocatable: object, want: tuple, problem: str) -> None:
    got = decode_node(node(status={"allocatable": allocatable}))
    assert (got.allocatable, got.problems) == (want, (problem,))


def test_a_node_that_has_more_than_is_counted_has_what_is_counted() -> None:
    large = {"memory": str(MAX_ON_NODE + 1), "example.com/slices": str(MAX_AMOUNT), "pods": str(MAX_PODS_ON_NODE + 1)}
    got = decode_node(node(status={"allocatable": large}))
    want = {"memory": MAX_ON_NODE, "example.com/slices": MAX_ON_NODE, "pods": MAX_PODS_ON_NODE}
    assert (dict(got.allocatable), got.problems) == (want, ())


def test_a_label_that_is_no_text_is_empty_and_stated() -> None:
    got = decode_node(node(meta={"labels": {"rack": 1, "zone": "z"}}))
    assert (got.labels, got.problems) == (
        {"rack": "", "zone": "z"},
        ("metadata.labels: 1 is not a text",),
    )


@pytest.mark.parametrize("obj", [None, {}, {"metadata": {}}, {"metadata": {"name": None}}])
def test_a_node_without_a_name_is_refused(obj: object) -> None:
    with pytest.raises(DecodeError):
        decode_node(obj)
