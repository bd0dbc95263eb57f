"""How an object is let go and suspended again, before an eviction too; and planned pods as time passes."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from typing import Any

import kube_stub
import pytest
from kube_stub import fail, hang, ok, page, until

from extender.core import messages
from extender.core.ids import GroupKey, PodUid, Source
from extender.core.reasons import Ground
from extender.core.switches import Switch
from extender.kube import client, effects, errors, makers, observing
from extender.wire.kinds import KINDS

API = "/apis/kubeflow.org/v1"
JOB = f"{API}/namespaces/ns/pytorchjobs/train"
POD = "/api/v1/namespaces/ns/pods/p"
SWITCH = Switch("kubeflow.org", ("v2", "v1"), "pytorchjobs", "spec.runPolicy.suspend", "ns", "train", "u", 4)
KEY = GroupKey(Source.OWNER, "ns", "pytorchjob:train")
AT = datetime.datetime(2026, 12, 1, 10, 0, 0, tzinfo=datetime.UTC).timestamp()
ADMITTED = "muster.dev/admitted-at"


def job(suspend: Any = True, *, uid: str = "u", generation: int = 4, created: str = "2026-12-01T09:00:00Z") -> Any:
    meta = {"name": "train", "uid": uid, "generation": generation, "resourceVersion": "7", "creationTimestamp": created}
    return ok({"metadata": meta, "spec": {"runPolicy": {"suspend": suspend}}})


@pytest.fixture
def writer(api: client.Api, stub: kube_stub.Stub) -> effects.Effects:
    stub.on("GET", "/apis/kubeflow.org/v2", fail(404))
    stub.on("GET", API, ok({"resources": [{"name": "pytorchjobs"}]}))
    stub.on("PATCH", JOB, ok({}))
    return effects.Effects(api, "muster-system", lambda: datetime.datetime.now(datetime.UTC))


def patches(stub: kube_stub.Stub, path: str = JOB) -> list[Any]:
    return [asked.body for asked in stub.asked if (asked.verb, asked.path) == ("PATCH", path)]


async def test_one_write_lets_go_and_notes_it_upon_the_version_that_was_read(
    writer: effects.Effects, stub: kube_stub.Stub
) -> None:
    stub.on("GET", JOB, job())
    await writer.write(messages.Suspend(KEY, SWITCH, False, AT))
    meta = {"uid": "u", "resourceVersion": "7", "annotations": {ADMITTED: "2026-12-01T10:00:00Z"}}
    assert patches(stub) == [{"spec": {"runPolicy": {"suspend": False}}, "metadata": meta}]


async def test_suspending_takes_the_note_away_whatever_the_spec_is_now(
    writer: effects.Effects, stub: kube_stub.Stub
) -> None:
    stub.on("GET", JOB, job(False, generation=9))
    await writer.write(messages.Suspend(KEY, SWITCH, True, AT))
    meta = {"uid": "u", "resourceVersion": "7", "annotations": {ADMITTED: None}}
    assert patches(stub) == [{"spec": {"runPolicy": {"suspend": True}}, "metadata": meta}]


async def test_a_clock_that_is_late_does_not_make_the_note_older_than_its_object(
    writer: effects.Effects, stub: kube_stub.Stub
) -> None:
    stub.on("GET", JOB, job(created="2026-12-01T10:00:03Z"))
    await writer.write(messages.Suspend(KEY, SWITCH, False, AT))
    assert patches(stub)[0]["metadata"]["annotations"] == {ADMITTED: "2026-12-01T10:00:03Z"}


@pytest.mark.parametrize("answer", [job(False), job(uid="v"), fail(404)], ids=["is so", "another one", "gone"])
async def test_what_is_so_or_gone_is_not_written(writer: effects.Effects, stub: kube_stub.Stub, answer: Any) -> None:
    stub.on("GET", JOB, answer)
    await writer.write(messages.Suspend(KEY, SWITCH, False, AT))
    assert patches(stub) == []


async def test_a_decision_about_another_spec_is_stale_and_not_tried_again(
    writer: effects.Effects, stub: kube_stub.Stub
) -> None:
    stub.on("GET", JOB, job(generation=5))
    with pytest.raises(errors.Stale) as caught:
        await writer.write(messages.Suspend(KEY, SWITCH, False, AT))
    assert effects.retry_of(caught.value) is None
    assert patches(stub) == []


async def test_of_one_that_hands_its_field_on_the_generation_is_another_s(
    writer: effects.Effects, stub: kube_stub.Stub
) -> None:
    stub.on("GET", JOB, job(generation=1))
    above = Switch("kubeflow.org", ("v1",), "pytorchjobs", "spec.runPolicy.suspend", "ns", "train", "u", 4, own=False)
    await writer.write(messages.Suspend(KEY, above, False, AT))
    assert len(patches(stub)) == 1


EVICT = messages.Evict(PodUid("p-1"), "ns", "p", Ground.PREEMPTED, (), SWITCH)


def pod_is_there(stub: kube_stub.Stub) -> None:
    stub.on("PATCH", f"{POD}/status", ok({}))
    stub.on("POST", f"{POD}/eviction", ok({}))
    stub.on("POST", "/apis/events.k8s.io/v1/namespaces/ns/events", ok({}))


async def test_what_makes_an_evicted_pod_is_suspended_when_that_is_on_record_and_before_the_pod_goes(
    writer: effects.Effects, stub: kube_stub.Stub
) -> None:
    pod_is_there(stub)
    stub.on("GET", JOB, job(False))
    await writer.write(EVICT)
    writes = [asked.path for asked in stub.asked if asked.verb in ("PATCH", "POST")][:3]
    assert writes == [f"{POD}/status", JOB, f"{POD}/eviction"]


async def test_a_pod_is_evicted_also_where_nobody_may_suspend(writer: effects.Effects, stub: kube_stub.Stub) -> None:
    pod_is_there(stub)
    stub.on("GET", JOB, job(False))
    stub.on("PATCH", JOB, fail(403, "Forbidden"))
    await writer.write(EVICT)
    assert stub.count("POST", f"{POD}/eviction") == 1


# --- planned pods ------------------------------------------------------------------------------------


async def test_planned_pods_are_told_and_taken_back_as_time_passes(
    api: client.Api, stub: kube_stub.Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = next(kind for kind in KINDS if (kind.group, kind.name) == ("batch", "Job"))
    monkeypatch.setattr(makers, "merged", lambda added: (kind,))
    monkeypatch.setattr(makers, "LOOK_SECONDS", 0.001)
    names = "/api/v1/namespaces/muster-system/configmaps"
    spec = {"suspend": True, "parallelism": 2, "completions": 2, "completionMode": "Indexed"}
    spec |= {"template": {"spec": {"schedulerName": "muster", "containers": []}}}
    meta = {"name": "train", "namespace": "ns", "uid": "u", "resourceVersion": "5"}
    obj = {"metadata": meta | {"labels": {"muster.dev/queue-by": "suspension"}}, "spec": spec}
    go_on = asyncio.Event()

    async def watched(stub: kube_stub.Stub, request: Any) -> Any:
        await go_on.wait()
        running = {"metadata": obj["metadata"] | {"resourceVersion": "6"}, "spec": spec | {"suspend": False}}
        return await kube_stub.stream(kube_stub.event("MODIFIED", running))(stub, request)

    stub.on("GET", names, page())
    stub.on("WATCH", names, hang)
    stub.on("GET", "/apis/batch/v1", ok({"resources": [{"name": "jobs"}]}))
    stub.on("GET", "/apis/batch/v1/jobs", page(obj))
    stub.on("WATCH", "/apis/batch/v1/jobs", watched)
    there: dict[PodUid, GroupKey] = {}
    clock = [0.0]

    def take(event: Any) -> None:
        if isinstance(event, messages.PodSeen):
            there[event.pod.uid] = event.pod.group
        elif isinstance(event, messages.PodGone):
            there.pop(event.uid, None)

    def now() -> float:
        clock[0] += 1.0
        return clock[0]

    following = makers.Makers(api, "muster-system", take, lambda: None, observing.Silent(), now)
    running = asyncio.create_task(following.run())
    try:
        await until(lambda: len(there) == 2)
        assert set(there.values()) == {GroupKey(Source.OWNER, "ns", "job:train")}
        go_on.set()
        await until(lambda: not there)
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
