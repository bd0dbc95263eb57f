"""What a group may still take by its queue: the scratch of one plan, as `Room` is for the nodes.

Takes usage, the group's queue and the room; gives a refusal with its numbers, or None; must not place.

Five rules (design section 9, invariants 3 and 5, and section 5, steps 3 and 6). No queue on the path exceeds its
capability. Work that nobody may evict stays inside what its queue owns.
What others are guaranteed and do not use stays free: of the cluster, and below each queue within its capability;
only who takes it out of a guarantee of its own need not look at that. And who borrows leaves the nodes on which a
group waits that its queue owes what it asks for, unless there is enough for both. Who comes behind others leaves what
is kept for them (`headroom`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from extender.core import claims
from extender.core.headroom import FREE, Behind
from extender.core.ids import GroupKey, QueueName
from extender.core.matching import Mask
from extender.core.model import Shape
from extender.core.quota import Sums
from extender.core.reasons import Reason, Refusal
from extender.core.resources import GPU, GPU_SHARE, Row, add, told
from extender.core.snapshot import Room
from extender.core.usage import Usage

_NOTHING: Mapping[str, int] = {}
#: what is the same in the other way of counting GPUs
_OTHERWISE = {GPU: GPU_SHARE, GPU_SHARE: GPU}


@dataclass(frozen=True, slots=True, eq=False)
class Barred:
    """Rows that must not be used, and one of those for whom they are kept."""

    rows: Mask
    by: GroupKey


@dataclass(slots=True)
class Allowance:
    """Made for one group's turn; `take` notes what its plan uses up."""

    usage: Usage
    queue: QueueName
    room: Room
    #: what others hold back from it
    claims: claims.Against = claims.nothing
    #: for a group that nobody may evict: what all such work uses of each queue
    firm: Mapping[QueueName, Mapping[str, int]] | None = None
    behind: Behind = FREE
    _taken: Sums = field(default_factory=dict)
    _limited: bool = field(init=False)

    def __post_init__(self) -> None:
        capped = any(at.capability for name in self._path if (at := self.usage.tree.at(name)) is not None)
        self._limited = capped or bool(self.usage.grants.kept) or self.firm is not None

    @property
    def _path(self) -> tuple[QueueName, ...]:
        return self.usage.tree.path(self.queue)

    def aside(self, room: Room) -> Allowance:
        """The same for a plan that is only tried, in a room of its own."""
        return Allowance(self.usage, self.queue, room, self.claims, self.firm, self.behind.aside(), dict(self._taken))

    def refusal(self, pods: Iterable[tuple[Shape, int]]) -> Refusal | None:
        """Why these, so many of each shape, may not be taken together; None when they may."""
        if not self._limited:
            return None
        asked = _sum(pods)
        capped = over_capability(self.usage, self.queue, asked, self._taken)
        return capped or self._borrowed(asked) or self._promised(asked) or self._kept(asked)

    def barred(self, pods: Iterable[tuple[Shape, int]]) -> Barred | None:
        """The nodes that these must leave to groups that wait there for what their queues own; None when none."""
        if self.claims is claims.nothing:
            return None
        asked = _sum(pods)
        mine = {resource: amount + self._taken.get(resource, 0) for resource, amount in asked.items()}
        barred: Barred | None = None
        for claim in self.claims(self.usage, mine):
            rows = self.room.snapshot.facts.open_to(claim.constraints)
            if any(self.room.usable_on(rows, r) - asked[r] < amount for r, amount in claim.asked.items() if r in asked):
                barred = Barred(rows if barred is None else barred.rows | rows, claim.key)
        return barred

    def take(self, pods: Iterable[tuple[Shape, int]]) -> None:
        """Count these as used from now on."""
        if self._limited or self.claims is not claims.nothing:
            add(self._taken, _sum(pods).items())

    def lend(self, places: Iterable[tuple[int, Row]], pods: Iterable[tuple[Shape, int]]) -> None:
        """Count these as given back in time to the heads that will have ended by then what is taken now."""
        if self.behind.lenders:
            self.behind.take(tuple(places), self._path, _sum(pods))

    def _kept(self, asked: Sums) -> Refusal | None:
        """The head of which the queues' capabilities would have too little left; None when there is enough for all."""
        for name in self._path if self.behind.marks else ():
            at, used = self.usage.tree.at(name), self.usage.of(name)
            for mark, kept in self.behind.kept(name):
                for resource, most in at.capability.items() if at is not None else ():
                    amount, needed = asked.get(resource, 0), max(0, kept.get(resource, 0))
                    if amount and used.get(resource, 0) + self._taken.get(resource, 0) + amount + needed > most:
                        return mark.refusal(self.behind.seconds)
        return None

    def _borrowed(self, asked: Sums) -> Refusal | None:
        """Who may not be evicted may not borrow, and all such work of a queue counts together."""
        if self.firm is None:
            return None
        tree = self.usage.tree
        for resource, amount in asked.items():
            if not amount or resource not in tree.owned:
                continue
            owned = [(n, at.owned) for n in self._path if (at := tree.at(n)) is not None]
            owners = [(n, amounts[resource]) for n, amounts in owned if resource in amounts]
            if not owners and any(_OTHERWISE.get(resource) in amounts for _, amounts in owned):
                continue  # owned in the other way of counting
            for name, most in owners or [(self.queue, 0)]:
                used = self.firm.get(name, _NOTHING).get(resource, 0) + self._taken.get(resource, 0)
                if used + amount > most:
                    numbers = told(resource, asked=amount, used=used, owned=most)
                    return Refusal(Reason.FIRM, (("queue", name), *numbers))
        return None

    def _promised(self, asked: Sums) -> Refusal | None:
        for resource, amount in asked.items() if self.usage.grants.kept else ():
            found = self._promised_of(resource, amount)
            if found is not None:
                return found
        return None

    def _promised_of(self, resource: str, amount: int) -> Refusal | None:
        usage, taken = self.usage, self._taken.get(resource, 0)
        if not usage.unused.get(resource):
            return None
        grown = usage.commits(self.queue, resource, amount + taken)
        for name, more in grown:
            at = usage.tree.at(name)
            most = None if at is None else at.capability.get(resource)
            if more and most is not None and usage.committed(name, resource) + more > most:
                numbers = told(resource, asked=amount, capability=most)
                return Refusal(Reason.RESERVED, (("queue", name), *numbers))
        kept = usage.unused.get(resource, 0) + grown[-1][1] - amount - taken
        if not kept or not grown[-1][1]:
            return None
        free = self.room.usable(resource)
        if free - amount >= kept:
            return None
        return Refusal(Reason.RESERVED, told(resource, asked=amount, free=free, kept=kept))


def over_capability(
    usage: Usage, queue: QueueName, asked: Mapping[str, int], taken: Mapping[str, int] = _NOTHING
) -> Refusal | None:
    """Which queue, from this one up, would exceed its capability if so much more was taken; None when none would."""
    for name, resource, there, most in excesses(usage, queue, asked, taken):
        numbers = told(resource, asked=asked[resource], used=there, capability=most)
        return Refusal(Reason.QUOTA, (("queue", name), *numbers))
    return None


def excesses(
    usage: Usage, queue: QueueName, asked: Mapping[str, int], taken: Mapping[str, int] = _NOTHING
) -> Iterator[tuple[QueueName, str, int, int]]:
    """Each queue, from this one up, that would exceed its capability: of which resource, what is used, and the cap."""
    for name in usage.tree.path(queue):
        at, used = usage.tree.at(name), usage.of(name)
        for resource, most in at.capability.items() if at is not None else ():
            amount, there = asked.get(resource, 0), used.get(resource, 0) + taken.get(resource, 0)
            there += usage.withheld.get((name, resource), 0)
            if amount and there + amount > most:
                yield name, resource, there, most


def _sum(pods: Iterable[tuple[Shape, int]]) -> Sums:
    asked: Sums = {}
    for shape, count in pods:
        add(asked, shape.request, count)
    return asked
