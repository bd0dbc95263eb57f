"""Figures of queues: `python -m tests.perf.bench_queues`. Prints, never asserts."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from functools import partial

from extender.core import messages
from extender.core.engine import Engine
from extender.core.fairshare import divide
from extender.core.ids import QueueName
from extender.core.quota import Tree, grants
from extender.core.usage import Usage
from extender.runtime.owner import TURNS
from tests.builders import GPU, group_key, make_queue
from tests.perf.backlogs import all_looked_at, different, equal_gangs, equal_pods, node_renewed, realistic
from tests.perf.bench_placement import measure

RESOURCES = (GPU, "cpu", "memory", "pods", "nvidia.com/mig-1g.5gb", "rdma/hca")


def forest(count: int) -> Tree:
    """Queues in three levels with limits of every kind."""
    chance = random.Random(7)
    queues = {}
    for number in range(count):
        parent = None if number < 4 else f"q{number % 4}" if number < 24 else f"q{4 + number % 20}"
        amounts = {what: chance.randint(0, 2**30) for what in RESOURCES}
        queue = make_queue(
            f"q{number}",
            parent=parent,
            weight=chance.randint(0, 9),
            deserved=tuple(amounts.items()),
            guarantee=tuple((what, amount // 10) for what, amount in amounts.items() if number >= 24),
        )
        queues[queue.name] = queue
    return Tree(queues)


def cycle(engine: Engine) -> None:
    """A node has changed, so all that waits is looked at."""
    all_looked_at(engine, 100.0)


def pieces(engine: Engine) -> None:
    """The same cycle in steps, as the process makes it: prints how long the steps take."""
    taken = []
    for _ in range(3):
        node_renewed(engine, 100.0)
        going = True
        while going:
            begun = time.thread_time()
            engine.handle(messages.Tick(), 100.0)
            taken.append((time.thread_time() - begun) * 1e6)
            going = engine.unfinished
    cuts = statistics.quantiles(taken, n=100)
    print(f"{'  its steps: median, p99, worst':<82} {cuts[49]:>9.0f} {cuts[98]:>9.0f} {max(taken):>9.0f}")


def main() -> None:
    """Run and print."""
    chance, tree = random.Random(8), forest(200)
    totals = dict.fromkeys(RESOURCES, 2**35)
    wanted = {
        QueueName(f"q{number}"): {what: chance.randint(0, 2**31) for what in RESOURCES} for number in range(24, 200)
    }
    print(f"{'CPU us: median, worst; wall: median':>112}")
    measure("a tree of 200 queues", lambda: len(forest(200).downwards))
    measure("guarantees of 200 queues, 6 resources", lambda: len(grants(tree, totals).kept))
    granted = grants(tree, totals)
    measure("fair shares of 200 queues, 6 resources", lambda: len(divide(tree, granted, totals, wanted)))
    usage, key = Usage(lambda _: QueueName("q199")), group_key()
    usage.follow(tree, granted)
    request = ((GPU, 1), ("cpu", 4000), ("memory", 2**34), ("pods", 1))
    measure("a pod charged, three levels, with guarantees", lambda: usage.charge(key, None, request, 1), 1000)
    backlogs: tuple[tuple[str, Callable[[int, int | None], Engine]], ...] = (
        ("equal pods", equal_pods),
        ("equal gangs of 4", equal_gangs),
        ("groups of a realistic mix", realistic),
        ("groups, no two alike", different),
    )
    for say, build in backlogs:
        measure(f"a cycle: 10,000 waiting {say}, 200 queues, 5000 nodes", partial(cycle, build(10_000, None)), 3)
        pieces(build(10_000, TURNS))


if __name__ == "__main__":
    main()
