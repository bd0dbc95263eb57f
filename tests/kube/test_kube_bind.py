"""A binding is reported as done only if an answer proves it, and never done twice or elsewhere."""

import asyncio
from typing import Any

import kube_stub
import pytest
from kube_stub import fail, hang, ok, pod, reset

from extender.kube import bind, client, errors

POD = "/api/v1/namespaces/ns/pods/p"
BINDING = f"{POD}/binding"
UNBOUND = ok(pod("p", uid="u"))
HERE = ok(pod("p", uid="u", nodeName="n"))
THERE = ok(pod("p", uid="u", nodeName="other"))
OTHER_UID = ok(pod("p", uid="v", nodeName="n"))
GATED = ok(pod("p", uid="u", schedulingGates=[{"name": "x"}]))
DYING = ok({"metadata": {"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}})
DONE = ok({"kind": "Status", "status": "Success"}, 201)
BUSY = fail(429, headers={"Retry-After": "0"})

# posts, gets, verdict, node, calls made
TERMINATING = fail(403, "Forbidden", causes=[{"reason": "NamespaceTerminating"}])

CASES: dict[str, tuple[list[Any], list[Any], str, str, str]] = {
    "201 is success": ([DONE], [], "bound", "n", "P"),
    "201 with an odd body is success": ([ok(b"\xff{", 201)], [], "bound", "n", "P"),
    "201 with no body is success": ([ok(b"", 201)], [], "bound", "n", "P"),
    "404 is gone": ([fail(404)], [], "gone", "", "P"),
    "409, bound as asked: success": ([fail(409)], [HERE], "bound", "n", "PG"),
    "409, bound elsewhere: named": ([fail(409)], [THERE], "elsewhere", "other", "PG"),
    "409, another uid: gone": ([fail(409)], [OTHER_UID], "gone", "", "PG"),
    "409, being deleted: gone": ([fail(409)], [DYING], "gone", "", "PG"),
    "409, gated: refused": ([fail(409)], [GATED], "refused", "", "PG"),
    "409, pod not there: gone": ([fail(409)], [fail(404)], "gone", "", "PG"),
    "409, unbound: tried again": ([fail(409), DONE], [UNBOUND], "bound", "n", "PGP"),
    "500, bound as asked: success": ([fail(500)], [HERE], "bound", "n", "PG"),
    "500, bound elsewhere: named": ([fail(500)], [THERE], "elsewhere", "other", "PG"),
    "500, unbound: tried again": ([fail(500), DONE], [UNBOUND], "bound", "n", "PGP"),
    "503 then 409 then bound": ([fail(503), fail(409)], [UNBOUND, HERE], "bound", "n", "PGPG"),
    "answer lost, bound as asked: success": ([reset], [HERE], "bound", "n", "PG"),
    "answer lost, unbound: tried again": ([reset, DONE], [UNBOUND], "bound", "n", "PGP"),
    "answer lost, another uid: gone": ([reset], [OTHER_UID], "gone", "", "PG"),
    "answer lost, pod unreadable, then refused and bound": (
        [reset, fail(409)],
        [fail(500), HERE],
        "bound",
        "n",
        "PGPG",
    ),
    "answer lost, pod is no JSON, then done": ([reset, DONE], [ok(b"<html>")], "bound", "n", "PGP"),
    "429 is tried again without a look": ([BUSY, BUSY, DONE], [], "bound", "n", "PPP"),
    "400 is refused": ([fail(400)], [], "refused", "", "P"),
    "403 of an authorizer that has just started is tried again": (
        [fail(403), fail(403), DONE],
        [],
        "bound",
        "n",
        "PPP",
    ),
    "403 of a namespace that goes away is refused": ([TERMINATING], [], "refused", "", "P"),
    "422 is refused": ([fail(422)], [], "refused", "", "P"),
    "a redirect is refused": ([ok(b"", 307)], [], "refused", "", "P"),
}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "RETRY_AFTER_DEFAULT", 0.01)
    monkeypatch.setattr(bind, "BACKOFF_FIRST", 0.005)


@pytest.mark.parametrize(("posts", "gets", "verdict", "node", "calls"), CASES.values(), ids=CASES.keys())
async def test_what_is_known_after_a_binding(
    api: client.Api,
    stub: kube_stub.Stub,
    posts: list[Any],
    gets: list[Any],
    verdict: str,
    node: str,
    calls: str,
) -> None:
    stub.on("POST", BINDING, *posts)
    stub.on("GET", POD, *gets)
    outcome = await bind.bind(api, "ns", "p", "u", "n", {"k": "v"}, 5.0)
    assert (outcome.verdict, outcome.node) == (verdict, node)
    assert "".join(asked.verb[0] for asked in stub.asked) == calls


async def test_a_binding_carries_uid_node_and_annotations(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("POST", BINDING, DONE)
    await bind.bind(api, "ns", "p", "u", "n", {"k": "v"})
    assert stub.asked[0].body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": {"k": "v"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    }


async def test_a_403_that_stays_is_refused_before_the_deadline(
    api: client.Api, stub: kube_stub.Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bind, "FORBIDDEN_SECONDS", 0.05)
    stub.on("POST", BINDING, fail(403, "Forbidden", "no such right"))
    outcome = await bind.bind(api, "ns", "p", "u", "n", {}, 60.0)
    assert (outcome.verdict, outcome.text) == (bind.Verdict.REFUSED, "403 Forbidden: no such right")
    assert stub.count("POST", BINDING) > 1


UNSETTLED: dict[str, tuple[Any, Any]] = {
    "the server never answers": (hang, hang),
    "the binding is never answered and the pod stays unbound": (hang, UNBOUND),
    "always an internal error": (fail(500), fail(500)),
    "always throttled for longer than there is time": (fail(429, headers={"Retry-After": "30"}), UNBOUND),
    "always a conflict that the pod does not explain": (fail(409), UNBOUND),
}


@pytest.mark.parametrize(("post", "get"), UNSETTLED.values(), ids=UNSETTLED.keys())
async def test_the_deadline_is_kept_and_nothing_is_claimed(
    api: client.Api, stub: kube_stub.Stub, post: Any, get: Any
) -> None:
    stub.on("POST", BINDING, post)
    stub.on("GET", POD, get)
    async with asyncio.timeout(2.0):
        outcome = await bind.bind(api, "ns", "p", "u", "n", {}, 0.2)
    assert outcome.verdict is bind.Verdict.UNSETTLED
    assert outcome.node == ""
    assert outcome.text


async def test_retry_after_is_honoured(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("POST", BINDING, fail(429, headers={"Retry-After": "1"}), DONE)
    loop = asyncio.get_running_loop()
    started = loop.time()
    outcome = await bind.bind(api, "ns", "p", "u", "n", {}, 5.0)
    assert outcome.verdict is bind.Verdict.BOUND
    assert loop.time() - started >= 1.0


ODD_PODS: dict[str, dict[str, Any]] = {
    "empty": {},
    "no spec, other uid": {"metadata": {"uid": "v"}},
    "metadata is text": {"metadata": "u", "spec": {"nodeName": "n"}},
}


@pytest.mark.parametrize("odd", ODD_PODS.values(), ids=ODD_PODS.keys())
def test_a_pod_without_our_uid_proves_nothing_for_us(odd: dict[str, Any]) -> None:
    judged = bind.judge(odd, "u", "n", "")
    assert judged is not None
    assert judged.verdict is bind.Verdict.GONE
