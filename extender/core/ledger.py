"""Reservations: what admitted plans hold until their pods are bound.

Takes reservations by slot, gives their sum as an array that has the rows of the node table; must not
decide who reserves. A slot is a pod's uid, or the name of a member that is expected but not created.

    reserve ──> held for a plan ──release──> gone          (the pod is bound, or the plan moved)
                      └──linger──> still counted, planned for nobody ──release──> gone
A reservation lingers when its plan was revoked while kube-scheduler may still act on it: a nomination is
written in the API, or a bind call is held at the gate. Nothing here survives a restart: the engine
rebuilds it from holds and nominations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NewType

import numpy as np

from extender.core.ids import GroupKey, NodeName, TaskName
from extender.core.model import Shape, Shares
from extender.core.node_table import NodeTable
from extender.core.resources import Amounts, Row

Slot = NewType("Slot", str)


@dataclass(frozen=True, slots=True)
class Reservation:
    """One member's room on one node. `expected` when the member does not exist yet."""

    slot: Slot
    group: GroupKey
    task: TaskName
    shape: Shape
    node: NodeName
    request: Row
    expected: bool = False
    #: what it is to have of the node's cards
    shares: Shares = ()


class Overlap(RuntimeError):
    """A slot was reserved twice on different nodes: a fault of the engine."""


class Ledger:
    """All reservations. `reserved[row]` is always the sum of the requests of those on that row's node.

    `charge` is told of each request that is counted for a group (1) and counted no more (-1).
    """

    def __init__(self, nodes: NodeTable, charge: Callable[[GroupKey, None, Amounts, int], None]) -> None:
        self._nodes = nodes
        self._charge = charge
        self._by_slot: dict[Slot, Reservation] = {}
        self._by_group: dict[GroupKey, dict[Slot, Reservation]] = {}
        self._by_node: dict[NodeName, dict[Slot, Reservation]] = {}
        self._lingering: dict[Slot, Reservation] = {}
        self._lingering_of: Counter[GroupKey] = Counter()
        self.reserved = np.zeros_like(nodes.used)
        #: grows with each change of it
        self.changes = 0
        #: told of each group whose plan changes
        self.changed: Callable[[GroupKey], None] = lambda _: None

    def __len__(self) -> int:
        return len(self._by_slot)

    def reserve(self, entry: Reservation) -> None:
        """Reserve; the same again is no change. The node must be known."""
        have = self._by_slot.get(entry.slot)
        if have is not None:
            if have.node != entry.node:
                raise Overlap(f"{entry.slot} of {entry.group} holds {have.node}, wants {entry.node}")
            return
        self._by_slot[entry.slot] = entry
        self._by_group.setdefault(entry.group, {})[entry.slot] = entry
        self.changed(entry.group)
        self._put(entry)

    def release(self, slot: Slot) -> Reservation | None:
        """Give up a slot, planned or lingering; None when it holds nothing."""
        entry = self._by_slot.pop(slot, None)
        if entry is not None:
            self._forget_in_group(entry)
        else:
            entry = self._stop_lingering(slot)
        if entry is not None:
            self._take_off(entry)
        return entry

    def linger(self, slot: Slot) -> None:
        """Take a slot out of its group's plan, but go on counting it until `release`."""
        entry = self._by_slot.pop(slot)
        self._forget_in_group(entry)
        self._lingering[slot] = entry
        self._lingering_of[entry.group] += 1

    def claim(self, slot: Slot, uid: Slot) -> None:
        """An expected member has appeared: its reservation is now the pod's."""
        entry = self._by_slot.pop(slot)
        self._forget_in_group(entry)
        del self._by_node[entry.node][slot]
        named = replace(entry, slot=uid, expected=False)
        self._by_slot[uid] = named
        self._by_group.setdefault(entry.group, {})[uid] = named
        self._by_node[entry.node][uid] = named

    def clear(self) -> None:
        """Release everything."""
        for slot in (*self._by_slot, *self._lingering):
            self.release(slot)

    def drop_node(self, name: NodeName) -> list[Reservation]:
        """Release all on a node that goes away; call it before the node table forgets the row."""
        return [entry for slot in list(self._by_node.get(name, {})) if (entry := self.release(slot))]

    def get(self, slot: Slot) -> Reservation | None:
        """What a slot holds for a plan."""
        return self._by_slot.get(slot)

    def of_group(self, key: GroupKey) -> Mapping[Slot, Reservation]:
        """A group's plan: its reservations by slot."""
        return self._by_group.get(key, {})

    def on_node(self, name: NodeName) -> Mapping[Slot, Reservation]:
        """All reservations on a node, lingering ones too."""
        return self._by_node.get(name, {})

    def lingering(self) -> Mapping[Slot, Reservation]:
        """Reservations whose plan is revoked but which the scheduler may still act on."""
        return self._lingering

    def lingers(self, key: GroupKey) -> bool:
        """True when something of this group lingers."""
        return key in self._lingering_of

    def planned(self) -> Mapping[Slot, Reservation]:
        """All reservations that belong to a plan."""
        return self._by_slot

    def fit(self) -> None:
        """Follow the node table's growth, so that arrays may be subtracted."""
        rows, width = self._nodes.used.shape
        if self.reserved.shape != (rows, width):
            extra = ((0, rows - self.reserved.shape[0]), (0, width - self.reserved.shape[1]))
            self.reserved = np.pad(self.reserved, extra)

    def _stop_lingering(self, slot: Slot) -> Reservation | None:
        entry = self._lingering.pop(slot, None)
        if entry is not None:
            self._lingering_of[entry.group] -= 1
            if not self._lingering_of[entry.group]:
                del self._lingering_of[entry.group]
        return entry

    def _put(self, entry: Reservation) -> None:
        self._by_node.setdefault(entry.node, {})[entry.slot] = entry
        self._charge(entry.group, None, entry.shape.request, 1)
        self.fit()
        self.changes += 1
        self.reserved[self._nodes.row_of[entry.node], : len(entry.request)] += entry.request
        if entry.shares:
            self._nodes.cards.add(entry.node, entry.shares, 1)

    def _take_off(self, entry: Reservation) -> None:
        there = self._by_node[entry.node]
        del there[entry.slot]
        if not there:
            del self._by_node[entry.node]
        self._charge(entry.group, None, entry.shape.request, -1)
        self.changes += 1
        self.reserved[self._nodes.row_of[entry.node], : len(entry.request)] -= entry.request
        if entry.shares:
            self._nodes.cards.add(entry.node, entry.shares, -1)

    def _forget_in_group(self, entry: Reservation) -> None:
        plan = self._by_group[entry.group]
        del plan[entry.slot]
        if not plan:
            del self._by_group[entry.group]
        self.changed(entry.group)
