"""Groups that cannot be judged, members that are not ours to plan, and groups that are over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core import messages
from extender.core.ids import QUEUE_GATE, QueueName, Source
from extender.core.model import Declared, Owner, Pod
from extender.core.planning import EXPECT_SECONDS
from extender.core.reasons import Reason
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_pod, make_pods
from tests.core.engine_driver import Driver, ungates, wakes

ONE = {GPU: 1}
TRAIN = builders.group_key("train")


def workers(count: int, **fields: object) -> list[Pod]:
    """Members of `train`, one GPU each."""
    return make_pods(count, "worker", request=ONE, group="train", **fields)


# --- groups that cannot be judged --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "reason", "words"),
    [
        pytest.param(
            [
                make_pod("a", ONE, group="train", queue=QueueName("red")),
                make_pod("b", ONE, group="train", queue=QueueName("blue")),
            ],
            Reason.INVALID,
            (("problem", "members name different queues"), ("queue", "blue"), ("queue", "red")),
            id="members that name different queues",
        ),
        pytest.param(
            [make_pod("a", ONE, group="train", declared=Declared(min_member=1)), make_pod("b", ONE, group="train")],
            Reason.INVALID,
            (("problem", "members' muster.dev annotations disagree"),),
            id="annotations that are not on every member",
        ),
        pytest.param(
            [make_pod("a", ONE, group="train", problems=("spec.x is negative",))],
            Reason.INVALID,
            (("problem", "spec.x is negative"),),
            id="a member that is unsound",
        ),
        pytest.param(
            [make_pod("a", ONE, group="ghost")],
            Reason.GROUP_NOT_FOUND,
            (("group", "muster/team/ghost"),),
            id="a mark whose object never comes",
        ),
    ],
)
def test_a_group_waits_and_says_why(pods: list[Pod], reason: Reason, words: tuple[object, ...]) -> None:
    engine = Driver(gpu_node(), make_group("train", 1), *pods)
    assert engine.tick() == []
    refusal = engine.entry(pods[0]).refusal
    assert refusal is not None
    assert (refusal.reason, refusal.detail) == (reason, words)
    assert engine.reserved == 0
    engine.ticks(60)
    assert [e for e in engine.effects if not isinstance(e, messages.StateGroup)] == []


def test_annotations_that_agree_on_every_member_make_a_group_without_an_object() -> None:
    pods = make_pods(2, request=ONE, group="free", declared=Declared(min_member=2))
    engine = Driver(gpu_node(), *pods)
    engine.tick()
    assert engine.nodes(pods) == ["gpu-0", "gpu-0"]


def test_the_plan_of_a_group_whose_object_is_deleted_is_undone_and_one_that_runs_is_let_be() -> None:
    pods = workers(2)
    running = make_pods(2, "running", request=ONE, group="running")
    runs = make_group("running", 2)
    engine = Driver(gpu_node(), make_group("train", 2), runs, *pods, *running)
    engine.tick()
    engine.bind(*running)
    engine.tick()
    engine.gone(make_group("train", 2), runs)
    engine.tick()
    assert engine.reason(TRAIN) is Reason.GROUP_NOT_FOUND
    assert engine.reserved == 0
    assert engine.reason(runs.key) is None  # nothing of it waits
    engine.see(make_group("train", 2))
    engine.tick()
    assert engine.nodes(pods) == ["gpu-0", "gpu-0"]


def test_members_before_their_object_are_woken_when_it_comes() -> None:
    pods = make_pods(2, request=ONE, group="train")
    engine = Driver(gpu_node(), *pods)
    for pod in pods:
        engine.call(pod, ["gpu-0"])
    engine.see(make_group("train", 2))
    assert engine.tick() == wakes(pods, engine.now)
    assert engine.tick() == []


@pytest.mark.parametrize("source", [Source.NATIVE, Source.SCHEDULER_PLUGINS, Source.VOLCANO])
def test_groups_of_one_name_and_other_sources_are_different_groups(source: Source) -> None:
    theirs = builders.group_key("train", source)
    pod = make_pod("a", ONE, group=theirs)
    engine = Driver(gpu_node(), make_group("train", 1), pod)
    engine.tick()
    assert engine.reason(pod) is Reason.GROUP_NOT_FOUND
    engine.see(make_group("train", 1, source=source))
    engine.tick()
    assert engine.node(pod) == "gpu-0"


def test_a_member_of_another_scheduler_is_never_planned_and_counts_once_bound() -> None:
    theirs = make_pod("theirs", ONE, group="train", scheduler="default-scheduler", gates=())
    ours = make_pod("ours", ONE, group="train")
    engine = Driver(gpu_node(gpus=4), make_group("train", 2), theirs, ours)
    engine.tick()
    assert engine.nodes([theirs, ours]) == [None, "gpu-0"]
    assert engine.reserved == 2  # one more is expected
    engine.tick(EXPECT_SECONDS)
    assert (engine.reserved, engine.reason(TRAIN)) == (0, Reason.MEMBERS)
    engine.see(builders.bound(theirs, "gpu-0"))
    engine.tick()
    assert engine.nodes([theirs, ours]) == [None, "gpu-0"]
    assert engine.reserved == 1


def test_a_member_behind_a_foreign_gate_is_not_planned_until_that_is_gone() -> None:
    blocked = replace(workers(1)[0], gates=(QUEUE_GATE, "example.com/quota"))
    other = make_pod("other", ONE, group="train", gates=(QUEUE_GATE,))
    engine = Driver(gpu_node(gpus=2), make_group("train", 2), blocked, other)
    assert engine.tick() == ungates([other])
    assert engine.nodes([blocked, other]) == [None, "gpu-0"]
    engine.tick(EXPECT_SECONDS)
    assert (engine.reserved, engine.reason(TRAIN)) == (0, Reason.MEMBERS)
    freed = replace(blocked, gates=(QUEUE_GATE,))
    engine.see(freed)
    assert set(engine.tick()) >= set(ungates([freed]))
    assert engine.nodes([freed, other]) == ["gpu-0", "gpu-0"]


def test_a_group_whose_members_all_succeeded_waits_for_nothing() -> None:
    pods = workers(2)
    engine = Driver(gpu_node(), make_group("train", 2), *pods)
    engine.tick()
    engine.bind(*pods)
    for pod in pods:
        engine.see(replace(builders.bound(pod, "gpu-0"), phase="Succeeded"))
    engine.tick()
    assert (engine.reserved, engine.reason(TRAIN)) == (0, None)
    assert engine.entry(TRAIN).running
    engine.gone(*pods)
    engine.tick()
    assert engine.engine.entries == {}


def test_a_member_that_moves_to_another_group_leaves_nothing_behind() -> None:
    pods = workers(2)
    engine = Driver(gpu_node(), make_group("train", 2), make_group("other", 1), *pods)
    engine.tick()
    assert engine.reserved == 2
    engine.see(replace(pods[0], group=builders.group_key("other")))
    engine.gone(pods[1])
    engine.tick()
    assert list(engine.engine.entries) == [builders.group_key("other")]
    assert engine.reserved == 1


@pytest.mark.parametrize(
    ("owner", "waits"),
    [
        pytest.param(Owner("Job", "runs", "j"), Reason.QUOTA, id="by a controller"),
        pytest.param(None, None, id="by nobody"),
    ],
)
def test_room_is_kept_for_members_that_are_replaced(owner: Owner | None, waits: Reason | None) -> None:
    engine = Driver(gpu_node("n"), builders.make_queue("q", capability=((GPU, 4),)))
    running = [replace(pod, owner=owner) for pod in builders.make_pods(4, "runs", request={GPU: 1}, group="runs")]
    others = builders.make_pods(2, "waits", request={GPU: 1}, group="waits")
    engine.see(*(builders.make_group(name, size, queue="q") for name, size in (("runs", 4), ("waits", 2))))
    engine.see(*(builders.bound(pod, "n") for pod in running))
    engine.tick()
    engine.see(*others)
    engine.tick()
    engine.gone(*running[:2])
    engine.tick()
    assert engine.reason(builders.group_key("waits")) is waits
