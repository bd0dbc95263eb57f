"""How well the GPUs are joined that a pod would get on each node, and what it leaves to others.

Takes a room and rows, gives ranks; must not choose nodes. Which GPUs are free is read from the cards that a node
publishes, else assumed (link_table).
"""

from __future__ import annotations

import numpy as np

from extender.core import links
from extender.core.cards import Cards
from extender.core.link_table import Bits, Joined
from extender.core.matching import Ints
from extender.core.model import CardAsk, CardRequest, Shape
from extender.core.resources import GPU
from extender.core.snapshot import Room, Want


def worst(room: Room, shape: Shape, want: Want, rows: Ints) -> Ints | None:
    """How badly the GPUs are joined that the pod would get on these rows, on which it fits: its worst link decides, and
    where nothing is known counts as worst. None where that is the same everywhere, or it asks for no whole GPUs."""
    number = _number(shape)
    found = _ranks(room, shape, number, rows) if number > 1 else None
    return None if found is None else -found[0]


def cut(room: Room, shape: Shape, want: Want, rows: Ints) -> Ints | None:
    """How many NVLinks from the GPUs that the pod would get to other free ones would be of no use to anybody."""
    number = _number(shape)
    found = _ranks(room, shape, number, rows) if number else None
    return None if found is None else found[1]


def _number(shape: Shape) -> int:
    """The whole GPUs of one kind that it asks for."""
    asks = shape.cards.asks if shape.cards is not None else ()
    return dict(shape.request).get(GPU, 0) if not asks or (len(asks) == 1 and asks[0].whole) else 0


def _ranks(room: Room, shape: Shape, number: int, rows: Ints) -> tuple[Ints, Ints] | None:
    """The worst link, larger is better, and the links cut."""
    joined, column = room.snapshot.links, room.snapshot.columns.of(GPU)
    if joined is None or column is None or not (joined.which[rows] >= 0).any():
        return None
    which = joined.which[rows]
    free = _free(room.cards, joined, shape.cards, rows)
    left = room.free[rows, column]
    ranks = np.zeros((len(rows), 2), dtype=np.int64)
    looks = np.stack((which.astype(np.uint64), free, np.maximum(left, 0).astype(np.uint64)))
    distinct, of = np.unique(looks[:, which >= 0], axis=1, return_inverse=True)
    found = [_fit(joined, int(one), int(bits), int(pieces), number) for one, bits, pieces in distinct.T]
    ranks[which >= 0] = np.array(found, dtype=np.int64)[of.ravel()]
    return ranks[:, 0], ranks[:, 1]


def _fit(joined: Joined, which: int, free: int, pieces: int, number: int) -> tuple[int, int]:
    matrix = joined.matrices[which]
    if pieces < free.bit_count():  # what is planned has no GPUs yet: taken as one pod
        planned = links.fit(matrix, free, free.bit_count() - pieces)
        free &= ~(planned.bits if planned is not None else 0)
    fit = links.fit(matrix, free, number)
    return (0, 0) if fit is None else (fit.worst, fit.cut)


def _free(cards: Cards | None, joined: Joined, request: CardRequest | None, rows: Ints) -> Bits:
    """The free GPUs of rows, as bits."""
    free = joined.free[rows]
    if cards is None:
        return free
    request = request or CardRequest((CardAsk(1),))
    places, starts, holders = cards.places(rows)
    if len(places):
        idle = cards.fits(cards.roll.kinds(((request.asks[0], request),)), places)[:, 0] > 0
        within = np.arange(len(places)) - np.repeat(starts, np.diff(starts, append=len(places)))
        bits = np.where(idle & (within < links.MAX_GPUS), np.uint64(1) << within.astype(np.uint64), np.uint64(0))
        free[holders] = np.bitwise_or.reduceat(bits, starts)
    return free
