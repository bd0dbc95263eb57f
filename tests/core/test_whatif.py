"""What would become of a group is what becomes of it when it is created, and asking leaves no trace.

The oracle is the same engine, which is shown the group afterwards.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from engine_driver import Driver
from hypothesis import given
from hypothesis import strategies as st

from extender.core import messages
from extender.core.ids import QueueName
from extender.core.model import Group, Node, Owner, Pod, Queue
from extender.core.reasons import Reason
from extender.core.whatif import Outlook, taken, what_if
from tests import builders
from tests.builders import GPU

JOB = Owner("Job", "job", "uid-of-job")


def ask(driver: Driver, group: Group | None, pods: list[Pod]) -> Outlook:
    return what_if(driver.engine, group, pods, driver.now)


def new(size: int, gpus: int, least: int, queue: str = "default", **fields) -> tuple[Group, list[Pod]]:
    pods = builders.make_pods(
        size, "new", request={GPU: gpus}, group="new", queue=QueueName(queue), created=1_000_001.0, **fields
    )
    return builders.make_group("new", least, queue=queue), pods


def evicted(effects: list[messages.Effect]) -> Counter[str]:
    return Counter(effect.name for effect in effects if isinstance(effect, messages.Evict))


clusters = st.lists(st.integers(1, 8), min_size=1, max_size=3)
running = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from(["a", "b"]), st.sampled_from([0, 5])), max_size=5
)


@given(
    clusters,
    running,
    st.integers(0, 2),
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
    st.sampled_from(["a", "b", "none"]),
    st.sampled_from([0, 10]),
    st.integers(0, 12),
)
def test_it_becomes_of_the_group_what_was_foretold(sizes, runs, waits, shape, queue, priority, cap):
    size, gpus, least = shape
    queues = [
        builders.make_queue("a", deserved=((GPU, 4),)),
        builders.make_queue("b", capability=((GPU, cap),)),
    ]
    nodes: list[Node | Queue | Pod] = [builders.gpu_node(f"n{n}", free) for n, free in enumerate(sizes)]
    free = dict(enumerate(sizes))
    there: list[Node | Queue | Pod] = [*queues, *nodes]
    for number, (node, asked, of, worth) in enumerate(runs):
        if free.get(node, 0) >= asked:
            free[node] -= asked
            pod = builders.make_pod(f"r{number}", {GPU: asked}, queue=QueueName(of), priority=worth, owner=JOB)
            there.append(builders.bound(pod, f"n{node}"))
    there += [builders.make_pod(f"w{n}", {GPU: 8}, queue=QueueName("a"), created=float(n)) for n in range(waits)]
    driver, twin = Driver(*there), Driver(*there)
    for one in (driver, twin):
        one.tick()
        one.tick()
    group, pods = new(size, gpus, least, queue, priority=priority)
    found = ask(driver, group, pods)
    after = []
    for one in (driver, twin):
        effects = one.see(group, *pods) + one.tick() + one.tick()
        effects += one.tick(11) if size < least else []  # room is kept for those that may yet come
        after.append((effects, one.nodes(pods), one.entry(pods[0]).refusal))
    assert after[0] == after[1]
    effects, planned, refusal = after[0]
    places = Counter(node for node in planned if node)
    assert found.starts == (len([node for node in planned if node]) >= least)
    if found.starts:
        assert sum(one.members for one in found.nodes) == places.total()
        assert found.losses is None
    elif found.losses is not None:
        assert evicted(effects) == Counter(pod.name for loss in found.losses for pod in loss.pods)
        assert refusal is not None
        assert refusal.reason is Reason.VICTIMS
    else:
        assert evicted(effects) == Counter()
        assert refusal is not None
        assert found.refusal is not None
        assert refusal.reason is found.refusal.reason
        assert found.mends


def test_who_would_go_is_told_with_the_rule_and_the_cost():
    low = builders.bound(builders.make_pod("low", {GPU: 8}, priority=0, owner=JOB), "gpu-0", at=999_000.0)
    driver = Driver(builders.gpu_node(), low)
    driver.tick()
    found = ask(driver, *new(1, 8, 1, priority=10))
    assert (found.starts, found.position) == (False, 1)
    assert found.refusal is not None
    assert found.refusal.reason is Reason.RESOURCES
    assert [(one.node, one.members) for one in found.nodes] == [("gpu-0", 1)]
    assert found.losses is not None
    (loss,) = found.losses
    assert ([pod.name for pod in loss.pods], loss.ground.value) == (["low"], "Preempted")
    assert ("for", "new") in loss.detail
    assert ("lost-seconds", 1000) in loss.detail


def test_room_that_is_about_to_be_free_needs_no_victims():
    leaving = builders.make_pod("leaving", {GPU: 8}, node="gpu-0", phase="Running", terminating=True)
    low = builders.bound(builders.make_pod("low", {GPU: 8}, priority=-1, owner=JOB), "gpu-1")
    driver = Driver(builders.gpu_node(), builders.gpu_node("gpu-1"), leaving, low)
    driver.tick()
    found = ask(driver, *new(1, 8, 1))
    assert (found.starts, found.losses) == (False, ())


def test_fewer_pods_than_the_minimum_would_wait_for_the_others():
    driver = Driver(builders.gpu_node())
    driver.tick()
    found = ask(driver, *new(2, 1, 4))
    assert found.refusal is not None
    assert (found.refusal.reason, dict(found.mends[0].detail)) == (Reason.MEMBERS, {"pods": 2})


def test_what_is_above_the_minimum_may_wait_alone():
    driver = Driver(builders.gpu_node())
    driver.tick()
    found = ask(driver, *new(3, 4, 2))
    assert (found.starts, [one.members for one in found.nodes]) == (True, [2])
    assert found.refusal is not None
    assert found.refusal.reason is Reason.RESOURCES


def test_a_lone_pod_and_an_object_that_is_there_already():
    driver = Driver(builders.gpu_node(), builders.make_group("new", 2))
    driver.tick()
    assert ask(driver, None, new(2, 4, 2)[1]).starts
    assert driver.engine.world.groups[builders.group_key("new")].min_member == 2
    assert ask(driver, None, [builders.make_pod("alone", {GPU: 8})]).starts


def test_the_position_is_behind_those_that_wait_before_it():
    pods = [builders.make_pod(f"w{n}", {GPU: 16}, priority=priority) for n, priority in enumerate([5, 0, 0])]
    driver = Driver(builders.gpu_node(), *pods)
    driver.tick()
    assert ask(driver, *new(1, 16, 1, priority=1)).position == 2


@pytest.mark.parametrize("nominating", [0, 10_000])
def test_asking_leaves_no_trace(nominating):
    there = [builders.gpu_node(), builders.make_pod("w", {GPU: 16}), builders.make_group("other", 3)]
    driver = Driver(*there, above=nominating)
    driver.tick()
    world = driver.engine.world
    before = repr((driver.engine.entries, world.members, world.groups, world.pods, world.tallies.keys(), world._needs))
    for least, gpus in ((1, 1), (2, 8), (5, 1)):
        group, pods = new(2, gpus, least)
        ask(driver, replace(group, preemptible=False), pods)
    after = repr((driver.engine.entries, world.members, world.groups, world.pods, world.tallies.keys(), world._needs))
    assert after == before
    assert driver.send() == []
    assert driver.tick() == []
    assert list(driver.engine.check_usage())[-1] == 0


def test_who_has_members_already_needs_no_supposing():
    group, pods = new(1, 1, 1)
    driver = Driver(builders.gpu_node(), group)
    driver.tick()
    assert not taken(driver.engine, pods[0].group)
    driver.see(*pods)
    assert taken(driver.engine, pods[0].group)
