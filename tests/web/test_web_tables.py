"""Tables of the page: what a reader is told, taken together, is what there is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from extender.web import tables
from extender.web.tables import Key, Row, Table

KEYS = st.integers(0, 8)
#: put a row (or None: take it away), begin a new version, or let the reader read
STEPS = st.lists(st.one_of(st.tuples(KEYS, st.none() | st.integers(0, 3)), st.sampled_from(["version", "read"])))


@given(STEPS)
def test_changes_applied_in_order_make_the_table_at_each_reading(steps):
    # the first version is complete before anybody reads
    table, version, read_to = Table(), 2, 0
    held: dict[Key, Row] = {}
    for step in [*steps, "read"]:
        if step == "version":
            version += 1
        elif step == "read":
            for change in table.since(read_to):
                if change.row is None:
                    held.pop(change.key, None)
                else:
                    held[change.key] = change.row
            # rows of a version that is under way are read too, and are told again with the next one
            read_to = version - 1
            assert held == table.rows
        elif step[1] is None:
            table.drop(step[0], version)
        else:
            table.put(step[0], (step[1],), version)


def test_who_has_read_all_is_told_nothing_and_an_equal_row_is_no_change():
    table = Table()
    table.put("a", (1,), 1)
    assert [one.key for one in table.since(0)] == ["a"]
    assert list(table.since(1)) == []
    table.put("a", (1,), 2)
    assert list(table.since(1)) == []


def test_of_what_came_and_went_since_a_reader_hears_the_newest_only_and_a_new_reader_nothing():
    table = Table()
    table.put("a", (1,), 1, "team")
    table.put("a", (2,), 2, "team")
    table.drop("a", 3)
    (gone,) = table.since(1)
    assert (gone.key, gone.row, gone.scope) == ("a", None, "team")
    assert list(table.since(0)) == []


def test_keys_that_are_gone_are_forgotten_in_time_and_old_readers_are_told_to_begin_anew(monkeypatch):
    monkeypatch.setattr(tables, "GONE_KEPT", 2)
    table = Table()
    for key in range(4):
        table.put(key, (key,), 1)
    for key in range(3):
        table.drop(key, 2 + key)
    assert table.since_version == 2  # a reader of version 1 would never hear that key 0 went
    assert {one.key for one in table.since(2)} == {1, 2}
    table.put(1, (7,), 9)  # came back: not gone any more
    table.drop(3, 10)
    assert table.since_version == 2
