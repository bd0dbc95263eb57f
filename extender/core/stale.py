"""Gangs that were hurt and stay below their minimum: kept, or evicted whole, as their queue says.

Takes groups whose members changed and the time, gives evictions; must not choose victims for anybody's sake.

What is left of a gang below its minimum holds room and does no work, most often. How long that is borne is said by
the queue (`staleSeconds`), else by the nearest queue above it that says it; if none does, for ever. Then the whole
gang goes, those of its pods too that nobody would replace, and those that are not preemptible: it makes way for
nobody, it has ended; and who set the time wants the room back. Not evicted is
- a gang that never reached its minimum in our time: the permit gate sees to half of a start;
- while any of its members is planned, or held at the gate: it is about to be whole;
- a gang with bound members of another scheduler: it would not go whole.

    whole ──a member lost──> below ──whole again, or nobody is left──> forgotten
                               └──staleSeconds──> goes as a whole (`wholes`) ──refused──> below, from then on anew

Nothing here survives a restart: what is found below its minimum then counts as hurt at that moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from extender.core.ids import GroupKey
from extender.core.membership import STARTED, Need, satisfied
from extender.core.messages import Evict, NoteEviction
from extender.core.model import Pod
from extender.core.plans import Plans
from extender.core.reasons import Detail, Ground
from extender.core.usage import Usage
from extender.core.wholes import TRIES, Wholes, pause
from extender.core.world import World

#: gangs below their minimum are looked at so often
LOOK_SECONDS = 1.0


@dataclass(slots=True)
class _Below:
    """A gang below its minimum."""

    since: float
    #: it was to go, and was refused until then
    not_before: float = 0.0


class Stale:
    """Since when gangs are below their minimum."""

    def __init__(self, world: World, plans: Plans, usage: Usage, wholes: Wholes) -> None:
        self._world = world
        self._plans = plans
        self._usage = usage
        self._wholes = wholes
        self._below: dict[GroupKey, _Below] = {}
        self._look_at = float("-inf")

    def reset(self) -> None:
        """Forget the times."""
        self._below.clear()
        self._look_at = float("-inf")

    def note(self, key: GroupKey, now: float) -> None:
        """The group had reached its minimum before, and does not now."""
        if self._need_below(key) is None:
            self.forget(key)
        elif key not in self._below:
            self._below[key] = _Below(now)

    def forget(self, key: GroupKey) -> None:
        """The group has its minimum, never had it, or has no members any more."""
        self._below.pop(key, None)

    def look(self, now: float) -> list[Evict | NoteEviction]:
        """When it is time: the evictions of gangs that were below their minimum for too long."""
        if now < self._look_at:
            return []
        self._look_at = now + LOOK_SECONDS
        return [effect for key in self._below for effect in self._judge(key, now)]

    def seconds(self, key: GroupKey) -> int | None:
        """How long the group's queue bears it below its minimum; None for ever."""
        for name in self._usage.tree.path(self._world.queue_of(key)):
            at = self._usage.tree.at(name)
            if at is not None and at.queue.stale is not None:
                return at.queue.stale
        return None

    def _need_below(self, key: GroupKey) -> Need | None:
        """The gang's need, if some of it is bound and less than that."""
        need, tally = self._world.need(key), self._world.tallies.get(key)
        if key.lone or tally is None or not isinstance(need, Need):
            return None
        return need if self._wholes.bound(key) and not satisfied(need, tally) else None

    def _judge(self, key: GroupKey, now: float) -> list[Evict | NoteEviction]:
        seconds, below = self.seconds(key), self._below[key]
        if self._wholes.going(key):
            below.since, below.not_before = now, now + pause(TRIES)
            return []
        if seconds is None or now < max(below.since + seconds, below.not_before):
            return []
        need, bound = self._need_below(key), self._wholes.bound(key)
        if need is None or self._plans.on_their_way(key) or not all(pod.ours for pod in bound):
            return []
        return self._evict(key, need, bound, seconds, now)

    def _evict(
        self, key: GroupKey, need: Need, bound: Sequence[Pod], seconds: int, now: float
    ) -> list[Evict | NoteEviction]:
        detail: Detail = (
            ("group", f"{key.namespace}/{key.name}"),
            ("queue", self._world.queue_of(key)),
            ("have", self._world.tallies[key].count(*STARTED)),
            ("minimum", need.min_member),
            ("seconds", seconds),
        )
        group = self._world.groups.get(key)
        note = [] if group is None or not key.told else [NoteEviction(key, group.uid, Ground.STALE, now, detail)]
        return [*note, *self._wholes.ask(bound, Ground.STALE, detail)]
