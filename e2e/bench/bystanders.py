"""Pods of the default profile while pods of ours wait: bound by Muster's own kube-scheduler process, and by another.

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
NONE, GATED, STRAYS = crowd.Crowd(1, 0), crowd.Crowd(1, 10_000), crowd.Crowd(1, 500, gated=False)
#: whose kube-scheduler process binds the bystanders
OURS, THEIRS = "ours", "another"
#: the ratio to none waiting that is wanted at most
WANTED = {(OURS, GATED): 1.15, (THEIRS, GATED): 1.10, (OURS, STRAYS): 2.5, (THEIRS, STRAYS): 1.25}
Step = tuple[str, crowd.Crowd]
Runs = dict[tuple[str, crowd.Crowd], list[measure.Run]]


def steps(told: argparse.Namespace) -> list[Step]:
    """Every crowd to come, in order: part, who waits; each is there for a run of both processes."""
    return ratios.in_turn([("bystanders", some) for some in (NONE, GATED, STRAYS)], told.runs)


def run(told: argparse.Namespace, done: progress.Progress) -> dict[str, Any]:
    """All runs on one control plane."""
    runs: Runs = {(process, some): [] for process in (OURS, THEIRS) for some in (NONE, GATED, STRAYS)}
    nodes = min(told.nodes)
    with plane.running(nodes) as cluster:
        rendered = manifests.Manifests.render(cluster)
        rendered.install(cluster)
        for number, step in enumerate(steps(told)):
            some = step[1]
            with crowd.present(cluster.kube, some):
                for process in (OURS, THEIRS):
                    runs[process, some].append(_one(cluster, rendered, process, some, number))
            told_of = ", ".join(f"{process} {runs[process, some][-1].total_s:.2f} s" for process in (OURS, THEIRS))
            done.done(step, f"512 bystanders, {some}: {told_of}")
    rows = [_key(*key) | report.figures(some) | {"cpu_s": report.cpu(some)} for key, some in runs.items()]
    to_none = [
        _key(*key) | {"wanted": wanted} | report.paired(runs[key], runs[key[0], NONE]) for key, wanted in WANTED.items()
    ]
    return {"bystanders": {"nodes": nodes, "pods": SHAPE.pods, "rows": rows, "ratios": to_none}}


def table(found: dict[str, Any]) -> str:
    """For people."""
    part = found["bystanders"]
    labelled = [(_label(row), row) for row in part["rows"]]
    to_none = [
        f"{_label(row)} / none: {ratios.Ratio(**row['total'])}, at most {row['wanted']} wanted"
        for row in part["ratios"]
    ]
    title = f"{part['pods']} pods of the default profile, beside pods of Muster that wait, {part['nodes']} nodes"
    return tables.part(title, labelled, to_none)


def _key(process: str, some: crowd.Crowd) -> dict[str, Any]:
    return {"process": process, "waiting": some.pods, "gated": some.gated}


def _label(row: dict[str, Any]) -> str:
    some = crowd.Crowd(1, row["waiting"], row["gated"])
    return f"{'own' if row['process'] == OURS else 'other'} process, {some}"


def _one(
    cluster: local.LocalCluster, rendered: manifests.Manifests, process: str, some: crowd.Crowd, number: int
) -> measure.Run:
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(systems.replica(cluster, rendered, (PROFILE,) if process == OURS else ()))
        at_work = [ours] if process == OURS else [stack.enter_context(systems.scheduler(cluster)), ours]
        crowd.wait_known(cluster.kube, ours, some)
        watched = systems.watched(cluster, *at_work)
        return measure.run(cluster.kube, SHAPE, shapes.PLAIN, f"b{number}-{process}-", watched)
