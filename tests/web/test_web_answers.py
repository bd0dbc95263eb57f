"""The server of live answers: who is believed, what is allowed, and in which form it answers. Over real TLS."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import pathlib
import ssl
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import pytest

from extender import settings
from extender.core import messages
from extender.core.answers import Answers
from extender.core.engine import Engine
from extender.core.reasons import Evicted, Ground, Reason
from extender.core.series import STATES, Series
from extender.web import answers, serve, tls
from extender.wire.delegation import Asked, Decision, FrontProxy, User
from tests import builders
from tests.builders import GPU

CERTS = pathlib.Path(__file__).parent / "certs"
API = "/apis/visibility.muster.dev/v1alpha1"
NOW = 1_000_000.0
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def authority(of: str) -> str:
    return (CERTS / f"ca-{of}.crt").read_text()


def front_proxy(*names: str, of: str = "a") -> FrontProxy:
    return FrontProxy(
        authority(of), frozenset(names), ("x-remote-user",), (), ("x-remote-group",), ("x-remote-extra-",)
    )


@dataclass
class World:
    """What the server is told, changed by a test at will."""

    engine: Engine = field(default_factory=lambda: Engine(10_000))
    series: Series = field(default_factory=Series)
    proxy: FrontProxy | None = field(default_factory=lambda: front_proxy("client-a"))
    decision: Decision | Exception = field(default_factory=lambda: Decision(True))
    silent: Reason | None = None
    reviewed: list[tuple[User, Asked]] = field(default_factory=list)
    told: list[tuple[str, int]] = field(default_factory=list)

    async def review(self, user: User, asked: Asked) -> Decision:
        self.reviewed.append((user, asked))
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision

    def answer(self, resource: str, code: int, seconds: float) -> None:
        assert seconds >= 0
        self.told.append((resource, code))

    def see(self, *things: Any) -> None:
        for thing in things:
            self.engine.handle(builders.seen(thing), NOW)
        self.engine.handle(messages.Tick(), NOW)


@pytest.fixture
def world() -> World:
    made = World()
    made.engine.handle(messages.ActivityChanged(True), NOW)
    return made


@pytest.fixture
async def port(world):
    handlers = answers.Handlers(
        Answers(world.engine),
        world.series,
        front_proxy=lambda: world.proxy,
        review=world.review,
        silent=lambda: world.silent,
        wall=lambda: NOW,
        metrics=world,
    )
    pair = settings.KeyPair(str(CERTS / "server-a.crt"), str(CERTS / "server-a.key"))
    context = tls.asking_context(pair, lambda: world.proxy.authority if world.proxy else "")
    async with serve.serve(handlers.application(), settings.Listen("127.0.0.1", 0), context) as number:
        yield number


def context(shown: str | None) -> ssl.SSLContext:
    """A client that trusts the server and shows a certificate, or none."""
    made = ssl.create_default_context(cafile=str(CERTS / "ca-a.crt"))
    if shown is not None:
        made.load_cert_chain(CERTS / f"{shown}.crt", CERTS / f"{shown}.key")
    return made


@dataclass
class Reader:
    """Asks as kube-apiserver does for a user."""

    port: int
    session: aiohttp.ClientSession

    async def ask(
        self, path: str, *, method: str = "GET", shown: str | None = "client-a", user: str = "ann", **headers: str
    ) -> tuple[int, Any, aiohttp.ClientResponse]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()} | (
            {"X-Remote-User": user} if user else {}
        )
        url = f"https://127.0.0.1:{self.port}{path}"
        async with self.session.request(method, url, headers=sent, ssl=context(shown)) as answer:
            plain = answer.content_type != "application/json"
            return answer.status, await (answer.text() if plain else answer.json()), answer

    async def post(self, path: str, content: Any) -> tuple[int, Any, aiohttp.ClientResponse]:
        """The same with a body: JSON data, or bytes."""
        body = io.BytesIO(content if isinstance(content, bytes) else json.dumps(content).encode())
        url, sent = f"https://127.0.0.1:{self.port}{path}", {"X-Remote-User": "ann", "Content-Type": "application/json"}
        async with self.session.post(url, headers=sent, ssl=context("client-a"), data=body) as answer:
            return answer.status, await answer.json(), answer

    async def get(self, path: str, **options: str) -> Any:
        """An answer that is wanted to succeed."""
        status, body, _ = await self.ask(f"{API}/{path}", **options)
        assert status == 200, body
        return body

    async def refused(self, path: str, **options: Any) -> tuple[int, str]:
        """Status and reason of a refusal, which must be a sound Status object."""
        status, body, _ = await self.ask(path if path.startswith("/") else f"{API}/{path}", **options)
        assert (body["kind"], body["apiVersion"], body["status"]) == ("Status", "v1", "Failure")
        assert body["code"] == status
        assert body["message"]
        return status, body["reason"]


@pytest.fixture
async def reader(port):
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        yield Reader(port, session)


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


def leave(world: World, name: str, **fields: Any) -> None:
    """A pod that ran is drained, and gone."""
    pod = builders.bound(builders.make_pod(name, **fields), "n", NOW - 60)
    world.see(pod, replace(pod, terminating=True, evicted=Evicted(Ground.API, NOW)))
    world.engine.handle(messages.PodGone(pod.uid), NOW)


async def test_evictions_are_told_of_a_group_and_of_pods_that_are_gone(world, reader):
    world.see(builders.make_node("n"), builders.make_group("train", 2))
    for name, fields in (
        ("t-0", {"group": "train"}),
        ("t-1", {"group": "train"}),
        ("solo", {}),
        ("m-0", {"group": "m"}),
    ):
        leave(world, name, **fields)
    status = (await reader.get("namespaces/team/workloads/muster:train"))["status"]
    (told,) = status["evictions"]
    assert (status["phase"], told["rule"], told["pods"], told["at"]) == (
        *("Pending", "EvictionByEvictionAPI", 2, "1970-01-12T13:46:40Z"),
    )
    numbers = "node n, evicted 2, lost-seconds 120, checkpoint none"
    assert told["message"] == f"not by Muster: somebody evicted it, as a drain of its node does ({numbers})"
    gone = {"pod:t-1": "muster:train", "pod:solo": None, "muster:m": None, "pod:m-0": "muster:m"}
    for name, group in gone.items():
        found = await reader.get(f"namespaces/team/workloads/{name}")
        assert found["metadata"]["name"] == name
        assert (found["status"]["phase"], found["status"].get("group")) == ("Gone", group)
        assert len(found["status"]["evictions"]) == 1
        _, table, _ = await reader.ask(f"{API}/namespaces/team/workloads/{name}", Accept=TABLE)
        assert table["rows"][0]["cells"][:2] == [name, "Gone"]
    assert [one["metadata"]["name"] for one in (await reader.get("workloads"))["items"]] == ["muster:train"]
    for path in ("other/workloads/pod:solo", "team/workloads/native:solo", "team/workloads/pod:t-2"):
        assert await reader.refused(f"namespaces/{path}") == (404, "NotFound")


async def test_a_pod_that_is_there_again_is_told_of_as_it_is_with_the_evictions_of_its_name(world, reader):
    world.see(builders.make_node("n"))
    for name, fields in (("solo", {}), ("t-0", {"group": "t"})):
        leave(world, name, **fields)
        world.see(builders.make_pod(name, uid=f"new-{name}", **fields))
    status = (await reader.get("namespaces/team/workloads/pod:solo"))["status"]
    assert (status["phase"], len(status["evictions"])) == ("Pending", 1)
    assert await reader.refused("namespaces/team/workloads/pod:t-0") == (404, "NotFound")


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
