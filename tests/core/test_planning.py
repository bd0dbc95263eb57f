"""What a group wants of the room, and a plan for it: whole, its smallest start, and the rest one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core import placing, planning
from extender.core.feasibility import Feasibility
from extender.core.ids import NodeName, TaskName
from extender.core.ledger import Ledger, Reservation, Slot
from extender.core.model import Group, Node, Pod
from extender.core.planning import EXPECT_SECONDS, Entry, Member, Plan, Wish
from extender.core.reasons import Reason, Refusal
from extender.core.snapshot import Room, Snapshot
from extender.core.world import World
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_pod, make_pods, make_shape, make_world

KEY = builders.group_key("train")
NOW = 100.0
ONE = make_shape({GPU: 1})


def entry(changed_at: float = NOW, **fields: Any) -> Entry:
    return Entry(KEY, arrival=0.0, changed_at=changed_at, **fields)


def wish(*things: Node | Pod | Group, planned: dict[str, str] | None = None, **fields: Any) -> Wish | Refusal | None:
    """What `train` wants in this world, with these pods (by name) planned on these nodes."""
    world = make_world(*things)
    return planning.wish_of(world, ledger_with(world, planned or {}), entry(**fields), NOW)


def ledger_with(world: World, planned: dict[str, str]) -> Ledger:
    ledger = Ledger(world.nodes, lambda *_: None)
    for name, node in planned.items():
        pod = world.pods.get(f"uid-{name}")  # type: ignore[call-overload]
        task, shape = (pod.task, pod.shape) if pod is not None else (TaskName(""), ONE)
        row = world.columns.row(shape.request)
        slot = Slot(pod.uid if pod is not None else name)
        ledger.reserve(Reservation(slot, KEY, task, shape, NodeName(node), row, pod is None))
    return ledger


def member(name: str, task: str = "", shape: builders.Shape = ONE, **fields: Any) -> Member:
    return Member(Slot(f"uid-{name}"), TaskName(task), shape, **fields)


def expected(number: int, task: str = "", shape: builders.Shape = ONE) -> Member:
    return Member(Slot(f"{KEY}#{number}"), TaskName(task), shape, expected=True)


def missing(have: int, least: int, *more: tuple[str, str | int]) -> Refusal:
    return Refusal(Reason.MEMBERS, (("have", have), ("minimum", least), *more))


def pod(name: str, task: str = "", **fields: Any) -> Pod:
    return make_pod(name, {GPU: 1}, group="train", task=task, **fields)


NODE = gpu_node()
BLOCKED = {"gates": ("example.com/x",)}


@pytest.mark.parametrize(
    ("things", "planned", "wanted"),
    [
        pytest.param([make_group("train", 1)], {}, None, id="a group without members wants nothing"),
        pytest.param([make_group("train", 1), pod("a")], {}, Wish((member("a"),)), id="one member, whole"),
        pytest.param(
            [make_group("train", 3), pod("a")],
            {},
            Wish((member("a"), expected(0), expected(1)), missing=missing(1, 3)),
            id="those that are missing are expected in the shape of the newest",
        ),
        pytest.param(
            [make_group("train", 2), pod("a"), pod("b"), pod("c")],
            {},
            Wish((member("a"), member("b"), member("c")), least=(member("a"), member("b"))),
            id="all of them, or the oldest that make the minimum",
        ),
        pytest.param(
            [make_group("train", 2), pod("a"), pod("b"), pod("c")],
            {"a": "gpu-0", "b": "gpu-0"},
            Wish((), surplus=(member("c"),), fixed=(NodeName("gpu-0"), NodeName("gpu-0"))),
            id="the minimum is planned: the rest one by one",
        ),
        pytest.param(
            [make_group("train", 3), pod("a"), pod("b"), pod("c"), pod("d")],
            {"b": "gpu-0"},
            Wish(
                (member("a"), member("c"), member("d")),
                least=(member("a"), member("c")),
                fixed=(NodeName("gpu-0"),),
            ),
            id="what is planned belongs to the smallest start",
        ),
        pytest.param(
            [make_group("train", 2), pod("a", node="gpu-0"), pod("b", node="gpu-0"), pod("c")],
            {},
            Wish((), surplus=(member("c"),), fixed=(NodeName("gpu-0"), NodeName("gpu-0"))),
            id="it runs: a new member for itself",
        ),
        pytest.param(
            [make_group("train", 3), pod("a", node="gpu-0"), pod("c")],
            {},
            Wish((member("c"), expected(0)), fixed=(NodeName("gpu-0"),), missing=missing(2, 3)),
            id="it has lost members: the replacements together",
        ),
        pytest.param(
            [make_group("train", 3), pod("a", node="gpu-0"), pod("b", node="gpu-0")],
            {},
            Wish((expected(0),), fixed=2 * (NodeName("gpu-0"),), missing=missing(2, 3)),
            id="it has lost a member and no replacement exists: that is expected",
        ),
        pytest.param(
            [
                *(make_group("train", 3), pod("a", node="gpu-0"), pod("b", node="gpu-0")),
                make_pod("0", {GPU: 4}, group="train", task="big", node="gpu-0", terminating=True),
            ],
            {},
            Wish((expected(0, "big", make_shape({GPU: 4})),), fixed=2 * (NodeName("gpu-0"),), missing=missing(2, 3)),
            id="as the one that is lost",
        ),
        pytest.param(
            [make_group("train", 2, {"ps": 1}), pod("ps0", "ps", phase="Failed"), pod("w0", "w", node="gpu-0")],
            {},
            Wish(
                (expected(0, "ps"),),
                fixed=(NodeName("gpu-0"),),
                missing=missing(1, 2, ("task", "ps"), ("have", 0), ("minimum", 1)),
            ),
            id="of the task that is short",
        ),
        pytest.param(
            [make_group("train", 2), pod("a", node="gpu-0", scheduler="other")],
            {},
            missing(1, 2),
            id="what those of other schedulers are replaced by is not ours to say",
        ),
        pytest.param(
            [make_group("train", 2), pod("a", phase="Failed"), pod("b", phase="Failed")],
            {},
            None,
            id="nothing of it runs: nobody is expected",
        ),
        pytest.param(
            [make_group("train", 2), pod("a", node="gpu-0", phase="Succeeded"), pod("b", node="gpu-0")],
            {},
            None,
            id="who has succeeded is not missing",
        ),
        pytest.param(
            [make_group("train", 2), pod("a", node="gpu-0"), pod("b", **BLOCKED)],
            {},
            missing(1, 2),
            id="a replacement behind a gate of others: no other is expected",
        ),
        pytest.param(
            [make_group("train", 3, {"ps": 1, "w": 2}), pod("w0", "w"), pod("ps0", "ps")],
            {},
            Wish(
                (member("ps0", "ps"), member("w0", "w"), expected(0, "w")),
                missing=missing(2, 3, ("task", "w"), ("have", 1), ("minimum", 2)),
            ),
            id="of each task its own number",
        ),
        pytest.param(
            [make_group("train", 3, {"ps": 1}), *(pod(f"w{n}", "w") for n in range(3)), pod("x", "ps")],
            {},
            Wish(
                (*(member(f"w{n}", "w") for n in range(3)), member("x", "ps")),
                least=(member("w0", "w"), member("w1", "w"), member("x", "ps")),
            ),
            id="a task's minimum before the rest",
        ),
        pytest.param(
            [make_group("train", 2), pod("a"), f"{KEY}#0"],
            {"a": "gpu-0", f"{KEY}#0": "gpu-0"},
            None,
            id="what is expected has its room",
        ),
        pytest.param(
            [make_group("train", 1), pod("a"), f"{KEY}#0"],
            {"a": "gpu-0", f"{KEY}#0": "gpu-0"},
            Wish((), fixed=(NodeName("gpu-0"),)),
            id="nobody is expected any more: room is given up",
        ),
        pytest.param(
            [make_group("train", 4), pod("a", scheduler="s"), f"{KEY}#0"],
            {f"{KEY}#0": "gpu-0"},
            Wish(()),
            id="no member of ours is left: room is given up",
        ),
        pytest.param(
            [make_group("train", 2), pod("a"), pod("b", **BLOCKED)],
            {},
            Wish((member("a"), expected(0)), missing=missing(1, 2)),
            id="a member behind a foreign gate is expected",
        ),
        pytest.param(
            [make_group("train", 2), pod("a", **BLOCKED), pod("b", **BLOCKED)],
            {},
            Refusal(Reason.MEMBERS, (("have", 0), ("minimum", 2))),
            id="all are behind foreign gates",
        ),
        pytest.param(
            [make_group("train", 2), pod("a", node="gpu-0", phase="Succeeded"), pod("b")],
            {},
            Wish((member("b"),)),
            id="one that succeeded counts, and is nowhere",
        ),
        pytest.param([pod("a", node="gpu-0")], {}, None, id="nothing waits, so nothing needs to be sound"),
        pytest.param(
            [pod("a")], {}, Refusal(Reason.GROUP_NOT_FOUND, (("group", str(KEY)),)), id="the object is missing"
        ),
        pytest.param(
            [make_group("train", 2, {"ps": 1}), pod("a", "w")],
            {},
            Refusal(
                Reason.MEMBERS,
                (("have", 1), ("minimum", 2), ("task", "ps"), ("have", 0), ("minimum", 1)),
            ),
            id="of a task without members the shape is unknown",
        ),
    ],
)
def test_what_a_group_wants(things: list[Any], planned: dict[str, str], wanted: Wish | Refusal | None) -> None:
    things = [thing for thing in things if not isinstance(thing, str)]
    assert wish(NODE, *things, planned=planned) == wanted


def test_members_that_stay_away_are_expected_for_ten_seconds() -> None:
    things = [NODE, make_group("train", 2), pod("a")]
    assert isinstance(wish(*things, changed_at=NOW - EXPECT_SECONDS + 0.1), Wish)
    assert wish(*things, changed_at=NOW - EXPECT_SECONDS) == Refusal(Reason.MEMBERS, (("have", 1), ("minimum", 2)))


def test_offered_lists_and_levels_go_along() -> None:
    offered = frozenset({NodeName("gpu-0")})
    group = make_group("train", 1, topology_required="rack", topology_preferred="block")
    found = wish(NODE, group, pod("a"), offered={"uid-a": offered})
    assert found == Wish((member("a", allowed=offered),), required="rack", preferred="block")


# --- plans -------------------------------------------------------------------------------------------


def room(*gpus: int) -> Room:
    """Nodes with so many GPUs."""
    world = make_world(*(gpu_node(f"gpu-{n}", number) for n, number in enumerate(gpus)))
    return Room(Snapshot.take(world, Feasibility()))


def members(*asked: int) -> tuple[Member, ...]:
    return tuple(member(f"m{n}", shape=make_shape({GPU: number})) for n, number in enumerate(asked))


@pytest.mark.parametrize(
    ("gpus", "whole", "least", "surplus", "placed", "left"),
    [
        pytest.param([4], [2, 2], 0, [], 2, None, id="all fit"),
        pytest.param([3], [2, 2], 0, [], None, Reason.RESOURCES, id="no smaller start: nothing"),
        pytest.param([3], [2, 1, 1], 2, [], 2, Reason.RESOURCES, id="the smallest start, and the rest waits"),
        pytest.param([5], [2, 1, 3, 2], 2, [], 3, Reason.RESOURCES, id="and what fits beside it"),
        pytest.param([1], [2, 1], 1, [], None, Reason.RESOURCES, id="not even that"),
        pytest.param([3], [], 0, [4, 1, 4, 2], 2, Reason.RESOURCES, id="surplus, each for itself"),
        pytest.param([1, 1], [2], 0, [], None, Reason.RESOURCES, id="nothing is split over nodes"),
    ],
)
def test_a_wish_is_fulfilled(
    gpus: list[int], whole: list[int], least: int, surplus: list[int], placed: int | None, left: Reason | None
) -> None:
    wanted = members(*whole) if whole else ()
    extra = members(*surplus) if surplus else ()
    there = room(*gpus)
    before = there.free.copy()
    found = placing.fulfil(Wish(wanted, wanted[:least], extra), there, builders.make_allowance(there))
    if placed is None:
        assert isinstance(found, Refusal)
        assert found.reason in (left, Reason.FRAGMENTED)
        assert (there.free == before).all()
    else:
        assert isinstance(found, Plan)
        assert len(found.places) == placed
        assert (found.left.reason if found.left else None) is left
        used = sum(dict(m.shape.request).get(GPU, 0) for m, _ in found.places)
        column = there.snapshot.columns.of(GPU)
        assert before[:, column].sum() - there.free[:, column].sum() == used
        assert (there.free >= 0).all()


@pytest.mark.parametrize(
    ("gpus", "whole", "least", "placed"),
    [
        pytest.param([4], [2, 2], 0, {"m0", "m1"}, id="without a smaller start all of it"),
        pytest.param([9], [2, 1, 1], 2, {"m0", "m1"}, id="the smallest start, though there is room for all"),
        pytest.param([3], [2, 1, 1], 2, {"m0", "m1"}, id="or not"),
        pytest.param([1], [2, 1], 1, None, id="not even that"),
    ],
)
def test_a_group_begins_with(gpus: list[int], whole: list[int], least: int, placed: set[str] | None) -> None:
    wanted, there = members(*whole), room(*gpus)
    before = there.free.copy()
    found = placing.begin(Wish(wanted, wanted[:least]), there, builders.make_allowance(there))
    if placed is None:
        assert isinstance(found, Refusal)
        assert (there.free == before).all()
    else:
        assert isinstance(found, Plan)
        assert ({m.slot.removeprefix("uid-") for m, _ in found.places}, found.left) == (placed, None)
        used = sum(dict(m.shape.request).get(GPU, 0) for m, _ in found.places)
        column = there.snapshot.columns.of(GPU)
        assert before[:, column].sum() - there.free[:, column].sum() == used


def test_a_group_begins_where_all_of_it_has_room() -> None:
    """In the rack that fits best for its minimum there would be nothing for the rest of it."""
    nodes = [gpu_node("tight", 2, {"rack": "a"}), gpu_node("wide", 4, {"rack": "b"})]
    there = builders.make_room(*nodes, builders.make_topology("rack"))
    wanted = members(1, 1, 1, 1)
    wish = Wish(wanted, wanted[:2], required="rack")
    found = placing.begin(wish, there, builders.make_allowance(there))
    assert isinstance(found, Plan)
    assert [node for _, node in found.places] == ["wide", "wide"]


def test_what_a_group_begins_with_counts_against_its_queue() -> None:
    there = room(8)
    allowance = builders.make_allowance(there, builders.make_queue(capability=((GPU, 5),)), queue="research")
    wanted = members(1, 1, 1, 1)
    assert isinstance(placing.begin(Wish(wanted, wanted[:2]), there, allowance), Plan)
    assert allowance.refusal([(ONE, 3)]) is None
    assert allowance.refusal([(ONE, 4)]) is not None


asked = st.lists(st.integers(1, 3), max_size=4)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=3), asked, st.integers(0, 4), asked)
def test_a_plan_never_takes_more_than_there_is_nor_starts_half(
    gpus: list[int], whole: list[int], least: int, surplus: list[int]
) -> None:
    wanted = members(*whole)
    extra = tuple(replace(m, slot=Slot(f"s-{m.slot}")) for m in members(*surplus))
    there = room(*gpus)
    before = there.free.copy()
    found = placing.fulfil(
        Wish(wanted, wanted[:least] if least < len(wanted) else (), extra), there, builders.make_allowance(there)
    )
    if isinstance(found, Refusal):
        assert (there.free == before).all()
        return
    slots = {m.slot for m, _ in found.places}
    assert len(slots) == len(found.places)
    starts = wanted[:least] if least < len(wanted) else ()
    assert {m.slot for m in wanted} <= slots or (starts and {m.slot for m in starts} <= slots)
    assert (found.left is None) == (slots == {m.slot for m in (*wanted, *extra)})
    assert (there.free >= 0).all()


@pytest.mark.parametrize(
    ("gpus", "constraints", "wanted"),
    [
        pytest.param(2, {}, None, id="room for all, also for the one that is expected"),
        pytest.param(
            1,
            {},
            missing(1, 2, ("also", "InsufficientResources"), ("resource", GPU), ("asked", 2), ("free", 1)),
            id="neither all members nor room: members come first",
        ),
        pytest.param(
            2,
            {"selector": (("disk", "fast"),)},
            Refusal(Reason.CONSTRAINTS, (("unmatched", "disk=fast"),)),
            id="no node would ever do: that needs a person",
        ),
    ],
)
def test_what_a_group_waits_for_that_lacks_members(
    gpus: int, constraints: dict[str, Any], wanted: Refusal | None
) -> None:
    shape = make_shape({GPU: 1}, **constraints)
    whole = (member("a", shape=shape), expected(0, shape=shape))
    there = room(gpus)
    found = placing.fulfil(Wish(whole, missing=missing(1, 2)), there, builders.make_allowance(there))
    assert (found if isinstance(found, Refusal) else None) == wanted


def test_members_of_one_shape_and_other_lists_are_placed_each_within_its_own() -> None:
    there = room(1, 1, 1)
    lists = [frozenset({NodeName(f"gpu-{n}")}) for n in (2, 0, 1)]
    wanted = tuple(member(f"m{n}", allowed=names) for n, names in enumerate(lists))
    found = placing.fulfil(Wish(wanted), there, builders.make_allowance(there))
    assert isinstance(found, Plan)
    assert {m.slot: node for m, node in found.places} == {
        "uid-m0": "gpu-2",
        "uid-m1": "gpu-0",
        "uid-m2": "gpu-1",
    }


def test_equal_pods_are_taken_by_age_and_then_by_name() -> None:
    pods = [replace(p, created=float(5 - n)) for n, p in enumerate(make_pods(3, "p", request={GPU: 1}, group="train"))]
    found = wish(NODE, make_group("train", 3), *pods)
    assert isinstance(found, Wish)
    assert [m.slot for m in found.whole] == ["uid-p-2", "uid-p-1", "uid-p-0"]
