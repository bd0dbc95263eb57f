"""An eviction: its record on the pod, the eviction itself, and what is told of it."""

from __future__ import annotations

import datetime
from typing import Any

import kube_stub
import orjson
import pytest
from kube_stub import fail, ok, pod

from extender.core import messages
from extender.core.ids import GroupKey, PodUid, Source
from extender.core.reasons import Ground
from extender.kube import client, effects, errors, evicting

POD = "/api/v1/namespaces/ns/pods/p"
STATUS, EVICTION = f"{POD}/status", f"{POD}/eviction"
EVENTS = "/apis/events.k8s.io/v1/namespaces/ns/events"
EVICT = messages.Evict(PodUid("u"), "ns", "p", Ground.PARTIAL_RELEASE, (("group", "g"), ("bound", 9)))
BUDGET = fail(429, causes=[{"reason": "DisruptionBudget"}])
TWO_BUDGETS = fail(
    500, "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)
BUDGET_IN_CONFLICT = fail(504, "Timeout", 'couldn\'t update PodDisruptionBudget "b" due to conflicts')
LIVE = ok(pod("p", uid="u"))


@pytest.fixture(autouse=True)
def _scripts(stub: kube_stub.Stub) -> None:
    stub.on("PATCH", STATUS, ok({}))
    stub.on("POST", EVICTION, ok({}, 201))
    stub.on("POST", EVENTS, ok({}, 201))
    stub.on("GET", POD, LIVE)


def asked(stub: kube_stub.Stub) -> list[tuple[str, str]]:
    return [(one.verb, one.path) for one in stub.asked]


async def test_a_pod_bears_the_record_before_it_is_evicted_and_is_told_why(
    api: client.Api, stub: kube_stub.Stub
) -> None:
    await evicting.evict(api, EVICT)
    assert asked(stub) == [("PATCH", STATUS), ("POST", EVICTION), ("POST", EVENTS)]
    record, eviction, event = (one.body for one in stub.asked)
    assert record["metadata"]["uid"] == "u"
    written = orjson.loads(record["metadata"]["annotations"]["muster.dev/evicted"])
    at = datetime.datetime.fromisoformat(written.pop("at"))
    assert abs(datetime.datetime.now(datetime.UTC) - at) < datetime.timedelta(minutes=1)
    assert written == {"rule": "PartialRelease", "group": "g", "bound": 9}
    assert eviction["deleteOptions"] == {"preconditions": {"uid": "u"}}
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "p", "uid": "u"}
    assert (event["type"], event["reason"]) == ("Warning", "PartialRelease")
    assert event["note"].endswith("(group g, bound 9)")


@pytest.mark.parametrize("answer", [fail(403), fail(500), kube_stub.reset], ids=["403", "500", "answer lost"])
async def test_an_eviction_that_cannot_be_told_of_is_an_eviction(
    api: client.Api, stub: kube_stub.Stub, answer: Any
) -> None:
    stub.on("POST", EVENTS, answer)
    await evicting.evict(api, EVICT)
    assert stub.count("POST", EVICTION) == 1


@pytest.mark.parametrize("path", [STATUS, EVICTION])
async def test_nothing_is_told_of_a_pod_that_was_gone(api: client.Api, stub: kube_stub.Stub, path: str) -> None:
    stub.on("PATCH" if path is STATUS else "POST", path, fail(404))
    await evicting.evict(api, EVICT)
    assert stub.count("POST", EVENTS) == 0
    assert stub.count("POST", EVICTION) == (path is EVICTION)


async def test_nobody_is_evicted_without_a_record(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("PATCH", STATUS, fail(422))
    with pytest.raises(errors.Invalid):
        await evicting.evict(api, EVICT)
    assert stub.count("POST", EVICTION) == 0


#: answer to the eviction; whether the same eviction is tried again; whether the record stays for that
REFUSALS: dict[str, tuple[Any, bool, bool]] = {
    "a budget": (BUDGET, False, False),
    "two budgets": (TWO_BUDGETS, False, False),
    "a budget that many ask at once": (BUDGET_IN_CONFLICT, True, False),
    "a budget that counts wrong": (fail(403, causes=[{"reason": "DisruptionBudget"}]), False, False),
    "admission": (fail(422), False, False),
    "a conflict on a live pod": (fail(409), True, False),
    "a fault of the server": (fail(500), True, False),
    "too many requests of everybody": (fail(429), True, True),
    "no answer": (kube_stub.reset, True, True),
}


@pytest.mark.parametrize(("answer", "again", "stays"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_what_is_refused_leaves_no_record(
    api: client.Api, stub: kube_stub.Stub, answer: Any, again: bool, stays: bool
) -> None:
    stub.on("POST", EVICTION, answer)
    with pytest.raises(errors.KubeError) as raised:
        await evicting.evict(api, EVICT)
    assert (effects.retry_of(raised.value) is not None) is again
    records = [one.body["metadata"]["annotations"] for one in stub.asked if one.verb == "PATCH"]
    assert len(records) == (1 if stays else 2)
    assert (records[-1]["muster.dev/evicted"] is not None) is stays
    assert stub.count("POST", EVENTS) == 0


async def test_a_record_that_cannot_be_taken_back_does_not_hide_the_refusal(
    api: client.Api, stub: kube_stub.Stub
) -> None:
    stub.on("PATCH", STATUS, ok({}), fail(503))
    stub.on("POST", EVICTION, BUDGET)
    with pytest.raises(errors.Budget):
        await evicting.evict(api, EVICT)


@pytest.mark.parametrize("answer", [fail(500), kube_stub.reset], ids=["500", "lost"])
async def test_a_pod_that_leaves_after_an_answer_was_lost_is_evicted(
    api: client.Api, stub: kube_stub.Stub, answer: Any
) -> None:
    leaving = pod("p", uid="u")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-30T10:00:00Z"
    stub.on("POST", EVICTION, answer)
    stub.on("GET", POD, ok(leaving))
    await evicting.evict(api, EVICT)
    assert asked(stub) == [("PATCH", STATUS), ("POST", EVICTION), ("GET", POD), ("POST", EVENTS)]


GROUPS: dict[Source, tuple[str, str, str]] = {
    Source.MUSTER: ("muster.dev", "v1alpha1", "/status"),
    Source.NATIVE: ("scheduling.k8s.io", "v1beta1", "/status"),
    Source.SCHEDULER_PLUGINS: ("scheduling.x-k8s.io", "v1alpha1", ""),
    Source.VOLCANO: ("scheduling.volcano.sh", "v1beta1", ""),
}


@pytest.mark.parametrize("source", GROUPS, ids=str)
async def test_a_group_is_told_in_one_patch_and_one_event(
    api: client.Api, stub: kube_stub.Stub, source: Source
) -> None:
    group, version, part = GROUPS[source]
    stub.on("GET", "/apis/scheduling.k8s.io/v1", fail(404))
    stub.on("GET", f"/apis/{group}/{version}", ok({"resources": [{"name": "podgroups"}]}))
    path = f"/apis/{group}/{version}/namespaces/ns/podgroups/g{part}"
    stub.on("PATCH", path, ok({}))
    writer = effects.Effects(api, "muster-system", lambda: datetime.datetime(2026, 11, 30, 10, tzinfo=datetime.UTC))
    key = GroupKey(source, "ns", "g")
    await writer.write(messages.NoteEviction(key, "g-1", Ground.RECLAIMED, 1e9, (("cost", 7),)))
    patched, event = [one for one in stub.asked if one.verb != "GET"]
    assert (patched.path, patched.body["metadata"]["uid"]) == (path, "g-1")
    assert event.body["regarding"]["apiVersion"] == f"{group}/{version}"
    assert (event.body["type"], event.body["reason"]) == ("Warning", "Reclaimed")
    assert event.body["note"].endswith("(cost 7)")


async def test_a_pod_that_stands_alone_is_told_of_in_an_event_and_not_touched(
    api: client.Api, stub: kube_stub.Stub
) -> None:
    writer = effects.Effects(api, "muster-system", lambda: datetime.datetime(2026, 11, 30, 10, tzinfo=datetime.UTC))
    note = messages.NoteEviction(GroupKey(Source.POD, "ns", "u-1"), "u-1", Ground.TAINT, 1e9, (("node", "n"),), "web-0")
    await writer.write(note)
    (event,) = stub.asked
    assert (event.verb, event.path) == ("POST", EVENTS)
    regarding = {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "web-0", "uid": "u-1"}
    assert (event.body["regarding"], event.body["reason"]) == (regarding, "DeletionByTaintManager")
    assert event.body["note"] == "not by Muster: its node got a taint that it does not tolerate (node n)"
