"""Filter calls while cycles run: `python -m tests.perf.bench_cycle_filter [--waiting 10000] [--calls 1000]`.

The extender's own handlers and owner keep so many waiting groups on 5000 nodes in 200 queues. Whenever a cycle is over
a node goes and comes back, so that all that waits is looked at again. Meanwhile filter calls for waiting pods, which
are answered from what is known, are made one after the other, as kube-scheduler does. Prints how long cycles and calls
took; never asserts. Caller and server share one thread, and its CPU time is the clock, so that what else runs on the
machine does not count: a call waits for what the event loop does before it is read and answered, and for nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable

import orjson

from extender.core import messages
from extender.core.activity import Activity, Lease
from extender.core.engine import Engine
from extender.core.ids import NodeName
from extender.core.makers import Makers
from extender.runtime import owner as owner_module
from extender.runtime import process
from extender.runtime.leadership import Leadership
from extender.runtime.owner import TURNS, Owner
from extender.settings import Listen
from extender.telemetry.metrics import ExtenderMetrics
from extender.web import serve
from extender.web.verbs import BODY_LIMIT, Verbs
from tests.perf import backlogs

WORLDS: dict[str, Callable[[int, int | None], Engine]] = {
    "equal pods": backlogs.equal_pods,
    "equal gangs of 4": backlogs.equal_gangs,
    "realistic mix": backlogs.realistic,
    "no two alike": backlogs.different,
}
NAMES = [NodeName(f"node-{number:05}") for number in range(100)]


class Observer:
    """Keeps how long cycles took that looked at all groups, and begins the next one."""

    def __init__(self) -> None:
        self.cycles: list[float] = []
        self.ended = asyncio.Event()

    def cycle(self, seconds: float) -> None:
        self.cycles.append(seconds * 1e3)
        self.ended.set()


async def bench(world: str, waiting: int, calls: int) -> None:
    """One world."""
    owner_module.GATHERING = 0.0  # one cycle after the other; time in which nothing runs is not on this clock
    engine, observer = WORLDS[world](waiting, TURNS), Observer()
    owner = Owner(engine, lambda effect, cause: None, time.thread_time, process.wall_clock(), observer)
    leadership = Leadership(Activity("host"), _no_lease, time.monotonic, lambda active: None)
    verbs = Verbs(engine, owner, leadership, ExtenderMetrics(), Makers().hear)
    verbs.ready = True
    running = asyncio.create_task(owner.run())
    uids = [uid for uid, pod in engine.world.pods.items() if engine.view.refusal(uid) and pod.waiting][:1000]
    async with serve.serve(serve.application(verbs.routes(), BODY_LIMIT), Listen("127.0.0.1", 0)) as port:
        await observer.ended.wait()
        print(f"{waiting} waiting groups, {world}")
        print(f"  {'filter, no cycle runs':<44} {backlogs.figures(await play(port, uids, calls))}")
        changing = asyncio.create_task(_change(engine, owner, observer))
        print(f"  {'filter while cycles run':<44} {backlogs.figures(await play(port, uids, calls))}")
        while len(observer.cycles) < 10:
            await observer.ended.wait()
            await asyncio.sleep(0)
        changing.cancel()
        print(f"  {'a cycle, all its pieces':<44} {backlogs.figures(observer.cycles)}", flush=True)
    running.cancel()


async def _change(engine: Engine, owner: Owner, observer: Observer) -> None:
    """A full node goes and comes back, as often as there is time to look at what waits."""
    node = engine.world.node(NodeName("node-00000"))
    assert node is not None
    observer.cycles.clear()
    while True:
        observer.ended.clear()
        owner.post(messages.NodeGone(node.name))
        owner.post(messages.NodeSeen(node))
        await observer.ended.wait()


async def _no_lease() -> Lease | None:
    return None


async def play(port: int, uids: list[str], calls: int) -> list[float]:
    """Milliseconds of each call over one kept connection."""
    bodies = [orjson.dumps({"Pod": _pod(uid), "Nodes": None, "NodeNames": NAMES}) for uid in uids]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    taken: list[float] = []
    for number in range(calls):
        body = bodies[number % len(bodies)]
        head = (
            f"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        begun = time.thread_time()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
        taken.append((time.thread_time() - begun) * 1e3)
        await asyncio.sleep(0.001 * (number % 5))
    writer.close()
    return taken


def _pod(uid: str) -> dict[str, object]:
    return {
        "metadata": {"name": uid, "namespace": "team", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"schedulerName": "muster", "containers": [{"name": "main", "image": "example.invalid/eval:1"}]},
        "status": {"phase": "Pending"},
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--only", choices=WORLDS, help="one world")
    told = parser.parse_args()
    print(f"{'milliseconds of CPU: number, p50, p99, worst':<46} {'n':>6} {'p50':>9} {'p99':>9} {'worst':>9}")
    for world in [told.only] if told.only else WORLDS:
        process.run(bench(world, told.waiting, told.calls))


if __name__ == "__main__":
    main()
