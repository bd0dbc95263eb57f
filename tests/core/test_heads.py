"""Which group is the first of its queue."""

from __future__ import annotations

from extender.core.heads import Head, Heads
from extender.core.ids import QueueName
from extender.core.ordering import OrderKey
from tests.builders import group_key

A, B = QueueName("a"), QueueName("b")
EARLY, LATE = ((0, arrival, False, "x") for arrival in (1.0, 2.0))


def head(name: str, order: OrderKey) -> Head:
    return Head(group_key(name), order, ())


def test_the_first_group_of_a_queue_heads_for_it() -> None:
    heads = Heads()
    heads.put(A, head("late", LATE))
    assert heads.is_first(A, group_key("late"), LATE)
    assert heads.is_first(A, group_key("early"), EARLY)
    heads.put(A, head("early", EARLY))
    assert not heads.is_first(A, group_key("late"), LATE)
    assert [(queue, one.key.name) for queue, one in heads] == [("a", "early")]
    assert (heads.drop(group_key("late")), heads.drop(group_key("early")), len(heads)) == (False, True, 0)


def test_a_group_heads_in_one_queue_only() -> None:
    heads = Heads()
    heads.put(A, head("x", LATE))
    heads.put(B, head("x", LATE))
    assert [queue for queue, _ in heads] == ["b"]
    assert heads.is_first(A, group_key("y"), LATE)
