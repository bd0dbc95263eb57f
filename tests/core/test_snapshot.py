"""Free room, feasibility of nodes and domains of levels, against tables, oracles and their own history."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core import messages
from extender.core.feasibility import Facts, Feasibility
from extender.core.ids import NodeName
from extender.core.model import Constraints, Expression, Node, Taint, Term, Toleration
from extender.core.placement import Demand, Placement, place
from extender.core.resources import MAX_ON_NODE, MAX_PODS_ON_NODE, MEMORY, PODS
from extender.core.snapshot import Room, Snapshot
from extender.core.topology import HOSTNAME, Domains
from extender.core.world import World
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
    show,
)


def fitting(facts: Facts, constraints: Constraints) -> set[str]:
    """Names of the nodes that the mask leaves."""
    mask = facts.mask(constraints)
    return {str(name) for name, fits in zip(facts.roster.names, mask, strict=True) if fits}


def label(key: str, operator: str, *values: str) -> Constraints:
    """Constraints of one label expression."""
    return Constraints(affinity=(Term((Expression(key, operator, values),)),))


def name_field(operator: str, *values: str) -> Constraints:
    """Constraints of one expression on the name."""
    return Constraints(affinity=(Term((), (Expression("metadata.name", operator, values),)),))


def tolerating(key: str, operator: str = "Exists", value: str = "", effect: str = "") -> Constraints:
    """Constraints of one toleration."""
    return Constraints(tolerations=(Toleration(key, operator, value, effect),))


NODES = [
    make_node("big", labels={"zone": "a", "mem": "80"}),
    make_node("small", labels={"zone": "b", "mem": "-5"}),
    make_node("bare"),
    make_node("odd", labels={"zone": "", "mem": "8_0"}),
    make_node("zero", labels={"zone": "c", "mem": "0"}),
    make_node("tainted", taints=(Taint("gpu", "yes", "NoSchedule"), Taint("x", "", "PreferNoSchedule"))),
    make_node("leaving", taints=(Taint("gpu", "no", "NoExecute"),)),
    make_node("cordoned", unschedulable=True),
    make_node("dark", ready=False),
]
PLAIN = {"big", "small", "bare", "odd", "zero"}

MATCHING = {
    "no constraints leave what is ready, not cordoned and without hard taints": (Constraints(), PLAIN),
    "a selector wants the label with that value": (Constraints((("zone", "a"),)), {"big"}),
    "a selector for the empty value does not match a missing label": (Constraints((("zone", ""),)), {"odd"}),
    "In": (label("zone", "In", "a", "b"), {"big", "small"}),
    "NotIn also takes nodes without the label": (label("zone", "NotIn", "a"), PLAIN - {"big"}),
    "Exists": (label("zone", "Exists"), PLAIN - {"bare"}),
    "DoesNotExist": (label("zone", "DoesNotExist"), {"bare"}),
    "Gt compares integers": (label("mem", "Gt", "9"), {"big"}),
    "Gt takes zero for a number": (label("mem", "Gt", "-1"), {"big", "zero"}),
    "Lt compares negative integers": (label("mem", "Lt", "0"), {"small"}),
    "Gt of no integer cannot be parsed": (label("mem", "Gt", "many"), set()),
    "In without values cannot be parsed": (label("zone", "In"), set()),
    "NotIn without values cannot be parsed": (label("zone", "NotIn"), set()),
    "Exists with values cannot be parsed": (label("zone", "Exists", "a"), set()),
    "an unknown operator matches nothing": (label("zone", "Near", "a"), set()),
    "affinity without terms matches nothing": (Constraints(affinity=()), set()),
    "an empty term matches nothing": (Constraints(affinity=(Term(()),)), set()),
    "terms are alternatives": (
        Constraints(
            affinity=(
                Term(()),
                Term((Expression("zone", "In", ("a",)),)),
                Term((Expression("zone", "DoesNotExist", ()),)),
            )
        ),
        {"big", "bare"},
    ),
    "expressions of a term hold together": (
        Constraints(affinity=(Term((Expression("zone", "Exists", ()), Expression("mem", "Lt", ("9",)))),)),
        {"small", "zero"},
    ),
    "selector and affinity hold together": (
        replace(label("mem", "Exists"), selector=(("zone", "b"),)),
        {"small"},
    ),
    "a field names one node": (name_field("In", "bare"), {"bare"}),
    "a field excludes one node": (name_field("NotIn", "bare"), PLAIN - {"bare"}),
    "two names in a field cannot be parsed": (name_field("In", "bare", "big"), set()),
    "an unknown field is empty": (
        Constraints(affinity=(Term((), (Expression("metadata.uid", "NotIn", ("u",)),)),)),
        PLAIN,
    ),
    "a named node that is not ready stays out": (name_field("In", "dark"), set()),
    "Equal tolerates the taint of that value": (tolerating("gpu", "Equal", "yes"), PLAIN | {"tainted"}),
    "no operator means Equal": (tolerating("gpu", "", "no"), PLAIN | {"leaving"}),
    "Exists tolerates any value": (tolerating("gpu"), PLAIN | {"tainted", "leaving"}),
    "a toleration may be for one effect": (
        tolerating("gpu", effect="NoExecute"),
        PLAIN | {"leaving"},
    ),
    "Exists without key tolerates everything": (
        tolerating(""),
        PLAIN | {"tainted", "leaving", "cordoned"},
    ),
    "a cordon is tolerated like its taint": (
        tolerating("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"),
        PLAIN | {"cordoned"},
    ),
    "a cordon is no NoExecute taint": (tolerating("", "Exists", "", "NoExecute"), PLAIN | {"leaving"}),
    "an unknown operator tolerates nothing": (tolerating("gpu", "Gt", "1"), PLAIN),
}


@pytest.mark.parametrize("case", MATCHING, ids=str)
def test_constraints_leave_the_nodes_that_kubernetes_would(case: str) -> None:
    constraints, expected = MATCHING[case]
    assert fitting(Feasibility().at(make_world(*NODES)), constraints) == expected


@given(st.data())
def test_masks_agree_with_the_oracle_through_any_history_of_nodes(data: st.DataObject) -> None:
    world, feasibility = World(), Feasibility()
    constraints = data.draw(st.lists(strategies.constraints, min_size=1, max_size=2))
    nodes: dict[str, Node] = {}
    for _ in range(data.draw(st.integers(1, 3))):
        for name in data.draw(st.lists(st.sampled_from(("n0", "n1", "n2", "n3")), max_size=3)):
            if name in nodes and data.draw(st.booleans()):
                del nodes[name]
                world.apply(messages.NodeGone(NodeName(name)))
            else:
                nodes[name] = data.draw(strategies.odd_nodes(name))
                show(world, [nodes[name]])
        facts = feasibility.at(world)
        for wanted in constraints:
            expected = {name for name, node in nodes.items() if oracles.accepts(wanted, node)}
            assert fitting(facts, wanted) == expected


def test_facts_stay_the_same_object_while_only_pods_come_and_go() -> None:
    world, feasibility = make_world(make_node("a"), make_node("b")), Feasibility()
    before = feasibility.at(world)
    show(world, [make_pod("p", node="a"), replace(make_node("b"), allocatable=(("pods", 3),))])
    assert feasibility.at(world) is before


def test_an_old_version_keeps_its_answers() -> None:
    world, feasibility = make_world(make_node("a", labels={"zone": "x"})), Feasibility()
    wanted, other = Constraints((("zone", "x"),)), Constraints((("zone", "y"),))
    before = feasibility.at(world)
    before.mask(wanted)
    show(world, [make_node("a", labels={"zone": "y"}), make_node("b", labels={"zone": "x"})])
    after = feasibility.at(world)
    assert (fitting(before, wanted), fitting(before, other)) == ({"a"}, set())
    assert (fitting(after, wanted), fitting(after, other)) == ({"b"}, {"a"})


def test_values_of_nodes_that_are_gone_do_not_pile_up() -> None:
    world, feasibility = make_world(make_node("a", labels={"rev": "0"})), Feasibility()
    for n in range(1000):
        show(world, [make_node("a", labels={"rev": str(n)})])
        facts = feasibility.at(world)
        assert fitting(facts, Constraints((("rev", str(n)),))) == {"a"}
        assert len(facts.label("rev").values) < 200


def test_what_is_kept_of_made_up_selectors_labels_and_levels_is_bounded_and_stays_right() -> None:
    facts = make_room(make_node("a", labels={"k7": "x"})).snapshot.facts
    for n in range(1500):
        expected = {"a"} if n == 7 else set()
        assert fitting(facts, Constraints(((f"k{n}", "x"),))) == expected
        assert len(facts.domains((f"k{n}",)).paths) == len(expected)
    assert fitting(facts, Constraints((("k7", "x"),))) == {"a"}
    kept = (len(facts._masks), len(facts._labels), len(facts._domains))
    assert all(number <= most for number, most in zip(kept, (1024, 256, 64), strict=True))


# --- free room -----------------------------------------------------------------------------------------


def free_of(snapshot: Snapshot, node: str) -> dict[str, int]:
    """Free amounts of a node by resource."""
    row = snapshot.free[snapshot.row_of[NodeName(node)]]
    return dict(zip(snapshot.columns.names, row.tolist(), strict=False))


def test_free_is_allocatable_less_pods_of_any_scheduler_less_what_is_reserved() -> None:
    world = make_world(
        gpu_node("a"),
        make_node("b"),
        make_pod("p", {"cpu": 500, GPU: 2}, node="a"),
        make_pod("q", {"cpu": 250}, node="a", scheduler="default-scheduler"),
    )
    reserved = np.zeros((1, 2), dtype=np.int64)
    reserved[0, 0] = 1000
    free = free_of(Snapshot.take(world, Feasibility(), reserved), "a")
    assert (free["cpu"], free["pods"], free[GPU]) == (96_000 - 750 - 1000, 108, 6)


def test_an_overcommitted_node_is_negative() -> None:
    world = make_world(make_node("a", {"cpu": 100}), make_pod("p", {"cpu": 300}, node="a"))
    assert free_of(Snapshot.take(world, Feasibility()), "a")["cpu"] == -200


#: so many equal pods of so much memory each, and whether they are there or reserved for
crowds = st.tuples(st.integers(1, MAX_PODS_ON_NODE), st.integers(0, MAX_ON_NODE) | st.just(MAX_ON_NODE), st.booleans())


@given(st.lists(crowds, max_size=12), st.integers(0, MAX_ON_NODE) | st.just(MAX_ON_NODE))
def test_no_sum_over_a_node_goes_astray_while_it_takes_pods(came: list[tuple[int, int, bool]], memory: int) -> None:
    world = make_world(make_node("a", {MEMORY: memory, PODS: MAX_PODS_ON_NODE}))
    reserved = np.zeros_like(world.nodes.used)
    rows = []
    free = {PODS: MAX_PODS_ON_NODE, MEMORY: memory}
    for count, amount, there in came:
        request = count * world.columns.row(((PODS, 1), (MEMORY, amount)))
        if there:
            world.nodes.add_used(NodeName("a"), request, 1)
            rows.append(request)
        else:
            reserved[0, : len(request)] += request
        free = {PODS: free[PODS] - count, MEMORY: free[MEMORY] - count * amount}
        room = Room(Snapshot.take(world, Feasibility(), reserved))
        assert room.free[0, 2] == free[PODS]
        if free[PODS] > 0:
            assert room.free[0, 1] == free[MEMORY]
        fits = isinstance(place(room, [Demand(make_shape({MEMORY: 1}), 1)]), Placement)
        assert fits is (min(free.values()) > 0)
    for request in rows:
        world.nodes.add_used(NodeName("a"), request, -1)
    assert not world.nodes.used.any()


def test_a_snapshot_does_not_follow_the_world() -> None:
    world = make_world(make_node("a"))
    snapshot = Snapshot.take(world, Feasibility())
    show(world, [make_pod("p", {"cpu": 300}, node="a"), make_node("a", {"cpu": 1}), make_node("b")])
    assert free_of(snapshot, "a")["cpu"] == 8000
    assert snapshot.names == ("a",)


def test_a_room_is_used_up_and_given_back_without_its_snapshot_or_its_copies() -> None:
    room = make_room(gpu_node("a"))
    request = room.snapshot.want(make_shape({"cpu": 1000, GPU: 1})).request
    copy = room.copy()
    room.take(0, request, 3)
    assert room.free[0, 0] == 93_000
    room.give_back(0, request)
    assert room.free[0, 0] == 94_000
    assert copy.free[0, 0] == room.snapshot.free[0, 0] == 96_000


def test_the_dominant_resource_is_the_largest_share_of_the_cluster_and_pods_only_when_alone() -> None:
    snapshot = make_room(gpu_node("a"), make_node("b", {"cpu": 1000})).snapshot
    names = snapshot.columns.names

    def dominant(**request: int) -> str:
        return names[snapshot.want(make_shape(request)).dominant]

    assert dominant(cpu=96_000, memory=1) == "cpu"
    assert names[snapshot.want(make_shape({"cpu": 1, GPU: 1})).dominant] == GPU
    assert dominant(cpu=1) == "cpu"
    assert dominant() == "pods"


def test_a_resource_that_no_node_ever_had_is_unknown() -> None:
    want = make_room(make_node("a")).snapshot.want(make_shape({"example.com/fpga": 2, "cpu": 1}))
    assert want.unknown == (("example.com/fpga", 2),)


# --- levels and domains --------------------------------------------------------------------------------


def where(domains: Domains, names: tuple[NodeName | None, ...]) -> dict[str, tuple[str, ...]]:
    """The path of each node that is in a domain."""
    return {
        str(name): domains.paths[number]
        for name, number in zip(names, domains.ids.tolist(), strict=True)
        if number >= 0
    }


def test_a_domain_is_the_path_and_a_node_that_lacks_a_label_on_it_is_in_none() -> None:
    facts = make_room(
        make_topology("block", "rack"),
        make_node("a", labels={"block": "b1", "rack": "r1"}),
        make_node("b", labels={"block": "b2", "rack": "r1"}),
        make_node("c", labels={"rack": "r1"}),
        make_node("d", labels={"block": "b2"}),
        make_node("e", labels={"block": "b2", "rack": "r1"}),
    ).snapshot.facts
    racks = facts.domains(facts.path("rack"))
    names = facts.roster.names
    assert where(racks, names) == {"a": ("b1", "r1"), "b": ("b2", "r1"), "e": ("b2", "r1")}
    assert [names[row] for row in racks.rows(1)] == ["b", "e"]
    assert set(where(facts.domains(facts.path("block")), names)) == {"a", "b", "d", "e"}
    assert set(where(facts.domains(()), names)) == set("abcde")


@pytest.mark.parametrize(
    ("level", "path"),
    [
        ("rack", ("block", "rack")),
        ("block", ("block",)),
        ("host", ("zone", "rack", "host")),
        ("else", ("else",)),
    ],
    ids=["narrow", "broad", "in the second topology", "in none"],
)
def test_a_level_has_the_path_of_the_first_topology_that_contains_it(level: str, path: tuple[str, ...]) -> None:
    topologies = make_topology("zone", "rack", "host", name="b"), make_topology("block", "rack", name="a")
    assert make_room(*topologies).snapshot.facts.path(level) == path


AWS = "topology.k8s.aws/network-node-layer-"
TIER = "fabric.topograph.run/tier-"
OLD = "network.topology.nvidia.com/"
GKE = "cloud.google.com/gce-topology-"
OCI = "oci.oraclecloud.com/host."
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


@pytest.mark.parametrize(
    ("borne", "level", "path"),
    [
        pytest.param([AWS + n for n in "321"], AWS + "3", (AWS + "1", AWS + "2", AWS + "3"), id="AWS"),
        pytest.param([AWS + n for n in "4321"], AWS + "2", (AWS + "1", AWS + "2"), id="of four layers, the second"),
        pytest.param([TIER + n for n in "012"], TIER + "0", (TIER + "2", TIER + "1", TIER + "0"), id="topograph"),
        pytest.param([OLD + "spine", OLD + "leaf"], OLD + "leaf", (OLD + "spine", OLD + "leaf"), id="no core there"),
        pytest.param([GKE + "block", GKE + "subblock"], GKE + "subblock", (GKE + "block", GKE + "subblock"), id="GKE"),
        pytest.param([OCI + "rack_id"], OCI + "rack_id", (OCI + "rack_id",), id="OCI's lowest alone"),
        pytest.param([ZONE, REGION, HOSTNAME], ZONE, (REGION, ZONE), id="a zone in its region"),
        pytest.param([ZONE, REGION, HOSTNAME], HOSTNAME, (HOSTNAME,), id="a host is itself wherever it stands"),
        pytest.param(["nvidia.com/gpu.clique"], "nvidia.com/gpu.clique", ("nvidia.com/gpu.clique",), id="NVLink"),
        pytest.param([], AWS + "2", (AWS + "2",), id="that no node bears yet"),
    ],
)
def test_labels_of_clouds_and_fabrics_are_levels_without_a_topology(
    borne: list[str], level: str, path: tuple[str, ...]
) -> None:
    facts = make_room(make_node("a", labels=dict.fromkeys(borne, "x")), make_node("b")).snapshot.facts
    assert facts.path(level) == path
    assert facts.knows_level(level) == (level in borne or level == HOSTNAME)


def test_a_topology_comes_before_the_schemes() -> None:
    node = make_node("a", labels={AWS + "1": "x", AWS + "2": "y"})
    assert make_room(node).snapshot.facts.chain(None) == (AWS + "1", AWS + "2")
    facts = make_room(make_topology(ZONE, AWS + "2"), node).snapshot.facts
    assert facts.path(AWS + "2") == facts.chain(None) == (ZONE, AWS + "2")


def test_levels_are_known_when_declared_borne_by_a_node_or_the_host_name() -> None:
    facts = make_room(make_topology("block"), make_node("a", labels={"zone": "z"})).snapshot.facts
    known = [level for level in ("block", "zone", "kubernetes.io/hostname", "rack") if facts.knows_level(level)]
    assert known == ["block", "zone", "kubernetes.io/hostname"]


def test_a_topology_that_comes_changes_or_goes_changes_the_levels_of_the_next_facts() -> None:
    world, feasibility = make_world(make_node("a")), Feasibility()
    seen = [feasibility.at(world).path("rack")]
    for levels in (("block", "rack"), ("spine", "rack")):
        show(world, [make_topology(*levels)])
        seen.append(feasibility.at(world).path("rack"))
    world.apply(messages.TopologyGone("network"))
    seen.append(feasibility.at(world).path("rack"))
    assert seen == [("rack",), ("block", "rack"), ("spine", "rack"), ("rack",)]


@given(strategies.small_nodes())
def test_domains_agree_with_the_oracle(nodes: list[Node]) -> None:
    facts = make_room(make_topology(), *nodes).snapshot.facts
    for keys in ((), ("block",), ("block", "rack")):
        domains = facts.domains(keys)
        found = {path: domains.rows(n).tolist() for n, path in enumerate(domains.paths)}
        assert found == oracles.domains(nodes, keys)
        assert list(domains.paths) == sorted(domains.paths)
        sums = domains.sums(np.arange(len(nodes)))
        assert sums.tolist() == [sum(found[path]) for path in domains.paths]


def test_rooms_share_nothing_with_the_world() -> None:
    world = make_world(make_node("a"))
    room = Room(Snapshot.take(world, Feasibility()))
    room.take(0, room.snapshot.want(make_shape()).request)
    assert world.nodes.used[0].sum() == 0


def test_a_reader_that_fell_behind_the_log_of_touched_rows_reads_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.core.node_table._TOUCHES_KEPT", 2)
    world, feasibility = World(), Feasibility()
    for number in range(3):
        world.apply(messages.NodeSeen(make_node(f"n{number}")))
    everywhere = Constraints()
    assert feasibility.at(world).mask(everywhere).sum() == 3
    world.apply(messages.NodeSeen(make_node("n0", unschedulable=True)))
    for flip in range(9):
        world.apply(messages.NodeSeen(make_node("n1", labels={"stamp": str(flip)})))
    assert len(world.nodes.touched) < 4
    assert feasibility.at(world).mask(everywhere).sum() == 2
