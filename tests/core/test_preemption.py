"""Who is evicted for whom: the rules, one by one, and how peers fail at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from extender.core.reasons import Ground, Reason
from tests.core.victim_cases import Played, Work, budget, queue, waits

ONE = {"n": 4}


def lows(count: int = 4, **more: Any) -> Work:
    """Work of low priority that fills a node, all of it surplus but one."""
    return Work("low", "q", ("n",) * count, **more)


@dataclass(frozen=True)
class Case:
    """What runs and what waits, and who goes; `why`: why the one that waits does, after the first cycle."""

    nodes: dict[str, int]
    queues: list[Any]
    works: list[Work]
    evicted: dict[str, int]
    why: Reason | None = Reason.VICTIMS


HIGH = waits("high", "q", 2, priority=100)
CASES = {
    "lower priority in the same queue goes": Case(ONE, [queue("q")], [lows(), HIGH], {"low": 2}),
    "equal priority never does": Case(ONE, [queue("q")], [lows(priority=100), HIGH], {}, Reason.RESOURCES),
    "higher priority never does": Case(ONE, [queue("q")], [lows(priority=101), HIGH], {}, Reason.RESOURCES),
    "nobody goes while there is room": Case({"n": 4, "m": 2}, [queue("q")], [lows(), HIGH], {}, None),
    "lower priority in another queue does not matter": Case(
        ONE, [queue("q"), queue("p")], [Work("low", "p", ("n",) * 4), HIGH], {}, Reason.RESOURCES
    ),
    "what was borrowed is taken back": Case(
        ONE, [queue("q", 2), queue("p")], [Work("low", "p", ("n",) * 4, priority=999), HIGH], {"low": 2}
    ),
    "who asks for more than its queue owns takes nothing back": Case(
        ONE, [queue("q", 1), queue("p")], [Work("low", "p", ("n",) * 4), HIGH], {}, Reason.RESOURCES
    ),
    "what is owned is not taken": Case(
        ONE, [queue("q", 2), queue("p", 4)], [Work("low", "p", ("n",) * 4), HIGH], {}, Reason.NO_VICTIMS
    ),
    "no more is taken than is borrowed": Case(
        ONE, [queue("q", 2), queue("p", 3)], [Work("low", "p", ("n",) * 4), HIGH], {}, Reason.NO_VICTIMS
    ),
    "a pod that is partly borrowed goes": Case(
        ONE, [queue("q", 2), queue("p", 3)], [Work("low", "p", ("n",) * 2, gpus=2), HIGH], {"low": 1}
    ),
    "a weight owns nothing": Case(
        ONE,
        [queue("q", weight=100), queue("p", weight=1)],
        [Work("low", "p", ("n",) * 4), HIGH],
        {},
        Reason.RESOURCES,
    ),
    "a queue that does not give back keeps what it has": Case(
        ONE, [queue("q", 2), queue("p", reclaimable=False)], [Work("low", "p", ("n",) * 4), HIGH], {}, Reason.NO_VICTIMS
    ),
    "what is guaranteed is stronger than what is deserved": Case(
        ONE,
        [queue("q", guarantee=(("nvidia.com/gpu", 2),)), queue("p", 4)],
        [Work("low", "p", ("n",) * 4), HIGH],
        {"low": 2},
    ),
    "what is guaranteed is not taken for what is guaranteed": Case(
        ONE,
        [queue("q", guarantee=(("nvidia.com/gpu", 2),)), queue("p", guarantee=(("nvidia.com/gpu", 4),))],
        [Work("low", "p", ("n",) * 4), HIGH],
        {},
        Reason.NO_VICTIMS,
    ),
    "surplus of two gangs goes before one of them": Case(
        ONE,
        [queue("q")],
        [Work("a", "q", ("n",) * 2), Work("b", "q", ("n",) * 2), HIGH],
        {"a": 1, "b": 1},
    ),
    "of two gangs without surplus one goes as a whole": Case(
        ONE, [queue("q")], [Work("a", "q", ("n",) * 2, 2), Work("b", "q", ("n",) * 2, 2, runs=10.0), HIGH], {"b": 2}
    ),
    "who is past its declared end goes before who began a short time ago": Case(
        ONE,
        [queue("q")],
        [
            Work("late", "q", ("n",) * 2, 2, fields={"expected_duration": 999}),
            Work("low", "q", ("n",) * 2, 2, runs=10.0, fields={"expected_duration": 999}),
            HIGH,
        ],
        {"late": 2},
    ),
    "but after what others have above their minimum": Case(
        ONE,
        [queue("q")],
        [
            Work("late", "q", ("n",), fields={"expected_duration": 999}),
            Work("low", "q", ("n",) * 3, runs=10.0),
            HIGH,
        ],
        {"low": 2},
    ),
    "who is past its declared end stays where who asks has no higher priority": Case(
        ONE,
        [queue("q")],
        [
            Work("late", "q", ("n",) * 2, 2, priority=100, fields={"expected_duration": 999}),
            Work("low", "q", ("n",) * 2, 2, runs=10.0),
            HIGH,
        ],
        {"low": 2},
    ),
    "both go when both are needed": Case(
        ONE,
        [queue("q")],
        [Work("a", "q", ("n",) * 2, 2), Work("b", "q", ("n",) * 2, 2), waits("high", "q", 4, priority=100)],
        {"a": 2, "b": 2},
    ),
    "a whole gang goes for less than it has": Case(ONE, [queue("q")], [lows(least=4), HIGH], {"low": 4}),
    "nobody goes in vain": Case(
        ONE,
        [queue("q")],
        [Work("a", "q", ("n",) * 2, 2, priority=100), Work("b", "q", ("n",) * 2, 2), waits("m", "q", 4, priority=50)],
        {},
        Reason.RESOURCES,
    ),
    "a task keeps its minimum": Case(
        ONE,
        [queue("q")],
        [
            Work("low", "q", ("n",) * 4, 3, tasks=("ps", "w", "w", "w"), tasks_least={"ps": 1, "w": 2}, runs=10.0),
            waits("high", "q", 1, priority=9),
        ],
        {"low": 1},
    ),
    "pieces on many nodes are no room on one": Case(
        {"n": 4, "m": 4},
        [queue("q")],
        [
            Work("busy", "q", ("n", "n", "m", "m"), priority=100),
            Work("low", "q", ("n", "n", "m", "m")),
            waits("high", "q", 1, priority=100, gpus=4),
        ],
        {},
        Reason.FRAGMENTED,
    ),
    "those go whose node is emptied by the fewest": Case(
        {"n": 4, "m": 4},
        [queue("q")],
        [Work("low", "q", ("n",) * 3 + ("m",) * 4), waits("high", "q", 1, priority=100, gpus=2)],
        {"low": 1},
    ),
    "who may not be preempted stays": Case(
        ONE, [queue("q")], [lows(fields={"preemptible": False}), HIGH], {}, Reason.NO_VICTIMS
    ),
    "who runs for too short a time stays": Case(
        ONE, [queue("q", min_runtime=10_000)], [lows(), HIGH], {}, Reason.NO_VICTIMS
    ),
    "who runs for long enough goes": Case(ONE, [queue("q", min_runtime=1000)], [lows(), HIGH], {"low": 2}),
    "lower priority goes first": Case(
        ONE,
        [queue("q")],
        [
            Work("a", "q", ("n",) * 2, priority=5),
            Work("b", "q", ("n",) * 2, priority=4),
            waits("h", "q", 1, priority=9),
        ],
        {"b": 1},
    ),
    "of equals the one goes that has least to lose": Case(
        ONE,
        [queue("q")],
        [Work("a", "q", ("n",) * 2), Work("b", "q", ("n",) * 2, runs=900.0), waits("h", "q", 1, priority=9)],
        {"b": 1},
    ),
    "what was saved is not lost": Case(
        ONE,
        [queue("q")],
        [
            Work("a", "q", ("n",) * 2, saved=1_000_000.0 - 5),
            Work("b", "q", ("n",) * 2, runs=900.0),
            waits("h", "q", 1, priority=9),
        ],
        {"a": 1},
    ),
    "what will be saved counts for nothing": Case(
        ONE,
        [queue("q")],
        [
            Work("a", "q", ("n",) * 2, saved=1_000_000.0 + 5),
            Work("b", "q", ("n",) * 2, runs=900.0),
            waits("h", "q", 1, priority=9),
        ],
        {"b": 1},
    ),
    "between queues what tenants say counts for nothing": Case(
        ONE,
        [queue("q", 1), queue("a"), queue("b")],
        [
            Work("a", "a", ("n",) * 2, saved=1_000_000.0 - 5),
            Work("b", "b", ("n",) * 2, runs=900.0),
            waits("h", "q", 1),
        ],
        {"b": 1},
    ),
    "a queue of higher priority gives back last": Case(
        ONE,
        [queue("q", 1), queue("a", priority=1), queue("b")],
        [Work("a", "a", ("n",) * 2, runs=1.0), Work("b", "b", ("n",) * 2), waits("h", "q", 1)],
        {"b": 1},
    ),
    "siblings give back before strangers need to": Case(
        {"n": 7},
        [
            queue("org", 6, priority=110),
            queue("mine", 4, parent="org", priority=75),
            queue("batch", 0, parent="org", priority=25),
            queue("safe", 4, priority=100),
        ],
        [Work("b", "batch", ("n",) * 3), Work("s", "safe", ("n",) * 4), waits("h", "mine", 1)],
        {"b": 1},
    ),
    "the side of a borrowing branch takes nothing from another branch": Case(
        ONE,
        [queue("org", 2), queue("mine", 2, parent="org"), queue("other", 0, parent="org"), queue("p", 1)],
        [
            Work("o", "other", ("n",) * 2, fields={"preemptible": False}),
            Work("p", "p", ("n",) * 2),
            waits("h", "mine", 1),
        ],
        {},
        Reason.NO_VICTIMS,
    ),
    "a leaf inside what it deserves is safe in a branch that borrows": Case(
        ONE,
        [queue("org", 1), queue("leaf", 4, parent="org"), queue("q", 2)],
        [Work("l", "leaf", ("n",) * 4), waits("h", "q", 1)],
        {},
        Reason.NO_VICTIMS,
    ),
    "nobody goes who could take the room back": Case(
        {"n": 2, "m": 2},
        [queue("q", 3), queue("p", 2)],
        [
            Work("old", "p", ("n",), gpus=2, priority=5),
            Work("low", "p", ("m",)),
            Work("own", "q", ("m",), fields={"preemptible": False}),
            waits("h", "q", 1, gpus=2),
        ],
        {},
        Reason.NO_VICTIMS,
    ),
    "of equals in a queue each may, as none of them could": Case(
        {"n": 2, "m": 2},
        [queue("q", 3), queue("p", 2)],
        [
            Work("old", "p", ("n",), gpus=2),
            Work("low", "p", ("m",)),
            Work("own", "q", ("m",), fields={"preemptible": False}),
            waits("h", "q", 1, gpus=2),
        ],
        {"old": 1},
    ),
    "what a queue borrowed is at its lowest priority, though more must go": Case(
        {"n": 2, "m": 2},
        [queue("q", 2), queue("p", 2)],
        [Work("old", "p", ("n",), gpus=2, priority=5), Work("low", "p", ("m", "m"), 2), waits("h", "q", 1, gpus=2)],
        {"low": 2},
    ),
    "what cannot make room for it does not make its queue own it": Case(
        {"n": 2, "m": 2},
        [queue("q", 2), queue("p", 2)],
        [
            Work("old", "p", ("n",), gpus=2, priority=5),
            Work("low", "p", ("m", "m"), 2, fields={"preemptible": False}),
            waits("h", "q", 1, gpus=2),
        ],
        {"old": 1},
    ),
    "the lower work that goes itself makes no room": Case(
        {"n": 2, "m": 2},
        [queue("q", 4), queue("p", 1)],
        [
            Work("old", "p", ("n", "n"), 2, priority=5),
            Work("low", "p", ("m",), gpus=2),
            waits("h", "q", 2, gpus=2),
        ],
        {"old": 2, "low": 1},
    ),
    "a quota that is full is freed by who is lower": Case(
        {"n": 8}, [queue("q", capability=(("nvidia.com/gpu", 4),))], [lows(), HIGH], {"low": 2}
    ),
}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_who_is_evicted(case: Case) -> None:
    played = Played(case.nodes, case.queues, *case.works)
    waiting = case.works[-1]
    assert played.evicted == case.evicted
    assert played.reason(waiting.name) is case.why
    played.leave()
    played.start()
    if case.evicted:
        assert played.bound(waiting.name) == len(waiting.nodes)
    for work in case.works[:-1]:
        assert played.bound(work.name) == 0 or played.bound(work.name) >= work.least
    for _ in range(20):
        played.tick(30.0)
        played.start()
    assert played.evicted == case.evicted, "it does not rest"


def test_an_eviction_says_for_whom_by_which_rule_and_at_what_cost() -> None:
    played = Played(ONE, [queue("q")], lows(saved=1_000_000.0 - 60), HIGH)
    [note] = played.notes
    assert (note.key.name, note.uid, note.ground) == ("low", "uid-of-low", Ground.PREEMPTED)
    assert dict(note.detail) == {
        "for": "high",
        "namespace": "team",
        "queue": "q",
        "by-queue": "q",
        "priority": 0,
        "by-priority": 100,
        "evicted": 2,
        "of": 4,
        "lost-seconds": 120,
        "checkpoint": "60 s old",
        "considered": 1,
    }
    assert {(eviction.ground, eviction.detail) for eviction in played.evictions} == {(note.ground, note.detail)}


def test_who_takes_back_names_both_queues() -> None:
    played = Played(ONE, [queue("q", 2), queue("p")], Work("low", "p", ("n",) * 4), HIGH)
    [note] = played.notes
    found = dict(note.detail)
    assert (note.ground, found["queue"], found["by-queue"], found["owed"]) == (Ground.RECLAIMED, "p", "q", "deserved")
    assert (found["lost-seconds"], found["checkpoint"]) == (2000, "none")


def test_an_eviction_says_who_else_was_considered_and_why_they_stay() -> None:
    nodes = {"n": 4, "m": 3, "o": 3}
    works = [
        Work("low", "p", ("n",) * 2),
        Work("old", "p", ("n",), runs=9000.0),
        Work("far", "p", ("m",)),
        Work("dear", "p", ("m",), priority=7),
        Work("firm", "p", ("m",), fields={"preemptible": False}),
        Work("mine", "q", ("n",), priority=-1),
        *(Work(f"keep{n}", "k", ("o",)) for n in range(3)),
        waits("high", "q", 2),
    ]
    played = Played(nodes, [queue("q", 3), queue("p"), queue("k", reclaimable=False)], *works)
    assert played.evicted == {"low": 2}
    (note,) = played.notes
    found = dict(note.detail)
    assert found["considered"] == 7
    assert found["spared"] == (
        "1 of higher priority: dear; 1 of its own queue: mine; 1 on other nodes: far; "
        "1 would lose more, or help less: old"
    )
    assert found["protected"] == "1 not preemptible: firm; 1 queue that gives nothing back: k"


# --- budgets ----------------------------------------------------------------------------------------


def test_a_budget_lets_so_many_go_and_our_own_evictions_count_at_once() -> None:
    first, second, third = (waits(name, "q", 1, priority=9) for name in ("h1", "h2", "h3"))
    played = Played(ONE, [queue("q")], lows(), first, second, third, budgets=(budget("keep", "low", 2, 2, 4),))
    assert played.evicted == {"low": 2}
    assert played.reason("h3") is Reason.NO_VICTIMS
    assert ("budget", "keep") in played.detail("h3")
    played.tick(100.0)  # its status never changes
    assert played.evicted == {"low": 2}


def test_a_gang_goes_as_a_whole_only_if_its_budget_allows_for_all() -> None:
    played = Played(ONE, [queue("q")], lows(least=4), HIGH, budgets=(budget("keep", "low", 3, 1, 4),))
    assert (played.evicted, played.reason("high")) == ({}, Reason.NO_VICTIMS)
    assert ("budget", "keep") in played.detail("high")


def test_a_pod_under_two_budgets_is_nobodys_victim() -> None:
    both = (budget("one", "low", 4, 0, 4), budget("two", "low", 4, 0, 4))
    played = Played(ONE, [queue("q")], lows(), HIGH, budgets=both)
    assert (played.evicted, played.reason("high")) == ({}, Reason.NO_VICTIMS)
    assert {("budget", "one"), ("budget", "two")} <= set(played.detail("high"))


def test_others_go_when_the_cheapest_are_protected() -> None:
    web = Work("web", "q", ("n",) * 2, priority=50)
    played = Played(ONE, [queue("q")], lows(2), web, HIGH, budgets=(budget("keep", "low", 0, 2, 2),))
    assert played.evicted == {"web": 2}
