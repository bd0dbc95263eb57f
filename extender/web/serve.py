"""The HTTP server of both processes: what is the same whichever verbs it has.

Takes: routes, an address, perhaps TLS files. Gives: an application that answers in JSON, health and metrics
pages, and a running server. Must not: know verbs, or let a client see what went wrong inside.

kube-scheduler keeps its connections for 90 s and does not repeat a POST that met a closed one, so ours live
for an hour; it wants a Content-Length to use a connection again, which every answer made here has.
"""

from __future__ import annotations

import contextlib
import http
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

import orjson
import prometheus_client
from aiohttp import typedefs, web

from extender import settings
from extender.telemetry import logs
from extender.web import tls

LOG = logs.Log(__name__)
KEEPALIVE_SECONDS = 3600.0
#: a gang of a thousand may call within one turn of the event loop
BACKLOG = 4096
SHUTDOWN_SECONDS = 10.0
SMALL_BODY = 2**20

Ready = Callable[[], str | None]
"""Why the process is not ready, in a few words, or None when it is."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BadRequest(Exception):
    """The client's message cannot be used. The text is shown to it, and must not hold what it sent."""


def application(routes: Iterable[web.AbstractRouteDef], body_limit: int = SMALL_BODY) -> web.Application:
    """An application that answers every failure in JSON, and bodies of more bytes than the limit with 413."""
    app = web.Application(client_max_size=body_limit, middlewares=[_answer_failures, _refuse_early(body_limit)])
    app.add_routes(list(routes))
    return app


def _refuse_early(body_limit: int) -> typedefs.Middleware:
    """Refuses a body by the length that its head promises: one that is too large is not waited for."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        promised = request.content_length or 0
        if promised > body_limit:
            raise web.HTTPRequestEntityTooLarge(body_limit, promised)
        return await handler(request)

    return check


@contextlib.asynccontextmanager
async def serve(
    app: web.Application,
    listen: settings.Listen,
    files: settings.Tls | ssl.SSLContext | None = None,
    *,
    cancel_abandoned: bool = False,
    option: str = "--listen",
) -> AsyncIterator[int]:
    """Serve inside the block, and give the port; settings.Unusable, which names the option, when that cannot be.

    At the end no new call is taken, and those in progress are finished. The application's `on_shutdown` runs
    before that wait, so that it can answer the calls that it holds.
    `cancel_abandoned` cancels a handler whose client went away.
    """
    context = tls.server_context(files) if isinstance(files, settings.Tls) else files
    runner = web.AppRunner(
        app,
        access_log=None,
        keepalive_timeout=KEEPALIVE_SECONDS,
        shutdown_timeout=SHUTDOWN_SECONDS,
        handler_cancellation=cancel_abandoned,
    )
    await runner.setup()
    try:
        await _open(web.TCPSite(runner, listen.host, listen.port, backlog=BACKLOG, ssl_context=context), option)
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _open(site: web.TCPSite, option: str) -> None:
    try:
        await site.start()
    except OSError as error:
        raise settings.Unusable(f"{option}: {error.strerror}; choose a free port and an own address") from error


@contextlib.asynccontextmanager
async def metrics(
    registry: prometheus_client.CollectorRegistry, listen: settings.Listen | None
) -> AsyncIterator[int | None]:
    """Serve /metrics and nothing else inside the block, if there is an address for it."""
    if listen is None:
        yield None
        return
    app = application([web.get("/metrics", _metrics_of(registry))], SMALL_BODY)
    async with serve(app, listen, option="--metrics-listen") as port:
        yield port


def health_routes(ready: Ready, registry: prometheus_client.CollectorRegistry) -> list[web.RouteDef]:
    """/healthz says that the event loop turns; /readyz whether calls are wanted yet; /metrics all figures."""

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        reason = ready()
        return web.Response(text="ok\n") if reason is None else web.Response(status=503, text=f"{reason}\n")

    return [web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", _metrics_of(registry))]


def _metrics_of(registry: prometheus_client.CollectorRegistry) -> Handler:
    async def show_metrics(_request: web.Request) -> web.Response:
        body = prometheus_client.generate_latest(registry)
        return web.Response(body=body, headers={"Content-Type": prometheus_client.CONTENT_TYPE_LATEST})

    return show_metrics


def debug_route(name: str, handler: Handler) -> web.RouteDef:
    """GET /debug/<name>, for clients of this host (or pod) only: it may show anybody's objects."""

    async def from_here_only(request: web.Request) -> web.StreamResponse:
        if not _from_loopback(request):
            raise web.HTTPForbidden
        return await handler(request)

    return web.get(f"/debug/{name}", from_here_only)


def reply(content: object, status: int = 200) -> web.Response:
    """An answer in JSON; bytes are taken for JSON already."""
    body = content if isinstance(content, bytes) else orjson.dumps(content)
    return web.Response(body=body, status=status, content_type="application/json")


async def read_body(request: web.Request) -> bytes:
    """The whole body, or BadRequest: a client that went away, or packed badly, is no fault of ours."""
    try:
        return await request.read()
    except (web.RequestPayloadError, ConnectionError) as error:
        raise BadRequest("the body did not arrive whole") from error


@web.middleware
async def _answer_failures(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except BadRequest as error:
        return _failure(400, str(error))
    except web.HTTPException as error:
        return _refusal(error)
    except Exception as error:
        # the client gets a constant text; names of files and lines are for the log
        LOG.error("a handler failed", fault=error, method=request.method, path=request.path)
        return _failure(500, "internal error; the log of the process says more")


def _refusal(error: web.HTTPException) -> web.Response:
    """aiohttp's own refusals: no such path, no such method, too large."""
    answer = _failure(error.status, http.HTTPStatus(error.status).phrase)
    if "Allow" in error.headers:
        answer.headers["Allow"] = error.headers["Allow"]
    return answer


def _failure(status: int, text: str) -> web.Response:
    return reply({"error": text}, status)


def _from_loopback(request: web.Request) -> bool:
    """True when the connection, whatever headers say, comes from this host."""
    peer = request.transport.get_extra_info("peername") if request.transport else None
    try:
        return peer is not None and ipaddress.ip_address(peer[0]).is_loopback
    except ValueError:
        return False
