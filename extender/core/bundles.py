"""Pods that must stand in one domain of a level, beside others that must stand in one of theirs, packed whole.

Takes demands that name their parts, and free room; gives rows for each pod of each demand, or None. Must not choose
the domain of the group, nor use up the room.

A bundle is what must be in one domain: demands, and bundles inside it. Equal bundles are told apart by nothing but
their order, so how many of them go into each domain is all there is to decide: the domain that just takes all that
are left comes first, else the one that takes most. For one kind of equal pods that is exact, and the fewest domains.
Kinds that compete are placed the hardest first; where that fails in a small case, all choices are searched.
"""

from __future__ import annotations

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

#: of more demands, or more ways to put bundles into domains, not all are searched
_SEARCHED_DEMANDS = 12
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
        there = np.unique(domains.ids[list(standing.get(part, ()))])
        if len(there):
            home = int(there[0]) if len(there) == 1 else NOWHERE
    keys = domains.keys if domains is not None else ()
    look = (keys, home, tuple(alike[demand] for demand in loose), tuple(bundle.look for bundle in bundles))
    return Bundle(part, domains, home, tuple(loose), tuple(bundles), look)


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
        before = (self._free[rows], self._cards.copy() if self._cards is not None else None, self._placed.copy())
        classes: dict[tuple[object, ...], list[Bundle]] = {}
        for bundle in itertools.chain.from_iterable(copy.inner for copy in copies):
            classes.setdefault(bundle.look, []).append(bundle)
        hardest = sorted(classes.values(), key=lambda alike: (alike[0].home is None, -self._share(alike[0])))
        loose = [demand for copy in copies for demand in copy.loose]
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
        areas = self.areas(copies[0], rows)
        takes, spare = self._takes(copies, areas)
        went: list[tuple[int, Bundle]] = []
        left = list(copies)
        while left:
            if not any(takes):
                return False
            enough = [n for n, most in enumerate(takes) if most >= len(left)]
            number = min(enough, key=lambda n: (takes[n], spare[n])) if enough else takes.index(max(takes))
            count = min(takes[number], len(left))
            while count and not self._inside(left[:count], areas[number], loose_first):
                count -= 1
            takes[number] = 0
            went += [(number, bundle) for bundle in left[:count]]
            left = left[count:]
        self._in_order(went)
        return True

    def _in_order(self, went: list[tuple[int, Bundle]]) -> None:
        """Exchange equal bundles, so that they stand in the order of the domains."""
        given = [[self._placed[demand] for demand in bundle.demands] for _, bundle in sorted(went, key=lambda w: w[0])]
        for (_, bundle), places in zip(went, given, strict=True):
            self._placed.update(zip(bundle.demands, places, strict=True))

    @staticmethod
    def areas(bundle: Bundle, rows: Ints) -> list[Ints]:
        """The rows of each domain that it may have, among these; neighbouring domains follow each other."""
        assert bundle.domains is not None, "only the whole group has no level"
        ids = bundle.domains.ids[rows]
        if bundle.home is not None:
            ids = np.where(ids == bundle.home, ids, -1)
        inside = rows[ids >= 0]
        order = np.argsort(ids[ids >= 0], kind="stable")
        starts = np.unique(ids[ids >= 0][order], return_index=True)[1]
        return np.split(inside[order], starts[1:]) if len(starts) else []

    def _takes(self, copies: Sequence[Bundle], areas: Sequence[Ints]) -> tuple[list[int], list[int]]:
        """No more of these equal bundles than so many go into each area; and how many pods more there would be room."""
        asked: dict[int, int] = {}
        of_kind: dict[int, Ask] = {}
        for demand in copies[0].demands:
            kind = self._kinds[demand]
            of_kind[kind] = self._asks[demand]
            asked[kind] = asked.get(kind, 0) + self._asks[demand].count
        takes, spare = [len(copies)] * len(areas), [0] * len(areas)
        for kind, each in asked.items():
            if not each:
                continue
            ask = replace(of_kind[kind], count=each * len(copies))
            for number, rows in enumerate(areas):
                cards = self._cards.among(rows) if self._cards is not None and ask.want.cards is not None else None
                room = int(ask.capacity(self._free[rows], ask.mask[rows], cards).sum())
                takes[number] = min(takes[number], room // each)
                spare[number] += room
        return takes, spare

    def most(self, copies: Sequence[Bundle], rows: Ints) -> int:
        """No more of these equal bundles than so many have a place among these rows."""
        return sum(self._takes(copies, self.areas(copies[0], rows))[0])

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
        if len(self._asks) > _SEARCHED_DEMANDS:
            return None
        for areas in itertools.islice(self._ways(list(root.inner), rows), _SEARCHED_WAYS):
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

    def _ways(self, bundles: list[Bundle], rows: Ints) -> Iterator[dict[int, Ints]]:
        """Rows for each demand of these, every way in which all of them have enough by themselves."""
        if not bundles:
            yield {}
            return
        first, rest = bundles[0], bundles[1:]
        for area, most in zip(areas := self.areas(first, rows), self._takes([first], areas)[0], strict=True):
            if not most:
                continue
            for inside in self._ways(list(first.inner), area):
                mine = {demand: area for demand in first.loose} | inside
                for others in self._ways(rest, rows):
                    yield mine | others


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
