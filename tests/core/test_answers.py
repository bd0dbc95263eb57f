"""Live answers: phase and reason are the engine's at that moment, positions are its order, nothing is changed."""

from __future__ import annotations

from collections import deque

import pytest
from engine_driver import Driver
from hypothesis import given
from hypothesis import strategies as st

from extender.core import answers, messages, ordering
from extender.core.answers import Answers
from extender.core.ids import GroupKey, QueueName, Source
from extender.core.model import Pod
from extender.core.reasons import Reason, Refusal
from tests import builders
from tests.builders import GPU

DEFAULT = QueueName("default")


def counted(driver: Driver) -> Answers:
    """Answers with positions as they are now."""
    found = Answers(driver.engine)
    deque(found.count(driver.now), 0)
    return found


def asked(driver: Driver, key: GroupKey) -> answers.Workload:
    found = counted(driver).workload(key)
    assert found is not None
    return found


def find(driver: Driver, source: Source, name: str, namespace: str = "team") -> GroupKey | None:
    *_, found = [None, *Answers(driver.engine).find(namespace, source, name)]
    return found


def groups(driver: Driver, namespace: str | None = None) -> list[answers.Named]:
    return [one for some in Answers(driver.engine).groups(namespace) for one in some]


def gang(name: str = "train", size: int = 2, gpus: int = 4, **fields) -> list[Pod]:
    return builders.make_pods(size, name, request={GPU: gpus}, group=name, **fields)


# --- phases and reasons ------------------------------------------------------------------------------


def test_a_gang_goes_from_waiting_over_starting_to_running_and_ended():
    pods = gang(size=2, gpus=8)
    filler = builders.bound(builders.make_pod("filler", {GPU: 8}, scheduler="other"), "gpu-0")
    driver = Driver(builders.gpu_node("gpu-0"), builders.gpu_node("gpu-1"), filler, builders.make_group("train", 2))
    driver.see(*pods)
    driver.tick()
    key = pods[0].group
    said = asked(driver, key)
    assert (said.phase, said.refusal, said.position) == ("Pending", driver.engine.entries[key].refusal, 1)
    assert said.refusal is not None
    assert said.refusal.reason is Reason.RESOURCES
    assert said.since == driver.now
    assert said.members == answers.Members(have=2, minimum=2, planned=0, bound=0, succeeded=0, failed=0)
    driver.gone(filler)
    driver.tick(5)
    said = asked(driver, key)
    assert (said.phase, said.refusal, said.position) == ("Pending", Refusal(Reason.HELD_ELSEWHERE), None)
    assert (said.members.planned, said.since) == (2, driver.now)
    assert [(one.node, one.members, dict(one.asked)[GPU]) for one in said.nodes] == [("gpu-0", 1, 8), ("gpu-1", 1, 8)]
    driver.see(*(builders.bound(pod, f"gpu-{n}") for n, pod in enumerate(pods)))
    driver.tick()
    said = asked(driver, key)
    assert (said.phase, said.refusal, said.since, said.nodes) == ("Running", None, None, ())
    assert said.members == answers.Members(have=2, minimum=2, planned=0, bound=2, succeeded=0, failed=0)
    ended = [builders.make_pod(pod.name, {GPU: 8}, group=key, node="gpu-0", phase="Failed") for pod in pods]
    driver.see(*ended)
    driver.tick()
    assert (asked(driver, key).phase, asked(driver, key).refusal) == ("Ended", None)


def test_a_group_that_runs_and_wants_more_says_both():
    pods = gang(size=3, gpus=4)
    driver = Driver(builders.gpu_node(), builders.make_group("train", 2))
    driver.see(*pods)
    driver.tick()
    driver.see(*(builders.bound(pod, "gpu-0") for pod in pods[:2]))
    driver.tick()
    said = asked(driver, pods[0].group)
    assert said.phase == "Running"
    assert said.refusal is not None
    assert (said.refusal.reason, said.position, said.members.bound) == (Reason.RESOURCES, 1, 2)


def test_a_group_of_ours_without_members_waits_for_them_and_those_of_others_do_not_concern_us():
    driver = Driver(
        builders.make_queue("research"),
        builders.make_group("empty", 3, queue="research"),
        builders.make_group("empty", 3, source=Source.NATIVE),
    )
    driver.tick()
    said = asked(driver, builders.group_key("empty"))
    assert said.refusal == Refusal(Reason.MEMBERS, (("have", 0), ("minimum", 3)))
    assert (said.phase, said.queue, said.uid, said.position) == ("Pending", "research", "uid-of-empty", None)
    assert find(driver, Source.NATIVE, "empty") is None
    assert counted(driver).workload(builders.group_key("empty", Source.NATIVE)) is None
    assert [(source, name) for _, source, name, _ in groups(driver)] == [(Source.MUSTER, "empty")]


def test_a_pod_behind_a_gate_of_somebody_else_is_not_said_to_be_next():
    pod = builders.make_pod("alone", gates=("example.com/wait",))
    driver = Driver(builders.make_node(), pod)
    driver.tick()
    said = asked(driver, pod.group)
    assert said.phase == "Pending"
    assert said.refusal is not None
    assert ("gate", "example.com/wait") in said.refusal.detail
    assert said.position is None


def test_a_group_that_was_not_looked_at_yet_is_in_its_queue():
    pod = builders.make_pod("new")
    driver = Driver(builders.make_node(), pod)
    assert asked(driver, pod.group).refusal == Refusal(Reason.QUEUED)
    driver.tick()
    assert asked(driver, pod.group).refusal == Refusal(Reason.HELD_ELSEWHERE)


def test_a_group_that_cannot_be_judged_says_so_and_has_no_minimum():
    pods = [builders.make_pod(f"p-{n}", group="train", queue=QueueName(f"q{n}")) for n in range(2)]
    driver = Driver(builders.make_node(), builders.make_group("train", 2), *pods)
    driver.tick()
    said = asked(driver, pods[0].group)
    assert said.refusal is not None
    assert (said.refusal.reason, said.members.minimum) == (Reason.INVALID, None)


# --- names -------------------------------------------------------------------------------------------


def test_a_lone_pod_is_found_by_its_name_and_not_by_that_of_its_predecessor():
    first, second = builders.make_pod("web", uid="one"), builders.make_pod("web", uid="two")
    driver = Driver(builders.make_node(), first)
    driver.tick()
    assert find(driver, Source.POD, "web") == first.group
    assert asked(driver, first.group).uid == "one"
    driver.gone(first)
    assert find(driver, Source.POD, "web") is None
    assert counted(driver).workload(first.group) is None
    driver.see(second)
    assert find(driver, Source.POD, "web") == second.group
    assert find(driver, Source.POD, "web", "other") is None


def test_pods_of_other_schedulers_are_no_workloads_of_ours():
    pod = builders.make_pod("theirs", scheduler="default-scheduler")
    driver = Driver(builders.make_node(), pod)
    driver.tick()
    assert groups(driver) == []
    assert find(driver, Source.POD, "theirs") is None


def test_groups_of_one_name_in_every_source_and_namespace_are_told_apart():
    sources = (Source.MUSTER, Source.NATIVE, Source.VOLCANO, Source.SCHEDULER_PLUGINS)
    keys = {builders.group_key("same", source, namespace) for source in sources for namespace in ("a", "b")}
    pods = [
        builders.make_pod(f"p-{n}", group=key, namespace=key.namespace) for n, key in enumerate(sorted(keys, key=str))
    ]
    driver = Driver(builders.make_node(), *pods)
    driver.tick()
    assert {key for *_, key in groups(driver)} == keys
    assert {key for *_, key in groups(driver, "a")} == {key for key in keys if key.namespace == "a"}
    assert {find(driver, key.source, "same", key.namespace) for key in keys} == keys


# --- positions and queues ----------------------------------------------------------------------------

waiting = st.lists(
    st.tuples(st.sampled_from(["default", "research"]), st.integers(-3, 3), st.integers(0, 3), st.booleans()),
    max_size=12,
)


@given(waiting)
def test_positions_are_the_order_of_the_engine_in_each_queue(groups):
    pods = [
        builders.make_pod(
            f"p-{n}",
            {GPU: 1},
            queue=QueueName(queue),
            priority=priority,
            created=float(created),
            gates=("muster.dev/queue",) if gated else (),
        )
        for n, (queue, priority, created, gated) in enumerate(groups)
    ]
    driver = Driver(builders.make_queue("research"), builders.make_node(), *pods)
    driver.tick()
    found = counted(driver)
    for queue in {pod.queue for pod in pods}:
        inside = [pod for pod in pods if pod.queue == queue]
        keys = {pod.group: ordering.order_key(pod.group, pod.priority, pod.created, pod.queue_gated) for pod in inside}
        want = {key: 1 + sum(other < mine for other in keys.values()) for key, mine in keys.items()}
        assert {key: asked(driver, key).position for key in keys} == want
        state = found.queue(queue, driver.now)
        assert state is not None
        assert [one.name for one in state.waiting] == [
            pod.name for pod in sorted(inside, key=lambda pod: want[pod.group])
        ]
        assert [one.position for one in state.waiting] == list(range(1, len(inside) + 1))
        assert state.status.pending == len(inside)


def test_positions_are_counted_in_steps_and_seldom_when_many_wait(monkeypatch):
    monkeypatch.setattr(answers, "STEP", 10)
    pods = [builders.make_pod(f"p-{n}", {GPU: 1}, created=float(n)) for n in range(35)]
    driver = Driver(builders.make_node(), *pods)
    driver.tick()
    found = Answers(driver.engine)

    def last() -> int | None:
        said = found.workload(pods[-1].group)
        return None if said is None else said.position

    def steps(now: float) -> int:
        return len(list(found.count(now)))

    assert last() is None
    assert steps(driver.now) == 4
    assert last() == 35
    driver.gone(pods[0])
    driver.tick()
    assert steps(driver.now + 34 * answers.KEPT_SECONDS_A_GROUP) == 0
    assert last() == 35
    assert steps(driver.now + 36 * answers.KEPT_SECONDS_A_GROUP) == 4
    assert last() == 34


def test_what_happens_between_two_steps_disturbs_neither_counting_nor_listing(monkeypatch):
    monkeypatch.setattr(answers, "STEP", 1)
    pods = [builders.make_pod(f"p-{n}", {GPU: 1}, created=float(n)) for n in range(6)]
    driver = Driver(builders.make_node(), *pods)
    driver.tick()
    found = Answers(driver.engine)
    counting, listing = found.count(driver.now), found.groups()
    next(counting)
    next(listing)
    driver.gone(pods[3], pods[5])
    driver.see(builders.make_pod("new", {GPU: 1}))
    driver.tick()
    deque(counting, 0)
    assert {name for some in listing for _, _, name, _ in some} == {"p-1", "p-2", "p-4"}
    assert [said.position for pod in (pods[0], pods[4]) if (said := found.workload(pod.group))] == [1, 4]
    assert found.workload(pods[3].group) is None


def test_a_queue_says_what_it_has_what_it_is_owed_and_who_is_above_it():
    driver = Driver(
        builders.gpu_node(),
        builders.make_queue("dept"),
        builders.make_queue("team", parent=QueueName("dept"), capability=((GPU, 3),)),
        builders.bound(builders.make_pod("runs", {GPU: 2}, queue=QueueName("team")), "gpu-0"),
        builders.make_pod("waits", {GPU: 2}, queue=QueueName("team")),
    )
    driver.tick()
    found = counted(driver)
    assert found.queues() == ("default", "dept", "team")
    state = found.queue(QueueName("team"), driver.now)
    assert state is not None
    assert (state.parent, state.status.state, dict(state.status.allocated)[GPU]) == ("dept", "Open", 2)
    assert dict(state.share)[GPU] == 3
    (one,) = state.waiting
    assert (one.namespace, one.source, one.name) == ("team", Source.POD, "waits")
    assert (one.position, one.refusal.reason, one.since) == (1, Reason.QUOTA, driver.now)
    assert found.queue(QueueName("missing"), driver.now) is None
    assert found.queue(DEFAULT, driver.now) is not None


def test_no_more_waiting_groups_are_named_than_can_be_shown(monkeypatch):
    monkeypatch.setattr(answers, "WAITING_SHOWN", 3)
    monkeypatch.setattr(answers, "NODES_SHOWN", 1)
    driver = Driver(builders.make_node(), *builders.make_pods(5, request={GPU: 1}))
    driver.tick()
    state = counted(driver).queue(DEFAULT, driver.now)
    assert state is not None
    assert [one.position for one in state.waiting] == [1, 2, 3]
    assert state.status.pending == 5


@pytest.mark.parametrize("event", [messages.ActivityChanged(False), messages.Tick()], ids=["inactive", "active"])
def test_asking_changes_nothing(event):
    pods = gang(size=3)
    driver = Driver(builders.gpu_node(), builders.make_group("train", 2), *pods)
    driver.send(event)
    before = repr(driver.engine.entries)
    found = counted(driver)
    for *_, key in groups(driver):
        found.workload(key)
    for name in found.queues():
        found.queue(name, driver.now)
    assert repr(driver.engine.entries) == before
    assert driver.send() == []
