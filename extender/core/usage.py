"""What each queue uses, at every level of the tree, kept up to date by what is added and taken away.

Takes amounts charged to groups (bound and terminating pods, and reservations), gives sums by queue; must not
decide. Which queue a group is in is asked of the world, and asked again (`settle`) when that may have changed.

Guarantees are counted with it: `committed` is what a queue uses or keeps, whichever is more, so the difference
of both at the top, `unused`, is what must stay free for those to whom it is promised.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from extender.core.ids import GroupKey, QueueName
from extender.core.quota import Grants, Sums, Tree
from extender.core.resources import GPU_SHARE, Amounts, add

_NOTHING: Mapping[str, int] = {}

#: a group, the queue that its pod itself names (None: the group's queue), and amounts
Charge = tuple[GroupKey, QueueName | None, Amounts]


@dataclass(slots=True)
class _Charged:
    """How often a group is charged with which amounts, and which queue its pods name themselves (None: the group's)."""

    queue: QueueName
    of: dict[tuple[QueueName | None, Amounts], int] = field(default_factory=dict)


class Usage:
    """Sums by queue. Invariant: a queue's sum is that of the groups charged to it and to the queues below."""

    def __init__(self, queue_of: Callable[[GroupKey], QueueName]) -> None:
        self._queue_of = queue_of
        self._groups: dict[GroupKey, _Charged] = {}
        #: by queue, the groups that use something
        self._of_queue: dict[QueueName, dict[GroupKey, None]] = {}
        #: groups that took charges to another queue, since this was last asked
        self._moved: dict[GroupKey, None] = {}
        self._total: dict[QueueName, Sums] = {}
        #: grows with each change of a sum
        self.changes = 0
        self.tree = Tree({})
        self.grants = Grants({}, {})
        #: resources of which something is kept; of others nothing more is counted
        self._kept: frozenset[str] = frozenset()
        #: by queue: its own use and what the queues below it commit
        self._base: dict[QueueName, Sums] = {}
        #: kept and not used, of the whole cluster
        self.unused: Sums = {}
        #: a count that is made anew beside this one follows it
        self._recount: Recount | None = None
        #: what was used when a round began and is free since: below a cap it is left to the next round
        self.withheld: Mapping[tuple[QueueName, str], int] = {}
        #: told of each group of which the charges change, or their queue
        self.changed: Callable[[GroupKey], None] | None = None

    def follow(self, tree: Tree, grants: Grants) -> bool:
        """Count for another tree, or other guarantees; False when they are the same."""
        same = tree is self.tree and grants.kept == self.grants.kept
        self.tree, self.grants = tree, grants
        if same:
            return False
        self._recount = None
        self._kept = frozenset(resource for amounts in grants.kept.values() for resource in amounts)
        self._total.clear()
        self._base.clear()
        self.unused = {}
        for name in reversed(tree.downwards):
            for resource, amount in grants.kept.get(name, _NOTHING).items():
                self._promise(name, resource, amount)
        for group in self._groups.values():
            for (named, amounts), number in group.of.items():
                self.book(named or group.queue, amounts, number)
        return True

    def emptied(self) -> Usage:
        """The sums that there would be if nothing was used."""
        there = Usage(self._queue_of)
        there.follow(self.tree, self.grants)
        return there

    def charge(self, key: GroupKey, named: QueueName | None, amounts: Amounts, sign: int) -> None:
        """Add amounts to a group (sign 1) or take them away (sign -1); `named`: the queue that the pod itself names."""
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Charged(self._queue_of(key))
            self._of_queue.setdefault(group.queue, {})[key] = None
        charged = (named, amounts)
        number = group.of[charged] = group.of.get(charged, 0) + sign
        if not number:
            del group.of[charged]
            if not group.of:
                del self._groups[key]
                self._strike(key, group.queue)
                self._moved.pop(key, None)
        if self.changed is not None:
            self.changed(key)
        self.book(named or group.queue, amounts, sign)
        if self._recount is not None:
            self._recount.charged(key, named, amounts, sign)

    def scratch(self) -> Usage:
        """A copy of the sums in which absences can be simulated (`book`); it does not follow what is charged here."""
        copy = Usage(self._queue_of)
        copy.tree, copy.grants, copy._kept, copy.unused = self.tree, self.grants, self._kept, dict(self.unused)
        copy._total = {name: dict(sums) for name, sums in self._total.items()}
        copy._base = {name: dict(sums) for name, sums in self._base.items()}
        return copy

    def groups(self) -> Iterable[GroupKey]:
        """The groups that use something."""
        return self._groups.keys()

    def groups_of(self) -> Mapping[QueueName, Collection[GroupKey]]:
        """The same, by the queue of each group. Its pods may be charged to others, which they name themselves."""
        return self._of_queue

    def charges(self, key: GroupKey) -> Iterator[tuple[QueueName, Amounts, int]]:
        """What a group is charged with: in which queue, what, and how often."""
        group = self._groups.get(key)
        if group is not None:
            for (named, amounts), number in group.of.items():
                yield named or group.queue, amounts, number

    def settle(self, key: GroupKey) -> None:
        """Charge the group to the queue that it is in now."""
        if self._recount is not None:
            self._recount.sums.settle(key)
        group = self._groups.get(key)
        if group is None:
            return
        queue = self._queue_of(key)
        if queue == group.queue:
            return
        for (named, amounts), number in group.of.items():
            if named is None:
                self.book(group.queue, amounts, -number)
                self.book(queue, amounts, number)
                self._moved[key] = None
        if self.changed is not None:
            self.changed(key)
        self._strike(key, group.queue)
        self._of_queue.setdefault(queue, {})[key] = None
        group.queue = queue

    def _strike(self, key: GroupKey, queue: QueueName) -> None:
        there = self._of_queue[queue]
        del there[key]
        if not there:
            del self._of_queue[queue]

    def take_moved(self) -> list[GroupKey]:
        """Groups that took what they use to another queue, since this was last asked."""
        moved, self._moved = list(self._moved), {}
        return moved

    def settle_namespace(self, namespace: str) -> None:
        """The same for all groups of a namespace."""
        if self._recount is not None:
            self._recount.sums.settle_namespace(namespace)
        for key in self._groups:
            if key.namespace == namespace:
                self.settle(key)

    def of(self, name: QueueName) -> Mapping[str, int]:
        """What the queue and those below it use; zeros are left out."""
        return self._total.get(name, _NOTHING)

    def shared(self, free: Sums) -> Sums:
        """What all queues have together: what they use, and what is free, to which it is added."""
        for root in self.tree.roots:
            add(free, self.of(root).items())
        return free

    def recount(self, keys: Iterable[GroupKey]) -> Recount:
        """Begin to count these groups anew, beside what is charged meanwhile; of two counts the newer one goes on."""
        self._recount = Recount(self.emptied(), dict.fromkeys(keys))
        return self._recount

    def differing(self, recount: Recount) -> frozenset[QueueName] | None:
        """Queues of which a count that is complete makes another sum; None when the queues changed meanwhile."""
        if recount is not self._recount:
            return None
        self._recount, anew = None, recount.sums
        return frozenset(name for name in self._total.keys() | anew._total.keys() if self.of(name) != anew.of(name))

    def commits(self, queue: QueueName, resource: str, amount: int) -> list[tuple[QueueName, int]]:
        """By how much what is committed would grow at each level from this queue up, if so much more was charged."""
        grown = []
        for name in self.tree.path(queue):
            kept = self.grants.kept.get(name, _NOTHING).get(resource, 0)
            base = self._base.get(name, _NOTHING).get(resource, 0)
            amount = max(kept, base + amount) - max(kept, base)
            grown.append((name, amount))
        return grown

    def committed(self, name: QueueName, resource: str) -> int:
        """What the queue uses or keeps."""
        kept = self.grants.kept.get(name, _NOTHING).get(resource, 0)
        return max(kept, self._base.get(name, _NOTHING).get(resource, 0))

    def book(self, queue: QueueName, amounts: Amounts, number: int) -> None:
        """Count so many times these amounts in a queue, and in those above, for no group in particular."""
        self.changes += 1
        if not self.tree.by_share:
            amounts = tuple(one for one in amounts if one[0] != GPU_SHARE)
        for name in self.tree.path(queue):
            total = self._total.get(name)
            if total is None:
                total = self._total[name] = {}
            _add(total, amounts, number)
            if not total:
                del self._total[name]
        for resource, amount in amounts if self._kept else ():
            if resource in self._kept:
                self._commit(queue, resource, number * amount)

    def _commit(self, queue: QueueName, resource: str, amount: int) -> None:
        step = amount
        for name, grown in self.commits(queue, resource, amount):
            _add(self._base.setdefault(name, {}), ((resource, step),), 1)
            step = grown
        _add(self.unused, ((resource, step - amount),), 1)

    def _promise(self, name: QueueName, resource: str, amount: int) -> None:
        """Nothing is used yet, and the queues below have been counted: what is kept beyond theirs is new above."""
        base = self._base.get(name, _NOTHING).get(resource, 0)
        above = self.tree.path(name)[1:2]
        to = self._base.setdefault(above[0], {}) if above else self.unused
        _add(to, ((resource, max(amount, base)),), 1)


class Recount:
    """The sums once more, counted group by group. What is charged meanwhile counts at once, but for groups that are
    still to be counted: so that in the end both are of the same moment."""

    def __init__(self, sums: Usage, left: dict[GroupKey, None]) -> None:
        #: as far as they are counted
        self.sums = sums
        self._left = left

    def count(self, key: GroupKey, charges: Iterable[Charge]) -> None:
        """The next group, with all that it is charged with now."""
        del self._left[key]
        for charge in charges:
            self.sums.charge(*charge, 1)

    def charged(self, key: GroupKey, named: QueueName | None, amounts: Amounts, sign: int) -> None:
        """A group was charged meanwhile."""
        if key not in self._left:
            self.sums.charge(key, named, amounts, sign)


def _add(sums: Sums, amounts: Iterable[tuple[str, int]], number: int) -> None:
    for resource, amount in amounts:
        new = sums.get(resource, 0) + number * amount
        if new:
            sums[resource] = new
        else:
            sums.pop(resource, None)
