"""Kueue's Topologies, Volcano's HyperNodes, and what Volcano's groups wish of the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_objects import group, table

from extender.core.hypernodes import LOWEST
from extender.core.ids import Source
from extender.core.model import Expression, HyperNode, Members, Topology
from extender.wire import objects

IN = Expression("rack", "In", ("r1",))
TIER = "topology.volcano.sh/tier-"


def hypernode(*members: Any, **spec: Any) -> HyperNode:
    return objects.decode_hypernode({"metadata": {"name": "s0"}, "spec": {"tier": 1, "members": [*members], **spec}})


def member(kind: str = "Node", **selector: Any) -> dict:
    return {"type": kind, "selector": selector}


@table(
    "members, want",
    {
        "by name": ([member(exactMatch={"name": "n0"})], (Members(name="n0"),)),
        "by pattern": ([member(regexMatch={"pattern": "^n-"})], (Members(pattern="^n-"),)),
        "by labels": ([member(labelMatch={"matchLabels": {"rack": "r1"}})], (Members(labels=(IN,)),)),
        "other HyperNodes": (
            [member("HyperNode", exactMatch={"name": "s1"}), member("HyperNode", regexMatch={"pattern": "s[23]"})],
            (Members(inner=True, name="s1"), Members(inner=True, pattern="s[23]")),
        ),
        "none": ([], ()),
    },
)
def test_hypernode(members: list, want: tuple) -> None:
    assert hypernode(*members) == HyperNode("s0", 1, members=want)
    assert hypernode(*members, tierName="leaf").tier_name == "leaf"


@table(
    "members, spec, problem",
    {
        "an unknown type": ([member("Rack", exactMatch={"name": "a"})], {}, "spec.members.type"),
        "no selector": ([{"type": "Node"}], {}, "spec.members.selector"),
        "two selectors": ([member(exactMatch={"name": "a"}, regexMatch={"pattern": "a"})], {}, "selector"),
        "a bare name": ([{"type": "Node", "name": "n0"}], {}, "spec.members.selector"),
        "an empty name": ([member(exactMatch={})], {}, "exactMatch.name: is missing"),
        "an empty pattern": ([member(regexMatch={"pattern": ""})], {}, "regexMatch.pattern: is missing"),
        "labels of HyperNodes": ([member("HyperNode", labelMatch={"matchLabels": {"a": "b"}})], {}, "selects nodes"),
        "no labels": ([member(labelMatch={})], {}, "selects by no label"),
        "members in no list": ([], {"members": "n0"}, "spec.members"),
        "no tier": ([], {"tier": None}, "spec.tier: is missing"),
        "a negative tier": ([], {"tier": -1}, "spec.tier"),
        "a fractional tier": ([], {"tier": 1.5}, "spec.tier"),
        "a huge tier": ([], {"tier": 10**30}, "spec.tier"),
    },
)
def test_what_is_wrong_with_a_hypernode_is_named(members: list, spec: dict, problem: str) -> None:
    found = hypernode(*members, **spec)
    assert problem in " ".join(found.problems)
    assert found.name == "s0"


def kueue(*levels: object) -> dict:
    return {"metadata": {"name": "default"}, "spec": {"levels": [{"nodeLabel": level} for level in levels]}}


def test_a_topology_of_kueue_has_a_name_of_its_own() -> None:
    found = objects.decode_kueue_topology(kueue("block", "rack", "kubernetes.io/hostname"))
    assert found == Topology("kueue.x-k8s.io/default", ("block", "rack", "kubernetes.io/hostname"))
    assert found.name == objects.kueue_topology("default")


@pytest.mark.parametrize(
    "levels", [(), ("",), (3,), ("a", "a"), ("kubernetes.io/hostname", "a"), tuple(f"l{n}" for n in range(17))]
)
def test_a_topology_of_kueue_without_sound_levels_is_refused(levels: tuple) -> None:
    with pytest.raises(objects.DecodeError, match=r"spec\.levels"):
        objects.decode_kueue_topology(kueue(*levels))


@table(
    "wish, want",
    {
        "hard, up to a tier": ({"mode": "hard", "highestTierAllowed": 2}, (f"{TIER}2", LOWEST)),
        "hard is what is meant": ({"highestTierAllowed": 1}, (f"{TIER}1", LOWEST)),
        "by the tier's name": ({"highestTierName": "rack"}, (f"{TIER}name-rack", LOWEST)),
        "hard without a limit": ({"mode": "hard"}, (None, LOWEST)),
        "soft": ({"mode": "soft", "highestTierAllowed": 1}, (None, LOWEST)),
        "nothing": (None, (None, None)),
    },
)
def test_volcano_groups_wish_by_tier(wish: dict | None, want: tuple) -> None:
    found = objects.decode_group(Source.VOLCANO, group(spec={"minMember": 2, "networkTopology": wish}))
    assert (found.topology_required, found.topology_preferred, found.problems) == (*want, ())


@pytest.mark.parametrize(
    "wish",
    [
        "hard",
        {"mode": "firm"},
        {"mode": 3},
        {"highestTierAllowed": -1},
        {"highestTierAllowed": "1"},
        {"highestTierAllowed": 1, "highestTierName": "rack"},
    ],
)
def test_a_wish_that_is_not_understood_is_a_problem_of_the_group(wish: object) -> None:
    found = objects.decode_group(Source.VOLCANO, group(spec={"minMember": 2, "networkTopology": wish}))
    assert "networkTopology" in found.problems[0]


def test_topologies_that_kueue_shows_in_its_documents_are_read(shared: Path) -> None:
    files = sorted((shared / "data/topology/kueue").glob("*.yaml"))
    things = [thing for path in files for thing in yaml.safe_load_all(path.read_text()) if isinstance(thing, dict)]
    shown = [thing for thing in things if thing.get("kind") == "Topology"]
    read = [objects.decode_kueue_topology(thing).levels[-2:] for thing in shown]
    assert len(read) >= 4
    assert set(read) == {
        ("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"),
        ("cloud.provider.com/topology-rack", "kubernetes.io/hostname"),
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON, JSON)
@settings(max_examples=200)
def test_anything_else_is_taken_without_a_crash(tier: object, members: object, selector: object) -> None:
    for found in (members, [{"type": "Node", "selector": selector}], [members]):
        objects.decode_hypernode({"metadata": {"name": "s0"}, "spec": {"tier": tier, "members": found}})
