"""The shared server: bad input gets a short answer and never a stack trace, good input gets a whole one."""

import asyncio
import contextlib
import gzip
import io
import json
import logging

import aiohttp
import prometheus_client
import pytest
from aiohttp import web

from extender import settings
from extender.web import serve

HERE = settings.Listen("127.0.0.1", 0)
LIMIT = 64 * 2**20


class Process:
    """What a process would put behind the server."""

    def __init__(self) -> None:
        self.reason: str | None = "lists the cluster"
        self.registry = prometheus_client.CollectorRegistry()
        self.entered = asyncio.Event()
        self.release = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def echo(self, request: web.Request) -> web.Response:
        return serve.reply(await serve.read_body(request))

    async def size(self, request: web.Request) -> web.Response:
        return serve.reply({"names": len(json.loads(await serve.read_body(request))["NodeNames"])})

    async def fail(self, request: web.Request) -> web.Response:
        raise KeyError("a secret of the inside")

    async def hold(self, request: web.Request) -> web.Response:
        self.entered.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return serve.reply({"held": True})

    def application(self) -> web.Application:
        routes = [
            *serve.health_routes(lambda: self.reason, self.registry),
            serve.debug_route("state", self.state),
            web.post("/echo", self.echo),
            web.post("/size", self.size),
            web.post("/fail", self.fail),
            web.post("/hold", self.hold),
        ]
        return serve.application(routes, LIMIT)

    async def state(self, request: web.Request) -> web.Response:
        return serve.reply({"pods": 3})


@pytest.fixture
async def process() -> Process:
    return Process()


@pytest.fixture
async def client(process):
    async with (
        serve.serve(process.application(), HERE) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        yield session


async def test_readiness_gives_the_reason_until_there_is_none(process, client):
    async with client.get("/readyz") as answer:
        assert (answer.status, await answer.text()) == (503, "lists the cluster\n")
    process.reason = None
    async with client.get("/readyz") as answer:
        assert (answer.status, await answer.text()) == (200, "ok\n")


async def test_health_does_not_wait_for_readiness(client):
    async with client.get("/healthz") as answer:
        assert (answer.status, await answer.text()) == (200, "ok\n")


async def test_metrics_are_those_of_the_registry(process, client):
    prometheus_client.Gauge("held", "Held.", registry=process.registry).set(5)
    async with client.get("/metrics") as answer:
        assert answer.content_type == "text/plain"
        assert "held 5.0" in await answer.text()


async def test_a_body_packed_badly_is_the_fault_of_the_client(client, caplog):
    async with client.post("/echo", data=b"abcd", headers={"Content-Encoding": "gzip"}) as answer:
        assert (answer.status, await answer.json()) == (400, {"error": "the body did not arrive whole"})
    assert [record for record in caplog.records if record.name.startswith("extender")] == []


async def test_a_client_that_goes_away_within_its_body_is_no_failure_of_ours(process, client, caplog):
    read = asyncio.Event()

    async def note(request: web.Request) -> web.Response:
        try:
            return await process.echo(request)
        finally:
            read.set()

    app = serve.application([web.post("/echo", note)])
    async with serve.serve(app, HERE) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
        await writer.drain()
        writer.close()
        await asyncio.wait_for(read.wait(), 5)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


REFUSALS = {
    "an unknown path": ("POST", "/nothing", 404, "Not Found"),
    "a path that climbs": ("GET", "/debug/../../etc/passwd", 404, "Not Found"),
    "a method that nobody serves": ("DELETE", "/echo", 405, "Method Not Allowed"),
    "the wrong method": ("GET", "/echo", 405, "Method Not Allowed"),
}


@pytest.mark.parametrize(("method", "path", "status", "error"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_what_is_not_served_is_refused_in_json(method, path, status, error, client):
    async with client.request(method, path) as answer:
        assert answer.status == status
        assert await answer.json() == {"error": error}
        assert (status == 405) is ("Allow" in answer.headers)


async def test_a_failing_handler_tells_the_log_everything_and_the_client_nothing(client, caplog):
    async with client.post("/fail", json={}) as answer:
        text = await answer.text()
    assert answer.status == 500
    assert json.loads(text) == {"error": "internal error; the log of the process says more"}
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "a secret of the inside" in logging.Formatter().formatException(record.exc_info)
    assert record.muster_fields == {"method": "POST", "path": "/fail"}


async def test_ten_mebibytes_and_more_names_than_any_cluster_has_pass(client):
    names = [f"node-{number:05d}." + "x" * 240 for number in range(42_000)]
    body = io.BytesIO(json.dumps({"NodeNames": names}).encode())
    async with client.post("/size", data=body) as answer:
        assert answer.status == 200
        assert await answer.json() == {"names": 42_000}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed small"])
async def test_a_body_over_the_limit_is_refused_and_not_kept(packed, process):
    app = serve.application([web.post("/echo", process.echo)], body_limit=1000)
    body = b'"' + b"x" * 5000 + b'"'
    data, headers = (gzip.compress(body), {"Content-Encoding": "gzip"}) if packed else (body, {})
    async with (
        serve.serve(app, HERE) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
        session.post("/echo", data=data, headers=headers) as answer,
    ):
        assert answer.status == 413
        assert "error" in await answer.json()


async def test_answers_have_a_length_and_the_connection_stays(process, client):
    reader, writer = await asyncio.open_connection("127.0.0.1", client._base_url.port)
    for _ in range(2):
        writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Content-Length: 2\r\n" in head
        assert b"Transfer-Encoding" not in head
        assert b"Content-Type: application/json" in head
        assert await reader.readexactly(2) == b"{}"
    writer.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    ],
    ids=["a TLS hello", "a version to come", "a negative length"],
)
async def test_what_is_not_http_harms_nobody(garbage, client):
    reader, writer = await asyncio.open_connection("127.0.0.1", client._base_url.port)
    writer.write(garbage + b"\r\n\r\n")
    writer.write_eof()
    said = await reader.read()
    writer.close()
    assert b"Traceback" not in said
    assert b'.py"' not in said
    async with client.get("/healthz") as answer:
        assert answer.status == 200


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_fault_of_ours(client, caplog):
    reader, writer = await asyncio.open_connection("127.0.0.1", client._base_url.port)
    writer.write(b'POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"a":')
    await writer.drain()
    writer.write_eof()
    await reader.read()
    writer.close()
    async with client.get("/healthz") as answer:
        assert answer.status == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_head_that_promises_too_much_is_answered_before_the_body_comes(client):
    reader, writer = await asyncio.open_connection("127.0.0.1", client._base_url.port)
    writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_debug_pages_are_shown_to_this_host(client):
    async with client.get("/debug/state") as answer:
        assert await answer.json() == {"pods": 3}


class Elsewhere:
    """A transport whose other end is not here."""

    def __init__(self, peer) -> None:
        self.peer = peer

    def get_extra_info(self, name: str):
        return self.peer if name == "peername" else None


@pytest.mark.parametrize(
    ("peer", "want"),
    [
        (("127.0.0.1", 4711), True),
        (("::1", 4711, 0, 0), True),
        (("10.0.0.7", 4711), False),
        (("fe80::1%eth0", 4711, 0, 2), False),
        (("", 0), False),
        (None, False),
    ],
    ids=str,
)
def test_who_is_from_here_is_told_by_the_connection(peer, want):
    class Request:
        transport = Elsewhere(peer)
        remote = "127.0.0.1"

    assert serve._from_loopback(Request()) is want


async def test_a_stop_takes_no_new_calls_and_finishes_those_in_progress(process):
    stack = contextlib.AsyncExitStack()
    port = await stack.enter_async_context(serve.serve(process.application(), HERE))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        held = asyncio.create_task(session.post("/hold"))
        await process.entered.wait()
        stop = asyncio.create_task(stack.aclose())
        await refused(port)
        process.release.set()
        async with await held as answer:
            assert await answer.json() == {"held": True}
        await stop


async def test_the_application_may_answer_what_it_holds_when_the_stop_begins(process):
    app = process.application()

    async def answer_all(_app: web.Application) -> None:
        process.release.set()

    app.on_shutdown.append(answer_all)
    stack = contextlib.AsyncExitStack()
    port = await stack.enter_async_context(serve.serve(app, HERE))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        held = asyncio.create_task(session.post("/hold"))
        await process.entered.wait()
        await stack.aclose()
        async with await held as answer:
            assert await answer.json() == {"held": True}


async def test_an_abandoned_handler_is_cancelled_where_that_is_asked_for(process):
    async with serve.serve(process.application(), HERE, cancel_abandoned=True) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        await process.entered.wait()
        writer.close()
        await asyncio.wait_for(process.cancelled.wait(), 5)


async def test_an_address_that_is_taken_is_told_with_the_option(process, client):
    taken = settings.Listen("127.0.0.1", client._base_url.port)
    with pytest.raises(settings.Unusable, match=r"--listen: .*address already in use; choose a free port"):
        async with serve.serve(Process().application(), taken):
            pass


async def refused(port: int) -> None:
    """Return when the port takes no more connections; the limit of the test is the deadline."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return
        writer.close()
        await asyncio.sleep(0)


async def test_metrics_alone_are_served_where_anybody_may_come():
    registry = prometheus_client.CollectorRegistry()
    prometheus_client.Gauge("things", "Some.", registry=registry).set(3)
    async with serve.metrics(registry, HERE) as port, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        async with session.get("/metrics") as answer:
            assert (answer.status, "things 3.0" in await answer.text()) == (200, True)
        for path in ("/", "/healthz", "/debug/state", "/filter"):
            async with session.get(path) as answer:
                assert answer.status == 404
        async with session.post("/metrics", data=b"x") as answer:
            assert answer.status == 405
    async with serve.metrics(registry, None) as port:
        assert port is None
