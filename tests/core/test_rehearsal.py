"""What would follow from draining a node, and from other queues, is what follows when it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core import messages
from extender.core.ids import GroupKey, NodeName, QueueName
from extender.core.membership import Need, Standing, satisfied
from extender.core.model import Owner, Queue
from extender.core.queue_rehearsal import Outcome, rehearse
from extender.core.queue_warnings import Doubt
from extender.core.reasons import Ground, Reason
from extender.core.rehearsal import Drained, drain
from extender.core.stage import Stage
from extender.wire import frozen
from tests import builders
from tests.builders import GPU
from tests.core.engine_driver import START, Driver
from tests.core.victim_cases import JOB, Work, budget, queue, waits

QUEUES = [queue("q"), queue("p")]


def driver(nodes: Mapping[str, int], queues: list[Queue], *works: Work, **more: Any) -> Driver:
    """An engine that has looked at all this."""
    groups = [builders.make_group(work.name, work.least, work.tasks_least, **work.fields) for work in works]
    made = Driver(*(builders.gpu_node(name, gpus) for name, gpus in nodes.items()), *queues, *groups)
    made.send(*map(messages.BudgetSeen, more.get("budgets", ())))
    made.see(*(pod for work in works for pod in work.pods()), *more.get("pods", ()))
    made.tick()
    return made


def drained(made: Driver, name: str) -> Drained:
    found = drain(made.engine, NodeName(name), made.now)
    assert found is not None
    return found


# --- draining ----------------------------------------------------------------------------------------


def test_a_gang_on_the_node_is_below_its_minimum_and_finds_places_elsewhere() -> None:
    made = driver({"n": 4, "m": 4, "o": 4}, QUEUES, Work("a", "q", ("n", "n", "m"), 3), Work("b", "q", ("m",)))
    found = drained(made, "n")
    (fate,) = found.fates
    assert (fate.of.name, fate.of.queue, fate.pods, fate.replaced) == ("a", "q", ("a-0", "a-1"), 2)
    assert (fate.left, fate.minimum, fate.below) == (1, 3, True)
    assert sum(place.members for place in fate.nodes) == 2
    assert NodeName("n") not in {place.node for place in fate.nodes}
    assert (fate.waiting, fate.refusal, found.evictions, found.settled) == (0, None, (), True)


def test_what_finds_no_place_waits_for_a_reason_and_surplus_goes_without_harm() -> None:
    made = driver({"n": 2, "m": 1}, QUEUES, Work("a", "q", ("n", "n", "m"), 1))
    (fate,) = drained(made, "n").fates
    assert (fate.left, fate.minimum, fate.below) == (1, 1, False)
    assert (fate.nodes, fate.waiting) == ((), 2)
    assert fate.refusal is not None
    assert fate.refusal.reason is Reason.RESOURCES


def test_those_who_come_from_the_node_may_evict_others_for_their_places() -> None:
    made = driver({"n": 2, "m": 2}, QUEUES, Work("high", "q", ("n", "n"), 2, priority=9), Work("low", "q", ("m", "m")))
    found = drained(made, "n")
    (fate,) = found.fates
    assert [(place.node, place.members) for place in fate.nodes] == [("m", 2)]
    (loss,) = found.evictions
    assert (loss.of.name, loss.pods, loss.ground, loss.times) == ("low", 2, Ground.PREEMPTED, 1)
    assert ("for", "high") in loss.detail


def test_budgets_in_the_way_strangers_and_pods_of_the_node_are_told() -> None:
    own = [
        builders.bound(builders.make_pod(f"d{n}", {"cpu": 1}, owner=Owner(kind, "d", "u"), scheduler="default"), "n")
        for n, kind in enumerate(("DaemonSet", "Node"))
    ]
    foreign = builders.bound(builders.make_pod("web", {"cpu": 1}, scheduler="default", owner=JOB), "n")
    alone = builders.bound(builders.make_pod("alone", {GPU: 1}), "n")
    made = driver(
        {"n": 4, "m": 4},
        QUEUES,
        Work("a", "q", ("n", "n")),
        pods=[*own, foreign, alone],
        budgets=[budget("keep", "a", 1, 1, 2), budget("loose", "a", 2, 0, 2)],
    )
    found = drained(made, "n")
    assert (found.strangers, found.stay) == (1, 2)
    assert [(one.name, one.allowed, one.pods) for one in found.obstacles] == [("keep", 1, 2)]
    fates = {fate.of.name: fate for fate in found.fates}
    assert fates["alone"].replaced == 0
    assert (fates["a"].replaced, fates["a"].waiting) == (2, 0)


def test_of_a_node_that_is_not_there_nothing_is_told() -> None:
    assert drain(driver({"n": 1}, QUEUES).engine, NodeName("x"), START) is None


# --- other queues ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """What is, which queues are changed, and what is wanted of the outcome: GPUs in use by queue, and who moves."""

    nodes: dict[str, int]
    queues: list[Queue]
    works: list[Work]
    change: list[Queue]
    used: dict[str, tuple[int, int]]
    evicted: dict[str, int] = field(default_factory=dict)
    gains: tuple[str, ...] = ()
    loses: tuple[str, ...] = ()
    doubts: tuple[tuple[str, Doubt], ...] = ()


LENT = [Work("low", "p", ("n",) * 4), waits("high", "q", 2)]
CASES = {
    "what a queue deserves from now on is taken back": Case(
        {"n": 4}, [queue("q"), queue("p")], LENT, [queue("q", 2)], {"q": (0, 2), "p": (4, 2)},
        {"low": 2}, ("high",), ("low",),
    ),
    "without a change nothing happens": Case(
        {"n": 4}, [queue("q"), queue("p")], LENT, [queue("q", weight=5)], {"q": (0, 0), "p": (4, 4)}
    ),
    "a cap that is raised lets groups start": Case(
        {"n": 4}, [queue("q", capability=((GPU, 0),))], [waits("a", "q", 2)],
        [queue("q", capability=((GPU, 2),))], {"q": (0, 2)}, gains=("a",),
    ),
    "a cap below what runs stops nothing that runs": Case(
        {"n": 4}, [queue("q")], [Work("a", "q", ("n",) * 3)],
        [queue("q", capability=((GPU, 2),))], {"q": (3, 3)}, doubts=(("q", Doubt.IN_USE),),
    ),
    "a guarantee that the cluster has not": Case(
        {"n": 4}, [queue("q")], [], [queue("q", guarantee=((GPU, 9),))], {"q": (0, 0)}, doubts=(("q", Doubt.GUARANTEE),)
    ),
    "more deserved than there is": Case(
        {"n": 4}, [queue("q", 3), queue("p", 1)], [], [queue("p", 2)], {"q": (0, 0)},
        doubts=(("p", Doubt.DESERVED), ("p", Doubt.AT_ONCE)),
    ),
    "more deserved than its own capability": Case(
        {"n": 4}, [queue("q")], [], [queue("q", 3, capability=((GPU, 2),))], {"q": (0, 0)},
        doubts=(("q", Doubt.DESERVED),),
    ),
    "two that take back at once": Case(
        {"n": 4}, [queue("q", 2), queue("p")], [], [queue("p", 2)], {}, doubts=(("p", Doubt.AT_ONCE),)
    ),
    "a new queue below one that has groups": Case(
        {"n": 4}, [queue("q")], [Work("a", "q", ("n",))], [queue("new", parent="q"), queue("q")], {"q": (1, 1)},
        doubts=(("q", Doubt.NOT_LEAF),),
    ),
    "a parent that is not there": Case(
        {"n": 4}, [queue("q")], [waits("a", "q", 9)], [queue("q", parent="none")], {"q": (0, 0)},
        doubts=(("q", Doubt.INVALID),),
    ),
    "closed with groups that wait": Case(
        {"n": 1}, [queue("q")], [waits("a", "q", 2)], [queue("q", closed=True)], {"q": (0, 0)},
        doubts=(("q", Doubt.CLOSED),),
    ),
    "namespaces left out": Case(
        {"n": 1}, [queue("q")], [Work("a", "q", ("n",))], [queue("q", namespaces=frozenset({"x"}))], {"q": (1, 1)},
        doubts=(("q", Doubt.NAMESPACE),),
    ),
    "a priority that borrows before who owns it": Case(
        {"n": 4}, [queue("q", 2), queue("p")], [], [queue("p", priority=5)], {}, doubts=(("p", Doubt.FIRST),)
    ),
    "a weight of 0 and nothing else": Case(
        {"n": 1}, [queue("q")], [], [queue("q", weight=0)], {}, doubts=(("q", Doubt.NOTHING),)
    ),
}  # fmt: skip


def gpus(amounts: Any) -> int:
    return dict(amounts).get(GPU, 0)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_other_queues_come_to(case: Case) -> None:
    made = driver(case.nodes, case.queues, *case.works)
    found = rehearse(made.engine, case.change, made.now)
    assert found.settled
    compared = {one.name: one for one in found.queues}
    for name, (before, after) in case.used.items():
        was, is_now = compared[QueueName(name)].before, compared[QueueName(name)].after
        assert was is not None
        assert is_now is not None
        assert (gpus(was.used), gpus(is_now.used)) == (before, after)
    assert {one.of.name: one.pods for one in found.evictions} == case.evicted
    assert (tuple(one.of.name for one in found.gains), tuple(one.of.name for one in found.loses)) == (
        case.gains, case.loses,
    )  # fmt: skip
    assert {(one.queue, one.doubt) for one in found.warnings} == set(case.doubts)


def test_what_was_on_its_way_is_no_consequence_of_the_change() -> None:
    made = driver({"n": 4}, [queue("q", 2), queue("p")], Work("low", "p", ("n",) * 4))
    made.see(*waits("high", "q", 2).pods(), builders.make_group("high", 2))  # nobody has looked at it yet
    found = rehearse(made.engine, [queue("p", weight=3)], made.now)
    assert (found.evictions, found.gains, found.loses) == ((), (), ())


def test_evictions_that_go_on_and_on_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made = driver({"n": 4}, [queue("q"), queue("p")], *LENT)
    real = Stage._bind

    def never(self: Stage) -> bool:  # whoever room was made for does not get it
        real(self) if not self.evictions else None
        return True

    monkeypatch.setattr(Stage, "_bind", never)
    found: Outcome = rehearse(made.engine, [queue("q", 2)], made.now)
    assert not found.settled
    assert Doubt.LOOPS in {one.doubt for one in found.warnings}


def test_the_engine_there_is_left_consistent() -> None:
    made = driver(
        {"n": 2, "m": 2}, [queue("q", 2), queue("p")], Work("low", "p", ("n", "n", "m")), waits("high", "q", 2)
    )
    stage = Stage(made.engine, made.now)
    assert stage.rest(15.0, 40)
    gone = [pod for pod in made.engine.world.pods.values() if pod.node == "n"]
    stage.tell(*(messages.PodGone(pod.uid) for pod in gone))
    for pod in gone:
        stage.succeed(replace(pod, owner=JOB))
    assert stage.rest(15.0, 40)
    assert (made.engine.self_check(), list(made.engine.check_usage())[-1]) == (0, 0)
    nodes: dict[str, int] = {}
    for pod in made.engine.world.pods.values():
        if pod.node is not None:
            nodes[pod.node] = nodes.get(pod.node, 0) + 1
    assert all(number <= 2 for number in nodes.values())


works = st.lists(
    st.tuples(
        st.sampled_from(("q", "p")),
        st.lists(st.sampled_from(("n", "m", None)), min_size=1, max_size=3),
        st.integers(1, 3),
        st.sampled_from((0, 5)),
    ),
    max_size=5,
)


@given(works, st.integers(0, 4), st.sampled_from(("n", "m")), st.sampled_from((0, 2, 4)))
def test_whatever_is_rehearsed_nothing_is_overfull_and_nothing_starts_in_part(told, owned, node, more) -> None:
    room, made = {"n": 4, "m": 3}, []
    for number, (of, nodes, least, priority) in enumerate(told):
        taken = []
        for one in nodes:
            fits = one is not None and room[one] > 0
            taken.append(one if fits else None)
            room |= {one: room[one] - 1} if fits else {}
        made.append(Work(f"g{number}", of, tuple(taken), min(least, len(nodes)), priority=priority))
    there = driver({"n": 4, "m": 3, "o": 2}, [queue("q", owned), queue("p")], *made)
    world = there.engine.world
    before = {key for key, tally in world.tallies.items() if _below(there, key)}
    found = frozen.thaw(frozen.freeze(there.engine))
    fates = drain(found, NodeName(node), there.now)
    outcome = rehearse(there.engine, [queue("q", more), queue("new", 1)], there.now)
    assert fates is not None
    assert fates.settled
    assert outcome.settled
    for engine in (found, there.engine):
        assert (engine.self_check(), list(engine.check_usage())[-1], engine.world.overcommitted()) == (0, 0, [])
    assert {key for key in world.tallies if _below(there, key)} <= before


def _below(there: Driver, key: GroupKey) -> bool:
    """Some of the group runs, and too few."""
    need, tally = there.engine.world.need(key), there.engine.world.tallies[key]
    return tally.count(Standing.BOUND) > 0 and isinstance(need, Need) and not satisfied(need, tally)
