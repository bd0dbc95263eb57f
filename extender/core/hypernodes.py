"""Volcano's HyperNodes as levels: one for each tier, in which every node has the name of a HyperNode.

Takes HyperNode objects, gives per node what it is in and what of the objects was left out; must not know free room.

A node's domain at a tier is the broadest HyperNode of that tier or a lower one that it is in. So a tree whose tiers
have gaps, or whose branches end at different tiers, has paths without holes; a node that hangs only from a higher
tier is in no domain of the lower ones. Domains of one tier never overlap: who is claimed twice is of the first by
name, and the other's claim is left out, with a word. A member must be of a lower tier, so there are no cycles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from extender.core import matching
from extender.core.ids import NodeName
from extender.core.model import Expression, HyperNode, Members, Node
from extender.core.patterns import Pattern, PatternError

#: the level of a tier is this and the tier's number
TIER = "topology.volcano.sh/tier-"
#: the same by the name that HyperNodes give their tier
TIER_NAMED = "topology.volcano.sh/tier-name-"
#: the lowest tier that there is
LOWEST = "topology.volcano.sh/lowest-tier"
#: so many HyperNodes are read, by name, and so many tiers, the lowest
MAX_HYPERNODES = 20_000
MAX_TIERS = 16
#: so many patterns and label selectors: each may be tried on every node
MAX_SEARCHING = 5_000
#: so many problems are told
_TOLD = 200
#: of so many nodes it is remembered what they are in
_REMEMBERED = 100_000


class HyperNodes:
    """All HyperNodes that make sense. Never changed once made, but for what it remembers of nodes."""

    def __init__(self, objects: Iterable[HyperNode] = ()) -> None:
        #: what was left out, by the HyperNode that says it
        self.problems: dict[str, str] = {}
        taken = self._sound(sorted(objects, key=lambda one: one.name))
        self.tiers: tuple[int, ...] = tuple(sorted({one.tier for one in taken.values()}))
        self._tier_of = {name: one.tier for name, one in taken.items()}
        self._named: dict[str, int] = {}
        for one in taken.values():
            if one.tier_name and self._named.setdefault(one.tier_name, one.tier) != one.tier:
                self._say(one.name, f"tierName {one.tier_name} is the name of tier {self._named[one.tier_name]}")
        self._parent: dict[str, str] = {}
        self._by_name: dict[str, list[str]] = {}
        #: by one pair of labels that it asks for; None where it asks for no single value
        self._by_label: dict[tuple[str, str] | None, list[tuple[str, Sequence[Expression]]]] = {}
        self._by_pattern: list[tuple[str, Pattern]] = []
        self._searching = 0
        for one in taken.values():
            for members in one.members:
                self._read(one, members, taken)
        #: of each node the labels that it had and what it is in
        self._paths: dict[NodeName, tuple[Mapping[str, str], Mapping[int, str]]] = {}

    def __bool__(self) -> bool:
        return bool(self.tiers)

    # --- levels ---------------------------------------------------------------------------------

    def level(self, key: str) -> str:
        """The level of an existing tier that is meant by a key of ours; the key itself when none is meant or exists."""
        if key == LOWEST:
            return f"{TIER}{self.tiers[0]}" if self.tiers else key
        if key.startswith(TIER_NAMED):
            tier = self._named.get(key.removeprefix(TIER_NAMED))
            return key if tier is None else f"{TIER}{tier}"
        number = _number(key)
        lower = [tier for tier in self.tiers if number is not None and tier <= number]
        return f"{TIER}{lower[-1]}" if lower else key

    def chain(self) -> tuple[str, ...]:
        """The levels of all tiers, from broad to narrow."""
        return tuple(f"{TIER}{tier}" for tier in reversed(self.tiers))

    def value(self, key: str, node: Node) -> str | None:
        """The HyperNode that is the node's domain at a level of `chain`."""
        tier = _number(key)
        assert tier is not None, key
        found = None
        for at, name in self._path(node).items():
            if at <= tier:
                found = name
        return found

    def _path(self, node: Node) -> Mapping[int, str]:
        """The HyperNodes that the node is in, by tier, from narrow to broad."""
        labels, path = self._paths.get(node.name, (None, {}))
        if labels is not node.labels:
            path = self._find(node)
            if len(self._paths) >= _REMEMBERED:
                self._paths.clear()
            self._paths[node.name] = (node.labels, path)
        return path

    def _find(self, node: Node) -> dict[int, str]:
        claims = [*self._by_name.get(node.name, ())]
        claims += [name for name, pattern in self._by_pattern if pattern.matches(node.name)]
        for pair in (*node.labels.items(), None):
            for name, labels in self._by_label.get(pair, ()):
                if matching.selects(labels, node.labels):
                    claims.append(name)
        if not claims:
            return {}
        lowest = min(self._tier_of[name] for name in claims)
        at, *others = sorted({name for name in claims if self._tier_of[name] == lowest})
        for other in others:
            self._say(other, f"its node {node.name} is a member of {at} too")
        path = {}
        while True:
            path[self._tier_of[at]] = at
            if at not in self._parent:
                return path
            at = self._parent[at]

    # --- what the objects say -------------------------------------------------------------------

    def _sound(self, objects: Sequence[HyperNode]) -> dict[str, HyperNode]:
        """Those that are read at all."""
        for one in objects[MAX_HYPERNODES:]:
            self._say(one.name, f"more than {MAX_HYPERNODES} HyperNodes")
        taken = {one.name: one for one in objects[:MAX_HYPERNODES]}
        for name, one in list(taken.items()):
            if one.problems:
                self._say(name, one.problems[0])
                del taken[name]
        kept = sorted({one.tier for one in taken.values()})[:MAX_TIERS]
        for name, one in list(taken.items()):
            if one.tier not in kept:
                self._say(name, f"more than {MAX_TIERS} tiers")
                del taken[name]
        return taken

    def _read(self, one: HyperNode, members: Members, taken: Mapping[str, HyperNode]) -> None:
        pattern = self._pattern(one, members)
        if members.pattern and pattern is None:
            return
        if members.inner:
            names = [members.name] if pattern is None else [name for name in taken if pattern.matches(name)]
            for name in names:
                self._adopt(one, name, taken, exact=pattern is None)
        elif pattern is not None:
            self._by_pattern.append((one.name, pattern))
        elif members.name:
            self._by_name.setdefault(members.name, []).append(one.name)
        elif self._counts(one):
            pairs = [(e.key, e.values[0]) for e in members.labels if e.operator == "In" and len(e.values) == 1]
            self._by_label.setdefault(pairs[0] if pairs else None, []).append((one.name, members.labels))

    def _pattern(self, one: HyperNode, members: Members) -> Pattern | None:
        if not members.pattern or not self._counts(one):
            return None
        try:
            return Pattern(members.pattern)
        except PatternError as error:
            self._say(one.name, f"the pattern {members.pattern!r}: {error}")
            return None

    def _counts(self, one: HyperNode) -> bool:
        self._searching += 1
        if self._searching > MAX_SEARCHING:
            self._say(one.name, f"more than {MAX_SEARCHING} patterns and label selectors")
        return self._searching <= MAX_SEARCHING

    def _adopt(self, one: HyperNode, name: str, taken: Mapping[str, HyperNode], exact: bool) -> None:
        if name not in taken:
            self._say(one.name, f"its member {name} is no HyperNode that can be used")
        elif taken[name].tier >= one.tier:
            if exact or name != one.name:
                self._say(one.name, f"its member {name} is of tier {taken[name].tier}, which is not below its own")
        elif self._parent.setdefault(name, one.name) != one.name:
            self._say(one.name, f"its member {name} is a member of {self._parent[name]} too")

    def _say(self, name: str, what: str) -> None:
        if len(self.problems) < _TOLD:
            self.problems.setdefault(name, what)


def _number(key: str) -> int | None:
    text = key.removeprefix(TIER)
    return int(text) if key.startswith(TIER) and text.isascii() and text.isdigit() and len(text) < 10 else None
