"""Nodes as rows of integer arrays: what they offer, what is used there, and which rows constraints must look at anew.

Takes nodes and requests of pods, gives arrays; must not know pods, nor decide anything.
"""

from __future__ import annotations

import numpy as np

from extender.core.card_table import CardTable
from extender.core.ids import NodeName
from extender.core.link_table import LinkTable
from extender.core.model import Node
from extender.core.resources import Columns, Row, with_shares

#: entries of the log of touched rows that are kept at least
_TOUCHES_KEPT = 10_000


class NodeTable:
    """Nodes as rows of int64 arrays. A row is reused after its node is gone; `names[row]` is then None.

    Invariant: `used[row]` is the sum of the requests of the pods on that node that have not ended, of all resources
    that have a column.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.row_of: dict[NodeName, int] = {}
        self.names: list[NodeName | None] = []
        self.nodes: list[Node | None] = []
        #: grows by one row number whenever what constraints look at changed (labels, taints, readiness)
        self.touched: list[int] = []
        #: how many of the oldest entries of `touched` were dropped: labels with timestamps touch nodes for ever
        self.touched_before = 0
        self.allocatable = np.zeros((64, 8), dtype=np.int64)
        self.used = np.zeros((64, 8), dtype=np.int64)
        #: grows with each change of what nodes offer and of what is used there
        self.changes = 0
        self.cards = CardTable()
        self.links = LinkTable()
        self._free_rows: list[int] = []

    def put(self, node: Node) -> bool:
        """Add a node or replace its newest state; what it offers must have columns. True when it has new cards, or its
        GPUs are joined otherwise: its pods must be counted anew."""
        row = self.row_of.get(node.name)
        if row is None:
            row = self._new_row(node.name)
        before = self.nodes[row]
        self.changes += 1
        self.nodes[row] = node
        self._set_allocatable(row, self.columns.row(node.allocatable))
        if before is None or _placement_facts(before) != _placement_facts(node):
            self._touch(row)
        otherwise = before is None or (before.cards, before.links) != (node.cards, node.links)
        fresh = otherwise and self.cards.put(node.name, row, node.cards, node.links)
        return (otherwise and self.links.put(node.name, row, node.links)) or fresh

    def drop(self, name: NodeName) -> None:
        """Forget a node; its row is zeroed and may be reused."""
        row = self.row_of.pop(name, None)
        if row is None:
            return
        self.changes += 1
        self.names[row] = self.nodes[row] = None
        self.cards.drop(name)
        self.links.drop(name)
        self.allocatable[row] = 0
        self.used[row] = 0
        self._free_rows.append(row)
        self._touch(row)

    @property
    def shape(self) -> tuple[int, int]:
        """The rows that were ever used, and the columns that are known and that something has."""
        return len(self.names), min(len(self.columns), self.used.shape[1])

    @property
    def touches(self) -> int:
        """How often a row was touched."""
        return self.touched_before + len(self.touched)

    def touched_since(self, touches: int) -> list[int]:
        """The rows that were touched after so many touches; all, when those are not known any more."""
        start = touches - self.touched_before
        return self.touched[start:] if start >= 0 else list(range(len(self.nodes)))

    def _touch(self, row: int) -> None:
        self.touched.append(row)
        if len(self.touched) >= 2 * _TOUCHES_KEPT:
            del self.touched[:_TOUCHES_KEPT]
            self.touched_before += _TOUCHES_KEPT

    def add_used(self, name: NodeName | None, request: Row, sign: int) -> None:
        """Count a request on a node (sign 1) or take it off (sign -1); unknown nodes are ignored."""
        row = self.row_of.get(name) if name is not None else None
        if row is not None:
            self.changes += 1
            self.used[row, : len(request)] += sign * request

    def totals(self) -> dict[str, int]:
        """What all nodes have together, by resource."""
        return with_shares(self.columns.sums(self.allocatable))

    def _ensure_width(self, width: int) -> None:
        """Make the arrays at least so many columns wide."""
        have = self.used.shape[1]
        if width > have:
            extra = ((0, 0), (0, max(width, 2 * have) - have))
            self.used, self.allocatable = np.pad(self.used, extra), np.pad(self.allocatable, extra)

    def _set_allocatable(self, row: int, values: Row) -> None:
        self._ensure_width(len(values))
        self.allocatable[row] = 0
        self.allocatable[row, : len(values)] = values

    def _new_row(self, name: NodeName) -> int:
        if self._free_rows:
            row = self._free_rows.pop()
            self.names[row] = name
        else:
            row = len(self.names)
            self.names.append(name)
            self.nodes.append(None)
            if row >= len(self.used):
                extra = ((0, len(self.used)), (0, 0))
                self.used, self.allocatable = np.pad(self.used, extra), np.pad(self.allocatable, extra)
        self.row_of[name] = row
        return row


def _placement_facts(node: Node) -> tuple[object, ...]:
    return (node.labels, node.taints, node.unschedulable, node.ready, node.hami, node.refusing, node.cards)
