"""The election by a Lease: one acts at a time, a lost holder is replaced, nobody acts for too long."""

from __future__ import annotations

import asyncio

import kube_stub
import pytest

from extender.kube import client, election

COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases"
PATH = f"{COLLECTION}/muster-jobs"
OURS, THEIRS = "a_1", "b_1"


def lease(holder, renewed="2026-01-01T00:00:00.000000Z", duration=15):
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": duration}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "muster-jobs", "namespace": "muster-system", "uid": "u", "resourceVersion": "7"},
        "spec": spec,
    }


class Turns:
    """An election whose turns are taken one by one, at times of the test's."""

    def __init__(self, api: client.Api, identity: str = OURS) -> None:
        self.now = 100.0
        self.election = election.Election(api, "muster-system", "muster-jobs", identity, lambda: self.now)

    async def take(self, at: float) -> bool:
        self.now = at
        await self.election._turn()
        return self.election.active


@pytest.fixture
def turns(api):
    return Turns(api)


def puts(stub):
    return [asked.body for asked in stub.asked if asked.verb in ("PUT", "POST")]


async def test_a_lease_that_is_not_there_is_created_and_we_act(stub, turns):
    stub.on("GET", PATH, kube_stub.fail(404, "NotFound"))
    stub.on("POST", COLLECTION, kube_stub.ok(lease(OURS), 201))
    assert not turns.election.active
    assert await turns.take(100.0)
    assert puts(stub)[0]["spec"]["holderIdentity"] == OURS


@pytest.mark.parametrize("holder", ["", OURS], ids=["given back", "our own, of before a crash"])
async def test_a_lease_that_nobody_else_holds_is_taken_at_once(stub, turns, holder):
    stub.on("GET", PATH, kube_stub.ok(lease(holder)))
    stub.on("PUT", PATH, kube_stub.ok(lease(OURS)))
    assert await turns.take(100.0)
    (body,) = puts(stub)
    assert (body["metadata"]["resourceVersion"], body["spec"]["holderIdentity"]) == ("7", OURS)


async def test_another_one_s_is_left_until_it_was_not_renewed_for_its_duration_as_seen_from_here(stub, turns):
    stub.on("GET", PATH, kube_stub.ok(lease(THEIRS, duration=20)))
    stub.on("PUT", PATH, kube_stub.ok(lease(OURS)))
    assert not await turns.take(100.0)
    assert not await turns.take(119.9)
    assert puts(stub) == []
    assert await turns.take(120.0)


async def test_a_renewal_by_its_holder_makes_us_wait_anew(stub, turns):
    stub.on("GET", PATH, kube_stub.ok(lease(THEIRS)), kube_stub.ok(lease(THEIRS, "2026-01-01T00:00:09.000000Z")))
    assert not await turns.take(100.0)
    assert not await turns.take(114.0)
    assert not await turns.take(128.0)
    assert puts(stub) == []


async def test_a_loser_of_the_race_does_not_act(stub, turns):
    stub.on("GET", PATH, kube_stub.ok(lease("")))
    stub.on("PUT", PATH, kube_stub.fail(409, "Conflict"))
    with pytest.raises(client.errors.Conflict):
        await turns.take(100.0)
    assert not turns.election.active


async def test_acting_ends_before_another_may_begin_though_no_answer_ever_comes(stub, turns):
    stub.on("GET", PATH, kube_stub.ok(lease("")))
    stub.on("PUT", PATH, kube_stub.ok(lease(OURS)))
    await turns.take(100.0)
    turns.now = 100.0 + election.ACTIVE_SECONDS - 0.1
    assert turns.election.active
    turns.now = 100.0 + election.ACTIVE_SECONDS
    assert not turns.election.active
    assert election.ACTIVE_SECONDS + 2 < election.DURATION_SECONDS


async def test_a_slow_renewal_counts_from_when_it_was_sent(stub, turns):
    async def slowly(stub_, request):
        turns.now += 4.0
        return await kube_stub.ok(lease(OURS))(stub_, request)

    stub.on("GET", PATH, kube_stub.ok(lease("")))
    stub.on("PUT", PATH, slowly)
    await turns.take(100.0)
    turns.now = 100.0 + election.ACTIVE_SECONDS
    assert not turns.election.active


async def test_giving_it_back_lets_the_other_begin_at_once(stub, turns):
    stub.on("GET", PATH, kube_stub.ok(lease(OURS)))
    stub.on("PUT", PATH, kube_stub.ok(lease(OURS)))
    await turns.take(100.0)
    await turns.election.release()
    assert puts(stub)[-1]["spec"]["holderIdentity"] == ""
    assert not turns.election.active


@pytest.mark.parametrize(
    "read", [kube_stub.fail(503), kube_stub.ok({"metadata": {}, "spec": 7})], ids=["503", "nonsense"]
)
async def test_what_cannot_be_read_ends_nothing(stub, turns, read, monkeypatch):
    monkeypatch.setattr(election, "RENEW_SECONDS", 0.0)
    stub.on("GET", PATH, read)
    running = asyncio.create_task(turns.election.run())
    while stub.count("GET", PATH) < 3:  # noqa: ASYNC110 - its turns have no event of their own
        await asyncio.sleep(0)
    assert not running.done()
    running.cancel()
    assert not turns.election.active
