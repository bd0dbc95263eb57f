# ruff: noqa: ASYNC240 - the files are tiny, and nobody else is on the loop
"""One call: what each kind of answer becomes, what is sent, and how credentials stay fresh."""

import asyncio
import json
import pathlib
import ssl
from typing import Any

import kube_stub
import pytest
from aiohttp import web
from kube_stub import fail, hang, ok, reset
from kubernetes_asyncio.client import Configuration

from extender.kube import client, credentials, errors, observing

ANSWERS: dict[str, tuple[kube_stub.Answer, type[errors.KubeError], dict[str, Any]]] = {
    "400 is a plain refusal": (fail(400, "BadRequest"), errors.ApiError, {"status": 400, "kind": "refused"}),
    "401 with no other token is Unauthorized": (fail(401), errors.Unauthorized, {"status": 401}),
    "403 is Forbidden": (fail(403, "Forbidden", "no"), errors.Forbidden, {"message": "no"}),
    "404 is NotFound": (fail(404, "NotFound"), errors.NotFound, {"reason": "NotFound"}),
    "409 is Conflict": (fail(409, "Conflict"), errors.Conflict, {"status": 409}),
    "410 is Gone": (fail(410, "Expired"), errors.Gone, {"reason": "Expired"}),
    "422 is Invalid": (fail(422, "Invalid"), errors.Invalid, {"status": 422}),
    "429 without a header waits a second": (fail(429), errors.TooManyRequests, {"retry_after": 1.0}),
    "429 keeps the header's seconds": (
        fail(429, headers={"Retry-After": "7"}),
        errors.TooManyRequests,
        {"retry_after": 7.0},
    ),
    "429 prefers the header to the details": (
        fail(429, headers={"Retry-After": "2"}, retryAfterSeconds=9),
        errors.TooManyRequests,
        {"retry_after": 2.0},
    ),
    "429 with seconds in the details only": (
        fail(429, retryAfterSeconds=9),
        errors.TooManyRequests,
        {"retry_after": 9.0},
    ),
    "429 with a date waits a second": (
        fail(429, headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}),
        errors.TooManyRequests,
        {"retry_after": 1.0},
    ),
    "429 with an absurd time is bounded": (
        fail(429, headers={"Retry-After": "99999"}),
        errors.TooManyRequests,
        {"retry_after": 60.0},
    ),
    "429 with a negative time waits a second": (
        fail(429, headers={"Retry-After": "-5"}),
        errors.TooManyRequests,
        {"retry_after": 1.0},
    ),
    "causes are kept": (
        fail(429, causes=[{"reason": "DisruptionBudget"}, "odd", {"reason": 3}]),
        errors.TooManyRequests,
        {"causes": ("DisruptionBudget", "")},
    ),
    "500 is ServerError without a wait": (fail(500), errors.ServerError, {"retry_after": None}),
    "503 may ask to wait": (
        fail(503, headers={"Retry-After": "3"}),
        errors.ServerError,
        {"retry_after": 3.0},
    ),
    "504 is ServerError": (fail(504, "Timeout"), errors.ServerError, {"status": 504}),
    "a redirect is not followed": (ok(b"", 302), errors.ApiError, {"status": 302}),
    "a long message is cut": (fail(403, message="x" * 1000), errors.Forbidden, {"message": "x" * 300}),
    "an error body that is no JSON is not shown": (ok(b"<html>", 500), errors.ServerError, {"message": ""}),
    "an error body of another kind is not shown": (
        ok({"message": "secret"}, 500),
        errors.ServerError,
        {"message": ""},
    ),
    "a Status of odd types is empty": (
        ok({"kind": "Status", "reason": 1, "message": [], "details": "x"}, 409),
        errors.Conflict,
        {"reason": "", "message": "", "causes": ()},
    ),
    "a connection that breaks is Unreachable": (reset, errors.Unreachable, {"kind": "unreachable"}),
    "no answer in time is Unreachable": (hang, errors.Unreachable, {"kind": "unreachable"}),
}


@pytest.mark.parametrize(("answer", "want", "attributes"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_every_answer_has_its_exception(
    api: client.Api,
    stub: kube_stub.Stub,
    recorder: kube_stub.Recorder,
    answer: kube_stub.Answer,
    want: type[errors.KubeError],
    attributes: dict[str, Any],
) -> None:
    stub.on("POST", "/api/v1/namespaces", answer)
    with pytest.raises(errors.KubeError) as caught:
        await api.request("POST", "/api/v1/namespaces", body={}, timeout=0.2)
    assert type(caught.value) is want
    assert {name: getattr(caught.value, name) for name in attributes} == attributes
    status = str(caught.value.status) if isinstance(caught.value, errors.ApiError) else "unreachable"
    assert recorder.requests == [("POST", "namespaces", status)]
    assert stub.verbs() == ["POST"], "a write is never sent twice by the client"


async def test_a_failed_connection_chains_its_cause(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("POST", "/x", reset)
    with pytest.raises(errors.Unreachable) as caught:
        await api.request("POST", "/x")
    assert caught.value.__cause__ is not None


async def test_a_port_that_nobody_serves_is_unreachable(
    stub: kube_stub.Stub, kubeconfig: str, unused_tcp_port: int
) -> None:
    moved = pathlib.Path(kubeconfig).read_text().replace(stub.url, f"http://127.0.0.1:{unused_tcp_port}")
    pathlib.Path(kubeconfig).write_text(moved)
    async with client.connect(kubeconfig, component="c", observer=observing.Silent()) as api:
        with pytest.raises(errors.Unreachable):
            await api.read("/version")


async def test_a_call_says_who_asks_and_what_it_accepts(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("PATCH", "/api/v1/nodes/n", ok({}))
    await api.request("PATCH", "/api/v1/nodes/n", query={"a": "x y&z"}, body={"k": 1}, content_type=client.MERGE_PATCH)
    (asked,) = stub.asked
    assert asked.headers["User-Agent"].startswith("muster-test/")
    assert asked.headers["Accept-Encoding"] == "identity"
    assert asked.headers["Content-Type"] == "application/merge-patch+json"
    assert asked.headers["Authorization"] == "Bearer first"
    assert (asked.query, asked.body) == ({"a": "x y&z"}, {"k": 1})


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff"], ids=["empty", "cut", "a list", "no UTF-8"])
async def test_a_read_that_is_no_json_object_is_unreadable(api: client.Api, stub: kube_stub.Stub, body: bytes) -> None:
    stub.on("GET", "/version", ok(body))
    with pytest.raises(errors.Unreadable):
        await api.read("/version")


async def test_a_body_without_bounds_is_not_taken(
    api: client.Api, stub: kube_stub.Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "BODY_LIMIT", 1000)
    stub.on("GET", "/version", ok(b"x" * 5000), ok({"fine": True}))
    with pytest.raises(errors.Unreadable):
        await api.read("/version")
    assert await api.read("/version") == {"fine": True}


async def test_a_full_pool_of_writes_delays_neither_reads_nor_watches(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("POST", "/slow", hang)
    stub.on("GET", "/version", ok({}))
    stub.on("WATCH", "/w", kube_stub.stream({"type": "x"}))
    calls = [asyncio.create_task(api.request("POST", "/slow")) for _ in range(client.WRITE_CONNECTIONS)]
    await kube_stub.until(lambda: stub.count("POST", "/slow") == client.WRITE_CONNECTIONS)
    with pytest.raises(errors.Unreachable):
        await api.request("POST", "/slow", timeout=0.05, queue=0.05)
    assert stub.count("POST", "/slow") == client.WRITE_CONNECTIONS, "it was never sent"
    assert await api.read("/version", timeout=2.0) == {}
    async with api.stream("/w", {"watch": "1"}, 5.0) as content:
        assert await content.readline() == b'{"type": "x"}\n'
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_the_wait_in_the_pool_does_not_count_against_the_answer(api: client.Api, stub: kube_stub.Stub) -> None:
    async def slow(server: kube_stub.Stub, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.1)
        return web.json_response({})

    stub.on("POST", "/slow", slow)
    calls = [api.request("POST", "/slow", timeout=0.5, queue=10.0) for _ in range(8 * client.WRITE_CONNECTIONS)]
    assert len(await asyncio.gather(*calls)) == 8 * client.WRITE_CONNECTIONS


async def test_a_silent_stream_ends_as_unreachable(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("WATCH", "/w", kube_stub.stream())
    with pytest.raises(errors.Unreachable):
        async with api.stream("/w", {"watch": "1"}, 0.1) as content:
            await content.readline()


async def test_a_token_that_was_rotated_is_read_again_when_the_old_one_is_refused(
    api: client.Api, stub: kube_stub.Stub, token_file: pathlib.Path
) -> None:
    stub.on("POST", "/x", ok({}))
    stub.token = "first"
    await api.request("POST", "/x")
    stub.token = "second"
    token_file.write_text("second")
    await asyncio.gather(*(api.request("POST", "/x") for _ in range(5)))
    assert {asked.headers["Authorization"] for asked in stub.asked[-5:]} == {"Bearer second"}


async def test_a_refused_token_without_another_one_is_tried_once(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.token = "never"
    with pytest.raises(errors.Unauthorized):
        await api.request("POST", "/x")
    assert len(stub.asked) == 1


async def test_an_old_token_is_read_again_without_being_refused(
    api: client.Api, stub: kube_stub.Stub, token_file: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.on("GET", "/version", ok({}))
    token_file.write_text("second")
    await api.read("/version")
    monkeypatch.setattr(credentials, "REREAD_SECONDS", 0.0)
    await api.read("/version")
    token_file.unlink()  # rotation is not always atomic: the last token that was read stays in use
    await api.read("/version")
    assert [asked.headers["Authorization"] for asked in stub.asked] == [
        "Bearer first",
        "Bearer second",
        "Bearer second",
    ]


async def test_a_service_account_is_read_from_its_files_each_time(tmp_path: pathlib.Path) -> None:
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("one\n")
    authority.write_text("some certificate")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    source = credentials.service_account(str(token), str(authority), environ)
    first = await source(True)
    access = credentials.Credentials(source, first, asyncio.get_running_loop().time())
    assert (access.host, await access.header()) == ("https://[fd00::1]:443", "Bearer one")
    token.write_text("two\n")
    assert await access.refused("Bearer one")
    assert await access.header() == "Bearer two"
    assert not await access.refused("Bearer two")


def test_servers_are_verified_unless_the_configuration_says_otherwise() -> None:
    configuration = Configuration()
    assert credentials.ssl_context(configuration).verify_mode is ssl.CERT_REQUIRED
    assert not credentials.ssl_context(configuration).verify_flags & ssl.VERIFY_X509_STRICT
    configuration.verify_ssl = False
    assert credentials.ssl_context(configuration).verify_mode is ssl.CERT_NONE


MISCONFIGURED = {
    "no such file": None,
    "not YAML": "{",
    "no contexts": "{}",
    "a context that is not there": '{"current-context": "x", "contexts": [], "clusters": [], "users": []}',
    "a list": "[]",
}


@pytest.mark.parametrize("text", MISCONFIGURED.values(), ids=MISCONFIGURED.keys())
async def test_a_bad_kubeconfig_is_named(tmp_path: pathlib.Path, text: str | None) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(errors.Unconfigured, match="config"):
        async with client.connect(str(path), component="c", observer=observing.Silent()):
            pass


def test_the_kubeconfig_is_looked_for_where_kubectl_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(pathlib.Path, "home", lambda: tmp_path)
    assert credentials.find_kubeconfig("named", {"KUBECONFIG": "other"}) == "named"
    assert credentials.find_kubeconfig(None, {"KUBECONFIG": "one:two"}) == "one:two"
    assert credentials.find_kubeconfig(None, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) is None
    with pytest.raises(errors.Unconfigured, match="does not exist"):
        credentials.find_kubeconfig(None, {})
    usual = tmp_path / ".kube" / "config"
    usual.parent.mkdir()
    usual.touch()
    assert credentials.find_kubeconfig(None, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == str(usual)


CLUSTER = {"name": "c", "cluster": {"server": "https://example:6443"}}


def test_the_namespace_is_that_of_the_context(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "config"
    contexts = [
        {"name": "a", "context": {"cluster": "c", "namespace": "team"}},
        {"name": "b", "context": {"user": "u"}},
    ]
    path.write_text(json.dumps({"current-context": "a", "contexts": contexts, "clusters": [CLUSTER], "users": []}))
    assert [credentials.namespace_of(str(path), name) for name in (None, "a", "b")] == ["team", "team", "default"]
    for context, text in (("x", None), (None, "[]"), (None, "{"), ("a", "contexts: 7")):
        if text is not None:
            path.write_text(text)
        with pytest.raises(errors.Unconfigured, match="config"):
            credentials.namespace_of(str(path), context)


async def test_outside_a_cluster_no_file_means_a_named_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(errors.Unconfigured, match="service account"):
        async with client.connect(None, component="c", observer=observing.Silent()):
            pass


LABELS = {
    "/api/v1/pods": "pods",
    "/api/v1/namespaces/a/pods": "pods",
    "/api/v1/namespaces/a/pods/b": "pods",
    "/api/v1/namespaces/a/pods/b/binding": "pods/binding",
    "/api/v1/namespaces": "namespaces",
    "/api/v1/namespaces/pods": "namespaces",
    "/api/v1/nodes/n": "nodes",
    "/apis/muster.dev/v1alpha1/queues/q/status": "queues.muster.dev/status",
    "/apis/scheduling.k8s.io/v1beta1/namespaces/a/podgroups/g": "podgroups.scheduling.k8s.io",
    "/apis/muster.dev/v1alpha1": "discovery",
    "/apis": "discovery",
    "/api/v1": "discovery",
    "/version": "version",
}


@pytest.mark.parametrize(("path", "want"), LABELS.items())
def test_labels_hold_no_names_of_objects(path: str, want: str) -> None:
    assert client.label_of(path) == want
