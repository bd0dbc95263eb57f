"""The account that a watch gives: complete whatever the connection, the API server and single objects do."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import kube_stub
import pytest
from kube_stub import bookmark, event, fail, hang, ok, page, pod, reset, stream, until

from extender.kube import client, errors, resources, watch

PODS = "/api/v1/pods"
PACE = watch.Pace(
    list_timeout=0.5,
    idle=0.3,
    backoff_first=0.001,
    backoff_ceiling=0.004,
    reprobe=0.01,
)
#: the same, but a silent watch stays open for the length of a test
CALM = watch.Pace(list_timeout=2.0, backoff_first=0.001, backoff_ceiling=0.004, reprobe=0.01)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "RETRY_AFTER_DEFAULT", 0.01)


class Reader:
    """Applies events as any consumer would, and keeps them in short: `ADDED a`, `SYNCED`."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.changes: list[watch.Change] = []
        self.state: dict[str, str] = {}

    def take(self, told: watch.Event) -> None:
        if isinstance(told, watch.Synced):
            self.told.append("SYNCED")
            return
        self.changes.append(told)
        self.told.append(f"{told.kind} {told.identity.name}")
        if told.kind == watch.DELETED:
            del self.state[told.identity.uid]
        else:
            assert (told.identity.uid in self.state) == (told.kind == watch.MODIFIED)
            self.state[told.identity.uid] = told.identity.resource_version


@contextlib.asynccontextmanager
async def following(
    api: client.Api,
    recorder: kube_stub.Recorder,
    resource: resources.Resource = resources.PODS,
    decode: watch.Decode = lambda content: content,
    pace: watch.Pace = CALM,
) -> AsyncIterator[Reader]:
    reader = Reader()

    async def read() -> None:
        async for told in watch.follow(api, resource, observer=recorder, decode=decode, pace=pace):
            reader.take(told)

    task = asyncio.create_task(read())
    try:
        yield reader
        assert not task.done(), "a follower never ends by itself"
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_list_then_its_changes(api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder) -> None:
    stub.on("GET", PODS, page(pod("a"), pod("b")))
    stub.on(
        "WATCH",
        PODS,
        stream(
            event("ADDED", pod("c", version="11")),
            event("MODIFIED", pod("a", version="12")),
            bookmark("13"),
            event("DELETED", pod("b", version="14")),
        ),
    )
    async with following(api, recorder) as reader:
        await until(lambda: len(reader.told) == 6)
    assert reader.told == ["ADDED a", "ADDED b", "SYNCED", "ADDED c", "MODIFIED a", "DELETED b"]
    assert reader.changes[-1].object == {
        "metadata": {"uid": "uid-b", "namespace": "ns", "name": "b", "resourceVersion": "14"}
    }
    assert reader.changes[0].object["kind"] == "Pod", "items of a list lack what the list says for all"
    assert reader.changes[0].object["apiVersion"] == "v1"
    assert recorder.events == 3
    query = stub.asked[-1].query
    assert (query["resourceVersion"], query["allowWatchBookmarks"]) == ("10", "true")
    assert 290 <= int(query["timeoutSeconds"]) < 320
    assert "resourceVersion" not in stub.asked[0].query, "a consistent list names no version"


async def test_pages_are_one_list_and_deletions_wait_for_the_last(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder
) -> None:
    stub.on("GET", PODS, page(pod("a"), more="t1"), page(pod("b"), more="t2/+="), page(pod("c")), page(pod("c")))
    stub.on("WATCH", PODS, stream(event("ERROR", kube_stub.status_of(410, "Expired"))), stream())
    async with following(api, recorder) as reader:
        await until(lambda: stub.count("WATCH", PODS) == 2)
    assert reader.told == ["ADDED a", "ADDED b", "ADDED c", "SYNCED", "DELETED a", "DELETED b"]
    lists = [asked.query for asked in stub.asked if asked.verb == "GET"]
    assert [query.get("continue") for query in lists] == [None, "t1", "t2/+=", None]
    assert {query["limit"] for query in lists} == {"500"}


RESUMED = {
    "closed in order": stream(event("ADDED", pod("b", version="17")), end="close"),
    "broken": stream(event("ADDED", pod("b", version="17")), end="break"),
    "broken in the middle of the next event": stream(
        event("ADDED", pod("b", version="17")), b'{"type":"ADDED","obj', end="break"
    ),
    "closed in the middle of the next event": stream(
        event("ADDED", pod("b", version="17")), b'{"type":"ADDED","obj', end="close"
    ),
    "silent for too long": stream(event("ADDED", pod("b", version="17"))),
    "told to wait": stream(
        event("ADDED", pod("b", version="17")), event("ERROR", kube_stub.status_of(429, "TooManyRequests"))
    ),
    "failed inside the server": stream(
        event("ADDED", pod("b", version="17")), event("ERROR", kube_stub.status_of(500, "InternalError"))
    ),
}


@pytest.mark.parametrize("first", RESUMED.values(), ids=RESUMED.keys())
async def test_a_lost_watch_is_resumed_where_it_was(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder, first: kube_stub.Answer
) -> None:
    stub.on("GET", PODS, page(pod("a")))
    stub.on("WATCH", PODS, first, stream(event("ADDED", pod("c", version="18")), *([bookmark("19")] * 3)))
    async with following(api, recorder, pace=PACE) as reader:
        await until(lambda: "ADDED c" in reader.told)
    assert reader.told == ["ADDED a", "SYNCED", "ADDED b", "ADDED c"]
    assert stub.count("GET", PODS) == 1, "resuming needs no list"
    assert [asked.query["resourceVersion"] for asked in stub.asked if asked.verb == "WATCH"][:2] == [
        "10",
        "17",
    ]


async def test_a_bookmark_moves_the_position(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder
) -> None:
    stub.on("GET", PODS, page())
    stub.on("WATCH", PODS, stream(bookmark("99"), end="close"), stream())
    async with following(api, recorder):
        await until(lambda: stub.count("WATCH", PODS) == 2)
    assert stub.asked[-1].query["resourceVersion"] == "99"
    assert recorder.restarts == [("pods", "closed")]


LOST = {
    "410 as a status": (fail(410, "Expired"), "gone"),
    "410 as an event": (stream(event("ERROR", kube_stub.status_of(410, "Expired"))), "gone"),
    "a line that is no JSON": (stream(b"{what}\n"), "unreadable"),
    "a line that is no object": (stream(b"[1]\n"), "unreadable"),
    "an event of an unknown type": (stream({"type": "SURPRISE", "object": {}}), "unreadable"),
    "an error event without a code": (stream({"type": "ERROR", "object": "odd"}), "unreadable"),
}


@pytest.mark.parametrize(("first", "reason"), LOST.values(), ids=LOST.keys())
async def test_a_lost_position_means_a_new_list_that_tells_only_differences(
    api: client.Api,
    stub: kube_stub.Stub,
    recorder: kube_stub.Recorder,
    first: kube_stub.Answer,
    reason: str,
) -> None:
    stub.on(
        "GET",
        PODS,
        page(pod("same"), pod("changed"), pod("vanished"), pod("again", uid="old")),
        page(pod("same"), pod("changed", version="5"), pod("again", uid="new"), pod("fresh"), version="20"),
    )
    stub.on("WATCH", PODS, first, stream())
    async with following(api, recorder) as reader:
        await until(lambda: stub.count("WATCH", PODS) == 2)
    assert reader.told[5:] == [
        "MODIFIED changed",
        "DELETED again",
        "ADDED again",
        "ADDED fresh",
        "DELETED vanished",
    ]
    assert [change.identity.uid for change in reader.changes if change.identity.name == "again"] == [
        "old",
        "old",
        "new",
    ]
    assert reader.changes[-1].object["metadata"]["uid"] == "uid-vanished"
    assert stub.asked[-1].query["resourceVersion"] == "20"
    assert recorder.restarts == [("pods", reason)]
    assert reader.told.count("SYNCED") == 1


async def test_a_pod_created_again_under_its_name_is_preceded_by_the_end_of_the_old_one(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder
) -> None:
    stub.on("GET", PODS, page(pod("a", uid="one")))
    stub.on(
        "WATCH",
        PODS,
        stream(
            event("ADDED", pod("a", uid="two", version="11")),
            event("DELETED", pod("a", uid="one", version="12")),
            event("MODIFIED", pod("a", uid="two", version="13")),
            event("DELETED", pod("never-seen", version="14")),
            bookmark("15"),
        ),
    )
    async with following(api, recorder) as reader:
        await until(lambda: len(reader.told) == 5)
    assert reader.told == ["ADDED a", "SYNCED", "DELETED a", "ADDED a", "MODIFIED a"]
    assert [change.identity.uid for change in reader.changes] == ["one", "one", "two", "two"]


@pytest.mark.parametrize("chunk", [1, 7, 1000], ids=["byte by byte", "by seven", "at once"])
async def test_events_are_whole_however_their_bytes_arrive(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder, chunk: int
) -> None:
    stub.on("GET", PODS, page())
    told = [event("ADDED", pod(f"ü{n}", version=str(n + 11))) for n in range(3)]
    stub.on("WATCH", PODS, stream(told[0], b"\n\r\n", *told[1:], chunk=chunk))
    async with following(api, recorder) as reader:
        await until(lambda: len(reader.told) == 4)
    assert reader.told == ["SYNCED", "ADDED ü0", "ADDED ü1", "ADDED ü2"]


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["without an end", "with an end"])
async def test_a_huge_line_is_not_taken_and_means_a_new_list(
    api: client.Api,
    stub: kube_stub.Stub,
    recorder: kube_stub.Recorder,
    monkeypatch: pytest.MonkeyPatch,
    end: bytes,
) -> None:
    monkeypatch.setattr(watch, "LINE_LIMIT", 10_000)
    stub.on("GET", PODS, page(pod("a")), page(pod("b"), version="20"))
    stub.on("WATCH", PODS, stream(b"x" * 50_000 + end), stream())
    async with following(api, recorder) as reader:
        await until(lambda: stub.count("WATCH", PODS) == 2)
    assert reader.told == ["ADDED a", "SYNCED", "ADDED b", "DELETED a"]
    assert recorder.restarts == [("pods", "unreadable")]


async def test_a_page_that_is_too_large_is_asked_for_in_halves(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "BODY_LIMIT", 10_000)
    large = ok(b"x" * 20_000)
    stub.on("GET", PODS, page(pod("a"), more="t"), large, large, page(pod("b")))
    stub.on("WATCH", PODS, stream())
    async with following(api, recorder) as reader:
        await until(lambda: stub.count("WATCH", PODS) == 1)
    assert reader.told == ["ADDED a", "ADDED b", "SYNCED"]
    lists = [(asked.query["limit"], asked.query.get("continue")) for asked in stub.asked if asked.verb == "GET"]
    assert lists == [("500", None), ("500", "t"), ("250", "t"), ("125", "t")]


FAILURES = {
    "500": fail(500),
    "429": fail(429, headers={"Retry-After": "0"}),
    "401": fail(401),
    "403": fail(403),
    "404": fail(404),
    "a broken connection": reset,
    "no answer": hang,
    "no JSON": ok(b"<html>"),
    "no resourceVersion": ok({"kind": "PodList", "items": []}),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES.keys())
async def test_a_list_that_fails_is_tried_again_and_never_half_believed(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder, failure: kube_stub.Answer
) -> None:
    stub.on("GET", PODS, page(pod("a"), more="t"), *[failure] * 2, page(pod("a"), pod("b")))
    stub.on("WATCH", PODS, stream(*([bookmark("11")] * 3)))
    pace = watch.Pace(page=1, list_timeout=0.1, backoff_first=0.001, backoff_ceiling=0.004)
    async with following(api, recorder, pace=pace) as reader:
        await until(lambda: stub.count("WATCH", PODS) == 1)
    assert reader.told == ["ADDED a", "ADDED b", "SYNCED"]
    assert 1 <= len(recorder.restarts) <= 2, "aiohttp sends a GET again when a kept connection breaks"


async def test_an_expired_continue_token_starts_the_list_again(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder
) -> None:
    stub.on("GET", PODS, page(pod("a"), more="t"), fail(410, "Expired"), page(pod("b"), version="20"))
    stub.on("WATCH", PODS, stream())
    async with following(api, recorder) as reader:
        await until(lambda: stub.count("WATCH", PODS) == 1)
    assert reader.told == ["ADDED a", "ADDED b", "DELETED a", "SYNCED"]


async def test_a_position_that_is_refused_again_and_again_is_given_up(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder
) -> None:
    """After a restore of etcd the server says 504 `Too large resource version`, not 410."""
    stub.on("GET", PODS, page(pod("a"), version="1000"), page(version="10"))
    stub.on("WATCH", PODS, *[fail(504, "Timeout")] * watch.DISTRUST_AFTER, stream())
    async with following(api, recorder) as reader:
        await until(lambda: stub.count("WATCH", PODS) == watch.DISTRUST_AFTER + 1)
    assert reader.told == ["ADDED a", "SYNCED", "DELETED a"]


@pytest.mark.parametrize("end", ["hang", "close"])
async def test_a_watch_in_utter_silence_is_not_trusted(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder, end: str
) -> None:
    """Kubernetes 1.37.2 answers a position in the future with 200 and silence, not even bookmarks."""

    async def silent(server: kube_stub.Stub, request: Any) -> Any:
        response = await stream(end="close")(server, request)
        await asyncio.sleep(0.1)
        return response

    stub.on("GET", PODS, page(pod("a"), version="1000"), page(version="10"))
    stub.on("WATCH", PODS, silent if end == "close" else stream(), stream(*([bookmark("11")] * 3)))
    pace = watch.Pace(idle=0.2, silence=0.05, backoff_first=0.001, backoff_ceiling=0.004)
    async with following(api, recorder, pace=pace) as reader:
        await until(lambda: stub.count("WATCH", PODS) == 2)
    assert reader.told == ["ADDED a", "SYNCED", "DELETED a"]
    assert recorder.restarts == [("pods", "silent" if end == "close" else "unreachable")]


async def test_an_unreachable_server_says_nothing_about_the_position(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder
) -> None:
    stub.on("GET", PODS, page())
    stub.on("WATCH", PODS, *[reset] * 8, stream())
    async with following(api, recorder):
        await until(lambda: stub.count("WATCH", PODS) >= 9)
    assert stub.count("GET", PODS) == 1


async def test_a_watch_that_is_always_closed_at_once_is_a_failure_with_back_off(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder
) -> None:
    stub.on("GET", PODS, page())
    stub.on("WATCH", PODS, stream(end="close"))
    pace = watch.Pace(shortest=5.0, backoff_first=0.001, backoff_ceiling=0.004)
    async with following(api, recorder, pace=pace):
        await until(lambda: len(recorder.restarts) == 3)
    assert set(recorder.restarts) == {("pods", "unreachable")}


BAD_OBJECTS: dict[str, Any] = {
    "no object": None,
    "text": "pod",
    "no metadata": {"spec": {}},
    "metadata that is a list": {"metadata": []},
    "no uid": {"metadata": {"name": "x"}},
    "a uid that is a number": {"metadata": {"name": "x", "uid": 1}},
    "no name": {"metadata": {"uid": "x"}},
    "a namespace that is a number": {"metadata": {"name": "x", "uid": "x", "namespace": 3}},
    "refused by the decoder": pod("bad"),
}


@pytest.mark.parametrize("bad", BAD_OBJECTS.values(), ids=BAD_OBJECTS.keys())
async def test_a_bad_object_is_set_aside_and_all_else_goes_on(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder, bad: Any
) -> None:
    def decode(content: dict[str, Any]) -> str:
        if content["metadata"]["name"] == "bad":
            raise ZeroDivisionError
        return content["metadata"]["name"].upper()

    stub.on("GET", PODS, page(pod("a"), bad, pod("b")))
    stub.on("WATCH", PODS, stream(event("ADDED", bad), event("ADDED", pod("c", version="11"))))
    async with following(api, recorder, decode=decode) as reader:
        await until(lambda: "ADDED c" in reader.told)
    assert reader.told == ["ADDED a", "ADDED b", "SYNCED", "ADDED c"]
    assert [change.object for change in reader.changes] == ["A", "B", "C"]
    assert {resource for resource, _ in recorder.aside} == {"pods"}


async def test_an_object_that_turns_bad_keeps_its_last_good_state_until_it_is_deleted(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder
) -> None:
    def decode(content: dict[str, Any]) -> int:
        return int(content["spec"]["size"])

    stub.on("GET", PODS, page(pod("a", size="1")))
    stub.on(
        "WATCH",
        PODS,
        stream(
            event("MODIFIED", pod("a", version="11", size="many")),
            event("DELETED", pod("a", version="12", size="many")),
        ),
    )
    async with following(api, recorder, decode=decode) as reader:
        await until(lambda: "DELETED a" in reader.told)
    assert reader.told == ["ADDED a", "SYNCED", "DELETED a"]
    assert recorder.aside == [("pods", "ns/a")]


QUEUES = "/apis/muster.dev/v1alpha1/queues"
GROUP = "/apis/muster.dev/v1alpha1"
SERVED = ok({"resources": [{"name": "queues/status"}, {"name": "queues"}]})


async def test_a_definition_may_appear_and_disappear_and_appear_again(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder
) -> None:
    queue = {"metadata": {"name": "q", "uid": "u", "resourceVersion": "1"}}
    stub.on("GET", GROUP, fail(404), ok({"resources": [{"name": "podgroups"}]}), SERVED, fail(404), SERVED)
    stub.on("GET", QUEUES, page(queue, kind="QueueList"))
    stub.on("WATCH", QUEUES, fail(404), stream())
    async with following(api, recorder, resources.QUEUES) as reader:
        await until(lambda: reader.told.count("ADDED q") == 2)
    assert reader.told == ["SYNCED", "ADDED q", "DELETED q", "ADDED q"]
    assert recorder.restarts == [("queues.muster.dev", "not-found")]


async def test_a_resource_that_must_be_there_is_not_in_sync_while_it_is_not_served(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder
) -> None:
    needed = resources.Resource("g", ("v2", "v1"), "things", namespaced=False)
    stub.on("GET", "/apis/g/v2", fail(404))
    stub.on("GET", "/apis/g/v1", fail(404))
    async with following(api, recorder, needed) as reader:
        await until(lambda: len(recorder.restarts) == 2)
    assert reader.told == []
    assert set(recorder.restarts) == {("things.g", "not-served")}


async def test_a_token_that_rotates_between_two_watches_costs_no_event(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder, token_file: Any
) -> None:
    stub.token = "first"
    stub.on("GET", PODS, page())
    closing = asyncio.Event()

    async def until_closed(server: kube_stub.Stub, request: Any) -> Any:
        answer = await stream(bookmark("11"), end="close")(server, request)
        await closing.wait()
        return answer

    stub.on("WATCH", PODS, until_closed, stream(event("ADDED", pod("b", version="12"))))
    async with following(api, recorder) as reader:
        await until(lambda: stub.count("WATCH", PODS) == 1)
        stub.token = "second"
        token_file.write_text("second")
        closing.set()
        await until(lambda: "ADDED b" in reader.told)
    assert [asked.query["resourceVersion"] for asked in stub.asked if asked.verb == "WATCH"] == [
        "10",
        "11",
        "11",
    ]


async def test_one_object_is_followed_by_its_name(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder
) -> None:
    path = "/api/v1/namespaces/ns/configmaps"
    stub.on("GET", path, page(kind="ConfigMapList"))
    stub.on("WATCH", path, stream())
    async with following(api, recorder, resources.config_map("ns", "muster-admission")):
        await until(lambda: stub.count("WATCH", path) == 1)
    assert {asked.query["fieldSelector"] for asked in stub.asked} == {"metadata.name=muster-admission"}


async def test_a_burst_leaves_turns_for_others(
    api: client.Api, stub: kube_stub.Stub, recorder: kube_stub.Recorder
) -> None:
    turns_at: list[int] = []
    stub.on("GET", PODS, page(*(pod(f"l{n}") for n in range(400))))
    stub.on("WATCH", PODS, stream(*(event("ADDED", pod(f"w{n}", version=str(n + 11))) for n in range(400))))
    async with following(api, recorder) as reader:
        async with asyncio.timeout(3):
            while len(reader.changes) < 800:
                turns_at.append(len(reader.changes))
                await asyncio.sleep(0)
    turns_at.append(800)
    steps = [after - before for before, after in itertools.pairwise(turns_at)]
    assert max(steps) <= 2 * watch.TURN
