"""Pods that must stand in one domain of a level, beside others that must stand in one of theirs, packed whole.

Takes demands that name their parts, and free room; gives rows for each pod of each demand, or None. Must not choose
the domain of the group, nor use up the room.

A bundle is what must be in one domain: demands, and bundles inside it. Equal bundles are told apart by nothing but
their order, so how many of them go into each domain is all there is to decide: the domain that just takes all that
are left comes first, else the one that takes most. For one kind of equal pods that is exact, and the fewest domains.
Kinds that compete are placed the hardest first; where that fails in a small case, all choices are searched.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from extender.core import packing
from extender.core.cards import Cards
from extender.core.feasibility import Facts
from extender.core.matching import Ints
from extender.core.model import Part
from extender.core.packing import Ask, Effort, Field
from extender.core.reasons import Detail
from extender.core.snapshot import Matrix
from extender.core.topology import Domains

#: of more demands or nodes, or more ways to put bundles into domains, not all are searched
_SEARCHED_DEMANDS = 12
_SEARCHED_ROWS = 32
_SEARCHED_WAYS = 300
#: no domain: members of a part that run stand in several
NOWHERE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """Demands by number, and bundles, that go into one domain; without a level (the whole group) anywhere."""

    part: Part | None
    domains: Domains | None
    #: the domain where some of it stands already, or NOWHERE; None: it may have any
    home: int | None
    loose: tuple[int, ...]
    inner: tuple[Bundle, ...]
    #: equal for bundles that are alike: what each asks for, and where
    look: tuple[object, ...]

    @property
    def demands(self) -> Iterator[int]:
        """All its demands; those of equal bundles correspond to each other."""
        yield from self.loose
        for bundle in self.inner:
            yield from bundle.demands


def gather(
    asked: Iterable[int],
    within: Sequence[tuple[Part, ...]],
    alike: Sequence[object],
    facts: Facts,
    standing: Mapping[Part, Iterable[int]],
) -> Bundle:
    """The bundle of the whole group, of the demands `asked`. `within`: the parts of each demand; `alike`: equal for
    demands of equal pods and counts; `standing`: rows on which members of a part are already."""
    return _gather(None, asked, 0, within, alike, facts, standing)


def _gather(
    part: Part | None,
    demands: Iterable[int],
    depth: int,
    within: Sequence[tuple[Part, ...]],
    alike: Sequence[object],
    facts: Facts,
    standing: Mapping[Part, Iterable[int]],
) -> Bundle:
    loose: list[int] = []
    inner: dict[Part, list[int]] = {}
    for demand in demands:
        if len(within[demand]) > depth:
            inner.setdefault(within[demand][depth], []).append(demand)
        else:
            loose.append(demand)
    loose.sort(key=lambda demand: repr(alike[demand]))
    bundles = [_gather(p, ds, depth + 1, within, alike, facts, standing) for p, ds in inner.items()]
    bundles.sort(key=lambda bundle: repr(bundle.look))  # a stable sort: equal ones stay in the order of their demands
    domains, home = None, None
    if part is not None:
        domains = facts.domains(facts.path(part.level))
        there = {int(domains.ids[row]) for row in standing.get(part, ())}
        if there:
            home = min(there) if len(there) == 1 else NOWHERE
    keys = domains.keys if domains is not None else ()
    look = (keys, home, tuple(alike[demand] for demand in loose), tuple(bundle.look for bundle in bundles))
    return Bundle(part, domains, home, tuple(loose), tuple(bundles), look)


@dataclass(frozen=True, slots=True, eq=False)
class Areas:
    """The domains that a bundle may have, as far as they are among some rows; neighbouring ones follow each other."""

    #: domain by domain, by node name inside
    rows: Ints
    starts: Ints

    @classmethod
    def of(cls, bundle: Bundle, rows: Ints) -> Areas:
        """Those of this bundle among these rows."""
        assert bundle.domains is not None, "only the whole group has no level"
        ids = bundle.domains.ids[rows]
        inside = ids >= 0 if bundle.home is None else (ids >= 0) & (ids == bundle.home)
        ids = ids[inside]
        order = np.argsort(ids, kind="stable")
        starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
        return cls(rows[inside][order], starts)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, number: int) -> Ints:
        end = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.rows)
        return self.rows[self.starts[number] : end]

    def sums(self, values: Ints) -> Ints:
        """The sum of a value per row for each area."""
        return np.add.reduceat(values, self.starts) if len(self.starts) else values[:0]


#: rows for each pod of each demand
Rows = list[list[int]]


class Packer:
    """Packs one group's bundles. `asks` are those of the demands; `near` numbers rows so that neighbours follow each
    other."""

    def __init__(
        self, free: Matrix, cards: Cards | None, asks: Sequence[Ask], kinds: Sequence[int], near: Ints, effort: Effort
    ) -> None:
        """`kinds`: equal numbers for demands of equal pods."""
        self._free = free
        self._cards = cards
        self._asks = asks
        self._kinds = kinds
        self._near = near
        self._effort = effort
        self._placed: dict[int, list[int]] = {}

    def pack(self, root: Bundle, rows: Ints) -> Rows | None:
        """Rows for all demands, among these, which are ordered by node name; None when no way was found."""
        whole, cards = self._free, self._cards
        for loose_first in (False, True):
            self._free, self._placed = whole.copy(order="F"), {}
            self._cards = cards.copy() if cards is not None else None
            done = self._inside([root], rows, loose_first)
            found, self._free, self._cards = self._placed, whole, cards
            if done:
                return [found.get(demand, []) for demand in range(len(self._asks))]
            if not root.loose:
                break
        return self._search(root, rows)

    # --- one after the other --------------------------------------------------------------------

    def _inside(self, copies: Sequence[Bundle], rows: Ints, loose_first: bool) -> bool:
        """Place what these consist of within these rows, which are a domain of theirs; all of it, or nothing."""
        loose = [demand for copy in copies for demand in copy.loose]
        if self._effort.fillings < 0:
            return False
        if self._cards is None and not any(copy.inner for copy in copies):
            return self._loose(loose, rows)
        before = (self._free[rows], self._cards.copy() if self._cards is not None else None, self._placed.copy())
        classes: dict[tuple[object, ...], list[Bundle]] = {}
        for bundle in itertools.chain.from_iterable(copy.inner for copy in copies):
            classes.setdefault(bundle.look, []).append(bundle)
        hardest = sorted(classes.values(), key=lambda alike: (alike[0].home is None, -self._share(alike[0])))
        if (
            (not loose_first or self._loose(loose, rows))
            and all(self._spread(alike, rows, loose_first) for alike in hardest)
            and (loose_first or self._loose(loose, rows))
        ):
            return True
        self._free[rows], self._cards, self._placed = before
        return False

    def _share(self, bundle: Bundle) -> float:
        return sum(self._asks[demand].want.share * self._asks[demand].count for demand in bundle.demands)

    def _spread(self, copies: Sequence[Bundle], rows: Ints, loose_first: bool) -> bool:
        """Each of these equal bundles into a domain of their level."""
        areas = Areas.of(copies[0], rows)
        takes, spare = self._takes(copies, areas)
        # by how many they take, and those with least to spare last among equals
        order = np.lexsort((-np.arange(len(takes)), -spare, takes))
        order = order[takes[order] > 0]
        numbers, most = order.tolist(), takes[order].tolist()
        went: list[tuple[int, Bundle]] = []
        left = list(copies)
        while left:
            if not numbers:
                return False
            enough = bisect.bisect_left(most, len(left))
            at = bisect.bisect_right(most, most[enough]) - 1 if enough < len(most) else len(most) - 1
            number, count = numbers.pop(at), min(most.pop(at), len(left))
            while count and not self._inside(left[:count], areas[number], loose_first):
                count -= 1
            went += [(number, bundle) for bundle in left[:count]]
            left = left[count:]
        self._in_order(went)
        return True

    def _in_order(self, went: list[tuple[int, Bundle]]) -> None:
        """Exchange equal bundles, so that they stand in the order of the domains."""
        given = [[self._placed[demand] for demand in bundle.demands] for _, bundle in sorted(went, key=lambda w: w[0])]
        for (_, bundle), places in zip(went, given, strict=True):
            self._placed.update(zip(bundle.demands, places, strict=True))

    def _takes(self, copies: Sequence[Bundle], areas: Areas) -> tuple[Ints, Ints]:
        """No more of these equal bundles than so many go into each area; and how many pods there would be room for."""
        asked: dict[int, int] = {}
        of_kind: dict[int, Ask] = {}
        for demand in copies[0].demands:
            kind = self._kinds[demand]
            of_kind[kind] = self._asks[demand]
            asked[kind] = asked.get(kind, 0) + self._asks[demand].count
        takes, spare = np.full(len(areas), len(copies)), np.zeros(len(areas), dtype=np.int64)
        rows = areas.rows
        for kind, each in asked.items():
            ask = replace(of_kind[kind], count=each * len(copies))
            cards = self._cards.among(rows) if self._cards is not None and ask.want.cards is not None else None
            room = areas.sums(ask.capacity(self._free[rows], ask.mask[rows], cards))
            takes = np.minimum(takes, room // each)
            spare += room
        return takes, spare

    def most(self, copies: Sequence[Bundle], rows: Ints) -> int:
        """No more of these equal bundles than so many have a place among these rows."""
        return int(self._takes(copies, Areas.of(copies[0], rows))[0].sum())

    def count(self, demand: int) -> int:
        """How many pods it is."""
        return self._asks[demand].count

    def _loose(self, demands: Sequence[int], rows: Ints) -> bool:
        """Demands that go anywhere among these rows, those of equal pods together."""
        of_kind: dict[int, list[int]] = {}
        for demand in demands:
            if self._asks[demand].count:
                of_kind.setdefault(self._kinds[demand], []).append(demand)
            else:
                self._placed[demand] = []
        if not of_kind:
            return True
        asks = [replace(self._asks[ds[0]], count=sum(self._asks[d].count for d in ds)) for ds in of_kind.values()]
        counts = packing.pack(Field(self._free, rows, asks, self._cards), self._effort)
        if counts is None:
            self._effort.fillings -= 1
            return False
        for ask, number, alike in zip(asks, counts, of_kind.values(), strict=True):
            if not self._take(ask, rows, number):
                return False
            order = np.argsort(self._near[rows], kind="stable")
            places = iter(np.repeat(rows[order], number[order]).tolist())
            for demand in alike:
                self._placed[demand] = list(itertools.islice(places, self._asks[demand].count))
        return True

    def _take(self, ask: Ask, rows: Ints, counts: Ints) -> bool:
        for column, amount in ask.want.asked:
            self._free[rows, column] -= counts * amount
        if ask.want.cards is None or self._cards is None:
            return True
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            for _ in range(count):
                shares = self._cards.choose(row, ask.want.cards)
                if shares is None:  # packed in another order than is taken here
                    return False
                self._cards.take(row, shares)
        return True

    # --- all choices ----------------------------------------------------------------------------

    def _search(self, root: Bundle, rows: Ints) -> Rows | None:
        """Try every way to give bundles their domains, in a case that is small enough."""
        if len(self._asks) > _SEARCHED_DEMANDS or len(rows) > _SEARCHED_ROWS or self._is_exact(root):
            return None
        for areas in itertools.islice(self._ways(list(root.inner), rows), _SEARCHED_WAYS):
            self._effort.fillings -= len(self._asks)
            if self._effort.fillings < 0:
                return None
            asks = []
            for demand, ask in enumerate(self._asks):
                mask = np.zeros_like(ask.mask)
                inside = areas.get(demand, rows)
                mask[inside] = ask.mask[inside]
                asks.append(replace(ask, mask=mask))
            counts = packing.pack(Field(self._free, rows, asks, self._cards), self._effort)
            if counts is not None:
                order = np.argsort(self._near[rows], kind="stable")
                return [np.repeat(rows[order], number[order]).tolist() for number in counts]
        return None

    def _is_exact(self, root: Bundle) -> bool:
        """True when what fails one after the other has no way at all: equal pods, in bundles of one size."""
        return len({self._kinds[demand] for demand in root.demands}) == 1 and _uniform(root)

    def _ways(self, bundles: list[Bundle], rows: Ints) -> Iterator[dict[int, Ints]]:
        """Rows for each demand of these, every way in which all of them have enough by themselves."""
        if not bundles:
            yield {}
            return
        first, rest = bundles[0], bundles[1:]
        areas = Areas.of(first, rows)
        for number in np.flatnonzero(self._takes([first], areas)[0]).tolist():
            area = areas[number]
            for inside in self._ways(list(first.inner), area):
                mine = {demand: area for demand in first.loose} | inside
                for others in self._ways(rest, rows):
                    yield mine | others


def _uniform(bundle: Bundle) -> bool:
    """True when the bundles inside it are equal but for where some of them stand."""
    sizes = {(inner.look[0], inner.look[2:]) for inner in bundle.inner}
    return (
        len(sizes) <= 1
        and all(not one.loose or not one.inner for one in bundle.inner)
        and (all(_uniform(one) for one in bundle.inner[:1]))
    )


def failing(packer: Packer, root: Bundle, rows: Ints) -> Detail:
    """What is told where the whole group has room, and its parts have not: of the first kind of part that lacks
    domains, how many there are and how many would have one."""
    classes: dict[tuple[object, ...], list[Bundle]] = {}
    for bundle in root.inner:
        classes.setdefault(bundle.look, []).append(bundle)
    for alike in classes.values():
        one = alike[0]
        assert one.part is not None, "inner bundles have a level"
        level: Detail = (("level", one.part.level), ("part", one.part.name))
        if one.home == NOWHERE:
            return (*level, ("problem", "members that run are not in one domain"))
        fit = packer.most(alike, rows)
        if fit < len(alike):
            pods = sum(packer.count(demand) for demand in one.demands)
            return (*level, ("parts", len(alike)), ("members_each", pods), ("fit", fit))
    return (("problem", "the parts of the group do not fit beside each other"),)
