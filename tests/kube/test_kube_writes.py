"""The small writes: what exactly is sent, and what each answer means."""

import datetime
from collections.abc import Awaitable, Callable
from typing import Any

import kube_stub
import pytest
from kube_stub import fail, ok, pod

from extender.core.activity import Lease
from extender.kube import client, errors, feeds, lease, resources, writes

POD = "/api/v1/namespaces/ns/pods/p"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
Write = Callable[[client.Api], Awaitable[bool]]

PATCHES: dict[str, tuple[Write, str, dict[str, Any]]] = {
    "ungate removes our gate only": (
        lambda api: writes.ungate(api, "ns", "p", "u"),
        POD,
        {
            "metadata": {"uid": "u"},
            "spec": {"schedulingGates": [{"$patch": "delete", "name": "muster.dev/queue"}]},
        },
    ),
    "nominate sets the node": (
        lambda api: writes.nominate(api, "ns", "p", "u", "n"),
        f"{POD}/status",
        {"metadata": {"uid": "u"}, "status": {"nominatedNodeName": "n"}},
    ),
    "nominate with None clears it": (
        lambda api: writes.nominate(api, "ns", "p", "u", None),
        f"{POD}/status",
        {"metadata": {"uid": "u"}, "status": {"nominatedNodeName": None}},
    ),
    "wake changes one annotation": (
        lambda api: writes.wake(api, "ns", "p", "u", "t7"),
        POD,
        {"metadata": {"uid": "u", "annotations": {"muster.dev/wake": "t7"}}},
    ),
    "annotations are set and removed": (
        lambda api: writes.post_annotations(api, "ns", "p", "u", {"a": "b", "c": None}),
        POD,
        {"metadata": {"uid": "u", "annotations": {"a": "b", "c": None}}},
    ),
    "a condition is found by its type": (
        lambda api: writes.set_pod_condition(api, "ns", "p", "u", {"type": "muster.dev/X", "status": "True"}),
        f"{POD}/status",
        {
            "metadata": {"uid": "u"},
            "status": {"conditions": [{"type": "muster.dev/X", "status": "True"}]},
        },
    ),
}


@pytest.mark.parametrize(("write", "path", "body"), PATCHES.values(), ids=PATCHES.keys())
async def test_a_patch_of_a_pod_is_for_its_uid(
    api: client.Api, stub: kube_stub.Stub, write: Write, path: str, body: dict[str, Any]
) -> None:
    stub.on("PATCH", path, ok({}))
    assert await write(api)
    (asked,) = stub.asked
    assert (asked.path, asked.body, asked.headers["Content-Type"]) == (path, body, STRATEGIC)


GONE: dict[str, list[tuple[str, Any]]] = {
    "404": [("PATCH", fail(404))],
    "409, another uid": [("PATCH", fail(409)), ("GET", ok(pod("p", uid="v")))],
    "422, another uid": [("PATCH", fail(422)), ("GET", ok(pod("p", uid="v")))],
    "409, then not there": [("PATCH", fail(409)), ("GET", fail(404))],
}


@pytest.mark.parametrize("answers", GONE.values(), ids=GONE.keys())
async def test_a_patch_of_a_pod_that_is_gone_is_false(
    api: client.Api, stub: kube_stub.Stub, answers: list[tuple[str, Any]]
) -> None:
    for verb, answer in answers:
        stub.on(verb, POD, answer)
    assert not await writes.ungate(api, "ns", "p", "u")


@pytest.mark.parametrize(("code", "want"), [(409, errors.Conflict), (422, errors.Invalid)])
async def test_a_refusal_of_a_live_pod_is_an_error(
    api: client.Api, stub: kube_stub.Stub, code: int, want: type[Exception]
) -> None:
    stub.on("PATCH", POD, fail(code))
    stub.on("GET", POD, ok(pod("p", uid="u")))
    with pytest.raises(want):
        await writes.ungate(api, "ns", "p", "u")


EVICTIONS: dict[str, tuple[Any, Any, bool]] = {
    "201 is accepted": (ok({}, 201), None, True),
    "404 is gone": (fail(404), None, False),
    "409, another uid: gone": (fail(409), ok(pod("p", uid="v")), False),
    "answer lost, and the pod is not there: gone": (kube_stub.reset, fail(404), False),
    "500, and the pod is not there: gone": (fail(500), fail(404), False),
}


@pytest.mark.parametrize(("post", "get", "want"), EVICTIONS.values(), ids=EVICTIONS.keys())
async def test_an_eviction_is_for_one_uid(
    api: client.Api, stub: kube_stub.Stub, post: Any, get: Any, want: bool
) -> None:
    stub.on("POST", f"{POD}/eviction", post)
    if get is not None:
        stub.on("GET", POD, get)
    assert await writes.evict(api, "ns", "p", "u") is want
    assert stub.asked[0].body["deleteOptions"] == {"preconditions": {"uid": "u"}}


@pytest.mark.parametrize("answer", [fail(409), fail(500), kube_stub.reset], ids=["409", "500", "answer lost"])
async def test_an_eviction_that_failed_on_a_live_pod_is_an_error(
    api: client.Api, stub: kube_stub.Stub, answer: Any
) -> None:
    stub.on("POST", f"{POD}/eviction", answer)
    stub.on("GET", POD, ok(pod("p", uid="u")))
    with pytest.raises(errors.KubeError):
        await writes.evict(api, "ns", "p", "u")


async def test_a_budget_refuses_an_eviction(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("POST", f"{POD}/eviction", fail(429, causes=[{"reason": "DisruptionBudget"}]))
    with pytest.raises(errors.Budget):
        await writes.evict(api, "ns", "p", "u")


async def test_a_throttled_eviction_is_not_a_budget(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("POST", f"{POD}/eviction", fail(429))
    with pytest.raises(errors.TooManyRequests):
        await writes.evict(api, "ns", "p", "u")


MAPS = "/api/v1/namespaces/mine/configmaps"


async def test_open_queues_are_sorted_and_written_once(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("PATCH", f"{MAPS}/muster-admission", ok({}))
    await writes.put_open_queues(api, "mine", ["b", "a", "b"])
    (asked,) = stub.asked
    assert (asked.body, asked.headers["Content-Type"]) == ({"data": {"open": "a\nb"}}, MERGE)


async def test_a_missing_admission_map_is_created(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("PATCH", f"{MAPS}/muster-admission", fail(404))
    stub.on("POST", MAPS, ok({}, 201))
    await writes.put_open_queues(api, "mine", [])
    assert stub.asked[1].body["metadata"] == {"name": "muster-admission"}
    assert stub.asked[1].body["data"] == {"open": ""}


GROUP = resources.Served(resources.POD_GROUPS, "v1alpha1").path("ns", "g")
OTHERS: dict[str, tuple[Write, str, str, Any]] = {
    "a custom resource's status is merged": (
        lambda api: writes.patch_status(api, GROUP, {"metadata": {"uid": "u"}, "status": {"phase": "Running"}}),
        f"{GROUP}/status",
        MERGE,
        {"metadata": {"uid": "u"}, "status": {"phase": "Running"}},
    ),
    "a built-in kind's status is merged by the keys of its lists": (
        lambda api: writes.patch_status(
            api, GROUP, {"metadata": {"uid": "u"}, "status": {"conditions": []}}, strategic=True
        ),
        f"{GROUP}/status",
        STRATEGIC,
        {"metadata": {"uid": "u"}, "status": {"conditions": []}},
    ),
    "annotations are merged": (
        lambda api: writes.patch_annotations(api, GROUP, "u", {"muster.dev/why": "x"}),
        GROUP,
        MERGE,
        {"metadata": {"uid": "u", "annotations": {"muster.dev/why": "x"}}},
    ),
}


@pytest.mark.parametrize(("write", "path", "content_type", "body"), OTHERS.values(), ids=OTHERS.keys())
async def test_a_patch_of_another_object_is_for_its_uid(
    api: client.Api, stub: kube_stub.Stub, write: Write, path: str, content_type: str, body: Any
) -> None:
    stub.on("PATCH", path, ok({}), fail(404), fail(422), fail(422))
    stub.on("GET", GROUP, ok({"metadata": {"uid": "other"}}), ok({"metadata": {"uid": "u"}}))
    assert await write(api)
    assert (stub.asked[0].body, stub.asked[0].headers["Content-Type"]) == (body, content_type)
    assert not await write(api), "not there"
    assert not await write(api), "another uid"
    with pytest.raises(errors.Invalid):
        await write(api)


async def test_a_refused_status_without_a_uid_is_an_error(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("PATCH", f"{GROUP}/status", fail(422))
    with pytest.raises(errors.Invalid):
        await writes.patch_status(api, GROUP, {"status": {}})


async def test_an_event_is_complete_and_bounded(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("POST", "/apis/events.k8s.io/v1/namespaces/default/events", ok({}, 201))
    involved = {"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "name": "q", "uid": "u"}
    await writes.create_event(api, "", involved, "Closed", "ü" * 2000, "Normal")
    body = stub.asked[0].body
    assert body["regarding"] == involved
    assert len(body["note"].encode()) == 1024
    assert body["reportingController"] == body["reportingInstance"] == "muster"
    assert datetime.datetime.strptime(body["eventTime"], "%Y-%m-%dT%H:%M:%S.%f%z").tzinfo is not None


async def test_live_reads_give_none_for_what_is_not_there(api: client.Api, stub: kube_stub.Stub) -> None:
    group = resources.Served(resources.NATIVE_POD_GROUPS, "v1beta1")
    path = "/apis/scheduling.k8s.io/v1beta1/namespaces/ns/podgroups/g"
    stub.on("GET", path, ok({"metadata": {"name": "g"}}), fail(404))
    stub.on("GET", POD, fail(404))
    assert await writes.read_group(api, group, "ns", "g") == {"metadata": {"name": "g"}}
    assert await writes.read_group(api, group, "ns", "g") is None
    assert await writes.read_pod(api, "ns", "p") is None


NAMES = {
    "../../secrets": "..%2F..%2Fsecrets",
    "..": "%2E%2E",
    ".": "%2E",
    "a.b": "a.b",
    "ü?x=1": "%C3%BC%3Fx%3D1",
}


@pytest.mark.parametrize(("name", "want"), NAMES.items())
def test_a_name_is_one_segment_of_a_path(name: str, want: str) -> None:
    assert resources.Served(resources.PODS, "v1").path("ns", name) == f"/api/v1/namespaces/ns/pods/{want}"


LEASES: dict[str, tuple[Any, Lease | None]] = {
    "held": (
        ok(
            {
                "metadata": {"name": "muster-scheduler"},
                "spec": {
                    "holderIdentity": "h_1",
                    "renewTime": "2026-01-01T00:00:00Z",
                    "leaseDurationSeconds": 15,
                },
            }
        ),
        Lease("h_1", "2026-01-01T00:00:00Z", 15.0),
    ),
    "released": (
        ok({"metadata": {"name": "muster-scheduler"}, "spec": {"holderIdentity": None}}),
        Lease("", "", 15.0),
    ),
    "no object": (ok({}), None),
    "none": (fail(404), None),
    "away": (fail(503), None),
}


@pytest.mark.parametrize(("answer", "want"), LEASES.values(), ids=LEASES.keys())
async def test_a_lease_is_read_as_it_stands(
    api: client.Api, stub: kube_stub.Stub, answer: Any, want: Lease | None
) -> None:
    stub.on("GET", "/apis/coordination.k8s.io/v1/namespaces/mine/leases/muster-scheduler", answer)
    assert await lease.read_lease(api, "mine", "muster-scheduler") == want


def _rows(*plurals: str) -> Any:
    return ok({"resources": [{"name": plural} for plural in plurals]})


async def test_the_preferred_version_that_has_the_resource_is_taken(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("GET", "/apis/scheduling.k8s.io/v1", _rows("priorityclasses"))
    stub.on("GET", "/apis/scheduling.k8s.io/v1beta1", _rows("podgroups", "podgroups/status"))
    stub.on("GET", "/apis/scheduling.x-k8s.io/v1alpha1", fail(404))
    stub.on("GET", "/apis/scheduling.volcano.sh/v1beta1", ok({"resources": "odd"}))
    for version in ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1", "topology.volcano.sh/v1alpha1"):
        stub.on("GET", f"/apis/{version}", fail(404))
    stub.on("GET", "/apis/muster.dev/v1alpha1", _rows("queues", "podgroups"))
    probed = [await resources.probe(api, feed.resource) for feed in (*feeds.GANGS, *feeds.QUEUES)]
    assert [served.collection for served in probed if served is not None] == [
        "/api/v1/pods",
        "/api/v1/nodes",
        "/apis/scheduling.k8s.io/v1beta1/podgroups",
        "/apis/muster.dev/v1alpha1/podgroups",
        "/api/v1/namespaces",
        "/apis/muster.dev/v1alpha1/queues",
        "/apis/policy/v1/poddisruptionbudgets",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
    ]


def test_watches_are_not_renewed_together() -> None:
    watched = [feed.resource for feed in (*feeds.GANGS, *feeds.QUEUES)]
    assert len({resource.stagger for resource in watched}) >= len(watched) - 2
