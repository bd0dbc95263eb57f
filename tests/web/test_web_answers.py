"""The server of live answers: who is believed, what is allowed, and in which form it answers. Over real TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any

import aiohttp
import pytest

from extender.core import messages
from extender.core.reasons import Reason
from extender.core.series import STATES
from extender.web import answers
from extender.wire.delegation import Asked, Decision, FrontProxy, User
from tests import builders
from tests.builders import GPU
from tests.web.asking import API, NOW, TABLE, front_proxy

# --- who is believed ---------------------------------------------------------------------------------


async def test_the_front_proxy_is_believed_whom_it_names(world, reader):
    await reader.get("workloads", X_Remote_Group="team", X_Remote_Extra_Scope="s")
    ((user, asked),) = world.reviewed
    assert user == User("ann", "", ("team",), (("scope", ("s",)),))
    assert asked == Asked("list", "visibility.muster.dev", "v1alpha1", "workloads", "", "")


@pytest.mark.parametrize("path", ["/apis", API, f"{API}/workloads", f"{API}/queues", "/metrics", "/nothing", "/"])
async def test_who_shows_no_certificate_is_refused_whatever_it_says(world, reader, path):
    options = {"shown": None, "user": "admin", "X_Remote_Group": "system:masters"}
    assert await reader.refused(path, **options) == (401, "Unauthorized")
    assert world.reviewed == []


async def test_a_certificate_of_the_authority_of_another_name_is_refused(world, reader):
    world.proxy = front_proxy("front-proxy-client")
    assert await reader.refused("workloads") == (401, "Unauthorized")


async def test_with_no_names_every_certificate_of_the_authority_counts(world, reader):
    world.proxy = front_proxy()
    await reader.get("workloads")


async def test_before_the_authority_is_known_nobody_is_believed(world, reader):
    world.proxy = None
    assert await reader.refused("workloads", shown=None) == (401, "Unauthorized")
    with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
        await reader.ask(f"{API}/workloads")


async def test_a_certificate_of_another_authority_does_not_get_in(reader):
    with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
        await reader.ask(f"{API}/workloads", shown="client-b")


async def test_a_server_s_certificate_is_no_client_s(world, reader):
    world.proxy = front_proxy()
    with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
        await reader.ask(f"{API}/workloads", shown="server-a")


async def test_a_renewed_authority_counts_from_the_next_connection_on_and_the_old_one_no_more(world, reader):
    await reader.get("workloads")
    world.proxy = front_proxy("client-b", of="b")
    await reader.get("workloads", shown="client-b")
    with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
        await reader.ask(f"{API}/workloads")


async def test_an_authority_that_cannot_be_read_leaves_the_old_one_in_use(world, reader):
    world.proxy = FrontProxy("no PEM \xe9", frozenset({"client-a"}), ("x-remote-user",), (), (), ())
    await reader.get("workloads")


async def test_a_proxy_that_names_nobody_is_not_answered(reader):
    assert await reader.refused("workloads", user="") == (401, "Unauthorized")


async def test_health_is_told_to_everybody_and_nothing_else(reader):
    status, body, _ = await reader.ask("/healthz", shown=None, user="")
    assert (status, body) == (200, "ok")


# --- what is allowed ---------------------------------------------------------------------------------

ASKED = {
    "all groups": ("workloads", Asked("list", "visibility.muster.dev", "v1alpha1", "workloads", "", "")),
    "groups of a namespace": (
        "namespaces/team/workloads",
        Asked("list", "visibility.muster.dev", "v1alpha1", "workloads", "team", ""),
    ),
    "one group": (
        "namespaces/team/workloads/muster:x",
        Asked("get", "visibility.muster.dev", "v1alpha1", "workloads", "team", "muster:x"),
    ),
    "a name in other letters": (
        "namespaces/team/workloads/pod%3A%C3%BC",
        Asked("get", "visibility.muster.dev", "v1alpha1", "workloads", "team", "pod:ü"),
    ),
    "all queues": ("queues", Asked("list", "visibility.muster.dev", "v1alpha1", "queues", "", "")),
    "one queue": ("queues/q", Asked("get", "visibility.muster.dev", "v1alpha1", "queues", "", "q")),
}


@pytest.mark.parametrize(("path", "want"), ASKED.values(), ids=ASKED.keys())
async def test_the_authorizer_is_asked_first_and_its_no_is_final(world, reader, path, want):
    world.decision, world.silent = Decision(False, "no role"), Reason.INACTIVE
    status, body, _ = await reader.ask(f"{API}/{path}")
    assert [asked for _, asked in world.reviewed] == [want]
    assert (status, body["reason"]) == (403, "Forbidden")
    assert 'User "ann" cannot' in body["message"]
    assert body["message"].endswith(": no role")
    assert body["details"]["kind"] == want.resource


async def test_an_authorizer_that_does_not_answer_allows_nothing(world, reader):
    world.decision = answers.ReviewFailed()
    status, body, answer = await reader.ask(f"{API}/workloads")
    assert (status, body["reason"], answer.headers["Retry-After"]) == (503, "ServiceUnavailable", "1")


async def test_a_fault_of_ours_is_told_to_the_log_and_not_to_the_reader(world, reader, caplog):
    world.decision = KeyError("a secret of the inside")
    status, body, _ = await reader.ask(f"{API}/workloads")
    assert (status, body["reason"]) == (500, "InternalError")
    assert "secret" not in body["message"]
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("reason", [Reason.INACTIVE, Reason.NOT_READY])
async def test_a_replica_that_knows_no_answer_says_so_and_ends_the_connection(world, reader, reason):
    world.silent = reason
    status, body, answer = await reader.ask(f"{API}/workloads")
    assert (status, body["reason"]) == (503, "ServiceUnavailable")
    assert body["details"] == {"retryAfterSeconds": 1}
    assert "muster" in body["message"]
    assert (answer.headers["Retry-After"], answer.headers["Connection"]) == ("1", "close")
    for path in ("/apis", "/apis/visibility.muster.dev", API):
        assert (await reader.ask(path))[0] == 200


# --- answers -----------------------------------------------------------------------------------------


async def test_a_group_is_found_by_its_name_only(world, reader):
    world.see(builders.make_node(), builders.make_pod("web", {GPU: 1}))
    found = await reader.get("namespaces/team/workloads/pod:web")
    assert (found["kind"], found["metadata"]["uid"]) == ("Workload", "uid-web")
    assert (found["status"]["reason"], found["status"]["position"]) == ("InsufficientResources", 1)
    for missing in ("muster:web", "pod:other", "web", "pod:", "pod:a%2Fb", "uid-web"):
        assert await reader.refused(f"namespaces/team/workloads/{missing}") == (404, "NotFound")
    assert await reader.refused("namespaces/other/workloads/pod:web") == (404, "NotFound")


async def test_what_would_end_its_wait_is_worked_out_for_one_group_and_not_for_lists(world, reader):
    world.see(builders.gpu_node(gpus=1), builders.make_pod("web", {GPU: 2}))
    status = (await reader.get("namespaces/team/workloads/pod:web"))["status"]
    (change,) = status["startsWhen"]
    assert (change["reason"], change["detail"][0]) == ("InsufficientResources", {"name": "pods", "value": 1})
    assert [one["reason"] for one in status["history"]] == ["InsufficientResources"]
    (listed,) = (await reader.get("workloads"))["items"]
    assert not {"startsWhen", "history"} & set(listed["status"])


async def test_a_list_comes_in_pages_that_together_are_all_and_nothing_twice(world, reader, monkeypatch):
    monkeypatch.setattr(answers, "PAGE", 7)
    pods = [builders.make_pod(f"p-{n:02}", namespace=f"ns-{n % 3}") for n in range(20)]
    world.see(*pods)
    want = sorted((pod.namespace, f"pod:{pod.name}") for pod in pods)
    for limit in ("", "limit=1", "limit=6", "limit=7", "limit=500", "limit=0"):
        seen, token = [], ""
        while True:
            page = await reader.get(f"workloads?{limit}&continue={token}")
            assert len(page["items"]) <= 7
            seen += [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in page["items"]]
            token = page["metadata"].get("continue", "")
            assert page["metadata"].get("remainingItemCount", 0) == len(want) - len(seen)
            if not token:
                break
        assert seen == want
    inside = await reader.get("namespaces/ns-1/workloads")
    assert {one["metadata"]["namespace"] for one in inside["items"]} == {"ns-1"}


async def test_what_comes_and_goes_between_pages_disturbs_no_other(world, reader):
    pods = builders.make_pods(4)
    world.see(*pods)
    page = await reader.get("workloads?limit=2")
    world.engine.handle(messages.PodGone(pods[1].uid), NOW)
    world.see(builders.make_pod("pod-00"))
    rest = await reader.get(f"workloads?continue={page['metadata']['continue']}")
    assert [one["metadata"]["name"] for one in rest["items"]] == ["pod:pod-2", "pod:pod-3"]


def question(gpus: int, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {GPU: str(gpus)}}}
    pod = {"metadata": {"name": "new"}, "spec": {"schedulerName": "muster", "containers": [container]} | spec}
    return {"kind": "Plan", "spec": {"pods": [{"pod": pod}]}}


async def test_a_plan_is_answered_at_once_and_leaves_nothing(world, reader):
    world.see(builders.gpu_node("n", 4))
    for gpus, starts, reason in ((4, True, None), (5, False, "InsufficientResources")):
        status, body, _ = await reader.post(f"{API}/namespaces/team/plans", question(gpus))
        assert (status, body["kind"]) == (201, "Plan")
        assert (body["status"]["name"], body["status"]["starts"]) == ("pod:new", starts)
        assert body["status"].get("reason") == reason
    assert world.reviewed[-1][1] == Asked("create", "visibility.muster.dev", "v1alpha1", "plans", "team", "")
    assert (await reader.get("workloads"))["items"] == []
    assert world.told[0] == ("plans", 201)


@pytest.mark.parametrize(
    ("content", "status", "text"),
    [
        (b"{", 400, "the body is not JSON"),
        ({}, 422, "spec.pods: not pods of one group"),
        (question(1, schedulerName="other"), 422, "spec.schedulerName: other schedules it"),
        (question(1, hostname="x" * 2**20), 413, "Request Entity Too Large: no such call"),
    ],
)
async def test_a_question_that_cannot_be_answered_is_refused(reader, content, status, text):
    found, body, _ = await reader.post(f"{API}/namespaces/team/plans", content)
    assert (found, body["code"]) == (status, status)
    assert text in body["message"]


async def test_who_has_members_already_is_no_question(world, reader):
    world.see(builders.gpu_node("n", 4), builders.make_pod("p", {GPU: 1}, group="train"))
    asked = question(1)
    asked["spec"]["pods"][0]["pod"]["metadata"]["labels"] = {"muster.dev/pod-group": "train"}
    found, body, _ = await reader.post(f"{API}/namespaces/team/plans", asked)
    assert (found, body["reason"]) == (409, "Conflict")


async def test_who_may_not_create_plans_is_told_so(world, reader):
    world.decision = Decision(False)
    found, body, _ = await reader.post(f"{API}/namespaces/team/plans", question(1))
    assert (found, body["reason"]) == (403, "Forbidden")
    assert 'cannot create resource "plans"' in body["message"]


async def test_queues_are_listed_with_the_default_one(world, reader):
    world.see(*(builders.make_queue(name) for name in ("b", "a")))
    page = await reader.get("queues?limit=2")
    assert [one["metadata"]["name"] for one in page["items"]] == ["a", "b"]
    rest = await reader.get(f"queues?limit=2&continue={page['metadata']['continue']}")
    assert [one["metadata"]["name"] for one in rest["items"]] == ["default"]
    assert "continue" not in rest["metadata"]
    assert (await reader.get("queues/a"))["kind"] == "Queue"
    assert await reader.refused("queues/c") == (404, "NotFound")


async def test_nothing_at_all_is_an_empty_list(reader):
    found = await reader.get("workloads")
    assert (found["kind"], found["items"]) == ("WorkloadList", [])


REFUSED = {
    "a watch": ("workloads?watch=true", 405),
    "labels": ("workloads?labelSelector=a", 400),
    "fields": ("queues?fieldSelector=metadata.name%3Da", 400),
    "a limit below nothing": ("workloads?limit=-1", 400),
    "a limit that is huge": ("workloads?limit=1000000000000000000000", 400),
    "a limit in other digits": ("workloads?limit=%D9%A1", 400),
    "a token of somebody else": ("queues?continue=abc", 400),
    "an unknown version": ("/apis/visibility.muster.dev/v1/workloads", 404),
    "what is not served": ("pods", 404),
}


@pytest.mark.parametrize(("path", "status"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_cannot_be_asked_is_refused_as_api_servers_do(reader, path, status):
    assert (await reader.refused(path))[0] == status


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_can_be_changed(reader, method):
    assert await reader.refused("queues/default", method=method) == (405, "MethodNotAllowed")


# --- forms -------------------------------------------------------------------------------------------


async def test_kubectl_gets_a_table_and_others_get_objects(world, reader):
    world.see(builders.make_pod("web"))
    table = await reader.get("workloads", Accept=TABLE)
    assert (table["kind"], table["rows"][0]["cells"][0]) == ("Table", "pod:web")
    one = await reader.get("namespaces/team/workloads/pod:web?includeObject=Object", Accept=TABLE)
    assert one["rows"][0]["object"]["kind"] == "Workload"
    assert await reader.refused("workloads?includeObject=All", Accept=TABLE) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("accept", "want"),
    [
        ("*/*", "WorkloadList"),
        ("application/json, */*", "WorkloadList"),
        ("application/vnd.kubernetes.protobuf, application/json", "WorkloadList"),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json", "WorkloadList"),
        ("application/json;q=0.9", "WorkloadList"),
        (";;,,= ,application/json", "WorkloadList"),
        ("application/json; as=Table; g=meta.k8s.io; v=v1", "Table"),
    ],
)
async def test_the_first_form_that_is_served_is_taken(reader, accept, want):
    assert (await reader.get("workloads", Accept=accept))["kind"] == want


@pytest.mark.parametrize(
    "accept", ["application/yaml", "text/html", "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io"]
)
async def test_other_forms_are_not_served(reader, accept):
    for path in ("/apis", f"{API}/workloads"):
        assert await reader.refused(path, Accept=accept) == (406, "NotAcceptable")


async def test_what_became_of_the_gpus_is_told_to_whom_the_authorizer_lets(world, reader):
    world.series.note(NOW - 60, {"a100": [8.0, *[0.0] * (len(STATES) - 1)]}, {})
    told = (await reader.get("usages/gpus?points=9"))["status"]
    assert (told["points"], told["cluster"]["allocated"], len(told["course"])) == (1, 8, 1)
    assert world.reviewed[-1][1] == Asked("get", "visibility.muster.dev", "v1alpha1", "usages", "", "gpus")
    assert await reader.refused("usages/gpus?since=yesterday") == (400, "BadRequest")
    assert await reader.refused("usages/cpus") == (404, "NotFound")
    world.decision = Decision(False)
    assert await reader.refused("usages/gpus") == (403, "Forbidden")


async def test_every_call_is_counted_by_what_was_asked_and_how_it_ended(world, reader):
    await reader.get("workloads")
    await reader.refused("namespaces/team/workloads/pod:x")
    await reader.get("queues")
    await reader.refused("/nothing")
    await reader.refused("queues", shown=None)
    assert world.told == [("workloads", 200), ("workloads", 404), ("queues", 200), ("other", 404), ("queues", 401)]


async def test_a_long_list_lets_others_have_their_turn(world, reader):
    world.see(*builders.make_pods(200))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(others())
    handlers_turns = turns
    await reader.get("workloads")
    assert turns - handlers_turns >= 200 // answers._TURN
    beside.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await beside
