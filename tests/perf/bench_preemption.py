"""Figures of reclaim: `python -m tests.perf.bench_preemption`. Prints, never asserts.

500 nodes of 8 GPUs, full of 4000 one-GPU pods of a queue that borrowed; a queue that owns all of it comes: first with
one gang of 500 pods of 8 GPUs, then with 50 gangs of 10.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from extender.core import messages
from extender.core.engine import Engine
from extender.core.ids import QUEUE_GATE, QueueName
from extender.core.model import Declared, Pod
from tests.builders import GPU, bound, gpu_node, make_pod, make_queue

NODES, GPUS = 500, 8
EACH = {"cpu": 8000, GPU: 1}
WHOLE = {"cpu": 64_000, GPU: GPUS}


def full(engine: Engine) -> list[Pod]:
    """The cluster as the borrower left it."""
    for number in range(NODES):
        engine.handle(messages.NodeSeen(gpu_node(f"node-{number:03}", GPUS)), 0.0)
    engine.handle(messages.QueueSeen(make_queue("owner", deserved=((GPU, NODES * GPUS),))), 0.0)
    engine.handle(messages.QueueSeen(make_queue("borrower")), 0.0)
    engine.handle(messages.ActivityChanged(True), 0.0)
    running = []
    for number in range(NODES * GPUS):
        pod = make_pod(f"victim-{number}", EACH, queue=QueueName("borrower"))
        running.append(bound(pod, f"node-{number // GPUS:03}", float(number % 97)))
        engine.handle(messages.PodSeen(running[-1]), 0.0)
    engine.handle(messages.Tick(), 0.0)
    return running


def gangs_of(gangs: int, size: int) -> Iterator[Pod]:
    """The pods of the owner's gangs."""
    for gang in range(gangs):
        for member in range(size):
            pod = make_pod(f"g{gang}-{member}", WHOLE, group=f"g{gang}", queue=QueueName("owner"), gates=(QUEUE_GATE,))
            yield replace(pod, declared=Declared(size))


def measured(engine: Engine, now: float) -> tuple[float, list[messages.Effect]]:
    """CPU seconds of one cycle, and what it decides."""
    began = time.process_time()
    effects = engine.handle(messages.Tick(), now)
    return time.process_time() - began, effects


def main() -> None:
    """Print the figures."""
    for gangs, size in ((1, NODES), (50, 10)):
        engine = Engine(10**6)
        running = {pod.uid: pod for pod in full(engine)}
        for pod in gangs_of(gangs, size):
            engine.handle(messages.PodSeen(pod), 1000.0)
        decided, effects = measured(engine, 1000.0)
        evicted = [effect.uid for effect in effects if isinstance(effect, messages.Evict)]
        waited = slowest = 0.0
        for number in range(0, len(evicted), 100):  # they leave by and by
            for uid in evicted[number : number + 100]:
                engine.handle(messages.PodSeen(replace(running[uid], terminating=True)), 1001.0)
            seconds, _ = measured(engine, 1001.0)
            waited, slowest = waited + seconds, max(slowest, seconds)
        ungated = 0
        for number in range(0, len(evicted), 100):
            for uid in evicted[number : number + 100]:
                engine.handle(messages.PodGone(uid), 1030.0)
            seconds, effects = measured(engine, 1030.0)
            ungated += sum(isinstance(effect, messages.Ungate) for effect in effects)
            waited, slowest = waited + seconds, max(slowest, seconds)
        print(
            f"{gangs} gangs of {size} x {GPUS} GPUs, {NODES * GPUS} running pods: decided in {decided:.2f} s CPU, "
            f"{len(evicted)} evictions; while they leave {waited:.2f} s in all, the longest cycle {slowest:.3f} s; "
            f"{ungated} of {gangs * size} led"
        )


if __name__ == "__main__":
    main()
