"""Which group holds back for its queue."""

from __future__ import annotations

from extender.core.claims import Claim, Claims
from extender.core.ids import QueueName
from extender.core.ordering import OrderKey
from tests.builders import group_key

A, B = QueueName("a"), QueueName("b")
EARLY, LATE = ((0, arrival, False, "x") for arrival in (1.0, 2.0))


def claim(name: str, order: OrderKey) -> Claim:
    return Claim(group_key(name), order, (), frozenset())


def test_the_first_group_of_a_queue_claims_for_it() -> None:
    claims = Claims()
    claims.put(A, claim("late", LATE))
    assert claims.is_first(A, group_key("late"), LATE)
    assert claims.is_first(A, group_key("early"), EARLY)
    claims.put(A, claim("early", EARLY))
    assert not claims.is_first(A, group_key("late"), LATE)
    assert [(queue, one.key.name) for queue, one in claims] == [("a", "early")]
    assert (claims.drop(group_key("late")), claims.drop(group_key("early")), len(claims)) == (False, True, 0)


def test_a_group_claims_in_one_queue_only() -> None:
    claims = Claims()
    claims.put(A, claim("x", LATE))
    claims.put(B, claim("x", LATE))
    assert [queue for queue, _ in claims] == ["b"]
    assert claims.is_first(A, group_key("y"), LATE)
