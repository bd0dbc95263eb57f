"""One call to the API server.

Takes: a method, a path, JSON. Gives: the raw bytes of a success, or an exception of `errors`. Must not:
retry (but for a refused token, when nothing was done), follow redirects, or use the client library's
models: those are far too slow, and raise for a binding that succeeded.

Writes, reads and watches have a pool of connections each, so that a look at the Lease or at a pod never
waits behind a gang's binds, and watches take nothing from either. Every call has a time limit for its
answer, and another one for its wait in the pool: a thousand binds wait for each other, which is no failure
of any of them.
"""

import asyncio
import contextlib
import importlib.metadata
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import orjson
import yarl

from extender.kube import credentials, errors, observing

CALL_SECONDS = 10.0
CONNECT_SECONDS = 10.0
#: how long a write may wait for a connection before that counts as a failure
QUEUE_SECONDS = 20.0
#: Measured with 500 binds at once over TLS on 2 busy cores, no connection open yet: 64 connections cost 0.7 s of
#: our CPU; 256 cost 1.2 to 1.9 s for the handshakes, and once a third of the binds ran into their time limit.
WRITE_CONNECTIONS = 32
READ_CONNECTIONS = 32
#: below the 90 s after which the API server closes idle connections; a gang finds warm ones
KEEPALIVE_SECONDS = 60.0
#: a list page is at most this; `watch` asks for smaller pages when one is larger
BODY_LIMIT = 32 * 2**20
#: how much of a burst waits in our process before the API server feels it; it closes watches that read slowly
WATCH_BUFFER = 4 * 2**20
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

Query = Mapping[str, str]


class Api:
    """An authenticated way to one API server; made by `connect`."""

    def __init__(
        self,
        access: credentials.Credentials,
        writes: aiohttp.ClientSession,
        reads: aiohttp.ClientSession,
        watches: aiohttp.ClientSession,
        observer: observing.Observer,
    ) -> None:
        self.access = access
        self._writes = writes
        self._reads = reads
        self._watches = watches
        self._observer = observer
        self._base = access.host

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout: float = CALL_SECONDS,  # noqa: ASYNC109 - the limit is aiohttp's, and becomes Unreachable
        queue: float = QUEUE_SECONDS,
    ) -> bytes:
        """Do one call, return the success's body; `body` is JSON data, or bytes to be sent as they are.

        `timeout` is for the answer, `queue` is added for the wait in the pool.
        """
        data = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        headers = {} if data is None else {"Content-Type": content_type}
        limit = aiohttp.ClientTimeout(total=timeout + queue, sock_read=timeout)
        session = self._reads if method == "GET" else self._writes
        async with self._answer(session, method, path, query, data, headers, limit) as response:
            return await read_bounded(response, BODY_LIMIT)

    async def read(
        self,
        path: str,
        *,
        query: Query | None = None,
        timeout: float = CALL_SECONDS,  # noqa: ASYNC109 - as above
    ) -> dict[str, Any]:
        """GET one JSON object."""
        return decode_object(await self.request("GET", path, query=query, timeout=timeout, queue=0.0))

    @contextlib.asynccontextmanager
    async def stream(self, path: str, query: Query, idle_seconds: float) -> AsyncIterator[aiohttp.StreamReader]:
        """GET an answer without end; `idle_seconds` without a byte end it as Unreachable."""
        limit = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=idle_seconds)
        async with self._answer(self._watches, "GET", path, query, None, {}, limit) as response:
            _keep_alive(response)
            yield response.content

    @contextlib.asynccontextmanager
    async def _answer(
        self,
        session: aiohttp.ClientSession,
        method: str,
        path: str,
        query: Query | None,
        data: bytes | None,
        headers: dict[str, str],
        limit: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        verb = "WATCH" if session is self._watches else method
        started, status = _now(), "cancelled"
        try:
            async with self._send(session, method, self._url(path, query), data, headers, limit) as response:
                status = str(response.status)
                yield response
        except errors.ApiError as error:
            status = str(error.status)
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            status = errors.Unreachable.kind
            raise errors.Unreachable(f"{method} {path}: {_describe(error)}") from error
        finally:
            self._observer.request_done(verb, label_of(path), status, _now() - started)

    @contextlib.asynccontextmanager
    async def _send(
        self,
        session: aiohttp.ClientSession,
        method: str,
        url: yarl.URL,
        data: bytes | None,
        headers: dict[str, str],
        limit: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer if it is a success. After a 401, when nothing was done, a fresh token is tried once."""
        configuration = self.access.configuration
        for last in (False, True):
            token = await self.access.header()
            async with session.request(
                method,
                url,
                data=data,
                headers=headers | ({} if token is None else {"Authorization": token}),
                timeout=limit,
                allow_redirects=False,
                proxy=configuration.proxy,
                proxy_headers=configuration.proxy_headers,
                server_hostname=configuration.tls_server_name,
            ) as response:
                if response.status // 100 == 2:
                    yield response
                    return
                error = errors.from_answer(response.status, response.headers, await _read_error(response))
            if last or error.status != 401 or not await self.access.refused(token):
                raise error

    def _url(self, path: str, query: Query | None) -> yarl.URL:
        url = yarl.URL(self._base + path, encoded=True)
        return url.with_query(dict(query)) if query else url


@contextlib.asynccontextmanager
async def connect(
    kubeconfig: str | None,
    context: str | None = None,
    *,
    component: str,
    observer: observing.Observer,
) -> AsyncIterator[Api]:
    """Open the pools to the API server of a kubeconfig file, or of our own cluster when none is named.

    `component` is the name in the User-Agent, such as `muster-extender`. Nothing is sent yet.
    """
    access = await credentials.load(kubeconfig, context)
    headers = {
        "User-Agent": f"{component}/{importlib.metadata.version('muster')}",
        "Accept": JSON,
        # compressing costs more than loopback or a data centre's network does
        "Accept-Encoding": "identity",
    }
    # a context takes long to load; plain HTTP, as to `kubectl proxy`, has no use for one
    secure = credentials.ssl_context(access.configuration) if access.host.startswith("https") else True

    def pool(connections: int, buffer: int = 2**16) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=connections, ssl=secure, keepalive_timeout=KEEPALIVE_SECONDS)
        return aiohttp.ClientSession(connector=connector, headers=headers, read_bufsize=buffer)

    async with (
        pool(WRITE_CONNECTIONS) as writes,
        pool(READ_CONNECTIONS) as reads,
        pool(0, WATCH_BUFFER) as watches,  # no limit: there is one for each watched resource
    ):
        yield Api(access, writes, reads, watches, observer)


def decode_object(body: bytes) -> dict[str, Any]:
    """A JSON object, or Unreadable."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise errors.Unreadable(f"not JSON: {error}") from error
    if not isinstance(content, dict):
        raise errors.Unreadable(f"a JSON {type(content).__name__} in place of an object")
    return content


def label_of(path: str) -> str:
    """The resource that a path names, without the names of objects, so that it is fit for a label.

    >>> label_of("/apis/muster.dev/v1alpha1/queues/q/status")
    'queues.muster.dev/status'
    """
    parts = path.strip("/").split("/")
    if parts[0] not in ("api", "apis"):
        return parts[0]
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1] if len(parts) > 1 else "", parts[3:])
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    if not rest:
        return "discovery"
    resource = f"{rest[0]}.{group}" if group else rest[0]
    return "/".join([resource, *rest[2:3]])


async def read_bounded(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The whole body, or errors.Unreadable when it is of more bytes than `most`."""
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > most:
            response.close()
            raise errors.Unreadable(f"an answer of more than {most} bytes")
        parts.append(part)
    return b"".join(parts)


async def _read_error(response: aiohttp.ClientResponse) -> bytes:
    """The body of an error: its status is what counts, so a broken or huge one is no failure of its own."""
    try:
        return await read_bounded(response, BODY_LIMIT)
    except (aiohttp.ClientError, TimeoutError, OSError, errors.Unreadable):
        return b""


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    """Let the kernel find a peer that vanished within half a minute: a watch is silent for long."""
    transport = response.connection.transport if response.connection else None
    sock = transport.get_extra_info("socket") if transport else None
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):  # not every platform has all of them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__} {error}".strip()[: errors.MESSAGE_LIMIT]


def _now() -> float:
    return asyncio.get_running_loop().time()
