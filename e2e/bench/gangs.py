"""The main part: gangs with kube-scheduler alone, native gangs and Muster side by side, runs interleaved.

Takes the arguments of the command; gives the results `rows`, `cpu` and `muster`. Must not assert speed.
"""

from __future__ import annotations

import argparse
from typing import Any

from e2e.bench import measure, plane, progress, report, shapes, systems, tables
from e2e.cluster import local, manifests

Step = tuple[str, int, str, str]


def steps(told: argparse.Namespace) -> list[Step]:
    """Every run to come, in order: part, nodes, shape, system."""
    return [step for nodes in told.nodes for step in _steps(told, nodes)]


def run(told: argparse.Namespace, done: progress.Progress) -> dict[str, Any]:
    """All runs, one control plane for each number of nodes."""
    runs: dict[report.Key, list[measure.Run]] = {}
    for nodes in told.nodes:
        with plane.running(nodes) as cluster:
            rendered = manifests.Manifests.render(cluster)
            rendered.install(cluster)
            for number, step in enumerate(_steps(told, nodes)):
                _, _, shape, system = step
                one = _one(cluster, rendered, shape, system, number)
                runs.setdefault((nodes, shape, system), []).append(one)
                done.done(step, f"{nodes} nodes, {shape}, {system}: {one.total_s:.2f} s")
    return {"rows": report.rows(runs), "cpu": report.cpu_rows(runs), "muster": report.muster_rows(runs)}


def table(found: dict[str, Any]) -> str:
    """For people."""
    return "\n\n".join([tables.gangs(found["rows"]), tables.cpu(found["cpu"]), tables.muster(found["muster"])])


def _steps(told: argparse.Namespace, nodes: int) -> list[Step]:
    chosen = told.shapes if nodes == min(told.nodes) else told.shapes[:1]
    return [("gangs", nodes, shape, system) for _ in range(told.runs) for shape in chosen for system in told.systems]


def _one(
    cluster: local.LocalCluster, rendered: manifests.Manifests, shape: str, system: str, number: int
) -> measure.Run:
    with systems.running(cluster, rendered, system) as watched:
        return measure.run(cluster.kube, shapes.BY_NAME[shape], system, f"{system[0]}{number}-", watched)
