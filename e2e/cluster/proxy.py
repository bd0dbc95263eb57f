"""A TLS reverse proxy in front of the API server that misbehaves on command and remembers every write.

Takes the address of an API server; gives a kubeconfig that goes through the proxy, and faults set while it runs.
It passes credentials on unchanged, so who is who stays true. Watches stream through unbuffered. It runs in a thread
with a loop of its own: tests may be synchronous or not. Must not change a request or a reply that no fault matches.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import os
import pathlib
import re
import selectors
import ssl
import threading
from collections.abc import Coroutine
from typing import Any

import aiohttp
import yarl
from aiohttp import web

from e2e import kubeconfig, waiting
from e2e.cluster import process

HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
    "upgrade", "host", "content-length",
}  # fmt: skip
WRITES = {"POST", "PUT", "PATCH", "DELETE"}
REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError"}
MAX_BODY = 32 * 1024 * 1024
CLOSING_SECONDS = 5.0
#: what the loop itself has open: the socket that wakes it
LOOPS_OWN_SOCKETS = 1


@dataclasses.dataclass(frozen=True)
class Write:
    """One write that arrived: `status` is the API server's answer, or the fault's; 0 while it is under way."""

    number: int
    method: str
    path: str
    agent: str
    body: bytes
    status: int = 0
    fault: str = ""

    @property
    def json(self) -> Any:
        """The body as JSON ({} when it is empty or not JSON)."""
        try:
            return json.loads(self.body)
        except ValueError:
            return {}


@dataclasses.dataclass(eq=False)
class Fault:
    """One rule: the first `times` requests that match suffer it. `hits` counts; `release` frees held ones."""

    kind: str
    method: str
    path: re.Pattern[str]
    agent: str
    body: re.Pattern[bytes]
    times: int
    status: int = 0
    retry_after: int | None = None
    hits: int = 0
    loop: asyncio.AbstractEventLoop = dataclasses.field(kw_only=True)
    released: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    def matches(self, method: str, path: str, agent: str, body: bytes) -> bool:
        """Whether this request suffers it."""
        return (
            self.hits < self.times
            and self.method in ("", method)
            and self.path.search(path) is not None
            and self.agent in agent
            and self.body.search(body) is not None
        )

    def wait_hit(self, times: int = 1, deadline: float = 30) -> None:
        """Wait until it has struck this often."""
        what = f"fault {self.kind} on {self.method} {self.path.pattern} strikes"
        waiting.wait_for(lambda: self.hits, deadline, what, until=lambda hits: hits >= times)

    def release(self) -> None:
        """Let requests held by `hold_before` or `hold_reply` go on; later ones are not held any more."""
        self.times = 0
        self.loop.call_soon_threadsafe(self.released.set)


class Proxy:
    """The running proxy. Use as a context manager; `kubeconfig_for(path)` makes clients go through it."""

    def __init__(self, upstream: kubeconfig.Access, cert: pathlib.Path, key: pathlib.Path) -> None:
        self.url = f"https://127.0.0.1:{process.free_port()}"
        self.writes: list[Write] = []
        self.faults: list[Fault] = []
        self._upstream = upstream
        self._ca = cert.read_text()
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(cert, key)
        self._numbers = itertools.count()
        self._watches: list[web.Request] = []  # those being streamed now
        self._passing: set[asyncio.Future[web.Response]] = set()
        self._down = False
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._thread = threading.Thread(target=self._loop.run_forever, name="api-proxy", daemon=True)
        self._session: aiohttp.ClientSession
        self._runner: web.AppRunner

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def kubeconfig_for(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """A copy of a kubeconfig (with a token) that points here; written beside it."""
        access = kubeconfig.read(path)
        if not access.token:
            raise ValueError("only a token passes through the proxy, a client certificate does not")
        source = pathlib.Path(path)
        through = dataclasses.replace(access, server=self.url, ca=self._ca)
        return kubeconfig.write(source.with_name(f"{source.stem}-by-{self.url.rpartition(':')[2]}.kubeconfig"), through)

    # -- faults

    def lose_reply(self, path: str, method: str = "", **match: Any) -> Fault:
        """The request is carried out, then the connection is cut instead of answering."""
        return self._add("lose_reply", path, method, **match)

    def lose_request(self, path: str, method: str = "", **match: Any) -> Fault:
        """The connection is cut and nothing is carried out."""
        return self._add("lose_request", path, method, **match)

    def answer(
        self, status: int, path: str, method: str = "", *, retry_after: int | None = None, **match: Any
    ) -> Fault:
        """Answer with a Status of this code; nothing is carried out. On a watch: 410 instead of the stream."""
        return self._add("answer", path, method, status=status, retry_after=retry_after, **match)

    def gone(self, path: str, **match: Any) -> Fault:
        """The next watch is accepted, then told 410 Expired by an ERROR event, as the API server does it."""
        return self._add("gone", path, "GET", **match)

    def hold_before(self, path: str, method: str = "", **match: Any) -> Fault:
        """Hold the request before it is carried out, until `release`."""
        return self._add("hold_before", path, method, **match)

    def hold_reply(self, path: str, method: str = "", **match: Any) -> Fault:
        """Carry the request out at once, hold the reply until `release`. Not for watches."""
        return self._add("hold_reply", path, method, **match)

    def close_watches(self, path: str = "") -> int:
        """Cut the watches open now whose path matches; gives how many."""

        async def cut() -> int:
            found = [request for request in self._watches if re.search(path, request.path_qs)]
            for request in found:
                _abort(request)
            return len(found)

        return int(self._run(cut()))

    def open_watches(self, path: str = "") -> int:
        """How many watches stream through now whose path matches."""
        return len([request for request in list(self._watches) if re.search(path, request.path_qs)])

    def set_down(self, down: bool) -> None:
        """Refuse everything (and cut the watches), or serve again: an API server out of reach."""
        self._down = down
        if down:
            self.close_watches()

    def clear(self) -> None:
        """Forget all faults, release what is held and serve again; the writes seen stay."""
        for fault in self.faults:
            fault.release()
        self.faults.clear()
        self._down = False

    def writes_of(self, method: str = "", path: str = "", agent: str = "") -> list[Write]:
        """The writes seen so far that match."""
        return [
            write
            for write in list(self.writes)
            if method in ("", write.method) and re.search(path, write.path) and agent in write.agent
        ]

    def _add(
        self, kind: str, path: str, method: str, *, times: int = 1, agent: str = "", body: str = "", **extra: Any
    ) -> Fault:
        fault = Fault(kind, method, re.compile(path), agent, re.compile(body.encode()), times, loop=self._loop, **extra)
        self.faults.append(fault)
        return fault

    # -- the loop's side

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        context = self._upstream.ssl_context()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context if context is not None else True, limit=0),
            auto_decompress=False,
            # Else aiohttp asks for gzip on its own, and a client gets a compressed watch that it did not ask for.
            skip_auto_headers=["Accept-Encoding", "Accept", "User-Agent", "Content-Type"],
            timeout=aiohttp.ClientTimeout(total=None),
        )
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        address = yarl.URL(self.url)
        await web.TCPSite(self._runner, address.host, address.port, ssl_context=self._tls).start()

    async def _stop(self) -> None:
        for request in list(self._watches):
            _abort(request)
        server = self._runner.server
        await self._runner.cleanup()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        # Whose TLS handshake ended during the clean-up came too late for it.
        if server is not None:
            await server.shutdown(0)
        await self._session.close()
        # A closed TLS connection lets go of its socket some turns later, and the loop is about to end.
        ends = self._loop.time() + CLOSING_SECONDS
        while len(self._selector.get_map()) > LOOPS_OWN_SOCKETS and self._loop.time() < ends:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.005)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        agent = request.headers.get("User-Agent", "")
        fault = self._struck(request.method, request.path_qs, agent, body)
        number = self._note(request, agent, body, fault)
        if self._down or (fault and fault.kind == "lose_request"):
            return _cut(request)
        if fault and fault.kind == "answer":
            self._settle(number, fault.status)
            return _status(fault)
        if "watch=" in request.query_string:
            return await self._stream(request, fault)
        # Only watches end when their client goes: a request that has arrived is carried out all the same.
        passing = asyncio.ensure_future(self._pass(request, body, fault, number))
        self._passing.add(passing)
        passing.add_done_callback(self._passing.discard)
        return await asyncio.shield(passing)

    async def _pass(self, request: web.Request, body: bytes, fault: Fault | None, number: int | None) -> web.Response:
        if fault and fault.kind == "hold_before":
            await fault.released.wait()
        async with self._open(request, body) as answer:
            content = await answer.read()
            self._settle(number, answer.status)
            if fault and fault.kind == "hold_reply":
                await fault.released.wait()
            if fault and fault.kind == "lose_reply":
                return _cut(request)
            return web.Response(status=answer.status, headers=_headers(answer.headers), body=content)

    async def _stream(self, request: web.Request, fault: Fault | None) -> web.StreamResponse:
        if fault and fault.kind == "gone":
            event = {"type": "ERROR", "object": _status_object(410)}
            return web.Response(body=json.dumps(event).encode() + b"\n", content_type="application/json")
        if fault and fault.kind == "hold_before":
            await fault.released.wait()
        async with self._open(request, b"") as answer:
            response = web.StreamResponse(status=answer.status, headers=_headers(answer.headers))
            await response.prepare(request)
            self._watches.append(request)
            try:
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
            except (ConnectionError, aiohttp.ClientError):
                _abort(request)
            finally:
                self._watches[:] = [other for other in self._watches if other is not request]
            return response

    def _open(self, request: web.Request, body: bytes) -> Any:
        url = yarl.URL(self._upstream.server + request.raw_path, encoded=True)
        return self._session.request(
            request.method, url, headers=_headers(request.headers), data=body or None, allow_redirects=False
        )

    def _struck(self, method: str, path: str, agent: str, body: bytes) -> Fault | None:
        for fault in list(self.faults):
            if fault.matches(method, path, agent, body):
                fault.hits += 1
                return fault
        return None

    def _note(self, request: web.Request, agent: str, body: bytes, fault: Fault | None) -> int | None:
        if request.method not in WRITES:
            return None
        number = next(self._numbers)
        kind = fault.kind if fault else ("down" if self._down else "")
        self.writes.append(Write(number, request.method, request.path_qs, agent, body, fault=kind))
        return number

    def _settle(self, number: int | None, status: int) -> None:
        if number is not None:
            self.writes[number] = dataclasses.replace(self.writes[number], status=status)


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _cut(request: web.Request) -> web.Response:
    _abort(request)
    return web.Response(status=500)


def _status(fault: Fault) -> web.Response:
    headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    return web.json_response(_status_object(fault.status), status=fault.status, headers=headers)


def _status_object(code: int) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "injected by the test's proxy",
        "reason": REASONS.get(code, ""),
        "code": code,
    }


def _headers(headers: Any) -> dict[str, str]:
    return {key: value for key, value in headers.items() if key.lower() not in HOP_BY_HOP}
