"""Pods of the default profile in Muster's own kube-scheduler process, with and without gated pods of ours waiting.

Takes the arguments of the command; gives the result `bystanders`. Must not assert speed.
"""

from __future__ import annotations

import argparse
import contextlib
from typing import Any

from e2e.bench import crowd, measure, plane, progress, ratios, report, shapes, systems, tables
from e2e.cluster import local, manifests

SHAPE = shapes.Shape("512x1", 512, 1, gang=False)
PROFILE = "default-scheduler"
#: how many wait -> the ratio to none waiting that is wanted at most
WANTED = {2000: 1.15}
Step = tuple[str, int]


def steps(told: argparse.Namespace) -> list[Step]:
    """Every run to come, in order: part, pods that wait."""
    return ratios.in_turn([("bystanders", number) for number in (0, *WANTED)], told.runs)


def run(told: argparse.Namespace, done: progress.Progress) -> dict[str, Any]:
    """All runs on one control plane."""
    runs: dict[int, list[measure.Run]] = {number: [] for number in (0, *WANTED)}
    nodes = min(told.nodes)
    with plane.running(nodes) as cluster:
        rendered = manifests.Manifests.render(cluster)
        rendered.install(cluster)
        for number, step in enumerate(steps(told)):
            one = _one(cluster, rendered, step[1], number)
            runs[step[1]].append(one)
            done.done(step, f"512 bystanders, {step[1]} pods wait: {one.total_s:.2f} s")
    rows = [{"waiting": number} | report.figures(some) | {"cpu_s": report.cpu(some)} for number, some in runs.items()]
    to_none = [
        {"waiting": number, "wanted": wanted} | report.paired(runs[number], runs[0])
        for number, wanted in WANTED.items()
    ]
    return {"bystanders": {"nodes": nodes, "pods": SHAPE.pods, "rows": rows, "ratios": to_none}}


def table(found: dict[str, Any]) -> str:
    """For people."""
    part = found["bystanders"]
    labelled = [(f"{row['waiting']:6} waiting", row) for row in part["rows"]]
    to_none = [
        f"{row['waiting']:6} waiting / none: {ratios.Ratio(**row['total'])}, at most {row['wanted']} wanted"
        for row in part["ratios"]
    ]
    title = f"{part['pods']} pods of the default profile in Muster's kube-scheduler process, {part['nodes']} nodes"
    return tables.part(title, labelled, to_none)


def _one(cluster: local.LocalCluster, rendered: manifests.Manifests, number: int, index: int) -> measure.Run:
    with contextlib.ExitStack() as stack:
        some = crowd.Crowd(1, number)
        stack.enter_context(crowd.present(cluster.kube, some))
        replica = stack.enter_context(systems.replica(cluster, rendered, (PROFILE,)))
        crowd.wait_known(cluster.kube, replica, some)
        return measure.run(cluster.kube, SHAPE, shapes.PLAIN, f"b{index}-", systems.watched(cluster, replica))
