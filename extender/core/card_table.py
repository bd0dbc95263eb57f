"""What nodes publish of cards, and the sums of what is taken of them.

Takes nodes, pods and shares as they come and go, gives copies of what is free; must not choose whom anything goes to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from extender.core.cards import ALONE, Cards, Ints, Roll, Sizes, each_share, loads, need
from extender.core.ids import NodeName, PodUid
from extender.core.links import Links
from extender.core.model import Card, CardAsk, CardRequest, Pod, Share, Shares, Trouble


class CardTable:
    """What nodes publish of cards, and what is taken of them. Kept by the node table.

    Invariant: `taken` of a card is the sum of the shares of the pods counted on its node and of what is reserved.
    A card that is published no more stays as long as something is taken of it.
    """

    def __init__(self) -> None:
        self._nodes: dict[NodeName, dict[str, _Held]] = {}
        self._row_of: dict[NodeName, int] = {}
        self._links: dict[NodeName, Links | None] = {}
        #: what each pod was counted with
        self._counted: dict[PodUid, tuple[NodeName, Shares]] = {}
        self._roll: Roll | None = None
        self._taken: Sizes = np.zeros((0, 3), dtype=np.int64)
        self._alone: Ints = np.zeros(0, dtype=np.int64)

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def put(self, node: NodeName, row: int, cards: Sequence[Card] | None, links: Links | None = None) -> bool:
        """Take in what a node publishes, and how its cards are joined; True when there are cards that were not there:
        its pods must be counted."""
        if cards is None and node not in self._nodes:
            return False
        self._settle()
        before = self._nodes.get(node, {})
        there = self._nodes[node] = {card.id: before.get(card.id) or _Held(card) for card in cards or ()}
        for card in cards or ():
            there[card.id].card = card
        for name, held in before.items():
            if name not in there and not held.idle:
                held.card = Card(name, 0, 0, 0, held.card.kind, Trouble.GONE)
                there[name] = held
        fresh = not there.keys() <= before.keys() or node not in self._row_of
        self._row_of[node] = row
        self._links[node] = links
        if cards is None and not there:
            self.drop(node)
        return fresh

    def drop(self, node: NodeName) -> None:
        """Forget a node and what was counted there."""
        if self._nodes.get(node) is None:
            return
        self._settle()
        del self._nodes[node]
        self._row_of.pop(node, None)
        self._links.pop(node, None)
        self._counted = {uid: entry for uid, entry in self._counted.items() if entry[0] != node}

    def recount(self, pods: Iterable[Pod]) -> None:
        """Count what these have anew: cards were published that were not known when they were counted."""
        counted = list(pods)
        for pod in counted:
            self.uncount(pod.uid)
        for pod in sorted(counted, key=lambda pod: (not pod.shares, pod.bound_at or 0.0, pod.uid)):
            self.count(pod)

    def count(self, pod: Pod) -> None:
        """Count what a pod has of its node's cards; where nothing says what, the first that have room."""
        node = pod.node
        if node is None or node not in self._nodes or pod.uid in self._counted:
            return
        there = self._nodes[node]
        shares = pod.shares or self._assumed(node, pod)
        shares = tuple(tuple(share for share in container if share.card in there) for container in shares)
        if any(shares):
            self._counted[pod.uid] = (node, shares)
            self.add(node, shares, 1)

    def uncount(self, uid: PodUid) -> None:
        """The pod has what it had no more."""
        counted = self._counted.pop(uid, None)
        if counted is not None:
            self.add(*counted, -1)

    def add(self, node: NodeName, shares: Shares, sign: int) -> None:
        """Take shares of a node's cards, or give them back; cards that it never published are left out."""
        there = self._nodes.get(node, {})
        for card, slots, memory, cores, alone in loads(shares):
            held = there.get(card)
            if held is not None:
                held.slots += sign * slots
                held.memory += sign * memory
                held.cores += sign * cores
                held.alone += sign * alone
                if self._roll is not None:
                    self._taken[held.place] = (held.slots, held.memory, held.cores)
                    self._alone[held.place] = held.alone

    def over(self, node: NodeName, shares: Shares) -> bool:
        """True when a card of these is out of use or gone, or has less than is taken of it; or when there are none of a
        node that publishes cards."""
        there = self._nodes.get(node)
        if there is None or not any(shares):
            return (there is None) is any(shares)
        return any(share.card not in there or there[share.card].over for share in each_share(shares))

    def free(self, size: int) -> Cards | None:
        """What is free of all cards, for a node table of so many rows; None when no node publishes any."""
        if not self._nodes:
            return None
        roll = self._rolled()
        free = roll.total - self._taken
        cards = Cards(roll, np.arange(len(roll.row)), roll.row, free, self._alone.copy(), size)
        cards.there[list(roll.rows)] = True
        return cards

    def choose(self, node: NodeName, request: CardRequest) -> Shares | None:
        """Shares for one more pod on this node, from what is free now; None when there is no room."""
        row = self._row_of.get(node)
        cards = self.free(max(self._row_of.values()) + 1) if row is not None else None
        if cards is None or row is None:
            return () if request.plain else None
        return cards.choose(row, request)

    def _settle(self) -> None:
        self._roll = None

    def _rolled(self) -> Roll:
        if self._roll is None:
            ordered = sorted(self._row_of.items(), key=lambda one: one[1])
            held = [(row, one) for node, row in ordered for one in self._nodes[node].values()]
            for place, (_, one) in enumerate(held):
                one.place = place
            self._taken = _sizes([(one.slots, one.memory, one.cores) for _, one in held])
            self._alone = np.array([one.alone for _, one in held], dtype=np.int64)
            self._roll = Roll(
                row=np.array([row for row, _ in held], dtype=np.int64),
                total=_sizes([(one.card.slots, one.card.memory, one.card.cores) for _, one in held]),
                cards=tuple(one.card for _, one in held),
                rows=frozenset(self._row_of.values()),
                links=tuple(self._links[node] for node, _ in ordered for _ in self._nodes[node]),
            )
        return self._roll

    def _assumed(self, node: NodeName, pod: Pod) -> Shares:
        """What a pod of which nothing says what it has may have: of each card in order, where it has room."""
        request, there = pod.shape.cards, self._nodes[node]
        if request is None:
            return ()
        found: list[tuple[Share, ...]] = []
        for at, ask in enumerate(request.containers):
            fitting = [held.card for held in there.values() if held.fits(ask)][: ask.number] if ask is not None else []
            passing = at in request.passing
            found.append(tuple(Share(c.id, need(ask, c.memory), ask.cores, passing) for c in fitting if ask))
        return tuple(found) if any(found) else ()


def _sizes(values: list[tuple[int, int, int]]) -> Sizes:
    return np.array(values, dtype=np.int64).reshape(-1, 3)


@dataclass(slots=True)
class _Held:
    """A card and the sum of what is taken of it."""

    card: Card
    slots: int = 0
    memory: int = 0
    cores: int = 0
    alone: int = 0
    place: int = -1

    @property
    def idle(self) -> bool:
        return not (self.slots or self.memory or self.cores)

    @property
    def over(self) -> bool:
        crowded = self.alone > 0 and self.slots > 1
        sizes = self.slots > self.card.slots or self.memory > self.card.memory or self.cores > self.card.cores
        return bool(self.card.trouble) or crowded or sizes

    def fits(self, ask: CardAsk) -> bool:
        room = self.memory + need(ask, self.card.memory) <= self.card.memory
        alone = self.alone == 0 and not (ask.cores >= ALONE and self.slots)
        return (
            not self.card.trouble
            and room
            and alone
            and self.slots < self.card.slots
            and self.cores + ask.cores <= self.card.cores
        )
