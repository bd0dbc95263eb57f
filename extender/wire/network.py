"""What others say of the network and of a group's place in it (Kueue's Topologies, Volcano's HyperNodes and wishes),
and what we say of it.

Takes decoded JSON, gives values of the core; must not raise but DecodeError, for an object without a name or a
topology without sound levels. What is wrong with a HyperNode goes into its `problems`.
"""

from __future__ import annotations

from typing import Any

from extender.core.hypernodes import LOWEST, TIER, TIER_NAMED
from extender.core.model import Expression, HyperNode, Members, Span, Topology
from extender.wire.fields import DecodeError, Object, Reader, metadata
from extender.wire.selectors import expressions

_MAX_TIER = 10**6
_MAX_MEMBERS = 20_000
_MAX_LEVELS = 16
_HOSTNAME = "kubernetes.io/hostname"
_KINDS = ("Node", "HyperNode")
_SELECTORS = ("exactMatch", "regexMatch", "labelMatch")


def kueue_topology(name: str) -> str:
    """The name that a Topology of Kueue has among ours."""
    return f"kueue.x-k8s.io/{name}"


def decode_kueue_topology(obj: object) -> Topology:
    """The topology that an object of Kueue describes."""
    meta, reader = metadata(obj, "name"), Reader()
    assert isinstance(obj, dict)
    path = "spec.levels"
    rows = reader.objects(reader.mapping(obj, "spec", "spec"), "levels", path)
    levels = tuple(reader.text(row, "nodeLabel", f"{path}.nodeLabel") for row in rows)
    if reader.problems:
        raise DecodeError(reader.problems[0])
    if not all(levels) or len(set(levels)) != len(levels) or not 1 <= len(levels) <= _MAX_LEVELS:
        raise DecodeError(f"{path}: not a list of 1 to {_MAX_LEVELS} different label keys")
    if _HOSTNAME in levels[:-1]:
        raise DecodeError(f"{path}: {_HOSTNAME} is not the last level")
    return Topology(kueue_topology(meta["name"]), levels)


def decode_hypernode(obj: object) -> HyperNode:
    """The HyperNode that an object describes."""
    meta, reader = metadata(obj, "name"), Reader()
    assert isinstance(obj, dict)
    spec = reader.mapping(obj, "spec", "spec")
    tier = reader.integer(spec, "tier", "spec.tier", 0, _MAX_TIER)
    if tier is None and spec.get("tier") is None:
        reader.say("spec.tier", "is missing")
    rows = reader.objects(spec, "members", "spec.members")
    if len(rows) > _MAX_MEMBERS:
        reader.say("spec.members", f"more than {_MAX_MEMBERS}")
    members = [_members(reader, row) for row in rows[:_MAX_MEMBERS]]
    return HyperNode(
        name=meta["name"],
        tier=tier or 0,
        tier_name=reader.text(spec, "tierName", "spec.tierName"),
        members=tuple(one for one in members if one is not None),
        problems=tuple(reader.problems),
    )


def _members(reader: Reader, row: Object) -> Members | None:
    kind = reader.text(row, "type", "spec.members.type")
    if kind not in _KINDS:
        reader.note("spec.members.type", kind, "Node or HyperNode")
        return None
    inner, path = kind == "HyperNode", "spec.members.selector"
    selector = reader.mapping(row, "selector", path)
    given = [name for name in _SELECTORS if selector.get(name) is not None]
    if len(given) != 1:
        reader.note(path, sorted(selector), f"one of {', '.join(_SELECTORS)}")
        return None
    path = f"{path}.{given[0]}"
    match = reader.mapping(selector, given[0], path)
    if given[0] == "labelMatch":
        found = Members(inner, labels=_labels(reader, match, path))
        if inner:
            reader.say(path, "selects nodes, not HyperNodes")
        return found
    field = "name" if given[0] == "exactMatch" else "pattern"
    text = reader.text(match, field, f"{path}.{field}")
    if not text:
        reader.say(f"{path}.{field}", "is missing")
        return None
    return Members(inner, name=text) if field == "name" else Members(inner, pattern=text)


def _labels(reader: Reader, match: Object, path: str) -> tuple[Expression, ...]:
    found = expressions(reader, match, path)
    if not found:
        reader.say(path, "selects by no label")
    return found


def volcano_levels(reader: Reader, parent: Object, path: str) -> tuple[str | None, str | None]:
    """The required and the preferred level in a `networkTopology` of Volcano: hard keeps inside one HyperNode of the
    tier allowed or a lower one, and both take the lowest tier that there is room in."""
    if parent.get("networkTopology") is None:
        return None, None
    path = f"{path}.networkTopology"
    wish = reader.mapping(parent, "networkTopology", path)
    mode = reader.text(wish, "mode", f"{path}.mode") or "hard"
    if mode not in ("hard", "soft"):
        reader.note(f"{path}.mode", mode, "hard or soft")
    tier = reader.integer(wish, "highestTierAllowed", f"{path}.highestTierAllowed", 0, _MAX_TIER)
    name = reader.text(wish, "highestTierName", f"{path}.highestTierName")
    if name and tier is not None:
        reader.say(f"{path}.highestTierName", "highestTierAllowed is given too")
    if mode == "soft" or (not name and tier is None):  # without a limit there is nothing to be hard about
        return None, LOWEST
    return f"{TIER_NAMED}{name}" if name else f"{TIER}{tier}", LOWEST


def span_object(span: Span) -> dict[str, Any]:
    """What a group has of the network, from broad to narrow, and what it asked for."""
    asked = {"required": span.required, "preferred": span.preferred}
    got = {"level": span.level, "domain": "/".join(span.domain) if span.level is not None else None}
    found: dict[str, Any] = {name: value for name, value in {**asked, **got}.items() if value is not None}
    found["levels"] = [{"level": level, "domains": number} for level, number in span.domains]
    return found
