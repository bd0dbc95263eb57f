"""A tiny Kubernetes API helper for tests, synchronous (`Kube`) and asynchronous (`AsyncKube`).

Takes a kubeconfig; objects are plain dicts. A resource is named as kubectl does: `pods`, `podgroups.muster.dev`,
`leases.coordination.k8s.io`; its path comes from discovery, so whatever version the server serves is used. Every
failure is an ApiError with the status. Must not import the product, nor retry: a test wants to see what happened.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import threading
import urllib.parse
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import aiohttp

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
        self._local = threading.local()

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
        kept = getattr(self._local, "connection", None)
        self._local.connection = None
        for connection in [kept, None] if kept and method == "GET" else [None]:
            connection = connection or self._connect()
            try:
                connection.request(method, target, data, headers)
                response = connection.getresponse()
                answer = response.read().decode()
            except (OSError, http.client.HTTPException):
                connection.close()
                if connection is kept:
                    continue
                raise
            if response.will_close:
                connection.close()
            else:
                self._local.connection = connection
            return response.status, answer
        raise AssertionError("unreachable")

    def _connect(self) -> http.client.HTTPConnection:
        url = urllib.parse.urlsplit(self.access.server)
        assert url.hostname is not None
        if self._context is None:
            return http.client.HTTPConnection(url.hostname, url.port, timeout=60)
        return http.client.HTTPSConnection(url.hostname, url.port, timeout=60, context=self._context)
