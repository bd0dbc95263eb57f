"""Placement against an exhaustive oracle on small clusters, and its choices and refusals by table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from extender.core.feasibility import Feasibility
from extender.core.ids import NodeName, TaskName
from extender.core.model import Node
from extender.core.placement import Demand, Placement, place
from extender.core.reasons import Reason, Refusal
from extender.core.snapshot import Room, Snapshot
from tests import oracles, strategies
from tests.builders import (
    GPU,
    gpu_node,
    make_node,
    make_pod,
    make_room,
    make_shape,
    make_topology,
    make_world,
)

ONE_GPU = make_shape({GPU: 1})


def names(room: Room, placement: Placement | Refusal) -> list[list[str]]:
    """The node names of each demand, in order."""
    assert isinstance(placement, Placement), placement
    return [[str(room.snapshot.names[row]) for row in rows] for rows in placement.rows]


def counts(room: Room, placement: Placement | Refusal) -> dict[str, int]:
    """How many pods each node gets."""
    return dict(Counter(name for rows in names(room, placement) for name in rows))


def rack_node(name: str, gpus: int, block: int, rack: int) -> Node:
    """A GPU node in a rack."""
    return gpu_node(name, gpus, {"block": f"b{block}", "rack": f"r{rack}"})


# --- against the oracle --------------------------------------------------------------------------------


def oracle_pods(nodes: Sequence[Node], demands: Sequence[Demand], rows: Sequence[int]) -> list[oracles.OraclePod]:
    """One entry per pod: its shape and the rows on which it may stand, within these."""
    return [
        (
            demand.shape,
            tuple(
                row
                for row in rows
                if oracles.accepts(demand.shape.constraints, nodes[row])
                and (demand.allowed is None or demand.allowed[row])
            ),
        )
        for demand in demands
        for _ in range(demand.count)
    ]


def check_whole_and_within_room(nodes: Sequence[Node], demands: Sequence[Demand], placement: Placement) -> None:
    """Every pod has a row that accepts it, and no node is over its allocatable."""
    used: dict[int, Counter[str]] = {}
    for demand, rows in zip(demands, placement.rows, strict=True):
        assert len(rows) == demand.count
        for row in rows:
            assert oracles.accepts(demand.shape.constraints, nodes[row])
            assert demand.allowed is None or demand.allowed[row]
            used.setdefault(row, Counter()).update(dict(demand.shape.request))
    for row, amounts_there in used.items():
        there = dict(nodes[row].allocatable)
        assert all(there.get(name, 0) >= amount for name, amount in amounts_there.items())


@given(strategies.small_nodes(), strategies.small_demands())
def test_a_placement_is_found_exactly_when_one_exists(nodes: list[Node], demands: list[Demand]) -> None:
    placement = place(make_room(*nodes), demands)
    exists = oracles.can_place(nodes, oracle_pods(nodes, demands, range(len(nodes))))
    assert isinstance(placement, Placement) == exists
    if isinstance(placement, Placement):
        check_whole_and_within_room(nodes, demands, placement)


@given(
    strategies.small_nodes(),
    strategies.small_demands(),
    st.sampled_from((None, "block", "rack")),
    st.sampled_from((None, "block", "rack")),
    st.data(),
)
def test_the_required_level_is_kept_and_the_preferred_one_when_it_can_be(
    nodes: list[Node],
    demands: list[Demand],
    required: str | None,
    preferred: str | None,
    data: st.DataObject,
) -> None:
    paths = {None: (), "block": ("block",), "rack": ("block", "rack")}
    fixed = data.draw(st.lists(st.integers(0, len(nodes) - 1), max_size=2))
    room = make_room(make_topology(), *nodes)
    placement = place(room, demands, fixed=fixed, required=required, preferred=preferred)

    def possible(level: str | None) -> list[list[int]]:
        """The domains of a level that hold what is fixed and could take everything."""
        found = oracles.domains(nodes, paths[level])
        return [
            rows
            for rows in found.values()
            if (level is None or set(fixed) <= set(rows))
            and oracles.can_place(nodes, oracle_pods(nodes, demands, rows))
        ]

    anything = any(demand.count for demand in demands)
    if not anything:
        assert isinstance(placement, Placement)
        return
    assert isinstance(placement, Placement) == bool(possible(required))
    if isinstance(placement, Refusal):
        check_refusal(nodes, demands, placement)
        return
    check_whole_and_within_room(nodes, demands, placement)
    used = {row for rows in placement.rows for row in rows}
    narrowest = max((required, preferred), key=lambda level: len(paths[level]))
    for level in ("rack", "block"):
        if len(paths[level]) <= len(paths[narrowest]) and possible(level):
            assert any(used <= set(rows) for rows in possible(level))
            break


def check_refusal(nodes: Sequence[Node], demands: Sequence[Demand], refusal: Refusal) -> None:
    """The reason is true, and so are the numbers of a lack."""
    fitting = [
        {row for row, node in enumerate(nodes) if demand.count and oracles.accepts(demand.shape.constraints, node)}
        for demand in demands
    ]
    everywhere = oracles.can_place(nodes, oracle_pods(nodes, demands, range(len(nodes))))
    detail = dict(refusal.detail)
    if any(demand.count and not rows for demand, rows in zip(demands, fitting, strict=True)):
        assert refusal.reason is Reason.CONSTRAINTS
    elif everywhere:
        assert refusal.reason in (Reason.TOPOLOGY, Reason.UNLABELLED)
        lacking = [node for node in nodes if detail.get("label") not in node.labels]
        assert 0 < int(detail["unlabelled"]) <= len(lacking) if "label" in detail else True
        assert {"problem", "label"} & detail.keys() or int(detail["fit"]) < int(detail["asked"])
    elif "largest" in detail:
        name, part = str(detail["resource"]), [d for d in demands if detail.get("task", d.task) == d.task]
        assert any(dict(demand.shape.request).get(name, 0) == detail["asked"] for demand in part)
        assert int(detail["asked"]) > int(detail["largest"])
    elif refusal.reason is Reason.RESOURCES:
        chosen = [
            (demand, rows)
            for demand, rows in zip(demands, fitting, strict=True)
            if detail.get("task", demand.task) == demand.task and demand.count
        ]
        name = str(detail["resource"])
        asked = sum(dict(demand.shape.request).get(name, 0) * demand.count for demand, _ in chosen)
        usable = set().union(*(rows for demand, rows in chosen if name in dict(demand.shape.request)))
        free = sum(dict(nodes[row].allocatable).get(name, 0) for row in usable)
        assert (asked, free) == (detail["asked"], detail["free"])
        assert asked > free
    else:
        assert refusal.reason is Reason.FRAGMENTED


def test_tasks_that_no_order_of_filling_would_place_are_found_by_search() -> None:
    # the pair belongs on b, but whichever task comes first is drawn to the fuller node
    nodes = [make_node("a", {"cpu": 5, GPU: 7}), make_node("b", {"cpu": 8, GPU: 5})]
    pair = Demand(make_shape({"cpu": 4, GPU: 1}), 2, TaskName("pair"))
    single = Demand(make_shape({"cpu": 3, GPU: 5}), 1, TaskName("single"))
    room = make_room(*nodes)
    assert names(room, place(room, [pair, single])) == [["b", "b"], ["a"]]


# --- choices -------------------------------------------------------------------------------------------


def test_a_lone_pod_goes_to_the_fullest_node_that_fits_and_by_name_among_equals() -> None:
    room = make_room(make_node("c"), make_node("b"), make_node("a"), make_pod("p", node="b"), make_pod("q", node="c"))
    assert names(room, place(room, [Demand(make_shape(), 1)])) == [["b"]]


def test_a_pod_without_gpus_keeps_off_gpu_nodes_while_it_can() -> None:
    room = make_room(gpu_node("gpu"), make_node("cpu", {"cpu": 200_000, "memory": 2**45}))
    for count, expected in ((1, {"cpu": 1}), (300, {"cpu": 110})):
        demand = Demand(make_shape({"cpu": 1, "memory": 1}), min(count, 110))
        assert counts(room, place(room, [demand])) == expected
    demand = Demand(make_shape({"cpu": 1, "memory": 1}), 111)
    assert counts(room, place(room, [demand])) == {"cpu": 110, "gpu": 1}


def test_a_gang_fills_the_fullest_nodes_first() -> None:
    room = make_room(
        *(gpu_node(name) for name in "abc"),
        make_pod("p", {GPU: 6}, node="b"),
        make_pod("q", {GPU: 3}, node="c"),
    )
    assert counts(room, place(room, [Demand(ONE_GPU, 9)])) == {"b": 2, "c": 5, "a": 2}


def test_an_overcommitted_node_has_no_room_but_what_is_not_asked_for_does_not_matter() -> None:
    room = make_room(make_node("a", {"cpu": 10, GPU: 1}), make_pod("p", {"cpu": 20}, node="a"))
    assert isinstance(place(room, [Demand(make_shape({"cpu": 1}), 1)]), Refusal)
    assert counts(room, place(room, [Demand(ONE_GPU, 1)])) == {"a": 1}


def test_the_domain_with_least_to_spare_is_taken_and_the_first_path_among_equals() -> None:
    topology = make_topology()
    nodes = [
        rack_node("a", 8, 0, 0),
        rack_node("b", 4, 0, 1),
        rack_node("c", 4, 1, 0),
        rack_node("d", 2, 1, 1),
    ]
    room = make_room(topology, *nodes)
    for level in ({"required": "rack"}, {"preferred": "rack"}):
        placement = place(room, [Demand(ONE_GPU, 3)], **level)
        assert counts(room, placement) == {"b": 3}
        assert isinstance(placement, Placement)
        assert (placement.keys, placement.domain) == (("block", "rack"), ("b0", "r1"))


def test_preferred_climbs_and_then_uses_as_few_racks_as_possible() -> None:
    nodes = [rack_node(f"n{b}{r}{n}", 4, b, r) for b in range(2) for r in range(3) for n in range(2)]
    # block 0 has racks with 8, 8 and 5 free, block 1 has 3, 3 and 6
    busy = [make_pod("p", {GPU: 3}, node="n020"), make_pod("q", {GPU: 4}, node="n101")]
    busy += [make_pod("r", {GPU: 1}, node="n100"), make_pod("s", {GPU: 4}, node="n111")]
    busy += [make_pod("t", {GPU: 1}, node="n110"), make_pod("u", {GPU: 2}, node="n120")]
    room = make_room(make_topology(), *nodes, *busy)
    placement = place(room, [Demand(ONE_GPU, 9)], preferred="rack")
    assert isinstance(placement, Placement)
    assert placement.domain == ("b1",)
    racks = {name[:3] for name in counts(room, placement)}
    assert racks == {"n12", "n10"}  # n11 is as large
    placement = place(room, [Demand(ONE_GPU, 13)], preferred="rack")
    # two racks of block 0 do; the last is the smaller of those that will
    assert {name[:3] for name in counts(room, placement)} == {"n00", "n02"}


def test_preferred_stays_inside_required() -> None:
    nodes = [rack_node("a", 8, 0, 0), rack_node("b", 8, 0, 1), rack_node("c", 16, 1, 0)]
    room = make_room(make_topology(), *nodes, make_pod("p", {GPU: 6}, node="c"))
    placement = place(room, [Demand(ONE_GPU, 12)], required="block", preferred="rack")
    assert set(counts(room, placement)) == {"a", "b"}
    broader = place(room, [Demand(ONE_GPU, 8)], required="rack", preferred="block")
    assert counts(room, broader) == {"a": 8}


def test_levels_of_two_topologies_are_taken_where_both_agree() -> None:
    nodes = [
        gpu_node("a", 4, {"zone": "z0", "block": "b0"}),
        gpu_node("b", 4, {"zone": "z1", "block": "b0"}),
        gpu_node("c", 4, {"zone": "z1", "block": "b1"}),
        gpu_node("d", 4, {"zone": "z1", "block": "b1"}),
    ]
    room = make_room(make_topology("block"), make_topology("zone", name="zones"), *nodes)
    placement = place(room, [Demand(ONE_GPU, 8)], required="zone", preferred="block")
    assert counts(room, placement) == {"c": 4, "d": 4}


def test_the_host_name_is_a_level_without_any_topology() -> None:
    nodes = [gpu_node(name, 4, {"kubernetes.io/hostname": name}) for name in ("a", "b")]
    room = make_room(*nodes, make_pod("p", {GPU: 2}, node="a"))
    assert counts(room, place(room, [Demand(ONE_GPU, 4)], required="kubernetes.io/hostname")) == {"b": 4}
    refusal = place(room, [Demand(ONE_GPU, 5)], required="kubernetes.io/hostname")
    assert refusal == Refusal(
        Reason.TOPOLOGY,
        (("level", "kubernetes.io/hostname"), ("domain", "b"), ("asked", 5), ("fit", 4)),
    )


def test_gangs_with_gpus_prefer_one_nvlink_domain_where_those_span_nodes() -> None:
    clique = "nvidia.com/gpu.clique"
    values = ("7b968a6d-c8aa-45e1-9e07-e1e51be99c31.0", "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1")
    nodes = [gpu_node(f"n{n}", 4, {clique: values[n // 2]}) for n in range(4)] + [gpu_node("n4", 4)]
    busy = make_pod("p", {GPU: 1}, node="n1"), make_pod("q", {GPU: 3}, node="n4")
    room = make_room(*nodes, *busy)
    assert set(counts(room, place(room, [Demand(ONE_GPU, 8)]))) == {"n2", "n3"}
    assert set(counts(room, place(room, [Demand(ONE_GPU, 7)]))) == {"n0", "n1"}
    assert set(counts(room, place(room, [Demand(ONE_GPU, 16)]))) == {"n0", "n1", "n2", "n3", "n4"}
    assert counts(room, place(room, [Demand(ONE_GPU, 1)])) == {"n4": 1}
    beside = place(room, [Demand(ONE_GPU, 1)], fixed=[2])
    assert counts(room, beside) == {"n2": 1}
    cpus = place(room, [Demand(make_shape({"cpu": 90_000}), 2)])
    assert len(counts(room, cpus)) == 2
    refusal = place(room, [Demand(ONE_GPU, 12)], required=clique)
    assert isinstance(refusal, Refusal)
    assert dict(refusal.detail) == {"level": clique, "domain": values[1], "asked": 12, "fit": 8}


def test_members_that_stand_already_bind_the_rest_to_their_domain() -> None:
    nodes = [rack_node("a", 8, 0, 0), rack_node("b", 4, 0, 1), rack_node("c", 8, 1, 0)]
    room = make_room(make_topology(), *nodes)
    there = room.snapshot.rows([NodeName("a")])
    assert counts(room, place(room, [Demand(ONE_GPU, 2)], fixed=there, required="rack")) == {"a": 2}
    assert counts(room, place(room, [Demand(ONE_GPU, 2)], fixed=there, preferred="rack")) == {"a": 2}
    # climbing, the rack where they are is kept
    assert set(counts(room, place(room, [Demand(ONE_GPU, 10)], fixed=there, preferred="rack"))) == {"a", "b"}
    refusal = place(room, [Demand(ONE_GPU, 9)], fixed=there, required="rack")
    assert refusal == Refusal(Reason.TOPOLOGY, (("level", "rack"), ("domain", "b0/r0"), ("asked", 9), ("fit", 8)))


def test_nodes_without_the_label_are_no_rack_of_their_own() -> None:
    nodes = [gpu_node(name, 8, {"block": "b0"}) for name in ("x", "y")]
    room = make_room(make_topology(), *nodes, rack_node("n", 8, 0, 0), rack_node("m", 6, 0, 1))
    placement = place(room, [Demand(ONE_GPU, 12)], preferred="rack")
    assert set(counts(room, placement)) == {"n", "m"}
    assert isinstance(place(room, [Demand(ONE_GPU, 9)], required="rack"), Refusal)


def test_equal_nodes_are_taken_by_name_whatever_the_order_in_which_they_came() -> None:
    room = make_room(make_topology(), *(rack_node(name, 2, 0, 0) for name in "dbca"))
    for level in ({}, {"required": "rack"}, {"preferred": "block"}):
        assert counts(room, place(room, [Demand(ONE_GPU, 4)], **level)) == {"a": 2, "b": 2}
    assert counts(room, place(room, [Demand(ONE_GPU, 1)])) == {"a": 1}


def test_spread_over_racks_the_one_where_members_are_is_among_them() -> None:
    room = make_room(make_topology(), *(rack_node(f"n{gpus}", gpus, 0, gpus) for gpus in (8, 5, 6)))
    alone = place(room, [Demand(ONE_GPU, 13)], preferred="rack")
    beside = place(room, [Demand(ONE_GPU, 13)], preferred="rack", fixed=room.snapshot.rows([NodeName("n6")]))
    assert (set(counts(room, alone)), set(counts(room, beside))) == ({"n8", "n5"}, {"n8", "n6"})


def test_members_that_stand_in_two_domains_are_named() -> None:
    room = make_room(make_topology(), rack_node("a", 8, 0, 0), rack_node("b", 4, 0, 1))
    refusal = place(room, [Demand(ONE_GPU, 1)], fixed=[0, 1], required="rack")
    assert refusal == Refusal(
        Reason.TOPOLOGY, (("level", "rack"), ("problem", "members that run are not in one domain"))
    )


def test_neighbours_stand_together() -> None:
    racks = {"a": 0, "b": 1, "c": 0, "d": 1}
    room = make_room(make_topology(), *(rack_node(name, 2, 0, rack) for name, rack in racks.items()))
    found = names(room, place(room, [Demand(ONE_GPU, 8)]))
    assert found == [["a", "a", "c", "c", "b", "b", "d", "d"]]


def test_an_offered_list_is_kept() -> None:
    room = make_room(make_node("a"), make_node("b"), make_node("c"))
    allowed = room.snapshot.mask([NodeName("b"), NodeName("gone")])
    demands = [Demand(make_shape(), 1, TaskName("x"), allowed), Demand(make_shape(), 2, TaskName("y"))]
    assert names(room, place(room, demands))[0] == ["b"]
    nothing = Demand(make_shape(), 1, TaskName("x"), room.snapshot.mask([]))
    assert place(room, [nothing]) == Refusal(Reason.SCHEDULER_REFUSED, (("task", "x"),))


def test_taking_a_placement_uses_up_its_room() -> None:
    room = make_room(gpu_node("a"), gpu_node("b"))
    for expected in ({"a": 1}, {"b": 1}):
        placement = place(room, [Demand(make_shape({GPU: 5}), 1)])
        assert counts(room, placement) == expected
        assert isinstance(placement, Placement)
        placement.take(room)
    assert room.free[:, room.snapshot.columns.of(GPU)].tolist() == [3, 3]


def test_nothing_asked_is_placed_nowhere() -> None:
    for demands in ([], [Demand(ONE_GPU, 0)]):
        placement = place(make_room(), demands, preferred="kubernetes.io/hostname")
        assert isinstance(placement, Placement)
        assert placement.rows == tuple(() for _ in demands)


def test_reserved_room_is_not_given_again() -> None:
    world = make_world(gpu_node("a"), gpu_node("b"))
    reserved = np.zeros_like(world.nodes.used)
    reserved[0, world.columns.of(GPU)] = 8
    room = Room(Snapshot.take(world, Feasibility(), reserved))
    assert counts(room, place(room, [Demand(ONE_GPU, 8)])) == {"b": 8}
