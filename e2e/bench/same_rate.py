"""Pods of another scheduler, without anything of Muster's and beside Muster with 200 backlogged queues.

Takes the arguments of the command; gives the result `same_rate`. Two control planes stand side by side, for what was
ever installed leaves traces; one works at a time. Must not assert speed.
"""

from __future__ import annotations

import argparse
import contextlib
from typing import Any

from e2e.bench import crowd, measure, plane, progress, ratios, report, shapes, systems, tables
from e2e.cluster import local, manifests

SHAPE = shapes.Shape("512x1", 512, 1, gang=False)
CROWD = crowd.Crowd(queues=200, pods_each=10)
ABSENT, INSTALLED = "absent", "installed"
Step = tuple[str, str]


def steps(told: argparse.Namespace) -> list[Step]:
    """Every run to come, in order: part, whether Muster is there."""
    return ratios.in_turn([("same-rate", muster) for muster in (ABSENT, INSTALLED)], told.runs)


def run(told: argparse.Namespace, done: progress.Progress) -> dict[str, Any]:
    """All runs on two control planes."""
    runs: dict[str, list[measure.Run]] = {ABSENT: [], INSTALLED: []}
    nodes = min(told.nodes)
    with plane.running(nodes) as bare, plane.running(nodes) as full:
        rendered = manifests.Manifests.render(full)
        rendered.install(full)
        with crowd.present(full.kube, CROWD):
            for number, step in enumerate(steps(told)):
                prefix = f"o{number}-"
                one = _beside(full, rendered, prefix) if step[1] == INSTALLED else _alone(bare, prefix)
                runs[step[1]].append(one)
                done.done(step, f"512 pods of another scheduler, Muster {step[1]}: {one.total_s:.2f} s")
    rows = [{"muster": muster} | report.figures(some) | {"cpu_s": report.cpu(some)} for muster, some in runs.items()]
    found = {"nodes": nodes, "pods": SHAPE.pods, "queues": CROWD.queues, "gated": CROWD.pods, "rows": rows}
    return {"same_rate": found | {"ratios": report.paired(runs[INSTALLED], runs[ABSENT])}}


def table(found: dict[str, Any]) -> str:
    """For people."""
    part = found["same_rate"]
    title = (
        f"{part['pods']} pods of another scheduler, {part['nodes']} nodes; where Muster is installed, "
        f"{part['gated']} gated pods in {part['queues']} queues"
    )
    labelled = [(f"Muster {row['muster']}", row) for row in part["rows"]]
    to_absent = [
        f"installed / absent, {what}: {ratios.Ratio(**part['ratios'][key])}"
        for key, what in (
            ("create", "creation time"),
            ("total", "first create to last bind"),
            ("cpu", "CPU seconds, Muster's own included"),
        )
    ]
    return tables.part(title, labelled, to_absent)


def _alone(cluster: local.LocalCluster, prefix: str) -> measure.Run:
    with systems.scheduler(cluster) as theirs:
        return measure.run(cluster.kube, SHAPE, shapes.PLAIN, prefix, systems.watched(cluster, theirs))


def _beside(cluster: local.LocalCluster, rendered: manifests.Manifests, prefix: str) -> measure.Run:
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(systems.replica(cluster, rendered))
        theirs = stack.enter_context(systems.scheduler(cluster))
        crowd.wait_known(cluster.kube, ours, CROWD)
        return measure.run(cluster.kube, SHAPE, shapes.PLAIN, prefix, systems.watched(cluster, theirs, ours))
