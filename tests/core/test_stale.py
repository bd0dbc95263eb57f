"""Gangs that stay below their minimum: when they are evicted, as wholes, and when they are let be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from extender.core import messages
from extender.core.messages import Evict, NoteEviction
from extender.core.model import Declared, Group, Owner, Pod, Queue
from extender.core.reasons import Ground, Reason
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_pod, make_queue
from tests.core.engine_driver import START, Driver

JOB = Owner("Job", "train", "uid-of-train")
TRAIN = builders.group_key("train")
STALE = 60
QUEUE = make_queue("q", stale=STALE)


def member(number: int, node: str = "gpu-0", **fields: Any) -> Pod:
    """A bound member of `train`."""
    pod = make_pod(f"train-{number}", {GPU: 1}, group="train", **({"owner": JOB} | fields))
    return builders.bound(pod, node, START - 600)


def gang(count: int = 4, **fields: Any) -> list[Pod]:
    return [member(n, **fields) for n in range(count)]


def evicted(effects: Iterable[object]) -> list[str]:
    """Names of the pods that these effects evict."""
    return sorted(effect.name for effect in effects if isinstance(effect, Evict))


def evictions(effects: Iterable[object]) -> list[Evict]:
    return [effect for effect in effects if isinstance(effect, Evict)]


def hurt(queue: Queue = QUEUE, count: int = 4, lost: int = 1, **fields: Any) -> tuple[Driver, list[Pod]]:
    """An engine that has seen a gang run and lose members, and those that are left."""
    pods = gang(count, **fields)
    engine = Driver(gpu_node(), queue, make_group("train", count, queue="q"), *pods)
    engine.tick()
    engine.gone(*pods[:lost])
    return engine, pods[lost:]


@dataclass
class Case:
    """What happens to a gang of four that is below its minimum; is it evicted in time?"""

    queues: list[Queue] = field(default_factory=lambda: [QUEUE])
    group: Group = field(default_factory=lambda: make_group("train", 4, queue="q"))
    pods: list[Pod] = field(default_factory=gang)
    left: list[Pod] | None = None
    want: list[str] = field(default_factory=lambda: ["train-1", "train-2", "train-3"])


DEPT = make_queue("dept", stale=STALE)
CASES = {
    "as its queue says": Case(),
    "as the queue above says": Case([DEPT, make_queue("q", parent="dept")]),
    "never if none says so": Case([make_queue("dept"), make_queue("q", parent="dept")], want=[]),
    "as the nearest says": Case([DEPT, make_queue("q", parent="dept", stale=100_000)], want=[]),
    "as its queue says, not the one below": Case([make_queue("q", stale=None), make_queue("x", parent="q")], want=[]),
    "of the default queue too": Case([make_queue("default", stale=STALE)], make_group("train", 4)),
    "without a controller as well": Case(pods=gang(owner=None)),
    "if it is not preemptible as well": Case(group=make_group("train", 4, queue="q", preemptible=False)),
    "not if it can do with less": Case(group=make_group("train", 3, queue="q"), want=[]),
    "if a task lacks members": Case(
        group=make_group("train", 3, {"ps": 1, "w": 2}, queue="q"),
        pods=[member(0, task="ps"), *(member(n, task="w") for n in range(1, 4))],
    ),
    "not with members of another scheduler, which are not ours to evict": Case(
        pods=[*gang(3), member(3, scheduler="default-scheduler")], want=[]
    ),
    "not as long as it is invalid": Case(group=make_group("train", 4, queue="q", problems=("spec: wrong",)), want=[]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_hurt_gang_is_evicted(case: Case) -> None:
    engine = Driver(gpu_node(), *case.queues, case.group, *case.pods)
    engine.tick()
    engine.gone(case.pods[0])
    assert evicted(engine.ticks(STALE - 2)) == []
    assert evicted(engine.ticks(4)) == case.want


def test_an_eviction_says_why_on_the_group_first_and_on_each_pod() -> None:
    engine, _ = hurt()
    note, *pods = (e for e in engine.ticks(STALE + 2) if isinstance(e, Evict | NoteEviction))
    detail = (("group", "team/train"), ("queue", "q"), ("have", 3), ("minimum", 4), ("seconds", STALE))
    assert note == NoteEviction(TRAIN, "uid-of-train", Ground.STALE, START + STALE + 1, detail)
    assert {(type(pod), pod.ground, pod.detail) for pod in pods} == {(Evict, Ground.STALE, detail)}
    assert engine.reason(TRAIN) is Reason.EVICTING


def test_a_group_without_an_object_has_none_to_note_it_on() -> None:
    pods = gang(declared=Declared(min_member=4))
    engine = Driver(gpu_node(), make_queue("default", stale=STALE), *pods)
    engine.tick()
    engine.gone(pods[0])
    effects = engine.ticks(STALE + 2)
    assert len(evicted(effects)) == 3
    assert not [effect for effect in effects if isinstance(effect, NoteEviction)]


def test_finished_members_count_and_failed_ones_do_not() -> None:
    engine, left = hurt(lost=0)
    engine.see(replace(left[0], phase="Succeeded"))
    engine.gone(left[0])
    assert evicted(engine.ticks(2 * STALE)) == []
    engine.see(replace(left[1], phase="Failed"))
    assert evicted(engine.ticks(STALE + 2)) == ["train-2", "train-3"]


def test_one_that_is_whole_again_in_time_begins_anew() -> None:
    engine, _ = hurt()
    engine.ticks(STALE - 5)
    new = make_pod("train-9", {GPU: 1}, group="train", owner=JOB, created=engine.now)
    engine.see(new)
    engine.tick()
    assert engine.node(new) == "gpu-0"
    engine.bind(new)
    assert evicted(engine.ticks(STALE)) == []
    engine.gone(builders.bound(new, "gpu-0"))
    assert evicted(engine.ticks(STALE - 2)) == []
    assert len(evicted(engine.ticks(4))) == 3


@pytest.mark.parametrize("held", [True, False], ids=["held at the gate", "planned"])
def test_one_whose_replacement_is_on_its_way_is_not_evicted(held: bool) -> None:
    engine, _ = hurt()
    engine.ticks(STALE - 5)
    new = make_pod("train-9", {GPU: 1}, group="train", owner=JOB, created=engine.now)
    engine.see(new)
    engine.tick()
    if held:
        engine.hold(new)
    assert evicted(engine.ticks(STALE)) == []
    engine.gone(new)
    engine.hold()
    assert len(evicted(engine.ticks(2))) == 3, "it has been below its minimum all the time"


def test_room_that_is_only_kept_for_replacements_puts_it_off_for_nobody() -> None:
    engine, _ = hurt(make_queue("q", stale=3))
    engine.tick(1)
    assert engine.reserved == 1
    assert len(evicted(engine.ticks(4))) == 3


def test_a_gang_that_starts_is_not_hurt() -> None:
    pods = [make_pod(f"train-{n}", {GPU: 1}, group="train", owner=JOB) for n in range(4)]
    engine = Driver(gpu_node(), make_queue("q", stale=0), make_group("train", 4, queue="q"), *pods)
    engine.tick()
    engine.hold(*pods)
    engine.bind(pods[0])
    engine.gone(*pods[1:])
    engine.hold()
    assert evicted(engine.ticks(60)) == [], "the gate undoes what it began"


def test_a_time_of_nothing_is_borne_for_nothing() -> None:
    engine, _ = hurt(make_queue("q", stale=0))
    assert len(evicted(engine.ticks(2))) == 3


def test_what_a_new_life_finds_is_hurt_from_then_on() -> None:
    engine = Driver(gpu_node(), QUEUE, make_group("train", 4, queue="q"), *gang(3))
    assert evicted(engine.ticks(STALE - 2)) == []
    assert len(evicted(engine.ticks(4))) == 3


def test_a_queue_that_changes_its_mind_is_heard_at_once() -> None:
    engine, _ = hurt(make_queue("q"))
    assert evicted(engine.ticks(1000, step=5)) == []
    engine.see(QUEUE)
    assert len(evicted(engine.ticks(2))) == 3


def test_nobody_is_evicted_by_an_engine_that_does_not_act() -> None:
    engine, _ = hurt()
    engine.send(messages.ActivityChanged(False))
    assert evicted(engine.ticks(2 * STALE)) == []


# --- until it is gone -------------------------------------------------------------------------------


def test_it_goes_once_and_who_is_refused_is_asked_again_until_all_have_gone() -> None:
    engine, left = hurt()
    first = evictions(engine.ticks(STALE + 2))
    engine.done(first[0], error="a budget refused it")
    engine.done(*first[1:])
    engine.gone(*left[1:])
    assert evicted(engine.ticks(8)) == []
    assert evicted(engine.ticks(5)) == [first[0].name]
    engine.gone(left[0])
    assert evicted(engine.ticks(1000, step=5)) == []


def test_who_is_refused_always_is_asked_ever_less_often_and_never_given_up() -> None:
    engine, left = hurt(make_queue("q", stale=0), count=2)
    asked = []
    for _ in range(700):
        effects = evictions(engine.tick(1))
        engine.done(*effects, error="a budget refused it")
        asked += [round(engine.now - START) for _ in effects]
    assert asked[:5] == [2, 12, 32, 72, 152]
    assert asked[5] == asked[4] + 160
    assert len(left) == 1


def test_new_members_wait_until_the_old_ones_have_gone_and_then_start_together() -> None:
    engine, left = hurt()
    first = evictions(engine.ticks(STALE + 2))
    new = [make_pod(f"new-{n}", {GPU: 1}, group="train", owner=JOB, created=engine.now) for n in range(4)]
    engine.see(*new)
    engine.tick()
    assert engine.nodes(new) == 4 * [None]
    engine.done(*first)
    engine.gone(*left)
    engine.tick(1)
    assert engine.nodes(new) == 4 * ["gpu-0"]
