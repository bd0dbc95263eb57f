"""Repair of overcommitted nodes: who goes, when, and in which cases nobody does.

Each case shows the engine a node with pods on it at one moment. The race is at that moment, unless a case says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from extender.core import messages, repair
from extender.core.ids import NodeName
from extender.core.messages import Evict
from extender.core.model import Group, Node, Owner, Pod
from extender.core.reasons import Ground, Overcommit, Reason
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_pod
from tests.core.engine_driver import START, Driver

JOB = Owner("Job", "train", "uid-of-train")
NODE = NodeName("gpu-0")
LONG_AGO = START - 3600
TRAIN = builders.group_key("train")


def mine(name: str, gpus: int = 1, at: float = START, node: str = "gpu-0", **fields: Any) -> Pod:
    """A bound pod of ours, with a controller unless told."""
    return builders.bound(make_pod(name, {GPU: gpus}, **({"owner": JOB} | fields)), node, at)


def theirs(gpus: int = 1, at: float = START, name: str = "other", **fields: Any) -> Pod:
    """A pod that another scheduler bound."""
    return builders.bound(make_pod(name, {GPU: gpus}, scheduler="default-scheduler", **fields), "gpu-0", at)


def members(count: int, *, first: int = 0, **fields: Any) -> list[Pod]:
    """Bound members of the gang `train`."""
    return [mine(f"train-{n}", group="train", **fields) for n in range(first, first + count)]


def evicted(effects: Iterable[object]) -> list[str]:
    """Names of the pods that these effects evict."""
    return [effect.name for effect in effects if isinstance(effect, Evict)]


def leave(engine: Driver, effects: Iterable[object]) -> None:
    """The evictions are carried out, and the watch shows the pods gone."""
    for effect in effects:
        if isinstance(effect, Evict):
            engine.done(effect)
            engine.gone(engine.engine.world.pods[effect.uid])


@dataclass
class Case:
    """What stands in the cluster, and who is evicted for the node gpu-0."""

    pods: Sequence[Pod]
    want: list[str] = field(default_factory=list)
    outlook: Overcommit | None = Overcommit.LEAVING
    groups: Sequence[Group] = ()
    gpus: int = 8


NOT_BY_BINDING, KEPT = Overcommit.NOT_BY_BINDING, Overcommit.KEPT

WHO_GOES = {
    "nobody while everything fits": Case([mine("a", 7), theirs(1)], outlook=None),
    "the pod that was bound at the same time": Case([mine("a", 8), theirs(1)], ["a"]),
    "the one that was bound last": Case([mine("a", 4, START - 2), mine("b", 4, START - 1), theirs(1)], ["b"]),
    "of a race the one of lowest priority": Case(
        [mine("a", 4, START - 2, priority=1), mine("b", 4, START - 1, priority=2), theirs(1)], ["a"]
    ),
    "one large rather than two small": Case(
        [mine("a", 1, START), mine("b", 1, START), mine("c", 6, START - 5), theirs(2)], ["c"]
    ),
    "the smaller number, and none that is not needed": Case(
        [mine("a", 2, START - 9), mine("b", 3, START - 5), mine("c", 3, START), theirs(4)], ["c", "b"]
    ),
    "only one that was bound in the race": Case([mine("a", 4, LONG_AGO), mine("b", 4), theirs(1)], ["b"]),
    "nobody if those of the race are not enough": Case(
        [mine("a", 7, LONG_AGO), mine("b", 1), theirs(3)], outlook=KEPT
    ),
    "nobody of ours that has run for long": Case([mine("a", 8, LONG_AGO), theirs(1)], outlook=KEPT),
    "nobody of others": Case([mine("a", 1), theirs(9)], outlook=KEPT),
    "nobody when the others have been there for long": Case(
        [mine("a", 8), theirs(1, LONG_AGO)], outlook=NOT_BY_BINDING
    ),
    "nobody when only ours are there": Case([mine("a", 5), mine("b", 5)], outlook=NOT_BY_BINDING),
    "nobody when the others take nothing of what is short": Case(
        [mine("a", 5), mine("b", 5), theirs(0)], outlook=NOT_BY_BINDING
    ),
    "nobody for a static pod": Case(
        [mine("a", 8), theirs(1, owner=Owner("Node", "gpu-0", "n"))], outlook=NOT_BY_BINDING
    ),
    "nobody for a pod that no scheduler bound": Case(
        [mine("a", 8), replace(theirs(1), bound_at=None)], outlook=NOT_BY_BINDING
    ),
    "somebody for a pod of a DaemonSet, which has a scheduler too": Case(
        [mine("a", 8), theirs(1, owner=Owner("DaemonSet", "agent", "d"))], ["a"]
    ),
    "nobody for what the node does not list: a DeviceClass hands it out": Case(
        [
            builders.bound(make_pod("a", {"example.com/d": 1}, owner=JOB), "gpu-0", START),
            builders.bound(make_pod("b", {"example.com/d": 1}, scheduler="default-scheduler"), "gpu-0", START),
        ],
        outlook=NOT_BY_BINDING,
    ),
    "nobody without a controller": Case([mine("a", 8, owner=None), theirs(1)], outlook=KEPT),
    "one with a controller instead of one without": Case(
        [mine("a", 4, START, owner=None), mine("b", 4, START - 1), theirs(1)], ["b"]
    ),
    "nobody while enough is leaving": Case([replace(mine("a", 4), terminating=True), mine("b", 4), theirs(1)]),
    "one more if not enough is leaving": Case(
        [replace(mine("a", 4), terminating=True), mine("b", 4), theirs(5)], ["b"]
    ),
    "a pod that has ended does not count": Case([replace(mine("a", 8), phase="Failed"), theirs(1)], outlook=None),
    "a member above the minimum": Case([*members(3), mine("a", 5, LONG_AGO), theirs(1)], ["train-0"],
                                       groups=[make_group("train", 2)]),
    "as many members as are above the minimum": Case(
        [*members(4), mine("a", 4, LONG_AGO), theirs(2)], ["train-0", "train-1"], groups=[make_group("train", 2)]
    ),
    "a gang as a whole when it can spare nobody": Case(
        [*members(3), *members(1, first=3, node="gpu-1"), mine("a", 5, LONG_AGO), theirs(1)],
        ["train-0", "train-1", "train-2", "train-3"],
        groups=[make_group("train", 4)],
    ),
    "a lone pod rather than a gang": Case(
        [*members(4), mine("a", 4, START - 5), theirs(1)], ["a"], groups=[make_group("train", 4)]
    ),
    "the smaller gang": Case(
        [
            *members(4),
            *(mine(f"small-{n}", 2, START - 3, group="small") for n in range(2)),
            theirs(2),
        ],
        ["small-0", "small-1"],
        groups=[make_group("train", 4), make_group("small", 2)],
    ),
    "the whole gang when those it can spare are not enough": Case(
        [*members(4), mine("a", 4, LONG_AGO), theirs(3)],
        [f"train-{n}" for n in range(4)],
        groups=[make_group("train", 2)],
    ),
    "nothing of a gang that has run for long and can spare nobody": Case(
        [*members(1), *members(3, first=1, at=LONG_AGO, node="gpu-1"), mine("a", 7, LONG_AGO), theirs(1)],
        outlook=KEPT,
        groups=[make_group("train", 4)],
    ),
    "a new member above the minimum of one that has run for long": Case(
        [*members(1), *members(3, first=1, at=LONG_AGO, node="gpu-1"), mine("a", 7, LONG_AGO), theirs(1)],
        ["train-0"],
        groups=[make_group("train", 3)],
    ),
    "nothing of a gang with a member that nobody would replace": Case(
        [*members(2), *members(1, first=2, owner=None, node="gpu-1"), mine("a", 6, LONG_AGO), theirs(1)],
        outlook=KEPT,
        groups=[make_group("train", 3)],
    ),
    "nothing of a gang with a member of another scheduler": Case(
        [*members(2), *members(1, first=2, scheduler="default", node="gpu-1"), mine("a", 6, LONG_AGO), theirs(1)],
        outlook=KEPT,
        groups=[make_group("train", 3)],
    ),
    "a member that its task can spare": Case(
        [*members(1, task="ps"), *members(2, first=1, task="worker"), mine("a", 5, LONG_AGO), theirs(1)],
        ["train-1"],
        groups=[make_group("train", 2, {"ps": 1, "worker": 1})],
    ),
    "succeeded members count": Case(
        [*members(2), *(replace(p, phase="Succeeded") for p in members(2, first=2)), mine("a", 6, LONG_AGO), theirs(1)],
        ["train-0"],
        groups=[make_group("train", 3)],
    ),
    "a gang whose object is gone goes as a whole": Case(
        [*members(2), mine("a", 6, LONG_AGO), theirs(1)], ["train-0", "train-1"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WHO_GOES.values(), ids=WHO_GOES.keys())
def test_for_an_overcommit_there_goes(case: Case) -> None:
    other = builders.make_node("gpu-1", {GPU: 8, "cpu": 96_000, "memory": 2**40, "example.com/d": 1})
    engine = Driver(gpu_node("gpu-0", case.gpus), other, *case.groups, *case.pods)
    effects = engine.ticks(12)
    assert evicted(effects) == case.want
    assert engine.engine.overcommits.get(NODE) is case.outlook
    leave(engine, effects)
    engine.gone(*(pod for pod in case.pods if pod.terminating))
    after = engine.ticks(600)
    assert evicted(after) == [], "the system does not come to rest"
    if case.want:
        assert engine.engine.world.overcommitted() == []


def test_an_eviction_says_why() -> None:
    engine = Driver(gpu_node(), mine("a", 4), mine("b", 4, START - 1), theirs(1, name="their-pod"))
    assert engine.ticks(12) == [
        Evict(
            builders.make_pod("a").uid,
            "team",
            "a",
            Ground.OVERCOMMIT,
            (
                ("node", "gpu-0"),
                ("resource", GPU),
                ("bound", 9),
                ("allocatable", 8),
                ("theirs", "team/their-pod"),
                ("scheduler", "default-scheduler"),
                ("evicted", 1),
            ),
        )
    ]


# --- when ------------------------------------------------------------------------------------------


def test_the_kubelet_has_ten_seconds_to_refuse_one_of_them() -> None:
    engine = Driver(gpu_node(), mine("a", 8), theirs(1))
    assert evicted(engine.ticks(repair.SETTLE_SECONDS - 1)) == []
    assert engine.engine.overcommits == {NODE: Overcommit.SETTLING}
    refused = replace(theirs(1), phase="Failed")
    engine.see(refused)
    assert evicted(engine.ticks(60)) == []
    assert engine.engine.overcommits == {}


def test_the_time_begins_anew_with_the_next_overcommit() -> None:
    engine = Driver(gpu_node(), mine("a", 8), theirs(1))
    engine.ticks(9)
    engine.gone(theirs(1))
    engine.ticks(2)
    engine.see(theirs(1, engine.now, name="next"))
    assert evicted(engine.ticks(9)) == []
    assert evicted(engine.ticks(3)) == ["a"]


def test_a_kubelet_that_is_away_cannot_refuse_and_is_waited_for() -> None:
    engine = Driver(gpu_node(ready=False), mine("a", 8), theirs(1))
    assert evicted(engine.ticks(50)) == []
    engine.see(gpu_node())
    assert evicted(engine.ticks(8)) == []
    assert evicted(engine.ticks(5)) == ["a"]


def test_more_pods_do_not_put_it_off() -> None:
    engine = Driver(gpu_node(), mine("a", 8), theirs(1))
    for number in range(10):
        engine.see(theirs(0, engine.now, name=f"small-{number}"))
        assert evicted(engine.ticks(1)) == []
    assert evicted(engine.ticks(1.5)) == ["a"]


def test_an_engine_that_does_not_act_evicts_nobody() -> None:
    engine = Driver(gpu_node(), mine("a", 8), theirs(1), active=False)
    assert engine.ticks(30) == []
    assert engine.engine.overcommits == {}


# --- nodes that change -----------------------------------------------------------------------------


def shrink(gpus: int) -> Callable[[Driver], None]:
    """The node has so many from now on."""
    return lambda engine: engine.see(gpu_node("gpu-0", gpus)) and None


def arrive(*pods: Pod) -> Callable[[Driver], None]:
    """These are bound now."""
    return lambda engine: engine.see(*(replace(pod, bound_at=engine.now) for pod in pods)) and None


CHANGES: dict[str, tuple[list[Pod], list[Callable[[Driver], None]], list[str]]] = {
    "a device plugin starts anew with nothing": ([mine("a", 4), theirs(4)], [shrink(0)], []),
    "and has all again": ([mine("a", 4), theirs(4)], [shrink(0), shrink(8)], []),
    "a card breaks": ([mine("a", 4), theirs(4)], [shrink(7)], []),
    "two cards break one after the other": ([mine("a", 4), theirs(4)], [shrink(7), shrink(6)], []),
    "a card broke that nobody used, then a race": (
        [mine("a", 3)], [shrink(6), arrive(mine("b", 3), theirs(1))], ["b"]
    ),
    "a race, then a device plugin starts anew": ([mine("a", 4)], [arrive(mine("b", 4), theirs(1)), shrink(0)], ["b"]),
    "more is used than was ever there only by the race": (
        [mine("a", 4)], [shrink(3), arrive(mine("b", 4), theirs(1))], ["b"]
    ),
    "a pod of ours lands on a node that has shrunk": ([mine("a", 4)], [shrink(5), arrive(mine("b", 2))], []),
}  # fmt: skip


@pytest.mark.parametrize(("pods", "steps", "want"), CHANGES.values(), ids=CHANGES.keys())
def test_what_shrinks_costs_nobody_his_place(
    pods: list[Pod], steps: list[Callable[[Driver], None]], want: list[str]
) -> None:
    engine = Driver(gpu_node(), *pods)
    for step in steps:
        engine.ticks(2)
        step(engine)
    assert evicted(engine.ticks(30)) == want


def test_a_running_pod_that_asks_for_more_costs_nobody_his_place() -> None:
    engine = Driver(gpu_node(), mine("a", 7), theirs(1, LONG_AGO))
    engine.ticks(2)
    engine.see(theirs(2, LONG_AGO))
    assert evicted(engine.ticks(30)) == []
    assert engine.engine.overcommits == {NODE: Overcommit.NOT_BY_BINDING}


def test_a_new_life_repairs_the_race_of_the_last_minute_and_no_older_overcommit() -> None:
    for age, want in ((50, ["a"]), (70, [])):
        at = START - age
        engine = Driver(gpu_node(), mine("a", 8, at), theirs(1, at), active=False)
        engine.send(messages.ActivityChanged(True))
        assert evicted(engine.ticks(12)) == want


def test_a_node_that_goes_is_forgotten() -> None:
    engine = Driver(gpu_node(), mine("a", 8), theirs(1))
    engine.ticks(5)
    engine.gone(gpu_node())
    engine.ticks(2)
    assert engine.engine.overcommits == {}


# --- evictions that are refused ---------------------------------------------------------------------


def refuse(engine: Driver, effects: Iterable[object]) -> list[str]:
    """Refuse these evictions; who was to go."""
    effects = list(effects)
    engine.done(*(e for e in effects if isinstance(e, Evict)), error="a budget refused it")
    return evicted(effects)


def test_after_a_refusal_nobody_goes_until_the_node_is_planned_again_without_him() -> None:
    engine = Driver(gpu_node(), mine("a", 4), mine("b", 4, START - 1), theirs(1))
    assert refuse(engine, engine.ticks(12)) == ["a"]
    assert evicted(engine.ticks(8)) == []
    assert engine.engine.overcommits == {NODE: Overcommit.REFUSED}
    assert evicted(engine.ticks(4)) == ["b"]


def test_who_is_refused_always_is_asked_ever_less_often_and_then_no_more() -> None:
    engine = Driver(gpu_node(), mine("a", 8), theirs(1))
    asked = [round(engine.now - START) for _ in range(2000) if refuse(engine, engine.tick(1))]
    assert asked == [11, 21, 41, 81, 161]
    assert engine.engine.overcommits == {NODE: Overcommit.REFUSED}
    engine.see(theirs(0, engine.now, name="news"))
    assert refuse(engine, engine.ticks(2)) == ["a"]


def test_of_a_gang_that_goes_whole_the_refused_are_asked_again_until_it_is_gone() -> None:
    gang = members(4, at=START)
    engine = Driver(gpu_node(), make_group("train", 4), *gang, mine("a", 4, LONG_AGO), theirs(1))
    effects = [e for e in engine.ticks(12) if isinstance(e, Evict)]
    assert len(effects) == 4
    engine.done(effects[0], error="a budget refused it")
    leave(engine, effects[1:])
    assert evicted(engine.ticks(8)) == []
    again = engine.ticks(5)
    assert evicted(again) == [effects[0].name]
    leave(engine, again)
    assert evicted(engine.ticks(100)) == []


def test_the_rest_of_a_gang_is_let_be_when_fewer_are_needed_now() -> None:
    gang = members(4, at=START)
    engine = Driver(gpu_node(), make_group("train", 4), *gang, mine("a", 4, LONG_AGO), theirs(1))
    effects = [e for e in engine.ticks(12) if isinstance(e, Evict)]
    engine.done(effects[0], error="a budget refused it")
    leave(engine, effects[1:])
    engine.see(make_group("train", 1, generation=1))
    assert evicted(engine.ticks(100)) == []


def test_the_rest_of_a_gang_is_let_be_while_new_members_are_on_their_way() -> None:
    gang = members(4, at=START)
    engine = Driver(gpu_node(), gpu_node("gpu-1"), make_group("train", 4), *gang, mine("a", 4, LONG_AGO), theirs(1))
    effects = [e for e in engine.ticks(12) if isinstance(e, Evict)]
    engine.done(effects[0], error="a budget refused it")
    leave(engine, effects[1:])
    new = [make_pod(f"new-{n}", {GPU: 1}, group="train", owner=JOB, created=engine.now) for n in range(3)]
    engine.see(*new)
    assert evicted(engine.ticks(30)) == []
    assert None not in engine.nodes(new)


def test_a_gang_that_is_whole_again_before_the_rest_of_it_went_stays() -> None:
    gang = members(4, at=START)
    engine = Driver(gpu_node(), gpu_node("gpu-1"), make_group("train", 4), *gang, mine("a", 4, LONG_AGO), theirs(1))
    effects = [e for e in engine.ticks(12) if isinstance(e, Evict)]
    engine.done(effects[0], error="a budget refused it")
    leave(engine, effects[1:])
    new = [make_pod(f"new-{n}", {GPU: 1}, group="train", owner=JOB, created=engine.now) for n in range(3)]
    engine.see(*new)
    engine.tick(0.1)
    assert None not in engine.nodes(new), "the gang is mended by its replacements"
    engine.bind(*new)
    assert evicted(engine.ticks(100)) == []


# --- gangs and what is planned meanwhile ------------------------------------------------------------


def test_a_gang_that_is_leaving_gets_no_new_member_until_all_have_gone() -> None:
    gang = members(4, at=START)
    engine = Driver(gpu_node(), gpu_node("gpu-1"), make_group("train", 4), *gang, mine("a", 4, LONG_AGO), theirs(1))
    effects = [e for e in engine.ticks(12) if isinstance(e, Evict)]
    new = [make_pod(f"new-{n}", {GPU: 1}, group="train", owner=JOB, created=engine.now) for n in range(4)]
    for effect, pod in zip(effects, new, strict=True):
        assert (engine.reserved, engine.reason(TRAIN)) == (0, Reason.EVICTING)
        leave(engine, [effect])
        engine.see(pod)
        engine.tick(0.1)
    assert None not in engine.nodes(new)


@pytest.mark.parametrize("held", [True, False], ids=["held at the gate", "planned"])
def test_a_gang_with_a_member_on_its_way_does_not_go_before_that_has_come(held: bool) -> None:
    gang = members(4, at=START)
    late = make_pod("train-9", {GPU: 1}, group="train", owner=JOB)
    engine = Driver(gpu_node(), gpu_node("gpu-1"), make_group("train", 4), *gang, mine("a", 4, LONG_AGO), theirs(3))
    engine.ticks(9)
    engine.see(late)
    engine.tick()
    if held:
        engine.hold(late)
    assert engine.node(late) == "gpu-1"
    assert evicted(engine.ticks(5)) == []
    engine.see(builders.bound(late, "gpu-1", engine.now))
    engine.hold()
    assert sorted(evicted(engine.ticks(2))) == [*(f"train-{n}" for n in range(4)), "train-9"]


def test_members_spared_for_one_node_are_not_spared_again_for_another() -> None:
    gang = [*members(2), *members(2, first=2, node="gpu-1")]
    full = [mine("a", 6, LONG_AGO), mine("b", 6, LONG_AGO, node="gpu-1")]
    rivals = [theirs(1), replace(theirs(1, name="other-1"), node=NodeName("gpu-1"))]
    engine = Driver(gpu_node(), gpu_node("gpu-1"), make_group("train", 3), *gang, *full, *rivals)
    effects = engine.ticks(12)
    assert evicted(effects) == ["train-0", "train-1", "train-2", "train-3"]


def test_nothing_that_asks_for_what_is_short_is_planned_on_an_overcommitted_node() -> None:
    waiting = [make_pod(f"w-{n}", {GPU: 1}) for n in range(3)]
    engine = Driver(gpu_node(), gpu_node("gpu-1", 2), mine("a", 8, LONG_AGO), theirs(1), *waiting)
    engine.ticks(3)
    assert sorted(map(str, engine.nodes(waiting))) == ["None", "gpu-1", "gpu-1"]


def test_what_was_planned_on_a_node_is_taken_off_when_it_becomes_overcommitted() -> None:
    waiting = make_pod("w", {GPU: 4})
    engine = Driver(gpu_node(), mine("a", 4, LONG_AGO), waiting)
    engine.tick()
    assert engine.node(waiting) == "gpu-0"
    engine.see(theirs(5))
    engine.tick()
    assert engine.node(waiting) is None


@pytest.mark.parametrize("nodes", [[gpu_node(gpus=8), gpu_node("gpu-1")], [gpu_node("gpu-1"), gpu_node(gpus=8)]])
def test_the_replacement_starts_elsewhere(nodes: list[Node]) -> None:
    engine = Driver(*nodes, mine("a", 4, LONG_AGO), mine("b", 4), theirs(1))
    leave(engine, engine.ticks(12))
    new = make_pod("b-again", {GPU: 4}, owner=JOB, created=engine.now)
    engine.see(new)
    engine.tick()
    assert engine.node(new) == "gpu-1"
