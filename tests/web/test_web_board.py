"""What the page shows: rows that say what the live answers say, brought up to date with less work than making them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from extender.core import evictions, explain, messages
from extender.core.answers import Answers
from extender.core.engine import Engine
from extender.core.ids import NodeName, PodUid, QueueName
from extender.core.reasons import Evicted, Ground
from extender.core.resources import GPU_PARTS, GPU_SHARE
from extender.web import board as boards
from extender.web.board import COLUMNS, Board, Sees
from tests import builders
from tests.builders import GPU

NOW = 1_000.0
ALL = Sees(None, True, True)


class Stage:
    """An engine that acts, and the board over it."""

    def __init__(self) -> None:
        self.engine = Engine(10_000)
        self.engine.handle(messages.ActivityChanged(True), NOW)
        self.board = Board(Answers(self.engine))
        self.now = NOW

    def event(self, *events: Any) -> None:
        for event in events:
            self.engine.handle(event, self.now)
        self.tick()

    def tick(self) -> None:
        self.engine.handle(messages.Tick(), self.now)
        while self.engine.unfinished:
            self.engine.handle(messages.Tick(), self.now)

    def renew(self) -> None:
        self.now += boards.SLOW_SECONDS
        for _ in self.board.renew(self.now):
            pass

    def rows(self, name: str, sees: Sees = ALL) -> dict[Any, dict[str, Any]]:
        changes = self.board.since(0, sees)
        assert changes is not None
        return {one.key: dict(zip(COLUMNS[name], one.row or (), strict=True)) for one in changes[name]}

    def named(self, name: str) -> tuple[int, dict[str, Any]]:
        return next((key, row) for key, row in self.rows("groups").items() if row["name"] == name)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def show(stage: Stage, *things: Any) -> None:
    stage.event(*(builders.seen(thing) for thing in things))


def gang(name: str, size: int, gpus: int = 1, **fields: Any) -> list[Any]:
    pods = [builders.make_pod(f"{name}-{n}", {"cpu": 1, GPU: gpus}, group=name, **fields) for n in range(size)]
    return [builders.make_group(name, size, namespace=fields.get("namespace", "team")), *pods]


def test_a_waiting_gang_has_the_reason_and_the_words_of_the_live_answer_and_its_position(stage):
    show(stage, builders.gpu_node("n", 2), *gang("train", 4))
    stage.renew()
    number, row = stage.named("train")
    found = stage.board._answers.workload(builders.group_key("train"))
    assert found is not None
    assert found.refusal is not None
    assert (row["phase"], row["reason"], row["message"]) == (
        "Pending",
        "InsufficientResources",
        explain.sentence(found.refusal),
    )
    assert (row["have"], row["minimum"], row["bound"]) == (4, 4, 0)
    assert stage.rows("positions")[number] == {"position": 1}


def test_a_node_tells_who_has_its_gpus_who_holds_them_and_where_it_stands(stage):
    node = builders.gpu_node("n", 8, {"block": "b1", "rack": "r1"})
    runs = builders.bound(builders.make_pod("lone", {GPU: 2}), "n", NOW)
    show(stage, builders.make_topology("block", "rack"), node, runs, *gang("train", 4))
    stage.renew()
    row = stage.rows("nodes")["n"]
    lone, train = stage.named("lone")[0], stage.named("train")[0]
    assert (row["path"], row["gpus"], row["free"], row["state"]) == (("b1", "r1"), 8, 2, "")
    assert row["used"] == ((lone, 2),)
    assert row["held"] == ((train, 4),)
    assert stage.rows("cluster")[boards.NOW] == {
        "levels": ("block", "rack"), "gpus": 8, "used": 2, "held": 4, "free": 2, "out": 0, "nodes": 1,
    }  # fmt: skip


def test_a_node_that_takes_no_pods_has_nothing_free(stage):
    show(stage, builders.gpu_node("n", 8, unschedulable=True), builders.gpu_node("m", 4, ready=False))
    stage.renew()
    rows = stage.rows("nodes")
    assert [(rows[name]["free"], rows[name]["state"]) for name in ("m", "n")] == [(0, "NotReady"), (0, "Cordoned")]
    assert stage.rows("cluster")[boards.NOW]["out"] == 12


def test_a_queue_tells_limits_and_what_is_borrowed(stage):
    deserved = ((GPU, 2),)
    show(
        stage,
        builders.make_queue("above"),
        builders.make_queue("below", parent="above", deserved=deserved, capability=((GPU, 6),), weight=3),
        builders.gpu_node("n", 8),
        builders.bound(builders.make_pod("p", {GPU: 5}, queue="below"), "n", NOW),
    )
    stage.renew()
    row = stage.rows("queues")["below"]
    assert (row["parent"], row["weight"], row["deserved"], row["capability"]) == ("above", 3, {GPU: 2}, {GPU: 6})
    assert (row["allocated"][GPU], row["borrowed"]) == (5, {GPU: 3})
    assert stage.rows("queues")["above"]["borrowed"] == {}


def test_parts_of_gpus_are_told_as_gpus_to_queues_that_count_them_and_are_nothing_to_others(stage):
    parts = ((GPU_SHARE, 3 * GPU_PARTS // 2),)
    show(
        stage,
        builders.gpu_node("n", 8),
        builders.make_queue("parts", by_share=True, deserved=parts),
        builders.make_queue("whole"),
        builders.bound(builders.make_pod("p", {GPU: 5, GPU_SHARE: 5 * GPU_PARTS}, queue="whole"), "n", NOW),
        builders.bound(builders.make_pod("q", {GPU: 2, GPU_SHARE: 2 * GPU_PARTS}, queue="parts"), "n", NOW),
    )
    stage.renew()
    rows = stage.rows("queues")
    assert (rows["parts"]["deserved"], rows["parts"]["allocated"][GPU], rows["parts"]["borrowed"]) == (
        {GPU: 1.5},
        2,
        {GPU: 0.5},
    )
    assert (rows["whole"]["allocated"][GPU], rows["whole"]["fair"][GPU]) == (5, 5)
    assert GPU_SHARE not in rows["whole"]["fair"]


def test_what_is_gone_goes_from_the_tables(stage):
    show(stage, builders.gpu_node("n"), builders.make_queue("q"), *gang("train", 2))
    stage.renew()
    version = stage.board.version
    stage.event(
        messages.GroupGone(builders.group_key("train")),
        *(messages.PodGone(f"uid-train-{n}") for n in range(2)),
        messages.NodeGone(NodeName("n")),
        messages.QueueGone(builders.make_queue("q").source, QueueName("q")),
    )
    stage.renew()
    for name in ("nodes", "groups"):
        assert stage.rows(name) == {}
    assert "q" not in stage.rows("queues")
    changes = stage.board.since(version, ALL)
    assert changes is not None
    assert [one.key for one in changes["nodes"]] == ["n"]


def test_a_member_that_comes_or_goes_changes_the_row_though_nothing_is_decided(stage):
    show(stage, builders.gpu_node("n"), builders.make_group("train", 1))
    pods = [builders.bound(one, "n", NOW) for one in gang("train", 3)[1:]]
    show(stage, *pods[:2])
    stage.renew()
    assert stage.named("train")[1]["bound"] == 2
    show(stage, pods[2])
    stage.renew()
    assert stage.named("train")[1]["bound"] == 3
    stage.event(messages.PodGone(pods[0].uid))
    stage.renew()
    assert stage.named("train")[1]["bound"] == 2


def test_a_group_that_comes_while_rows_are_made_has_its_name_on_its_nodes_soon(stage):
    show(stage, builders.gpu_node("n", 8))
    stage.renew()
    renewing = stage.board.renew(stage.now)
    next(renewing)  # groups have been looked at, nodes have not
    show(stage, builders.bound(builders.make_pod("late", {GPU: 2}), "n", NOW))
    for _ in renewing:
        pass
    assert stage.rows("nodes")["n"]["used"] == ((0, 2),)
    stage.renew()
    assert stage.rows("nodes")["n"]["used"] == ((stage.named("late")[0], 2),)


def evicted(stage: Stage, pod: Any, ground: Ground, *detail: Any) -> None:
    """The watch shows it leave with such a record."""
    leaving = replace(pod, terminating=True, evicted=Evicted(ground, stage.now, detail))
    show(stage, leaving)
    stage.event(messages.PodGone(pod.uid))


def test_evictions_of_one_group_for_one_cause_are_one_row_and_the_oldest_go(stage, monkeypatch):
    monkeypatch.setattr(evictions, "KEPT", 2)
    show(stage, builders.gpu_node("n"))
    for cause in ("a", "b", "c"):
        pods = [builders.bound(replace(one, uid=PodUid(one.name + cause)), "n", NOW) for one in gang("old", 2)[1:]]
        show(stage, *pods)
        for pod in pods:
            evicted(stage, pod, Ground.PREEMPTED, ("for", cause))
    stage.renew()
    rows = list(stage.rows("evictions").values())
    assert [row["pods"] for row in rows] == [2, 2]
    assert {row["message"] for row in rows} == {
        explain.why_evicted(Ground.PREEMPTED, (("for", cause),)) for cause in ("b", "c")
    }
    assert {(row["name"], row["rule"], row["at"]) for row in rows} == {("old", "Preempted", NOW)}


def test_evictions_by_others_stand_in_the_same_list_in_the_same_words(stage):
    pod = builders.bound(builders.make_pod("solo"), "n", NOW - 30)
    show(stage, builders.gpu_node("n"), pod)
    evicted(stage, pod, Ground.API, ("said", "Eviction API: evicting"))
    stage.renew()
    (row,) = stage.rows("evictions").values()
    assert (row["name"], row["rule"], row["pods"]) == ("solo", "EvictionByEvictionAPI", 1)
    numbers = "node n, evicted 1, lost-seconds 30, checkpoint none, said Eviction API: evicting"
    assert row["message"] == f"not by Muster: somebody evicted it, as a drain of its node does ({numbers})"


SOME = {
    "all": (ALL, {"mine", "theirs"}, True, True),
    "one namespace": (Sees(frozenset({"team"})), {"mine"}, False, False),
    "one namespace and nodes": (Sees(frozenset({"team"}), nodes=True), {"mine"}, False, True),
    "another namespace": (Sees(frozenset({"other"}), queues=True), {"theirs"}, True, False),
    "nothing": (Sees(), set(), False, False),
}


@pytest.mark.parametrize(("sees", "groups", "queues", "nodes"), SOME.values(), ids=SOME)
def test_a_reader_sees_what_it_may_see_and_no_more(stage, sees, groups, queues, nodes):
    mine, theirs = gang("mine", 1), gang("theirs", 2, namespace="other")
    placed = [builders.bound(pod, "n", NOW) for pod in (*mine[1:], *theirs[1:])]
    show(stage, builders.gpu_node("n"), mine[0], theirs[0], *placed, builders.make_pod("waits", {GPU: 9}))
    lost = replace(placed[1], uid=PodUid("lost"))
    show(stage, lost)
    evicted(stage, lost, Ground.STALE)
    stage.renew()
    numbers = {row["name"]: key for key, row in stage.rows("groups").items()}
    wanted = groups | ({"waits"} if sees.scope("team") else set())
    assert {row["name"] for row in stage.rows("groups", sees).values()} == wanted
    assert set(stage.rows("positions", sees)) == ({numbers["waits"]} if sees.scope("team") else set())
    assert bool(stage.rows("queues", sees)) == queues
    assert bool(stage.rows("nodes", sees)) == bool(stage.rows("cluster", sees)) == nodes
    assert bool(stage.rows("evictions", sees)) == sees.scope("other")
    if nodes:
        shown = dict(stage.rows("nodes", sees)["n"]["used"])
        assert shown == {numbers[name] if name in groups else 0: gpus for name, gpus in (("mine", 1), ("theirs", 2))}
    # what goes is told to those alone who saw it
    version = stage.board.version
    stage.event(messages.GroupGone(theirs[0].key), *(messages.PodGone(pod.uid) for pod in theirs[1:]))
    stage.renew()
    changes = stage.board.since(version, sees)
    assert changes is not None
    gone = [one.key for one in changes["groups"] if one.row is None]
    assert gone == ([numbers["theirs"]] if sees.scope("other") else [])


ACTS = st.lists(
    st.tuples(st.sampled_from(["pod", "gone", "bind", "node", "drop", "tick", "renew"]), st.integers(0, 5)),
    max_size=40,
)


class Reader:
    """Holds what it was told."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.version = 0
        self.held: dict[str, dict[Any, Any]] = {name: {} for name in COLUMNS}

    def read(self) -> None:
        changes = self.board.since(self.version, ALL)
        assert changes is not None
        for name, of in changes.items():
            for one in of:
                self.held[name].pop(one.key, None)
                self.held[name] |= {} if one.row is None else {one.key: one.row}
        self.version = self.board.version


def act(stage: Stage, what: str, n: int) -> None:
    pod = builders.make_pod(f"g{n // 2}-{n}", {"cpu": 1, GPU: 2}, group=f"g{n // 2}")
    match what:
        case "pod":
            show(stage, builders.make_group(f"g{n // 2}", 2), pod)
        case "gone":
            stage.event(messages.PodGone(pod.uid))
        case "bind":
            show(stage, builders.bound(pod, f"n{n % 2}", stage.now))
        case "node":
            show(stage, builders.gpu_node(f"n{n % 2}", 2 + n, {"block": "b", "rack": f"r{n}"}))
        case "drop":
            stage.event(messages.NodeGone(NodeName(f"n{n % 2}")))
        case "tick":
            stage.now += 15.0
            stage.tick()


@settings(max_examples=30, deadline=None)
@example([("node", 0), ("renew", 0), ("bind", 0), ("drop", 0)])
@given(ACTS)
def test_what_was_kept_up_is_what_a_new_board_makes_and_what_a_reader_holds(acts):
    stage = Stage()
    reader = Reader(stage.board)
    show(stage, builders.make_topology())
    for what, n in [*acts, ("renew", 0)]:
        stage.now += 1.0
        act(stage, what, n)
        if what == "renew":
            stage.renew()
            reader.read()
            assert reader.held == {name: table.rows for name, table in stage.board.tables.items()}
    anew = Board(stage.board._answers)
    for _ in anew.renew(stage.now):
        pass
    assert plain(anew) == plain(stage.board)


def plain(board: Board) -> Any:
    """The tables with names in place of numbers, which differ from board to board."""
    names = {0: "nobody"} | {number: row[:3] for number, row in board.tables["groups"].rows.items()}
    nodes = {
        key: (*rest, sorted((names[n], g) for n, g in used), sorted((names[n], g) for n, g in held))
        for key, (*rest, used, held) in board.tables["nodes"].rows.items()
    }
    positions = {names[number]: row for number, row in board.tables["positions"].rows.items()}
    groups = {names[number]: row for number, row in board.tables["groups"].rows.items()}
    return nodes, positions, groups, board.tables["queues"].rows, board.tables["cluster"].rows
