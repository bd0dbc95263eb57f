"""Live answers as a whole: served once the certificate is there, to whom the API server vouches for."""

from __future__ import annotations

import pathlib
import shutil
import socket
import ssl
from collections.abc import AsyncIterator

import aiohttp
import kube_stub
import pytest

from extender import answering, settings
from extender.core import messages
from extender.core.engine import Engine
from extender.core.series import Series
from extender.runtime import tasks
from extender.telemetry.metrics import ExtenderMetrics
from extender.wire.delegation import REVIEWS
from tests import builders

CERTS = pathlib.Path(__file__).parents[1] / "web" / "certs"
CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
WORKLOADS = "/apis/visibility.muster.dev/v1alpha1/workloads"
NOW = 1_000_000.0


def published(authority: str, version: str) -> dict:
    return {
        "metadata": {
            "name": "extension-apiserver-authentication",
            "namespace": "kube-system",
            "uid": "u",
            "resourceVersion": version,
        },
        "data": {
            "requestheader-client-ca-file": (CERTS / f"ca-{authority}.crt").read_text(),
            "requestheader-allowed-names": f'["client-{authority}"]',
            "requestheader-username-headers": '["X-Remote-User"]',
        },
    }


class Server:
    """The answers of an engine with one waiting pod, whose certificate is not there yet."""

    def __init__(self, folder: pathlib.Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.pair = settings.KeyPair(str(folder / "tls.crt"), str(folder / "tls.key"))
        self.told = settings.Answers(settings.Listen("127.0.0.1", self.port), self.pair)
        self.metrics = ExtenderMetrics()
        self.engine = Engine(10_000)
        for event in (messages.ActivityChanged(True), builders.seen(builders.make_pod("web")), messages.Tick()):
            self.engine.handle(event, NOW)

    def bring_half(self) -> None:
        pathlib.Path(self.pair.cert).write_text("half of it")

    def bring_certificate(self) -> None:
        shutil.copy(CERTS / "server-a.key", self.pair.key)
        shutil.copy(CERTS / "server-a.crt", self.pair.cert)

    async def status(self, shown: str = "") -> int:
        """The status of a list of workloads; 0 when there is no connection."""
        context = ssl.create_default_context(cafile=str(CERTS / "ca-a.crt"))
        if shown:
            context.load_cert_chain(CERTS / f"{shown}.crt", CERTS / f"{shown}.key")
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(
                    f"https://127.0.0.1:{self.port}{WORKLOADS}", ssl=context, headers={"X-Remote-User": "ann"}
                ) as answer,
            ):
                return answer.status
        except (aiohttp.ClientError, ssl.SSLError, ConnectionError):
            return 0

    async def becomes(self, want: int, shown: str = "") -> None:
        """Return when the status is this; the limit of the test is the deadline."""
        while await self.status(shown) != want:
            pass


@pytest.fixture
async def server(api, stub, recorder, tmp_path, monkeypatch) -> AsyncIterator[Server]:
    monkeypatch.setattr(answering, "LOOK_SECONDS", 0.01)
    made = Server(tmp_path)
    whole = answering.Answering(
        api,
        made.told,
        made.engine,
        Series(),
        silent=lambda: None,
        wall=lambda: NOW,
        metrics=made.metrics,
        observer=recorder,
    )
    stub.on("GET", CONFIG_MAPS, kube_stub.page(published("a", "10"), kind="ConfigMapList"))
    stub.on("WATCH", CONFIG_MAPS, kube_stub.stream())
    stub.on("POST", REVIEWS, kube_stub.ok({"status": {"allowed": True}}, 201))
    async with tasks.Tasks() as running:
        whole.start(running)
        yield made


async def test_nothing_listens_until_the_certificate_is_there_and_can_be_used(server):
    assert await server.status() == 0
    server.bring_half()
    assert await server.status() == 0
    server.bring_certificate()
    await server.becomes(401)
    await server.becomes(200, "client-a")


async def test_who_the_api_server_vouches_for_is_followed_when_it_changes(server, stub):
    changed = kube_stub.event("MODIFIED", published("b", "11"))
    server.bring_certificate()
    await server.becomes(200, "client-a")
    assert await server.status("client-b") == 0
    stub.on("WATCH", CONFIG_MAPS, kube_stub.stream(changed))
    stub.over.set()  # the watch ends, the next one tells of the change
    await server.becomes(200, "client-b")
    assert await server.status("client-a") == 0


async def test_when_the_authorizer_is_away_nobody_is_answered(server, stub):
    stub.on("POST", REVIEWS, kube_stub.fail(500))
    server.bring_certificate()
    await server.becomes(503, "client-a")
