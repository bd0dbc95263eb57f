"""A tiny Kubernetes API helper for tests, synchronous (`Kube`) and asynchronous (`AsyncKube`).

Takes a kubeconfig; objects are plain dicts. A resource is named as kubectl does: `pods`, `podgroups.muster.dev`,
`leases.coordination.k8s.io`; its path comes from discovery, so whatever version the server serves is used. Every
failure is an ApiError with the status. Must not import the product, nor retry: a test wants to see what happened.
"""

from __future__ import annotations

import asyncio
import builtins
import dataclasses
import http.client
import json
import os
import select
import threading
import urllib.parse
from collections.abc import AsyncIterator, Generator, Iterable, Mapping
from typing import Any

import aiohttp
import yarl

from e2e import kubeconfig

Object = dict[str, Any]
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class ApiError(Exception):
    """The API server said no; `status` is the HTTP status, `reason` the Status object's reason."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        self.status = status
        self.body = body
        try:
            answer = json.loads(body)
        except ValueError:
            answer = {}
        self.reason = str(answer.get("reason", "")) if isinstance(answer, dict) else ""
        self.message = str(answer.get("message", body)) if isinstance(answer, dict) else body
        super().__init__(f"{method} {path}: {status} {self.reason} {self.message[:500]}")


@dataclasses.dataclass(frozen=True)
class Resource:
    """One served resource."""

    group_version: str
    plural: str
    kind: str
    namespaced: bool

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path; without a namespace, that of all namespaces."""
        root = f"/api/{self.group_version}" if "/" not in self.group_version else f"/apis/{self.group_version}"
        parts = [root]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        parts += [urllib.parse.quote(part, safe="") if part == name else part for part in (name, subresource) if part]
        return "/".join(parts)


class Kube:
    """Synchronous access; usable from several threads."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.kubeconfig = path
        self.access = kubeconfig.read(path)
        self._context = self.access.ssl_context()
        self._resources: dict[str, dict[str, Resource]] = {}
        self._names: dict[str, Resource] = {}
        self._local = threading.local()
        self._opened: set[http.client.HTTPConnection] = set()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """One request; gives the decoded JSON."""
        return json.loads(self.text(method, path, body, query=query, content_type=content_type))

    def text(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> str:
        """One request; gives the body as it is (metrics, health)."""
        target = _with_query(path, query)
        data = None if body is None else json.dumps(body).encode()
        headers = {**self.access.headers(), "Content-Type": content_type, "Accept": "application/json, */*"}
        status, answer = self._exchange(method, target, data, headers)
        if status >= 300:
            raise ApiError(method, target, status, answer)
        return answer

    def _exchange(self, method: str, target: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, str]:
        connection = self._reusable() or self._connect()
        self._local.connection = None
        try:
            connection.request(method, target, data, headers)
            response = connection.getresponse()
            answer = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self._drop(connection)
            raise ApiError(method, target, 0, f"{type(error).__name__}: {error}") from error
        if response.will_close:
            self._drop(connection)
        else:
            self._local.connection = connection
        return response.status, answer

    def _reusable(self) -> http.client.HTTPConnection | None:
        """The kept connection of this thread, unless the server has closed it (then its socket is readable)."""
        kept: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if kept is None or kept.sock is None:
            return None
        poll = select.poll()
        poll.register(kept.sock, select.POLLIN)
        if poll.poll(0):
            self._drop(kept)
            return None
        return kept

    def close(self) -> None:
        """Close all connections, those of other threads too."""
        self._local = threading.local()
        while self._opened:
            self._opened.pop().close()

    def _connect(self) -> http.client.HTTPConnection:
        url = urllib.parse.urlsplit(self.access.server)
        assert url.hostname is not None
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
        if self._context is not None:
            connection = http.client.HTTPSConnection(url.hostname, url.port, timeout=60, context=self._context)
        self._opened.add(connection)
        return connection

    def _drop(self, connection: http.client.HTTPConnection) -> None:
        self._opened.discard(connection)
        connection.close()

    # -- discovery

    def resource(self, name: str) -> Resource:
        """The resource of a kubectl name (`pods`, `queues.muster.dev`) in the version that the server prefers."""
        if name not in self._names:
            plural, _, group = name.partition(".")
            for group_version in self._versions(group) if group else ["v1"]:
                for resource in self._served(group_version).values():
                    if resource.plural == plural:
                        self._names.setdefault(name, resource)
        if name not in self._names:
            raise ApiError("GET", f"discovery of {name}", 404, f"{name} is not served")
        return self._names[name]

    def resource_of(self, obj: Object) -> Resource:
        """The resource that an object belongs to, by its apiVersion and kind."""
        served = self._served(obj["apiVersion"])
        if obj["kind"] not in served:
            raise ApiError("GET", "discovery", 404, f"{obj['apiVersion']} {obj['kind']} is not served")
        return served[obj["kind"]]

    def serves(self, group_version: str, kind: str = "") -> bool:
        """Whether the server serves a group version (and a kind in it), asked anew."""
        self._resources.pop(group_version, None)
        try:
            served = self._served(group_version)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return kind in served if kind else True

    def _versions(self, group: str) -> builtins.list[str]:
        """The served versions of a group, the most preferred first."""
        return [entry["groupVersion"] for entry in self.request("GET", f"/apis/{group}")["versions"]]

    def _served(self, group_version: str) -> dict[str, Resource]:
        if group_version not in self._resources:
            root = "/api/" if "/" not in group_version else "/apis/"
            answer = self.request("GET", root + group_version)
            self._resources[group_version] = {
                entry["kind"]: Resource(group_version, entry["name"], entry["kind"], entry["namespaced"])
                for entry in answer["resources"]
                if "/" not in entry["name"]
            }
        return self._resources[group_version]

    # -- objects

    def get(self, resource: str, name: str, namespace: str | None = None) -> Object:
        """One object; ApiError 404 when it is not there."""
        return dict(self.request("GET", self.resource(resource).path(namespace, name)))

    def find(self, resource: str, name: str, namespace: str | None = None) -> Object | None:
        """One object, or None when it is not there."""
        try:
            return self.get(resource, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(
        self, resource: str, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> builtins.list[Object]:
        """All objects (of a namespace, matching the selectors)."""
        query = {"labelSelector": labels, "fieldSelector": fields}
        return list(self.request("GET", self.resource(resource).path(namespace), query=query)["items"])

    def create(self, obj: Object) -> Object:
        """Create an object in the namespace that its metadata names."""
        return dict(self.request("POST", self.resource_of(obj).path(obj["metadata"].get("namespace")), obj))

    def apply(self, obj: Object) -> Object:
        """Server-side apply, taking over fields of others."""
        meta = obj["metadata"]
        path = self.resource_of(obj).path(meta.get("namespace"), meta["name"])
        query = {"fieldManager": "e2e", "force": "true"}
        return dict(self.request("PATCH", path, obj, query=query, content_type=APPLY))

    def patch(
        self,
        resource: str,
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        content_type: str = MERGE,
    ) -> Object:
        """Patch an object (merge patch unless said otherwise)."""
        path = self.resource(resource).path(namespace, name, subresource)
        return dict(self.request("PATCH", path, patch, content_type=content_type))

    def replace(self, obj: Object, *, subresource: str | None = None) -> Object:
        """PUT an object, with the optimistic lock of its resourceVersion."""
        meta = obj["metadata"]
        path = self.resource_of(obj).path(meta.get("namespace"), meta["name"], subresource)
        return dict(self.request("PUT", path, obj))

    def delete(
        self,
        resource: str,
        name: str,
        namespace: str | None = None,
        *,
        grace: int | None = None,
        missing_ok: bool = True,
    ) -> None:
        """Delete an object; one that is not there is fine unless said otherwise."""
        query = {} if grace is None else {"gracePeriodSeconds": grace}
        try:
            self.request("DELETE", self.resource(resource).path(namespace, name), query=query)
        except ApiError as error:
            if error.status != 404 or not missing_ok:
                raise

    def delete_all(
        self, resource: str, namespace: str | None = None, *, labels: str = "", grace: int | None = None
    ) -> None:
        """Delete a whole collection (of a namespace)."""
        query: dict[str, Any] = {"labelSelector": labels}
        if grace is not None:
            query["gracePeriodSeconds"] = grace
        self.request("DELETE", self.resource(resource).path(namespace), query=query)

    def evict(self, name: str, namespace: str, *, grace: int | None = None) -> None:
        """Evict a pod through the eviction subresource."""
        body: Object = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        if grace is not None:
            body["deleteOptions"] = {"gracePeriodSeconds": grace}
        self.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)

    def watch(
        self, resource: str, namespace: str | None = None, *, since: str = "", labels: str = "", seconds: int = 30
    ) -> Generator[Object, None, None]:
        """Watch events ({type, object}) until the server ends the watch after `seconds`."""
        query = {"watch": "1", "resourceVersion": since, "labelSelector": labels, "timeoutSeconds": seconds}
        target = _with_query(self.resource(resource).path(namespace), query)
        connection = self._connect()
        try:
            connection.request("GET", target, headers=self.access.headers())
            response = connection.getresponse()
            if response.status >= 300:
                raise ApiError("GET", target, response.status, response.read().decode())
            while line := response.readline():
                yield json.loads(line)
        finally:
            self._drop(connection)

    def metric(self, name: str, text: str | None = None, **labels: str) -> float:
        """Sum of the samples of one metric of the API server (or of a given text) that bear these labels."""
        return metric(self.text("GET", "/metrics") if text is None else text, name, **labels)


class AsyncKube:
    """Asynchronous requests with many at once; paths come from a Kube. Use as `async with`."""

    def __init__(self, kube: Kube, connections: int = 64) -> None:
        self.kube = kube
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> AsyncKube:
        context = self.kube.access.ssl_context()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context if context is not None else True, limit=self._connections),
            headers=self.kube.access.headers(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """One request; gives the decoded JSON."""
        assert self._session is not None
        target = _with_query(path, query)
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type}
        url = yarl.URL(self.kube.access.server + target, encoded=True)
        async with self._session.request(method, url, data=data, headers=headers) as response:
            text = await response.text()
            if response.status >= 300:
                raise ApiError(method, target, response.status, text)
            return json.loads(text)

    async def create(self, obj: Object) -> Object:
        """Create an object."""
        return dict(await self.request("POST", self.kube.resource_of(obj).path(obj["metadata"].get("namespace")), obj))

    async def create_all(self, objects: Iterable[Object]) -> builtins.list[Object]:
        """Create many at once; the first failure is raised."""
        return list(await asyncio.gather(*[self.create(obj) for obj in objects]))

    async def get(self, resource: str, name: str, namespace: str | None = None) -> Object:
        """One object."""
        return dict(await self.request("GET", self.kube.resource(resource).path(namespace, name)))

    async def list(self, resource: str, namespace: str | None = None, *, labels: str = "") -> Object:
        """The whole list object (its metadata has the resourceVersion to watch from)."""
        path = self.kube.resource(resource).path(namespace)
        return dict(await self.request("GET", path, query={"labelSelector": labels}))

    async def patch(
        self, resource: str, name: str, patch: Any, namespace: str | None = None, *, content_type: str = MERGE
    ) -> Object:
        """Patch an object."""
        path = self.kube.resource(resource).path(namespace, name)
        return dict(await self.request("PATCH", path, patch, content_type=content_type))

    async def delete(self, resource: str, name: str, namespace: str | None = None, *, grace: int | None = None) -> None:
        """Delete an object; one that is not there is fine."""
        query = {} if grace is None else {"gracePeriodSeconds": grace}
        try:
            await self.request("DELETE", self.kube.resource(resource).path(namespace, name), query=query)
        except ApiError as error:
            if error.status != 404:
                raise

    async def watch(
        self, resource: str, namespace: str | None = None, *, since: str = "", labels: str = ""
    ) -> AsyncIterator[Object]:
        """Watch events, resumed from the last version seen whenever the server closes a slow reader."""
        assert self._session is not None
        path = self.kube.resource(resource).path(namespace)
        while True:
            query = {"watch": "1", "resourceVersion": since, "labelSelector": labels, "allowWatchBookmarks": "true"}
            url = yarl.URL(self.kube.access.server + _with_query(path, query), encoded=True)
            async with self._session.get(url) as response:
                if response.status >= 300:
                    raise ApiError("GET", path, response.status, await response.text())
                async for event in _events(response.content):
                    if event["type"] == "ERROR":
                        raise ApiError("GET", path, int(event["object"].get("code", 0)), json.dumps(event["object"]))
                    since = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        yield event


async def _events(content: aiohttp.StreamReader) -> AsyncIterator[Object]:
    # StreamReader.readline refuses long lines; objects may be long.
    buffer = b""
    async for chunk in content.iter_any():
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            yield json.loads(line)


def metric(text: str, name: str, **labels: str) -> float:
    """Sum of the samples of one metric in a Prometheus text that bear all these labels."""
    total = 0.0
    for line in text.splitlines():
        head, _, value = line.rpartition(" ")
        if head.partition("{")[0] == name and all(f'{key}="{wanted}"' in head for key, wanted in labels.items()):
            total += float(value)
    return total


def _with_query(path: str, query: Mapping[str, Any] | None) -> str:
    given = {key: value for key, value in (query or {}).items() if value != ""}
    return f"{path}?{urllib.parse.urlencode(given)}" if given else path
