"""Places beside those that stand already: parts of a group, neighbours by index, and replacements."""

from __future__ import annotations

from typing import Any

from extender.core import messages, placing, planning
from extender.core.feasibility import Feasibility
from extender.core.ids import PodUid
from extender.core.ledger import Ledger
from extender.core.model import Group, Node, Part, PartRule, Pod
from extender.core.planning import Entry, Plan, Wish
from extender.core.reasons import Reason, Refusal
from extender.core.snapshot import Room, Snapshot
from extender.core.world import World
from tests.builders import (
    GPU,
    gpu_node,
    group_key,
    make_allowance,
    make_group,
    make_pod,
    make_topology,
    make_world,
    show,
)

KEY = group_key("train")
NOW = 100.0
RACKS = [gpu_node(f"{rack}{n}", 4, {"block": "b", "rack": rack}) for rack in "pq" for n in range(2)]
SLICES = (PartRule("rack", None, size=4),)


def entry(**fields: Any) -> Entry:
    return Entry(KEY, arrival=0.0, changed_at=NOW, **fields)


def empty_ledger(world: World) -> Ledger:
    return Ledger(world.nodes, lambda *_: None)


def wish(*things: Node | Pod | Group) -> Wish | Refusal | None:
    """What `train` wants in this world."""
    world = make_world(*things)
    return planning.wish_of(world, empty_ledger(world), entry(), NOW)


def planned_nodes(*things: Node | Pod | Group) -> dict[str, str]:
    """Where a fresh plan of `train` puts each of its waiting members."""
    world = make_world(make_topology(), *things)
    found = planning.wish_of(world, empty_ledger(world), entry(), NOW)
    assert isinstance(found, Wish), found
    room = Room(Snapshot.take(world, Feasibility()))
    plan = placing.fulfil(found, room, make_allowance(room))
    assert isinstance(plan, Plan), plan
    return {member.name: node for member, node in plan.places}


def worker(number: int, node: str | None = None, **fields: Any) -> Pod:
    return make_pod(f"w-{number}", {GPU: 1}, group="train", index=(number,), node=node, **fields)


def test_neighbours_by_index_stand_next_to_each_other_whatever_their_names() -> None:
    pods = [make_pod(f"w-{n}", {GPU: 1}, group="train", index=(n,), created=float(-n)) for n in range(12)]
    found = planned_nodes(*RACKS, make_group(min_member=12), *pods)
    nodes = [found[f"w-{n}"] for n in range(12)]
    assert nodes == sorted(nodes)


def test_each_slice_is_in_one_rack() -> None:
    found = planned_nodes(
        *RACKS, make_group(min_member=8, parts=SLICES), make_pod("x", {GPU: 3}, node="p0"), *map(worker, range(8))
    )
    racks = ["".join(sorted({found[f"w-{n}"][0] for n in range(first, first + 4)})) for first in (0, 4)]
    assert racks == ["q", "q"]


def test_a_replacement_goes_back_to_the_rack_of_its_slice_and_to_the_node_of_its_predecessor() -> None:
    group = make_group(min_member=8, parts=SLICES, topology_preferred="rack")
    there = [worker(n, "p0") for n in range(4)] + [worker(n, "q0") for n in range(4, 7)]
    failed = make_pod("w-7-old", {GPU: 1}, group="train", index=(7,), node="q1", phase="Failed")
    assert planned_nodes(*RACKS, group, *there, worker(7)) == {"w-7": "q0"}
    assert planned_nodes(*RACKS, group, *there, failed, worker(7)) == {"w-7": "q1"}
    # its place was taken, and so is the node beside
    full = [make_pod("x", {GPU: 4}, node="q1"), make_pod("y", {GPU: 1}, node="q0")]
    world = make_world(make_topology(), *RACKS, group, *there, failed, worker(7), *full)
    found = planning.wish_of(world, empty_ledger(world), entry(started=True), NOW)
    assert isinstance(found, Wish)
    room = Room(Snapshot.take(world, Feasibility()))
    refusal = placing.fulfil(found, room, make_allowance(room))
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, dict(refusal.detail)["level"]) == (Reason.TOPOLOGY, "rack")


def test_a_replacement_of_one_that_is_gone_goes_back_too() -> None:
    world = make_world(*RACKS, make_group(min_member=2), worker(0, "p0"), worker(1, "q1"))
    world.apply(messages.PodGone(PodUid("uid-w-1")))
    again = make_pod("w-1", {GPU: 1}, group="train", index=(1,), uid="new")
    show(world, [again])
    found = planning.wish_of(world, empty_ledger(world), entry(started=True), NOW)
    assert isinstance(found, Wish)
    room = Room(Snapshot.take(world, Feasibility()))
    plan = placing.fulfil(found, room, make_allowance(room))
    assert isinstance(plan, Plan)
    assert [node for _, node in plan.places] == ["q1"]


def test_room_for_one_that_is_lost_is_kept_in_its_slice() -> None:
    group = make_group(min_member=8, parts=SLICES)
    there = [worker(n, "p0") for n in range(4)] + [worker(n, "q0") for n in range(4, 7)]
    lost = make_pod("w-7", {GPU: 1}, group="train", index=(7,), node="q1", terminating=True)
    found = wish(*RACKS, group, *there, lost)
    assert isinstance(found, Wish)
    [expected_one] = found.whole
    assert expected_one.parts == (Part("rack", "0/1", True),)
    assert expected_one.home == "q1"


def test_who_does_not_exist_yet_is_of_the_parts_that_all_of_its_task_are_of() -> None:
    rules = (PartRule("block"), PartRule("rack", None, size=4))
    found = wish(*RACKS, make_group(min_member=6, parts=rules), *(worker(n) for n in range(4)))
    assert isinstance(found, Wish)
    assert [member.parts for member in found.whole if member.expected] == [(Part("block", "0"),)] * 2


def test_surplus_takes_whole_slices_before_pieces_of_one() -> None:
    group = make_group(min_member=4, parts=SLICES)
    full = make_pod("x", {GPU: 3}, node="q0"), make_pod("y", {GPU: 1}, node="q1")
    running = [worker(n, "p0") for n in range(4)]
    later = [worker(n, created=1.0) for n in (4, 5, 6, 7)] + [worker(n, created=0.0) for n in (8, 9, 10, 11)]
    found = planned_nodes(*RACKS, group, *full, *running, *later)
    slices = [{found[f"w-{n}"][0] for n in range(first, first + 4) if f"w-{n}" in found} for first in (4, 8)]
    assert slices == [{"q"}, {"p"}] or slices == [{"p"}, {"q"}]
    assert len(found) == 8
