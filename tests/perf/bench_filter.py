"""What a filter call costs: `python -m tests.perf.bench_filter [--names 500] [--calls 5000]`.

Plays filter calls for the members of a planned gang, one after the other as kube-scheduler does, to a server
process with the extender's own handlers; prints the server's CPU time a call and the latencies that the
client saw. Speed is printed, never asserted; run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import multiprocessing
import multiprocessing.connection
import statistics
import time

import orjson

from extender.core import messages
from extender.core.activity import Activity, Lease
from extender.core.engine import Engine
from extender.core.ids import GroupKey, NodeName, Source
from extender.core.makers import Makers
from extender.core.model import Group
from extender.runtime import process
from extender.runtime.leadership import Leadership
from extender.runtime.owner import Owner
from extender.settings import Listen
from extender.telemetry.metrics import ExtenderMetrics
from extender.web import serve
from extender.web.verbs import BODY_LIMIT, Verbs
from extender.wire import objects
from tests.builders import gpu_node

GROUP = GroupKey(Source.MUSTER, "bench", "gang")


def pod(number: int) -> dict[str, object]:
    """A member as kube-scheduler sends it: about 4 KB with its managed fields and environment."""
    env = [{"name": f"VARIABLE_{n}", "value": "x" * 40} for n in range(30)]
    container = {
        "name": "main",
        "image": "example.invalid/train:1",
        "env": env,
        "resources": {
            "requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"},
            "limits": {"nvidia.com/gpu": "1"},
        },
    }
    return {
        "metadata": {
            "name": f"gang-{number}",
            "namespace": "bench",
            "uid": f"uid-{number}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"muster.dev/pod-group": "gang", "muster.dev/queue": "default"},
        },
        "spec": {"schedulerName": "muster", "containers": [container]},
        "status": {"phase": "Pending"},
    }


def serve_in_process(pipe: multiprocessing.connection.Connection, nodes: int, members: int) -> None:
    """The server: an engine with so many nodes and a planned gang behind the extender's handlers."""
    process.run(_serve(pipe, nodes, members))


async def _serve(pipe: multiprocessing.connection.Connection, nodes: int, members: int) -> None:
    engine, clock = Engine(10**6), process.wall_clock()
    metrics = ExtenderMetrics()
    owner = Owner(engine, lambda effect, cause: None, time.perf_counter, clock, metrics)
    leadership = Leadership(Activity("host"), _no_lease, time.monotonic, lambda active: None)
    verbs = Verbs(engine, owner, leadership, metrics, Makers().hear)
    verbs.ready = True
    for number in range(nodes):
        owner.post(messages.NodeSeen(gpu_node(f"node-{number:05}")))
    owner.post(messages.ActivityChanged(True))
    owner.post(messages.GroupSeen(Group(GROUP, "uid", min_member=members)))
    for number in range(members):
        owner.post(messages.PodSeen(objects.decode_pod(pod(number))))
    running = asyncio.create_task(owner.run())
    await owner.ask(messages.Tick())
    async with serve.serve(serve.application(verbs.routes(), BODY_LIMIT), Listen("127.0.0.1", 0)) as port:
        pipe.send(port)
        before = time.process_time()
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        pipe.send(time.process_time() - before)
    running.cancel()


async def _no_lease() -> Lease | None:
    return None


def play(port: int, names: list[NodeName], calls: int, members: int) -> list[float]:
    """Seconds of each call over one kept connection."""
    bodies = [orjson.dumps({"Pod": pod(n), "Nodes": None, "NodeNames": names}) for n in range(min(calls, members))]
    connection = http.client.HTTPConnection("127.0.0.1", port)
    taken = []
    for number in range(calls):
        begun = time.perf_counter()
        connection.request("POST", "/filter", bodies[number % len(bodies)], {"Content-Type": "application/json"})
        answer = orjson.loads(connection.getresponse().read())
        taken.append(time.perf_counter() - begun)
        if len(answer["NodeNames"] or ()) != 1:
            raise SystemExit(f"not one node: {answer}")
    return taken


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=500)
    parser.add_argument("--calls", type=int, default=5000)
    told = parser.parse_args()
    members = min(1024, told.names * 8)
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve_in_process, args=(theirs, told.names, members))
    server.start()
    names = [NodeName(f"node-{number:05}") for number in range(told.names)]
    taken = play(ours.recv(), names, told.calls, members)
    ours.send("done")
    cpu = ours.recv() / told.calls
    server.join()
    cuts = statistics.quantiles(taken, n=1000)
    print(
        f"{told.names} names, {told.calls} calls: {cpu * 1e3:.3f} ms CPU of the server a call; latency p50 "
        f"{cuts[499] * 1e3:.2f} ms, p99 {cuts[989] * 1e3:.2f} ms, p99.9 {cuts[998] * 1e3:.2f} ms"
    )


if __name__ == "__main__":
    main()
