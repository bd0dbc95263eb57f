"""A cluster in memory: the API server as far as the job controller uses it, kubelets and the garbage collector.

Takes calls as `client.Api` does; gives the bytes or the exceptions that the API server would. It can lose its client
after any write (`crash_after`), before or after that write was carried out, and refuse what a test names.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable
from typing import Any

import orjson

from extender.kube import client, errors

Object = dict[str, Any]


class Crash(BaseException):
    """The process is gone: nothing it would do next is done."""


class Cluster:
    """Objects by their paths."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        #: those that were carried out
        self.writes: list[tuple[str, str]] = []
        #: after so many writes from now the client is lost
        self.crash_after: int | None = None
        #: called before each write; raises what is to be refused
        self.refuse: Callable[[str, str, Any], None] = lambda method, path, body: None
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)

    # -- as client.Api

    async def read(self, path: str, **_: Any) -> Object:
        if path not in self.objects:
            raise errors.NotFound(404, "NotFound", path)
        return copy.deepcopy(self.objects[path])

    async def request(
        self, method: str, path: str, *, body: Any = None, content_type: str = client.JSON, **_: Any
    ) -> bytes:
        if self.crash_after == 0:
            raise Crash
        self.refuse(method, path, body)
        answer = getattr(self, f"_{method.lower()}")(path, json.loads(orjson.dumps(body)))
        self.writes.append((method, path))
        if self.crash_after is not None:
            self.crash_after -= 1
        return orjson.dumps(answer)

    def _post(self, collection: str, body: Object) -> Object:
        name = body["metadata"].get("name") or f"{body['metadata'].get('generateName', '')}{next(self._uids)}"
        path = f"{collection}/{name}"
        if path in self.objects:
            raise errors.Conflict(409, "AlreadyExists", f"{name} already exists")
        namespace = collection.split("/namespaces/")[1].split("/")[0]
        return self.put(path, body | {"metadata": body["metadata"] | {"name": name, "namespace": namespace}})

    def _put(self, path: str, body: Object) -> Object:
        path = path.removesuffix("/status")
        before = self._found(path)
        if body["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]:
            raise errors.Conflict(409, "Conflict", "the object has been modified")
        return self._changed(path, before | {"status": body["status"]})

    def _patch(self, path: str, body: Object) -> Object:
        before = self._found(path)
        return self._changed(path, merged(before, body))

    def _delete(self, path: str, body: Object | None) -> Object:
        found = self._found(path)
        uid = ((body or {}).get("preconditions") or {}).get("uid")
        if uid not in (None, found["metadata"]["uid"]):
            raise errors.Conflict(409, "Conflict", "another uid")
        if "/pods/" not in path:
            del self.objects[path]
            return found
        return self._changed(path, merged(found, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))

    def _found(self, path: str) -> Object:
        if path not in self.objects:
            raise errors.NotFound(404, "NotFound", path)
        return self.objects[path]

    # -- for tests

    def put(self, path: str, body: Object) -> Object:
        """Create an object as the API server would."""
        given = {"uid": f"uid-{next(self._uids)}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        made = copy.deepcopy(body)
        made["metadata"] = given | made["metadata"]
        if "/pods/" in path:
            made.setdefault("status", {"phase": "Pending"})
        return self._changed(path, made)

    def _changed(self, path: str, content: Object) -> Object:
        content["metadata"] = content["metadata"] | {"resourceVersion": str(next(self._versions))}
        self.objects[path] = content
        return copy.deepcopy(content)

    def of(self, part: str) -> dict[str, Object]:
        """Objects whose path has this part, by name."""
        return {
            path.rpartition("/")[2]: copy.deepcopy(one) for path, one in self.objects.items() if f"/{part}/" in path
        }

    def set_status(self, path: str, **status: Any) -> None:
        """As a kubelet would."""
        self._changed(path, merged(self.objects[path], {"status": status}))

    def kubelets(self) -> None:
        """Start what is new, and let go what is being deleted."""
        for path, one in list(self.objects.items()):
            if "/pods/" not in path:
                continue
            if "deletionTimestamp" in one["metadata"]:
                del self.objects[path]
            elif one["status"]["phase"] == "Pending":
                self.set_status(path, phase="Running")


def merged(before: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
