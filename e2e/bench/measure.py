"""One run: create a shape's objects, watch the bindings, count the writes.

Takes the cluster and a shape; gives times in seconds and API writes a pod. Must not start or choose systems.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time
from typing import Any

from e2e import kube, waiting
from e2e.bench import shapes

LIMIT_SECONDS = 300
REST_SECONDS = 1.0
CONNECTIONS = 64
_SAMPLE = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITES = ("POST", "PUT", "PATCH", "DELETE", "APPLY")
#: writes that do not depend on the work: leader election, and questions put by POST
_APART = {"leases", "tokenreviews", "subjectaccessreviews", "selfsubjectreviews"}


@dataclasses.dataclass(frozen=True)
class Run:
    """Seconds: first create to last bind, first to last create, last create to last bind."""

    total_s: float
    create_s: float
    bind_s: float
    writes_per_pod: float
    overcommitted: int


async def run(api: kube.AsyncKube, shape: shapes.Shape, system: str, prefix: str) -> Run:
    """Submit and wait until every pod is bound; everything is removed again."""
    groups = shapes.group_objects(shape, system, prefix)
    pods = list(shapes.pod_objects(shape, system, prefix))
    if not shape.groups_last:
        await api.create_all(groups)
    before = _writes(api.kube)
    position = (await api.list("pods", shapes.NAMESPACE))["metadata"]["resourceVersion"]
    watch = asyncio.create_task(_bindings(api, position, len(pods)))
    try:
        started = time.monotonic()
        await api.create_all(pods)
        if shape.groups_last:
            await api.create_all(groups)
        created = time.monotonic()
        async with asyncio.timeout(LIMIT_SECONDS):
            bound = await watch
    finally:
        watch.cancel()
    ended = max(at for at, _ in bound.values())
    await asyncio.to_thread(_settle, api.kube)
    own = len(pods) + (len(groups) if shape.groups_last else 0)
    writes = (_writes(api.kube) - before - own) / len(pods)
    await _clean(api, pods, groups)
    return Run(ended - started, created - started, max(0.0, ended - created), writes, _overcommitted(pods, bound))


async def _bindings(api: kube.AsyncKube, position: str, wanted: int) -> dict[str, tuple[float, str]]:
    """Pod name -> (when its binding was seen, node), until all are bound."""
    bound: dict[str, tuple[float, str]] = {}
    async for event in api.watch("pods", shapes.NAMESPACE, since=position):
        pod = event["object"]
        if pod["spec"].get("nodeName"):
            bound.setdefault(pod["metadata"]["name"], (time.monotonic(), pod["spec"]["nodeName"]))
        if len(bound) >= wanted:
            break
    return bound


def _writes(api: kube.Kube) -> int:
    total = 0.0
    for labels, value in _SAMPLE.findall(api.text("GET", "/metrics")):
        label = dict(_LABEL.findall(labels))
        if label["verb"] in _WRITES and label["resource"] not in _APART:
            total += float(value)
    return int(total)


def _settle(api: kube.Kube) -> None:
    """Wait until the writes that follow the last binding (events, status) have come to rest for a second."""
    last, since = _writes(api), time.monotonic()

    def at_rest() -> bool:
        nonlocal last, since
        now = _writes(api)
        if now != last:
            last, since = now, time.monotonic()
        return time.monotonic() - since >= REST_SECONDS

    waiting.wait_for(at_rest, 60, "the writes come to rest")


def _overcommitted(pods: list[dict[str, Any]], bound: dict[str, tuple[float, str]]) -> int:
    gpus: dict[str, int] = {}
    for pod in pods:
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        node = bound[pod["metadata"]["name"]][1]
        gpus[node] = gpus.get(node, 0) + int(limits.get("nvidia.com/gpu", 0))
    return sum(1 for used in gpus.values() if used > 8)


async def _clean(api: kube.AsyncKube, pods: list[dict[str, Any]], groups: list[dict[str, Any]]) -> None:
    await asyncio.gather(*(api.delete("pods", pod["metadata"]["name"], shapes.NAMESPACE, grace=0) for pod in pods))
    for group in groups:
        resource = f"podgroups.{group['apiVersion'].partition('/')[0]}"
        name = group["metadata"]["name"]
        # nobody runs here who would remove the finalizer of native groups
        await api.patch(resource, name, {"metadata": {"finalizers": None}}, shapes.NAMESPACE)
        await api.delete(resource, name, shapes.NAMESPACE)
    await asyncio.to_thread(
        waiting.wait_for,
        lambda: api.kube.list("pods", shapes.NAMESPACE),
        60,
        "pods are gone",
        until=lambda left: not left,
    )
