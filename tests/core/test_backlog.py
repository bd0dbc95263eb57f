"""Sums over what waits, by queue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from extender.core.backlog import STRAY_LIMIT, Backlog, Waiting
from extender.core.ids import QueueName
from tests import builders

RED, BLUE = QueueName("red"), QueueName("blue")
A, B = builders.group_key("a"), builders.group_key("b")


def test_a_queue_is_open_until_something_waits_for_room_there() -> None:
    backlog = Backlog()
    backlog.put(A, Waiting(RED, 0, for_room=True))
    assert (backlog.is_open(RED), backlog.is_open(BLUE)) == (False, True)
    backlog.put(A, None)
    assert backlog.is_open(RED)


def test_a_queue_is_open_below_the_limit_of_strays_which_is_half_of_what_is_allowed() -> None:
    backlog = Backlog()
    backlog.put(A, Waiting(RED, STRAY_LIMIT - 1, for_room=False))
    assert backlog.is_open(RED)
    backlog.put(B, Waiting(RED, 1, for_room=False))
    assert not backlog.is_open(RED)
    assert STRAY_LIMIT <= 16


def test_a_group_that_changes_its_queue_leaves_nothing_in_the_old_one() -> None:
    backlog = Backlog()
    backlog.put(A, Waiting(RED, 3, for_room=True))
    backlog.put(A, Waiting(BLUE, 2, for_room=True))
    assert (dict(backlog.strays), dict(backlog.for_room)) == ({BLUE: 2}, {BLUE: 1})


groups = st.sampled_from([builders.group_key(name) for name in "abc"])
waiting = st.none() | st.builds(Waiting, st.sampled_from((RED, BLUE)), st.integers(0, 20), st.booleans())


@given(st.lists(st.tuples(groups, waiting)))
def test_the_sums_are_those_of_the_newest_records(puts: list[tuple[builders.GroupKey, Waiting | None]]) -> None:
    backlog, newest = Backlog(), {}
    for key, record in puts:
        backlog.put(key, record)
        newest[key] = record
    for queue in (RED, BLUE):
        there = [record for record in newest.values() if record is not None and record.queue == queue]
        assert backlog.strays[queue] == sum(record.strays for record in there)
        assert backlog.for_room[queue] == sum(record.for_room for record in there)
