"""The owner makes long cycles in pieces: calls and events get their turns in between."""

from __future__ import annotations

import asyncio
import itertools

from extender.core import messages
from extender.core.engine import Engine
from extender.core.ids import QUEUE_GATE
from extender.runtime.owner import TURNS, Owner
from tests.builders import GPU, gpu_node, make_pod, seen
from tests.core.engine_driver import BY_LIST

WAITING = 60


class Observer:
    """Counts cycles."""

    def __init__(self) -> None:
        self.cycles: list[float] = []
        self.ended = asyncio.Event()

    def cycle(self, seconds: float) -> None:
        self.cycles.append(seconds)
        self.ended.set()


def crowd() -> tuple[Engine, Owner, Observer]:
    """Many groups of which no two are alike, none of which fits; each look at the clock takes 2 ms."""
    engine, observer, ticks = Engine(BY_LIST, TURNS), Observer(), itertools.count()
    owner = Owner(engine, lambda effect, cause: None, lambda: next(ticks) * 0.002, lambda: 0.0, observer)
    engine.handle(seen(gpu_node("n0", 1)), 0.0)
    engine.handle(messages.ActivityChanged(True), 0.0)
    for number in range(WAITING):
        engine.handle(seen(make_pod(f"p{number}", {GPU: 2 + number})), 0.0)
    return engine, owner, observer


async def test_a_cycle_over_many_groups_is_made_in_pieces_and_counted_once() -> None:
    engine, owner, observer = crowd()
    running = asyncio.create_task(owner.run())
    await owner.ask(messages.Tick())
    assert engine.unfinished
    assert observer.cycles == []
    while engine.unfinished:
        await owner.ask(messages.Tick())
    assert len(observer.cycles) == 1
    assert all(entry.refusal is not None for entry in engine.entries.values())
    running.cancel()


async def test_an_event_is_handled_between_two_pieces() -> None:
    engine, owner, _ = crowd()
    running = asyncio.create_task(owner.run())
    await owner.ask(messages.Tick())
    late = make_pod("late", {GPU: 1}, priority=5)
    await owner.ask(seen(late))
    assert engine.unfinished
    assert engine.view.planned(late.uid) == "n0"
    running.cancel()


async def test_events_are_taken_in_for_some_milliseconds_and_then_a_piece_is_made() -> None:
    engine, owner, _ = crowd()
    for number in range(50):
        owner.post(seen(make_pod(f"more{number}", {GPU: 1})))
    running = asyncio.create_task(owner.run())
    await asyncio.sleep(0)
    seen_at_first = len(engine.world.pods)
    assert WAITING < seen_at_first < WAITING + 50
    assert engine.unfinished
    await owner.ask(messages.Tick())  # behind all of them in the inbox
    assert len(engine.world.pods) == WAITING + 50
    running.cancel()


async def test_after_a_long_cycle_events_gather_but_who_asks_is_answered_at_once() -> None:
    engine, observer, clock = Engine(BY_LIST), Observer(), [0.0]

    def carry_out(effect: messages.Effect, cause: str) -> None:
        clock[0] += 0.05

    owner = Owner(engine, carry_out, lambda: clock[0], lambda: 0.0, observer)
    engine.handle(seen(gpu_node("n0", 8)), 0.0)
    engine.handle(messages.ActivityChanged(True), 0.0)
    first, second, third = (make_pod(name, {GPU: 1}, gates=(QUEUE_GATE,)) for name in ("p0", "p1", "p2"))
    running = asyncio.create_task(owner.run())
    await owner.ask(seen(first))
    assert engine.view.planned(first.uid) == "n0"
    took = observer.cycles[-1]
    assert took > 0
    owner.post(seen(second))
    for _ in range(20):
        await asyncio.sleep(0)
    assert second.uid in engine.world.pods
    assert engine.view.planned(second.uid) is None
    await owner.ask(seen(third))
    assert engine.view.planned(second.uid) == engine.view.planned(third.uid) == "n0"
    fourth = make_pod("p3", {GPU: 1}, gates=(QUEUE_GATE,))
    owner.post(seen(fourth))
    clock[0] += 3 * observer.cycles[-1]
    async with asyncio.timeout(5):
        while engine.view.planned(fourth.uid) is None:
            observer.ended.clear()
            await observer.ended.wait()
    running.cancel()
