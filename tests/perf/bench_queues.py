"""Figures of queues: `python -m tests.perf.bench_queues`. Prints, never asserts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from extender.core import messages
from extender.core.engine import Engine
from extender.core.fairshare import divide
from extender.core.ids import QUEUE_GATE, NodeName, QueueName
from extender.core.model import Declared, Pod
from extender.core.quota import Tree, grants
from extender.core.usage import Usage
from tests.builders import GPU, bound, gpu_node, group_key, make_pod, make_queue
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


def backlog(waiting: int, size: int, running: int = 0) -> Engine:
    """Groups of so many pods in 200 queues, for which 5000 full nodes have no room. Each that runs says for how long,
    and for each queue a gang waits that needs sixteen whole nodes."""
    engine = Engine(10**6)
    for number in range(5000):
        engine.handle(messages.NodeSeen(gpu_node(f"node-{number:05}", 8 if running else 0)), 0.0)
    for number in range(200):
        parent = None if number < 10 else f"q{number % 10}"
        queue = make_queue(f"q{number}", parent=parent, deserved=((GPU, 100),))
        engine.handle(messages.QueueSeen(queue), 0.0)
    engine.handle(messages.ActivityChanged(True), 0.0)
    for number in range(running):
        engine.handle(messages.PodSeen(runner(number)), 0.0)
    for number in range(190 if running else 0):
        for member in range(16):
            pod = make_pod(f"h{number}-{member}", {GPU: 8}, group=f"head-{number}", queue=QueueName(f"q{10 + number}"))
            engine.handle(messages.PodSeen(replace(pod, declared=Declared(16, 1000), gates=GATED)), 0.0)
    for number in range(waiting):
        group, queue_name = f"g{number}" if size > 1 else None, QueueName(f"q{10 + number % 190}")
        for member in range(size):
            pod = make_pod(f"p{number}-{member}", {"cpu": 4000, GPU: 1}, group=group, queue=queue_name, gates=GATED)
            pod = replace(pod, declared=Declared(size), created=1.0)
            engine.handle(messages.PodSeen(pod), 0.0)
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
    engine.handle(messages.NodeGone(NodeName("node-00000")), 100.0)
    engine.handle(messages.NodeSeen(gpu_node("node-00000", 0)), 100.0)
    engine.handle(messages.Tick(), 100.0)


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
    for size, say in ((1, "pods"), (4, "gangs of 4")):
        engine = backlog(10_000, size)
        measure(f"a cycle: 10,000 waiting {say} in 200 queues, 5000 nodes", partial(cycle, engine), 5)
    engine, numbers = backlog(10_000, 1, 40_000), iter(range(0, 40_000, 99))
    measure("the same pods behind 190 gangs, and 40,000 that say when they end", partial(end_one, engine, numbers), 20)
    measure("a pod charged, three levels, with guarantees", lambda: usage.charge(key, None, request, 1), 1000)


if __name__ == "__main__":
    main()
