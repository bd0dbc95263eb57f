"""What would end a wait is true: with the change the group starts, and where its pods are alike, with less it does not.

The oracle is another engine, which is shown the same cluster with the change made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from engine_driver import Driver
from hypothesis import given
from hypothesis import strategies as st

from extender.core import explain
from extender.core.answers import Answers, Closer
from extender.core.ids import GroupKey, QueueName
from extender.core.mending import Mend
from extender.core.model import Node, Pod, Queue, Topology
from extender.core.reasons import Reason
from tests import builders
from tests.builders import GPU

RACK = "rack"
LEVELS = builders.make_topology("block", RACK)
Thing = Node | Pod | Queue | Topology


def closer(driver: Driver, key: GroupKey) -> Closer:
    found = Answers(driver.engine)
    said = found.workload(key)
    assert said is not None
    return found.closer(said, driver.now)


def mends(driver: Driver, pod: Pod) -> tuple[Mend, ...]:
    """What is said to a group that waits without places."""
    found = closer(driver, pod.group).mends
    if driver.reason(pod) is not None:
        return found
    assert [one.reason for one in found] == [Reason.HELD_ELSEWHERE]
    return ()


def waits(*things: Thing) -> Driver:
    driver = Driver(*things)
    driver.tick()
    return driver


def racked(name: str, gpus: int, rack: str) -> Node:
    return builders.gpu_node(name, gpus, {"block": "b", RACK: rack})


# --- room --------------------------------------------------------------------------------------------

sizes = st.lists(st.tuples(st.integers(0, 8), st.sampled_from("xy")), max_size=5)


@given(sizes, st.integers(1, 6), st.integers(1, 8), st.booleans())
def test_so_many_more_places_are_enough_and_one_less_is_not(
    nodes: list[tuple[int, str]], size: int, gpus: int, close: bool
) -> None:
    group = builders.make_group("train", size, topology_required=RACK if close else None)
    pods = builders.make_pods(size, request={GPU: gpus}, group="train")
    there: list[Thing] = [LEVELS, *(racked(f"n{n}", free, rack) for n, (free, rack) in enumerate(nodes)), group, *pods]
    driver = waits(racked("empty", 0, "x"), *there)
    found = mends(driver, pods[0])
    if driver.reason(pods[0]) is None:
        assert found == ()
        return
    ((number, rack),) = [lacking(one) for one in found]
    assert 1 <= number <= size
    for count, want in ((number, None), (number - 1, driver.reason(pods[0]))):
        more = [racked(f"more-{n}", gpus, rack) for n in range(count)]
        again = waits(racked("empty", 0, "x"), *more, *there)
        assert (again.reason(pods[0]) is None) == (want is None)


def lacking(mend: Mend) -> tuple[int, str]:
    """How many pods have no place, and in which rack; the first one where it does not say."""
    assert mend.reason in (Reason.RESOURCES, Reason.TOPOLOGY)
    detail = dict(mend.detail)
    domain = str(detail.get("domain", "b/x"))
    return int(detail["pods"]), domain.rpartition("/")[2]


@given(st.lists(st.integers(0, 8), max_size=4), st.integers(1, 3), st.integers(1, 3))
def test_places_for_two_tasks_are_enough(nodes: list[int], leaders: int, workers: int) -> None:
    group = builders.make_group("train", leaders + workers, {"leader": leaders, "worker": workers})
    pods = [builders.make_pod(f"l{n}", {GPU: 5}, group="train", task="leader") for n in range(leaders)]
    pods += [builders.make_pod(f"w{n}", {GPU: 2}, group="train", task="worker") for n in range(workers)]
    there: list[Thing] = [*(builders.gpu_node(f"n{n}", free) for n, free in enumerate(nodes)), group, *pods]
    driver = waits(builders.gpu_node("empty", 0), *there)
    more: list[Node] = []
    for mend in mends(driver, pods[0]):
        detail = dict(mend.detail)
        each = {"leader": 5, "worker": 2}[str(detail["task"])]
        assert detail["each"] == each
        more += [builders.gpu_node(f"{detail['task']}-{n}", each) for n in range(int(detail["pods"]))]
    assert bool(more) == (driver.reason(pods[0]) is not None)
    assert waits(builders.gpu_node("empty", 0), *more, *there).reason(pods[0]) is None


def test_the_domain_that_lacks_least_is_named_with_what_each_pod_asks_for():
    group = builders.make_group("train", 4, topology_required=RACK)
    pods = builders.make_pods(4, request={GPU: 8}, group="train")
    nodes = [racked(f"n{n}", 8, rack) for n, rack in enumerate(["x", "y", "y", "y"])]
    (found,) = mends(waits(LEVELS, *nodes, group, *pods), pods[0])
    assert found == Mend(
        Reason.TOPOLOGY,
        (("pods", 1), ("resource", GPU), ("each", 8), ("level", RACK), ("domain", "b/y")),
    )
    assert explain.mend(found.reason, found.detail) == (
        "so many more of its pods find room at the same time, in one domain of the level "
        f"(pods 1, resource {GPU}, each 8, level {RACK}, domain b/y)"
    )


def test_what_a_group_that_runs_wants_beyond_its_minimum_lacks_one_place():
    pods = builders.make_pods(4, request={GPU: 4}, group="train")
    running = [builders.bound(pod, "gpu-0") for pod in pods[:2]]
    driver = waits(builders.gpu_node(), builders.make_group("train", 2), *running, *pods[2:])
    assert mends(driver, pods[2]) == (Mend(Reason.RESOURCES, (("pods", 1), ("resource", GPU), ("each", 4))),)


def test_nodes_that_take_no_pods_are_counted_and_are_enough():
    pods = builders.make_pods(3, request={GPU: 8}, group="train")
    out = [builders.gpu_node(f"n{n}", unschedulable=True) for n in range(5)]
    group = builders.make_group("train", 3)
    driver = waits(*out, group, *pods)
    (found,) = mends(driver, pods[0])
    assert found.reason is Reason.NODE_UNAVAILABLE
    assert found.detail[0] == ("nodes", 3)
    named = {name for what, name in found.detail if what == "node"}
    back = [replace(node, unschedulable=node.name not in named) for node in out]
    assert waits(*back, group, *pods).reason(pods[0]) is None


# --- quota -------------------------------------------------------------------------------------------


@given(st.integers(0, 8), st.integers(0, 8), st.integers(1, 4), st.integers(1, 4))
def test_so_much_more_of_every_queue_is_enough_and_one_less_is_not(top: int, low: int, size: int, gpus: int) -> None:
    def queues(more: dict[str, int]) -> Iterable[Queue]:
        yield builders.make_queue("dept", capability=((GPU, top + more.get("dept", 0)),))
        yield builders.make_queue("team", parent=QueueName("dept"), capability=((GPU, low + more.get("team", 0)),))

    pods = builders.make_pods(size, request={GPU: gpus}, group="train")
    nodes = [builders.gpu_node(f"n{n}") for n in range(size)]
    there: list[Thing] = [*nodes, builders.make_group("train", size, queue="team"), *pods]
    driver = waits(*queues({}), *there)
    more = {str(dict(one.detail)["queue"]): int(dict(one.detail)["more"]) for one in mends(driver, pods[0])}
    assert more == {name: size * gpus - most for name, most in (("dept", top), ("team", low)) if size * gpus > most}
    assert waits(*queues(more), *there).reason(pods[0]) is None
    for name in more:
        less = more | {name: more[name] - 1}
        assert waits(*queues(less), *there).reason(pods[0]) is Reason.QUOTA


def test_a_group_that_lacks_quota_and_room_is_told_both():
    pods = builders.make_pods(2, request={GPU: 8}, group="train")
    queue = builders.make_queue("team", capability=((GPU, 8),))
    driver = waits(queue, builders.gpu_node(), builders.make_group("train", 2, queue="team"), *pods)
    assert mends(driver, pods[0]) == (
        Mend(Reason.QUOTA, (("queue", "team"), ("resource", GPU), ("more", 8))),
        Mend(Reason.RESOURCES, (("pods", 1), ("resource", GPU), ("each", 8))),
    )


# --- the rest ----------------------------------------------------------------------------------------


def test_missing_members_are_counted_also_by_task():
    driver = waits(builders.make_node(), builders.make_group("empty", 3))
    key = builders.group_key("empty")
    assert closer(driver, key).mends == (Mend(Reason.MEMBERS, (("pods", 3),)),)
    pod = builders.make_pod("w", group="roles", task="worker")
    driver = waits(builders.make_node(), builders.make_group("roles", 4, {"leader": 1, "worker": 3}), pod)
    driver.tick(11)
    assert driver.reason(pod) is Reason.MEMBERS
    want = (("task", "leader"), ("pods", 1), ("task", "worker"), ("pods", 2))
    assert mends(driver, pod) == (Mend(Reason.MEMBERS, want),)


def test_what_needs_a_person_has_the_numbers_of_its_reason():
    pod = builders.make_pod("lost", queue=QueueName("nowhere"))
    driver = waits(builders.make_node(), pod)
    (found,) = mends(driver, pod)
    refusal = driver.entry(pod).refusal
    assert refusal is not None
    assert found == Mend(Reason.QUEUE_NOT_FOUND, refusal.detail)


def test_who_runs_waits_for_nothing():
    pod = builders.bound(builders.make_pod("runs"), "node-0")
    driver = waits(builders.make_node(), pod)
    assert closer(driver, pod.group) == Closer((), None, closer(driver, pod.group).past)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_words_for_what_ends_it(reason: Reason) -> None:
    text = explain.mend(reason, ())
    assert len(text) > 10
    assert not any(character.isdigit() for character in text)


# --- past and future ---------------------------------------------------------------------------------


def test_the_reasons_are_remembered_in_order_and_no_more_than_a_few():
    pod = builders.make_pod("web", {GPU: 8})
    filler = builders.bound(builders.make_pod("filler", {GPU: 8}, scheduler="other"), "gpu-0")
    driver = waits(builders.gpu_node(), filler, pod)
    began = driver.now
    for _ in range(20):
        driver.see(replace(builders.gpu_node(), unschedulable=True))
        driver.tick(10)
        driver.see(builders.gpu_node())
        driver.tick(10)
    past = closer(driver, pod.group).past
    assert 2 < len(past) <= 16
    assert past[0][0] > began
    assert [at for at, _ in past] == sorted(at for at, _ in past)
    assert past[-1] == (driver.now, Reason.RESOURCES)
    driver.gone(filler)
    driver.tick(5)
    assert closer(driver, pod.group).past[-2:] == ((driver.now - 5, Reason.RESOURCES), (driver.now, None))


def test_the_first_that_waits_is_told_when_it_starts_where_durations_are_declared():
    running = builders.make_group("runs", 1, expected_duration=100)
    first = builders.bound(builders.make_pod("r", {GPU: 8}, group="runs"), "gpu-0", at=999_990.0)
    pod, later = builders.make_pod("next", {GPU: 8}), builders.make_pod("later", {GPU: 8}, created=1.0)
    driver = waits(builders.gpu_node(), running, first, pod, later)
    driver.tick(1)
    assert closer(driver, pod.group).starts == 1_000_090.0
    assert closer(driver, later.group).starts is None


def test_asking_closely_changes_nothing():
    group = builders.make_group("train", 3, topology_required=RACK)
    pods = builders.make_pods(3, request={GPU: 4}, group="train")
    driver = waits(LEVELS, racked("n0", 8, "x"), racked("n1", 8, "y"), group, *pods)
    before, changes = repr(driver.engine.entries), driver.engine.usage.changes
    closer(driver, pods[0].group)
    assert (repr(driver.engine.entries), driver.engine.usage.changes) == (before, changes)
    assert driver.send() == []
