"""What a group has and what it needs: standings, tallies, minimums, and why a group cannot be judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core.ids import QUEUE_GATE, QueueName, Source, TaskName
from extender.core.membership import Need, Standing, Tally, need_of, satisfied, standing
from extender.core.model import Declared, Group, Pod
from extender.core.reasons import Reason, Refusal
from tests import builders
from tests.builders import make_group, make_pod

TRAIN = builders.group_key("train")
DEFAULT = QueueName("default")


def tally_of(*pods: Pod) -> Tally:
    tally = Tally()
    for pod in pods:
        tally.add(pod)
    return tally


def member(name: str = "m", **fields: Any) -> Pod:
    return make_pod(name, group="train", **fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, Standing.WAITING, id="a pending pod of ours waits"),
        pytest.param({"gates": (QUEUE_GATE,)}, Standing.WAITING, id="our own gate does not block it"),
        pytest.param({"gates": ("x",)}, Standing.BLOCKED, id="a foreign gate blocks it"),
        pytest.param({"gates": (QUEUE_GATE, "x")}, Standing.BLOCKED, id="so does one beside ours"),
        pytest.param({"scheduler": "default-scheduler"}, Standing.FOREIGN, id="another scheduler's is foreign"),
        pytest.param({"scheduler": "s", "gates": ("x",)}, Standing.FOREIGN, id="also with a gate"),
        pytest.param({"node": "n"}, Standing.BOUND, id="on a node it is bound, even if not running yet"),
        pytest.param({"node": "n", "scheduler": "s"}, Standing.BOUND, id="of any scheduler"),
        pytest.param({"node": "n", "terminating": True}, Standing.LEAVING, id="being deleted it leaves"),
        pytest.param({"terminating": True}, Standing.LEAVING, id="also before it was bound"),
        pytest.param({"node": "n", "phase": "Succeeded"}, Standing.SUCCEEDED, id="it ended well"),
        pytest.param(
            {"node": "n", "phase": "Succeeded", "terminating": True},
            Standing.SUCCEEDED,
            id="it ended well and is being deleted: its work is done",
        ),
        pytest.param({"node": "n", "phase": "Failed"}, Standing.FAILED, id="it failed"),
        pytest.param({"phase": "Failed", "terminating": True}, Standing.FAILED, id="it failed and leaves"),
    ],
)
def test_each_pod_stands_somewhere(fields: dict[str, Any], expected: Standing) -> None:
    assert standing(make_pod(**fields)) is expected


pods = st.builds(
    lambda n, **fields: member(f"m-{n}", **fields),
    st.integers(0, 3),
    task=st.sampled_from(("", "ps", "worker")),
    node=st.sampled_from((None, "n")),
    phase=st.sampled_from(("Pending", "Running", "Succeeded", "Failed")),
    terminating=st.booleans(),
    scheduler=st.sampled_from(("muster", "default-scheduler")),
    gates=st.sampled_from(((), (QUEUE_GATE,), ("x",), (QUEUE_GATE, "x"))),
    priority=st.integers(-1, 1),
    queue=st.sampled_from((None, QueueName("red"))),
    problems=st.sampled_from(((), ("bad",))),
)


@given(st.lists(pods, max_size=8), st.lists(st.integers(0, 7), max_size=8))
def test_a_tally_is_what_counting_anew_gives(members: list[Pod], out: list[int]) -> None:
    tally = tally_of(*members)
    left = list(members)
    for number in out:
        if number < len(left):
            tally.remove(left.pop(number))
    for where in Standing:
        assert tally.count(where) == sum(standing(p) is where for p in left)
        for task in (TaskName(""), TaskName("ps"), TaskName("worker")):
            assert tally.count(where, task=task) == sum(standing(p) is where and p.task == task for p in left)
    assert tally.count(*Standing) == len(left)
    assert tally.tasks == {p.task for p in left}
    ours = [p for p in left if p.ours and not p.ended and not p.terminating]
    assert set(tally.queues) == {p.queue for p in ours}
    assert set(tally.priorities) == {p.priority for p in ours}
    assert set(tally.problems) == {p.problems for p in ours if p.problems}
    assert tally.gated == sum(standing(p) is Standing.WAITING and p.queue_gated for p in left)


@pytest.mark.parametrize(
    ("least", "tasks", "started", "extra", "expected"),
    [
        pytest.param(2, {}, ["", ""], [], True, id="enough run"),
        pytest.param(2, {}, [""], [], False, id="one is missing"),
        pytest.param(2, {}, [""], [""], True, id="one more is at hand"),
        pytest.param(2, {"ps": 1}, ["w", "w"], [], False, id="enough in all, and a task is short"),
        pytest.param(2, {"ps": 1}, ["w"], ["ps"], True, id="the one at hand is of that task"),
        pytest.param(1, {"ps": 1, "w": 2}, ["ps", "w"], ["ps"], False, id="tasks may ask for more than the group"),
        pytest.param(1, {"ps": 1, "w": 2}, ["ps", "w"], ["w"], True, id="and get it"),
    ],
)
def test_minimums(least: int, tasks: dict[str, int], started: list[str], extra: list[str], expected: bool) -> None:
    need = Need(least, tuple((TaskName(t), n) for t, n in tasks.items()), DEFAULT, 0)
    tally = tally_of(*(member(f"m-{n}", task=task, node="n") for n, task in enumerate(started)))
    assert satisfied(need, tally, map(TaskName, extra)) is expected


def test_succeeded_members_count_and_failed_ones_do_not() -> None:
    need = Need(2, (), DEFAULT, 0)
    ended = [member(str(n), node="n", phase=phase) for n, phase in enumerate(("Succeeded", "Failed"))]
    assert not satisfied(need, tally_of(*ended))
    assert satisfied(need, tally_of(*ended, member("r", node="n")))


MEMBERS = Reason.MEMBERS


def need(pods: list[Pod], group: Group | None = None, namespace_queue: str | None = None) -> Need | Refusal:
    key = pods[0].group
    return need_of(key, tally_of(*pods), group, QueueName(namespace_queue) if namespace_queue else None)


@pytest.mark.parametrize(
    ("pods", "group", "namespace", "queue"),
    [
        pytest.param([member()], make_group("train"), None, "default", id="nobody names one"),
        pytest.param([member()], make_group("train"), "ns", "ns", id="the namespace"),
        pytest.param([member()], make_group("train", queue="g"), "ns", "g", id="the group before the namespace"),
        pytest.param([member(queue="p")], make_group("train", queue="g"), "ns", "p", id="a pod before the group"),
        pytest.param([member("a"), member("b", queue="p")], make_group("train"), None, "p", id="one member is enough"),
        pytest.param(
            [member("a", queue="p"), member("b", queue="q", node="n", phase="Failed")],
            make_group("train"),
            None,
            "p",
            id="what ended names none",
        ),
        pytest.param(
            [member("a", queue="p"), member("b", queue="q", scheduler="s")],
            make_group("train"),
            None,
            "p",
            id="what is another scheduler's names none",
        ),
    ],
)
def test_the_queue_is_named_by(pods: list[Pod], group: Group, namespace: str | None, queue: str) -> None:
    found = need(pods, group, namespace)
    assert isinstance(found, Need)
    assert found.queue == queue


@pytest.mark.parametrize(
    ("priorities", "of_group", "expected"),
    [
        pytest.param([5, 1, 9], None, 1, id="the lowest of the members"),
        pytest.param([5], 3, 3, id="lowered by the group"),
        pytest.param([5], 9, 5, id="not raised by the group"),
        pytest.param([-5, 0], None, -5, id="also below zero"),
    ],
)
def test_the_priority_is(priorities: list[int], of_group: int | None, expected: int) -> None:
    found = need([member(str(n), priority=p) for n, p in enumerate(priorities)], make_group("train", priority=of_group))
    assert isinstance(found, Need)
    assert found.priority == expected


AGREED = Declared(min_member=2, expected_duration=60, preemptible=False, topology_required="rack")


@pytest.mark.parametrize(
    ("source", "group", "expected"),
    [
        pytest.param(Source.MUSTER, None, (2, "rack", 60, False), id="annotations alone"),
        pytest.param(
            Source.MUSTER,
            make_group("train", 4, topology_required="block"),
            (4, "block", None, True),
            id="our own object says all itself",
        ),
        pytest.param(
            Source.VOLCANO,
            make_group("train", 4, source=Source.VOLCANO),
            (4, "rack", 60, False),
            id="another object, and annotations for what it cannot say",
        ),
        pytest.param(
            Source.NATIVE,
            make_group("train", 4, source=Source.NATIVE, topology_required="block"),
            (4, "block", 60, False),
            id="another object that says part of it",
        ),
    ],
)
def test_what_is_declared_comes_from(source: Source, group: Group | None, expected: tuple[object, ...]) -> None:
    key = builders.group_key("train", source)
    found = need([make_pod("m", group=key, declared=AGREED)], group)
    assert isinstance(found, Need)
    got = (found.min_member, found.topology_required, found.expected_duration, found.preemptible)
    assert got == expected


def test_a_lone_pod_needs_itself_whatever_it_declares() -> None:
    found = need([make_pod("one", declared=Declared(min_member=7))])
    assert isinstance(found, Need)
    assert (found.min_member, found.tasks) == (1, ())


@pytest.mark.parametrize(
    ("pods", "group", "reason", "detail"),
    [
        pytest.param([member()], None, Reason.GROUP_NOT_FOUND, (("group", "muster/team/train"),), id="no object"),
        pytest.param(
            [member("a", queue="q"), member("b", queue="p")],
            make_group("train"),
            Reason.INVALID,
            (("problem", "members name different queues"), ("queue", "p"), ("queue", "q")),
            id="two queues, both named",
        ),
        pytest.param(
            [member("a", declared=AGREED), member("b", declared=replace(AGREED, min_member=3))],
            None,
            Reason.INVALID,
            (("problem", "members' muster.dev annotations disagree"),),
            id="annotations disagree",
        ),
        pytest.param(
            [member(problems=("b", "a"))],
            make_group("train"),
            Reason.INVALID,
            (("problem", "a"), ("problem", "b")),
            id="an unsound member",
        ),
        pytest.param(
            [member(problems=("a",))],
            make_group("train", problems=("g",)),
            Reason.INVALID,
            (("problem", "g"),),
            id="an unsound object first of all",
        ),
        pytest.param(
            [member(problems=tuple(f"p{n}" for n in range(9)))],
            None,
            Reason.INVALID,
            tuple(("problem", f"p{n}") for n in range(5)),
            id="of many problems five",
        ),
    ],
)
def test_a_group_cannot_be_judged_with(
    pods: list[Pod], group: Group | None, reason: Reason, detail: tuple[object, ...]
) -> None:
    assert need(pods, group) == Refusal(reason, detail)  # type: ignore[arg-type]
