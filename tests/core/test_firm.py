"""Work that nobody may evict does not borrow; what it has borrowed before shows on its queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core import messages
from extender.core.budgets import Disruptions, allows_none
from extender.core.model import Budget
from extender.core.reasons import Reason
from tests import builders
from tests.builders import GPU
from tests.core.victim_cases import Played, Work, budget, queue, waits

RIGID = {"preemptible": False}
OWNED = [queue("q", 2), queue("p", 2)]


def rigid(count: int, name: str = "svc", where: str = "q", **more: object) -> Work:
    """A gang that may not be preempted and waits."""
    return waits(name, where, count, fields=RIGID, **more)


def planned(played: Played, name: str) -> int:
    """How many of a group have a place."""
    return sum(played.engine.node(pod) is not None for pod in played.pods.values() if pod.group.name == name)


@pytest.mark.parametrize(
    ("queues", "works", "why"),
    [
        pytest.param(OWNED, [rigid(2)], None, id="what its queue owns is its"),
        pytest.param(OWNED, [rigid(3)], Reason.FIRM, id="more is not, though there is room"),
        pytest.param(OWNED, [Work("one", "q", ("n",), fields=RIGID), rigid(2)], Reason.FIRM, id="all counts together"),
        pytest.param(OWNED, [Work("one", "q", ("n",)), rigid(2)], None, id="what may go does not count"),
        pytest.param([queue("q"), queue("p")], [rigid(3)], None, id="where nobody owns anything nothing is borrowed"),
        pytest.param([queue("q"), queue("p", 2)], [rigid(1)], Reason.FIRM, id="who owns nothing borrows all"),
        pytest.param(
            [queue("top", 3), queue("q", parent="top"), queue("p", 1)], [rigid(3)], None, id="what stands above owns"
        ),
        pytest.param(
            [queue("top", 2), queue("q", 3, parent="top"), queue("p", 1)], [rigid(3)], Reason.FIRM, id="at each level"
        ),
    ],
)
def test_who_may_not_be_preempted_stays_inside_what_is_owned(queues: list, works: list[Work], why: Reason) -> None:  # type: ignore[type-arg]
    played = Played({"n": 4}, queues, *works)
    assert played.reason("svc") is why
    assert planned(played, "svc") == (0 if why else len(works[-1].nodes))


def test_the_refusal_has_the_numbers() -> None:
    played = Played({"n": 4}, OWNED, Work("one", "q", ("n",), fields=RIGID), rigid(2))
    assert dict(played.detail("svc")) == {"queue": "q", "resource": GPU, "asked": 2, "used": 1, "owned": 2}


def test_two_of_one_round_count_together() -> None:
    played = Played({"n": 4}, OWNED, rigid(2, "one"), rigid(1, "two"))
    assert (planned(played, "one"), played.reason("two")) == (2, Reason.FIRM)
    played.start()
    assert played.reason("two") is Reason.FIRM


def test_a_budget_that_never_lets_anybody_go_counts_like_a_declaration() -> None:
    never = budget("keep", "svc", 0, 3, 3)
    played = Played({"n": 4}, OWNED, waits("svc", "q", 3), budgets=(never,))
    assert played.reason("svc") is Reason.FIRM
    played.engine.send(messages.BudgetSeen(replace(never, desired=2)))  # one may go some day
    played.tick()
    assert planned(played, "svc") == 3


def test_a_later_budget_over_what_was_borrowed_shows_on_the_queue() -> None:
    played = Played({"n": 4}, OWNED, Work("svc", "q", ("n",) * 4), budgets=(budget("keep", "svc", 0, 4, 4),))
    played.tick(5.0)
    conditions = {
        (s.name, c.kind): (c.true, c.reason, c.message) for s in played.engine.statements for c in s.status.conditions
    }
    assert conditions["q", "LoansRecoverable"] == (
        False,
        "Protected",
        f"{GPU}: 2 borrowed, protected by disruption budget keep",
    )
    assert ("p", "LoansRecoverable") not in conditions
    played.engine.send(messages.BudgetGone("team", "keep"))
    played.tick(5.0)
    newest = next(s for s in reversed(played.engine.statements) if s.name == "q")
    assert all(c.kind != "LoansRecoverable" for c in newest.status.conditions)


# --- budgets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("desired", "expected", "never"),
    [(2, 2, True), (3, 2, True), (1, 2, False), (0, 0, False), (2, 0, False), (0, 2, False)],
)
def test_which_budget_never_lets_anybody_go(desired: int, expected: int, never: bool) -> None:
    assert allows_none(budget("b", "g", 0, desired, expected)) is never


def disruptions(allowed: int) -> tuple[Disruptions, Budget]:
    """A budget over two pods."""
    told = budget("b", "g", allowed, 0, 9)
    world = builders.make_world()
    world.apply(messages.BudgetSeen(told))
    return Disruptions(world), told


def test_an_eviction_counts_until_the_budget_tells_of_it() -> None:
    found, told = disruptions(2)
    [pod] = Work("g", "q", ("n",)).pods()
    assert (found.of(pod), found.left(told)) == ((told,), 2)
    found.asked(pod)
    assert found.left(told) == 1
    found.changed(messages.BudgetSeen(told))  # written before ours
    assert found.left(told) == 1
    found.answered(pod.uid, refused=False)
    assert found.left(told) == 1
    found.changed(messages.BudgetSeen(told))
    assert found.left(told) == 2


def test_a_budget_that_names_the_pod_tells_of_it() -> None:
    found, told = disruptions(2)
    [pod] = Work("g", "q", ("n",)).pods()
    found.asked(pod)
    newer = replace(told, allowed=1, disrupted=frozenset({pod.name}))
    found._world.apply(messages.BudgetSeen(newer))
    found.changed(messages.BudgetSeen(newer))
    assert found.left(newer) == 1


def test_a_refused_eviction_counts_no_more() -> None:
    found, told = disruptions(2)
    [pod] = Work("g", "q", ("n",)).pods()
    found.asked(pod)
    found.answered(pod.uid, refused=True)
    assert found.left(told) == 2


def test_budgets_that_come_and_go_are_noticed() -> None:
    found, told = disruptions(2)
    [pod] = Work("g", "q", ("n",)).pods()
    assert found.of(pod) == (told,)
    gone = messages.BudgetGone("team", "b")
    found._world.apply(gone)
    found.changed(gone)
    assert found.of(pod) == ()
