"""What a rehearsal costs: `python -m tests.perf.bench_rehearsal [--nodes 1000]`.

A cluster of nodes of 8 GPUs full of single pods in two queues, with gangs that wait; a node is drained, and one queue
gets what it deserves. Prints for how long deciding stands still (the process is copied), and CPU time and memory of the
copy; never asserts.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

from extender.core import messages
from extender.core.engine import Engine
from extender.core.ids import NodeName
from extender.core.model import Owner
from extender.core.queue_rehearsal import rehearse
from extender.core.rehearsal import drain
from extender.runtime.aside import Aside
from tests.builders import GPU, bound, gpu_node, make_group, make_pod, make_queue

JOB = Owner("Job", "job", "uid")


def cluster(nodes: int) -> Engine:
    """Full, with a tenth of its GPUs asked for besides."""
    engine = Engine(10**6)
    for number in range(nodes):
        engine.handle(messages.NodeSeen(gpu_node(f"n{number:05}", 8)), 0.0)
    for name in ("a", "b"):
        engine.handle(messages.QueueSeen(make_queue(name)), 0.0)
    engine.handle(messages.ActivityChanged(True), 0.0)
    for number in range(nodes * 8):
        pod = make_pod(f"r{number}", {GPU: 1}, queue="a", owner=JOB)
        engine.handle(messages.PodSeen(bound(pod, f"n{number // 8:05}")), 0.0)
    for number in range(nodes // 10):
        engine.handle(messages.GroupSeen(make_group(f"g{number}", 8)), 0.0)
    for number in range(nodes * 8 // 10):
        pod = make_pod(f"w{number}", {GPU: 1}, group=f"g{number // 8}", queue="b", owner=JOB)
        engine.handle(messages.PodSeen(pod), 0.0)
    for _ in range(3):
        engine.handle(messages.Tick(), 1.0)
    return engine


def measure(name: str, make: Callable[[], object]) -> None:
    """One rehearsal."""

    def told() -> bytes:
        before = resource.getrusage(resource.RUSAGE_SELF)
        made = make()
        after = resource.getrusage(resource.RUSAGE_SELF)
        faults = (after.ru_minflt - before.ru_minflt) * resource.getpagesize() / 2**20
        cost = f"{after.ru_utime - before.ru_utime:.2f} s of CPU, {faults:.0f} MiB of memory"
        return f"{cost}; {len(str(made)) >> 10} KiB told".encode()

    began = time.perf_counter()
    copy = Aside(told)
    pause = (time.perf_counter() - began) * 1e3
    print(f"{name:<24} stands still for {pause:.1f} ms; {copy.result().decode()}", flush=True)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    told = parser.parse_args()
    engine = cluster(told.nodes)
    measure("a node is drained", lambda: drain(engine, NodeName("n00000"), 2.0))
    some = make_queue("b", deserved=((GPU, told.nodes * 8 // 20),))
    measure("a queue deserves more", lambda: rehearse(engine, [some], 2.0))


if __name__ == "__main__":
    main()
