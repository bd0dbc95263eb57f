"""How fast the job controller makes pods, against a client that creates plain pods and does nothing else; its memory.

Takes the arguments of the command; gives the result `jobs`: pods a second of both on the same control plane, half of
the plain ones before the Jobs and half after, and high-water marks of the controller with many Jobs. Must not assert
anything.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

from e2e import kube, objects, volcano_jobs
from e2e.bench import observe, plane, progress, shapes
from e2e.cluster import jobs, local, manifests
from e2e.waiting import wait_for_async

JOBS, SIZE = 1000, 8
#: for memory: these are added, of one pod each
MORE_JOBS = 9000
WANTED_SHARE, WANTED_MIB = 0.5, 300
CONNECTIONS = 64
#: nobody schedules these pods: the nodes are there for nothing
NODES = 1
STEPS = ("plain pods", "jobs", "memory")
CREATED = "muster_jobs_pods_created_total"
PLAIN = "bench-plain"


def steps(told: argparse.Namespace) -> list[tuple[str]]:
    """One run, whatever is told."""
    return [(step,) for step in (*STEPS, STEPS[0])]


def run(told: argparse.Namespace, done: progress.Progress) -> dict[str, Any]:
    """The one run on a control plane of its own."""
    with plane.running(NODES) as cluster:
        manifests.Manifests.render(cluster).install(cluster)
        for one in jobs.definitions():
            cluster.kube.create(one)
        jobs.install(cluster)
        with jobs.Controller(cluster) as controller:
            controller.wait_active()
            return {"jobs": asyncio.run(_measure(cluster, controller, done))}


def table(found: dict[str, Any]) -> str:
    """For people."""
    part = found["jobs"]
    return "\n".join(
        [
            f"{part['jobs']} Jobs of {part['size']} pods submitted at once: {part['pods_a_second']:.0f} pods a second, "
            f"{part['share']:.2f} of the {part['plain_a_second']:.0f} plain pods of one client "
            f"(at least {part['wanted_share']} wanted)",
            f"memory of the controller with {part['all_jobs']} Jobs, {part['all_pods']} pods: "
            f"{part['there_mib']:.0f} MiB, started anew {part['started_anew_mib']:.0f} MiB "
            f"(at most {part['wanted_mib']} wanted)",
        ]
    )


async def _measure(cluster: local.LocalCluster, controller: jobs.Controller, done: progress.Progress) -> dict[str, Any]:
    async with kube.AsyncKube(cluster.kube, CONNECTIONS) as api:
        await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLAIN}})
        took = await _plain(api, "before")
        done.done((STEPS[0],), f"half of the plain pods in {took:.0f} s")
        rate = await _submit(api, controller, "j", JOBS, SIZE)
        done.done((STEPS[1],), f"{rate:.0f} pods a second")
        plain = JOBS * SIZE / (took + await _plain(api, "after"))
        done.done((STEPS[0],), f"{plain:.0f} plain pods a second")
        await _submit(api, controller, "m", MORE_JOBS, 1)
        there = _mib(controller)
        controller.process.restart()
        controller.wait_ready()
        controller.wait_active()
        await wait_for_async(lambda: controller.metric("muster_jobs_queued"), 600, "all is looked at", until=_nothing)
        anew = _mib(controller)
        done.done((STEPS[2],), f"{there:.0f} MiB, started anew {anew:.0f} MiB")
    return {
        "jobs": JOBS,
        "size": SIZE,
        "pods_a_second": round(rate, 1),
        "plain_a_second": round(plain, 1),
        "share": round(rate / plain, 3),
        "wanted_share": WANTED_SHARE,
        "all_jobs": JOBS + MORE_JOBS,
        "all_pods": JOBS * SIZE + MORE_JOBS,
        "there_mib": round(there, 1),
        "started_anew_mib": round(anew, 1),
        "wanted_mib": WANTED_MIB,
    }


async def _plain(api: kube.AsyncKube, prefix: str) -> float:
    """Seconds in which one client creates half as many pods, with as many on their way as it can have."""
    pods = [objects.pod(f"{prefix}-{n}", PLAIN, 1, scheduler="somebody-else") for n in range(JOBS * SIZE // 2)]
    started = time.monotonic()
    await api.create_all(pods)
    return time.monotonic() - started


async def _submit(api: kube.AsyncKube, controller: jobs.Controller, prefix: str, count: int, size: int) -> float:
    """Pods a second, from the first Job's creation to the last pod's."""
    before = controller.metric(CREATED)
    made = [_job(f"{prefix}{number}", size) for number in range(count)]
    started = time.monotonic()
    submitted = asyncio.create_task(api.create_all(made))
    wanted = before + count * size

    async def created() -> float:
        return await asyncio.to_thread(controller.metric, CREATED)

    await wait_for_async(created, 1800, f"{count * size} pods are created", until=lambda number: number >= wanted)
    took = time.monotonic() - started
    await submitted
    await wait_for_async(lambda: controller.metric("muster_jobs_queued"), 600, "all is at rest", until=_nothing)
    return count * size / took


def _job(name: str, size: int) -> objects.Object:
    tasks = [volcano_jobs.task("worker", size, 1)]
    meta = {"name": name, "namespace": shapes.NAMESPACE}
    spec = {"schedulerName": "muster", "minAvailable": size, "tasks": tasks}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


def _mib(controller: jobs.Controller) -> float:
    return observe.Watched({"jobs": controller.process.pid}).memory()["jobs"]


def _nothing(queued: float) -> bool:
    return not queued
