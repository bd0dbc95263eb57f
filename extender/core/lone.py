"""Which node one pod gets that stands alone and may go anywhere.

Takes a room and an ask for one pod, gives a row; must not use up room nor say why there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from extender.core import fragmentation, linking, packing
from extender.core.matching import Ints
from extender.core.model import Shape
from extender.core.packing import Ask
from extender.core.snapshot import Room, Want


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


def row(room: Room, shape: Shape, ask: Ask) -> int | None:
    """The row where one pod of this shape goes; None when it fits nowhere."""
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
