"""How much of the free GPUs the workload that was seen has no use for, and where a pod makes that grow least.

Takes a room and rows, gives fragments in thousandths of a GPU; must not choose nodes nor use up room.

What use there is for what is free on a node is estimated in three ways:
- by one typical pod: nothing where it does not fit; else what is free of the GPUs on which it fits. So it is in "Beware
  of Fragmentation" (USENIX ATC'23), where a pod goes where the sum over typical pods grows least;
- by its equals, as many as fit: CPU and memory may end before the GPUs do;
- by all of them mixed, and with pods that ask for no GPU and have no place on nodes without: until CPU or memory ends,
  at what all together ask of it for each GPU.
Free and not of use are fragments; typical pods weigh by how many there are of them. These are estimates that order
nodes: floats.

Pods whose containers ask for cards of several kinds are left out, and so are MIG profiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from extender.core.cards import ALONE, CORES, MEMORY, SLOTS, Cards, Kinds, Roll, need
from extender.core.matching import Ints, Mask
from extender.core.model import CardAsk, CardRequest, Shape
from extender.core.resources import BESIDE_NODES, CPU, GPU, Columns
from extender.core.resources import MEMORY as NODE_MEMORY
from extender.core.snapshot import Matrix, Room, Snapshot, Want

Floats = npt.NDArray[np.float64]

MILLI = 1000
#: growths nearer to each other than this are equal: sums of floats depend on their order
_DECIMALS = 3
#: the weights of the three estimates, found by trial on three workloads of the openb trace (tests/perf/openb)
_ONE, _EQUALS, _MIXED = 3 / 8, 1 / 8, 1 / 2
_KEPT = "fragments"
_SHAPES = 256
#: what is known of a node's GPUs for each kind of ask: how many fit a share, how many shares they take, thousandths
#: that are free on those, thousandths that the shares fill
_FITTING, _SHARES, _USABLE, _FILLED = range(4)
_BIG = 2.0**62
#: no room that there is
_NEVER = -(2**62)


@dataclass(frozen=True, slots=True, eq=False)
class Typical:
    """The workload in the columns of a snapshot, with a place for each typical shape. Shapes that ask for as many GPUs
    of one kind stand side by side; kinds that GPUs of nodes do that publish no cards are plain."""

    #: a column
    weights: Floats
    #: for each number of GPUs of one kind: the number (a column), the kind, and where its shapes begin
    gpus: Floats
    kind_of: Ints
    starts: Ints
    #: which of these each shape asks for
    ask_of: Ints
    #: for each column: the shapes that ask for it, and how much; None: all of them do
    asked: tuple[tuple[int, Ints | None, Floats], ...]
    #: what they, and pods without GPUs, ask of CPU and memory for each thousandth of a GPU: column, amount
    mixed: tuple[tuple[int, float], ...]
    #: shapes x rows; None when all nodes are accepted
    accepted: Mask | None
    column: int
    plain: Mask
    kinds: Kinds | None

    @classmethod
    def of(cls, snapshot: Snapshot) -> Typical | None:
        """What the snapshot's workload comes to; None when nothing of it asks for GPUs that there are."""
        column, width, know = snapshot.columns.of(GPU), snapshot.free.shape[1], snapshot.columns.know
        known = [(shape, number) for shape, number in snapshot.workload if single(shape) and know(shape.request)]
        if column is None or column >= width or not known:
            return None
        kinds = list(dict.fromkeys(_kind(shape) for shape, _ in known))
        place = {kind: number for number, kind in enumerate(kinds)}
        ask_of = {shape: (dict(shape.request)[GPU], place[_kind(shape)]) for shape, _ in known}
        known.sort(key=lambda one: ask_of[one[0]])
        shapes, order = [shape for shape, _ in known], [ask_of[shape] for shape, _ in known]
        asks = list(dict.fromkeys(order))
        roll = snapshot.cards.roll if snapshot.cards is not None else None
        numbers = np.array([[number] for _, number in known], dtype=np.float64)
        asked = tuple(_by_column(snapshot.columns, width, shapes))
        sizes = [_size(ask, roll) for ask, _ in kinds]
        gpus = np.array([[number * sizes[kind]] for number, kind in order])
        accepted = np.array([snapshot.facts.mask(shape.constraints) for shape in shapes], dtype=bool)
        return cls(
            weights=numbers / numbers.sum(),
            gpus=np.array([[number] for number, _ in asks], dtype=np.float64),
            kind_of=np.array([kind for _, kind in asks], dtype=np.int64),
            starts=np.array([order.index(ask) for ask in asks], dtype=np.int64),
            ask_of=np.array([asks.index(ask) for ask in order], dtype=np.int64),
            asked=asked,
            mixed=tuple(_mixed(snapshot, asked, numbers, float((numbers * gpus).sum()))),
            accepted=None if accepted.all() else accepted,
            column=column,
            plain=np.array([request.plain for _, request in kinds], dtype=bool),
            kinds=roll.kinds(tuple(kinds)) if roll is not None else None,
        )


def single(shape: Shape) -> bool:
    """True when it asks for GPUs, and for one kind of share of them."""
    return any(name == GPU for name, _ in shape.request) and (shape.cards is None or len(shape.cards.asks) == 1)


def _kind(shape: Shape) -> tuple[CardAsk, CardRequest]:
    request = shape.cards or CardRequest((CardAsk(1),))
    ask = request.asks[0]
    one = CardAsk(1, ask.memory, ask.percent, ask.cores)
    return one, CardRequest((one,), request.kinds, request.not_kinds, request.ids, request.not_ids)


def _by_column(columns: Columns, width: int, shapes: list[Shape]) -> Iterator[tuple[int, Ints | None, Floats]]:
    asked: dict[int, list[tuple[int, int]]] = {}
    for place, shape in enumerate(shapes):
        for name, amount in shape.request:
            column = columns.of(name)
            if column is not None and column < width and name not in BESIDE_NODES:
                asked.setdefault(column, []).append((place, amount))
    for column, some in asked.items():
        places = np.array([place for place, _ in some], dtype=np.int64)
        amounts = np.array([[amount] for _, amount in some], dtype=np.float64)
        yield column, None if len(some) == len(shapes) else places, amounts


def _size(ask: CardAsk, roll: Roll | None) -> float:
    """How much of a card of mean memory one share is, in thousandths; one at least, if it asks for no memory."""
    memory = int(roll.total[:, MEMORY].mean()) if roll is not None and len(roll.total) else 0
    return MILLI if ask.cores >= ALONE or not memory else min(max(need(ask, memory) * MILLI / memory, 1), MILLI)


def _mixed(
    snapshot: Snapshot, asked: tuple[tuple[int, Ints | None, Floats], ...], numbers: Floats, gpus: float
) -> Iterator[tuple[int, float]]:
    columns, allocatable, others = snapshot.columns, snapshot.allocatable, dict(snapshot.others)
    without = allocatable[:, columns.of(GPU)] == 0
    for name in (CPU, NODE_MEMORY):
        for column, places, amounts in asked:
            if column == columns.of(name):
                beside = others.get(name, 0) - allocatable[without, column].sum(dtype=np.float64)
                own = amounts * (numbers if places is None else numbers[places])
                yield column, float(own.sum() + max(beside, 0)) / gpus


@dataclass(slots=True, eq=False)
class _Gpus:
    """What is free of the GPUs of some rows: thousandths of all, and for each kind of ask what is known of it."""

    total: Floats
    #: the four figures x kinds x rows
    figures: Floats


class Fragments:
    """The fragments of rooms over the same nodes. Of each row it is kept what they came to and for which free room, so
    that only rows are worked out anew that look different from when they were asked for last."""

    def __init__(self, room: Room, typical: Typical) -> None:
        size, cards = len(room.free), room.cards
        self._typical = typical
        self._columns = [column for column, _, _ in typical.asked]
        self._seen = np.full((len(self._columns), size), _NEVER)
        self._seen_free = np.full_like(cards.free if cards is not None else np.zeros((0, 3), dtype=np.int64), _NEVER)
        self._seen_alone = np.full(len(self._seen_free), _NEVER)
        #: rows that look different from when they were worked out
        self._stale = np.ones(size, dtype=bool)
        #: grows whenever a row was worked out anew
        self._version = np.zeros(size, dtype=np.int64)
        self._gpus = _Gpus(np.zeros(size), np.zeros((4, len(typical.plain), size)))
        self._lost = np.zeros(size)
        self._growth: dict[Shape, tuple[Ints, Floats]] = {}

    def growth(self, room: Room, shape: Shape, want: Want, rows: Ints) -> Floats:
        """By how much they grow when a pod goes to each of these rows, on which it fits."""
        kept = self._growth.get(shape)
        if kept is None:
            if len(self._growth) >= _SHAPES:
                self._growth.clear()
            kept = self._growth[shape] = (np.zeros_like(self._version), np.zeros_like(self._lost))
        version, growth = kept
        self._refresh(room, rows)
        changed = rows[version[rows] != self._version[rows]]
        if len(changed):
            growth[changed] = np.round(self._after(room, shape, want, changed) - self._lost[changed], _DECIMALS)
            version[changed] = self._version[changed]
        return growth[rows]

    def any_of(self, room: Room, rows: Ints) -> bool:
        """True when one of these nodes has GPUs."""
        return bool(room.snapshot.allocatable[rows, self._typical.column].any())

    def lost(self, room: Room, rows: Ints) -> Floats:
        """The fragments of these rows."""
        self._refresh(room, rows)
        return self._lost[rows]

    def _refresh(self, room: Room, rows: Ints) -> None:
        self._look(room)
        rows = rows[self._stale[rows]]
        if len(rows):
            gpus = self._count(room, room.free[rows, self._typical.column], rows)
            self._gpus.total[rows], self._gpus.figures[:, :, rows] = gpus.total, gpus.figures
            self._lost[rows] = self._fragments(rows, room.free[rows], gpus)
            self._version[rows] += 1
            self._stale[rows] = False

    def _look(self, room: Room) -> None:
        """Find the rows that look different from when this was asked last."""
        for place, column in enumerate(self._columns):
            other = room.free[:, column] != self._seen[place]
            if other.any():
                self._stale |= other
                self._seen[place] = room.free[:, column]
        if room.cards is not None:
            for seen, now in ((self._seen_free, room.cards.free), (self._seen_alone, room.cards.alone)):
                cards = np.flatnonzero(now.ravel() != seen.ravel()) // (now.size // max(len(now), 1) or 1)
                if len(cards):
                    self._stale[room.cards.rows(cards)] = True
                    seen[cards] = now[cards]

    def _fragments(self, rows: Ints, free: Matrix, gpus: _Gpus) -> Floats:
        """What is free of these GPUs, less what typical pods can use of it on nodes with this much free beside."""
        typical = self._typical
        number = np.full((len(typical.weights), len(rows)), _BIG)
        for column, places, amounts in typical.asked:
            if places is None:
                np.minimum(number, free[:, column] / amounts, out=number)
            else:
                number[places] = np.minimum(number[places], free[:, column] / amounts)
        np.floor(number, out=number)
        if typical.accepted is not None:
            number *= typical.accepted[:, rows]
        fitting, shares, usable, filled = gpus.figures[:, typical.kind_of]
        most = np.where(fitting >= typical.gpus, np.floor(shares / typical.gpus), 0)
        np.minimum(number, most[typical.ask_of], out=number)
        np.maximum(number, 0, out=number)
        fits = number > 0
        one = usable * np.add.reduceat(fits * typical.weights, typical.starts, axis=0)
        number *= typical.weights
        equals = filled * (typical.gpus / np.maximum(shares, 1) * np.add.reduceat(number, typical.starts, axis=0))
        mixed = gpus.total * fits.any(axis=0)
        for column, each in typical.mixed:
            np.minimum(mixed, np.maximum(free[:, column], 0) / each, out=mixed)
        found: Floats = gpus.total - _ONE * one.sum(axis=0) - _EQUALS * equals.sum(axis=0) - _MIXED * mixed
        return found

    def _count(self, room: Room, free: Ints, rows: Ints) -> _Gpus:
        """The GPUs of rows, of which so many pieces are free."""
        cards, typical = room.cards, self._typical
        whole = np.maximum(free, 0).astype(np.float64)
        if cards is not None:
            whole[cards.there[rows]] = 0
        figures = np.empty((4, len(typical.plain), len(rows)))
        figures[_FITTING] = figures[_SHARES] = whole * typical.plain[:, None]
        figures[_USABLE] = figures[_FILLED] = figures[_SHARES] * MILLI
        gpus = _Gpus(whole * MILLI, figures)
        if cards is not None and typical.kinds is not None:
            places, starts, holders = cards.places(rows)
            if len(places):
                of_cards = _of_cards(cards, typical.kinds, places)
                gpus.total[holders] += np.add.reduceat(of_cards.total, starts)
                gpus.figures[:, :, holders] += np.add.reduceat(of_cards.figures, starts, axis=2)
        return gpus

    def _after(self, room: Room, shape: Shape, want: Want, rows: Ints) -> Floats:
        """The fragments of each of these rows as they would be with one such pod more on it."""
        cards, column = room.cards, self._typical.column
        free = room.free[rows] - want.request[: room.free.shape[1]]
        if cards is None:
            return self._fragments(rows, free, self._count(room, free[:, column], rows))
        gpus = _Gpus(self._gpus.total[rows], self._gpus.figures[:, :, rows])
        there = cards.there[rows]
        others, published = np.flatnonzero(~there), np.flatnonzero(there)
        if len(others):
            counted = self._count(room, free[others, column], rows[others])
            gpus.total[others], gpus.figures[:, :, others] = counted.total, counted.figures
        if len(published) and shape.cards is not None and self._typical.kinds is not None:
            self._take(shape.cards, cards, rows[published], published, gpus)
        return self._fragments(rows, free, gpus)

    def _take(self, request: CardRequest, cards: Cards, rows: Ints, at: Ints, gpus: _Gpus) -> None:
        """What the cards that the pod would be given change; `at` is where the rows stand in `gpus`."""
        assert self._typical.kinds is not None
        ask = request.asks[0]
        chosen = cards.tightest(ask, request, rows)
        before = _of_cards(cards, self._typical.kinds, chosen)
        after = _of_cards(cards.with_share(chosen, ask), self._typical.kinds)
        for number in range(ask.number):
            part = slice(number * len(rows), (number + 1) * len(rows))
            gpus.total[at] += after.total[part] - before.total[part]
            gpus.figures[:, :, at] += after.figures[:, :, part] - before.figures[:, :, part]


def _of_cards(cards: Cards, kinds: Kinds, places: Ints | slice = slice(None)) -> _Gpus:
    """The figures of single cards."""
    free, total = cards.free[places], cards.totals(places)
    size = np.maximum(total[:, MEMORY], 1)
    idle = free[:, MEMORY] * MILLI / size
    if kinds.cored:
        idle = np.minimum(idle, free[:, CORES] * MILLI / np.maximum(total[:, CORES], 1))
    idle[(free[:, SLOTS] <= 0) | (cards.alone[places] > 0) | ~cards.usable(places)] = 0
    fits = cards.fits(kinds, places).astype(np.float64)
    part = np.where(kinds.alone, MILLI, kinds.of(total[:, MEMORY]) * (MILLI / size[:, None]))
    figures = np.empty((4, *fits.T.shape))
    figures[_FITTING] = some = (fits > 0).T
    figures[_SHARES], figures[_FILLED], figures[_USABLE] = fits.T, (fits * part).T, some * idle
    return _Gpus(np.maximum(idle, 0), figures)


def of(room: Room) -> Fragments | None:
    """The fragments of a room, kept as long as neither the workload, nor what the nodes are, changes; None when nothing
    is known that asks for GPUs."""
    snapshot, cards = room.snapshot, room.cards
    kept, key = snapshot.facts.kept, (_KEPT, snapshot.free.shape[1])
    of_these = (snapshot.workload, snapshot.others, cards.roll if cards is not None else None)
    found = kept.get(key)
    if found is None or any(before is not now for before, now in zip(found, of_these, strict=False)):
        typical = Typical.of(snapshot)
        found = kept[key] = (*of_these, None if typical is None else Fragments(room, typical))
    fragments = found[-1]
    assert fragments is None or isinstance(fragments, Fragments)
    return fragments


def growth(room: Room, shape: Shape, want: Want, rows: Ints) -> Floats | None:
    """By how much fragments grow when a pod goes to each of these rows, on which it fits; None where it is not known,
    or the same everywhere."""
    fragments = of(room)
    if fragments is None or (want.cards is not None and not single(shape)):
        return None
    return fragments.growth(room, shape, want, rows) if fragments.any_of(room, rows) else None


def lost(room: Room) -> float:
    """GPUs that are free and that the workload has no use for."""
    return float(by_row(room).sum())


def by_row(room: Room) -> Floats:
    """The same of each node; nothing of those that take no pods."""
    found, fragments = np.zeros(len(room.free)), of(room)
    if fragments is not None:
        rows = np.flatnonzero(room.snapshot.facts.open)
        found[rows] = fragments.lost(room, rows) / MILLI
    return found
