"""What a group may take: capabilities at every level, and what is kept for others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.allowance import Allowance, over_capability
from extender.core.ids import QueueName
from extender.core.model import Node, Queue, Shape
from extender.core.quota import Tree, grants
from extender.core.reasons import Reason
from extender.core.resources import GPU_PARTS, GPU_SHARE
from extender.core.usage import Usage
from tests import builders
from tests.builders import GPU, gpu_node, group_key, make_queue, make_shape

ONE = make_shape({GPU: 1})


def allowance(
    queue: str, *queues: Queue, used: dict[str, int] | None = None, nodes: tuple[Node, ...] = (gpu_node(),)
) -> Allowance:
    """What a group in this queue may take on these nodes; what is used stands on a node that is not seen."""
    tree, usage = Tree({one.name: one for one in queues}), Usage(lambda key: QueueName(key.name))
    totals = {GPU: sum(dict(node.allocatable)[GPU] for node in nodes) + sum((used or {}).values())}
    usage.follow(tree, grants(tree, totals))
    for name, amount in (used or {}).items():
        usage.charge(group_key(name), None, ((GPU, amount),), 1)
    return Allowance(usage, QueueName(queue), builders.make_room(*nodes))


def capped(name: str, gpus: int, parent: str | None = None, **fields: object) -> Queue:
    return make_queue(name, parent=parent, capability=((GPU, gpus),), **fields)


DEPT = (capped("dept", 6), capped("a", 4, "dept"), make_queue("b", parent="dept"))


@pytest.mark.parametrize(
    ("queue", "used", "asked", "blamed"),
    [
        pytest.param("a", {}, 4, None, id="all of its own"),
        pytest.param("a", {}, 5, "a", id="more than its own"),
        pytest.param("a", {"a": 3}, 1, None, id="the last of its own"),
        pytest.param("a", {"b": 3}, 4, "dept", id="too much for the queue above"),
        pytest.param("b", {"a": 1}, 5, None, id="a queue without a cap of its own"),
        pytest.param("b", {"a": 1}, 6, "dept", id="is capped above"),
        pytest.param("a", {"a": 9}, 1, "a", id="more is used than may be"),
        pytest.param("c", {"a": 9}, 99, None, id="a queue elsewhere"),
    ],
)
def test_no_queue_on_the_path_exceeds_its_capability(
    queue: str, used: dict[str, int], asked: int, blamed: str | None
) -> None:
    refusal = allowance(queue, *DEPT, make_queue("c"), used=used).refusal([(ONE, asked)])
    assert (refusal and (refusal.reason, dict(refusal.detail)["queue"])) == (blamed and (Reason.QUOTA, blamed))


def test_the_refusal_has_the_numbers() -> None:
    refusal = allowance("a", *DEPT, used={"a": 3, "b": 1}).refusal([(ONE, 2)])
    assert refusal is not None
    assert dict(refusal.detail) == {"queue": "a", "resource": GPU, "asked": 2, "used": 3, "capability": 4}


def test_pods_of_unequal_shapes_count_together() -> None:
    there = allowance("a", *DEPT)
    assert there.refusal([(ONE, 2), (make_shape({GPU: 2}), 1)]) is None
    assert there.refusal([(ONE, 1), (make_shape({GPU: 2}), 2)]) is not None


def test_what_is_taken_counts() -> None:
    there = allowance("a", *DEPT)
    there.take([(ONE, 3)])
    assert there.refusal([(ONE, 1)]) is None
    assert there.refusal([(ONE, 2)]) is not None


@pytest.mark.parametrize(("request_", "refused"), [({GPU: 1}, True), ({"cpu": 1}, False), ({GPU: 0}, False)])
def test_nothing_of_a_resource_forbids_it(request_: dict[str, int], refused: bool) -> None:
    there = allowance("none", capped("none", 0))
    assert (there.refusal([(make_shape(request_), 1)]) is not None) == refused


def test_pods_are_a_resource_too() -> None:
    there = allowance("few", make_queue("few", capability=(("pods", 2),)))
    assert there.refusal([(ONE, 2)]) is None
    refusal = there.refusal([(ONE, 3)])
    assert refusal is not None
    assert dict(refusal.detail)["resource"] == "pods"


def test_a_capability_is_judged_without_a_room_too() -> None:
    there = allowance("a", *DEPT, used={"a": 4})
    assert over_capability(there.usage, QueueName("a"), {GPU: 1}) is not None
    assert over_capability(there.usage, QueueName("b"), {GPU: 2}) is None


# --- guarantees --------------------------------------------------------------------------------------


def kept(name: str, gpus: int, parent: str | None = None, **fields: object) -> Queue:
    return make_queue(name, parent=parent, guarantee=((GPU, gpus),), **fields)


@pytest.mark.parametrize(
    ("queue", "queues", "used", "most"),
    [
        pytest.param("b", [kept("a", 3), make_queue("b")], {}, 5, id="what is kept for another is not lent"),
        pytest.param("b", [kept("a", 3), make_queue("b")], {"a": 2}, 7, id="only what is not used is kept"),
        pytest.param("b", [kept("a", 3), make_queue("b")], {"a": 5}, 8, id="and nothing once all is used"),
        pytest.param("a", [kept("a", 3), kept("b", 2)], {}, 6, id="its own is its own"),
        pytest.param("b", [kept("a", 8), kept("b", 2)], {}, 0, id="what cannot be kept for it is not"),
        pytest.param(
            "c", [kept("d", 4), make_queue("a", parent="d"), make_queue("b", parent="d"), make_queue("c")], {"a": 1}, 5,
            id="what is kept for a subtree",
        ),
        pytest.param(
            "b", [kept("d", 4), make_queue("a", parent="d"), make_queue("b", parent="d"), make_queue("c")], {"a": 1}, 8,
            id="is there for each in it",
        ),
        pytest.param(
            "b", [make_queue("d", capability=((GPU, 5),)), kept("a", 3, "d"), make_queue("b", parent="d")], {}, 2,
            id="within the cap of the queue above",
        ),
    ],
)  # fmt: skip
def test_what_is_guaranteed_stays_free(queue: str, queues: list[Queue], used: dict[str, int], most: int) -> None:
    there = allowance(queue, *queues, used=used)
    assert [there.refusal([(ONE, number)]) is None for number in range(1, 9)] == [n <= most for n in range(1, 9)]


def test_a_guarantee_is_used_even_when_too_little_is_left_for_the_others() -> None:
    queues = (kept("a", 4), kept("b", 4))
    there = allowance("a", *queues, used={"a": 1}, nodes=(gpu_node(gpus=2), gpu_node("away", 5, ready=False)))
    assert there.refusal([(ONE, 3)]) is None
    refusal = there.refusal([(ONE, 4)])
    assert refusal is not None
    assert (refusal.reason, dict(refusal.detail)) == (
        Reason.RESERVED,
        {"resource": GPU, "asked": 4, "free": 2, "kept": 4},
    )


def test_only_nodes_that_take_pods_have_room_for_guarantees() -> None:
    nodes = (gpu_node(gpus=4), gpu_node("cordoned", 8, unschedulable=True), gpu_node("down", 8, ready=False))
    there = allowance("b", kept("a", 2), make_queue("b"), nodes=nodes)
    assert there.refusal([(ONE, 2)]) is None
    assert there.refusal([(ONE, 3)]) is not None


# --- GPUs by share ---------------------------------------------------------------------------------


def part(percent: int, count: int = 1) -> Shape:
    """What a pod asks for that takes so much of each of its cards."""
    return make_shape({GPU: count, GPU_SHARE: count * percent * GPU_PARTS // 100})


def by_share(name: str, gpus: int, **fields: object) -> Queue:
    return make_queue(name, capability=((GPU_SHARE, GPU_PARTS * gpus),), by_share=True, **fields)


def test_each_queue_counts_gpus_in_its_own_way() -> None:
    queues = (capped("dept", 3), by_share("a", 1, parent="dept"))
    assert allowance("a", *queues).refusal([(part(30), 3)]) is None
    refusal = allowance("a", *queues).refusal([(part(35), 3)])
    assert refusal is not None
    assert refusal.detail == (("queue", "a"), ("resource", GPU), ("asked", "1.05"), ("used", 0), ("capability", 1))
    refusal = allowance("a", *queues).refusal([(part(10), 4)])
    assert refusal is not None
    assert dict(refusal.detail)["queue"] == "dept"


def test_what_is_used_by_share_is_exact() -> None:
    there = allowance("a", by_share("a", 1))
    for _ in range(3):
        there.usage.charge(group_key("a"), None, part(33).request, 1)
    assert there.refusal([(part(1), 1)]) is None
    there.take([(part(1), 1)])
    refusal = there.refusal([(part(1), 1)])
    assert refusal is not None
    assert dict(refusal.detail)["used"] == 1


def test_without_a_queue_that_charges_by_share_nothing_of_it_is_counted() -> None:
    there = allowance("a", capped("a", 4))
    there.usage.charge(group_key("a"), None, part(30).request, 1)
    assert there.usage.of(QueueName("a")) == {GPU: 1, "pods": 1}


@pytest.mark.parametrize("queue", ["parts", "wholes"])
def test_who_owns_gpus_in_one_way_of_counting_owns_them(queue: str) -> None:
    queues = (
        make_queue("parts", deserved=((GPU_SHARE, 2 * GPU_PARTS),), by_share=True),
        make_queue("wholes", deserved=((GPU, 2),)),
        make_queue("nothing"),
    )
    there = replace(allowance(queue, *queues), firm={})
    assert there.refusal([(part(100), 2)]) is None
    refusal = there.refusal([(part(100), 3)])
    assert refusal is not None
    assert refusal.reason is Reason.FIRM
    there = replace(allowance("nothing", *queues), firm={})
    assert there.refusal([(part(100), 1)]) is not None
