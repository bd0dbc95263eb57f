"""What constraints and levels look at of the nodes, kept from cycle to cycle.

Takes the world's node table with its log of touched rows, and its topologies; gives masks of rows for
constraints and domains for levels. Must not look at free room.

`Facts` is one version and never changes, but for what it derives on demand, so a snapshot may keep it
while the world goes on. `Feasibility` makes the next version by reading the touched rows only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from extender.core import matching, topology
from extender.core.ids import NodeName
from extender.core.matching import Coded, Ints, Keeping, Mask
from extender.core.model import Constraints, Node
from extender.core.topology import Domains, Keys, Levels
from extender.core.world import World

#: what is kept in each version of masks, label columns and domains; pods may name any number of selectors,
#: labels and levels, and what comes back after so many others is derived again
_MASKS, _LABELS, _DOMAINS = 1024, 256, 64

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, eq=False)
class Roster:
    """Which rows are nodes, and the order of their names."""

    names: tuple[NodeName | None, ...]
    row_of: dict[NodeName, int]
    alive: Mask
    #: rows that are nodes, by name
    order: Ints
    #: place of each row in that order; rows that are no nodes come last
    rank: Ints

    @classmethod
    def of(cls, names: Sequence[NodeName | None]) -> Roster:
        """The roster of these names by row."""
        row_of = {name: row for row, name in enumerate(names) if name is not None}
        order = np.array([row_of[name] for name in sorted(row_of)], dtype=np.int64)
        rank = np.full(len(names), len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        alive = np.zeros(len(names), dtype=bool)
        alive[order] = True
        return cls(tuple(names), row_of, alive, order, rank)


class Facts:
    """One version of what constraints and levels look at, by row of the node table."""

    def __init__(
        self,
        nodes: tuple[Node | None, ...],
        roster: Roster,
        takes: Mask,
        taints: Coded[Keeping],
        labels: dict[str, Coded[str]],
        levels: Levels,
        derived: dict[str, Coded[str]],
    ) -> None:
        self.nodes = nodes
        self.roster = roster
        self.taints = taints
        self.levels = levels
        #: rows that are nodes, ready, not refusing, and not being cut anew
        self.takes = takes
        self._open: Mask | None = None
        self._outage: Mask | None = None
        self._mended: Facts | None = None
        self._labels = labels
        self._derived = derived
        self._masks: dict[Constraints, Mask] = {}
        self._unions: dict[frozenset[Constraints], Mask] = {}
        self._domains: dict[Keys, Domains] = {}
        self._chains: dict[str | None, Keys] = {}
        #: what others worked out of this version, under names of theirs
        self.kept: dict[object, tuple[object, ...]] = {}

    @property
    def open(self) -> Mask:
        """Rows of nodes that are ready and not cordoned. Shared: not to be changed."""
        if self._open is None:
            cordoned = np.array([node is not None and node.unschedulable for node in self.nodes], dtype=bool)
            self._open = self.takes & ~cordoned
        return self._open

    @property
    def outage(self) -> Mask:
        """Rows of nodes that are out of use: not ready, cordoned, refusing, being cut anew, or tainted so. Shared."""
        if self._outage is None:
            kept = self.taints.where(lambda keeping: matching.mended(keeping) != keeping)
            self._outage = self.roster.alive & (~self.takes | kept)
        return self._outage

    @property
    def mended(self) -> Facts:
        """The same nodes with all of them in use."""
        if self._mended is None:
            rows = np.flatnonzero(self.outage).tolist()
            keeping = [matching.mended((node.taints, False)) for row in rows if (node := self.nodes[row]) is not None]
            taints = self.taints.changed(len(self.nodes), rows, keeping)
            alive = self.roster.alive
            columns = (self._labels.copy(), self.levels, self._derived.copy())
            self._mended = Facts(self.nodes, self.roster, alive, taints, *columns)
        return self._mended

    def mask(self, constraints: Constraints) -> Mask:
        """Rows of nodes that a pod with these constraints accepts. The mask is shared: not to be changed."""
        mask = self._masks.get(constraints)
        if mask is None:
            mask = matching.accepted(constraints, self)
            _keep(self._masks, constraints, mask, _MASKS)
        return mask

    def open_to(self, any_of: frozenset[Constraints]) -> Mask:
        """Open rows that a pod with one of these constraints accepts. The mask is shared: not to be changed."""
        mask = self._unions.get(any_of)
        if mask is None:
            mask = np.logical_or.reduce([self.mask(constraints) for constraints in any_of]) & self.open
            _keep(self._unions, any_of, mask, _MASKS)
        return mask

    def domains(self, keys: Keys) -> Domains:
        """Domains of a path of levels; for () there is one, the whole cluster."""
        found = self._domains.get(keys)
        if found is None:
            columns = [(column.codes, column.values) for column in map(self.level, keys)]
            found = topology.domains(keys, columns, self.roster.rank, self.roster.order)
            _keep(self._domains, keys, found, _DOMAINS)
        return found

    def level(self, key: str) -> Coded[str]:
        """What each row has for a level: a label of its node, or what the topology says of the node."""
        if self.levels.derived(key) is None:
            return self.label(key)
        column = self._derived.get(key)
        if column is None:
            column = Coded.of(self._values(key, self.nodes))
            _keep(self._derived, key, column, _DOMAINS)
        return column

    def _values(self, key: str, nodes: Iterable[Node | None]) -> list[str | None]:
        value = self.levels.derived(key)
        if value is None:
            return _labels(nodes, key)
        return [value(node) if node is not None else None for node in nodes]

    def knows_level(self, level: str) -> bool:
        """True when a Topology has the level or a node bears a label of that key."""
        level = self.levels.level(level)
        return self.levels.declared(level) or self.borne(level)

    def borne(self, key: str) -> bool:
        """True when a node bears a label of this key."""
        return bool(self.label(key).present.any())

    def chain(self, level: str | None) -> Keys:
        """All levels of the topology that contains this one; of the first one for None."""
        found = self._chains.get(level)
        if found is None:
            found = self.levels.chain(level, self.borne)
            _keep(self._chains, level, found, _DOMAINS)
        return found

    def path(self, level: str) -> Keys:
        """The levels from the broadest to this one."""
        level = self.levels.level(level)
        chain = self.chain(level)
        return chain[: chain.index(level) + 1]

    def label(self, key: str) -> Coded[str]:
        """The column of a label, read from the nodes at first use."""
        column = self._labels.get(key)
        if column is None:
            column = Coded.of(_labels(self.nodes, key))
            _keep(self._labels, key, column, _LABELS)
        return column

    def named(self, name: str) -> Mask:
        """The row of the node of this name; nothing when there is none."""
        return matching.name_mask(self.roster.row_of, len(self.nodes), (name,))

    def after(self, nodes: tuple[Node | None, ...], rows: Iterable[int]) -> Facts:
        """The next version, in which these rows are otherwise; new rows must be among them."""
        changed = sorted(set(rows))
        news = [nodes[row] for row in changed]
        takes = np.zeros(len(nodes), dtype=bool)
        takes[: len(self.takes)] = self.takes
        takes[changed] = [node is not None and _takes(node) for node in news]
        found = Facts(
            nodes,
            self._roster_after(nodes, changed),
            takes,
            self.taints.changed(len(nodes), changed, _taints(news)),
            {
                key: column.changed(len(nodes), changed, _labels(news, key))
                for key, column in self._labels.items()
                if not column.stale
            },
            self.levels,
            {
                key: column.changed(len(nodes), changed, self._values(key, news))
                for key, column in self._derived.items()
            },
        )
        if found.roster is self.roster:
            found._domains = {keys: one for keys, one in self._domains.items() if self._same(keys, nodes, changed)}
        return found

    def _same(self, keys: Keys, nodes: tuple[Node | None, ...], rows: Iterable[int]) -> bool:
        """True when these rows are in the same domains as before."""
        for key in keys:
            before, now = (self._values(key, [version[row] for row in rows]) for version in (self.nodes, nodes))
            if before != now:
                return False
        return True

    def _roster_after(self, nodes: tuple[Node | None, ...], rows: list[int]) -> Roster:
        names = self.roster.names
        if len(nodes) == len(names):
            news = [nodes[row] for row in rows]
            if [node and node.name for node in news] == [names[row] for row in rows]:
                return self.roster
        return Roster.of([node.name if node is not None else None for node in nodes])

    def under(self, levels: Levels) -> Facts:
        """The same nodes under other topologies."""
        return Facts(self.nodes, self.roster, self.takes, self.taints, self._labels.copy(), levels, {})


def _takes(node: Node) -> bool:
    return node.ready and not node.refusing and not node.mig_state


def _keep(cache: dict[K, V], key: K, value: V, most: int) -> None:
    if len(cache) >= most:
        cache.clear()
    cache[key] = value


# These run over all nodes when Muster starts, so they spend no call on each node.


def _taints(nodes: Iterable[Node | None]) -> list[Keeping | None]:
    return [(node.taints, node.unschedulable) if node is not None else None for node in nodes]


def _labels(nodes: Iterable[Node | None], key: str) -> list[str | None]:
    return [node.labels.get(key) if node is not None else None for node in nodes]


class Feasibility:
    """Keeps the newest version of the facts of one world. Owned by the engine, across its cycles."""

    def __init__(self) -> None:
        self._facts = Facts((), Roster.of(()), np.zeros(0, dtype=bool), Coded.of(()), {}, Levels(), {})
        self._read = 0
        self._levels_changed = 0

    def at(self, world: World) -> Facts:
        """The facts as they are now; the same object as before when nothing changed."""
        nodes = world.nodes
        if self._read < nodes.touches:
            self._facts = self._facts.after(tuple(nodes.nodes), nodes.touched_since(self._read))
            self._read = nodes.touches
        if self._levels_changed != world.levels_changed:
            self._levels_changed = world.levels_changed
            self._facts = self._facts.under(Levels(world.topologies.values(), world.hypernodes.values()))
        return self._facts
