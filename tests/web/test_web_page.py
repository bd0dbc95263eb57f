"""The page over HTTP: who gets what, in which form, and what a reader cannot make it do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from extender import settings
from extender.core import explain, messages
from extender.core.answers import Answers
from extender.core.engine import Engine
from extender.core.reasons import Reason
from extender.core.series import Series
from extender.web import access, page, serve, streams, tls
from extender.web.answers import ReviewFailed
from extender.wire.delegation import Asked, Decision, User
from tests import builders
from tests.builders import GPU

NOW = 1_000_000.0
CERTS = pathlib.Path(__file__).parent / "certs"
#: who may do what: user, then verb, resource and namespace ("*": any) as they are asked for
RIGHTS = {
    "root": {
        *(("list", "workloads", ""), ("list", "queues", ""), ("list", "nodes", ""), ("get", "workloads", "*")),
        ("get", "usages", ""),
    },
    "tenant": {("list", "workloads", "team"), ("get", "workloads", "team")},
    "system:serviceaccount:team:robot": {("list", "workloads", "team")},
    "nobody": set(),
}
TOKENS = {f"token-of-{name.rpartition(':')[2]}": User(name) for name in RIGHTS}


@dataclass
class World:
    engine: Engine = field(default_factory=lambda: Engine(10_000))
    series: Series = field(default_factory=Series)
    silent: Reason | None = None
    rights: dict[str, set[tuple[str, str, str]]] = field(default_factory=lambda: {k: set(v) for k, v in RIGHTS.items()})
    tokens: dict[str, User] = field(default_factory=lambda: dict(TOKENS))
    away: bool = False
    asked: list[Asked] = field(default_factory=list)
    told: list[tuple[str, int]] = field(default_factory=list)

    async def authenticate(self, token: str) -> User | None:
        if self.away:
            raise ReviewFailed
        return self.tokens.get(token)

    async def review(self, user: User, asked: Asked) -> Decision:
        self.asked.append(asked)
        rights = self.rights[user.name]
        return Decision(any((asked.verb, asked.resource, where) in rights for where in (asked.namespace, "*")))

    def answer(self, resource: str, code: int, seconds: float) -> None:
        self.told.append((resource, code))

    def see(self, *things: Any) -> None:
        for thing in things:
            self.engine.handle(builders.seen(thing), NOW)
        self.engine.handle(messages.Tick(), NOW)


@dataclass
class Site:
    world: World
    streams: streams.Streams
    url: str
    session: aiohttp.ClientSession

    def get(self, path: str, who: str = "root") -> Any:
        headers = {"Authorization": f"Bearer token-of-{who}"} if who else {}
        return self.session.get(self.url + path, headers=headers)

    async def refused(self, path: str, who: str = "root") -> tuple[int, str]:
        async with self.get(path, who) as answer:
            return answer.status, (await answer.json())["error"]

    @contextlib.asynccontextmanager
    async def reading(self, who: str = "root", query: str = "") -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        async with self.get(f"/api/stream{query}", who) as answer:
            assert (answer.status, answer.content_type) == (200, "text/event-stream")
            yield events(answer.content)

    async def seen(self, who: str = "root", query: str = "") -> tuple[dict[str, Any], dict[str, dict[Any, Any]]]:
        """What a reader is told at first: the greeting, and the tables."""
        async with self.reading(who, query) as stream:
            return await anext(stream), await whole(stream, {})


async def events(content: aiohttp.StreamReader) -> AsyncIterator[tuple[str, Any]]:
    while line := await content.readline():
        name = line.decode().removeprefix("event: ").strip()
        data = (await content.readline()).decode().removeprefix("data: ")
        assert await content.readline() == b"\n"
        yield name, json.loads(data)


async def whole(stream: AsyncIterator[tuple[str, Any]], tables: dict[str, dict[Any, Any]]) -> dict[str, dict[Any, Any]]:
    """Apply events until what belongs together is there."""
    async for name, said in stream:
        if name == "at":
            return tables
        assert name == "rows", said
        assert len(said["put"]) + len(said["gone"]) <= streams.ROWS
        table = tables.setdefault(said["table"], {})
        table |= {key: row for key, row in said["put"]}
        for key in said["gone"]:
            table.pop(key, None)
    raise AssertionError("the stream ended")


@pytest.fixture
def world() -> World:
    made = World()
    made.engine.handle(messages.ActivityChanged(True), NOW)
    return made


@pytest.fixture
async def site(world, monkeypatch) -> AsyncIterator[Site]:
    monkeypatch.setattr(streams, "PAUSE_SECONDS", 0.01)
    made = streams.Streams(
        Answers(world.engine),
        world.series,
        access.Access(world.authenticate, world.review),
        silent=lambda: world.silent,
        wall=lambda: NOW,
        metrics=world,
    )
    async with (
        serve.serve(made.application(), settings.Listen("127.0.0.1", 0), cancel_abandoned=True) as port,
        aiohttp.ClientSession() as session,
        asyncio.TaskGroup() as group,
    ):
        running = group.create_task(made.run())
        yield Site(world, made, f"http://127.0.0.1:{port}", session)
        running.cancel()


def populate(world: World) -> None:
    world.see(
        builders.gpu_node("n", 8),
        builders.make_pod("mine", {GPU: 9}),
        builders.make_pod("theirs", {GPU: 9}, namespace="other"),
    )


async def nobody_reads(site: Site) -> None:
    async with asyncio.timeout(10):
        while site.streams._readers:  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.01)


# --- files -------------------------------------------------------------------------------------------


async def test_use_over_time_is_told_to_who_may_read_it(site, world):
    for minute in range(3):
        world.series.note(NOW - 180 + 60 * minute, {"pool": (4.0, 1.0, 0.0, 1.0, 2.0, 0.0)}, {})
    async with site.get("/api/usage") as answer:
        course = (await answer.json())["status"]["course"]
    assert [one["allocated"] for one in course] == [4.0] * 3
    assert await site.refused("/api/usage", "tenant") == (403, "you may not read what becomes of the GPUs over time")
    assert (await site.refused("/api/usage", ""))[0] == 401
    world.silent = Reason.INACTIVE
    assert (await site.refused("/api/usage"))[0] == 503


async def test_every_answer_forbids_what_the_page_does_not_need(site):
    for path, who in (("/", ""), ("/main.js", ""), ("/api/stream", ""), ("/no-such-file", "root")):
        async with site.get(path, who) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "http" not in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Referrer-Policy"] == "no-referrer"


async def test_files_are_served_without_a_sign_in_and_only_once_while_they_stay_the_same(site):
    async with site.get("/", "") as answer:
        assert (answer.status, answer.content_type) == (200, "text/html")
        tag = answer.headers["ETag"]
    async with site.session.get(f"{site.url}/", headers={"If-None-Match": tag}) as answer:
        assert answer.status == 304
    for path in ("/__init__.py", "/../access.py", "/%2e%2e/access.py", "/api"):
        async with site.get(path) as answer:
            assert answer.status == 404


def test_the_page_names_no_other_host_and_has_no_way_to_make_html_of_text():
    folder = page.__path__[0]
    files = [path for path in pathlib.Path(folder).iterdir() if path.suffix in (".html", ".css", ".js", ".svg")]
    assert {path.suffix for path in files} == {".html", ".css", ".js", ".svg"}
    for path in files:
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        for word in ("http:", "https:", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                     "<style", "style=", "onclick=", "localhost", "@import", "url("):  # fmt: skip
            assert word not in text, f"{path.name}: {word}"


def test_the_page_asks_for_every_script_of_it_at_once():
    folder = pathlib.Path(page.__path__[0])
    head = (folder / "index.html").read_text()
    assert {path.name for path in folder.glob("*.js")} == set(
        re.findall(r'(?:src|modulepreload" href)="(\w+\.js)"', head)
    )


async def test_to_other_hosts_it_is_served_by_tls_and_no_certificate_is_asked_for(site):
    pair = settings.KeyPair(str(CERTS / "server-a.crt"), str(CERTS / "server-a.key"))
    secure = tls.page_context(pair)
    trusting = ssl.create_default_context(cafile=str(CERTS / "ca-a.crt"))
    async with serve.serve(site.streams.application(), settings.Listen("127.0.0.1", 0), secure) as port:
        async with site.session.get(f"https://127.0.0.1:{port}/", ssl=trusting) as answer:
            assert answer.status == 200
        with pytest.raises(aiohttp.ClientError):
            await site.session.get(f"http://127.0.0.1:{port}/")


# --- who gets what -----------------------------------------------------------------------------------

READERS = {
    "all": ("root", "", {"mine", "theirs"}, True),
    "a namespace that is named": ("tenant", "?namespaces=team", {"mine"}, False),
    "of two named ones the allowed one": ("tenant", "?namespaces=other,team", {"mine"}, False),
    "a service account its own": ("robot", "", {"mine"}, False),
}


@pytest.mark.parametrize(("who", "query", "groups", "rest"), READERS.values(), ids=READERS)
async def test_a_reader_gets_what_its_token_may_list(site, world, who, query, groups, rest):
    populate(world)
    (name, hello), tables = await site.seen(who, query)
    assert (name, hello["sees"]["queues"], hello["sees"]["nodes"]) == ("hello", rest, rest)
    columns = hello["columns"]["groups"]
    assert {row[columns.index("name")] for row in tables["groups"].values()} == groups
    assert bool(tables.get("nodes")) == bool(tables.get("queues")) == rest


REFUSALS = {
    "no token": ("", "", 401),
    "a token of nobody": ("stranger", "", 401),
    "no right": ("nobody", "", 403),
    "no right in what it names": ("tenant", "?namespaces=other", 403),
    "a tenant that names nothing": ("tenant", "", 403),
    "no name of a namespace": ("tenant", "?namespaces=<script>", 400),
    "too many namespaces": ("tenant", "?namespaces=" + ",".join(f"n{n}" for n in range(40)), 400),
}


@pytest.mark.parametrize(("who", "query", "code"), REFUSALS.values(), ids=REFUSALS)
async def test_others_get_a_refusal_and_nothing_else(site, world, who, query, code):
    populate(world)
    found, text = await site.refused(f"/api/stream{query}", who)
    assert found == code
    for secret in ("mine", "theirs", "token-of"):
        assert secret not in text
    assert world.told == [("page", code)]


@pytest.mark.parametrize("header", ["Basic cm9vdDpyb290", "Bearer", "Bearer ", f"Bearer {'x' * 7000}", "token-of-root"])
async def test_what_is_no_bearer_token_is_not_even_asked_about(site, world, header):
    world.away = True
    async with site.session.get(f"{site.url}/api/stream", headers={"Authorization": header}) as answer:
        assert answer.status == 401


async def test_a_token_in_the_address_counts_for_nothing(site):
    assert (await site.refused("/api/stream?token=token-of-root&access_token=token-of-root", ""))[0] == 401


async def test_while_the_api_server_is_away_nobody_gets_in(site, world):
    world.away = True
    assert (await site.refused("/api/stream"))[0] == 503


@pytest.mark.parametrize("reason", [Reason.NOT_READY, Reason.INACTIVE])
async def test_a_replica_that_does_not_act_says_so_to_those_who_may_ask(site, world, reason):
    world.silent = reason
    assert await site.refused("/api/stream") == (503, explain.TEXT[reason])
    assert (await site.refused("/api/stream", "nobody"))[0] == 403


# --- one group ---------------------------------------------------------------------------------------


async def test_all_there_is_to_say_of_a_group_is_what_the_live_answer_says(site, world):
    populate(world)
    async with site.get("/api/workloads/team/pod:mine", "tenant") as answer:
        status = (await answer.json())["status"]
    assert (status["reason"], status["queue"]) == ("InsufficientResources", "default")
    assert [one["reason"] for one in status["history"]] == ["InsufficientResources"]
    assert status["startsWhen"]


async def test_a_group_is_told_to_those_who_may_get_it_whether_or_not_it_is_there(site, world):
    populate(world)
    for name in ("pod:theirs", "pod:none"):
        assert (await site.refused(f"/api/workloads/other/{name}", "tenant"))[0] == 403
    for name in ("pod:none", "none", "pod:", "muster:x%2f..%2fy"):
        assert (await site.refused(f"/api/workloads/team/{name}"))[0] == 404


# --- streams -----------------------------------------------------------------------------------------


async def test_changes_are_sent_as_they_come_and_only_they(site, world):
    populate(world)
    async with site.reading() as stream:
        await anext(stream)
        tables = await whole(stream, {})
        world.see(builders.gpu_node("m", 4))
        async with asyncio.timeout(10):
            while "m" not in tables["nodes"]:
                news = await whole(stream, {})
                assert "n" not in news.get("nodes", {})
                for name, rows in news.items():
                    tables[name] |= rows


async def test_nothing_is_worked_out_while_nobody_looks(site):
    await site.seen()
    await nobody_reads(site)
    before = site.streams.board.version
    await asyncio.sleep(10 * streams.PAUSE_SECONDS)
    assert site.streams.board.version <= before + 1  # one may have been under way


@pytest.mark.parametrize("change", ["rights", "token", "silence"])
async def test_a_stream_ends_when_what_it_rests_on_does(site, world, monkeypatch, change):
    monkeypatch.setattr(streams, "REVIEW_SECONDS", 0.01)
    async with site.reading() as stream:
        await anext(stream)
        await whole(stream, {})
        match change:
            case "rights":
                world.rights["root"].discard(("list", "nodes", ""))
            case "token":
                world.tokens.clear()
            case "silence":
                world.silent = Reason.INACTIVE
        async with asyncio.timeout(10):
            rest = [name async for name, _ in stream]
    assert rest[-1] == "again"


async def test_so_many_streams_are_open_at_once_and_one_that_ends_makes_room(site, monkeypatch):
    monkeypatch.setattr(streams, "STREAMS_EACH", 1)
    async with site.reading() as stream:
        await anext(stream)
        assert (await site.refused("/api/stream"))[0] == 429
        _, tables = await site.seen("robot")
        assert "groups" not in tables
    await nobody_reads(site)
    await site.seen()


async def test_a_reader_that_reads_nothing_is_dropped(site, world, monkeypatch):
    monkeypatch.setattr(streams, "SLOW_SECONDS", 0.1)
    board = site.streams.board

    def renew(_now: float) -> Iterator[None]:
        for number in range(300):
            board.tables["queues"].put(f"q{number}", ("x" * 100_000,), board.version + 1)
            yield
        board.version += 1

    monkeypatch.setattr(board, "renew", renew)
    async with site.get("/api/stream") as answer:
        assert answer.status == 200
        await nobody_reads(site)


async def test_a_fault_of_the_tables_ends_neither_the_process_nor_the_stream(site, world, monkeypatch):
    populate(world)
    async with site.reading() as stream:
        await anext(stream)
        await whole(stream, {})
        renew, failed = site.streams.board.renew, asyncio.Event()

        def fail(_now: float) -> Iterator[None]:
            failed.set()
            raise RuntimeError("dictionary changed size during iteration")
            yield

        monkeypatch.setattr(site.streams.board, "renew", fail)
        async with asyncio.timeout(10):
            await failed.wait()
            monkeypatch.setattr(site.streams.board, "renew", renew)
            world.see(builders.gpu_node("m", 4))
            while "m" not in (await whole(stream, {})).get("nodes", {}):
                pass


async def test_many_rows_come_in_small_events(site, world, monkeypatch):
    monkeypatch.setattr(streams, "ROWS", 3)
    world.see(*(builders.gpu_node(f"n{n}") for n in range(10)))
    _, tables = await site.seen()
    assert len(tables["nodes"]) == 10
