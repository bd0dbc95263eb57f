"""Gangs that prefer a rack each and fill 500 nodes almost: how many of them got one, by system, runs interleaved.

Takes the arguments of the command; gives the result `topology`. kube-scheduler alone knows neither gangs nor racks. Its
native gangs know a rack that is required, no preferred one: a gang that gets none never starts, and counts as one that
did not get it. That is an alpha feature, on for this part's API server and for that system's scheduler only. Must not
assert anything.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from e2e import kube, objects
from e2e.bench import measure, plane, progress, ratios, shapes, systems
from e2e.cluster import local, manifests

GATE = "--feature-gates=TopologyAwareWorkloadScheduling=true"
NODES = 500
#: all of them together have places with each in one rack, and take 96 % of the GPUs
SHAPES = tuple(
    shapes.Shape(f"{gangs}x{size}x2", gangs, size, gpus=2) for gangs, size in ((8, 64), (20, 32), (40, 16), (32, 4))
)
WISH: dict[str, shapes.Object] = {
    shapes.PLAIN: {},
    shapes.NATIVE: {"schedulingConstraints": {"topology": [{"key": objects.RACK}]}},
    shapes.MUSTER: {"topology": {"preferred": objects.RACK}},
}
#: when nobody was bound for so long, what is left is taken to wait for ever
QUIET_SECONDS = 30.0
Step = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Got:
    """One run: the share of gangs that are whole, and in one rack; racks for each whole gang; first create to last
    bind."""

    whole: float
    one_rack: float
    racks: float
    total_s: float


@dataclasses.dataclass(frozen=True)
class Gang:
    """A gang's object, where the system knows such, and its pods."""

    group: shapes.Object | None
    pods: list[shapes.Object]

    @property
    def names(self) -> list[str]:
        """Of its pods."""
        return [pod["metadata"]["name"] for pod in self.pods]


def steps(told: argparse.Namespace) -> list[Step]:
    """Every run to come, in order: part, system."""
    return ratios.in_turn([("topology", system) for system in told.systems], told.runs)


def run(told: argparse.Namespace, done: progress.Progress) -> dict[str, Any]:
    """All runs on one control plane."""
    runs: dict[str, list[Got]] = {system: [] for system in told.systems}
    with plane.running(NODES, GATE) as cluster:
        rendered = manifests.Manifests.render(cluster)
        rendered.install(cluster)
        cluster.kube.create(objects.topology("network", [objects.BLOCK, objects.RACK]))
        racks = {one["metadata"]["name"]: one["metadata"]["labels"][objects.RACK] for one in cluster.kube.list("nodes")}
        for number, step in enumerate(steps(told)):
            system = step[1]
            with _running(cluster, rendered, system):
                got = asyncio.run(_one(cluster.kube, system, number // len(told.systems), racks))
            runs[system].append(got)
            done.done(step, f"{system}: {got.one_rack:.1%} of the gangs in one rack, {got.whole:.1%} whole")
    found = {
        "nodes": NODES,
        "racks": len(set(racks.values())),
        "gangs": sum(shape.groups for shape in SHAPES),
        "pods": sum(shape.pods for shape in SHAPES),
        "native": GATE,
    }
    rows = [{"system": system} | _row(some) for system, some in runs.items()]
    return {"topology": found | {"rows": rows}}


def table(found: dict[str, Any]) -> str:
    """For people."""
    part = found["topology"]
    lines = [
        f"{part['gangs']} gangs that prefer a rack ({part['pods']} pods of 2 GPUs), {part['nodes']} nodes of 8 in "
        f"{part['racks']} racks; medians",
        f"{'':15} {'in one rack':>11} {'whole':>7} {'racks each':>10} {'total s':>8}  in one rack, run by run",
    ]
    for row in part["rows"]:
        listed = " ".join(f"{share:.1%}" for share in row["one_rack"])
        figures = f"{_median(row['one_rack']):>11.1%} {_median(row['whole']):>7.1%} {_median(row['racks']):>10.2f}"
        lines.append(f"{row['system']:15} {figures} {_median(row['runs_s']):>8.2f}  {listed}")
    return "\n".join(lines)


def _row(some: Sequence[Got]) -> dict[str, Any]:
    return {
        "one_rack": [round(got.one_rack, 4) for got in some],
        "whole": [round(got.whole, 4) for got in some],
        "racks": [round(got.racks, 3) for got in some],
        "runs_s": [round(got.total_s, 3) for got in some],
    }


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


@contextlib.contextmanager
def _running(cluster: local.LocalCluster, rendered: manifests.Manifests, system: str) -> Iterator[None]:
    if system == shapes.NATIVE:
        with systems.scheduler(cluster, system, GATE):
            yield
    else:
        with systems.running(cluster, rendered, system):
            yield


async def _one(api: kube.Kube, system: str, round_: int, racks: Mapping[str, str]) -> Got:
    async with kube.AsyncKube(api, measure.CONNECTIONS) as many:
        some = list(gangs(system, f"{system[0]}{round_}-"))
        random.Random(round_).shuffle(some)  # one order for all systems of a round
        groups = [gang.group for gang in some if gang.group is not None]
        work = measure.Work(groups, [pod for gang in some for pod in gang.pods], groups_last=False)
        await many.create_all(work.groups)
        started = time.monotonic()
        bound = await _bound(many, work.pods)
        await measure.clean(many, work)
    ended = max((at for at, _ in bound.values()), default=started)
    return judge(some, {name: racks[node] for name, (_, node) in bound.items()}, ended - started)


def gangs(system: str, prefix: str) -> Iterator[Gang]:
    """All gangs, in the dialect of a system; `prefix` begins every name."""
    for number, shape in enumerate(SHAPES):
        groups = shapes.group_objects(shape, system, f"{prefix}{number}-")
        for group in groups:
            group["spec"] |= WISH[system]
        pods = list(shapes.pod_objects(shape, system, f"{prefix}{number}-"))
        for which in range(shape.groups):
            yield Gang(groups[which] if groups else None, pods[which * shape.size : (which + 1) * shape.size])


async def _bound(api: kube.AsyncKube, pods: list[shapes.Object]) -> dict[str, tuple[float, str]]:
    """Create the pods, and follow their bindings until all are bound, or no more are."""
    bound: dict[str, tuple[float, str]] = {}
    position = (await api.list("pods", shapes.NAMESPACE))["metadata"]["resourceVersion"]
    watch = asyncio.create_task(measure.bindings(api, position, {pod["metadata"]["name"] for pod in pods}, bound))
    try:
        await api.create_all(pods)
        before = -1
        while not watch.done() and len(bound) > before:
            before = len(bound)
            await asyncio.wait({watch}, timeout=QUIET_SECONDS)
        if watch.done():
            await watch
    finally:
        watch.cancel()
    return bound


def judge(some: Sequence[Gang], rack_of: Mapping[str, str], total_s: float) -> Got:
    """What these got; `rack_of`: the rack of each pod that is bound."""
    spans = [len({rack_of[name] for name in gang.names}) for gang in some if rack_of.keys() >= set(gang.names)]
    racks = statistics.fmean(spans) if spans else 0.0
    return Got(len(spans) / len(some), spans.count(1) / len(some), racks, total_s)
