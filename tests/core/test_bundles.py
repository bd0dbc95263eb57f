"""Parts of a group that go into domains of their own, against an oracle that tries everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from extender.core.ids import TaskName
from extender.core.model import Node, Part, Pod, Topology
from extender.core.placement import Demand, Placement, place
from extender.core.reasons import Reason, Refusal
from extender.core.snapshot import Room
from tests import oracles, strategies
from tests.builders import GPU, gpu_node, make_node, make_pod, make_room, make_shape, make_topology

ONE_GPU = make_shape({GPU: 1})
PATHS = {None: (), "block": ("block",), "rack": ("block", "rack")}


def slices(number: int, size: int, level: str = "rack", *outer: Part, **request: int) -> list[Demand]:
    """So many slices of so many pods of one GPU."""
    shape = make_shape(request) if request else ONE_GPU
    parts = [Part(level, f"{level}-{n}", divided=True) for n in range(number)]
    return [Demand(shape, size, TaskName("worker"), within=(*outer, part)) for part in parts]


def racks(*free: Sequence[int], blocks: int = 1) -> list[Node]:
    """Racks of nodes with so many GPUs, dealt to blocks one after the other."""
    return [
        gpu_node(f"n{number}{letter}", gpus, {"block": f"b{number % blocks}", "rack": f"r{number}"})
        for number, rack in enumerate(free)
        for letter, gpus in zip("abcdefgh", rack, strict=False)
    ]


def room_of(*things: Node | Pod | Topology) -> Room:
    return make_room(make_topology(), *things)


def nodes_of(room: Room, placement: Placement | Refusal) -> list[list[str]]:
    assert isinstance(placement, Placement), placement
    return [[str(room.snapshot.names[row]) for row in rows] for rows in placement.rows]


def racks_of(room: Room, placement: Placement | Refusal) -> list[set[str]]:
    """The racks that each demand is in."""
    return [{name[1] for name in names} for names in nodes_of(room, placement)]


# --- against the oracle --------------------------------------------------------------------------------


def ways(nodes: Sequence[Node], demands: Sequence[Demand], required: str | None, fixed: dict[Part, list[int]]) -> bool:
    """Whether some way to give each part and the group a domain leaves room for all, by trying all of them."""
    parts = list(dict.fromkeys(part for demand in demands if demand.count for part in demand.within))

    def assignments(left: list[Part]) -> Iterator[dict[Part, set[int]]]:
        if not left:
            yield {}
            return
        for rows in oracles.domains(nodes, PATHS[left[0].level]).values():
            if set(fixed.get(left[0], ())) <= set(rows):
                for rest in assignments(left[1:]):
                    yield {left[0]: set(rows)} | rest

    for whole in oracles.domains(nodes, PATHS[required]).values():
        for chosen in assignments(parts):
            pods = []
            for demand in demands:
                inside = set(whole).intersection(*(chosen[part] for part in demand.within if part in chosen))
                rows = [row for row in inside if oracles.accepts(demand.shape.constraints, nodes[row])]
                pods += [(demand.shape, tuple(rows))] * demand.count
            if oracles.can_place(nodes, pods):
                return True
    return False


@st.composite
def parted(draw: st.DrawFn) -> list[Demand]:
    """Up to four demands of at most five pods, of which some share parts, in one another or not."""
    outer = [Part("block", f"o{n}") for n in range(2)]
    left, demands = 5, []
    for n in range(draw(st.integers(1, 4))):
        count = draw(st.integers(0, left))
        left -= count
        number = draw(st.integers(0, 1))
        inner = Part("rack", f"i{number}{draw(st.integers(0, 1))}")
        within = draw(st.sampled_from(((), (inner,), (outer[number],), (outer[number], inner))))
        demands.append(Demand(draw(strategies.small_shapes()), count, TaskName(f"t{n}"), within=within))
    depth = {part: demand.within.index(part) for demand in demands for part in demand.within}
    # a part is at one place of the tree only
    return [d for d in demands if all(depth[part] == d.within.index(part) for part in d.within)]


@given(strategies.small_nodes(), parted(), st.sampled_from((None, "block", "rack")), st.data())
@settings(max_examples=120)
def test_parts_are_placed_exactly_when_there_is_a_way(
    nodes: list[Node], demands: list[Demand], required: str | None, data: st.DataObject
) -> None:
    parts = sorted({part for d in demands for part in d.within}, key=lambda part: part.name)
    fixed = {}
    if parts and data.draw(st.booleans()):
        fixed = {data.draw(st.sampled_from(parts)): [data.draw(st.integers(0, len(nodes) - 1))]}
    room = room_of(*nodes)
    placement = place(room, demands, required=required, standing=fixed)
    if not any(demand.count for demand in demands):
        assert isinstance(placement, Placement)
        return
    exists = ways(nodes, demands, required, fixed)
    assert isinstance(placement, Placement) == exists
    if isinstance(placement, Placement):
        check_domains(nodes, demands, placement, fixed)
    else:
        assert placement.reason in (
            *(Reason.TOPOLOGY, Reason.UNLABELLED, Reason.RESOURCES, Reason.FRAGMENTED, Reason.CONSTRAINTS),
        )


def check_domains(
    nodes: Sequence[Node], demands: Sequence[Demand], placement: Placement, fixed: dict[Part, list[int]]
) -> None:
    used: dict[int, Counter[str]] = {}
    where: dict[Part, set[int]] = {part: set(rows) for part, rows in fixed.items()}
    for demand, rows in zip(demands, placement.rows, strict=True):
        assert len(rows) == demand.count
        for row in rows:
            assert oracles.accepts(demand.shape.constraints, nodes[row])
            used.setdefault(row, Counter()).update(dict(demand.shape.request))
        for part in demand.within:
            where.setdefault(part, set()).update(rows)
    for row, there in used.items():
        assert all(dict(nodes[row].allocatable).get(name, 0) >= amount for name, amount in there.items())
    asked = {part for demand in demands if demand.count for part in demand.within}
    for part in asked:
        domains = oracles.domains(nodes, PATHS[part.level]).values()
        assert any(where[part] <= set(rows) for rows in domains)


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_equal_slices_stand_in_the_fewest_racks(free: list[list[int]], number: int, size: int) -> None:
    room = room_of(*racks(*free))
    placement = place(room, slices(number, size))
    takes = sorted((sum(rack) // size for rack in free), reverse=True)
    assert isinstance(placement, Placement) == (sum(takes) >= number)
    if isinstance(placement, Placement):
        fewest = next(n for n in range(1, len(takes) + 1) if sum(takes[:n]) >= number)
        found = racks_of(room, placement)
        assert all(len(one) == 1 for one in found)
        assert len(set.union(*found)) == fewest


# --- choices -------------------------------------------------------------------------------------------


def test_slices_go_into_racks_and_the_group_into_a_block() -> None:
    room = room_of(*racks([4, 2], [4, 4], [4], [4, 1], blocks=2))
    placement = place(room, slices(3, 4), required="block")
    assert racks_of(room, placement) == [{"1"}, {"1"}, {"3"}]
    assert isinstance(placement, Placement)
    assert placement.domain == ("b1",)


def test_slices_follow_each_other_along_the_network() -> None:
    room = room_of(*racks([4], [8], [4], [8], blocks=2))
    assert racks_of(room, place(room, slices(5, 4))) == [{"0"}, {"1"}, {"1"}, {"3"}, {"3"}]


def test_the_rack_that_just_holds_what_is_left_is_taken() -> None:
    room = room_of(*racks([8, 8], [4, 1], [8], [4]))
    assert racks_of(room, place(room, slices(5, 4))) == [{"0"}] * 4 + [{"3"}]


def test_slices_of_slices_nest() -> None:
    room = room_of(*racks([4], [4, 4], [8], [3], blocks=2))
    inner = [(Part("block", f"b{b}"), Part("rack", f"r{b}{r}")) for b in range(2) for r in range(2)]
    demands = [Demand(ONE_GPU, 4, TaskName("w"), within=within) for within in inner]
    assert racks_of(room, place(room, demands)) == [{"2"}, {"2"}, {"1"}, {"1"}]


def test_launchers_and_others_stand_where_there_is_room_beside_the_slices() -> None:
    room = room_of(*racks([4], [4], [1]))
    demands = [Demand(ONE_GPU, 1, TaskName("launcher")), *slices(2, 4)]
    assert racks_of(room, place(room, demands)) == [{"2"}, {"0"}, {"1"}]


def test_a_slice_that_stands_already_keeps_its_rack() -> None:
    room = room_of(*racks([4, 4], [4, 4]), make_pod("p", {GPU: 4}, node="n0a"))
    demands = slices(2, 2)
    standing = {demands[1].within[0]: room.snapshot.rows([make_node("n0a").name])}
    assert racks_of(room, place(room, demands, standing=standing, fixed=[0]))[1] == {"0"}
    full = room_of(*racks([4], [4, 4]), make_pod("p", {GPU: 4}, node="n0a"))
    refusal = place(full, demands, standing=standing, fixed=[0])
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.TOPOLOGY
    assert dict(refusal.detail) == {"level": "rack", "part": "rack-1", "parts": 1, "members_each": 2, "fit": 0}


def test_a_part_whose_members_stand_in_two_racks_is_named() -> None:
    room = room_of(*racks([4], [4]))
    [demand] = slices(1, 2)
    refusal = place(room, [demand], standing={demand.within[0]: [0, 1]}, fixed=[0, 1, 1])
    assert isinstance(refusal, Refusal)
    assert dict(refusal.detail)["problem"] == "members that run are not in one domain"


def test_how_many_slices_would_have_a_rack_is_told() -> None:
    room = room_of(*racks([3], [3], [5], [4]))
    refusal = place(room, slices(3, 4))
    assert isinstance(refusal, Refusal)
    assert dict(refusal.detail) == {"level": "rack", "part": "rack-0", "parts": 3, "members_each": 4, "fit": 2}


def test_a_part_to_which_all_belong_is_a_required_level() -> None:
    room = room_of(*racks([3], [3], [5]))
    whole = Part("rack", "podset/worker")
    assert racks_of(room, place(room, [Demand(ONE_GPU, 4, within=(whole,))])) == [{"2"}]
    refusal = place(room, [Demand(ONE_GPU, 6, within=(whole,))])
    assert isinstance(refusal, Refusal)
    assert dict(refusal.detail) == {"level": "rack", "domain": "b0/r2", "asked": 6, "fit": 5}


def test_a_level_that_nobody_knows_is_named() -> None:
    room = room_of(*racks([3]))
    refusal = place(room, slices(2, 1, "row"))
    assert refusal == Refusal(Reason.TOPOLOGY, (("level", "row"), ("problem", "no topology has this level")))


def test_kinds_that_compete_are_placed_where_one_order_fails() -> None:
    # whichever is placed first by size takes the rack that the other needs
    room = room_of(*racks([6], [5, 1]))
    big = [Demand(make_shape({GPU: 5}), 1, TaskName("big"), within=(Part("rack", "big"),))]
    small = [Demand(make_shape({GPU: 3}), 2, TaskName("small"), within=(Part("rack", "small"),))]
    assert racks_of(room, place(room, small + big)) == [{"0"}, {"1"}]
