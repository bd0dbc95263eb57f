"""Rehearsals over HTTPS: what a drained node and other queues come to, who may ask, and that nothing of it stays."""

from __future__ import annotations

import pytest

from extender.core.model import Owner
from extender.web import rehearsals
from extender.wire import frozen
from extender.wire.delegation import Asked, Decision
from tests import builders
from tests.builders import GPU
from tests.web.asking import API


def busy(world):
    """Two nodes, one of them full; a queue that would be owed what another one has."""
    world.see(*(builders.make_queue(name) for name in ("p", "q")), *(builders.gpu_node(f"n{n}", 2) for n in range(2)))
    pods = [
        builders.bound(builders.make_pod(f"r{n}", {GPU: 1}, queue="p", owner=Owner("Job", "j", "u")), f"n{n // 2}")
        for n in range(4)
    ]
    world.see(*pods, builders.make_pod("w", {GPU: 1}, queue="q"))


async def test_a_drain_is_rehearsed_and_leaves_no_trace(world, reader):
    busy(world)
    before = frozen.freeze(world.engine)
    status, body, _ = await reader.post(f"{API}/drainplans", {"spec": {"node": "n0"}})
    assert (status, body["kind"]) == (201, "DrainPlan")
    groups = body["status"]["groups"]
    assert [(one["name"], one["replaced"], one["waiting"], one["reason"]) for one in groups] == [
        ("pod:r0", 1, 1, "InsufficientResources"),
        ("pod:r1", 1, 1, "InsufficientResources"),
    ]
    assert frozen.freeze(world.engine) == before
    assert world.reviewed[-1][1] == Asked("create", "visibility.muster.dev", "v1alpha1", "drainplans", "", "")
    assert world.told == [("drainplans", 201)]


async def test_other_queues_are_rehearsed_and_leave_no_trace(world, reader):
    busy(world)
    before = frozen.freeze(world.engine)
    told = {"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "q"}}
    asked = {"spec": {"queues": [told | {"spec": {"deserved": {GPU: "1"}}}]}}
    status, body, _ = await reader.post(f"{API}/queueplans", asked)
    assert (status, body["kind"]) == (201, "QueuePlan")
    found = body["status"]
    assert [(one["name"], one["before"], one["after"]) for one in found["gains"]] == [("pod:w", 0, 1)]
    assert [(one["queue"], one["rule"], one["times"]) for one in found["evictions"]] == [("p", "Reclaimed", 1)]
    assert frozen.freeze(world.engine) == before


WRONGLY_ASKED = {
    "no JSON": ("drainplans", b"{", 400),
    "no node": ("drainplans", {"spec": {}}, 422),
    "a node that is not there": ("drainplans", {"spec": {"node": "x"}}, 404),
    "no queues": ("queueplans", {"spec": {"queues": []}}, 422),
}


@pytest.mark.parametrize(("path", "content", "code"), WRONGLY_ASKED.values(), ids=WRONGLY_ASKED)
async def test_what_cannot_be_rehearsed_is_refused(world, reader, path, content, code):
    assert (await reader.post(f"{API}/{path}", content))[0] == code


async def test_who_may_not_ask_for_a_rehearsal_is_told_so(world, reader):
    world.decision = Decision(False)
    found, body, _ = await reader.post(f"{API}/drainplans", {"spec": {"node": "n0"}})
    assert (found, body["reason"]) == (403, "Forbidden")
    assert 'cannot create resource "drainplans"' in body["message"]


async def test_a_rehearsal_that_fails_and_too_many_of_them_are_told(world, reader, monkeypatch):
    busy(world)
    monkeypatch.setattr(rehearsals, "drain", lambda *_: 1 // 0)
    asked = {"spec": {"node": "n0"}}
    assert (await reader.post(f"{API}/drainplans", asked))[0] == 500
    monkeypatch.setattr(rehearsals, "_IN_LINE", 0)
    assert (await reader.post(f"{API}/drainplans", asked))[0] == 429
