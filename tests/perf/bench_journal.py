"""What the decision log costs: `python -m tests.perf.bench_journal [--pods 10000]`.

So many pods, in gangs of 8 and alone, come to 1000 nodes as the watch shows them (JSON that is decoded), are planned,
bound and deleted, without a log and with one, by turns in short steps. Prints the CPU time per event, of the owner's
thread and of the others, and what a new file costs while 10,000 groups wait; never asserts.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from extender.core import messages
from extender.core.engine import Engine
from extender.core.ids import PodUid
from extender.runtime import aside
from extender.runtime import journal as log
from extender.wire import frozen, journal, objects
from tests.builders import GPU, gpu_node
from tests.perf import backlogs

NODES, GANG, BATCH = 1000, 8, 64
RUNS = 6
Handle = Callable[[messages.EngineEvent], list[messages.Effect]]


class Metrics:
    """Keeps what is told."""

    lost = 0

    def decisions_lost(self, number: int) -> None:
        self.lost += number

    def decisions_frozen(self, seconds: float) -> None:
        """Measured apart."""


def _shown(number: int, node: str | None = None) -> bytes:
    gang = number // GANG
    marks = {"muster.dev/pod-group": f"g{gang}"} if gang % 2 else {}
    labels = {"app": "train", "job-name": f"job-{gang}", "controller-uid": f"uid-of-{gang}", **marks}
    told: dict[str, Any] = {
        "metadata": {
            **{"name": f"p{number}", "namespace": "team", "uid": f"uid-{number}", "labels": labels},
            "annotations": {"muster.dev/min-member": str(GANG)} if marks else {},
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"kind": "Job", "name": f"job-{gang}", "uid": f"uid-of-{gang}", "controller": True}],
        },
        "spec": {
            "schedulerName": "muster",
            "containers": [
                {
                    "name": "main",
                    "image": "example.invalid/train:1",
                    "env": [{"name": f"E{n}", "value": "x" * 40} for n in range(12)],
                    "resources": {"requests": {"cpu": "1", "memory": "4Gi", GPU: "1"}, "limits": {GPU: "1"}},
                }
            ],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {"phase": "Running" if node else "Pending"},
    }
    if node:
        told["spec"]["nodeName"] = node
        told["status"]["conditions"] = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}
        ]
    return orjson.dumps(told)


class _World:
    """Everything that happens, and how many events that is."""

    def __init__(self, engine: Engine, handle: Handle) -> None:
        self.count = 0
        self._engine = engine
        self._handle = handle

    def tell(self, event: messages.EngineEvent) -> None:
        """The engine hears of it, and that what it decides is carried out."""
        self.count += 1
        for effect in self._handle(event):
            if not isinstance(effect, messages.StateQueue):
                self.count += 1
                self._handle(messages.EffectDone(effect))

    def play(self, pods: int) -> Iterator[None]:
        """They come, 64 at a time, and go; a step for each 64."""
        self.tell(messages.ActivityChanged(True))
        for number in range(NODES):
            self.tell(messages.NodeSeen(gpu_node(f"n{number:04}", 8)))
        for start in range(0, pods, BATCH):
            self._some(range(start, min(pods, start + BATCH)))
            yield
        for number in range(pods):
            self.tell(messages.PodGone(PodUid(f"uid-{number}")))
            if not number % BATCH:
                yield
        self.tell(messages.Tick())

    def _some(self, some: range) -> None:
        for number in some:
            self.tell(messages.PodSeen(objects.decode_pod(orjson.loads(_BODIES[number]))))
        self.tell(messages.Tick())
        for number in some:
            node = self._engine.view.planned(PodUid(f"uid-{number}"))
            if node is not None:
                told = orjson.loads(_BODIES[number])
                told["spec"]["nodeName"], told["status"] = node, _BOUND
                self.tell(messages.PodSeen(objects.decode_pod(told)))


_DONE = object()
_BODIES: list[bytes] = []
_BOUND = orjson.loads(_shown(0, "n"))["status"]


def _world(kept: log.Journal | None, engine: Engine) -> _World:
    at = 0.0

    def handle(event: messages.EngineEvent) -> list[messages.Effect]:
        nonlocal at
        at += 0.001
        effects = engine.handle(event, at)
        if kept is not None:
            kept.handled(at, event, effects)
        return effects

    return _World(engine, handle)


def _run(pods: int, folder: pathlib.Path) -> tuple[list[float], float, int]:
    """The same in two engines, by turns in short steps, so that both have the same disturbances.

    Seconds of the owner's thread an event without and with a log, those of all threads beside it, and events.
    """
    engines = [Engine(10**6), Engine(10**6)]
    kept = log.Journal(log.Room(folder, 2**30, 2), engines[1], journal.Settings(10**6), Metrics())
    worlds = [_world(None, engines[0]), _world(kept, engines[1])]
    plays, spent = [world.play(pods) for world in worlds], [0.0, 0.0]
    here, everywhere = time.thread_time(), time.process_time()
    for turn in itertools.count():
        for which in (0, 1) if turn % 2 else (1, 0):
            began = time.thread_time()
            done = next(plays[which], _DONE)
            spent[which] += time.thread_time() - began
        if done is _DONE:
            break
    kept.close()
    beside = (time.process_time() - everywhere) - (time.thread_time() - here)
    count = worlds[0].count
    return [seconds / count for seconds in spent], beside / count, count


def _told(parts: list[float]) -> str:
    return f"{statistics.median(parts):+.1f} % ({min(parts):+.1f} to {max(parts):+.1f})"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--waiting", type=int, default=10_000)
    told = parser.parse_args()
    _BODIES.extend(_shown(number) for number in range(told.pods))
    more, beside, without = [], [], []
    size = count = 0
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as folder:
            spent, others, count = _run(told.pods, pathlib.Path(folder))
            size = sum(path.stat().st_size for path in pathlib.Path(folder).iterdir())
        without.append(spent[0] * 1e6)
        more.append(100 * (spent[1] / spent[0] - 1))
        beside.append(100 * others / spent[0])
    print(f"{count} events, {RUNS} runs; {size / count:.0f} bytes on disk an event")
    print(f"  the owner's thread: {statistics.median(without):.1f} us an event, with the log {_told(more)} more")
    print(f"  other threads, with the log: {_told(beside)} of that beside it")
    engine = backlogs.realistic(told.waiting)
    began = time.perf_counter()
    making = aside.Aside(lambda: journal.header(journal.Settings(0), journal.FULL, 0.0, frozen.freeze(engine)))
    pause = time.perf_counter() - began
    size = len(making.result()) / 2**20
    took, pods = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, len(engine.world.pods)
    print(f"the state with {told.waiting} groups waiting, {pods} pods: {pause * 1e3:.1f} ms of standstill,")
    print(f"  {took:.1f} s of CPU beside it, {size:.1f} MiB")


if __name__ == "__main__":
    main()
