"""What makes pods, as it is followed: kinds that are served, not served, refused, added and taken away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import kube_stub
import pytest
from kube_stub import event, fail, hang, ok, page, stream, until

from extender.core import messages
from extender.core.ids import GroupKey, PodUid, Source
from extender.core.model import Owner
from extender.kube import client, errors, makers, observing
from extender.wire.kinds import KINDS, Kind
from tests.builders import make_pod

NAMES = "/api/v1/namespaces/muster-system/configmaps"
JOBS, API = "/apis/batch/v1/jobs", "/apis/batch/v1"
GOODS, GOOD_API = "/apis/a.b/v1/goods", "/apis/a.b/v1"
GOOD = "{apiVersion: a.b/v1, kind: Good, plural: goods, roles: [{at: spec}]}"
JOB_KEY = GroupKey(Source.OWNER, "team", "job:train")
#: longer than the delays between refusals, so that one is told after some of them
REFUSED = 0.2


@pytest.fixture(autouse=True)
def _jobs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """One kind of ours: a script for each of all would hide what a test is about."""
    job = next(kind for kind in KINDS if (kind.group, kind.name) == ("batch", "Job"))

    def merged(added: tuple[Kind, ...]) -> tuple[Kind, ...]:
        return (job, *added)

    monkeypatch.setattr(makers, "merged", merged)
    monkeypatch.setattr(makers, "REFUSED_SECONDS", REFUSED)
    monkeypatch.setattr(errors, "RETRY_AFTER_DEFAULT", 0.01)


def discovery(*names: str) -> Any:
    return ok({"resources": [{"name": name} for name in names]})


def names(**data: str) -> Any:
    meta = {"name": "muster-owner-kinds", "namespace": "muster-system", "uid": "c", "resourceVersion": "3"}
    return {"metadata": meta, "data": data}


def job(pods: int = 2, version: str = "5", uid: str = "j") -> Any:
    return {
        "metadata": {"name": "train", "namespace": "team", "uid": uid, "resourceVersion": version},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "template": {"spec": {"containers": []}},
        },
    }


POD = make_pod("p", owner=Owner("Job", "train", "j", "batch"))


class Told:
    """What was passed on, and the newest group and pods of it."""

    def __init__(self, following: makers.Makers) -> None:
        self.following = following
        self.ready = 0
        self.homes: dict[PodUid, GroupKey] = {}
        self.least: dict[GroupKey, int] = {}

    def take(self, told: Any) -> None:
        match told:
            case messages.PodSeen():
                self.homes[told.pod.uid] = told.pod.group
            case messages.GroupSeen():
                self.least[told.group.key] = told.group.min_member
            case messages.GroupGone():
                del self.least[told.key]

    def found(self) -> None:
        self.ready += 1


@contextlib.asynccontextmanager
async def following(api: client.Api) -> AsyncIterator[Told]:
    told: Told

    def take(event: Any) -> None:
        told.take(event)

    told = Told(makers.Makers(api, "muster-system", take, lambda: told.found(), observing.Silent()))
    running = asyncio.create_task(told.following.run())
    try:
        yield told
        assert not running.done()
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def script(stub: kube_stub.Stub, *kinds: Any, watch: Any = None) -> None:
    """No kinds of the site, unless given, and Jobs that are served, of which there are none."""
    stub.on("GET", NAMES, page(*kinds))
    stub.on("WATCH", NAMES, hang if watch is None else watch)
    stub.on("GET", API, discovery("jobs"))
    stub.on("GET", JOBS, page())
    stub.on("WATCH", JOBS, hang)


async def test_pods_are_told_in_their_groups_as_jobs_come_change_and_go(api: client.Api, stub: kube_stub.Stub) -> None:
    script(stub)
    more = asyncio.Event()

    async def watched(stub: kube_stub.Stub, request: Any) -> Any:
        await more.wait()
        news = (event("MODIFIED", job(3, "6")), event("DELETED", job(3, "7")))
        return await stream(*news)(stub, request)

    stub.on("GET", JOBS, page(job()))
    stub.on("WATCH", JOBS, watched)
    async with following(api) as told:
        told.following.put(messages.PodSeen(POD))
        assert told.homes[POD.uid].lone  # not even the kinds are known: nobody is ready then
        assert not told.ready
        await until(lambda: told.ready == 1)
        assert (told.homes[POD.uid], told.least) == (JOB_KEY, {JOB_KEY: 2})
        assert told.following.place(POD).group == JOB_KEY
        more.set()
        await until(lambda: not told.least)
        assert told.homes[POD.uid] == JOB_KEY  # it waits
        assert told.ready == 1


async def test_a_kind_that_is_not_served_is_awaited_by_nobody_and_its_pods_wait(
    api: client.Api, stub: kube_stub.Stub
) -> None:
    script(stub)
    stub.on("GET", API, fail(404, "NotFound"))
    async with following(api) as told:
        await until(lambda: told.ready == 1)
        told.following.put(messages.PodSeen(POD))
        assert told.homes[POD.uid] == JOB_KEY
        assert await told.following.read_group(JOB_KEY) is None


async def test_pods_of_a_kind_that_may_not_be_read_stand_alone_until_it_may(
    api: client.Api, stub: kube_stub.Stub
) -> None:
    script(stub)
    may = asyncio.Event()

    async def refused(stub: kube_stub.Stub, request: Any) -> Any:
        return await (page(job()) if may.is_set() else fail(403, "Forbidden"))(stub, request)

    stub.on("GET", JOBS, refused)
    async with following(api) as told:
        told.following.put(messages.PodSeen(POD))
        await until(lambda: told.ready == 1)
        assert stub.count("GET", JOBS) > 1  # not at the first refusal
        assert told.homes[POD.uid].lone
        may.set()
        await until(lambda: told.homes[POD.uid] == JOB_KEY)
        assert told.least == {JOB_KEY: 2}


async def test_without_the_right_to_read_the_sites_kinds_the_built_in_ones_count(
    api: client.Api, stub: kube_stub.Stub
) -> None:
    script(stub)
    stub.on("GET", NAMES, fail(403, "Forbidden"))
    stub.on("GET", JOBS, page(job()))
    async with following(api) as told:
        await until(lambda: told.ready == 1)
        told.following.put(messages.PodSeen(POD))
        assert told.least == {JOB_KEY: 2}


async def test_the_sites_kinds_come_and_go_while_it_runs(
    api: client.Api, stub: kube_stub.Stub, caplog: pytest.LogCaptureFixture
) -> None:
    taken = asyncio.Event()

    async def watched(stub: kube_stub.Stub, request: Any) -> Any:
        await taken.wait()
        changed = names(bad="{")
        changed["metadata"]["resourceVersion"] = "4"
        return await stream(event("MODIFIED", changed))(stub, request)

    script(stub, names(good=GOOD), watch=watched)
    stub.on("GET", GOOD_API, discovery("goods"))
    good = {"metadata": {"name": "g", "namespace": "team", "uid": "g", "resourceVersion": "5"}, "spec": {"replicas": 2}}
    good["spec"]["template"] = {"spec": {"containers": []}}
    stub.on("GET", GOODS, page(good))
    stub.on("WATCH", GOODS, hang)
    pod = make_pod("q", owner=Owner("Good", "g", "g", "a.b"))
    key = GroupKey(Source.OWNER, "team", "good:g")
    async with following(api) as told:
        told.following.put(messages.PodSeen(pod))
        await until(lambda: told.ready == 1)
        assert (told.homes[pod.uid], told.least) == (key, {key: 2})
        taken.set()
        await until(lambda: told.homes[pod.uid].lone)
        assert told.least == {}
        assert told.ready == 1
    assert "is left out" in caplog.text


async def test_a_kind_whose_rule_is_changed_is_read_anew(api: client.Api, stub: kube_stub.Stub) -> None:
    """What was known of its objects by the old rule is forgotten, also of one that went in between."""
    taken = asyncio.Event()

    async def watched(stub: kube_stub.Stub, request: Any) -> Any:
        await taken.wait()
        changed = names(good=GOOD.replace("at: spec", "at: spec, least: '=1'"))
        changed["metadata"]["resourceVersion"] = "4"
        return await stream(event("MODIFIED", changed))(stub, request)

    script(stub, names(good=GOOD), watch=watched)
    stub.on("GET", GOOD_API, discovery("goods"))
    goods = [
        {
            "metadata": {"name": name, "namespace": "team", "uid": name, "resourceVersion": "5"},
            "spec": {"replicas": 2, "template": {"spec": {"containers": []}}},
        }
        for name in ("g", "h")
    ]
    stub.on("GET", GOODS, page(*goods), page(goods[0]))
    stub.on("WATCH", GOODS, hang)
    keys = [GroupKey(Source.OWNER, "team", f"good:{name}") for name in ("g", "h")]
    async with following(api) as told:
        for name in ("g", "h"):
            told.following.put(messages.PodSeen(make_pod(name, owner=Owner("Good", name, name, "a.b"))))
        await until(lambda: told.ready == 1)
        assert told.least == dict.fromkeys(keys, 2)
        taken.set()
        await until(lambda: told.least == {keys[0]: 1})
        assert list(told.homes.values()) == keys


async def test_a_group_is_read_as_it_is_now(api: client.Api, stub: kube_stub.Stub) -> None:
    script(stub)
    path = "/apis/batch/v1/namespaces/team/jobs/train"
    stub.on("GET", path, ok(job(5)), fail(404, "NotFound"))
    async with following(api) as told:
        await until(lambda: told.ready == 1)
        group = await told.following.read_group(JOB_KEY)
        assert group is not None
        assert (group.key, group.min_member) == (JOB_KEY, 5)
        assert await told.following.read_group(JOB_KEY) is None
        assert await told.following.read_group(JOB_KEY._replace(name="odd:train")) is None


def test_what_is_not_about_rights_is_passed_to_the_observer() -> None:
    recorder = kube_stub.Recorder()
    observer = makers._Refused(recorder, lambda: pytest.fail("told"))
    observer.watch_restarted("jobs.batch", "closed")
    assert recorder.restarts == [("jobs.batch", "closed")]
