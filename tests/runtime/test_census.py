"""What the census tells: unreadable nodes, each named once; GPUs, and what has started."""

from __future__ import annotations

import asyncio
import functools

import pytest

from extender.core import messages, series
from extender.core.model import Node
from extender.runtime import census
from tests import builders
from tests.builders import GPU, bound, gpu_node, make_pod
from tests.core.engine_driver import Driver


class Told:
    """The metrics that are told here, and what is logged."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.lines: list[tuple[str, str]] = []

    def unreadable(self, number: int) -> None:
        self.counts.append(number)

    def warning(self, _message: str, *, node: str, problem: str) -> None:
        self.lines.append((node, problem))


def bad(name: str, problem: str = "annotation: no JSON") -> Node:
    return gpu_node(name, problems=(problem,))


def test_nodes_that_cannot_be_read_are_counted_and_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setattr(census, "LOG", told)
    engine = Driver(gpu_node("sound"), bad("a"), bad("b"))
    known = census._tell_unread(engine.engine, told, {})
    assert (told.counts, sorted(told.lines)) == ([2], [("a", "annotation: no JSON"), ("b", "annotation: no JSON")])
    engine.send(messages.NodeSeen(gpu_node("a")), messages.NodeSeen(bad("b", "other")))
    known = census._tell_unread(engine.engine, told, known)
    assert told.counts == [2, 1]
    assert told.lines[2:] == [("b", "other")]
    census._tell_unread(engine.engine, told, known)
    assert told.lines[3:] == []


class Gpus:
    """Figures of GPUs as they are told."""

    def __init__(self) -> None:
        self.shown: list[tuple[dict[str, list[float]], dict[str, list[float]]]] = []
        self.ages: list[dict[str, float]] = []
        self.starts: list[series.Start] = []
        self.gpus = self
        self.lost: list[float] = []

    def show(self, pools, queues) -> None:
        self.shown.append((dict(pools), dict(queues)))

    def oldest(self, seconds) -> None:
        self.ages.append(dict(seconds))

    def started(self, starts) -> None:
        self.starts += starts

    def fragmented(self, gpus: float) -> None:
        self.lost.append(gpus)


async def test_gpus_are_told_by_the_replica_that_acts_and_kept_once_a_minute() -> None:
    told, kept, driver = Gpus(), series.Series(), Driver(gpu_node("n0", 8))
    pod = make_pod("alone", {GPU: 3}, created=driver.now - 5)
    driver.see(bound(make_pod("other", {GPU: 2}, scheduler="other"), "n0"), pod, make_pod("large", {GPU: 9}))
    driver.tick()
    for seconds in (0, 10, 20, 70):
        await census._gpus(driver.engine, told, kept, functools.partial(float, driver.now + seconds))
    ((pools, queues), *_) = told.shown
    assert dict(zip(series.STATES, pools["all nodes"], strict=True)) == {
        **{"allocated": 2, "held": 3, "reserved": 0, "fragmented": told.lost[0], "idle": 3 - told.lost[0]},
        "outOfUse": 0,
    }
    assert dict(zip(series.OF_QUEUE, queues["default"], strict=True))["waiting"] == 9
    assert set(told.ages[0]) == {"default"}
    assert kept.between(0, driver.now + 100).points == 2
    driver.bind(pod)
    driver.tick(2)
    census._starts(driver.engine, told, kept, driver.now)
    census._starts(driver.engine, told, kept, driver.now)
    (start,) = told.starts
    assert (start.gpus, start.waited, start.starting) == (3, 5, 2)
    assert [line.count for line in kept.between(0, driver.now + 100).lines] == [1]
    driver.send(messages.ActivityChanged(False))
    await census._gpus(driver.engine, told, kept, lambda: driver.now + 1000)
    assert (told.shown[-1], told.ages[-1], told.lost[-1]) == (({}, {}), {}, 0)
    assert kept.between(0, driver.now + 2000).points == 2


class Usages:
    """The differences that are told."""

    def __init__(self) -> None:
        self.differences: list[int] = []

    def usage_difference(self, number: int) -> None:
        self.differences.append(number)


async def test_what_queues_use_is_counted_anew_in_steps_while_pods_come_and_go() -> None:
    told, driver, count = Usages(), Driver(gpu_node("n0", 8)), 700
    pods = [bound(make_pod(f"p-{n}", {GPU: 1}), "n0") for n in range(count)]
    for pod in pods:
        driver.engine.handle(messages.PodSeen(pod), driver.now)
    turns = 0

    async def disturb() -> None:
        """Each turn one of the oldest goes, and another one comes."""
        nonlocal turns
        while True:
            driver.engine.handle(messages.PodGone(pods[turns].uid), driver.now)
            new = bound(make_pod(f"new-{turns}", {GPU: 2}), "n0")
            driver.engine.handle(messages.PodSeen(new), driver.now)
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(disturb())
        await census._usage(driver.engine, told)
        assert (told.differences, turns > 10) == ([0], True)
        driver.engine.usage.charge(builders.group_key("nobody"), None, ((GPU, 1),), 1)
        await census._usage(driver.engine, told)
        assert told.differences == [0, 1]
        task.cancel()
