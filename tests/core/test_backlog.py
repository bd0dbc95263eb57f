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
    backlog.put(A, Waiting(RED, for_room=True))
    assert (backlog.is_open(RED), backlog.is_open(BLUE)) == (False, True)
    backlog.put(A, None)
    assert backlog.is_open(RED)


def test_a_queue_is_open_below_the_limit_of_strays_which_is_half_of_what_is_allowed() -> None:
    backlog = Backlog()
    backlog.put(A, Waiting(RED, False, ((RED, STRAY_LIMIT - 1),)))
    assert backlog.is_open(RED)
    backlog.put(B, Waiting(RED, False, ((RED, 1),)))
    assert not backlog.is_open(RED)
    assert STRAY_LIMIT <= 16


def test_strays_close_the_queue_through_which_they_came_and_not_that_of_their_group() -> None:
    backlog = Backlog()
    backlog.put(A, Waiting(RED, False, ((BLUE, STRAY_LIMIT), (RED, 1))))
    assert (backlog.is_open(RED), backlog.is_open(BLUE)) == (True, False)


def test_a_group_that_changes_its_queue_leaves_nothing_in_the_old_one() -> None:
    backlog = Backlog()
    backlog.put(A, Waiting(RED, True, ((RED, 3),)))
    backlog.put(A, Waiting(BLUE, True, ((BLUE, 2),)))
    assert (dict(backlog.strays), dict(backlog.for_room)) == ({BLUE: 2}, {BLUE: 1})


groups = st.sampled_from([builders.group_key(name) for name in "abc"])
queues = st.sampled_from((RED, BLUE))
strays = st.dictionaries(queues, st.integers(0, 20)).map(lambda numbers: tuple(numbers.items()))
waiting = st.none() | st.builds(Waiting, queues, st.booleans(), strays)


@given(st.lists(st.tuples(groups, waiting)))
def test_the_sums_are_those_of_the_newest_records(puts: list[tuple[builders.GroupKey, Waiting | None]]) -> None:
    backlog, newest = Backlog(), {}
    for key, record in puts:
        backlog.put(key, record)
        newest[key] = record
    for queue in (RED, BLUE):
        there = [record for record in newest.values() if record is not None]
        assert backlog.strays[queue] == sum(dict(record.strays).get(queue, 0) for record in there)
        assert backlog.for_room[queue] == sum(record.for_room for record in there if record.queue == queue)
