"""An API server and an extender on loopback, as far as the gate needs them.

Takes objects, gives lists, watches, reads and bindings; a test may script how a binding is answered. Must
not hold expectations.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from typing import Any

from aiohttp import web

PATHS = {
    "/api/v1/pods": "Pod",
    "/api/v1/nodes": "Node",
    "/apis/muster.dev/v1alpha1/podgroups": "PodGroup",
    "/api/v1/namespaces/muster-system/configmaps": "ConfigMap",
    "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases": "Lease",
}


class ApiServer:
    """Objects by path and name; every change is told to the watches."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, dict[str, Any]]] = {path: {} for path in PATHS}
        self.bindings: list[dict[str, Any]] = []
        self.evictions: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.conditions: list[tuple[str, dict[str, Any]]] = []
        self.records: list[tuple[str, dict[str, str | None]]] = []
        #: name -> statuses with which its next bindings are answered before one succeeds
        self.refusals: dict[str, list[int]] = defaultdict(list)
        #: bindings wait for it
        self.may_bind = asyncio.Event()
        self.may_bind.set()
        self._version = 0
        #: everything told, with its version
        self._told: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
        self._watches: dict[str, list[asyncio.Queue[bytes | None]]] = defaultdict(list)

    def put(self, path: str, content: dict[str, Any], tell: bool = True) -> None:
        """Add or change an object; untold, only reads show it."""
        self._version += 1
        meta = content["metadata"]
        kind = "MODIFIED" if meta["name"] in self.objects[path] else "ADDED"
        content = content | {"metadata": meta | {"resourceVersion": str(self._version)}}
        self.objects[path][meta["name"]] = content
        if tell:
            self._tell(path, kind, content)

    def delete(self, path: str, name: str) -> None:
        """Delete an object."""
        self._version += 1
        content = self.objects[path].pop(name)
        content["metadata"]["resourceVersion"] = str(self._version)
        self._tell(path, "DELETED", content)

    def end_watches(self) -> None:
        """Let the handlers of watches end."""
        for queues in self._watches.values():
            for queue in queues:
                queue.put_nowait(None)

    def _tell(self, path: str, kind: str, content: dict[str, Any]) -> None:
        line = json.dumps({"type": kind, "object": content}).encode() + b"\n"
        self._told[path].append((self._version, line))
        for queue in self._watches[path]:
            queue.put_nowait(line)

    def app(self) -> web.Application:
        """The server."""
        app = web.Application()
        app.router.add_get("/apis/muster.dev/v1alpha1", self._discover)
        for path in PATHS:
            app.router.add_get(path, self._list)
        app.router.add_get("/api/v1/namespaces/{ns}/pods/{name}", self._read_pod)
        app.router.add_patch("/api/v1/namespaces/{ns}/pods/{name}/status", self._patch_status)
        app.router.add_post("/api/v1/namespaces/{ns}/pods/{name}/binding", self._bind)
        app.router.add_post("/api/v1/namespaces/{ns}/pods/{name}/eviction", self._evict)
        app.router.add_post("/apis/events.k8s.io/v1/namespaces/{ns}/events", self._hear)
        app.router.add_get("/apis/muster.dev/v1alpha1/namespaces/{ns}/podgroups/{name}", self._read_group)
        app.router.add_get("/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/{name}", self._read_lease)
        return app

    async def _discover(self, request: web.Request) -> web.Response:
        return web.json_response({"resources": [{"name": "podgroups"}]})

    async def _list(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch") == "1":
            return await self._watch(request)
        items = list(self.objects[request.path].values())
        meta = {"resourceVersion": str(self._version)}
        return web.json_response({"kind": f"{PATHS[request.path]}List", "metadata": meta, "items": items})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        # what happened between the list and the watch comes first, as with the real one
        since = int(request.query.get("resourceVersion") or 0)
        for version, line in self._told[request.path]:
            if version > since:
                queue.put_nowait(line)
        self._watches[request.path].append(queue)
        response = web.StreamResponse()
        await response.prepare(request)
        while (line := await queue.get()) is not None:
            await response.write(line)
        return response

    def _read(self, path: str, request: web.Request) -> web.Response:
        found = self.objects[path].get(request.match_info["name"])
        return web.json_response(found) if found else web.json_response({"code": 404}, status=404)

    async def _read_pod(self, request: web.Request) -> web.Response:
        return self._read("/api/v1/pods", request)

    async def _read_group(self, request: web.Request) -> web.Response:
        return self._read("/apis/muster.dev/v1alpha1/podgroups", request)

    async def _read_lease(self, request: web.Request) -> web.Response:
        return self._read("/apis/coordination.k8s.io/v1/namespaces/muster-system/leases", request)

    async def _bind(self, request: web.Request) -> web.Response:
        await self.may_bind.wait()
        name, body = request.match_info["name"], await request.json()
        self.bindings.append(body)
        if self.refusals[name]:
            status = self.refusals[name].pop(0)
            return web.json_response({"kind": "Status", "code": status, "message": "scripted"}, status=status)
        pod = self.objects["/api/v1/pods"][name]
        self.put("/api/v1/pods", pod | {"spec": pod["spec"] | {"nodeName": body["target"]["name"]}})
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)

    async def _evict(self, request: web.Request) -> web.Response:
        self.evictions.append(request.match_info["name"])
        self.delete("/api/v1/pods", request.match_info["name"])
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)

    async def _hear(self, request: web.Request) -> web.Response:
        self.events.append(await request.json())
        return web.json_response({}, status=201)

    async def _patch_status(self, request: web.Request) -> web.Response:
        body = await request.json()
        if "status" in body:
            self.conditions.append((request.match_info["name"], body["status"]["conditions"][0]))
        else:
            self.records.append((request.match_info["name"], body["metadata"]["annotations"]))
        return web.json_response({})


class Extender:
    """Lets everybody go, or says what it is told to say."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.vetoed: set[str] = set()
        self.annotations: dict[str, str] = {}
        self.status = 200

    def app(self) -> web.Application:
        """The server."""
        app = web.Application()
        app.router.add_post("/release", self._release)
        return app

    async def _release(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(body)
        said = {
            member["uid"]: {"veto": "told so"} if member["uid"] in self.vetoed else {"annotations": self.annotations}
            for member in body["members"]
        }
        return web.json_response({"members": said}, status=self.status)


def pod(name: str, group: str | None = None, **spec: Any) -> dict[str, Any]:
    """A pod of ours that asks for one core."""
    labels = {"muster.dev/pod-group": group} if group else {}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "labels": labels},
        "spec": {"schedulerName": "muster", "containers": [container]} | spec,
        "status": {"phase": "Pending"},
    }


def node(name: str = "node-0", cpu: str = "64") -> dict[str, Any]:
    """A ready node."""
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {},
        "status": {"allocatable": allocatable, "conditions": [ready]},
    }


def group(name: str, min_member: int, generation: int = 1) -> dict[str, Any]:
    """A pod group of ours."""
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-of-{name}", "generation": generation},
        "spec": {"minMember": min_member},
    }


def lease(holder: str, renewed: str = "2026-01-01T00:00:00.000000Z") -> dict[str, Any]:
    """The scheduler's lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "muster-scheduler", "namespace": "muster-system", "uid": "uid-lease"},
        "spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15},
    }
