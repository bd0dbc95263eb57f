"""How much memory each process takes with many pods of ours bound.

Takes the arguments of the command; gives the result `memory`: high-water marks of processes that were there while the
pods came, and of extender and gate started anew when all were bound. Must not assert anything.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from e2e import kube
from e2e.bench import measure, observe, plane, progress, shapes, systems, tables
from e2e.cluster import local, manifests, muster

#: without GPUs: 500 nodes of 8 have too few
SHAPE = shapes.Shape("50x100", 50, 100, gpus=0)
WANTED_MIB = 300
STEP = ("memory",)


def steps(told: argparse.Namespace) -> list[tuple[str]]:
    """One run, whatever is told: memory differs little from run to run."""
    return [STEP]


def run(told: argparse.Namespace, done: progress.Progress) -> dict[str, Any]:
    """The one run on a control plane of its own."""
    nodes = min(told.nodes)
    with plane.running(nodes) as cluster:
        rendered = manifests.Manifests.render(cluster)
        rendered.install(cluster)
        with systems.replica(cluster, rendered) as replica:
            there, anew = asyncio.run(_measure(cluster, replica))
    done.done(STEP, f"{SHAPE.pods} pods bound: extender {there['extender']:.0f} MiB, gate {there['gate']:.0f} MiB")
    found = {"nodes": nodes, "pods": SHAPE.pods, "shape": SHAPE.name, "wanted_mib": WANTED_MIB}
    return {"memory": found | {"there_mib": _rounded(there), "started_anew_mib": _rounded(anew)}}


def table(found: dict[str, Any]) -> str:
    """For people."""
    part = found["memory"]
    lines = [
        f"high-water mark of memory, MiB, {part['nodes']} nodes and {part['pods']} bound pods of ours; "
        f"extender and gate: at most {part['wanted_mib']} wanted",
        *tables.columns([("while they came", part["there_mib"]), ("started anew", part["started_anew_mib"])], ".0f"),
    ]
    return "\n".join(lines)


async def _measure(cluster: local.LocalCluster, replica: muster.Replica) -> tuple[dict[str, float], dict[str, float]]:
    async with kube.AsyncKube(cluster.kube, measure.CONNECTIONS) as api:
        work = measure.Work.of(SHAPE, shapes.MUSTER, "m-")
        there = (await measure.submit(api, work, systems.watched(cluster, replica))).observed.memory_mib
        anew = await asyncio.to_thread(_restarted, cluster, replica)
        await measure.clean(api, work)
    return there, anew


def _restarted(cluster: local.LocalCluster, replica: muster.Replica) -> dict[str, float]:
    replica.gate.restart()
    replica.extender.restart()
    replica.wait_ready()
    measure.settle(cluster.kube)
    return observe.Watched({"extender": replica.extender.pid, "gate": replica.gate.pid}).memory()


def _rounded(memory: dict[str, float]) -> dict[str, float]:
    return {role: round(mib, 1) for role, mib in memory.items()}
