"""An API server that holds what a test puts there, for the plugin to read; and the plugin's commands on it.

Takes objects as dicts and errors by path, gives lines as a person sees them; must not hold expectations.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping
from typing import Any

import orjson

from extender.cli import arguments, running
from extender.cli.cluster import Cluster
from extender.kube import errors

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
NOW = "2026-01-01T00:10:00Z"
LIVE = "visibility.muster.dev/v1alpha1"
#: group and version, and the resources of each
SERVED = {
    "muster.dev/v1alpha1": {"PodGroup": "podgroups", "Queue": "queues", "Topology": "topologies"},
    "scheduling.k8s.io/v1beta1": {"PodGroup": "podgroups"},
    "scheduling.x-k8s.io/v1alpha1": {"PodGroup": "podgroups"},
    "scheduling.volcano.sh/v1beta1": {"PodGroup": "podgroups", "Queue": "queues"},
    "batch.volcano.sh/v1alpha1": {"Job": "jobs", "CronJob": "cronjobs"},
    "kueue.x-k8s.io/v1beta2": {"Workload": "workloads"},
    LIVE: {"Workload": "workloads", "Queue": "queues"},
    "v1": {"Pod": "pods", "Node": "nodes", "Event": "events"},
}


class World:
    """Takes the place of client.Api: `fails` are errors by a part of the path."""

    def __init__(self, *objects: Object, without: tuple[str, ...] = ()) -> None:
        self.served = {name: kinds for name, kinds in SERVED.items() if not name.startswith(without or ("\0",))}
        self.objects = list(objects)
        self.fails: dict[str, errors.KubeError] = {}
        self.read_paths: list[str] = []
        self.posted: list[tuple[str, Object]] = []
        self.planned: Object = {}
        self.access = self
        self.host = "https://example:6443"
        self.page = 2

    async def read(self, path: str, *, query: Mapping[str, str] | None = None) -> Object:
        """GET: discovery, one object, or a page of a list."""
        self.read_paths.append(path)
        for part, error in self.fails.items():
            if part in path:
                raise error
        version, _, rest = path.removeprefix("/apis/").removeprefix("/api/").partition("/")
        if version != "v1":
            minor, _, rest = rest.partition("/")
            version = f"{version}/{minor}"
        kinds = self.served.get(version)
        if kinds is None:
            raise errors.NotFound(404, "", "404 page not found")
        if not rest:
            return {"resources": [{"name": plural} for plural in kinds.values()]}
        return self._found(version, kinds, rest, query or {})

    async def request(
        self, method: str, path: str, *, body: Object, query: Mapping[str, str] | None = None, **_: float
    ) -> bytes:
        """POST: a dry run gives back the pod, a plan what `planned` says of it."""
        assert method == "POST"
        for part, error in self.fails.items():
            if part in path:
                raise error
        self.posted.append((path, body))
        if path.endswith("plans"):
            return orjson.dumps({"status": self.planned})
        assert query == {"dryRun": "All"}
        return orjson.dumps(body | {"metadata": body["metadata"] | {"uid": "u", "namespace": path.split("/")[4]}})

    def _found(self, version: str, kinds: Mapping[str, str], rest: str, query: Mapping[str, str]) -> Object:
        parts, namespace = rest.split("/"), ""
        if parts[0] == "namespaces":
            namespace, parts = parts[1], parts[2:]
        there = [
            one
            for one in self.objects
            if one["apiVersion"] == version
            and kinds[one["kind"]] == parts[0]
            and namespace in ("", one["metadata"].get("namespace"))
            and _is_selected(one, query.get("fieldSelector", ""))
        ]
        if len(parts) > 1:
            name = parts[1].replace("%3A", ":")
            found = [one for one in there if one["metadata"]["name"] == name]
            if not found:
                raise errors.NotFound(404, "NotFound", f'{parts[0]}.{version.partition("/")[0]} "{name}" not found')
            return found[0]
        start = int(query.get("continue", "0"))
        more = {"continue": str(start + self.page)} if start + self.page < len(there) else {}
        return {"items": there[start : start + self.page], "metadata": more}


def _is_selected(one: Object, selector: str) -> bool:
    """By the scheduler; other selectors choose all."""
    path, _, wanted = selector.partition("=")
    return path != "spec.schedulerName" or one["spec"].get("schedulerName") == wanted


def run(world: World, *words: str) -> tuple[str, str]:
    """What the command writes, and what it says beside it; Problems pass through."""
    told = arguments.parser({}).parse_args(words)
    out, said = io.StringIO(), io.StringIO()
    namespace = None if getattr(told, "all_namespaces", False) else told.namespace or "team"
    asyncio.run(running.on(Cluster(world, namespace), told, out, said))  # type: ignore[arg-type]
    return out.getvalue(), said.getvalue()


# --- objects -----------------------------------------------------------------------------------------


def make(version: str, kind: str, name: str, *, namespace: str = "", **fields: Any) -> Object:
    """Any object; `meta` adds to its metadata."""
    meta = {"name": name, "uid": f"uid-{name}"} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": meta | fields.pop("meta", {}), **fields}


def workload(name: str, *, namespace: str = "team", **status: Any) -> Object:
    """A live answer about a group that waits."""
    given = {
        "phase": "Pending",
        "reason": "InsufficientResources",
        "message": "not enough free resources for the whole group (resource nvidia.com/gpu, asked 8, free 3)",
        "detail": [{"name": "resource", "value": GPU}, {"name": "asked", "value": 8}, {"name": "free", "value": 3}],
        "queue": "research",
        "position": 2,
        "since": "2026-01-01T00:08:00Z",
        "members": {"have": 8, "minimum": 8, "planned": 0, "bound": 0, "succeeded": 0, "failed": 0},
        "plannedNodes": [],
    }
    return make(LIVE, "Workload", name, namespace=namespace, status=given | status)


def live_queue(name: str, **status: Any) -> Object:
    """A live answer about a queue."""
    given = {"state": "Open", "allocated": {GPU: "4"}, "fairShare": {GPU: "6"}, "share": "0.66", "pending": 0}
    return make(LIVE, "Queue", name, status={"waiting": []} | given | status)


def queue(name: str, **fields: Any) -> Object:
    """A Queue of ours."""
    return make("muster.dev/v1alpha1", "Queue", name, spec=fields.pop("spec", {}), **fields)


def group(name: str, *, namespace: str = "team", **fields: Any) -> Object:
    """A PodGroup of ours of 4."""
    spec = {"minMember": 4} | fields.pop("spec", {})
    return make("muster.dev/v1alpha1", "PodGroup", name, namespace=namespace, spec=spec, **fields)


def pod(name: str, gpus: int = 1, *, node: str = "", namespace: str = "team", **fields: Any) -> Object:
    """A pod of ours."""
    container = {"name": "main", "resources": {"requests": {GPU: str(gpus)}}}
    spec = {"schedulerName": "muster", "containers": [container]} | ({"nodeName": node} if node else {})
    status = fields.pop("status", {"phase": "Running" if node else "Pending"})
    return make("v1", "Pod", name, namespace=namespace, spec=spec | fields.pop("spec", {}), status=status, **fields)


def node(name: str, gpus: int = 8, **fields: Any) -> Object:
    """A ready node."""
    status = {"allocatable": {"cpu": "64", "pods": "110"} | ({GPU: str(gpus)} if gpus else {})}
    return make("v1", "Node", name, meta={"labels": fields.pop("labels", {})}, status=status, **fields)


def event(name: str, reason: str, message: str, at: str, *, kind: str = "PodGroup", **fields: Any) -> Object:
    """An Event of ours about an object of the namespace `team`."""
    about = {"kind": kind, "name": name, "namespace": "team"}
    told = {"involvedObject": about, "reason": reason, "message": message, "eventTime": at, "type": "Warning"}
    told["reportingInstance"] = "muster"
    number = f"muster-{name}-{reason}-{at}"
    return make("v1", "Event", number, namespace="team", **(told | fields))
