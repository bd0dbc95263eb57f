"""How soon a new group has its reason while many others wait: in the live answer, and in its object.

Takes the arguments of the command; gives the result `reasons`, in milliseconds from the API server's answer to the last
pod of a gang of two. The live answer is asked again and again through the API server, so that a question is part of the
time; the object is watched, and says later on purpose: a wait of less than a second is not written. Must not assert
anything.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from typing import Any

from e2e import answers, kube, objects, waiting
from e2e.bench import crowd, measure, plane, progress, shapes, systems
from e2e.cluster import local, manifests, muster

CROWD = crowd.Crowd(200, 50)
SUBMITTED = 50
SIZE = 2
WANTED_MS = 1000
STEP = ("reasons",)
_ANSWER = "/apis/visibility.muster.dev/v1alpha1/namespaces/{}/workloads/muster:{}"


def steps(told: argparse.Namespace) -> list[tuple[str]]:
    """One run, whatever is told."""
    return [STEP]


def run(told: argparse.Namespace, done: progress.Progress) -> dict[str, Any]:
    """The one run on a control plane of its own."""
    nodes = min(told.nodes)
    # live answers are reached by endpoints, which a controller writes
    with plane.running(nodes, controllers=True) as cluster:
        rendered = manifests.Manifests.render(cluster)
        rendered.install(cluster)
        options = muster.ReplicaOptions(qps=systems.QPS, burst=systems.BURST)
        with (
            answers.answering(cluster, rendered, answers.Server(cluster), options) as replica,
            crowd.present(cluster.kube, CROWD),
        ):
            crowd.wait_known(cluster.kube, replica, CROWD)
            found = asyncio.run(_measure(cluster))
    done.done(STEP, f"a reason after {found['answer'][1]} ms in the live answer, {found['object'][1]} ms in the object")
    return {"reasons": {"nodes": nodes, "waiting": CROWD.pods, "wanted_ms": WANTED_MS, **found}}


def table(found: dict[str, Any]) -> str:
    """For people."""
    part = found["reasons"]
    lines = [f"a new gang's reason beside {part['waiting']} waiting groups; ms, least, median and most:"]
    told = {"answer": f"in the live answer (at most {part['wanted_ms']} wanted)", "object": "in its object"}
    lines += [f"  {text:<44} {part[at][0]:>6} {part[at][1]:>6} {part[at][2]:>6}" for at, text in told.items()]
    return "\n".join(lines)


async def _measure(cluster: local.LocalCluster) -> dict[str, list[int]]:
    answered, written = [], []
    async with kube.AsyncKube(cluster.kube, measure.CONNECTIONS) as api:
        for number in range(SUBMITTED):
            name = f"new-{number}"
            queue = CROWD.queue_names()[number * 3]
            await api.create(objects.pod_group("muster", name, shapes.NAMESPACE, SIZE, queue=queue))
            position = (await api.list("podgroups.muster.dev", shapes.NAMESPACE))["metadata"]["resourceVersion"]
            told = asyncio.create_task(_told(api, name, position))
            await api.create_all(objects.gang(name, shapes.NAMESPACE, SIZE, crowd.GPUS))
            created = time.monotonic()
            answered.append(await asyncio.to_thread(_answered, cluster.kube, name) - created)
            async with asyncio.timeout(measure.LIMIT_SECONDS):
                written.append(await told - created)
    return {"answer": _spread(answered), "object": _spread(written)}


def _answered(api: kube.Kube, name: str) -> float:
    path = _ANSWER.format(shapes.NAMESPACE, name)
    waiting.wait_for(lambda: api.request("GET", path).get("status", {}).get("reason"), 60, f"{name} has a reason")
    return time.monotonic()


async def _told(api: kube.AsyncKube, name: str, position: str) -> float:
    async for event in api.watch("podgroups.muster.dev", shapes.NAMESPACE, since=position):
        status = event["object"].get("status", {})
        if event["object"]["metadata"]["name"] == name and status.get("members") and status.get("reason"):
            break
    return time.monotonic()


def _spread(seconds: list[float]) -> list[int]:
    return [round(1000 * found) for found in (min(seconds), statistics.median(seconds), max(seconds))]
