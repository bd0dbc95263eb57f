"""Free room on every node at one moment, and scratch copies of it to plan on.

Takes the world and what is reserved, gives integer arrays (rows of the node table x resources); must not
choose anything. A snapshot never changes; a `Room` is the mutable copy of one cycle or one simulation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from extender.core import matching
from extender.core.cards import Cards
from extender.core.feasibility import Facts, Feasibility
from extender.core.ids import NodeName
from extender.core.link_table import Joined
from extender.core.matching import Ints, Mask
from extender.core.model import CardRequest, Shape, Shares
from extender.core.reasons import Refusal
from extender.core.resources import (
    CPU,
    GPU,
    GPU_SHARE,
    MEMORY,
    PER_CARD,
    PODS,
    Amounts,
    Columns,
    Row,
    exact_sum,
    parts_of,
)
from extender.core.workload import Typical
from extender.core.world import World

Matrix = npt.NDArray[np.int64]

#: resources that any node may have; every other one marks nodes that are worth keeping for who asks for it
_ORDINARY = (CPU, MEMORY, PODS, "ephemeral-storage")
_ORDINARY_PREFIXES = ("hugepages-", "attachable-volumes-")
#: added to the order of nodes that come last; above every amount that a node may have (resources.MAX_ON_NODE)
_LAST = 2**62
#: shapes kept in their read form
_WANTS = 1024
#: sums kept; each keeps a mask of all rows
_SUMS = 256


@dataclass(frozen=True, slots=True, eq=False)
class Want:
    """A shape in the columns of a snapshot."""

    request: Row
    #: rows that its constraints leave; shared, not to be changed
    mask: Mask
    #: what it asks for, as (column, amount)
    asked: tuple[tuple[int, int], ...]
    #: what it asks for that no node of this snapshot has ever offered
    unknown: tuple[tuple[str, int], ...]
    #: the column of which it asks the largest share of the cluster, and that share; pods count only when
    #: nothing else is asked for, since they limit and are not demanded
    dominant: int
    share: float
    #: added to the order of nodes, so that those with other extended resources come last; None: no such
    late: Ints | None
    #: what it asks of cards, where nodes publish them
    cards: CardRequest | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What was worked out of a room, as long as nothing is taken."""

    #: sums of what is free, by identity of the mask and resource; with the mask, so that the identity stays its own
    sums: dict[tuple[int, str], tuple[Mask, int]] = field(default_factory=dict)
    #: what was refused for want of room, by all that was asked
    refused: dict[object, Refusal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Free room at one moment. `free` may be negative: more is used than there is, so nothing fits."""

    columns: Columns
    facts: Facts
    free: Matrix
    allocatable: Matrix
    #: sums over all nodes; floats, for comparing shares only
    totals: npt.NDArray[np.float64]
    #: what is free of cards; None when no node publishes any. Shared: not to be changed
    cards: Cards | None = None
    #: typical pods, with how many there are of each
    workload: Typical = ()
    #: what pods without GPUs ask of CPU and memory beside them
    others: Amounts = ()
    #: how GPUs are joined; None when nothing is known of any
    links: Joined | None = None
    _lates: dict[frozenset[int], Ints | None] = field(default_factory=dict)
    _wants: dict[Shape, Want] = field(default_factory=dict)
    #: what is known of the rooms in which nothing runs
    emptied: Known = field(default_factory=Known)
    _mended: dict[str, Snapshot | None] = field(default_factory=dict)

    @classmethod
    def take(cls, world: World, feasibility: Feasibility, reserved: Matrix | None = None) -> Snapshot:
        """The room as the world shows it, less what is reserved (an array of any size like `used`)."""
        table, facts = world.nodes, feasibility.at(world)
        rows, width = table.shape
        # columns are contiguous, because all sums and comparisons go over many nodes of one resource
        allocatable = table.allocatable[:rows, :width].copy(order="F")
        free = allocatable.copy(order="F")
        free -= table.used[:rows, :width]
        if reserved is not None:
            part = reserved[:rows, :width]
            free[: part.shape[0], : part.shape[1]] -= part
        return cls(
            world.columns,
            facts,
            free,
            allocatable,
            allocatable.sum(axis=0, dtype=np.float64),
            table.cards.free(rows),
            world.workload.typical(),
            world.workload.others,
            table.links.joined(rows),
        )

    @property
    def names(self) -> tuple[NodeName | None, ...]:
        """Node names by row."""
        return self.facts.roster.names

    @property
    def row_of(self) -> dict[NodeName, int]:
        """Rows by node name."""
        return self.facts.roster.row_of

    def rows(self, names: Iterable[NodeName]) -> list[int]:
        """Rows of these nodes, in order and with repetitions; unknown names are left out."""
        row_of = self.row_of
        return [row_of[name] for name in names if name in row_of]

    def mended(self) -> Snapshot | None:
        """The room that there would be with all nodes and cards in use; None when all are."""
        if "" not in self._mended:
            ill = self.cards is not None and self.cards.roll.outage
            self._mended[""] = self._mend() if ill or self.facts.outage.any() else None
        return self._mended[""]

    def _mend(self) -> Snapshot:
        allocatable, cards, column = self.allocatable, None, self.columns.of(GPU)
        if self.cards is not None:
            cards = self.cards.mended()
            if column is not None and column < self.free.shape[1]:
                allocatable = allocatable.copy(order="F")
                slots = np.where(cards.there, cards.slots(len(allocatable)), 0)
                np.maximum(allocatable[:, column], slots, out=allocatable[:, column])
        free = self.free + (allocatable - self.allocatable)
        facts = self.facts.mended
        return Snapshot(
            self.columns, facts, free, allocatable, self.totals, cards, self.workload, self.others, self.links
        )

    def mask(self, names: Iterable[NodeName]) -> Mask:
        """These nodes as a mask of rows; unknown names are left out."""
        return matching.name_mask(self.row_of, len(self.free), names)

    def want(self, shape: Shape) -> Want:
        """The shape in this snapshot's columns."""
        want = self._wants.get(shape)
        if want is None:
            if len(self._wants) >= _WANTS:
                self._wants.clear()
            want = self._wants[shape] = self._read(shape)
        return want

    def _read(self, shape: Shape) -> Want:
        row, width = self.columns.row(shape.request), self.free.shape[1]
        asked, shares, unknown = [], [], []
        for name, amount in shape.request:
            if name == GPU_SHARE or (name in PER_CARD and self.cards is not None and shape.cards is not None):
                continue  # charged, or fitted on cards
            column = self.columns.of(name)
            if column is None or column >= width:
                unknown.append((name, amount))
            else:
                asked.append((column, amount))
                shares.append((self._share(column, amount), name != PODS, column))
        share, _, dominant = max(shares, key=lambda s: (s[1], s[0], -s[2]))
        return Want(
            request=row,
            mask=self.facts.mask(shape.constraints),
            asked=tuple(asked),
            unknown=tuple(unknown),
            dominant=dominant,
            share=share,
            late=self._late(frozenset(column for column, _ in asked)),
            cards=shape.cards if self.cards is not None else None,
        )

    def _share(self, column: int, amount: int) -> float:
        return amount / self.totals[column] if self.totals[column] > 0 else float("inf")

    def _late(self, requested: frozenset[int]) -> Ints | None:
        if requested not in self._lates:
            self._lates[requested] = self._find_late(requested)
        return self._lates[requested]

    def _find_late(self, requested: frozenset[int]) -> Ints | None:
        others = [
            column
            for column, name in enumerate(self.columns.names[: self.free.shape[1]])
            if column not in requested
            and name not in _ORDINARY
            and not name.startswith(_ORDINARY_PREFIXES)
            and self.totals[column] > 0
        ]
        if not others:
            return None
        return np.where((self.allocatable[:, others] > 0).any(axis=1), np.int64(_LAST), np.int64(0))


class Room:
    """Free room that is being used up: the scratch of one cycle, or of one simulation.

    `free` is changed by `take` and `give_back` only: what is known of a room is worked out once.
    """

    def __init__(
        self, snapshot: Snapshot, free: Matrix | None = None, known: Known | None = None, cards: Cards | None = None
    ) -> None:
        self.snapshot = snapshot
        self.free = (snapshot.free if free is None else free).copy(order="F")
        cards = snapshot.cards if cards is None else cards
        self.cards = cards.copy() if cards is not None else None
        #: shared by all rooms that are equal, until something is taken or given back
        self.known = Known() if known is None else known
        #: grows with each change of what is free
        self.changes = 0

    def copy(self) -> Room:
        """A scratch of its own, with what was taken here taken."""
        return Room(self.snapshot, self.free, self.known, self.cards)

    def emptied(self) -> Room:
        """The room that there would be if nothing ran."""
        cards = self.cards.emptied() if self.cards is not None else None
        return Room(self.snapshot, self.snapshot.allocatable, self.snapshot.emptied, cards)

    def mended(self) -> Room | None:
        """The room as it would be with all nodes and cards in use; None when all are."""
        whole = self.snapshot.mended()
        if whole is None:
            return None
        cards = self.cards.mended() if self.cards is not None else None
        return Room(whole, self.free + (whole.allocatable - self.snapshot.allocatable), cards=cards)

    def take(self, row: int, request: Row, count: int = 1) -> None:
        """Use up the room of `count` pods of this request on a node."""
        width = min(len(request), self.free.shape[1])
        self.free[row, :width] -= request[:width] * count
        self.known = Known()
        self.changes += 1

    def take_cards(self, row: int, shares: Shares, sign: int = 1) -> None:
        """Use up shares of a node's cards, or give them back (sign -1)."""
        if shares and self.cards is not None:
            self.cards.take(row, shares, sign)
            self.known = Known()
            self.changes += 1

    def give_back(self, row: int, request: Row, count: int = 1, shares: Shares = ()) -> None:
        """Undo `take`, or simulate the absence of pods that run there."""
        self.take(row, request, -count)
        self.take_cards(row, shares, -count)

    def overdrawn(self, row: int, columns: Iterable[int]) -> bool:
        """True when more is taken of a node than there is, in one of these columns or of its cards."""
        short = any(self.free[row, column] < 0 for column in columns)
        return short or (self.cards is not None and self.cards.overdrawn(row))

    def usable(self, resource: str) -> int:
        """What is free of a resource on the nodes that take any pod now."""
        return self.usable_on(self.snapshot.facts.open, resource)

    def usable_on(self, rows: Mask, resource: str) -> int:
        """What is free of a resource on these rows, which must not change after; of what cards have, any amount."""
        if resource == GPU_SHARE:
            parts = ((name, parts_of(name)) for name in self.snapshot.columns.names)
            return sum(number * self.usable_on(rows, name) for name, number in parts if number)
        if resource in PER_CARD and self.cards is not None:
            return _LAST
        sums = self.known.sums
        found = sums.get((id(rows), resource))
        if found is None:
            if len(sums) >= _SUMS:
                sums.clear()
            found = sums[id(rows), resource] = (rows, self._sum(rows, resource))
        return found[1]

    def _sum(self, rows: Mask, resource: str) -> int:
        column = self.snapshot.columns.of(resource)
        if column is None or column >= self.free.shape[1]:
            return 0
        return exact_sum(np.maximum(self.free[rows, column], 0))
