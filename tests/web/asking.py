"""The server of live answers over real TLS, and who asks it; shared by the tests of what is answered.

Takes what a test changes (the engine, who is believed, what is allowed), gives a reader; must not hold expectations.
"""

from __future__ import annotations

import io
import json
import pathlib
import ssl
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from extender import settings
from extender.core import messages
from extender.core.answers import Answers
from extender.core.engine import Engine
from extender.core.reasons import Reason
from extender.core.series import Series
from extender.web import answers, serve, tls
from extender.wire.delegation import Asked, Decision, FrontProxy, User
from tests import builders

CERTS = pathlib.Path(__file__).parent / "certs"
API = "/apis/visibility.muster.dev/v1alpha1"
NOW = 1_000_000.0
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def authority(of: str) -> str:
    return (CERTS / f"ca-{of}.crt").read_text()


def front_proxy(*names: str, of: str = "a") -> FrontProxy:
    return FrontProxy(
        authority(of), frozenset(names), ("x-remote-user",), (), ("x-remote-group",), ("x-remote-extra-",)
    )


@dataclass
class World:
    """What the server is told, changed by a test at will."""

    engine: Engine = field(default_factory=lambda: Engine(10_000))
    series: Series = field(default_factory=Series)
    proxy: FrontProxy | None = field(default_factory=lambda: front_proxy("client-a"))
    decision: Decision | Exception = field(default_factory=lambda: Decision(True))
    silent: Reason | None = None
    reviewed: list[tuple[User, Asked]] = field(default_factory=list)
    told: list[tuple[str, int]] = field(default_factory=list)

    async def review(self, user: User, asked: Asked) -> Decision:
        self.reviewed.append((user, asked))
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision

    def answer(self, resource: str, code: int, seconds: float) -> None:
        assert seconds >= 0
        self.told.append((resource, code))

    def see(self, *things: Any) -> None:
        for thing in things:
            self.engine.handle(builders.seen(thing), NOW)
        self.engine.handle(messages.Tick(), NOW)


@pytest.fixture
def world() -> World:
    made = World()
    made.engine.handle(messages.ActivityChanged(True), NOW)
    return made


@pytest.fixture
async def port(world):
    handlers = answers.Handlers(
        Answers(world.engine),
        world.series,
        front_proxy=lambda: world.proxy,
        review=world.review,
        silent=lambda: world.silent,
        wall=lambda: NOW,
        metrics=world,
    )
    pair = settings.KeyPair(str(CERTS / "server-a.crt"), str(CERTS / "server-a.key"))
    context = tls.asking_context(pair, lambda: world.proxy.authority if world.proxy else "")
    async with serve.serve(handlers.application(), settings.Listen("127.0.0.1", 0), context) as number:
        yield number


def context(shown: str | None) -> ssl.SSLContext:
    """A client that trusts the server and shows a certificate, or none."""
    made = ssl.create_default_context(cafile=str(CERTS / "ca-a.crt"))
    if shown is not None:
        made.load_cert_chain(CERTS / f"{shown}.crt", CERTS / f"{shown}.key")
    return made


@dataclass
class Reader:
    """Asks as kube-apiserver does for a user."""

    port: int
    session: aiohttp.ClientSession

    async def ask(
        self, path: str, *, method: str = "GET", shown: str | None = "client-a", user: str = "ann", **headers: str
    ) -> tuple[int, Any, aiohttp.ClientResponse]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()} | (
            {"X-Remote-User": user} if user else {}
        )
        url = f"https://127.0.0.1:{self.port}{path}"
        async with self.session.request(method, url, headers=sent, ssl=context(shown)) as answer:
            plain = answer.content_type != "application/json"
            return answer.status, await (answer.text() if plain else answer.json()), answer

    async def post(self, path: str, content: Any) -> tuple[int, Any, aiohttp.ClientResponse]:
        """The same with a body: JSON data, or bytes."""
        body = io.BytesIO(content if isinstance(content, bytes) else json.dumps(content).encode())
        url, sent = f"https://127.0.0.1:{self.port}{path}", {"X-Remote-User": "ann", "Content-Type": "application/json"}
        async with self.session.post(url, headers=sent, ssl=context("client-a"), data=body) as answer:
            return answer.status, await answer.json(), answer

    async def get(self, path: str, **options: str) -> Any:
        """An answer that is wanted to succeed."""
        status, body, _ = await self.ask(f"{API}/{path}", **options)
        assert status == 200, body
        return body

    async def refused(self, path: str, **options: Any) -> tuple[int, str]:
        """Status and reason of a refusal, which must be a sound Status object."""
        status, body, _ = await self.ask(path if path.startswith("/") else f"{API}/{path}", **options)
        assert (body["kind"], body["apiVersion"], body["status"]) == ("Status", "v1", "Failure")
        assert body["code"] == status
        assert body["message"]
        return status, body["reason"]


@pytest.fixture
async def reader(port):
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        yield Reader(port, session)
