"""Reservations: counted once, whatever order they come and go in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core.ids import NO_TASK, NodeName
from extender.core.ledger import Ledger, Overlap, Reservation, Slot
from tests import builders
from tests.builders import GPU, gpu_node, make_shape, make_world

A, B = builders.group_key("a"), builders.group_key("b")


def make_ledger(nodes: int = 2) -> Ledger:
    world = make_world(*(gpu_node(f"gpu-{n}") for n in range(nodes)))
    return Ledger(world.nodes, lambda *_: None)


def reservation(slot: str, node: str = "gpu-0", gpus: int = 1, group: object = A, **fields: object) -> Reservation:
    shape = make_shape({GPU: gpus})
    row = np.array([0, 0, 1, gpus], dtype=np.int64)
    return Reservation(Slot(slot), group, NO_TASK, shape, NodeName(node), row, **fields)  # type: ignore[arg-type]


def gpus(ledger: Ledger) -> list[int]:
    """Reserved GPUs by row."""
    return ledger.reserved[:2, 3].tolist()


def test_the_same_reservation_twice_counts_once() -> None:
    ledger = make_ledger()
    ledger.reserve(reservation("p"))
    ledger.reserve(reservation("p"))
    assert (len(ledger), gpus(ledger)) == (1, [1, 0])


def test_a_slot_on_two_nodes_is_a_fault() -> None:
    ledger = make_ledger()
    ledger.reserve(reservation("p"))
    with pytest.raises(Overlap, match="p of muster/team/a holds gpu-0, wants gpu-1"):
        ledger.reserve(reservation("p", "gpu-1"))
    assert gpus(ledger) == [1, 0]


def test_what_lingers_is_counted_and_belongs_to_no_plan() -> None:
    ledger = make_ledger()
    ledger.reserve(reservation("p"))
    ledger.reserve(reservation("q", group=B))
    ledger.linger(Slot("p"))
    assert (ledger.get(Slot("p")), dict(ledger.of_group(A)), len(ledger)) == (None, {}, 1)
    assert (ledger.lingers(A), ledger.lingers(B)) == (True, False)
    assert gpus(ledger) == [2, 0]
    assert list(ledger.on_node(NodeName("gpu-0"))) == ["p", "q"]
    assert ledger.release(Slot("p")) is not None
    assert ledger.release(Slot("p")) is None
    assert not ledger.lingers(A)
    assert gpus(ledger) == [1, 0]


def test_an_expected_member_that_appears_takes_its_reservation_over() -> None:
    ledger = make_ledger()
    ledger.reserve(reservation("a#0", expected=True))
    ledger.claim(Slot("a#0"), Slot("uid"))
    named = ledger.get(Slot("uid"))
    assert named is not None
    assert (named.expected, named.slot, named.node) == (False, "uid", "gpu-0")
    assert ledger.get(Slot("a#0")) is None
    assert list(ledger.on_node(NodeName("gpu-0"))) == list(ledger.of_group(A)) == ["uid"]
    assert gpus(ledger) == [1, 0]


def test_a_node_that_goes_takes_all_its_reservations_along_lingering_ones_too() -> None:
    ledger = make_ledger()
    for slot, node in (("p", "gpu-0"), ("q", "gpu-0"), ("r", "gpu-1")):
        ledger.reserve(reservation(slot, node))
    ledger.linger(Slot("q"))
    assert [r.slot for r in ledger.drop_node(NodeName("gpu-0"))] == ["p", "q"]
    assert ledger.drop_node(NodeName("gpu-0")) == []
    assert (gpus(ledger), dict(ledger.lingering()), list(ledger.planned())) == ([0, 1], {}, ["r"])


def test_the_sums_follow_the_node_table_as_it_grows() -> None:
    world = make_world(gpu_node("gpu-0"))
    ledger = Ledger(world.nodes, lambda *_: None)
    ledger.reserve(reservation("p"))
    many = {f"example.com/r{n}": n + 1 for n in range(30)}
    builders.show(world, [builders.make_node(f"n-{n}", many) for n in range(100)])
    wide = world.columns.row(make_shape(many).request)
    ledger.reserve(Reservation(Slot("w"), B, NO_TASK, make_shape(many), NodeName("n-99"), wide))
    assert ledger.reserved.shape == world.nodes.used.shape
    assert ledger.reserved[world.nodes.row_of[NodeName("n-99")], : len(wide)].tolist() == wide.tolist()
    assert ledger.reserved[0, 3] == 1


@given(st.lists(st.tuples(st.sampled_from("rrrlcd"), st.integers(0, 5), st.integers(0, 1), st.booleans()), max_size=40))
def test_the_sums_are_those_of_what_is_there(steps: list[tuple[str, int, int, bool]]) -> None:
    ledger = make_ledger()
    plain: dict[str, tuple[int, int]] = {}
    lingering: set[str] = set()
    for what, number, node, expected in steps:
        slot = Slot(f"s{number}")
        if what == "r" and slot not in plain:
            ledger.reserve(reservation(slot, f"gpu-{node}", number, A if expected else B, expected=expected))
            plain[slot] = (node, number)
        elif what == "l" and slot in plain and slot not in lingering:
            ledger.linger(slot)
            lingering.add(slot)
        elif what == "c" and slot in plain and slot not in lingering:
            ledger.claim(slot, Slot("t" + slot))
            ledger.release(Slot("t" + slot))
            del plain[slot]
        elif what == "d":
            released = ledger.release(slot)
            assert (released is None) == (slot not in plain)
            plain.pop(slot, None)
            lingering.discard(slot)
        assert gpus(ledger) == [sum(n for at, n in plain.values() if at == row) for row in (0, 1)]
        assert set(ledger.lingering()) == lingering
        assert set(ledger.planned()) == plain.keys() - lingering
        assert {*ledger.of_group(A), *ledger.of_group(B)} == plain.keys() - lingering
        assert {s for n in ("gpu-0", "gpu-1") for s in ledger.on_node(NodeName(n))} == set(plain)
