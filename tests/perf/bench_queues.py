"""Figures of queues: `python -m tests.perf.bench_queues`. Prints, never asserts."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from extender.core import messages
from extender.core.engine import Engine
from extender.core.fairshare import divide
from extender.core.ids import QUEUE_GATE, QueueName
from extender.core.model import Declared, Pod
from extender.core.quota import Tree, grants
from extender.core.usage import Usage
from extender.runtime.owner import TURNS
from tests.builders import GPU, bound, gpu_node, group_key, make_pod, make_queue
from tests.perf.backlogs import all_looked_at, different, equal_gangs, equal_pods, node_renewed, realistic
from tests.perf.bench_placement import measure

GATED = (QUEUE_GATE,)
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


def behind_heads(waiting: int, running: int) -> Engine:
    """Pods in 200 queues, for which 5000 full nodes have no room. Each that runs says for how long, and for each queue
    a gang waits that needs sixteen whole nodes."""
    engine = Engine(10**6)
    for number in range(5000):
        engine.handle(messages.NodeSeen(gpu_node(f"node-{number:05}")), 0.0)
    for number in range(200):
        parent = None if number < 10 else f"q{number % 10}"
        queue = make_queue(f"q{number}", parent=parent, deserved=((GPU, 100),))
        engine.handle(messages.QueueSeen(queue), 0.0)
    engine.handle(messages.ActivityChanged(True), 0.0)
    for number in range(running):
        engine.handle(messages.PodSeen(runner(number)), 0.0)
    for number in range(190):
        for member in range(16):
            pod = make_pod(f"h{number}-{member}", {GPU: 8}, group=f"head-{number}", queue=QueueName(f"q{10 + number}"))
            engine.handle(messages.PodSeen(replace(pod, declared=Declared(16, 1000), gates=GATED)), 0.0)
    for number in range(waiting):
        pod = make_pod(f"p{number}", {"cpu": 4000, GPU: 1}, queue=QueueName(f"q{10 + number % 190}"), gates=GATED)
        engine.handle(messages.PodSeen(replace(pod, created=1.0)), 0.0)
    engine.handle(messages.Tick(), 50.0)
    return engine


def runner(number: int) -> Pod:
    """One of eight pods on a node, which says when it ends."""
    pod = make_pod(f"r{number}", {"cpu": 1000, GPU: 1}, queue=QueueName(f"q{10 + number % 190}"))
    return bound(replace(pod, declared=Declared(expected_duration=1000 + number % 3000)), f"node-{number // 8:05}", 0.0)


def end_one(engine: Engine, numbers: Iterator[int]) -> None:
    """A pod has ended, so all that waits is looked at, and what the first ones are promised."""
    engine.handle(messages.PodSeen(replace(runner(next(numbers)), phase="Succeeded")), 100.0)
    engine.handle(messages.Tick(), 100.0)


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
    engine, numbers = behind_heads(10_000, 40_000), iter(range(0, 40_000, 99))
    measure("the same pods behind 190 gangs, and 40,000 that say when they end", partial(end_one, engine, numbers), 20)
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
