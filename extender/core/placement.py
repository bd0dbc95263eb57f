"""Where a group's pods go: all of them whole, or a refusal with the numbers that caused it.

Takes a room, demands and levels, gives rows of the node table per demand; must not use up the room nor
know groups, queues or time.

Required level: everything in one of its domains. Preferred level: the narrowest domain that holds all,
climbing from the preferred level towards the required one (or the whole cluster), and where several of
the narrower domains are needed, as few as possible. Among domains that fit, the one with least to spare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from extender.core import fragmentation, linking, packing, shortage
from extender.core.cards import Cards
from extender.core.feasibility import Facts
from extender.core.ids import NO_TASK, TaskName
from extender.core.matching import Ints, Mask
from extender.core.model import Shape, Shares
from extender.core.packing import Ask, Effort, Field
from extender.core.reasons import Reason, Refusal
from extender.core.snapshot import Room, Want
from extender.core.topology import Domains, Keys

#: how many unions of sub-domains, and how many smaller last ones, are tried for as few as possible
_UNIONS = 6
_SWAPS = 3
#: refusals that are kept of a room, for others that ask for the same
_REFUSED = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """So many equal pods. `allowed` masks the rows on which they may go (from an offered list)."""

    shape: Shape
    count: int
    task: TaskName = NO_TASK
    allowed: Mask | None = None
    #: name of one of the pods, "" when none exists yet
    member: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Rows for each demand, one for each of its pods, ordered so that neighbours stand together."""

    demands: tuple[Demand, ...]
    rows: tuple[tuple[int, ...], ...]
    #: the narrowest domain known to hold all of them; () is the whole cluster
    keys: Keys = ()
    domain: tuple[str, ...] = ()
    #: what each pod gets of its node's cards, as `rows`; () where no demand asks for cards
    shares: tuple[tuple[Shares, ...], ...] = ()

    def take(self, room: Room) -> None:
        """Use up what this placement needs."""
        for demand, rows in zip(self.demands, self.rows, strict=True):
            request = room.snapshot.want(demand.shape).request
            for row, count in Counter(rows).items():
                room.take(row, request, count)
        for rows, shares in zip(self.rows, self.shares, strict=False):
            for row, share in zip(rows, shares, strict=True):
                room.take_cards(row, share)

    def shares_of(self, demand: int) -> tuple[Shares, ...]:
        """What each pod of a demand gets of cards."""
        return self.shares[demand] if self.shares else ((),) * len(self.rows[demand])


def place(
    room: Room,
    demands: Sequence[Demand],
    *,
    fixed: Sequence[int] = (),
    required: str | None = None,
    preferred: str | None = None,
) -> Placement | Refusal:
    """Place all demands whole, beside the members that stand on `fixed` rows already."""
    refused, asked = room.known.refused, None
    if not len(fixed) and all(demand.allowed is None for demand in demands):
        asked = (tuple((demand.shape, demand.count, demand.task) for demand in demands), required, preferred)
        if asked in refused:
            return refused[asked]
    found = _place(room, demands, fixed, required, preferred)
    if asked is not None and isinstance(found, Refusal):
        if len(refused) >= _REFUSED:
            refused.clear()
        refused[asked] = found
    return found


def _place(
    room: Room, demands: Sequence[Demand], fixed: Sequence[int], required: str | None, preferred: str | None
) -> Placement | Refusal:
    if required is None and preferred is None and len(demands) == 1 and demands[0].count == 1:
        return _place_lone(room, demands[0])
    facts = room.snapshot.facts
    for level in (required, preferred):
        if level is not None and not facts.knows_level(level):
            return Refusal(Reason.TOPOLOGY, (("level", level), ("problem", "no topology has this level")))
    asks = [_ask(room, demand) for demand in demands]
    if not any(ask.count for ask in asks):
        return Placement(tuple(demands), tuple(() for _ in demands))
    refusal = shortage.of_nodes(room, demands, asks)
    if refusal is not None:
        return refusal
    return _Planner(room, demands, asks, fixed, required, preferred).run()


def _ask(room: Room, demand: Demand) -> Ask:
    want = room.snapshot.want(demand.shape)
    mask = want.mask if demand.allowed is None else want.mask & demand.allowed
    return Ask(want, demand.count, mask)


def _place_lone(room: Room, demand: Demand) -> Placement | Refusal:
    """One pod anywhere, by the orders of `_lone`, without the general machinery."""
    ask = _ask(room, demand)
    row = None if ask.want.unknown else _lone(room, demand.shape, ask)
    if row is not None:
        shares = hand_out(room, (ask,), ((row,),), ((0,),))
        return Placement((demand,), ((row,),), shares=shares)
    return shortage.of_nodes(room, (demand,), (ask,)) or shortage.of_room(room, (demand,), (ask,))


def _late(room: Room, shape: Shape, want: Want, rows: Ints) -> Ints | None:
    return None if want.late is None else want.late[rows]


def _free(room: Room, shape: Shape, want: Want, rows: Ints) -> Ints:
    free: Ints = room.free[rows, want.dominant]
    return free


#: by what one pod chooses among nodes on which it fits, the smallest first, each among the equals of those before:
#: nodes worth keeping for others come last, then GPUs that are badly joined, fragments, links cut, room to spare
_ORDERS: tuple[Callable[[Room, Shape, Want, Ints], npt.NDArray[Any] | None], ...] = (
    _late,
    linking.worst,
    fragmentation.growth,
    linking.cut,
    _free,
)


def _lone(room: Room, shape: Shape, ask: Ask) -> int | None:
    free, want, fits = room.free, ask.want, ask.mask
    for column, amount in want.asked:
        fits = fits & (free[:, column] >= amount)
    if want.cards is not None:
        fits = fits & (packing.card_capacity(want.cards, room.cards, 1) > 0)
    rows = fits.nonzero()[0]
    if not len(rows):
        return None
    for order in _ORDERS:
        if len(rows) > 1 and (key := order(room, shape, want, rows)) is not None:
            rows = rows[key == key.min()]
    return int(rows[room.snapshot.facts.roster.rank[rows].argmin()])


def _home(domains: Domains, fixed: Sequence[int]) -> int | None:
    """The one domain that holds all these rows; None when there is no such."""
    ids = np.unique(domains.ids[list(fixed)])
    return int(ids[0]) if len(ids) == 1 and ids[0] >= 0 else None


def _stages(facts: Facts, required: str | None, preferred: str | None) -> list[Keys]:
    """Paths of the levels to try, narrow to broad; the last is the required level or the whole cluster."""
    outer = facts.path(required) if required is not None else ()
    inner = facts.path(preferred) if preferred is not None else ()
    if preferred in outer:
        return [outer]  # one domain of the required level is one of the preferred level too
    if inner[: len(outer)] != outer:  # levels of two topologies: domains are where both agree
        inner = outer + inner
    return [inner[:end] for end in range(len(inner), len(outer), -1)] + [outer]


def hand_out(
    room: Room, asks: Sequence[Ask], placed: Sequence[Sequence[int]], sequences: Iterable[Sequence[int]]
) -> tuple[tuple[Shares, ...], ...]:
    """Which shares of their nodes' cards these pods get; () where none asks for any.

    They were packed in one of these sequences, by the same rule, so one of them succeeds.
    """
    if room.cards is None or all(ask.want.cards is None for ask in asks):
        return ()
    for sequence in sequences:
        cards = room.cards.copy()
        given: list[tuple[Shares, ...]] = [()] * len(asks)
        for which in sequence:
            shares = _given(cards, asks[which], placed[which])
            if shares is None:
                break
            given[which] = shares
        else:
            return tuple(given)
    raise AssertionError("pods that were packed together have no cards together")


def _given(cards: Cards, ask: Ask, rows: Sequence[int]) -> tuple[Shares, ...] | None:
    found: list[Shares] = []
    for row in rows:
        shares = cards.choose(row, ask.want.cards) if ask.want.cards is not None else ()
        if shares is None:
            return None
        cards.take(row, shares)
        found.append(shares)
    return tuple(found)


class _Planner:
    """One call of `place` for a group."""

    def __init__(
        self,
        room: Room,
        demands: Sequence[Demand],
        asks: Sequence[Ask],
        fixed: Sequence[int],
        required: str | None,
        preferred: str | None,
    ) -> None:
        self._room = room
        self._demands = demands
        self._asks = asks
        self._fixed = fixed
        self._required = required
        self._facts = room.snapshot.facts
        self._stages = _stages(self._facts, required, preferred)
        self._finest = self._facts.chain(preferred or required)
        self._capacities = [ask.capacity(room.free, ask.mask, room.cards) for ask in asks]
        self._effort = Effort()

    def run(self) -> Placement | Refusal:
        counts_fit = [int(c.sum()) >= ask.count for c, ask in zip(self._capacities, self._asks, strict=True)]
        if not all(counts_fit):
            return shortage.of_room(self._room, self._demands, self._asks)
        for number, keys in enumerate(self._stages):
            domains = self._facts.domains(keys)
            for domain in self._candidates(domains):
                found = self._pack(domains.rows(domain), self._stages[:number])
                if found is not None:
                    return self._placement(*found, keys, domains.paths[domain])
        return self._refusal()

    def _candidates(self, domains: Domains) -> Iterator[int]:
        """Domains that may hold everything, those with least to spare first."""
        possible = np.ones(len(domains.paths), dtype=bool)
        for capacity, ask in zip(self._capacities, self._asks, strict=True):
            possible &= domains.sums(capacity) >= ask.count
        if len(self._fixed) and domains.keys:
            home = _home(domains, self._fixed)
            possible &= np.arange(len(possible)) == (-1 if home is None else home)
        numbers = np.flatnonzero(possible)
        if len(numbers) > 1:
            numbers = numbers[np.argsort(domains.sums(self._spare())[numbers], kind="stable")]
        yield from numbers.tolist()

    def _spare(self) -> npt.NDArray[np.float64]:
        """Free room per row in the resource of which the group asks the largest share."""
        asked: dict[int, float] = {}
        for ask in self._asks:
            share = ask.want.share * ask.count
            asked[ask.want.dominant] = asked.get(ask.want.dominant, 0.0) + share
        dominant = max(asked, key=lambda column: (asked[column], -column))
        usable = np.logical_or.reduce([ask.mask for ask in self._asks])
        return np.where(usable, np.maximum(self._room.free[:, dominant], 0), 0).astype(np.float64)

    def _pack(self, rows: Ints, finer: Sequence[Keys]) -> tuple[Ints, list[Ints]] | None:
        counts = self._try(rows)
        if counts is None:
            return None
        for keys in reversed(finer):
            rows, counts = self._fewest(rows, counts, self._facts.domains(keys))
        return rows, counts

    def _try(self, rows: Ints) -> list[Ints] | None:
        return packing.pack(self._field(rows), self._effort)

    def _field(self, rows: Ints) -> Field:
        return Field(self._room.free, rows, self._asks, self._room.cards)

    def _fewest(self, rows: Ints, counts: list[Ints], domains: Domains) -> tuple[Ints, list[Ints]]:
        """The same placement, or a better one on as few of these domains as can be found."""
        parts = _Parts(rows, domains, self._capacities, self._asks, self._fixed)
        used = parts.used_by(counts)
        number = parts.least()
        for _ in range(_UNIONS):
            if number >= used:
                return rows, counts
            inside = parts.rows_of(parts.order[:number])
            found = self._try(inside)
            if found is not None:
                return self._smaller_last(parts, number) or (inside, found)
            number += 1
        return rows, counts

    def _smaller_last(self, parts: _Parts, number: int) -> tuple[Ints, list[Ints]] | None:
        """The same number of domains, the last one exchanged for the smallest that will do."""
        kept = parts.order[: number - 1]
        for last in parts.smallest_after(number)[:_SWAPS]:
            inside = parts.rows_of(np.append(kept, last))
            found = self._try(inside)
            if found is not None:
                return inside, found
        return None

    def _placement(self, rows: Ints, counts: list[Ints], keys: Keys, domain: tuple[str, ...]) -> Placement:
        ids = self._facts.domains(self._finest).ids
        neighbours = np.lexsort((self._facts.roster.rank[rows], ids[rows]))
        placed = tuple(tuple(np.repeat(rows[neighbours], number[neighbours]).tolist()) for number in counts)
        shares: tuple[tuple[Shares, ...], ...] = ()
        if self._room.cards is not None:
            shares = hand_out(self._room, self._asks, placed, packing.sequences(self._field(rows)))
        return Placement(tuple(self._demands), placed, keys, domain, shares)

    def _refusal(self) -> Refusal:
        room, demands, asks = self._room, self._demands, self._asks
        everything = self._facts.domains(())
        if self._required is None or self._try(everything.rows(0)) is None:
            return shortage.of_room(room, demands, asks)
        domains = self._facts.domains(self._stages[-1])
        home = _home(domains, self._fixed) if len(self._fixed) else None
        if len(self._fixed) and home is None:
            problem = "members that run are not in one domain"
            return Refusal(Reason.TOPOLOGY, (("level", self._required), ("problem", problem)))
        return shortage.of_domains(room, asks, self._capacities, domains, home)


class _Parts:
    """The sub-domains among some rows, in the order in which they are taken: those where the group already
    is, then those that hold most of it. A node without the label is a part of its own."""

    def __init__(
        self,
        rows: Ints,
        domains: Domains,
        capacities: Sequence[Ints],
        asks: Sequence[Ask],
        fixed: Sequence[int],
    ) -> None:
        self._rows = rows
        self._asks = asks
        ids = domains.ids[rows]
        lone = ids < 0
        ids[lone] = len(domains.paths) + np.flatnonzero(lone)
        numbers, self._part = np.unique(ids, return_inverse=True)
        self._sums = np.stack([np.bincount(self._part, weights=c[rows], minlength=len(numbers)) for c in capacities])
        self._wanted = np.array([[ask.count] for ask in asks])
        self._members = np.minimum(self._sums, self._wanted).sum(axis=0)
        home = np.isin(numbers, domains.ids[list(fixed)])
        self.order: Ints = np.lexsort((np.arange(len(numbers)), -self._members, ~home))

    def least(self) -> int:
        """No fewer parts than this can do, in this order."""
        reached = (np.cumsum(self._sums[:, self.order], axis=1) >= self._wanted).all(axis=0)
        return int(reached.argmax()) + 1

    def used_by(self, counts: Sequence[Ints]) -> int:
        """In how many parts these counts are."""
        return len(np.unique(self._part[np.add.reduce(counts) > 0]))

    def rows_of(self, parts: Ints) -> Ints:
        """The rows of these parts, by node name as before."""
        return self._rows[np.isin(self._part, parts)]

    def smallest_after(self, number: int) -> list[int]:
        """Smaller parts that could stand for the last of so many, the smallest first."""
        others = self._wanted - self._sums[:, self.order[: number - 1]].sum(axis=1, keepdims=True)
        after = self.order[number:]
        after = after[np.lexsort((after, self._members[after]))]
        smaller = self._members[after] < self._members[self.order[number - 1]]
        enough = smaller & (self._sums[:, after] >= others).all(axis=0)
        return [int(part) for part in after[enough]]
