"""HyperNodes as levels of the network, and what is left out of them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core import hypernodes, messages
from extender.core.feasibility import Feasibility
from extender.core.hypernodes import LOWEST, TIER, HyperNodes
from extender.core.model import Expression, HyperNode, Members
from extender.core.placement import Demand, Placement, place
from extender.core.reasons import Reason, Refusal
from extender.core.snapshot import Room, Snapshot
from extender.core.world import World
from tests.builders import GPU, gpu_node, make_pod, make_shape, make_world

ONE_GPU = make_shape({GPU: 1})


def of(name: str, tier: int, *members: str, **fields: object) -> HyperNode:
    """A HyperNode of members by name: `s...` are HyperNodes, others nodes."""
    found = tuple(Members(inner=member.startswith("s"), name=member) for member in members)
    return HyperNode(name, tier, members=found, **fields)  # type: ignore[arg-type]


#: eight nodes in three tiers, as Volcano's own tests have them
TREE = (
    *(of(f"s{n}", 1, f"n{2 * n}", f"n{2 * n + 1}") for n in range(4)),
    of("s4", 2, "s0", "s1"),
    of("s5", 2, "s2", "s3"),
    of("s6", 3, "s4", "s5"),
)


def path(found: HyperNodes, name: str, **labels: str) -> list[str | None]:
    """What the node is in, from broad to narrow."""
    return [found.value(key, gpu_node(name, labels=labels)) for key in found.chain()]


def world_of(*objects: HyperNode, nodes: int = 8, gpus: int = 2) -> World:
    world = make_world(*(gpu_node(f"n{n}", gpus) for n in range(nodes)))
    for one in objects:
        world.apply(messages.HyperNodeSeen(one))
    return world


def room_of(world: World) -> Room:
    return Room(Snapshot.take(world, Feasibility()))


def counts(room: Room, placement: Placement | Refusal) -> dict[str, int]:
    assert isinstance(placement, Placement), placement
    return dict(Counter(str(room.snapshot.names[row]) for rows in placement.rows for row in rows))


def test_each_tier_is_a_level() -> None:
    found = HyperNodes(TREE)
    assert found.chain() == (f"{TIER}3", f"{TIER}2", f"{TIER}1")
    assert path(found, "n3") == ["s6", "s4", "s1"]
    assert path(found, "elsewhere") == [None, None, None]
    assert not found.problems


def test_tiers_with_gaps_and_trees_without_a_common_root_have_paths_without_holes() -> None:
    found = HyperNodes([of("s0", 1, "n0"), of("s1", 4, "s0", "n1"), of("s2", 2, "n2"), of("s3", 1, "n3")])
    assert [path(found, f"n{n}") for n in range(4)] == [
        ["s1", "s0", "s0"],
        ["s1", None, None],
        ["s2", "s2", None],
        ["s3", "s3", "s3"],
    ]


@pytest.mark.parametrize(
    ("key", "level"),
    [
        (f"{TIER}1", f"{TIER}1"),
        (f"{TIER}3", f"{TIER}1"),
        (f"{TIER}99", f"{TIER}4"),
        (f"{TIER}0", f"{TIER}0"),
        (LOWEST, f"{TIER}1"),
        (f"{TIER}name-pod", f"{TIER}4"),
        (f"{TIER}name-row", f"{TIER}name-row"),
        ("rack", "rack"),
    ],
)
def test_a_wish_means_the_highest_tier_that_is_allowed(key: str, level: str) -> None:
    assert HyperNodes([of("s0", 1, "n0"), of("s1", 4, "s0", tier_name="pod")]).level(key) == level


def test_members_by_pattern_and_by_label() -> None:
    found = HyperNodes(
        [
            HyperNode("s0", 1, members=(Members(pattern="^n[0-3]$"),)),
            HyperNode("s1", 1, members=(Members(labels=(Expression("rack", "In", ("r1",)),)),)),
            HyperNode("s2", 1, members=(Members(labels=(Expression("rack", "NotIn", ("r1", "r2")),)),)),
            HyperNode("s9", 2, members=(Members(inner=True, pattern="^s[01]$"),)),
        ]
    )
    assert path(found, "n3", rack="r2") == ["s9", "s0"]
    assert path(found, "n4", rack="r1") == ["s9", "s1"]
    assert path(found, "n5", rack="r3") == ["s2", "s2"]
    assert path(found, "n6", rack="r2") == [None, None]


@pytest.mark.parametrize(
    ("objects", "who", "what"),
    [
        ([of("s0", 1, "s0")], "s0", "not below its own"),
        ([of("s0", 1, "s1"), of("s1", 1, "s0")], "s1", "not below its own"),
        ([of("s0", 2, "s1"), of("s1", 1, "s0")], "s1", "not below its own"),
        ([of("s0", 2, "s1")], "s0", "s1 is no HyperNode"),
        ([of("s0", 1), of("s1", 2, "s0"), of("s2", 2, "s0")], "s2", "a member of s1 too"),
        ([HyperNode("s0", 1, members=(Members(pattern="("),))], "s0", "not closed"),
        ([HyperNode("s0", 1, problems=("spec.tier: is missing",))], "s0", "spec.tier"),
        ([of("s0", 1, tier_name="a"), of("s1", 2, tier_name="a")], "s1", "the name of tier 1"),
        ([of(f"s{n:02}", n) for n in range(20)], "s16", "more than 16 tiers"),
    ],
)
def test_what_makes_no_sense_is_left_out_with_a_word_and_the_rest_goes_on(
    objects: list[HyperNode], who: str, what: str
) -> None:
    found = HyperNodes([*objects, of("z", 1, "node")])
    assert what in found.problems[who]
    assert "z" in path(found, "node")


def test_too_many_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hypernodes, "MAX_HYPERNODES", 2)
    monkeypatch.setattr(hypernodes, "MAX_SEARCHING", 1)
    found = HyperNodes([HyperNode(f"s{n}", 1, members=(Members(pattern=f"^n{n}$"),)) for n in range(3)])
    assert found.problems.keys() == {"s1", "s2"}
    assert path(found, "n0") == ["s0"]


def test_a_node_that_two_claim_is_of_the_first_by_name() -> None:
    found = HyperNodes([of("s1", 1, "n0"), of("s0", 1, "n0", "n1")])
    assert path(found, "n0") == ["s0"]
    assert found.problems == {"s1": "its node n0 is a member of s0 too"}


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.sampled_from((*"abcd", "s0", "s1", "s2", "s3", "s4")), max_size=4)),
        max_size=5,
    )
)
def test_whatever_they_say_domains_nest_and_hold_what_their_objects_name(given_: list[tuple[int, list[str]]]) -> None:
    objects = [of(f"s{n}", tier, *members) for n, (tier, members) in enumerate(given_)]
    by_name = {one.name: one for one in objects}
    found = HyperNodes(objects)

    def holds(outer: str, node: str) -> bool:
        """Whether the node is in it by what the objects say, through members of lower tiers."""
        return any(
            member.name == node
            if not member.inner
            else member.name in by_name and by_name[member.name].tier < by_name[outer].tier and holds(member.name, node)
            for member in by_name[outer].members
        )

    paths = {node: path(found, node) for node in "abcd"}
    for node, values in paths.items():
        assert all(value is None or holds(value, node) for value in values)
        there = [value is not None for value in values]
        assert there == sorted(there, reverse=True)
        assert any(there) == any(holds(name, node) for name in by_name)
    for one in paths.values():
        for other in paths.values():
            shared = [a == b for a, b in zip(one, other, strict=True) if a and b]
            assert shared == sorted(shared, reverse=True)


# --- groups placed by them ---------------------------------------------------------------------------


def test_a_required_tier_is_kept_and_a_lower_one_is_taken_where_there_is_room() -> None:
    room = room_of(world_of(*TREE))
    assert counts(room, place(room, [Demand(ONE_GPU, 4)], required=f"{TIER}2", preferred=LOWEST)) == {"n0": 2, "n1": 2}
    assert set(counts(room, place(room, [Demand(ONE_GPU, 6)], required=f"{TIER}2", preferred=LOWEST))) == {
        *("n0", "n1", "n2")
    }
    refusal = place(room, [Demand(ONE_GPU, 5)], required=f"{TIER}1")
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.TOPOLOGY
    assert dict(refusal.detail)["domain"] == "s6/s4/s0"


def test_the_fuller_of_the_hypernodes_that_fit_is_taken() -> None:
    world = world_of(*TREE)
    world.apply(messages.PodSeen(make_pod("p", {GPU: 1}, node="n2")))
    world.apply(messages.PodSeen(make_pod("q", {GPU: 2}, node="n4")))
    room = room_of(world)
    assert set(counts(room, place(room, [Demand(ONE_GPU, 3)], preferred=LOWEST))) == {"n2", "n3"}
    assert set(counts(room, place(room, [Demand(ONE_GPU, 5)], required=f"{TIER}2"))) <= {"n4", "n5", "n6", "n7"}


def test_without_hypernodes_a_soft_wish_is_met_anywhere_and_a_hard_one_nowhere() -> None:
    room = room_of(world_of())
    assert isinstance(place(room, [Demand(ONE_GPU, 4)], preferred=LOWEST), Placement)
    refusal = place(room, [Demand(ONE_GPU, 4)], required=f"{TIER}1", preferred=LOWEST)
    assert refusal == Refusal(Reason.TOPOLOGY, (("level", f"{TIER}1"), ("problem", "no topology has this level")))


def test_levels_follow_hypernodes_and_nodes_that_come_change_and_go() -> None:
    world, kept = world_of(*TREE), Feasibility()

    def domains() -> list[tuple[str, ...]]:
        facts = kept.at(world)
        return list(facts.domains(facts.path(f"{TIER}1")).paths)

    assert len(domains()) == 4
    world.apply(messages.NodeGone(gpu_node("n6").name))
    world.apply(messages.NodeGone(gpu_node("n7").name))
    assert len(domains()) == 3
    world.apply(messages.NodeSeen(gpu_node("n7")))
    assert ("s6", "s5", "s3") in domains()
    world.apply(messages.HyperNodeGone("s3"))
    assert len(domains()) == 3
    before = kept.at(world)
    world.apply(messages.HyperNodeSeen(TREE[0]))
    assert kept.at(world) is before
