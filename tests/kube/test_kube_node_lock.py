"""HAMi's lock of a node: taken when it is free or left over, waited for otherwise, and given back only by its owner."""

from __future__ import annotations

import asyncio
import datetime
import types
from typing import Any

import kube_stub
import pytest
from kube_stub import fail, ok, pod

from extender.core import gate_messages as gm
from extender.core.ids import NodeName, PodUid
from extender.core.model import Share
from extender.kube import client, makers, node_lock
from extender.wire import hami
from permit_gate.outside import Kubernetes

NODE, POD = "/api/v1/nodes/n", "/api/v1/namespaces/ns/pods/other"
NOW = datetime.datetime.now(datetime.UTC)
DONE = ok({"kind": "Node"})


def node(lock: str | None, version: str = "7") -> Any:
    notes = {} if lock is None else {hami.LOCK: lock}
    return ok({"metadata": {"name": "n", "resourceVersion": version, "annotations": notes}})


def held(name: str = "other", seconds: float = 0.0) -> str:
    return f"{(datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)):%Y-%m-%dT%H:%M:%SZ},ns,{name}"


def owner(phase: str = "Pending", notes: dict[str, str] | None = None, **spec: Any) -> Any:
    content = pod("other", **spec)
    content["metadata"]["annotations"] = notes or {}
    return ok(content | {"status": {"phase": phase}})


ON_ITS_WAY = owner(nodeName="n", schedulerName="muster")
FREE: dict[str, tuple[str | None, Any]] = {
    "nobody holds it": (None, None),
    "its pod is gone": (held(), fail(404)),
    "its pod has ended": (held(), owner("Failed", nodeName="n")),
    "its pod was served": (held(), owner("Running", {hami.PHASE: "success"}, nodeName="n")),
    "its pod could not be served": (held(), owner(notes={hami.PHASE: "failed"}, nodeName="n")),
    "its pod is on another node": (held(), owner(nodeName="m")),
    "its pod is ours and was never bound": (held(), owner(schedulerName="muster")),
    "it is old": (held(seconds=400), None),
    "it is old, of the older form": ((NOW - datetime.timedelta(seconds=400)).strftime("%Y-%m-%dT%H:%M:%SZ"), None),
}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_lock, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(node_lock, "SERVED_SECONDS", 0.05)
    monkeypatch.setattr(node_lock, "time", types.SimpleNamespace(time=NOW.timestamp))


@pytest.mark.parametrize(("lock", "of"), FREE.values(), ids=FREE.keys())
async def test_a_lock_is_taken_when(api: client.Api, stub: kube_stub.Stub, lock: str | None, of: Any) -> None:
    stub.on("GET", NODE, node(lock))
    if of is not None:
        stub.on("GET", POD, of)
    stub.on("PATCH", NODE, DONE)
    assert await node_lock.take(api, "n", "ns", "p", 1.0) == ""
    body = stub.asked[-1].body
    assert body["metadata"]["resourceVersion"] == "7"
    taken = hami.decode_lock(body["metadata"]["annotations"][hami.LOCK])
    assert taken is not None
    assert (taken.namespace, taken.name) == ("ns", "p")
    assert taken.since == int(NOW.timestamp())


WAITED: dict[str, tuple[str, Any]] = {
    "its pod is being served": (held(), ON_ITS_WAY),
    "its pod is another scheduler's and not bound yet": (held(), owner(schedulerName="hami-scheduler")),
    "it names nobody and is new": (NOW.strftime("%Y-%m-%dT%H:%M:%SZ"), None),
}


@pytest.mark.parametrize(("lock", "of"), WAITED.values(), ids=WAITED.keys())
async def test_a_lock_is_waited_for_while(api: client.Api, stub: kube_stub.Stub, lock: str, of: Any) -> None:
    stub.on("GET", NODE, node(lock), node(lock), node(None))
    if of is not None:
        stub.on("GET", POD, of)
    stub.on("PATCH", NODE, DONE)
    assert await node_lock.take(api, "n", "ns", "p", 5.0) == ""
    assert stub.count("GET", NODE) == 3


async def test_a_pod_that_was_just_served_may_give_its_lock_back(api: client.Api, stub: kube_stub.Stub) -> None:
    """Else the plugin, which says so first, would find another pod's lock."""
    stub.on("GET", NODE, node(held()), node(None, "8"))
    stub.on("GET", POD, owner("Running", {hami.PHASE: "success"}, nodeName="n"))
    stub.on("PATCH", NODE, DONE)
    assert await node_lock.take(api, "n", "ns", "p", 5.0) == ""
    assert stub.asked[-1].body["metadata"]["resourceVersion"] == "8"


async def test_it_is_not_waited_for_without_end(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("GET", NODE, node(held()))
    stub.on("GET", POD, ON_ITS_WAY)
    assert await node_lock.take(api, "n", "ns", "p", 0.05) == "node n is locked by pod ns/other"


async def test_ones_own_lock_is_held_already(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("GET", NODE, node(held("p")))
    assert await node_lock.take(api, "n", "ns", "p", 1.0) == ""


@pytest.mark.parametrize("text", ["nonsense", "2026-01-01T00:00:00Z,ns", ",,", "2026-01-01,ns,p,x", "x" * 5000])
async def test_a_text_that_is_no_lock_is_an_error(api: client.Api, stub: kube_stub.Stub, text: str) -> None:
    stub.on("GET", NODE, node(text))
    why = await node_lock.take(api, "n", "ns", "p", 0.05)
    assert "is not one" in why
    assert len(why) < 200


async def test_a_conflict_is_looked_at_again(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("GET", NODE, node(None), node(held(), "8"), node(None, "9"))
    stub.on("GET", POD, ON_ITS_WAY)
    stub.on("PATCH", NODE, fail(409), DONE)
    assert await node_lock.take(api, "n", "ns", "p", 5.0) == ""
    assert stub.asked[-1].body["metadata"]["resourceVersion"] == "9"


async def test_a_node_that_is_gone_is_an_error_at_once(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("GET", NODE, fail(404, "NotFound", "no such node"))
    assert "no such node" in await node_lock.take(api, "n", "ns", "p", 60.0)


async def test_only_ones_own_lock_is_given_back(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("GET", NODE, node(held()), node(None), node("nonsense"))
    for _ in range(3):
        await node_lock.give_back(api, "n", "ns", "p")
    assert stub.verbs() == ["GET"] * 3


async def test_a_lock_is_given_back_though_the_node_changes(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("GET", NODE, node(held("p")), node(held("p"), "8"))
    stub.on("PATCH", NODE, fail(409), DONE)
    await node_lock.give_back(api, "n", "ns", "p")
    assert stub.asked[-1].body == {"metadata": {"resourceVersion": "8", "annotations": {hami.LOCK: None}}}


async def test_what_cannot_be_given_back_is_left_to_the_next(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("GET", NODE, fail(500))
    await node_lock.give_back(api, "n", "ns", "p")
    assert stub.count("GET", NODE) == 1


# --- bindings under the lock ------------------------------------------------------------------------

BINDING = "/api/v1/namespaces/ns/pods/p/binding"
NOTES = tuple(sorted(hami.binding_notes(((Share("g0", 1, 1),),), "n", 0.0).items()))
BIND = gm.Bind(PodUid("u"), "ns", "p", NodeName("n"), NOTES)


async def test_a_binding_with_cards_is_written_under_the_lock(
    api: client.Api, known: makers.Makers, stub: kube_stub.Stub
) -> None:
    stub.on("GET", NODE, node(None))
    stub.on("PATCH", NODE, DONE)
    stub.on("POST", BINDING, ok({"kind": "Status"}, 201))
    assert await Kubernetes(api, known).bind(BIND) == gm.BindDone(PodUid("u"))
    assert stub.verbs() == ["GET", "PATCH", "POST"]
    assert stub.asked[-1].body["metadata"]["annotations"] == dict(NOTES)


async def test_a_binding_that_is_refused_gives_the_lock_back(
    api: client.Api, known: makers.Makers, stub: kube_stub.Stub
) -> None:
    stub.on("GET", NODE, node(None), node(held("p")))
    stub.on("PATCH", NODE, DONE)
    stub.on("POST", BINDING, fail(400, "BadRequest", "no"))
    done = await Kubernetes(api, known).bind(BIND)
    assert "refused" in done.error
    assert stub.verbs() == ["GET", "PATCH", "POST", "GET", "PATCH"]
    assert stub.asked[-1].body["metadata"]["annotations"] == {hami.LOCK: None}


async def test_without_the_lock_nothing_is_bound(
    api: client.Api, known: makers.Makers, stub: kube_stub.Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_lock, "LOCK_SECONDS", 0.05)
    stub.on("GET", NODE, node(held()))
    stub.on("GET", POD, ON_ITS_WAY)
    done = await Kubernetes(api, known).bind(BIND)
    assert done.error == "muster: node n is locked by pod ns/other"
    assert stub.count("POST", BINDING) == 0


async def test_bindings_to_one_node_wait_for_each_other(
    api: client.Api, known: makers.Makers, stub: kube_stub.Stub
) -> None:
    """The second one asks for the lock once the first is bound, and has it once the plugin gave it back."""
    second = gm.Bind(PodUid("v"), "ns", "q", NodeName("n"), NOTES)
    stub.on("GET", NODE, node(None), node(held("p")), node(held("p")), node(None))
    stub.on("GET", "/api/v1/namespaces/ns/pods/p", owner(nodeName="n", schedulerName="muster"))
    stub.on("PATCH", NODE, DONE)
    for name in "pq":
        stub.on("POST", f"/api/v1/namespaces/ns/pods/{name}/binding", ok({"kind": "Status"}, 201))
    cluster = Kubernetes(api, known)
    done = await asyncio.gather(cluster.bind(BIND), cluster.bind(second))
    assert [one.error for one in done] == ["", ""]
    calls = [(asked.verb, asked.path.rpartition("/")[2]) for asked in stub.asked]
    assert calls == [
        *(("GET", "n"), ("PATCH", "n"), ("POST", "binding")),
        *(("GET", "n"), ("GET", "p")) * 2,
        *(("GET", "n"), ("PATCH", "n"), ("POST", "binding")),
    ]
