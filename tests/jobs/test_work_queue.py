"""The work queue: each key in one hand, none forgotten, failures later and later."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from extender.jobs import work

A, B, TICK = ("ns", "a"), ("ns", "b"), ("ns", "tick")


class Hands:
    """Works on keys as told, and notes who was in whose hand."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.done: list[work.Key] = []
        self.now: Counter[work.Key] = Counter()
        self.most = 0
        self.failing: set[work.Key] = set()
        self.again: dict[work.Key, float] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.queue = work.Queue(self.look, lambda: self.clock)

    async def look(self, key: work.Key) -> float | None:
        self.now[key] += 1
        self.most = max(self.most, self.now.total())
        assert self.now[key] == 1, "two hands on one key"
        try:
            await asyncio.sleep(0)
            await self.gate.wait()
            self.done.append(key)
            if key in self.failing:
                raise work.Again("told to")
            return self.again.pop(key, None)
        finally:
            self.now[key] -= 1

    async def turn(self, times: int = 50) -> None:
        for _ in range(times):
            await asyncio.sleep(0)


@pytest.fixture
async def hands():
    made = Hands()
    running = asyncio.create_task(made.queue.run(2))
    yield made
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_key_that_is_added_thrice_is_looked_at_once(hands):
    for _ in range(3):
        hands.queue.add(A)
    await hands.turn()
    assert hands.done == [A]
    assert len(hands.queue) == 0


async def test_what_is_added_while_it_is_in_a_hand_is_looked_at_again_and_never_in_two(hands):
    hands.gate.clear()
    hands.queue.add(A)
    await hands.turn()
    hands.queue.add(A)
    hands.queue.add(A)
    await hands.turn()
    hands.gate.set()
    await hands.turn()
    assert hands.done == [A, A]


async def test_a_stuck_key_does_not_stop_the_others(hands):
    hands.gate.clear()
    hands.queue.add(A)
    await hands.turn()
    hands.queue.add(B)
    await hands.turn()
    assert hands.now[B] == 1


async def test_no_more_are_in_hands_than_there_are_workers(hands):
    hands.gate.clear()
    for number in range(10):
        hands.queue.add(("ns", str(number)))
    await hands.turn()
    hands.gate.set()
    await hands.turn(200)
    assert hands.most == 2
    assert sorted(hands.done) == [("ns", str(number)) for number in range(10)]


async def test_failures_are_tried_again_later_and_later_and_forgotten_after_a_success(hands):
    hands.failing.add(A)
    hands.queue.add(A)
    await hands.turn()
    waits = []
    for _ in range(14):
        before, seen = hands.clock, len(hands.done)
        while len(hands.done) == seen:
            hands.clock += 0.05
            hands.queue.add(TICK)
            await hands.turn(12)
            hands.done[:] = [key for key in hands.done if key == A]
        waits.append(hands.clock - before)
    assert waits[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8], abs=0.06)
    assert max(waits) <= work.LONGEST_DELAY + 0.06
    hands.failing.clear()
    hands.clock += work.LONGEST_DELAY
    hands.queue.add(TICK)
    await hands.turn()
    assert hands.queue._failures == {}


async def test_the_sooner_of_two_times_counts(hands):
    hands.queue.add(A, 10.0)
    hands.queue.add(A, 1.0)
    hands.queue.add(A, 20.0)
    hands.clock = 1.5
    hands.queue.add(B)
    await hands.turn()
    assert sorted(hands.done) == [A, B]
    hands.clock = 30.0
    hands.queue.add(B)
    await hands.turn()
    assert hands.done.count(A) == 1


async def test_a_fault_of_ours_over_one_key_stops_no_other(hands, caplog):
    async def broken(key: work.Key) -> float | None:
        if key == A:
            raise ZeroDivisionError
        return await Hands.look(hands, key)

    hands.queue._work = broken
    hands.queue.add(A)
    hands.queue.add(B)
    await hands.turn()
    assert hands.done == [B]
    assert "could not be worked on" in caplog.text


@pytest.mark.parametrize("seed", range(20))
async def test_no_key_is_forgotten_whatever_comes_in_which_order(hands, seed):
    chance = random.Random(seed)
    keys = [("ns", str(number)) for number in range(5)]
    added = set()
    for _ in range(60):
        key = chance.choice(keys)
        match chance.randrange(5):
            case 0:
                hands.failing ^= {key}
            case 1:
                hands.again[key] = chance.random()
            case 2:
                hands.clock += chance.random()
            case _:
                hands.queue.add(key, chance.random() * chance.randrange(2))
                added.add(key)
        await hands.turn(chance.randrange(6))
    hands.failing.clear()
    hands.again.clear()
    seen = len(hands.done)
    for key in added:
        hands.queue.add(key)
    hands.clock += 200.0
    hands.queue.add(TICK)  # the queue sleeps by the real clock
    await hands.turn(300)
    assert added <= set(hands.done[seen:])
    assert len(hands.queue) == 0
