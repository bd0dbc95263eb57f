"""What the page reads: one stream of changes for each reader, and all there is to say of one group.

Takes requests with a token, gives server-sent events and JSON; must not show what the reader may not see, let a slow
reader keep memory, or take time from filter calls. The tables are brought up to date once for all readers, and only
while somebody reads. A reader is sent what changed since it was last sent something, however long that took.

    hello (columns, user, what is seen) ──> rows ... rows ──> at ──> rows ──> at ...     `at` ends what belongs together
      └──rights changed, too far behind, or this replica acts no more──> again, and the end
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson
from aiohttp import web

from extender.core import explain
from extender.core.answers import Answers
from extender.core.reasons import Reason
from extender.core.series import Series
from extender.telemetry import logs
from extender.web import page, serve
from extender.web.access import Access, Denied, namespaces_of
from extender.web.answers import Metrics, ReviewFailed, stepwise
from extender.web.board import COLUMNS, Board, Sees
from extender.web.tables import Change
from extender.wire import answers as wire
from extender.wire import usages
from extender.wire.delegation import User

LOG = logs.Log(__name__)
#: streams that are open at once, and those of one user
STREAMS, STREAMS_EACH = 64, 8
#: rows in one event: what is encoded and written before filter calls get their turn
ROWS = 200
#: the tables are brought up to date so long after the last time, or so many times as long as that took
PAUSE_SECONDS, PAUSE_TIMES = 0.1, 4.0
#: tables of this age are good enough to begin with: what is new follows
FRESH_SECONDS = 10.0
#: a reader hears something so often, and who does not take it in for so long is dropped
BEAT_SECONDS, SLOW_SECONDS = 5.0, 10.0
#: rights are looked at so often
REVIEW_SECONDS = 5.0
#: bytes that may wait in the socket of a reader
_BUFFER = 2**18
#: over how much time the course of use is told
_COURSE_SECONDS = 2 * usages.DAY


class Streams:
    """Serves the page and its readers. `silent` says why there is no answer now."""

    def __init__(
        self,
        answers: Answers,
        series: Series,
        access: Access,
        *,
        silent: Callable[[], Reason | None],
        wall: Callable[[], float],
        metrics: Metrics,
    ) -> None:
        self.board = Board(answers)
        self._answers = answers
        self._series = series
        self._access = access
        self._silent = silent
        self._wall = wall
        self._metrics = metrics
        self._readers: Counter[User] = Counter()
        self._watched = asyncio.Event()
        self._news = asyncio.Event()
        self._closing = asyncio.Event()
        self._renewed_at = float("-inf")

    def application(self) -> web.Application:
        """The page's files, and what it asks for."""
        routes = [
            *page.routes(),
            web.get("/api/stream", self._stream, allow_head=False),
            web.get("/api/workloads/{namespace}/{name}", self._workload, allow_head=False),
            web.get("/api/usage", self._usage, allow_head=False),
        ]
        app = serve.application(routes)
        app.middlewares.append(self._guard)
        app.on_response_prepare.append(page.protect)
        app.on_shutdown.append(self._close)
        return app

    async def run(self) -> None:
        """Keep the tables up to date while there are readers, for ever."""
        while True:
            await self._watched.wait()
            took = 0.0
            try:
                took = await self._renew()
            except Exception as error:
                # a page is never worth the scheduler: who reads sees nothing new until a later round succeeds
                LOG.error("the page's tables could not be brought up to date", fault=error)
            await asyncio.sleep(max(PAUSE_SECONDS, PAUSE_TIMES * took))

    async def _renew(self) -> float:
        """One round; the seconds that it took itself, without the turns of others."""
        took, begun = 0.0, time.perf_counter()
        for _ in self.board.renew(self._wall()):
            took += time.perf_counter() - begun
            await asyncio.sleep(0)
            begun = time.perf_counter()
        self._renewed_at = time.monotonic()
        news, self._news = self._news, asyncio.Event()
        news.set()
        return took

    async def _close(self, _app: web.Application) -> None:
        """Streams end by themselves, so that the server need not wait for them."""
        self._closing.set()
        self._news.set()

    # --- one group ------------------------------------------------------------------------------

    async def _workload(self, request: web.Request) -> web.StreamResponse:
        """The same object that the API of live answers gives."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        user = await self._access.user(request)
        await self._access.must_get(user, namespace, name)
        self._must_act()
        named, key = wire.parse_name(name), None
        if named is not None:
            async for one in stepwise(self._answers.find(namespace, *named)):
                key = one
        now = self._wall()
        async for _ in stepwise(self._answers.count(now)):
            pass
        found = None if key is None else self._answers.workload(key)
        if found is None:
            raise Denied(404, "there is no such group any more")
        return serve.reply(wire.workload(found, now, self._answers.closer(found, now)))

    # --- use over time --------------------------------------------------------------------------

    async def _usage(self, request: web.Request) -> web.StreamResponse:
        """The same object that the API of live answers gives, of all the time that is known."""
        await self._access.must_get_usage(await self._access.user(request))
        self._must_act()
        now = self._wall()
        asked = usages.Asked(now - _COURSE_SECONDS, now, usages.COURSE)
        return serve.reply(usages.usage(self._series, asked, now))

    # --- streams --------------------------------------------------------------------------------

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        user = await self._access.user(request)
        named = namespaces_of(request, user)
        sees = await self._access.sees(user, named)
        if not sees:
            raise Denied(403, f"{user.name} may see nothing here: it needs the right to list {_NEEDED}")
        self._must_act()
        with self._reading(user):
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            response.enable_chunked_encoding()
            await response.prepare(request)
            if request.transport is not None:
                request.transport.set_write_buffer_limits(high=_BUFFER)
            try:
                await self._feed(response, request, user, sees)
            except (ConnectionError, TimeoutError):
                if request.transport is not None:
                    request.transport.abort()  # what it has not read is not worth keeping
            return response

    @contextlib.contextmanager
    def _reading(self, user: User) -> Iterator[None]:
        if self._readers.total() >= STREAMS or self._readers[user] >= STREAMS_EACH:
            raise Denied(429, "too many pages are open; close one and try again")
        self._readers[user] += 1
        self._watched.set()
        try:
            yield
        finally:
            self._readers[user] -= 1
            if not self._readers[user]:
                del self._readers[user]
            if not self._readers:
                self._watched.clear()

    async def _feed(self, response: web.StreamResponse, request: web.Request, user: User, sees: Sees) -> None:
        await _send(response, "hello", {"columns": COLUMNS, "user": user.name, "sees": _seen(sees)})
        if time.monotonic() >= self._renewed_at + FRESH_SECONDS:  # it may be as old as the last reader
            await self._news.wait()
        version, review_at, beat_at = 0, time.monotonic() + REVIEW_SECONDS, 0.0
        while True:
            news = self._news
            changes = self.board.since(version, sees)
            why = self._ending(changes is None)
            if why or changes is None:
                await _send(response, "again", {"message": why})
                return
            version = self.board.version
            if any(changes.values()) or time.monotonic() >= beat_at:
                await self._tell(response, changes)
                beat_at = time.monotonic() + BEAT_SECONDS
            await news.wait()
            if time.monotonic() >= review_at:
                review_at = time.monotonic() + REVIEW_SECONDS
                if not await self._still(request, user, sees):
                    await _send(response, "again", {"message": "your rights have changed"})
                    return

    def _ending(self, behind: bool) -> str:
        if self._closing.is_set():
            return "the server ends"
        silent = self._silent()
        if silent is not None:
            return explain.TEXT[silent]
        return "too far behind" if behind else ""

    async def _still(self, request: web.Request, user: User, sees: Sees) -> bool:
        """Whether the token is still good, and its user may see the same."""
        try:
            again = await self._access.user(request)
            return again == user and await self._access.sees(user, namespaces_of(request, user)) == sees
        except (Denied, ReviewFailed):
            return False

    async def _tell(self, response: web.StreamResponse, changes: dict[str, list[Change]]) -> None:
        for name, of in changes.items():
            for some in _batches(of):
                put = [(one.key, one.row) for one in some if one.row is not None]
                gone = [one.key for one in some if one.row is None]
                await _send(response, "rows", {"table": name, "put": put, "gone": gone})
        await _send(response, "at", {"at": self._wall()})

    # --- refusals -------------------------------------------------------------------------------

    def _must_act(self) -> None:
        silent = self._silent()
        if silent is not None:
            raise Denied(503, explain.TEXT[silent])

    @web.middleware
    async def _guard(self, request: web.Request, handler: serve.Handler) -> web.StreamResponse:
        started = time.perf_counter()
        try:
            response = await handler(request)
        except Denied as error:
            response = serve.reply({"error": str(error)}, error.code)
        except ReviewFailed:
            response = serve.reply({"error": "the API server does not answer; try again"}, 503)
        if not response.prepared:  # a stream lasts as long as its reader likes
            self._metrics.answer("page", response.status, time.perf_counter() - started)
        return response


_NEEDED = f"{wire.WORKLOADS.plural} or {wire.QUEUES.plural} of {wire.GROUP}, in a namespace or in all, or nodes"


def _seen(sees: Sees) -> dict[str, Any]:
    namespaces = None if sees.namespaces is None else sorted(sees.namespaces)
    return {"namespaces": namespaces, "queues": sees.queues, "nodes": sees.nodes}


def _batches(changes: Sequence[Change]) -> Iterable[Sequence[Change]]:
    return (changes[start : start + ROWS] for start in range(0, len(changes), ROWS))


async def _send(response: web.StreamResponse, event: str, content: object) -> None:
    """One event; TimeoutError when the reader does not take it in. Gives filter calls their turn."""
    async with asyncio.timeout(SLOW_SECONDS):
        await response.write(b"event: %b\ndata: %b\n\n" % (event.encode(), orjson.dumps(content)))
    await asyncio.sleep(0)
