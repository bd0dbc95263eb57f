"""The groups of one queue that matter for who may be evicted: some of them may go, the others are protected.

Takes groups as they are judged, gives them with the sums of both kinds; must not judge. A lot is kept up as groups
change, for as long as nothing else that protects them may have.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.core.absence import Absence
from extender.core.eligible import Holder
from extender.core.ids import GroupKey
from extender.core.reasons import Detail
from extender.core.world import World


class Lot:
    """Some groups of one queue: who of them may go, who is protected and by what, and until when at least."""

    def __init__(self, world: World, shape: tuple[int, ...]) -> None:
        """`shape` is that of the room's array."""
        self.free: dict[GroupKey, Holder] = {}
        self.going = Absence(world, shape)
        self.barred = Absence(world, shape)
        #: each group that is protected, and by what
        self._bars: dict[GroupKey, tuple[Holder, Detail]] = {}
        self._passing: set[GroupKey] = set()
        #: where groups are, or were, that are or were in it
        self.namespaces: set[str] = set()

    @property
    def lasting(self) -> bool:
        """True when only what happens to its groups can change it."""
        return not self._passing

    @property
    def names(self) -> frozenset[tuple[str, str | int]]:
        """What protects groups, each by name."""
        return frozenset(name for _, bar in self._bars.values() for name in bar)

    @property
    def until(self) -> float:
        """When the first of the protected is protected no more by time alone."""
        return min((holder.until for holder, _ in self._bars.values() if holder.bar), default=float("inf"))

    def put(self, judged: Iterable[tuple[Holder, Detail]]) -> None:
        """Take these in, each with what protects it (() when nothing does); none of them may be in it."""
        free: list[Holder] = []
        for holder, bar in judged:
            self.namespaces.add(holder.key.namespace)
            if bar:
                self._bars[holder.key] = (holder, bar)
                self.barred.add(holder.pods)
            else:
                self.free[holder.key] = holder
                free.append(holder)
            if not holder.lasting:
                self._passing.add(holder.key)
        self.going.add(pod for holder in free for pod in holder.pods)

    def drop(self, key: GroupKey) -> None:
        """Forget this group, if it is in it."""
        self._passing.discard(key)
        if (holder := self.free.pop(key, None)) is not None:
            self.going.remove(pod.uid for pod in holder.pods)
        elif (barred := self._bars.pop(key, None)) is not None:
            self.barred.remove(pod.uid for pod in barred[0].pods)
