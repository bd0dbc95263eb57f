"""Bindings that are left to HAMi: which, when, and what is believed of its answers."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import kube_stub
import pytest
from kube_stub import fail, ok, pod, reset

from extender.core import gate_messages as gm
from extender.core.ids import NodeName, PodUid
from extender.core.model import Share
from extender.kube import client, makers, node_lock
from extender.wire import hami
from permit_gate.forwarding import ANSWER_LIMIT, ATTEMPTS, Hami
from permit_gate.outside import Kubernetes

NODE, POD, OTHER = "/api/v1/nodes/n", "/api/v1/namespaces/ns/pods/p", "/api/v1/namespaces/ns/pods/other"
BINDING = f"{POD}/binding"
BIND = gm.Bind(PodUid("u"), "ns", "p", NodeName("n"))
NOTES = tuple(hami.binding_notes(((Share("g", 1, 1),),), "n", 0.0).items())
PLANNED = gm.Bind(PodUid("u"), "ns", "p", NodeName("n"), NOTES)
DONE, BUSY = ok({"Error": ""}), ok({"Error": "node n has been locked within 5 minutes"})


def held() -> str:
    """The lock of a node as another pod has written it just now."""
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ},ns,other"


def chosen(node: str | None = "n", uid: str = "u", **spec: Any) -> Any:
    content = pod("p", uid, **spec)
    content["metadata"]["annotations"] = {} if node is None else {hami.NODE: node}
    return ok(content)


def node(lock: str | None = None) -> Any:
    return ok({"metadata": {"name": "n", "annotations": {} if lock is None else {hami.LOCK: lock}}})


BOUND = chosen(nodeName="n")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_lock, "POLL_SECONDS", 0.01)


@pytest.fixture
async def cluster(api: client.Api, known: makers.Makers, stub: kube_stub.Stub) -> AsyncIterator[Kubernetes]:
    async with aiohttp.ClientSession() as session:
        yield Kubernetes(api, known, Hami(session, stub.url))


def calls(stub: kube_stub.Stub) -> list[str]:
    return [f"{asked.verb} {asked.path.rpartition('/')[2]}" for asked in stub.asked]


@pytest.mark.parametrize("effect", [BIND, PLANNED], ids=["", "whatever cards the extender planned"])
async def test_a_pod_for_which_hami_chose_this_node_is_bound_by_hami(
    cluster: Kubernetes, stub: kube_stub.Stub, effect: gm.Bind
) -> None:
    stub.on("GET", POD, chosen(), BOUND)
    stub.on("GET", NODE, node())
    stub.on("POST", "/bind", DONE)
    assert await cluster.bind(effect) == gm.BindDone(PodUid("u"))
    assert calls(stub) == ["GET p", "GET n", "POST bind", "GET p"]
    assert stub.asked[2].body == {"PodName": "p", "PodNamespace": "ns", "PodUID": "u", "Node": "n"}
    assert stub.asked[2].headers["Content-Type"] == "application/json"


async def test_a_pod_that_is_not_hamis_is_bound_by_us(cluster: Kubernetes, stub: kube_stub.Stub) -> None:
    stub.on("GET", POD, chosen(None))
    stub.on("POST", BINDING, ok({"kind": "Status"}, 201))
    assert await cluster.bind(BIND) == gm.BindDone(PodUid("u"))
    assert calls(stub) == ["GET p", "POST binding"]


async def test_a_pod_that_asks_for_shares_of_which_hami_chose_none_is_not_bound(
    cluster: Kubernetes, stub: kube_stub.Stub
) -> None:
    stub.on("GET", POD, chosen(None))
    assert "has chosen no cards" in (await cluster.bind(PLANNED)).error


async def test_cards_on_another_node_are_an_error(cluster: Kubernetes, stub: kube_stub.Stub) -> None:
    stub.on("GET", POD, chosen("m"))
    assert (await cluster.bind(BIND)).error == "muster: refused: HAMi has chosen cards on node m"
    assert calls(stub) == ["GET p"]


LIVE: dict[str, tuple[Any, str, bool]] = {
    "bound there": (BOUND, "", False),
    "bound elsewhere": (chosen(nodeName="m"), "already bound to m", False),
    "another pod of its name": (chosen(uid="v"), "another pod has its name", True),
    "deleted": (fail(404, "NotFound", "no such pod"), "no such pod", True),
    "not to be read": (fail(500, "InternalError", "broken"), "broken", False),
}


@pytest.mark.parametrize(("live", "error", "gone"), LIVE.values(), ids=LIVE.keys())
async def test_what_the_pod_shows_before_decides(
    cluster: Kubernetes, stub: kube_stub.Stub, live: Any, error: str, gone: bool
) -> None:
    stub.on("GET", POD, live)
    done = await cluster.bind(BIND)
    assert (bool(done.error), done.gone) == (bool(error), gone)
    assert error in done.error
    assert stub.count("POST", "/bind") == 0


UNPROVED: dict[str, Any] = {
    "an error": fail(500),
    "a lost answer": reset,
    "an answer of another kind": ok(b"<html>"),
    "an answer that is a list": ok([]),
    "an error that is a number": ok({"Error": 3}),
    "a refusal, as of a binding that was sent twice": ok({"Error": "already assigned"}),
}


@pytest.mark.parametrize("answer", UNPROVED.values(), ids=UNPROVED.keys())
async def test_the_pod_is_the_proof_of_a_binding_after(cluster: Kubernetes, stub: kube_stub.Stub, answer: Any) -> None:
    stub.on("GET", POD, chosen(), BOUND)
    stub.on("GET", NODE, node())
    stub.on("POST", "/bind", answer)
    assert await cluster.bind(BIND) == gm.BindDone(PodUid("u"))


async def test_an_answer_without_end_is_not_read_to_its_end(cluster: Kubernetes, stub: kube_stub.Stub) -> None:
    stub.on("GET", POD, chosen())
    stub.on("GET", NODE, node())
    # it would hang after these bytes
    stub.on("POST", "/bind", kube_stub.stream(b" " * (ANSWER_LIMIT + 1)))
    assert f"more than {ANSWER_LIMIT} bytes" in (await cluster.bind(BIND)).error
    assert stub.count("POST", "/bind") == ATTEMPTS


async def test_a_success_that_is_none_is_not_believed(cluster: Kubernetes, stub: kube_stub.Stub) -> None:
    stub.on("GET", POD, chosen())
    stub.on("GET", NODE, node())
    stub.on("POST", "/bind", DONE)
    assert "and it is not" in (await cluster.bind(BIND)).error
    assert stub.count("POST", "/bind") == 1


async def test_hami_is_asked_again_when_its_lock_was_taken_meanwhile(cluster: Kubernetes, stub: kube_stub.Stub) -> None:
    stub.on("GET", POD, chosen(), chosen(), BOUND)
    stub.on("GET", NODE, node())
    stub.on("POST", "/bind", BUSY, DONE)
    assert (await cluster.bind(BIND)).error == ""
    assert stub.count("POST", "/bind") == 2


async def test_but_not_for_ever(cluster: Kubernetes, stub: kube_stub.Stub) -> None:
    stub.on("GET", POD, chosen())
    stub.on("GET", NODE, node())
    stub.on("POST", "/bind", BUSY)
    assert "locked within 5 minutes" in (await cluster.bind(BIND)).error
    assert stub.count("POST", "/bind") == ATTEMPTS


async def test_hami_is_asked_once_the_node_is_free(cluster: Kubernetes, stub: kube_stub.Stub) -> None:
    stub.on("GET", POD, chosen(), BOUND)
    stub.on("GET", NODE, node(held()), node(held()), node())
    stub.on("GET", OTHER, ok(pod("other", nodeName="n", schedulerName="muster") | {"status": {"phase": "Pending"}}))
    stub.on("POST", "/bind", DONE)
    assert (await cluster.bind(BIND)).error == ""
    assert calls(stub) == ["GET p", *["GET n", "GET other"] * 2, "GET n", "POST bind", "GET p"]


async def test_a_node_that_does_not_become_free_binds_nothing(
    cluster: Kubernetes, stub: kube_stub.Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_lock, "LOCK_SECONDS", 0.05)
    stub.on("GET", POD, chosen())
    stub.on("GET", NODE, node(held()))
    stub.on("GET", OTHER, ok(pod("other", nodeName="n", schedulerName="muster") | {"status": {"phase": "Pending"}}))
    assert "is locked by pod ns/other" in (await cluster.bind(BIND)).error


async def test_pods_on_one_node_follow_each_other(cluster: Kubernetes, stub: kube_stub.Stub) -> None:
    second = gm.Bind(PodUid("v"), "ns", "q", NodeName("n"))
    other = pod("q", "v") | {}
    other["metadata"]["annotations"] = {hami.NODE: "n"}
    stub.on("GET", POD, chosen(), BOUND)
    stub.on("GET", "/api/v1/namespaces/ns/pods/q", ok(other), ok(other | {"spec": {"nodeName": "n"}}))
    stub.on("GET", NODE, node())
    stub.on("POST", "/bind", DONE)
    done = await asyncio.gather(cluster.bind(BIND), cluster.bind(second))
    assert [one.error for one in done] == ["", ""]
    assert calls(stub) == [f"{verb} {what}" for name in "pq" for verb, what in (
        ("GET", name), ("GET", "n"), ("POST", "bind"), ("GET", name)
    )]  # fmt: skip
