"""A stub API server and a real Api that talks to it."""

import json
import pathlib
from collections.abc import AsyncIterator

import kube_stub
import pytest
from aiohttp import test_utils, web

from extender.kube import client, makers, observing


@pytest.fixture
async def stub() -> AsyncIterator[kube_stub.Stub]:
    scripted = kube_stub.Stub()
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{rest:.*}", scripted.handle)
    async with test_utils.TestServer(app) as server:
        scripted.url = str(server.make_url("/")).rstrip("/")
        yield scripted
        scripted.over.set()
    assert scripted.unforeseen == []


@pytest.fixture
def token_file(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


@pytest.fixture
def kubeconfig(stub: kube_stub.Stub, tmp_path: pathlib.Path, token_file: pathlib.Path) -> str:
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "s", "user": "u"}}],
                "clusters": [{"name": "s", "cluster": {"server": stub.url}}],
                "users": [{"name": "u", "user": {"tokenFile": str(token_file)}}],
            }
        )
    )
    return str(path)


@pytest.fixture
def recorder() -> kube_stub.Recorder:
    return kube_stub.Recorder()


@pytest.fixture
async def api(kubeconfig: str, recorder: kube_stub.Recorder, stub: kube_stub.Stub) -> AsyncIterator[client.Api]:
    async with client.connect(kubeconfig, component="muster-test", observer=recorder) as connected:
        yield connected


@pytest.fixture
def known(api: client.Api) -> makers.Makers:
    """Of what makes pods nothing is known."""
    return makers.Makers(api, "muster-system", lambda _: None, lambda: None, observing.Silent())
