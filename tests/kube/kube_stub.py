"""A scripted API server on loopback, with real sockets.

Takes: answers per method and path, in order; the last one repeats. Gives: what was asked. A request that no
script foresees is answered with 501 and fails the test at teardown. The verb of a watch is WATCH.
"""

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web

Answer = Callable[["Stub", web.Request], Awaitable[web.StreamResponse]]


@dataclasses.dataclass
class Asked:
    verb: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class Stub:
    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.unforeseen: list[str] = []
        self.token: str | None = None
        self.url = ""
        self.over = asyncio.Event()
        self._scripts: dict[tuple[str, str], list[Answer]] = {}

    def on(self, verb: str, path: str, *answers: Answer) -> None:
        """Script the answers from now on."""
        self._scripts[verb, path] = list(answers)

    def count(self, verb: str, path: str) -> int:
        return sum(1 for asked in self.asked if (asked.verb, asked.path) == (verb, path))

    def verbs(self) -> list[str]:
        return [asked.verb for asked in self.asked]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        verb = "WATCH" if request.query.get("watch") == "1" else request.method
        raw = await request.read()
        self.asked.append(
            Asked(
                verb,
                request.path,
                dict(request.query),
                dict(request.headers),
                orjson.loads(raw) if raw else None,
            )
        )
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response(status_of(401, "Unauthorized"), status=401)
        script = self._scripts.get((verb, request.path))
        if not script:
            self.unforeseen.append(f"{verb} {request.path}")
            return web.Response(status=501)
        return await (script.pop(0) if len(script) > 1 else script[0])(self, request)


def status_of(code: int, reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message} | (
        {"details": details} if details else {}
    )


def ok(content: Any, status: int = 200) -> Answer:
    """JSON, or the bytes as they are."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()

    async def answer(stub: Stub, request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body, content_type="application/json")

    return answer


def fail(
    code: int, reason: str = "", message: str = "", headers: dict[str, str] | None = None, **details: Any
) -> Answer:
    async def answer(stub: Stub, request: web.Request) -> web.StreamResponse:
        return web.json_response(status_of(code, reason, message, **details), status=code, headers=headers)

    return answer


async def reset(stub: Stub, request: web.Request) -> web.StreamResponse:
    """The request was read, its answer is lost."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def hang(stub: Stub, request: web.Request) -> web.StreamResponse:
    """No answer while the test lasts."""
    await stub.over.wait()
    return web.Response(status=503)


def stream(*events: Any, end: str = "hang", chunk: int = 0) -> Answer:
    """A watch that tells these events (bytes as they are), then hangs, closes, or breaks."""
    lines = b"".join(e if isinstance(e, bytes) else json.dumps(e).encode() + b"\n" for e in events)

    async def answer(stub: Stub, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        step = chunk or max(len(lines), 1)
        for start in range(0, len(lines), step):
            await response.write(lines[start : start + step])
        if end == "hang":
            await stub.over.wait()
        elif end == "break":
            assert request.transport is not None
            request.transport.abort()
        return response

    return answer


def pod(name: str, uid: str = "", version: str = "1", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": uid or f"uid-{name}",
            "resourceVersion": version,
        },
        "spec": spec,
    }


def page(*items: Any, version: str = "10", more: str = "", kind: str = "PodList") -> Answer:
    metadata = {"resourceVersion": version} | ({"continue": more} if more else {})
    return ok({"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": list(items)})


def event(kind: str, content: Any) -> dict[str, Any]:
    return {"type": kind, "object": content}


def bookmark(version: str) -> dict[str, Any]:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": version}})


class Recorder:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str]] = []
        self.restarts: list[tuple[str, str]] = []
        self.aside: list[tuple[str, str]] = []
        self.events = 0

    def request_done(self, verb: str, resource: str, status: str, seconds: float) -> None:
        assert seconds >= 0
        self.requests.append((verb, resource, status))

    def watch_event(self, resource: str, lag_seconds: float) -> None:
        assert lag_seconds >= 0
        self.events += 1

    def watch_restarted(self, resource: str, reason: str) -> None:
        self.restarts.append((resource, reason))

    def object_set_aside(self, resource: str, name: str, error: Exception) -> None:
        self.aside.append((resource, name))


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait for a condition, with a deadline."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the conditions are about what others do
            await asyncio.sleep(0.002)
