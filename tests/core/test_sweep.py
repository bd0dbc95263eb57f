"""Rounds in pieces, and over many that are alike: the outcome is that of one round that looks at each of them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from extender.core import messages
from extender.core.engine import Engine
from extender.core.ids import QueueName
from extender.core.model import Declared, Node, Pod, Queue
from extender.core.reasons import Reason
from tests import builders
from tests.builders import GPU, bound, gpu_node, make_pod, make_queue
from tests.core import engine_driver
from tests.core.engine_driver import BY_LIST, GATED
from tests.core.test_engine_twin import Forgetful, decisions, forgetful

GPUS = st.sampled_from((1, 1, 1, 2, 4))


def pod(name: str, gpus: int = 1, queue: str = "left", **fields: object) -> Pod:
    return make_pod(name, {GPU: gpus}, queue=queue, gates=GATED, **fields)  # type: ignore[arg-type]


def tell(engine: Engine, now: float, *things: Node | Pod | Queue) -> list[messages.Effect]:
    return [effect for thing in things for effect in engine.handle(builders.seen(thing), now)]


def cycle(engine: Engine, now: float) -> list[messages.Effect]:
    """All pieces of a round."""
    effects = engine.handle(messages.Tick(), now)

    def piece() -> None:
        effects.extend(engine.handle(messages.Tick(), now))
        engine_driver.check(engine)

    engine_driver.finish(engine, piece)
    return effects


@st.composite
def happenings(draw: st.DrawFn) -> list[tuple[object, ...]]:
    """Batches of many equal groups, in few queues, and of things that make room or take it."""
    found: list[tuple[object, ...]] = []
    for _ in range(draw(st.integers(2, 6))):
        kind = draw(st.sampled_from(("groups", "groups", "ends", "node", "cap", "foreign")))
        if kind == "groups":
            found += [
                (kind, draw(st.sampled_from(("left", "right"))), draw(GPUS), draw(st.integers(0, 1)), size)
                for size in draw(st.lists(st.sampled_from((1, 1, 2, 3)), min_size=1, max_size=3))
                for _ in range(draw(st.integers(1, 3)))
            ]
        else:
            found.append((kind, draw(st.integers(0, 20)), draw(st.integers(1, 6))))
        found.append(("cycle",))
    return found


class World:
    """Tells several engines the same; pods that are planned are bound after each round."""

    def __init__(self, *engines: Engine) -> None:
        self.engines, self.number, self.now = engines, 0, 0.0
        queues = [make_queue("left", deserved=((GPU, 3),)), make_queue("right", deserved=((GPU, 2),))]
        self.tell(*(gpu_node(f"n{n}", 3) for n in range(2)), *queues)
        for engine in engines:
            engine.handle(messages.ActivityChanged(True), 0.0)

    def tell(self, *things: Node | Pod | Queue) -> None:
        for engine in self.engines:
            if isinstance(engine._cycle.asking, Forgetful):
                engine._cycle.asking.forget()
            tell(engine, self.now, *things)

    def happen(self, kind: str, *facts: object) -> None:
        self.number += 1
        self.now += 1.0
        match kind, *facts:
            case "groups", str(queue), int(gpus), int(priority), int(size):
                name = None if size == 1 else f"g{self.number}"
                pods = [
                    pod(f"p{self.number}-{n}", gpus, queue, group=name, priority=priority, created=self.now)
                    for n in range(size)
                ]
                self.tell(*(replace(one, declared=Declared(size)) for one in pods))
            case "ends", int(which), int(number):
                running = [one for one in self.engines[0].world.pods.values() if one.bound]
                for one in running[which : which + number]:
                    self.tell(replace(one, phase="Succeeded"))
            case "node", int(which), int(gpus):
                self.tell(gpu_node(f"n{which % 4}", gpus))
            case "cap", int(which), int(most):
                self.tell(make_queue(("left", "right")[which % 2], deserved=((GPU, 2),), capability=((GPU, most),)))
            case "foreign", int(which), int(gpus):
                there = list(self.engines[0].world.nodes.row_of)
                self.tell(bound(make_pod(f"f{self.number}", {GPU: gpus}, scheduler="x"), there[which % len(there)]))
            case _:
                self.cycle()

    def cycle(self) -> None:
        found = [sorted(map(repr, cycle(engine, self.now))) for engine in self.engines]
        decided = [decisions(engine) for engine in self.engines]
        assert all(one == found[0] for one in found)
        assert all(one == decided[0] for one in decided)
        first = self.engines[0]
        planned = [one for one in first.world.pods.values() if one.waiting and first.view.planned(one.uid)]
        self.tell(*(bound(one, first.view.planned(one.uid) or "", self.now) for one in planned))


@settings(max_examples=60, deadline=None)
@given(happenings(), st.sampled_from((1, 2, 5)))
def test_in_pieces_or_at_once_from_memory_or_anew_the_same_is_decided(
    steps: list[tuple[object, ...]], turns: int
) -> None:
    world = World(Engine(BY_LIST), forgetful(BY_LIST), Engine(BY_LIST, turns))
    for kind, *facts in steps:
        world.happen(str(kind), *facts)


def crowded(turns: int, *more: Queue) -> Engine:
    """One node of eight GPUs, in use by pods that end one by one; six groups wait in order, the first for 2."""
    engine = Engine(BY_LIST, turns)
    tell(engine, 0.0, gpu_node("n0", 8), make_queue("left"), make_queue("right"), *more)
    tell(engine, 0.0, *(bound(pod(f"busy{n}", 1, "right"), "n0") for n in range(8)))
    engine.handle(messages.ActivityChanged(True), 0.0)
    tell(engine, 0.0, pod("first", 2, created=1.0), *(pod(f"p{n}", 1, created=2.0 + n) for n in range(5)))
    cycle(engine, 0.0)
    return engine


def planned(engine: Engine) -> set[str]:
    return {one.name for one in engine.world.pods.values() if one.waiting and engine.view.planned(one.uid)}


def ends(engine: Engine, *names: str) -> None:
    for name in names:
        engine.handle(messages.PodGone(builders.make_pod(name).uid), 1.0)


def test_room_that_comes_while_a_round_lasts_is_the_first_groups() -> None:
    """The first was refused already when the second GPU came free: nobody behind it may take that."""
    engine = crowded(1)
    ends(engine, "busy0")
    engine.handle(messages.Tick(), 1.0)  # the first needs two
    assert engine.unfinished
    ends(engine, "busy1", "busy2")
    cycle(engine, 1.0)
    assert planned(engine) == {"p0"}  # what was free when the round began
    cycle(engine, 1.1)
    assert planned(engine) == {"p0", "first"}


def test_nobody_is_evicted_for_want_of_room_that_has_come_while_a_round_lasts() -> None:
    engine = Engine(BY_LIST, 1)
    tell(engine, 0.0, gpu_node("n0", 8), make_queue("left"))
    tell(engine, 0.0, *(bound(pod(f"low{n}", 1, "left"), "n0") for n in range(6)))
    tell(engine, 0.0, *(bound(pod(f"busy{n}", 1, "left", priority=99), "n0") for n in range(2)))
    engine.handle(messages.ActivityChanged(True), 0.0)
    tell(engine, 0.0, pod("never", 100, priority=10, created=1.0), pod("high", 2, priority=9, created=2.0))
    engine.handle(messages.Tick(), 0.0)  # nothing makes room for the first
    assert engine.unfinished
    ends(engine, "busy0", "busy1")
    effects = cycle(engine, 1.0) + cycle(engine, 1.1)
    assert [effect for effect in effects if isinstance(effect, messages.Evict)] == []
    assert planned(engine) == {"high"}


def test_quota_that_comes_while_a_round_lasts_is_the_first_groups() -> None:
    """The same where a cap is what lacks."""
    engine = crowded(1, make_queue("all", capability=((GPU, 9),)), make_queue("left", parent="all"))
    tell(engine, 0.5, gpu_node("n1", 8), make_queue("right", parent="all"))
    cycle(engine, 0.5)
    assert planned(engine) == {"p0"}
    ends(engine, "busy0")
    engine.handle(messages.Tick(), 1.0)
    ends(engine, "busy1", "busy2")
    cycle(engine, 1.0)
    assert planned(engine) == {"p0", "p1"}
    cycle(engine, 1.1)
    assert planned(engine) == {"p0", "p1", "first"}


def test_a_group_of_higher_order_that_comes_while_a_round_lasts_is_looked_at_first() -> None:
    engine = crowded(1)
    ends(engine, "busy0")
    engine.handle(messages.Tick(), 1.0)
    tell(engine, 1.0, pod("urgent", 1, priority=5))
    engine.handle(messages.Tick(), 1.0)
    assert planned(engine) == {"urgent"}


def test_what_others_take_while_a_round_lasts_is_not_planned_on() -> None:
    engine = crowded(1)
    ends(engine, "busy0")
    engine.handle(messages.Tick(), 1.0)
    tell(engine, 1.0, bound(make_pod("foreign", {GPU: 1}, scheduler="default"), "n0"))
    cycle(engine, 1.0)
    assert planned(engine) == set()


def test_a_node_that_is_cordoned_while_a_round_lasts_gets_nothing() -> None:
    engine = crowded(1)
    ends(engine, "busy0")
    engine.handle(messages.Tick(), 1.0)
    tell(engine, 1.0, gpu_node("n0", 8, unschedulable=True))
    cycle(engine, 1.0)
    assert planned(engine) == set()


def test_a_round_comes_to_its_end_whatever_joins_it() -> None:
    """Room that came free is used within a bounded time although new groups come all the time."""
    engine = crowded(1)
    ends(engine, "busy0")
    engine.handle(messages.Tick(), 1.0)
    ends(engine, "busy1")
    for number in range(60):
        tell(engine, 1.0 + number / 10, pod(f"new{number}", 8, created=100.0))
        engine.handle(messages.Tick(), 1.0 + number / 10)
    assert "first" in planned(engine) or "p1" in planned(engine)


def listed(effects: list[messages.Effect]) -> list[frozenset[str]]:
    return [effect.names for effect in effects if isinstance(effect, messages.SetOpenQueues)]


def two_queues_waiting(opened: set[str]) -> Engine:
    engine = Engine(BY_LIST, 1)
    tell(engine, 0.0, gpu_node("n0", 1), *(make_queue(name) for name in ("left", "right")))
    engine.handle(messages.OpenQueuesSeen(frozenset(map(QueueName, opened))), 0.0)
    tell(engine, 0.0, *(pod(f"p{n}", 2, ("left", "right")[n % 2]) for n in range(4)))
    engine.handle(messages.ActivityChanged(True), 0.0)
    return engine


def test_no_queue_is_listed_as_open_before_all_groups_were_looked_at() -> None:
    assert listed(cycle(two_queues_waiting(set()), 0.0)) == [{"default"}]


def test_queues_are_closed_at_once_when_a_round_lasts_long() -> None:
    engine = two_queues_waiting({"default", "left", "right"})
    assert listed(engine.handle(messages.Tick(), 0.0)) == []
    assert listed(engine.handle(messages.Tick(), 0.1)) == []
    [closed] = listed(engine.handle(messages.Tick(), 0.3))
    assert engine.unfinished
    assert "default" in closed
    assert closed < {"default", "left", "right"}
    assert listed(cycle(engine, 0.3)) in ([], [{"default"}])


def test_a_group_whose_turn_is_to_come_is_not_put_aside_and_waits_for_no_reason_yet() -> None:
    engine = crowded(1)
    ends(engine, "busy0")
    late = pod("late", 8, created=100.0, priority=-1)
    engine.handle(messages.FilterCalled(late, (builders.gpu_node("n0").name,)), 1.0)
    assert engine.view.pending(late.uid)
    assert engine.view.refusal(late.uid) is None
    assert not engine.entries[late.group].rejected
    cycle(engine, 1.0)
    refusal = engine.view.refusal(late.uid)
    assert not engine.view.pending(late.uid)
    assert refusal is not None
    assert refusal.reason is Reason.RESOURCES


def test_who_is_offered_no_node_at_all_does_not_ask_for_a_turn_for_ever() -> None:
    engine = Engine(BY_LIST, 1)
    tell(engine, 0.0, gpu_node("n0", 1), gpu_node("n1", 1))
    engine.handle(messages.ActivityChanged(True), 0.0)
    refused = [make_pod(name, {GPU: 1}) for name in ("a", "b")]
    tell(engine, 0.0, *refused)
    cycle(engine, 0.0)
    tell(
        engine, 1.0, *(replace(pod, rejection="0/2 nodes are available: 2 node(s) had no such disk") for pod in refused)
    )
    for now in (1.0, 4.0, 12.0, 30.0):
        cycle(engine, now)
        assert {entry.refusal and entry.refusal.reason for entry in engine.entries.values()} == {
            Reason.SCHEDULER_REFUSED
        }
