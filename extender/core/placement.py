"""Where a group's pods go: all of them whole, or a refusal with the numbers that caused it.

Takes a room, demands and levels, gives rows of the node table per demand; must not use up the room nor
know groups, queues or time.

Required level: everything in one of its domains. Preferred level: the narrowest domain that holds all,
climbing from the preferred level towards the required one (or the whole cluster), and where several of
the narrower domains are needed, as few as possible. Among domains that fit, the one with least to spare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from extender.core import bundles, lone, packing, shortage
from extender.core.bundles import Bundle, Packer
from extender.core.cards import Cards
from extender.core.feasibility import Facts
from extender.core.hypernodes import LOWEST
from extender.core.ids import NO_TASK, TaskName
from extender.core.matching import Ints, Mask
from extender.core.model import Part, Shape, Shares
from extender.core.packing import Ask, Effort, Field
from extender.core.reasons import Reason, Refusal
from extender.core.resources import GPU
from extender.core.snapshot import Room
from extender.core.topology import CLIQUE, Domains, Keys

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
    #: the parts of the group that they all belong to, from broad to narrow
    within: tuple[Part, ...] = ()


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
    standing: Mapping[Part, Sequence[int]] = MappingProxyType({}),
) -> Placement | Refusal:
    """Place all demands whole, beside the members that stand on `fixed` rows already; those of a part on `standing`."""
    refused, asked = room.known.refused, None
    if not len(fixed) and all(demand.allowed is None for demand in demands):
        asked = (tuple((d.shape, d.count, d.task, d.within) for d in demands), required, preferred)
        if asked in refused:
            return refused[asked]
    found = _place(room, demands, _Where(fixed, required, preferred, standing))
    if asked is not None and isinstance(found, Refusal):
        if len(refused) >= _REFUSED:
            refused.clear()
        refused[asked] = found
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Where:
    """What is wished of the places: levels, and where members are already."""

    fixed: Sequence[int]
    required: str | None
    preferred: str | None
    standing: Mapping[Part, Sequence[int]]

    @property
    def anywhere(self) -> bool:
        return self.required is None and self.preferred is None

    def known(self, demands: Sequence[Demand], facts: Facts) -> _Where | Refusal:
        """The same in levels that exist."""
        preferred = self.preferred
        if preferred == LOWEST and not facts.knows_level(preferred):
            preferred = None  # there is but one domain: the whole cluster
        parts = {part.level for demand in demands for part in demand.within}
        for level in (self.required, preferred, *sorted(parts)):
            if level is not None and not facts.knows_level(level):
                return Refusal(Reason.TOPOLOGY, (("level", level), ("problem", "no topology has this level")))
        found = [None if level is None else facts.levels.level(level) for level in (self.required, preferred)]
        return replace(self, required=found[0], preferred=found[1])

    def by_default(self, demands: Sequence[Demand], facts: Facts) -> _Where:
        """The same, and several pods with GPUs that prefer nothing prefer one NVLink domain, where those span nodes."""
        if self.preferred is not None or sum(demand.count for demand in demands) + len(self.fixed) < 2:
            return self
        with_gpus = any(name == GPU for demand in demands for name, _ in demand.shape.request)
        return replace(self, preferred=CLIQUE) if with_gpus and facts.borne(CLIQUE) else self

    def simpler(self, demands: Sequence[Demand]) -> tuple[_Where, Sequence[Demand]]:
        """The same without a part to which all belong: its level is required of the whole group."""
        firsts = {demand.within[:1] for demand in demands if demand.count}
        if self.required is not None or len(firsts) != 1 or () in firsts:
            return self, demands
        [(part,)] = firsts
        if sorted(self.standing.get(part, ())) != sorted(self.fixed):
            return self, demands
        inner = [replace(demand, within=demand.within[1:]) for demand in demands]
        return replace(self, required=part.level), inner


def _place(room: Room, demands: Sequence[Demand], where: _Where) -> Placement | Refusal:
    where = where.by_default(demands, room.snapshot.facts)
    if where.anywhere and len(demands) == 1 and demands[0].count == 1 and not demands[0].within:
        return _place_lone(room, demands[0])
    where, demands = where.simpler(demands)
    known = where.known(demands, room.snapshot.facts)
    if isinstance(known, Refusal):
        return known
    asks = [_ask(room, demand) for demand in demands]
    if not any(ask.count for ask in asks):
        return Placement(tuple(demands), tuple(() for _ in demands))
    refusal = shortage.of_nodes(room, demands, asks)
    if refusal is not None:
        return refusal
    return _Planner(room, demands, asks, known).run()


def _ask(room: Room, demand: Demand) -> Ask:
    want = room.snapshot.want(demand.shape)
    mask = want.mask if demand.allowed is None else want.mask & demand.allowed
    return Ask(want, demand.count, mask)


def _place_lone(room: Room, demand: Demand) -> Placement | Refusal:
    """One pod anywhere, without the general machinery."""
    ask = _ask(room, demand)
    row = None if ask.want.unknown else lone.row(room, demand.shape, ask)
    if row is not None:
        shares = hand_out(room, (ask,), ((row,),), ((0,),))
        assert shares is not None, "a node that takes a pod has cards for it"
        return Placement((demand,), ((row,),), shares=shares)
    return shortage.of_nodes(room, (demand,), (ask,)) or shortage.of_room(room, (demand,), (ask,))


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
) -> tuple[tuple[Shares, ...], ...] | None:
    """Which shares of their nodes' cards these pods get; () where none asks for any.

    Where they were packed in one of these sequences, by the same rule, that one succeeds; None when none does.
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
    return None


def _given(cards: Cards, ask: Ask, rows: Sequence[int]) -> tuple[Shares, ...] | None:
    found: list[Shares] = []
    for row in rows:
        shares = cards.choose(row, ask.want.cards) if ask.want.cards is not None else ()
        if shares is None:
            return None
        cards.take(row, shares)
        found.append(shares)
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """A way to place everything on some rows: counts by row for each kind of pod, or with parts the demands' rows."""

    rows: Ints
    counts: Sequence[Ints]
    placed: Sequence[Sequence[int]] | None = None


class _Planner:
    """One call of `place` for a group."""

    def __init__(self, room: Room, demands: Sequence[Demand], asks: Sequence[Ask], where: _Where) -> None:
        self._room = room
        self._demands = demands
        self._fixed = where.fixed
        self._required = where.required
        self._facts = facts = room.snapshot.facts
        self._stages = _stages(facts, where.required, where.preferred)
        self._finest = facts.chain(where.preferred or where.required or _narrowest(demands))
        self._effort = Effort()
        self._bundles: Bundle | None = None
        self._own_asks = asks
        #: with parts, one for each kind of pod; what is true of them together is true of the demands
        self._asks = asks
        if any(demand.within for demand in demands):
            kinds = _kinds(demands)
            self._bundles, self._packer = self._gather(asks, kinds, where.standing)
            self._asks = _together(asks, kinds)
        self._capacities = [ask.capacity(room.free, ask.mask, room.cards) for ask in self._asks]

    def _gather(
        self, asks: Sequence[Ask], kinds: Sequence[int], standing: Mapping[Part, Sequence[int]]
    ) -> tuple[Bundle, Packer]:
        within = [demand.within for demand in self._demands]
        alike = [(kind, ask.count) for kind, ask in zip(kinds, asks, strict=True)]
        near = np.empty(len(self._room.free), dtype=np.int64)
        near[self._neighbours(np.arange(len(near)))] = np.arange(len(near))
        packer = Packer(self._room.free, self._room.cards, asks, kinds, near, self._effort)
        asked = [number for number, ask in enumerate(asks) if ask.count]
        return bundles.gather(asked, within, alike, self._facts, standing), packer

    def run(self) -> Placement | Refusal:
        counts_fit = [int(c.sum()) >= ask.count for c, ask in zip(self._capacities, self._asks, strict=True)]
        if not all(counts_fit):
            return self._short()
        for number, keys in enumerate(self._stages):
            domains = self._facts.domains(keys)
            for domain in self._candidates(domains):
                found = self._pack(domains.rows(domain), self._stages[:number])
                if found is not None:
                    return self._placement(found, keys, domains.paths[domain])
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

    def _pack(self, rows: Ints, finer: Sequence[Keys]) -> _Found | None:
        found = self._try(rows)
        if found is None:
            return None
        for keys in reversed(finer):
            found = self._fewest(found, self._facts.domains(keys))
        return found

    def _try(self, rows: Ints) -> _Found | None:
        if self._bundles is None:
            counts = packing.pack(self._field(rows), self._effort)
            return None if counts is None else _Found(rows, counts)
        placed = self._packer.pack(self._bundles, rows)
        if placed is None:
            return None
        used = np.bincount([row for places in placed for row in places], minlength=len(self._room.free))
        return _Found(rows, [used[rows]], placed)

    def _field(self, rows: Ints) -> Field:
        return Field(self._room.free, rows, self._asks, self._room.cards)

    def _fewest(self, found: _Found, domains: Domains) -> _Found:
        """The same placement, or a better one on as few of these domains as can be found."""
        parts = _Parts(found.rows, domains, self._capacities, self._asks, self._fixed)
        used = parts.used_by(found.counts)
        number = parts.least()
        for _ in range(_UNIONS):
            if number >= used:
                return found
            better = self._try(parts.rows_of(parts.order[:number]))
            if better is not None:
                return self._smaller_last(parts, number) or better
            number += 1
        return found

    def _smaller_last(self, parts: _Parts, number: int) -> _Found | None:
        """The same number of domains, the last one exchanged for the smallest that will do."""
        kept = parts.order[: number - 1]
        for last in parts.smallest_after(number)[:_SWAPS]:
            found = self._try(parts.rows_of(np.append(kept, last)))
            if found is not None:
                return found
        return None

    def _neighbours(self, rows: Ints) -> Ints:
        """The order in which rows of these follow each other along the network."""
        return np.lexsort((self._facts.roster.rank[rows], self._facts.domains(self._finest).ids[rows]))

    def _placement(self, found: _Found, keys: Keys, domain: tuple[str, ...]) -> Placement | Refusal:
        rows, room = found.rows, self._room
        if found.placed is not None:
            placed = tuple(map(tuple, found.placed))
        else:
            order = self._neighbours(rows)
            placed = tuple(tuple(np.repeat(rows[order], number[order]).tolist()) for number in found.counts)
        shares: tuple[tuple[Shares, ...], ...] = ()
        if room.cards is not None:
            sequences = packing.sequences(Field(room.free, rows, self._own_asks, room.cards))
            given = hand_out(room, self._own_asks, placed, sequences)
            if given is None:
                assert self._bundles is not None, "pods that were packed together have no cards together"
                return self._short()
            shares = given
        return Placement(tuple(self._demands), placed, keys, domain, shares)

    def _short(self) -> Refusal:
        """There is too little room, wherever it is."""
        return shortage.of_room(self._room, self._demands, self._own_asks)

    def _refusal(self) -> Refusal:
        room = self._room
        everything = self._facts.domains(()).rows(0)
        if packing.pack(self._field(everything), self._effort) is None:
            return self._short()
        if self._bundles is not None and (self._required is None or self._try(everything) is None):
            return Refusal(Reason.TOPOLOGY, bundles.failing(self._packer, self._bundles, everything))
        if self._required is None:
            return self._short()
        domains = self._facts.domains(self._stages[-1])
        home = _home(domains, self._fixed) if len(self._fixed) else None
        if len(self._fixed) and home is None:
            problem = "members that run are not in one domain"
            return Refusal(Reason.TOPOLOGY, (("level", self._required), ("problem", problem)))
        return shortage.of_domains(room, self._asks, self._capacities, domains, home)


def _narrowest(demands: Sequence[Demand]) -> str | None:
    return next((demand.within[-1].level for demand in demands if demand.within), None)


def _kinds(demands: Sequence[Demand]) -> list[int]:
    """Equal numbers for demands of equal pods that may go to the same nodes."""
    seen: dict[object, int] = {}
    looks = [(d.shape, None if d.allowed is None else d.allowed.tobytes()) for d in demands]
    return [seen.setdefault(look, len(seen)) for look in looks]


def _together(asks: Sequence[Ask], kinds: Sequence[int]) -> list[Ask]:
    """One ask for each kind, for as many pods as all demands of the kind are."""
    return [
        replace(next(ask for ask, k in zip(asks, kinds, strict=True) if k == kind), count=count)
        for kind in range(max(kinds) + 1)
        for count in [sum(ask.count for ask, k in zip(asks, kinds, strict=True) if k == kind)]
    ]


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
