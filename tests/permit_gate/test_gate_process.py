"""The whole process against an API server and an extender on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from aiohttp import test_utils

from extender import settings
from permit_gate import app
from tests.permit_gate import gate_stubs as stubs

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
GROUPS = "/apis/muster.dev/v1alpha1/podgroups"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases"


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait for a condition, with a deadline."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the conditions are about what others do
            await asyncio.sleep(0.005)


@dataclass
class Gate:
    """A running gate and what it talks to."""

    base: str
    api: stubs.ApiServer
    extender: stubs.Extender
    session: aiohttp.ClientSession

    def bind(self, name: str, node: str = "node-0") -> asyncio.Task[dict[str, Any]]:
        """The scheduler calls."""
        body = {"PodName": name, "PodNamespace": "team", "PodUID": f"uid-{name}", "Node": node}

        async def call() -> dict[str, Any]:
            async with self.session.post(f"{self.base}/bind", json=body) as response:
                assert response.status == 200
                assert "Content-Length" in response.headers
                return await response.json()

        return asyncio.create_task(call())

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(f"{self.base}{path}") as response:
            return response.status, await response.text()

    async def holds(self, query: str = "") -> dict[str, Any]:
        return json.loads((await self.get(f"/holds{query}"))[1])

    async def until_held(self, count: int) -> dict[str, Any]:
        async with asyncio.timeout(5):
            listed = await self.holds()
            while len(listed["holds"]) != count:
                listed = await self.holds(f"?after={listed['sequence']}&wait=1")
            return listed


@contextlib.asynccontextmanager
async def started(told: settings.GateSettings, api: stubs.ApiServer, extender: stubs.Extender) -> AsyncIterator[Gate]:
    """A gate that has listed everything."""
    async with app.running(told) as (port, _), aiohttp.ClientSession() as session:
        gate = Gate(f"http://127.0.0.1:{port}", api, extender, session)
        async with asyncio.timeout(5):
            while (await gate.get("/readyz"))[0] != 200:  # noqa: ASYNC110 - it becomes ready by itself
                await asyncio.sleep(0.005)
        yield gate
        # bindings that were kept waiting are done while the gate stops
        asyncio.get_running_loop().call_later(0.2, api.may_bind.set)


@pytest.fixture
async def told(tmp_path) -> AsyncIterator[tuple[settings.GateSettings, stubs.ApiServer, stubs.Extender]]:
    api, extender = stubs.ApiServer(), stubs.Extender()
    api.put(LEASES, stubs.lease("host-a_uuid"))
    api.put(NODES, stubs.node())
    async with test_utils.TestServer(api.app()) as server, test_utils.TestServer(extender.app()) as other:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "s", "user": "u"}}],
            "clusters": [{"name": "s", "cluster": {"server": str(server.make_url("")).rstrip("/")}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config))
        yield (
            settings.GateSettings(
                cluster=settings.Cluster(str(path), None, "muster-system", "muster-scheduler"),
                listen=settings.Listen("127.0.0.1", 0),
                tls=None,
                logging=settings.Logging("info", "json"),
                hostname="host-a",
                extender=str(other.make_url("")).rstrip("/"),
                http_timeout=600,
            ),
            api,
            extender,
        )
        api.end_watches()


@pytest.fixture
async def gate(told) -> AsyncIterator[Gate]:
    async with started(*told) as running:
        yield running


def put_gang(gate: Gate, count: int, minimum: int | None = None) -> list[str]:
    names = [f"pod-{n}" for n in range(count)]
    gate.api.put(GROUPS, stubs.group("train", minimum or count))
    for name in names:
        gate.api.put(PODS, stubs.pod(name, "train"))
    return names


async def test_a_gang_is_held_until_it_is_complete_and_then_bound_with_annotations(gate):
    names = put_gang(gate, 3)
    gate.extender.annotations = {"vgpu": "card-0"}
    calls = [gate.bind(name) for name in names[:2]]
    await gate.until_held(2)
    assert gate.api.bindings == []
    calls.append(gate.bind(names[2]))
    assert [await call for call in calls] == [{"Error": ""}] * 3
    assert sorted(body["metadata"]["name"] for body in gate.api.bindings) == names
    assert {body["metadata"]["annotations"]["vgpu"] for body in gate.api.bindings} == {"card-0"}
    assert len(gate.extender.asked) == 1


async def test_a_minimum_that_only_the_live_object_shows_is_obeyed(gate):
    names = put_gang(gate, 2)
    await gate.until_held(0)
    gate.api.put(GROUPS, stubs.group("train", 3, generation=2), tell=False)
    calls = [gate.bind(name) for name in names]
    await gate.until_held(2)
    gate.api.put(PODS, stubs.pod("pod-2", "train"))
    calls.append(gate.bind("pod-2"))
    assert [await call for call in calls] == [{"Error": ""}] * 3


async def test_a_pod_that_the_watch_does_not_show_is_read_live(gate):
    gate.api.put(PODS, stubs.pod("late"), tell=False)
    assert await gate.bind("late") == {"Error": ""}


async def test_a_pod_that_does_not_exist_is_an_error(gate):
    assert await gate.bind("nobody") == {"Error": "muster: the pod is gone"}


async def test_a_lone_pod_is_bound_without_asking_the_extender(gate):
    gate.api.put(PODS, stubs.pod("alone"))
    assert await gate.bind("alone") == {"Error": ""}
    assert gate.extender.asked == []


async def test_without_the_extender_a_gang_that_needs_no_annotations_starts(gate):
    gate.extender.status = 503
    calls = [gate.bind(name) for name in put_gang(gate, 2)]
    assert [await call for call in calls] == [{"Error": ""}] * 2


async def test_a_binding_that_is_refused_for_the_moment_is_sent_again(gate):
    gate.api.refusals["alone"] = [500, 409, 429, 403]
    gate.api.put(PODS, stubs.pod("alone"))
    assert await gate.bind("alone") == {"Error": ""}
    assert len(gate.api.bindings) == 5


async def test_a_binding_that_is_refused_for_good_is_an_error(gate):
    gate.api.refusals["alone"] = [422]
    gate.api.put(PODS, stubs.pod("alone"))
    assert "scripted" in (await gate.bind("alone"))["Error"]


async def test_a_deleted_member_is_answered_at_once(gate):
    names = put_gang(gate, 2)
    call = gate.bind(names[0])
    await gate.until_held(1)
    gate.api.delete(PODS, names[0])
    async with asyncio.timeout(1):
        assert await call == {"Error": "muster: the pod is gone"}


async def test_a_call_whose_connection_broke_no_longer_counts(gate):
    names = put_gang(gate, 2)
    call = gate.bind(names[0])
    await gate.until_held(1)
    call.cancel()
    await gate.until_held(0)
    other = gate.bind(names[1])
    await gate.until_held(1)
    again = gate.bind(names[0])
    assert [await other, await again] == [{"Error": ""}] * 2


async def test_withdrawn_calls_are_answered_and_counted(gate):
    call = gate.bind(put_gang(gate, 2)[0])
    await gate.until_held(1)
    body = {"uids": ["uid-pod-0", "uid-pod-9"], "reason": "revoked"}
    async with gate.session.post(f"{gate.base}/withdraw", json=body) as response:
        assert await response.json() == {"answered": 1}
    assert "withdrawn" in (await call)["Error"]


async def test_holds_may_be_followed(gate):
    names = put_gang(gate, 2)
    before = (await gate.holds())["sequence"]
    waiting = asyncio.create_task(gate.holds(f"?after={before}&wait=20"))
    call = gate.bind(names[0])
    async with asyncio.timeout(5):
        listed = await waiting
    assert [hold["uid"] for hold in listed["holds"]] == ["uid-pod-0"]
    assert listed["sequence"] > before
    assert listed["holds"][0]["group"] == {"source": "muster", "namespace": "team", "name": "train"}
    assert not listed["holds"][0]["releasing"]
    call.cancel()


async def test_a_replica_whose_scheduler_lost_the_lease_refuses_what_it_holds(gate):
    call = gate.bind(put_gang(gate, 2)[0])
    await gate.until_held(1)
    gate.api.put(LEASES, stubs.lease("host-b_uuid"))
    assert await call == {"Error": "muster: this replica does not act"}
    assert await gate.bind("pod-1") == {"Error": "muster: this replica does not act"}
    assert gate.api.bindings == []


async def test_a_call_that_comes_before_the_watch_shows_our_lease_reads_it_live(gate):
    gate.api.put(LEASES, stubs.lease("host-b_uuid", "1"))
    gate.api.put(PODS, stubs.pod("alone"))
    async with asyncio.timeout(5):
        while (await gate.bind("nobody"))["Error"] != "muster: this replica does not act":
            pass
    gate.api.put(LEASES, stubs.lease("host-a_uuid", "2"), tell=False)
    assert await gate.bind("alone") == {"Error": ""}


async def test_a_stopping_gate_refuses_what_it_holds_and_finishes_what_is_being_bound(told):
    async with aiohttp.ClientSession() as session:
        async with started(*told) as gate:
            gate.session, own = session, gate.session
            names = put_gang(gate, 2)
            gate.api.put(PODS, stubs.pod("alone"))
            gate.api.may_bind.clear()
            held, binding = gate.bind(names[0]), gate.bind("alone")
            await gate.until_held(2)
            gate.session = own
        assert await held == {"Error": "muster: the permit gate is stopping"}
        assert await binding == {"Error": ""}


async def test_a_partial_release_without_a_controller_gets_its_condition(gate, monkeypatch):
    monkeypatch.setattr("extender.core.rounds.STUCK_SECONDS", 0.3)
    names = put_gang(gate, 2)
    gate.api.refusals[names[1]] = [422]
    calls = [gate.bind(name) for name in names]
    await asyncio.gather(*calls)
    await until(lambda: bool(gate.api.conditions))
    name, condition = gate.api.conditions[0]
    assert (name, condition["type"], condition["status"]) == ("pod-0", "muster.dev/PartialGroup", "True")
    assert gate.api.evictions == []


async def test_a_partial_release_with_a_controller_is_evicted(gate, monkeypatch):
    monkeypatch.setattr("extender.core.rounds.STUCK_SECONDS", 0.3)
    gate.api.put(GROUPS, stubs.group("train", 2))
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True}
    for name in ("pod-0", "pod-1"):
        content = stubs.pod(name, "train")
        content["metadata"]["ownerReferences"] = [owner]
        gate.api.put(PODS, content)
    gate.api.refusals["pod-1"] = [422]
    await asyncio.gather(gate.bind("pod-0"), gate.bind("pod-1"))
    await until(lambda: gate.api.evictions == ["pod-0"])
    await until(lambda: [event["reason"] for event in gate.api.events] == ["PartialRelease"])
    assert [(name, set(notes)) for name, notes in gate.api.records] == [("pod-0", {"muster.dev/evicted"})]


BAD_CALLS = {
    "a body that is not JSON": ("/bind", b"{", 400),
    "a body that is no object": ("/bind", b"[]", 400),
    "a missing field": ("/bind", b'{"PodName":"a"}', 400),
    "a body without end": ("/bind", io.BytesIO(b" " * (2**20 + 1)), 413),
    "a withdrawal that is none": ("/withdraw", b"{}", 400),
    "an unknown path": ("/filter", b"{}", 404),
}


@pytest.mark.parametrize(("path", "body", "status"), BAD_CALLS.values(), ids=BAD_CALLS.keys())
async def test_bad_calls_are_refused_without_a_trace(gate, path, body, status):
    async with gate.session.post(f"{gate.base}{path}", data=body) as response:
        assert response.status == status
        assert "Traceback" not in await response.text()


@pytest.mark.parametrize("query", ["?after=x&wait=1", "?after=1&wait=-1", "?after=" + "9" * 30 + "&wait=1"])
async def test_a_bad_query_is_refused(gate, query):
    assert (await gate.get(f"/holds{query}"))[0] == 400


async def test_metrics_and_state_show_what_is_held(gate):
    call = gate.bind(put_gang(gate, 2)[0])
    await gate.until_held(1)
    status, text = await gate.get("/metrics")
    assert (status, "muster_gate_held_binds 1.0" in text, "muster_gate_active 1.0" in text) == (200, True, True)
    (oldest,) = [float(line.split()[1]) for line in text.splitlines() if line.startswith("muster_gate_oldest_hold")]
    assert oldest > 0
    status, text = await gate.get("/debug/state")
    assert (status, json.loads(text)["newest"][0]["uid"]) == (200, "uid-pod-0")
    assert (await gate.get("/healthz"))[0] == 200
    call.cancel()
