"""One run: create a shape's objects, watch the bindings, count the writes.

Takes the cluster, a shape and the processes at work; gives times in seconds, API writes a pod and what it cost. Must
not start or choose systems.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time
from typing import Any

from e2e import kube, waiting
from e2e.bench import observe, shapes

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
    observed: observe.Observed


@dataclasses.dataclass(frozen=True)
class Work:
    """The objects of one run. `groups_last`: pods are created before their groups."""

    groups: list[dict[str, Any]]
    pods: list[dict[str, Any]]
    groups_last: bool

    @classmethod
    def of(cls, shape: shapes.Shape, system: str, prefix: str) -> Work:
        """A shape in the dialect of a system; `prefix` begins every name."""
        groups = shapes.group_objects(shape, system, prefix)
        return cls(groups, list(shapes.pod_objects(shape, system, prefix)), shape.groups_last)


def run(api: kube.Kube, shape: shapes.Shape, system: str, prefix: str, watched: observe.Watched) -> Run:
    """Submit and wait until every pod is bound; everything is removed again."""

    async def whole() -> Run:
        async with kube.AsyncKube(api, CONNECTIONS) as many:
            work = Work.of(shape, system, prefix)
            done = await submit(many, work, watched)
            await clean(many, work)
            return done

    return asyncio.run(whole())


async def submit(api: kube.AsyncKube, work: Work, watched: observe.Watched) -> Run:
    """Submit and wait until every pod is bound and the writes that follow have come to rest."""
    groups, pods = work.groups, work.pods
    if not work.groups_last:
        await api.create_all(groups)
    before = _writes(api.kube)
    position = (await api.list("pods", shapes.NAMESPACE))["metadata"]["resourceVersion"]
    bound: dict[str, tuple[float, str]] = {}
    watch = asyncio.create_task(bindings(api, position, {pod["metadata"]["name"] for pod in pods}, bound))
    try:
        meter = observe.Meter(watched)
        started = time.monotonic()
        await api.create_all(pods)
        if work.groups_last:
            await api.create_all(groups)
        created = time.monotonic()
        async with asyncio.timeout(LIMIT_SECONDS):
            await watch
        meter.bound()
    finally:
        watch.cancel()
    ended = max(at for at, _ in bound.values())
    await asyncio.to_thread(settle, api.kube)
    own = len(pods) + (len(groups) if work.groups_last else 0)
    return Run(
        total_s=ended - started,
        create_s=created - started,
        bind_s=max(0.0, ended - created),
        writes_per_pod=(_writes(api.kube) - before - own) / len(pods),
        overcommitted=_overcommitted(pods, bound),
        observed=meter.read(),
    )


async def bindings(api: kube.AsyncKube, position: str, wanted: set[str], bound: dict[str, tuple[float, str]]) -> None:
    """Fill in pod name -> (when its binding was seen, node), until all that are wanted are bound."""
    async for event in api.watch("pods", shapes.NAMESPACE, since=position):
        pod = event["object"]
        name = pod["metadata"]["name"]
        if pod["spec"].get("nodeName") and name in wanted:
            bound.setdefault(name, (time.monotonic(), pod["spec"]["nodeName"]))
        if len(bound) >= len(wanted):
            break


def _writes(api: kube.Kube) -> int:
    total = 0.0
    for labels, value in _SAMPLE.findall(api.text("GET", "/metrics")):
        label = dict(_LABEL.findall(labels))
        if label["verb"] in _WRITES and label["resource"] not in _APART:
            total += float(value)
    return int(total)


def settle(api: kube.Kube, limit: float = 60) -> None:
    """Wait until all writes (such as events and status after the last binding) have come to rest for a second."""
    last, since = _writes(api), time.monotonic()

    def at_rest() -> bool:
        nonlocal last, since
        now = _writes(api)
        if now != last:
            last, since = now, time.monotonic()
        return time.monotonic() - since >= REST_SECONDS

    waiting.wait_for(at_rest, limit, "the writes come to rest")


def _overcommitted(pods: list[dict[str, Any]], bound: dict[str, tuple[float, str]]) -> int:
    gpus: dict[str, int] = {}
    for pod in pods:
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        node = bound[pod["metadata"]["name"]][1]
        gpus[node] = gpus.get(node, 0) + int(limits.get("nvidia.com/gpu", 0))
    return sum(1 for used in gpus.values() if used > 8)


async def clean(api: kube.AsyncKube, work: Work) -> None:
    """Delete the objects of a run and wait until its pods are gone."""
    pods = [pod["metadata"]["name"] for pod in work.pods]
    await asyncio.gather(*(api.delete("pods", name, shapes.NAMESPACE, grace=0) for name in pods))
    for group in work.groups:
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
