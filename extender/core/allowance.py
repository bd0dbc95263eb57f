"""What a group may still take by its queue: the scratch of one plan, as `Room` is for the nodes.

Takes usage, the group's queue and the room; gives a refusal with its numbers, or None; must not place.

Two rules (design section 9, invariant 3). No queue on the path exceeds its capability. What others are
guaranteed and do not use stays free: of the cluster, and below each queue within its capability; only who
takes it out of a guarantee of its own need not look at that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from extender.core.ids import QueueName
from extender.core.model import Shape
from extender.core.quota import Sums
from extender.core.reasons import Reason, Refusal
from extender.core.snapshot import Room
from extender.core.usage import Usage

_NOTHING: Mapping[str, int] = {}


@dataclass(slots=True)
class Allowance:
    """Made for one group's turn; `take` notes what its plan uses up."""

    usage: Usage
    queue: QueueName
    room: Room
    _taken: Sums = field(default_factory=dict)
    _limited: bool = field(init=False)

    def __post_init__(self) -> None:
        capped = any(at.capability for name in self._path if (at := self.usage.tree.at(name)) is not None)
        self._limited = capped or bool(self.usage.grants.kept)

    @property
    def _path(self) -> tuple[QueueName, ...]:
        return self.usage.tree.path(self.queue)

    def refusal(self, pods: Iterable[tuple[Shape, int]]) -> Refusal | None:
        """Why these, so many of each shape, may not be taken together; None when they may."""
        if not self._limited:
            return None
        asked = _sum(pods)
        return over_capability(self.usage, self.queue, asked, self._taken) or self._promised(asked)

    def take(self, pods: Iterable[tuple[Shape, int]]) -> None:
        """Count these as used from now on."""
        if self._limited:
            for resource, amount in _sum(pods).items():
                self._taken[resource] = self._taken.get(resource, 0) + amount

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
                numbers = (("resource", resource), ("asked", amount), ("capability", most))
                return Refusal(Reason.RESERVED, (("queue", name), *numbers))
        kept = usage.unused.get(resource, 0) + grown[-1][1] - amount - taken
        if not kept or not grown[-1][1]:
            return None
        free = self.room.usable(resource)
        if free - amount >= kept:
            return None
        return Refusal(Reason.RESERVED, (("resource", resource), ("asked", amount), ("free", free), ("kept", kept)))


def over_capability(
    usage: Usage, queue: QueueName, asked: Mapping[str, int], taken: Mapping[str, int] = _NOTHING
) -> Refusal | None:
    """Which queue, from this one up, would exceed its capability if so much more was taken; None when none would."""
    for name in usage.tree.path(queue):
        at, used = usage.tree.at(name), usage.of(name)
        for resource, most in at.capability.items() if at is not None else ():
            amount, there = asked.get(resource, 0), used.get(resource, 0) + taken.get(resource, 0)
            if amount and there + amount > most:
                numbers = (("resource", resource), ("asked", amount), ("used", there), ("capability", most))
                return Refusal(Reason.QUOTA, (("queue", name), *numbers))
    return None


def _sum(pods: Iterable[tuple[Shape, int]]) -> Sums:
    asked: Sums = {}
    for shape, count in pods:
        for resource, amount in shape.request:
            asked[resource] = asked.get(resource, 0) + amount * count
    return asked
