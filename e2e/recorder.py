"""An HTTP forwarder between kube-scheduler and the extender or the gate that keeps every call and its answer.

Takes the address to forward to; gives its own address and the exchanges so far. It runs in a thread with a loop of its
own. Must not change a byte of what it passes.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Coroutine
from typing import Any

import aiohttp
from aiohttp import web

from e2e.cluster import process

LIMIT = 64 * 2**20


@dataclasses.dataclass(frozen=True)
class Exchange:
    """One call and its answer, as they were on the wire."""

    verb: str
    request: bytes
    status: int
    reply: bytes


class Recorder:
    """The running forwarder. Use as a context manager."""

    def __init__(self, upstream: str) -> None:
        self.url = f"http://127.0.0.1:{process.free_port()}"
        self.exchanges: list[Exchange] = []
        self._upstream = upstream
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="recorder", daemon=True)
        self._session: aiohttp.ClientSession
        self._runner: web.AppRunner

    def __enter__(self) -> Recorder:
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        app = web.Application(client_max_size=LIMIT)
        app.router.add_post("/{verb}", self._forward)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", int(self.url.rpartition(":")[2]), shutdown_timeout=1).start()

    async def _stop(self) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def _forward(self, request: web.Request) -> web.Response:
        verb, body = request.match_info["verb"], await request.read()
        headers = {"Content-Type": request.headers.get("Content-Type", "application/json")}
        async with self._session.post(f"{self._upstream}/{verb}", data=body, headers=headers) as answer:
            reply = await answer.read()
        self.exchanges.append(Exchange(verb, body, answer.status, reply))
        return web.Response(body=reply, status=answer.status, content_type=answer.content_type)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)
