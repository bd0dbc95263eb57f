"""How much of the free GPUs the workload that was seen has no use for, and where a pod makes that grow least.

Takes a room and rows, gives fragments in thousandths of a GPU; must not choose nodes nor use up room.

Of what is free on a node a typical pod can use: nothing where it does not fit; else what is free of the GPUs on which
it fits. So it is in "Beware of Fragmentation" (USENIX ATC'23), where a pod goes where the sum over typical pods grows
least. But room for one such pod is not room for many: CPU and memory may end before the GPUs do. So two thirds of the
weight are on what such pods would fill if no others came. Free and not usable are fragments; typical pods weigh by how
many there are of them. These are estimates that order nodes: floats.

Pods whose containers ask for cards of several kinds are left out, and so are MIG profiles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from extender.core.cards import CORES, MEMORY, SLOTS, Cards, Kinds
from extender.core.feasibility import Facts
from extender.core.matching import Ints, Mask
from extender.core.model import CardAsk, CardRequest, Shape
from extender.core.resources import GPU, GPU_SHARE, PER_CARD, Columns
from extender.core.snapshot import Matrix, Room, Snapshot, Want

Floats = npt.NDArray[np.float64]

MILLI = 1000
#: growths nearer to each other than this are equal: sums of floats depend on their order
_DECIMALS = 3
#: the weight of what a typical pod's equals would fill alone; found by trial on the openb traces (tests/perf/openb)
_ALONE = 2 / 3
_KEPT = "fragments"
_SHAPES = 256
#: what is known of a node's GPUs for each kind of ask: how many fit a share, how many shares they take, thousandths
#: that are free on those, thousandths that the shares fill
_FITTING, _SHARES, _USABLE, _FILLED = range(4)
_BIG = 2.0**62


@dataclass(frozen=True, slots=True, eq=False)
class Typical:
    """The workload in the columns of a snapshot, with a place for each typical shape, and one for each kind of ask."""

    weights: Floats
    #: GPUs that each asks for, and of which kind
    gpus: Floats
    which: Ints
    #: for each column: the shapes that ask for it, and how much
    asked: tuple[tuple[int, Ints, Floats], ...]
    #: rows x shapes
    accepted: Mask
    column: int
    #: kinds that GPUs of nodes do that publish no cards
    plain: Mask
    kinds: Kinds | None

    @classmethod
    def of(cls, snapshot: Snapshot) -> Typical | None:
        """What the snapshot's workload comes to; None when nothing of it asks for GPUs that there are."""
        column, width = snapshot.columns.of(GPU), snapshot.free.shape[1]
        known = [(shape, number) for shape, number in snapshot.workload if single(shape)]
        if column is None or column >= width or not known:
            return None
        shapes = [shape for shape, _ in known]
        kinds = list(dict.fromkeys(map(_kind, shapes)))
        place = {kind: number for number, kind in enumerate(kinds)}
        roll = snapshot.cards.roll if snapshot.cards is not None else None
        weights = np.array([number for _, number in known], dtype=np.float64)
        return cls(
            weights=weights / weights.sum(),
            gpus=np.array([dict(shape.request)[GPU] for shape in shapes], dtype=np.float64),
            which=np.array([place[_kind(shape)] for shape in shapes], dtype=np.int64),
            asked=tuple(_by_column(snapshot.columns, width, shapes)),
            accepted=_accepted(snapshot.facts, shapes),
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


def _by_column(columns: Columns, width: int, shapes: list[Shape]) -> list[tuple[int, Ints, Floats]]:
    asked: dict[int, list[tuple[int, int]]] = {}
    for place, shape in enumerate(shapes):
        for name, amount in shape.request:
            column = columns.of(name)
            if column is not None and column < width and name != GPU_SHARE and name not in PER_CARD:
                asked.setdefault(column, []).append((place, amount))
    return [
        (column, np.array([place for place, _ in some]), np.array([amount for _, amount in some], dtype=np.float64))
        for column, some in asked.items()
    ]


def _accepted(facts: Facts, shapes: list[Shape]) -> Mask:
    return np.array([facts.mask(shape.constraints) for shape in shapes], dtype=bool).T.copy()


@dataclass(slots=True, eq=False)
class _Gpus:
    """What is free of the GPUs of some rows: thousandths of all, and for each kind of ask what is known of it."""

    total: Floats
    #: the four figures x rows x kinds
    figures: Floats


class Fragments:
    """The fragments of one room. Figures of a row are worked out anew when it has changed."""

    def __init__(self, room: Room, typical: Typical) -> None:
        size = len(room.free)
        self._room = room
        self._typical = typical
        self._since = np.full(size, -1, dtype=np.int64)
        self._gpus = _Gpus(np.zeros(size), np.zeros((4, size, len(typical.plain))))
        self._lost = np.zeros(size)
        self._growth: dict[Shape, tuple[Ints, Floats]] = {}

    def growth(self, shape: Shape, want: Want, rows: Ints) -> Floats:
        """By how much they grow when a pod goes to each of these rows, on which it fits."""
        kept = self._growth.get(shape)
        if kept is None:
            if len(self._growth) >= _SHAPES:
                self._growth.clear()
            kept = self._growth[shape] = (np.full_like(self._since, -1), np.zeros_like(self._lost))
        since, growth = kept
        changed = rows[since[rows] < self._room.changed[rows]]
        if len(changed):
            self._refresh(changed)
            growth[changed] = np.round(self._after(shape, want, changed) - self._lost[changed], _DECIMALS)
            since[changed] = self._room.changed[changed]
        return growth[rows]

    def lost(self, rows: Ints) -> Floats:
        """The fragments of these rows now."""
        self._refresh(rows)
        return self._lost[rows]

    def _refresh(self, rows: Ints) -> None:
        room, rows = self._room, rows[self._since[rows] < self._room.changed[rows]]
        if len(rows):
            gpus = self._count(room.free[rows, self._typical.column], rows)
            self._gpus.total[rows], self._gpus.figures[:, rows] = gpus.total, gpus.figures
            self._lost[rows] = self._fragments(rows, room.free[rows], gpus)
            self._since[rows] = room.changed[rows]

    def _fragments(self, rows: Ints, free: Matrix, gpus: _Gpus) -> Floats:
        typical = self._typical
        number = np.full((len(rows), len(typical.gpus)), _BIG)
        for column, places, amounts in typical.asked:
            if len(places) == number.shape[1]:
                np.minimum(number, free[:, column, None] / amounts, out=number)
            else:
                number[:, places] = np.minimum(number[:, places], free[:, column, None] / amounts)
        fitting, shares, usable, filled = gpus.figures[:, :, typical.which]
        number = np.minimum(np.floor(number), np.floor(shares / typical.gpus))
        number[(fitting < typical.gpus) | ~typical.accepted[rows] | (number < 0)] = 0
        filled = filled * (number * typical.gpus / np.maximum(shares, 1))
        useful = (1 - _ALONE) * np.where(number > 0, usable, 0) + _ALONE * filled
        found: Floats = gpus.total - (useful * typical.weights).sum(axis=1)
        return found

    def _count(self, free: Ints, rows: Ints) -> _Gpus:
        """The GPUs of rows, of which so many pieces are free."""
        cards, typical = self._room.cards, self._typical
        whole = np.maximum(free, 0).astype(np.float64)
        if cards is not None:
            whole[cards.there[rows]] = 0
        figures = np.empty((4, len(rows), len(typical.plain)))
        figures[_FITTING] = figures[_SHARES] = whole[:, None] * typical.plain
        figures[_USABLE] = figures[_FILLED] = figures[_SHARES] * MILLI
        gpus = _Gpus(whole * MILLI, figures)
        if cards is not None and typical.kinds is not None:
            places, starts, holders = cards.places(rows)
            if len(places):
                of_cards = _of_cards(cards, typical.kinds, places)
                gpus.total[holders] += np.add.reduceat(of_cards.total, starts)
                gpus.figures[:, holders] += np.add.reduceat(of_cards.figures, starts, axis=1)
        return gpus

    def _after(self, shape: Shape, want: Want, rows: Ints) -> Floats:
        """The fragments of each of these rows as they would be with one such pod more on it."""
        room, cards, column = self._room, self._room.cards, self._typical.column
        free = room.free[rows] - want.request[: room.free.shape[1]]
        if cards is None:
            return self._fragments(rows, free, self._count(free[:, column], rows))
        gpus = _Gpus(self._gpus.total[rows], self._gpus.figures[:, rows])
        there = cards.there[rows]
        others, published = np.flatnonzero(~there), np.flatnonzero(there)
        if len(others):
            counted = self._count(free[others, column], rows[others])
            gpus.total[others], gpus.figures[:, others] = counted.total, counted.figures
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
            gpus.figures[:, at] += after.figures[:, part] - before.figures[:, part]


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
    figures = np.empty((4, *fits.shape))
    figures[_FITTING] = some = fits > 0
    figures[_SHARES], figures[_FILLED], figures[_USABLE] = fits, fits * part, some * idle[:, None]
    return _Gpus(np.maximum(idle, 0), figures)


def _typical(snapshot: Snapshot) -> Typical | None:
    """The same as long as neither the workload, nor what the nodes are, changes."""
    roll = snapshot.cards.roll if snapshot.cards is not None else None
    key, kept = (_KEPT, snapshot.free.shape[1]), snapshot.facts.kept
    found = kept.get(key)
    if found is None or found[0] is not snapshot.workload or found[1] is not roll:
        found = kept[key] = (snapshot.workload, roll, Typical.of(snapshot))
    assert found[2] is None or isinstance(found[2], Typical)
    return found[2]


def of(room: Room) -> Fragments | None:
    """The fragments of a room, kept with it; None when nothing is known that asks for GPUs."""
    if _KEPT not in room.kept:
        typical = _typical(room.snapshot)
        room.kept[_KEPT] = Fragments(room, typical) if typical is not None else None
    found = room.kept[_KEPT]
    assert found is None or isinstance(found, Fragments)
    return found


def growth(room: Room, shape: Shape, want: Want, rows: Ints) -> Floats | None:
    """By how much fragments grow when a pod goes to each of these rows, on which it fits; None where it is not known,
    or the same everywhere."""
    column = room.snapshot.columns.of(GPU)
    if column is None or column >= room.free.shape[1] or (want.cards is not None and not single(shape)):
        return None
    if not room.snapshot.allocatable[rows, column].any():
        return None
    fragments = of(room)
    return None if fragments is None else fragments.growth(shape, want, rows)


def lost(room: Room) -> float:
    """GPUs that are free and that the workload has no use for."""
    fragments = of(room)
    if fragments is None:
        return 0.0
    return float(fragments.lost(np.flatnonzero(room.snapshot.facts.open)).sum()) / MILLI
