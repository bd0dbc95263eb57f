"""Gangs whose queue deserves a cluster that is full of another queue's single pods: from submission to the last bind.

Takes the arguments of the command; gives the result `reclaim`. Must not assert speed.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from typing import Any

from e2e import kube, objects
from e2e.bench import measure, observe, plane, progress, ratios, report, shapes, systems, tables
from e2e.cluster import local, manifests

NODE_GPUS = 8
OWED, BORROWER = "owed", "borrower"
#: what each gang of whole nodes is made of, in parts of the cluster: (gangs, seconds that are wanted at most)
WANTED = {1: 40, 50: 15}
Step = tuple[str, int]


def steps(told: argparse.Namespace) -> list[Step]:
    """Every run to come, in order: part, into how many gangs the cluster is divided."""
    return ratios.in_turn([("reclaim", gangs) for gangs in WANTED], told.runs)


def run(told: argparse.Namespace, done: progress.Progress) -> dict[str, Any]:
    """All runs on one control plane."""
    runs: dict[int, list[measure.Run]] = {gangs: [] for gangs in WANTED}
    nodes = min(told.nodes)
    with plane.running(nodes) as cluster:
        rendered = manifests.Manifests.render(cluster)
        rendered.install(cluster)
        for queue, deserved in ((OWED, nodes * NODE_GPUS), (BORROWER, 0)):
            cluster.kube.create(objects.queue(queue, deserved={objects.GPU: deserved}))
        for number, step in enumerate(steps(told)):
            shape = _shape(nodes, step[1])
            one = _one(cluster, rendered, nodes, shape, number)
            runs[step[1]].append(one)
            done.done(step, f"reclaim for {shape.name}: {one.total_s:.2f} s")
    rows = [
        {"shape": _shape(nodes, gangs).name, "wanted_s": WANTED[gangs]}
        | report.figures(some)
        | {"writes_per_pod": report.writes(some), "cpu_s": report.cpu(some)}
        for gangs, some in runs.items()
    ]
    return {"reclaim": {"nodes": nodes, "victims": nodes * NODE_GPUS, "rows": rows}}


def table(found: dict[str, Any]) -> str:
    """For people."""
    part = found["reclaim"]
    title = (
        f"gangs of whole nodes, {part['nodes']} nodes of {NODE_GPUS} GPUs, full of {part['victims']} single pods of a "
        "queue that deserves nothing"
    )
    labelled = [(row["shape"], row) for row in part["rows"]]
    told = [f"{row['shape']}: at most {row['wanted_s']} s and the grace of the victims wanted" for row in part["rows"]]
    return tables.part(title, labelled, told)


def _shape(nodes: int, gangs: int) -> shapes.Shape:
    size = max(1, nodes // gangs)
    return shapes.Shape(f"{gangs}x{size}x{NODE_GPUS}", gangs, size, NODE_GPUS, queue=OWED)


def _one(
    cluster: local.LocalCluster, rendered: manifests.Manifests, nodes: int, shape: shapes.Shape, number: int
) -> measure.Run:
    with systems.replica(cluster, rendered) as replica:
        watched = systems.watched(cluster, replica)
        return asyncio.run(_reclaim(cluster.kube, nodes, shape, number, watched))


async def _reclaim(
    api: kube.Kube, nodes: int, shape: shapes.Shape, number: int, watched: observe.Watched
) -> measure.Run:
    async with kube.AsyncKube(api, measure.CONNECTIONS) as many:
        full = measure.Work([], list(_victims(nodes * NODE_GPUS, f"v{number}-")), groups_last=False)
        await measure.submit(many, full, watched)
        work = measure.Work.of(shape, shapes.MUSTER, f"r{number}-")
        done = await measure.submit(many, work, watched)
        await measure.clean(many, measure.Work(work.groups, [*work.pods, *full.pods], groups_last=False))
        return done


def _victims(number: int, prefix: str) -> Iterator[shapes.Object]:
    """Pods that somebody would replace, though nobody runs here who does."""
    name = f"{prefix}set"  # of a kind whose pods stand alone: a Job that is not there would make them wait
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "uid": f"{prefix}uid"}}
    for index in range(number):
        yield objects.pod(f"{prefix}{index}", shapes.NAMESPACE, 1, queue=BORROWER, owner=owner)
