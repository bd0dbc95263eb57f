"""Queues in the engine: who waits for what, what a change of a queue starts, and which queues are open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core import messages
from extender.core.ids import QueueName, Source
from extender.core.model import Pod, Queue, QueueStatus
from extender.core.reasons import Reason
from tests import builders
from tests.builders import GPU, gpu_node, group_key, make_group, make_pod, make_queue
from tests.core import engine_driver
from tests.core.engine_driver import Driver, gated, ungates

ONE = {GPU: 1}


def capped(name: str, gpus: int, parent: str | None = None, **fields: Any) -> Queue:
    return make_queue(name, parent=parent, capability=((GPU, gpus),), **fields)


def gang(name: str, size: int, queue: str, gpus: int = 1, **fields: Any) -> list[Pod]:
    """Gated members of a group in this queue."""
    pods = [make_pod(f"{name}-{n}", {GPU: gpus}, group=name, queue=QueueName(queue), **fields) for n in range(size)]
    return gated(pods)


def lone(name: str, queue: str | None, gpus: int = 1, **fields: Any) -> Pod:
    return make_pod(name, {GPU: gpus}, queue=None if queue is None else QueueName(queue), **fields)


def used(engine: Driver, queue: str) -> int:
    return engine.engine.usage.of(QueueName(queue)).get(GPU, 0)


def test_a_capability_holds_at_two_levels_and_the_gang_counts_as_a_whole() -> None:
    first, second, third = gang("first", 4, "a"), gang("second", 3, "b"), gang("third", 2, "b")
    engine = Driver(
        gpu_node(),
        *(capped("dept", 6), capped("a", 4, "dept"), make_queue("b", parent="dept")),
        *(make_group("first", 4), make_group("second", 3), make_group("third", 2)),
        *(*first, *second, *third),
    )
    engine.tick()
    assert None not in engine.nodes((*first, *third))
    assert engine.nodes(second) == [None] * 3
    assert engine.reason(group_key("second")) is Reason.QUOTA
    assert engine.detail(group_key("second")) == {
        "queue": "dept",
        "resource": GPU,
        "asked": 3,
        "used": 4,
        "capability": 6,
    }
    assert (used(engine, "dept"), used(engine, "a"), used(engine, "b")) == (6, 4, 2)


def test_what_waits_for_quota_starts_when_usage_falls() -> None:
    first, second = gang("first", 4, "a"), gang("second", 3, "a")
    engine = Driver(gpu_node(), capped("a", 5), make_group("first", 4), make_group("second", 3), *first, *second)
    engine.tick()
    engine.bind(*first)
    leaving = [replace(builders.bound(pod, "gpu-0"), terminating=True) for pod in first]
    engine.see(*leaving)
    engine.tick()
    assert (engine.reason(group_key("second")), used(engine, "a")) == (Reason.QUOTA, 4)  # terminating pods count
    engine.see(replace(leaving[0], phase="Failed"), replace(leaving[1], phase="Succeeded"))
    assert set(ungates(second)) <= set(engine.tick())
    assert used(engine, "a") == 5


def test_what_waits_for_quota_starts_when_the_queue_is_changed() -> None:
    pods = gang("train", 4, "a")
    engine = Driver(gpu_node(), capped("a", 3), make_group("train", 4), *pods)
    engine.tick()
    assert engine.reason(pods[0]) is Reason.QUOTA
    engine.see(capped("a", 4))
    assert set(ungates(pods)) <= set(engine.tick())


def test_a_status_alone_asks_for_no_new_look() -> None:
    pods = gang("train", 4, "a")
    engine = Driver(gpu_node(), capped("a", 3), make_group("train", 4), *pods)
    engine.tick()
    engine.see(replace(capped("a", 3), generation=5, status=QueueStatus(pending=1)))
    assert not engine.engine._cycle.grown


def test_a_part_that_may_start_does_when_quota_lacks_for_the_rest() -> None:
    pods = gang("train", 6, "a")
    engine = Driver(gpu_node(), capped("a", 5), make_group("train", 2), *pods)
    engine.tick()
    assert sum(node is not None for node in engine.nodes(pods)) == 5
    assert engine.reason(pods[0]) is Reason.QUOTA


def test_room_for_members_that_are_expected_counts() -> None:
    pods = gang("train", 1, "a")
    engine = Driver(gpu_node(), capped("a", 4), make_group("train", 4), *pods)
    engine.tick()
    assert used(engine, "a") == 4
    engine.see(lone("other", "a"))
    engine.tick()
    assert engine.reason(lone("other", "a")) is Reason.QUOTA


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        pytest.param("mistyped", Reason.QUEUE_NOT_FOUND, id="unknown"),
        pytest.param("dept", Reason.QUEUE_NOT_LEAF, id="inner"),
        pytest.param("shut", Reason.QUEUE_CLOSED, id="closed"),
        pytest.param("orphan", Reason.QUEUE_INVALID, id="below a queue that there is not"),
        pytest.param("theirs", Reason.NAMESPACE, id="of other namespaces"),
        pytest.param("a", None, id="sound"),
        pytest.param(None, None, id="none, so the default one"),
    ],
)
@pytest.mark.parametrize("members", [1, 2], ids=["too few members", "all members"])
def test_a_queue_that_admits_nothing_is_the_first_reason(
    queue: str | None, reason: Reason | None, members: int
) -> None:
    pods = gated([lone(f"w-{n}", queue, group="train", created=engine_driver.START - 99) for n in range(members)])
    engine = Driver(
        gpu_node(),
        *(make_queue("dept"), make_queue("a", parent="dept"), make_queue("shut", closed=True)),
        *(make_queue("orphan", parent="ghost"), make_queue("theirs", namespaces=frozenset({"others"}))),
        *(make_group("train", 2), *pods),
    )
    engine.tick()
    assert engine.reason(pods[0]) is reason
    assert all((node is None) == (reason is not None) for node in engine.nodes(pods))


@pytest.mark.parametrize(
    "healed",
    [
        pytest.param([make_queue("q")], id="the queue appears"),
        pytest.param([make_queue("q", parent="dept"), make_queue("dept")], id="with one above it"),
        pytest.param([make_queue("q", source=Source.VOLCANO, parent="root")], id="as Volcano's"),
    ],
)
def test_it_heals_when_the_queue_is_mended(healed: list[Queue]) -> None:
    pods = gang("train", 2, "q")
    engine = Driver(gpu_node(), make_group("train", 2), *pods)
    engine.tick()
    assert engine.reason(pods[0]) is Reason.QUEUE_NOT_FOUND
    engine.see(*healed)
    engine.tick()
    assert None not in engine.nodes(pods)


def test_closing_a_queue_leaves_what_runs_and_what_was_admitted() -> None:
    runs, starts, waits = gang("runs", 2, "a"), gang("starts", 2, "a"), gang("waits", 2, "a")
    engine = Driver(
        gpu_node(gpus=4),
        make_queue("a"),
        *(make_group(name, 2) for name in ("runs", "starts", "waits")),
        *(*runs, *starts, *waits),
    )
    engine.tick()
    engine.bind(*runs)
    engine.see(make_queue("a", closed=True))
    engine.tick()
    assert None not in engine.nodes(starts)
    assert engine.reason(waits[0]) is Reason.QUEUE_CLOSED
    engine.send(messages.QueueGone(Source.MUSTER, QueueName("a")))
    engine.tick()
    assert engine.reason(waits[0]) is Reason.QUEUE_NOT_FOUND
    assert used(engine, "a") == 4


def test_a_group_that_changes_its_queue_takes_its_usage_along() -> None:
    pods = gated([make_pod(f"p{n}", ONE, group="train") for n in range(2)])
    engine = Driver(gpu_node(), make_queue("a"), make_queue("b"), make_group("train", 2, queue="a"), *pods)
    engine.tick()
    engine.bind(pods[0])
    assert (used(engine, "a"), used(engine, "b")) == (2, 0)
    engine.see(make_group("train", 2, queue="b"))
    assert (used(engine, "a"), used(engine, "b")) == (0, 2)
    engine.gone(make_group("train", 2))
    engine.send(messages.NamespaceSeen("team", QueueName("a")))
    assert (used(engine, "a"), used(engine, "default")) == (2, 0)


def test_pods_of_other_schedulers_use_no_quota() -> None:
    foreign = builders.bound(lone("foreign", "a", 4, scheduler="default-scheduler"), "gpu-0")
    engine = Driver(gpu_node(), capped("a", 4), foreign, lone("ours", "a", 4))
    engine.tick()
    assert used(engine, "a") == 4
    assert engine.node(lone("ours", "a")) == "gpu-0"


def test_queues_with_a_backlog_for_quota_and_those_that_admit_nothing_are_not_open() -> None:
    engine = Driver(
        gpu_node(),
        *(make_queue("dept"), capped("a", 1, "dept"), make_queue("b", parent="dept"), make_queue("shut", closed=True)),
        *(make_queue("orphan", parent="ghost"), make_queue("mad", problems=("spec.weight",))),
        lone("one", "a"),
    )
    engine.tick(2.0)
    assert engine.effects[-1] == messages.SetOpenQueues(frozenset({"a", "b", "default"}))
    engine.see(lone("two", "a"))
    assert engine.tick(2.0) == [messages.SetOpenQueues(frozenset({"b", "default"}))]


def test_a_guarantee_is_never_lent_and_its_owner_starts_at_once() -> None:
    engine = Driver(
        gpu_node(gpus=4),
        *(make_queue("a", guarantee=((GPU, 2),)), make_queue("b")),
        *(pods := [lone(f"b{n}", "b") for n in range(4)]),
    )
    engine.tick()
    assert sum(node is not None for node in engine.nodes(pods)) == 2
    assert [engine.reason(pod) for pod in pods] == [None, None, Reason.RESERVED, Reason.RESERVED]
    mine = gang("mine", 2, "a")
    engine.see(make_group("mine", 2), *mine)
    engine.tick()
    assert None not in engine.nodes(mine)


def test_a_guarantee_that_the_cluster_lost_is_promised_no_more() -> None:
    waits = lone("b", "b")
    engine = Driver(gpu_node(gpus=2), make_queue("a", guarantee=((GPU, 2),)), make_queue("b"), waits)
    engine.tick()
    assert engine.reason(waits) is Reason.RESERVED
    engine.see(gpu_node("more", 1))
    engine.tick()
    assert engine.node(waits) is not None


def test_a_new_life_takes_over_no_more_than_the_queue_has() -> None:
    pods = [lone(f"p{n}", "a", nominated=builders.NodeName("gpu-0")) for n in range(3)]
    engine = Driver(gpu_node(), capped("a", 2), *pods, above=engine_driver.BY_NOMINATION, active=False)
    engine.send(messages.ActivityChanged(True))
    assert used(engine, "a") == 2


def test_two_queues_share_by_what_they_deserve_and_what_is_idle_is_lent() -> None:
    queues = (make_queue("a", deserved=((GPU, 6),)), make_queue("b", deserved=((GPU, 2),)))
    first = [lone(f"a{n}", "a") for n in range(9)]
    second = [lone(f"b{n}", "b") for n in range(9)]
    engine = Driver(gpu_node(), *queues, *first, *second)
    engine.tick()
    assert (used(engine, "a"), used(engine, "b")) == (6, 2)
    alone = Driver(gpu_node(), *queues, *second)
    alone.tick()
    assert used(alone, "b") == 8


def test_room_that_comes_back_goes_to_the_queue_that_is_owed() -> None:
    queues = (make_queue("a", deserved=((GPU, 4),)), make_queue("b", deserved=((GPU, 4),)))
    first = [lone(f"a{n:02}", "a") for n in range(12)]
    engine = Driver(gpu_node(), *queues, *first)
    engine.tick()
    engine.bind(*first[:8])
    late = [lone(f"b{n}", "b", created=engine_driver.START) for n in range(4)]
    engine.see(*late)
    engine.tick()
    engine.see(*(replace(builders.bound(pod, "gpu-0"), phase="Succeeded") for pod in first[:4]))
    engine.tick()
    assert None not in engine.nodes(late)
    assert (used(engine, "a"), used(engine, "b")) == (4, 4)


def test_a_pod_that_waits_on_moves_with_its_namespace_to_another_queue() -> None:
    waits = [lone(f"p{n}", None, 9) for n in range(2)]
    engine = Driver(gpu_node(), make_queue("a"), *waits)
    engine.tick()
    assert engine.engine.backlog.for_room == {"default": 2}
    engine.send(messages.NamespaceSeen("team", QueueName("a")))
    engine.tick()
    assert engine.engine.backlog.for_room == {"a": 2}


def test_quota_that_a_group_takes_along_to_another_queue_is_free_in_the_old_one() -> None:
    runs = gated([make_pod(f"p{n}", ONE, group="train") for n in range(2)])
    waits = gang("waits", 2, "a")
    engine = Driver(
        gpu_node(), capped("a", 2), make_queue("b"), make_group("train", 2, queue="a"), make_group("waits", 2), *runs
    )
    engine.tick()
    engine.bind(*runs)
    engine.see(*waits)
    engine.tick()
    assert engine.reason(waits[0]) is Reason.QUOTA
    engine.see(make_group("train", 2, queue="b"))
    engine.tick()
    assert None not in engine.nodes(waits)


def test_a_plan_does_not_move_to_a_queue_that_has_no_quota_for_it() -> None:
    pods = gated([make_pod(f"p{n}", ONE, group="train") for n in range(2)])
    engine = Driver(gpu_node(), make_queue("a"), capped("b", 1), make_group("train", 2, queue="a"), *pods)
    engine.tick()
    assert None not in engine.nodes(pods)
    engine.see(make_group("train", 2, queue="b"))
    engine.tick()
    assert engine.nodes(pods) == [None, None]
    assert engine.reason(pods[0]) is Reason.QUOTA
    assert (used(engine, "a"), used(engine, "b")) == (0, 0)


def test_a_pod_that_begins_to_leave_asks_for_no_new_look_at_all_that_waits() -> None:
    leaves = lone("leaves", "a", 8)
    engine = Driver(gpu_node(), make_queue("a"), leaves, lone("waits", "a", 8))
    engine.tick()
    engine.bind(leaves)
    engine.tick()
    engine.see(replace(builders.bound(leaves, "gpu-0"), terminating=True))
    assert engine.engine.usage.take_moved() == []
    assert not engine.engine._cycle.grown
    assert used(engine, "a") == 8


@pytest.mark.parametrize("gang", [None, "runs"], ids=["pods", "a gang that is looked at too"])
def test_ownership_is_judged_for_what_is_asked_for(gang: str | None) -> None:
    """The one that came earlier and has the smaller share borrows; the other owns what it asks for."""
    h, a = "example.com/h100", "example.com/a10"
    queues = [make_queue(name, deserved=((a, 0), (h, 5))) for name in ("lab-a", "lab-b", "lab-c")]
    nodes = builders.make_node("nh", {h: 15}), builders.make_node("na", {a: 50})

    def there(queue: str, what: str, count: int, node: str, group: str | None = None) -> list[Pod]:
        names = [f"{queue}-{what[-3:]}-{n}" for n in range(count)]
        pods = [make_pod(name, {what: 1}, queue=QueueName(queue), group=group) for name in names]
        return [builders.bound(pod, node) for pod in pods]

    running = there("lab-a", h, 5, "nh", gang)
    groups = [make_group(gang, 1)] if gang else []
    engine = Driver(
        *nodes, *queues, *groups, *running, *there("lab-a", a, 30, "na"), *there("lab-b", h, 5, "nh"),
        *there("lab-b", a, 20, "na"), *there("lab-c", h, 5, "nh"),
    )  # fmt: skip
    c_next = make_pod("c-next", {h: 1}, queue=QueueName("lab-c"), created=10.0)
    a_next = make_pod("a-next", {h: 1}, queue=QueueName("lab-a"), created=20.0)
    engine.see(c_next, a_next)
    engine.tick()
    end(engine, running[0])
    assert engine.nodes([a_next, c_next]) == ["nh", None]
    engine.bind(a_next)
    end(engine, running[1])
    assert engine.node(c_next) == "nh"


def test_of_many_equal_gangs_as_many_start_as_have_room_in_order_and_all_say_why_they_wait() -> None:
    gangs = [gang(f"g{n}", 2, "a", created=float(n)) for n in range(5)]
    groups = [make_group(f"g{n}", 2, queue="a") for n in range(5)]
    engine = Driver(gpu_node("n0", 1), make_queue("a"), *groups, *(pod for pods in gangs for pod in pods))
    engine.ticks(3.0)
    stated = [effect.key.name for effect in engine.effects if isinstance(effect, messages.StateGroup)]
    assert stated == [f"g{n}" for n in range(5)]
    engine.see(gpu_node("n1", 4))
    engine.tick()
    assert [None in engine.nodes(pods) for pods in gangs] == [False, False, True, True, True]
    engine.see(gpu_node("n2", 1), make_queue("a", capability=((GPU, 5),)))
    engine.tick()
    assert [engine.reason(pods[0]) for pods in gangs] == [None, None, *[Reason.QUOTA] * 3]
    engine.see(make_queue("a", capability=((GPU, 6),)))
    engine.tick()
    assert [None in engine.nodes(pods) for pods in gangs] == [False, False, False, True, True]


def test_gangs_that_differ_in_their_minimum_are_not_taken_for_equal() -> None:
    strict, lenient = gang("strict", 2, "a", created=1.0), gang("lenient", 2, "a", created=2.0)
    engine = Driver(
        gpu_node("n0", 1), make_queue("a"), make_group("strict", 2), make_group("lenient", 1), *strict, *lenient
    )
    engine.tick()
    assert engine.nodes(strict) == [None, None]
    assert sorted(map(str, engine.nodes(lenient))) == ["None", "n0"]


# --- what waits holds back ---------------------------------------------------------------------------


def owed(*more: Any, size: int = 4, **fields: Any) -> tuple[Driver, list[Pod], list[Pod]]:
    """Queue b has borrowed a whole node; a gang of queue a waits for its half, and a pod of b for any room."""
    borrowed = [lone(f"b{n}", "b") for n in range(8)]
    b = make_queue("b", reclaimable=False)  # nobody is evicted: it waits until room appears
    engine = Driver(gpu_node(), make_queue("a", deserved=((GPU, 4),)), b, *borrowed)
    engine.tick()
    engine.bind(*borrowed)
    waits = gang("waits", size, "a", **fields)
    engine.see(make_group("waits", size), *waits, lone("next", "b"), *more)
    engine.tick()
    return engine, [builders.bound(pod, "gpu-0") for pod in borrowed], waits


def end(engine: Driver, *pods: Pod) -> None:
    """These end well, one cycle after the other."""
    for pod in pods:
        engine.see(replace(pod, phase="Succeeded"))
        engine.tick()


def test_room_that_a_queue_is_owed_is_not_lent_on_piece_by_piece() -> None:
    engine, running, waits = owed()
    end(engine, *running[:3])
    assert engine.node(lone("next", "b")) is None
    assert engine.reason(lone("next", "b")) is Reason.RESERVED
    assert engine.detail(lone("next", "b")) == {"for": "muster/team/waits"}
    end(engine, running[3])
    assert None not in engine.nodes(waits)
    end(engine, running[4])
    assert engine.node(lone("next", "b")) == "gpu-0"


def test_room_that_the_owner_cannot_use_is_open_to_all() -> None:
    engine, running, _ = owed(gpu_node("other", 1, {"zone": "x"}), constraints={"selector": (("zone", "y"),)})
    engine.see(gpu_node("gpu-0", 8, {"zone": "y"}))
    engine.tick()
    assert engine.node(lone("next", "b")) == "other"
    engine.see(lone("third", "b"))
    end(engine, running[0])
    assert engine.reason(lone("third", "b")) is Reason.RESERVED


def test_where_there_is_enough_for_both_nobody_waits() -> None:
    engine, _, waits = owed(size=2)
    engine.see(*(gpu_node(f"half-{n}", 1) for n in range(3)), make_group("waits", 2, topology_required="zone"))
    engine.tick()
    assert engine.nodes(waits) == [None, None]
    assert engine.node(lone("next", "b")) is not None


@pytest.mark.parametrize(
    "hopeless",
    [
        pytest.param({"gpus": 9}, id="a member larger than any node"),
        pytest.param({"constraints": {"selector": (("zone", "nowhere"),)}}, id="no node that it accepts"),
    ],
)
def test_who_could_not_start_in_an_empty_cluster_holds_nothing_back(hopeless: dict[str, Any]) -> None:
    queue = make_queue("a", deserved=((GPU, 99),))
    engine, running, _ = owed(queue, **hopeless)
    end(engine, running[0])
    assert engine.node(lone("next", "b")) == "gpu-0"


def test_who_asks_for_more_than_its_queue_owns_holds_nothing_back() -> None:
    engine, running, _ = owed(size=5)
    end(engine, running[0])
    assert engine.node(lone("next", "b")) == "gpu-0"


def test_what_was_held_back_is_free_when_the_one_that_waited_is_gone() -> None:
    engine, running, waits = owed()
    end(engine, running[0])
    assert engine.reason(lone("next", "b")) is Reason.RESERVED
    engine.gone(*waits)
    engine.tick()
    engine.tick()
    assert engine.node(lone("next", "b")) == "gpu-0"


def test_a_queue_holds_back_no_more_than_it_owns() -> None:
    second = gang("second", 4, "a", created=engine_driver.START)
    engine, running, waits = owed(make_group("second", 4), *second)
    end(engine, *running[:4])
    assert None not in engine.nodes(waits)
    end(engine, running[4])
    assert engine.node(lone("next", "b")) == "gpu-0"  # of what the queue owns, nothing is left for the second


def test_a_queue_holds_back_for_all_that_it_owns_together() -> None:
    second = gang("second", 2, "a", created=engine_driver.START)
    engine, running, waits = owed(make_group("second", 2), *second, size=2)
    end(engine, *running[:2])
    assert None not in engine.nodes(waits)
    end(engine, running[2])
    assert engine.reason(lone("next", "b")) is Reason.RESERVED
    end(engine, running[3])
    assert None not in engine.nodes(second)
    end(engine, running[4])
    assert engine.node(lone("next", "b")) == "gpu-0"


def test_who_could_make_room_below_itself_holds_back_too() -> None:
    engine, running, waits = owed(priority=5)
    end(engine, *running[:2])
    engine.see(builders.bound(lone("low", "a"), "gpu-0"))
    end(engine, running[2])
    assert engine.nodes(waits) == [None] * 4  # with the room of "low" there would be three
    assert engine.reason(lone("next", "b")) is Reason.RESERVED
