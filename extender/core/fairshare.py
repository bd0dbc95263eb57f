"""Who is owed what: the fair share of every queue, and the order of siblings. Integers and rationals only.

Takes the tree, granted guarantees, amounts that there are and that are wanted; gives amounts by queue and
ranks. Must not know groups or nodes.

At each level of the tree and for each resource by itself: first what is guaranteed, wanted or not; then up
to what is deserved; then the rest by weight, and what then is left to queues of weight 0. Nobody gets more
than its capability and than it wants, and each level divides what its queue got from the level above. Where
there is too little of a kind, it is divided in proportion to the guarantees, to the deserved amounts, or to
the weights; single units go where amount per weight is least, by name among equals, so that nobody loses
when there is more to divide.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from extender.core.ids import QueueName
from extender.core.quota import Grants, Position, Sums, Tree
from extender.core.resources import Amounts

_NOTHING: Mapping[str, int] = {}

#: smaller goes first: what borrows comes last, higher priority first, weight 0 last, then by share
Rank = tuple[bool, int, bool, int]
#: two ratios of integers below 2**95 are equal, or differ by more than one part in so many
_PARTS = 190


def divide(
    tree: Tree, granted: Grants, totals: Mapping[str, int], wanted: Mapping[QueueName, Mapping[str, int]]
) -> dict[QueueName, Sums]:
    """The fair share of every queue of the tree, by resource.

    `totals` is what all queues have together; `wanted` what the groups of each queue itself use and wait for.
    """
    shares: dict[QueueName, Sums] = {name: {} for name in tree.downwards}
    for resource, total in totals.items():
        limits = _limits(tree, granted, resource, wanted)
        _level(tree, granted, resource, tree.roots, total, limits, shares)
        for name in tree.downwards:
            children = _at(tree, name).children
            if children:
                _level(tree, granted, resource, children, shares[name].get(resource, 0), limits, shares)
    return shares


def rank(at: Position, used: Mapping[str, int], asked: Amounts, totals: Mapping[str, int]) -> Rank:
    """The place of a queue among its siblings, for a group below it that asks for so much more.

    Whether it is inside what it owns is judged for the resources that are asked for and that it names. Those
    that are come first, by the part of it that they use; the others by the part of the cluster that they use
    beyond it, for their weight (dominant resource fairness).
    """
    owned, priority, weight = at.owned, -at.queue.priority, at.queue.weight
    if inside(at, used, asked):
        parts = [ratio(used.get(r, 0), amount) for r, amount in owned.items() if amount]
        return (False, priority, False, max(parts, default=0))
    parts = [
        ratio(beyond, totals[resource] * (weight or 1))
        for resource, amount in used.items()
        if totals.get(resource) and (beyond := amount - owned.get(resource, 0)) > 0
    ]
    return (True, priority, not weight, max(parts, default=0))


def inside(at: Position, used: Mapping[str, int], asked: Amounts, without: Mapping[str, int] = _NOTHING) -> bool | None:
    """Whether the queue would still be inside what it owns of what is asked for; None when it names nothing of it.

    `without`: as if so much of what is used was not.
    """
    named = [(resource, amount) for resource, amount in asked if resource in at.owned] if at.owned else []
    if not named:
        return None
    return all(used.get(r, 0) - without.get(r, 0) + amount <= at.owned[r] for r, amount in named)


def ratio(amount: int, whole: int) -> int:
    """A number that orders as amount / whole does, exactly, for integers below 2**95."""
    return (amount << _PARTS) // whole


def dominant(used: Mapping[str, int], share: Mapping[str, int]) -> Fraction | None:
    """The largest part of its fair share that a queue uses; None when it uses something of which it has none."""
    if any(not share.get(resource) for resource, amount in used.items() if amount):
        return None
    return max((Fraction(amount, share[resource]) for resource, amount in used.items() if amount), default=Fraction(0))


def fill(amount: int, claims: Sequence[tuple[int, int]]) -> list[int]:
    """Divide an amount among claims of (most, weight): water filling, to the unit. Weight 0 gets nothing.

    The amount goes unit by unit to the claim for which (units it has then) / weight is least, the first among
    equals; this gives the same at once.
    """
    live = [n for n, (most, weight) in enumerate(claims) if most > 0 and weight > 0]
    if sum(claims[n][0] for n in live) <= amount:
        return [most if weight else 0 for most, weight in claims]
    given = [0] * len(claims)
    live.sort(key=lambda n: ratio(*claims[n]))
    weights, left, full = sum(claims[n][1] for n in live), amount, 0
    for n in live:
        most, weight = claims[n]
        if most * weights > left * weight:
            break
        given[n] = most
        left, weights, full = left - most, weights - weight, full + 1
    rest = live[full:]
    for n in rest:
        given[n] = left * claims[n][1] // weights
    heap = [(ratio(given[n] + 1, claims[n][1]), n) for n in rest]
    heapq.heapify(heap)
    for _ in range(left - sum(given[n] for n in rest)):
        _, n = heap[0]
        given[n] += 1
        if given[n] < claims[n][0]:
            heapq.heapreplace(heap, (ratio(given[n] + 1, claims[n][1]), n))
        else:
            heapq.heappop(heap)
    return given


def _level(
    tree: Tree,
    granted: Grants,
    resource: str,
    siblings: Iterable[QueueName],
    amount: int,
    limits: Mapping[QueueName, int],
    shares: dict[QueueName, Sums],
) -> None:
    names = [name for name in siblings if limits[name]]
    most = [limits[name] for name in names]
    kept = [granted.kept.get(name, _NOTHING).get(resource, 0) for name in names]
    owned = [_at(tree, name).owned.get(resource, 0) for name in names]
    weights = [_at(tree, name).queue.weight for name in names]
    got = [0] * len(names)
    for goals, by in ((kept, kept), (owned, owned), (most, weights), (most, [int(not weight) for weight in weights])):
        claims = [
            (max(0, min(goal, limit) - have), weight)
            for goal, limit, have, weight in zip(goals, most, got, by, strict=True)
        ]
        more = fill(amount, claims)
        amount -= sum(more)
        got = [have + new for have, new in zip(got, more, strict=True)]
        if not amount:
            break
    for name, share in zip(names, got, strict=True):
        if share:
            shares[name][resource] = share


def _limits(
    tree: Tree, granted: Grants, resource: str, wanted: Mapping[QueueName, Mapping[str, int]]
) -> dict[QueueName, int]:
    """The most that each queue may get: what it wants and what is kept for it, within its capability."""
    limits: dict[QueueName, int] = {}
    for name in reversed(tree.downwards):
        at = _at(tree, name)
        below = wanted.get(name, _NOTHING).get(resource, 0) + sum(limits[child] for child in at.children)
        most = max(below, granted.kept.get(name, _NOTHING).get(resource, 0))
        limits[name] = min(most, at.capability.get(resource, most))
    return limits


def _at(tree: Tree, name: QueueName) -> Position:
    found = tree.at(name)
    assert found is not None
    return found
