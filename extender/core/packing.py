"""Several demands packed whole onto some nodes, or not at all.

Takes copies of free room and asks, gives counts per node; must not know levels, domains or refusals.

One ask alone is exact: pods of one shape fit when the nodes' capacities sum up. Several asks compete, so
they are filled one after the other, the hardest first, then in other orders, and in small cases by a
search that is complete within its budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from extender.core.cards import Cards
from extender.core.matching import Ints, Mask
from extender.core.model import CardRequest, Shares
from extender.core.snapshot import Matrix, Want

#: so many asks are tried in every order; more of them in rotations only
_ALL_ORDERS = 4
#: the search looks at no more nodes and pods than these
_SEARCH_NODES = 32
_SEARCH_PODS = 32


@dataclass(slots=True)
class Effort:
    """What one placement may still spend where its first try fails. Shared by all domains it tries."""

    fillings: int = 600
    steps: int = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """So many pods of one shape, on these rows."""

    want: Want
    count: int
    mask: Mask

    def capacity(self, free: Matrix, mask: Mask, cards: Cards | None = None) -> Ints:
        """How many of the pods each node takes alone; `mask` is for the rows of `free`, and so are the cards."""
        if self.want.unknown:
            return np.zeros(len(free), dtype=np.int64)
        capacity = np.where(mask, self.count, 0)
        for column, amount in self.want.asked:
            np.minimum(capacity, free[:, column] // amount, out=capacity)
        if self.want.cards is not None:
            np.minimum(capacity, card_capacity(self.want.cards, cards, self.count), out=capacity)
        return np.maximum(capacity, 0, out=capacity)


def card_capacity(request: CardRequest, cards: Cards | None, most: int) -> Ints | int:
    """How many pods the cards of each node take, up to `most`."""
    if cards is None:
        return most if request.plain else 0
    found = cards.capacity(request, most)
    return found if request.plain else np.where(cards.there, found, 0)


@dataclass(slots=True)
class Stock:
    """What is left of the nodes while they are packed."""

    free: Matrix
    cards: Cards | None


class Field:
    """The nodes on which is packed: their free room and what each ask sees of them."""

    def __init__(self, free: Matrix, rows: Ints, asks: Sequence[Ask], cards: Cards | None = None) -> None:
        """`rows` are ordered by node name."""
        self.free: Matrix = free.T[:, rows].T
        asked = cards is not None and any(ask.want.cards is not None for ask in asks)
        self.cards = cards.among(rows) if cards is not None and asked else None
        self.asks = asks
        self.masks = [ask.mask[rows] for ask in asks]
        self.lates = [ask.want.late[rows] if ask.want.late is not None else None for ask in asks]

    def stock(self) -> Stock:
        """All that is there, to be used up."""
        return Stock(self.free.copy(order="F"), self.cards.copy() if self.cards is not None else None)

    def capacity(self, stock: Stock, which: int) -> Ints:
        """How many pods of an ask each node takes."""
        return self.asks[which].capacity(stock.free, self.masks[which], stock.cards)

    def fill(self, stock: Stock, which: int) -> Ints | None:
        """Counts per node for one ask, its whole count: the fullest nodes that still fit come first."""
        ask, late, free = self.asks[which], self.lates[which], stock.free
        capacity = self.capacity(stock, which)
        if capacity.sum() < ask.count:
            return None
        fitting = np.flatnonzero(capacity)
        key = free[fitting, ask.want.dominant]
        if late is not None:
            key = key + late[fitting]
        chosen = fitting[np.argsort(key, kind="stable")]
        counts = np.zeros(len(free), dtype=np.int64)
        counts[chosen] = first_of(capacity[chosen], ask.count)
        return counts

    def take(self, stock: Stock, which: int, counts: Ints) -> None:
        """Use up room for these counts of an ask."""
        want = self.asks[which].want
        for column, amount in want.asked:
            stock.free[:, column] -= counts * amount
        if want.cards is not None and stock.cards is not None:
            for node in np.flatnonzero(counts).tolist():
                for _ in range(int(counts[node])):
                    shares = stock.cards.choose(node, want.cards)
                    assert shares is not None, "the cards take as many as was counted"
                    stock.cards.take(node, shares)


def first_of(capacity: Ints, count: int) -> Ints:
    """Capacities used up one after the other until the count is reached."""
    over = np.maximum(np.cumsum(capacity) - count, 0)
    return np.maximum(capacity - over, 0)


def pack(field: Field, effort: Effort) -> list[Ints] | None:
    """Counts per node of `field` for each ask, all of them whole; None when no way was found."""
    stock = Stock(field.free, field.cards)
    capacities = [field.capacity(stock, which) for which in range(len(field.asks))]
    if any(int(c.sum()) < ask.count for c, ask in zip(capacities, field.asks, strict=True)):
        return None
    if len(field.asks) > 1 and _too_much(field):
        return None
    hardest = _hardest(field, capacities)
    for number, sequence in enumerate(_orders(hardest)):
        if number:
            effort.fillings -= len(sequence)
            if effort.fillings < 0:
                break
        counts = _greedy(field, sequence)
        if counts is not None:
            return counts
    return _search(field, hardest, effort) if len(field.asks) > 1 else None


def sequences(field: Field) -> Iterator[Sequence[int]]:
    """The orders in which asks are filled: the hardest first, then others."""
    stock = Stock(field.free, field.cards)
    return _orders(_hardest(field, [field.capacity(stock, which) for which in range(len(field.asks))]))


def _hardest(field: Field, capacities: Sequence[Ints]) -> list[int]:
    fitting = [int(np.count_nonzero(capacity)) for capacity in capacities]
    return sorted(range(len(fitting)), key=lambda i: (fitting[i], -field.asks[i].want.share, i))


def fitting_count(field: Field) -> int:
    """How many of all asked pods fit when they are filled as far as they go, one ask after the other."""
    by_share = sorted(range(len(field.asks)), key=lambda i: (field.asks[i].want.share, i))
    return max(_filled(field, by_share), _filled(field, by_share[::-1]))


def _filled(field: Field, sequence: Sequence[int]) -> int:
    stock, total = field.stock(), 0
    for which in sequence:
        capacity = field.capacity(stock, which)
        counts = first_of(capacity, field.asks[which].count)
        field.take(stock, which, counts)
        total += int(counts.sum())
    return total


def _too_much(field: Field) -> bool:
    """True when the asks together are surely above the room. A float with a margin: it only saves work."""
    usable = np.logical_or.reduce(field.masks)
    asked: dict[int, float] = {}
    for ask in field.asks:
        for column, amount in ask.want.asked:
            asked[column] = asked.get(column, 0.0) + float(amount) * ask.count
    return any(
        np.maximum(field.free[usable, column], 0).sum(dtype=np.float64) * (1 + 1e-9) < amount
        for column, amount in asked.items()
    )


def _orders(hardest: Sequence[int]) -> Iterator[Sequence[int]]:
    if len(hardest) <= _ALL_ORDERS:
        yield from permutations(hardest)
        return
    for by in range(len(hardest)):
        yield [*hardest[by:], *hardest[:by]]


def _greedy(field: Field, sequence: Sequence[int]) -> list[Ints] | None:
    stock = field.stock()
    counts: dict[int, Ints] = {}
    for which in sequence:
        filled = field.fill(stock, which)
        if filled is None:
            return None
        counts[which] = filled
        if which != sequence[-1]:
            field.take(stock, which, filled)
    return [counts[which] for which in range(len(field.asks))]


def _search(field: Field, hardest: Sequence[int], effort: Effort) -> list[Ints] | None:
    useful = np.flatnonzero(np.logical_or.reduce(field.masks))
    pods = sum(ask.count for ask in field.asks)
    if len(useful) > _SEARCH_NODES or pods > _SEARCH_PODS:
        return None
    return _Search(field, hardest, useful, effort).run()


class _Search:
    """Depth first over one pod after the other. Equal pods go to nodes in rising order, nodes that look
    the same are tried once, and a state that failed is not entered again."""

    def __init__(self, field: Field, sequence: Sequence[int], nodes: Ints, effort: Effort) -> None:
        self._field = field
        self._effort = effort
        self._nodes = nodes.tolist()
        self._free: list[list[int]] = field.free[nodes].tolist()
        self._cards = field.cards.among(nodes) if field.cards is not None else None
        self._allowed = [field.masks[which][nodes].tolist() for which in range(len(field.asks))]
        #: which ask each pod belongs to, in the order in which pods are placed
        self._pods = [which for which in sequence for _ in range(field.asks[which].count)]
        self._place: list[int] = []
        self._dead: set[tuple[object, ...]] = set()

    def run(self) -> list[Ints] | None:
        if not self._from(0, 0):
            return None
        counts = [np.zeros(len(self._field.free), dtype=np.int64) for _ in self._field.asks]
        for which, node in zip(self._pods, self._place, strict=True):
            counts[which][self._nodes[node]] += 1
        return counts

    def _from(self, pod: int, first: int) -> bool:
        if pod == len(self._pods):
            return True
        state = (pod, first, tuple(map(tuple, self._free)), *map(self._look, range(len(self._nodes))))
        if state in self._dead:
            return False
        tried: set[tuple[object, ...]] = set()
        for node in range(first, len(self._nodes)):
            look = (*self._free[node], *(allowed[node] for allowed in self._allowed), self._look(node))
            if look not in tried and self._put(pod, node):
                return True
            tried.add(look)
        self._dead.add(state)
        return False

    def _look(self, node: int) -> bytes:
        return self._cards.look(node) if self._cards is not None else b""

    def _put(self, pod: int, node: int) -> bool:
        """Try this pod on this node and all that follow; the room is as before when it fails."""
        which, free = self._pods[pod], self._free[node]
        asked = self._field.asks[which].want.asked
        if not self._allowed[which][node] or any(free[column] < amount for column, amount in asked):
            return False
        self._effort.steps -= 1
        if self._effort.steps < 0:
            return False
        shares = self._shares(which, node)
        if shares is None:
            return False
        for column, amount in asked:
            free[column] -= amount
        self._take(node, shares, 1)
        self._place.append(node)
        same = pod + 1 < len(self._pods) and self._pods[pod + 1] == which
        if self._from(pod + 1, node if same else 0):
            return True
        self._place.pop()
        self._take(node, shares, -1)
        for column, amount in asked:
            free[column] += amount
        return False

    def _shares(self, which: int, node: int) -> Shares | None:
        request = self._field.asks[which].want.cards
        if request is None or self._cards is None:
            return ()
        return self._cards.choose(node, request)

    def _take(self, node: int, shares: Shares, sign: int) -> None:
        if self._cards is not None:
            self._cards.take(node, shares, sign)
