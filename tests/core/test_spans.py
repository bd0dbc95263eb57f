"""Which levels there are, and what a group got of them against what it asked for."""

from __future__ import annotations

from extender.core import spans
from extender.core.feasibility import Facts, Feasibility
from extender.core.hypernodes import LOWEST, TIER
from extender.core.ids import NodeName, QueueName
from extender.core.membership import Need
from extender.core.messages import HyperNodeSeen
from extender.core.model import HyperNode, Members, Span
from extender.core.spans import LevelState
from tests.builders import gpu_node, make_group, make_pod, make_topology, make_world

NODES = [
    gpu_node("a", labels={"block": "b0", "rack": "r0", "topology.kubernetes.io/zone": "z"}),
    gpu_node("b", labels={"block": "b0", "rack": "r1"}),
    gpu_node("c", labels={"block": "b1", "rack": "r0"}),
    gpu_node("d", labels={"block": "b1"}),
    gpu_node("e"),
]
WORLD = make_world(make_topology(), *NODES)


def facts() -> Facts:
    return Feasibility().at(WORLD)


def span(nodes: str, required: str | None = None, preferred: str | None = None) -> Span | None:
    need = Need(1, (), QueueName("default"), 0, required, preferred)
    return spans.span(facts(), need, map(NodeName, nodes))


def test_levels_with_their_domains_and_the_nodes_that_lack_them() -> None:
    assert spans.levels(facts()) == (
        LevelState("block", 2, 1),
        LevelState("rack", 3, 2),
        LevelState("topology.kubernetes.io/zone", 1, 4),
    )


def test_no_more_levels_are_told_of_than_can_be_shown() -> None:
    world = make_world(make_topology(*(f"l{n}" for n in range(40))), *NODES)
    assert len(spans.levels(Feasibility().at(world))) == spans.LEVELS_SHOWN


def test_what_a_group_got() -> None:
    assert span("ab", preferred="rack") == Span(None, "rack", (("block", 1), ("rack", 2)), "block", ("b0",))
    assert span("aa", required="block") == Span("block", None, (("block", 1), ("rack", 1)), "rack", ("b0", "r0"))
    assert span("ac") == Span(None, None, (("block", 2), ("rack", 2)), None, ())
    # a node in no domain counts as one of its own
    assert span("cde", preferred="rack") == Span(None, "rack", (("block", 2), ("rack", 3)), None, ())
    assert span("e", preferred="rack") == Span(None, "rack", (("block", 1), ("rack", 1)), None, ())
    assert span("") is None
    assert span("z") is None


def test_whether_the_wish_was_met() -> None:
    cases = {("ab", "rack"): False, ("ab", "block"): True, ("aa", "rack"): True, ("ac", None): True}
    for (nodes, preferred), met in cases.items():
        found = span(nodes, preferred=preferred)
        assert found is not None
        assert found.met is met, (nodes, preferred)


def test_tiers_are_told_by_what_they_mean() -> None:
    world = make_world(*NODES)
    world.apply(HyperNodeSeen(HyperNode("s0", 2, members=(Members(name="a"), Members(name="b")))))
    need = Need(1, (), QueueName("default"), 0, f"{TIER}7", LOWEST)
    found = spans.span(Feasibility().at(world), need, [NodeName("a"), NodeName("b")])
    assert found == Span(f"{TIER}2", f"{TIER}2", ((f"{TIER}2", 1),), f"{TIER}2", ("s0",))


def test_members_that_are_bound_and_planned_count() -> None:
    member = make_pod("p", group="train", node="a")
    world = make_world(make_topology(), *NODES, make_group(topology_preferred="rack"), member)
    key = make_group().key
    found = spans.of_group(Feasibility().at(world), world, key)
    assert found is not None
    assert found.level == "rack"
    found = spans.of_group(Feasibility().at(world), world, key, [NodeName("b")])
    assert found is not None
    assert found.level == "block"
