"""First and later cycles: `python -m tests.perf.bench_cycles [--waiting 10000] [--events 200]`. Prints, never asserts.

A *first* cycle looks at everything anew, as after a start. A *later* one follows one event of those that a cluster
sees all day: a pod ends, a group comes, one that waits is deleted, somebody else's pod is bound; and what was placed is
bound. 5000 nodes, 200 queues. CPU time, from the event to the end of the last piece; effects are carried out between
two cycles. The last column is the figure that is wanted of a cycle's p99.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from extender.core import messages
from extender.core.engine import Engine
from extender.core.ids import NodeName
from extender.core.model import Pod
from tests.builders import GPU, bound, make_pod
from tests.perf import backlogs

WANTED = 100.0
FIRST_CYCLES = 5


@dataclass(frozen=True)
class World:
    """A backlog, and the groups that are added to it."""

    build: Callable[[int, int | None], Engine]
    group: Callable[[int, random.Random], list[Pod]]


WORLDS = {
    "equal pods": World(backlogs.equal_pods, lambda number, _: backlogs.equal_pod(number)),
    "equal gangs of 4": World(backlogs.equal_gangs, lambda number, _: backlogs.equal_gang(number)),
    "realistic mix": World(backlogs.realistic, backlogs.typical),
    "no two alike": World(backlogs.different, lambda number, _: backlogs.different_group(number)),
}


class Day:
    """What happens to a cluster, event by event. `now` goes on by a quarter of a second with each."""

    def __init__(self, engine: Engine, world: World, waiting: int) -> None:
        self.engine = engine
        self.now = 1000.0
        self._chance = random.Random(3)
        self._world = world
        self._number = waiting

    def first(self) -> float:
        """Milliseconds of a cycle in which nothing is known."""
        for active in (False, True):
            self.engine.handle(messages.ActivityChanged(active), self.now)
        return self._cycle([])

    def events(self) -> Iterator[tuple[str, float]]:
        """What happened, and how many milliseconds its cycle took."""
        while True:
            say, events = self._next()
            yield say, self._cycle(events)

    def _cycle(self, events: list[messages.EngineEvent]) -> float:
        self.now += 0.25
        begun = time.thread_time()
        for event in events:
            self.engine.handle(event, self.now)
        self.engine.handle(messages.Tick(), self.now)
        while self.engine.unfinished:
            self.engine.handle(messages.Tick(), self.now)
        return (time.thread_time() - begun) * 1e3

    def _next(self) -> tuple[str, list[messages.EngineEvent]]:
        pods = self.engine.world.pods
        placed = [(pods[slot], r.node) for slot, r in self.engine._plans.ledger.planned().items() if slot in pods]
        if placed:
            return "what was placed is bound", [messages.PodSeen(bound(pod, node, self.now)) for pod, node in placed]
        kind = self._chance.random()
        if kind < 0.4:
            pod = self._chance.choice([pod for pod in pods.values() if pod.bound])
            return "a pod ends", [messages.PodSeen(replace(pod, phase="Succeeded")), messages.PodGone(pod.uid)]
        if kind < 0.7:
            self._number += 1
            group = self._world.group(self._number, self._chance)
            return "a group comes", [messages.PodSeen(replace(pod, created=self.now)) for pod in group]
        if kind < 0.8:
            key = self._chance.choice([key for key, entry in self.engine.entries.items() if entry.refusal])
            return "one that waits is deleted", [messages.PodGone(uid) for uid in self.engine.world.members[key]]
        node = NodeName(f"node-{self._chance.randrange(backlogs.NODES):05}")
        self._number += 1
        pod = make_pod(f"other-{self._number}", {"cpu": 500, GPU: 0}, scheduler="default")
        return "another scheduler binds", [messages.PodSeen(bound(pod, node, self.now))]


def bench(name: str, waiting: int, events: int, turns: int | None) -> None:
    """One world."""
    day = Day(WORLDS[name].build(waiting, turns), WORLDS[name], waiting)
    taken: dict[str, list[float]] = {"a first cycle": [day.first() for _ in range(FIRST_CYCLES)]}
    later = taken["later cycles"] = []
    for say, milliseconds in day.events():
        later.append(milliseconds)
        taken.setdefault(f"  {say}", []).append(milliseconds)
        if len(later) == events:
            break
    print(f"{waiting} waiting groups, {name}")
    for say, cycles in taken.items():
        print(f"  {say:<30} {backlogs.figures(cycles)} {WANTED:>9.0f}", flush=True)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--only", choices=WORLDS, help="one world")
    told = parser.parse_args()
    print(f"{'milliseconds of CPU':<32} {'n':>6} {'p50':>9} {'p99':>9} {'worst':>9} {'wanted':>9}")
    for name in [told.only] if told.only else WORLDS:
        bench(name, told.waiting, told.events, None)


if __name__ == "__main__":
    main()
