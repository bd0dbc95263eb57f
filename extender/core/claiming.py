"""What could be taken back at once is not lent: who waits for room that its queue owns holds that back from borrowers.

Takes groups as they are refused, and what queues use; gives for a group that wants to borrow what groups of other
queues hold back from it. Must not place.

The rule is that of reclaim, seen from the other side (`eligible`): a group holds back from one of another queue when
its own side, below the lowest queue that both have above them, stays inside what it owns with it, and no level of the
other side does. Of a queue these are the groups, in their order, that can be so together. As in reclaim, a side's own
work of lower priority counts as gone where it may be evicted: who could make room below itself does not borrow.

Of each queue the first few groups are known that wait for room and could start at all; which of them hold back is
asked when somebody would borrow, as that changes with all that is used.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from extender.core.claims import Claim, borrows
from extender.core.ids import GroupKey, QueueName
from extender.core.model import Constraints
from extender.core.ordering import OrderKey
from extender.core.quota import Sums, Tree
from extender.core.resources import Amounts, add
from extender.core.usage import Usage
from extender.core.world import World

#: so many groups of a queue are known
MOST = 8

#: what the evictable groups of a queue use that are of lower priority than this
Lower = Callable[[QueueName, int], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Claimant:
    """A waiting group that could start if nothing else ran: its place in its queue, what it asks for, and where."""

    key: GroupKey
    order: OrderKey
    asked: Amounts
    constraints: frozenset[Constraints]


@dataclass(slots=True, eq=False)
class _Held:
    """What is held back from a side, as long as nothing changes."""

    usage: Usage
    changes: tuple[int, int]
    by: list[Claim]


class Claiming:
    """The first groups of each queue that wait for room."""

    def __init__(self, world: World, lower: Lower) -> None:
        self._world = world
        self._lower = lower
        self._of: dict[QueueName, list[Claimant]] = {}
        self._queue: dict[GroupKey, QueueName] = {}
        #: grows with each change of who is known
        self._changes = 0
        #: by the levels of the side that would borrow
        self._known: dict[tuple[QueueName, ...], _Held] = {}
        #: by queue and levels: what was used of these, and what the queue holds back then
        self._each: dict[tuple[QueueName, ...], tuple[list[Mapping[str, int]], list[Claim]]] = {}

    def reset(self) -> None:
        """Nobody waits."""
        self._of.clear()
        self._queue.clear()
        self.begin()

    def begin(self) -> None:
        """Others may be evictable now."""
        self._known.clear()
        self._each.clear()

    def has(self, key: GroupKey) -> bool:
        """True when the group is among the first few of its queue."""
        return key in self._queue

    def is_early(self, queue: QueueName, key: GroupKey, order: OrderKey, asked: Amounts, tree: Tree) -> bool:
        """True when the group is among the first few of its queue, or would be. Who asks for more than the queue owns
        at its lowest level never is."""
        owned = next((at.owned for name in tree.path(queue) if (at := tree.at(name)) is not None and at.owned), {})
        if not owned or any(amount > owned[resource] for resource, amount in asked if resource in owned):
            return False
        there = self._of.get(queue, [])
        return len(there) < MOST or key in self._queue or order < there[-1].order

    def put(self, queue: QueueName, claimant: Claimant) -> None:
        """The group waits for room."""
        there = self._of.get(queue, [])
        if self._queue.get(claimant.key) == queue and claimant in there:
            return
        self.drop(claimant.key)
        known = self._of.setdefault(queue, [])
        insort(known, claimant, key=lambda one: one.order)
        self._queue[claimant.key] = queue
        if len(known) > MOST:
            del self._queue[known.pop().key]
        self._changed(queue)

    def drop(self, key: GroupKey) -> bool:
        """The group does not wait for room any more; True when it was among the first."""
        queue = self._queue.pop(key, None)
        if queue is None:
            return False
        left = [one for one in self._of[queue] if one.key != key]
        if left:
            self._of[queue] = left
        else:
            del self._of[queue]
        self._changed(queue)
        return True

    def _changed(self, queue: QueueName) -> None:
        self._changes += 1
        self._each = {levels: known for levels, known in self._each.items() if levels[0] != queue}

    def against(self, key: GroupKey, usage: Usage, asked: Mapping[str, int]) -> Iterable[Claim]:
        """What is held back from this group if it takes so much."""
        tree = usage.tree
        if not self._of or tree.owned.isdisjoint(resource for resource, amount in asked.items() if amount):
            return ()
        queue, priority = self._world.queue_of(key), self._world.priority(key)
        path, lower = tree.path(queue), self._lower(queue, priority)
        sides = (path[:end] for end in range(1, len(path) + 1))
        return [
            claim for side in sides if borrows(usage, side, asked, lower) for claim in self._from(side, queue, usage)
        ]

    def _from(self, side: tuple[QueueName, ...], queue: QueueName, usage: Usage) -> list[Claim]:
        """What is held back from a side by those who stand below the same queue, and not below the side itself."""
        known = self._known.get(side)
        changes = (usage.changes, self._changes)
        if known is None or known.usage is not usage or known.changes != changes:
            known = self._known[side] = _Held(usage, changes, self._made(side, queue, usage))
        return known.by

    def _made(self, side: tuple[QueueName, ...], queue: QueueName, usage: Usage) -> list[Claim]:
        above = usage.tree.path(queue)[len(side) :]
        most: dict[frozenset[Constraints], Claim] = {}
        for other in sorted(self._of):
            path = usage.tree.path(other)
            depth = len(path) - len(above)
            if depth < 1 or path[depth:] != above or path[depth - 1] == side[-1]:
                continue
            for claim in self._of_queue(path[:depth], usage):
                there = most.get(claim.constraints)
                if there is None:
                    there = most[claim.constraints] = Claim(claim.key, claim.constraints)
                for resource, amount in claim.asked.items():  # each for itself: what is free may be for either
                    if amount > there.asked.get(resource, 0):
                        there.asked[resource], there.key = amount, claim.key
        return list(most.values())

    def _of_queue(self, levels: tuple[QueueName, ...], usage: Usage) -> list[Claim]:
        used = [usage.of(name) for name in levels]
        known = self._each.get(levels)
        if known is None or known[0] != used:
            known = self._each[levels] = ([dict(sums) for sums in used], list(self._add_up(levels, usage)))
        return known[1]

    def _add_up(self, levels: tuple[QueueName, ...], usage: Usage) -> Iterable[Claim]:
        queue = levels[0]
        owners = [(at.owned, usage.of(name)) for name in levels if (at := usage.tree.at(name)) is not None and at.owned]
        taken: Sums = {}
        found: dict[frozenset[Constraints], Claim] = {}
        for one in self._of[queue] if owners else ():
            if _are_inside(owners, one.asked, self._lower(queue, -one.order[0]), taken):
                claim = found.setdefault(one.constraints, Claim(one.key, one.constraints))
                for sums in (claim.asked, taken):
                    add(sums, one.asked)
        return found.values()


def _are_inside(
    owners: Iterable[tuple[Mapping[str, int], Mapping[str, int]]],
    asked: Amounts,
    lower: Mapping[str, int],
    taken: Mapping[str, int],
) -> bool:
    """True when so much is inside what is owned of it at each level, beside what others of the queue take."""
    fits = [
        used.get(resource, 0) - lower.get(resource, 0) + taken.get(resource, 0) + amount <= owned[resource]
        for owned, used in owners
        for resource, amount in asked
        if amount and resource in owned
    ]
    return bool(fits) and all(fits)
