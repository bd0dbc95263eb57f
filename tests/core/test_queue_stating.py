"""What our Queue objects are told: numbers, state and named conditions, seldom and only what is new."""

from __future__ import annotations

from typing import Any

import pytest

from extender.core import messages
from extender.core.ids import QueueName, Source
from extender.core.model import Pod, Queue, QueueCondition, QueueStatus
from extender.core.queue_stating import RETRY_SECONDS, WRITE_SECONDS, WRITES_A_LOOK
from extender.core.resources import GPU_PARTS, GPU_SHARE, MAX_AMOUNT, parts_of
from tests import builders
from tests.builders import GPU, gpu_node, make_node, make_pod, make_queue
from tests.core.engine_driver import START, Driver


def pods(count: int, queue: str, gpus: int = 1) -> list[Pod]:
    return [make_pod(f"{queue}-{n}", {GPU: gpus}, queue=QueueName(queue)) for n in range(count)]


def newest(engine: Driver, name: str) -> QueueStatus:
    """What was last written of this queue."""
    return next(effect.status for effect in reversed(engine.statements) if effect.name == name)


def condition(engine: Driver, name: str, kind: str) -> tuple[bool, str, str] | None:
    found = [one for one in newest(engine, name).conditions if one.kind == kind]
    return (found[0].true, found[0].reason, found[0].message) if found else None


def test_what_runs_and_what_waits_is_told_at_every_level() -> None:
    queues = make_queue("dept", generation=4), make_queue("a", parent="dept", capability=((GPU, 3),))
    engine = Driver(gpu_node(), *queues, *pods(5, "a"))
    engine.tick()
    engine.tick(WRITE_SECONDS)
    allocated = ((GPU, 3), ("pods", 3))
    valid = (QueueCondition("Valid", True, "Valid", "", int(START)),)
    assert newest(engine, "a") == QueueStatus(allocated, "1.00", 2, "Open", 0, valid)
    assert newest(engine, "dept") == QueueStatus(allocated, "1.00", 0, "Open", 4, valid)


def test_mig_instances_are_told_as_they_are_and_by_share_as_whole_gpus_too() -> None:
    profile = "nvidia.com/mig-3g.20gb"
    node = make_node("mig", {profile: 4})
    queues = make_queue("dept"), make_queue("a", parent="dept", by_share=True, capability=((GPU_SHARE, 2 * GPU_PARTS),))
    request = {profile: 1, GPU_SHARE: parts_of(profile)}
    engine = Driver(node, *queues, *(make_pod(f"a-{n}", request, queue=QueueName("a")) for n in range(3)))
    engine.tick()
    engine.tick(WRITE_SECONDS)
    assert newest(engine, "a").allocated == ((GPU, 2), (profile, 3), ("pods", 3))
    assert newest(engine, "dept").allocated == ((profile, 3), ("pods", 3))


@pytest.mark.parametrize(
    ("queue", "waiting", "share"),
    [
        pytest.param({"deserved": ((GPU, 8),)}, 2, "1.00", id="all that it wants"),
        pytest.param({"deserved": ((GPU, 8),)}, 8, "0.50", id="half of what it deserves"),
        pytest.param({"weight": 0}, 8, "0.50", id="what nobody else wants"),
        pytest.param({"capability": ((GPU, 0),)}, 8, "inf", id="something of which it may have nothing"),
    ],
)
def test_the_share_is_what_is_used_of_what_is_due(queue: dict[str, Any], waiting: int, share: str) -> None:
    runs = builders.bound(pods(1, "a", 4)[0], "gpu-0")
    nowhere = {"selector": (("zone", "nowhere"),)}
    waits = [make_pod(f"w{n}", {GPU: 1}, queue=QueueName("a"), constraints=nowhere) for n in range(max(0, waiting - 4))]
    engine = Driver(gpu_node(), make_queue("a", **queue), runs, *waits)
    engine.tick()
    assert newest(engine, "a").share == share


@pytest.mark.parametrize(
    ("queues", "runs", "state"),
    [
        pytest.param([make_queue("a")], 1, "Open", id="open"),
        pytest.param([make_queue("a", closed=True)], 1, "Closing", id="closed, with work"),
        pytest.param([make_queue("a", closed=True)], 0, "Closed", id="closed, without"),
        pytest.param([make_queue("a", parent="d"), make_queue("d", closed=True)], 1, "Closing", id="closed above"),
    ],
)
def test_states(queues: list[Queue], runs: int, state: str) -> None:
    waits = make_pod("waits", {GPU: 1}, queue=QueueName("a"))
    engine = Driver(gpu_node(), *queues, *(builders.bound(pod, "gpu-0") for pod in pods(runs, "a")), waits)
    engine.tick()
    assert newest(engine, "a").state == state


@pytest.mark.parametrize(
    ("queues", "valid", "covered"),
    [
        pytest.param([make_queue("a")], (True, "Valid", ""), None, id="sound"),
        pytest.param(
            [make_queue("a", parent="a")],
            (False, "ParentCycle", "a: the queues above lead back to it (a below a)"),
            None,
            id="ring",
        ),
        pytest.param(
            [make_queue("a", parent="b")], (False, "ParentNotFound", "a: there is no queue b"), None, id="no parent"
        ),
        pytest.param(
            [make_queue("a", parent="b"), make_queue("b", problems=("spec.weight: -1",))],
            (False, "ParentInvalid", "b: spec.weight: -1"),
            None,
            id="a fault above",
        ),
        pytest.param(
            [make_queue("a", guarantee=((GPU, 8),))], (True, "Valid", ""), (True, "Covered", ""), id="covered"
        ),
        pytest.param(
            [make_queue("a", guarantee=((GPU, 9),))],
            (True, "Valid", ""),
            (False, "AboveCluster", f"{GPU}: of 9 only 0 can be kept"),
            id="more than the cluster has",
        ),
    ],
)
def test_conditions_name_what_is_wrong(queues: list[Queue], valid: tuple, covered: tuple | None) -> None:
    engine = Driver(gpu_node(), *queues)
    engine.tick()
    assert condition(engine, "a", "Valid") == valid
    assert condition(engine, "a", "GuaranteeCovered") == covered


def test_the_time_of_a_condition_is_that_of_its_last_change() -> None:
    engine = Driver(gpu_node(), make_queue("a"))
    engine.tick()
    engine.see(*pods(1, "a"))
    engine.ticks(10.0)
    assert [one.since for one in newest(engine, "a").conditions] == [int(START)]
    engine.see(make_queue("a", parent="ghost"))
    engine.ticks(10.0)
    assert [one.since for one in newest(engine, "a").conditions] > [int(START) + 9]


def test_what_the_object_says_already_is_not_written() -> None:
    engine = Driver(gpu_node(), make_queue("a"), *pods(1, "a"))
    engine.ticks(10.0)
    written = newest(engine, "a")
    count = len(engine.statements)
    engine.see(make_queue("a", status=written))
    engine.ticks(60.0)
    assert len(engine.statements) == count
    again = Driver(gpu_node(), make_queue("a", status=written), *pods(1, "a"))
    again.ticks(10.0)
    assert again.statements == []


def test_a_queue_is_written_at_most_so_often_and_at_last_says_what_is_so() -> None:
    engine = Driver(gpu_node(), make_queue("a"))
    engine.tick()
    engine.statements.clear()
    for pod in pods(8, "a"):
        engine.see(pod)
        engine.ticks(1.0, 0.1)
    assert len(engine.statements) <= 8 / WRITE_SECONDS + 1
    engine.ticks(WRITE_SECONDS + 1)
    assert dict(newest(engine, "a").allocated)[GPU] == 8


def test_many_queues_are_not_written_at_once() -> None:
    queues = [make_queue(f"q{n}") for n in range(2 * WRITES_A_LOOK)]
    engine = Driver(gpu_node(), *queues)
    engine.tick()
    assert len(engine.statements) == WRITES_A_LOOK
    engine.ticks(2.0)
    assert {effect.name for effect in engine.statements} == {queue.name for queue in queues}
    assert len(engine.statements) == len(queues)


def test_a_failed_write_is_tried_again_later() -> None:
    engine = Driver(gpu_node(), make_queue("a"))
    engine.tick()
    (first,) = engine.statements
    engine.done(first, error="409")
    engine.ticks(RETRY_SECONDS - 1)
    assert len(engine.statements) == 1
    engine.ticks(3.0)
    assert len(engine.statements) == 2


def test_what_somebody_else_writes_is_mended() -> None:
    engine = Driver(gpu_node(), make_queue("a"))
    engine.tick()
    engine.see(make_queue("a", status=QueueStatus(state="Open", pending=7)))
    engine.ticks(WRITE_SECONDS + 1)
    assert newest(engine, "a").pending == 0
    assert len(engine.statements) == 2


def test_a_queue_that_is_made_anew_under_its_name_is_told_anew() -> None:
    engine = Driver(gpu_node(), make_queue("a", uid="1"))
    engine.tick()
    engine.send(messages.QueueGone(Source.MUSTER, QueueName("a")))
    engine.see(make_queue("a", uid="2"))
    engine.ticks(WRITE_SECONDS + 1)
    assert len(engine.statements) == 2


def test_amounts_that_are_used_no_more_are_named_so_that_they_go() -> None:
    engine = Driver(gpu_node(), make_queue("a", status=QueueStatus(allocated=((GPU, 3),))))
    engine.tick()
    assert [effect.before for effect in engine.statements] == [((GPU, 3),)]


def test_volcano_s_queues_are_read_only_and_default_has_no_object() -> None:
    engine = Driver(gpu_node(), make_queue("a", source=Source.VOLCANO, parent="root"), *pods(1, "a"))
    engine.ticks(10.0)
    assert engine.statements == []


def test_no_more_is_stated_than_an_object_can_hold() -> None:
    huge = {f"example.com/r{n}": MAX_AMOUNT for n in range(40)}
    there = [builders.bound(make_pod(f"p{n}", huge, queue=QueueName("a")), "gpu-0") for n in range(3)]
    engine = Driver(gpu_node(), make_queue("a"), *there)
    engine.tick()
    allocated = newest(engine, "a").allocated
    assert len(allocated) == 32
    assert max(amount for _, amount in allocated) == MAX_AMOUNT


def test_a_new_life_writes_what_the_old_one_had_not() -> None:
    engine = Driver(gpu_node(), make_queue("a"), *pods(1, "a"))
    engine.tick()
    engine.send(messages.ActivityChanged(False), messages.ActivityChanged(True))
    engine.tick()
    assert len(engine.statements) == 2
