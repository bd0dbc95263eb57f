"""Earmarks: room that is kept for a group while those who were evicted for it still leave.

Takes a group's planned places, gives what they take of each node; must not decide who gets any. An earmark is no plan:
kube-scheduler is not led to it, and it may stand where the victims still are. It is charged to the group's queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from extender.core.ids import GroupKey, NodeName
from extender.core.ledger import Reservation
from extender.core.node_table import NodeTable
from extender.core.resources import Amounts, Row
from extender.core.snapshot import Matrix


class Earmarks:
    """At most one set of places a group. `charge` is told of what is counted for it, as by the ledger."""

    def __init__(self, nodes: NodeTable, charge: Callable[[GroupKey, None, Amounts, int], None]) -> None:
        self._nodes = nodes
        self._charge = charge
        self._of: dict[GroupKey, tuple[Reservation, ...]] = {}
        #: what is kept, by row of the node table
        self._kept = np.zeros_like(nodes.used)
        #: grows with each change
        self.changes = 0

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Reservation]:
        """All places."""
        return (place for places in self._of.values() for place in places)

    def of(self, key: GroupKey) -> tuple[Reservation, ...]:
        """The group's places."""
        return self._of.get(key, ())

    def put(self, key: GroupKey, places: Iterable[Reservation]) -> None:
        """Keep these places for the group, which must have none; their nodes must be known."""
        assert key not in self._of, f"{key} has an earmark already"
        kept = tuple(places)
        if kept:
            self._of[key] = kept
            self.changes += 1
        for place in kept:
            self._note(place, 1)

    def lift(self, key: GroupKey) -> tuple[Reservation, ...]:
        """Keep nothing for the group any more."""
        places = self._of.pop(key, ())
        self.changes += bool(places)
        for place in places:
            self._note(place, -1)
        return places

    def _note(self, place: Reservation, sign: int) -> None:
        self._charge(place.group, None, place.shape.request, sign)
        self._fit()
        self._kept[self._nodes.row_of[place.node], : len(place.request)] += sign * place.request

    def _fit(self) -> None:
        """Follow the node table's growth."""
        rows, width = self._nodes.used.shape
        if self._kept.shape != (rows, width):
            self._kept = np.pad(self._kept, ((0, rows - len(self._kept)), (0, width - self._kept.shape[1])))

    def clear(self) -> None:
        """Keep nothing."""
        for key in list(self._of):
            self.lift(key)

    def drop_node(self, name: NodeName) -> list[GroupKey]:
        """A node goes away: groups that had a place there lose all of theirs."""
        lost = [key for key, places in self._of.items() if any(place.node == name for place in places)]
        for key in lost:
            self.lift(key)
        return lost

    def on_node(self, name: NodeName) -> Iterator[Row]:
        """What is kept on a node."""
        return (place.request for place in self if place.node == name)

    def added_to(self, reserved: Matrix) -> Matrix:
        """What is reserved and what is kept together, by row of the node table."""
        if not self._of:
            return reserved
        self._fit()
        return reserved + self._kept
