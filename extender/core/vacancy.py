"""Group objects that have no members: why they wait, and when that is written into them.

Takes which groups have lost their last member, or have none yet; gives the reason when asked, and statements within
a budget; must not look at pods. There may be ten thousand such objects, left over or made ahead of their pods: of
each there is a time at most, and what was written last.

Only objects of ours are written to: those of other sources have controllers of their own, which make them long
before the pods (Volcano lets the pods be made when the object says so).
"""

from __future__ import annotations

import heapq

from extender.core import stating
from extender.core.ids import GroupKey, Source
from extender.core.membership import Tally
from extender.core.messages import StateGroup
from extender.core.planning import EXPECT_SECONDS, Entry, members_missing
from extender.core.reasons import Reason, Refusal
from extender.core.usage import Usage
from extender.core.world import World

#: so many statements at most, each second
STATEMENTS = 20
LOOK_SECONDS = 1.0
_NOTHING_SAID = ("", "", 0)


class Vacancy:
    """The groups without members. `_due` has when to look at one; entries of the heap that differ from it are old."""

    def __init__(self, world: World, usage: Usage) -> None:
        self._world = world
        self._usage = usage
        self._due: dict[GroupKey, float] = {}
        self._heap: list[tuple[float, GroupKey]] = []
        #: phase, reason and generation that were last written to each
        self._said: dict[GroupKey, tuple[str, str, int]] = {}
        self._doubted = False
        self._look_at = float("-inf")

    def reset(self) -> None:
        """Forget what was written, and what was to be."""
        self._due.clear()
        self._heap.clear()
        self._said.clear()
        self._look_at = float("-inf")

    def why(self, key: GroupKey) -> Refusal | None:
        """Why this group waits, if it has an object and no members."""
        if key in self._world.members or key not in self._world.groups:
            return None
        need = self._world.need(key)
        if isinstance(need, Refusal) and need.reason is Reason.INVALID:
            return need
        refused = self._usage.tree.refusal(self._world.queue_of(key), key.namespace)
        refused = refused or self._world.no_class(key)
        return refused or (need if isinstance(need, Refusal) else members_missing(need, Tally()))

    # --- what happens to groups -----------------------------------------------------------------

    def emptied(self, entry: Entry, now: float) -> None:
        """The group's last member is gone, and its record goes."""
        if entry.stated != _NOTHING_SAID:
            self._said[entry.key] = entry.stated
        self.look_at(entry.key, now)

    def filled(self, key: GroupKey) -> tuple[str, str, int]:
        """The group has a member; what was last written to its object."""
        self._due.pop(key, None)
        return self._said.pop(key, _NOTHING_SAID)

    def changed(self, key: GroupKey, another: bool, now: float) -> None:
        """The group's object was changed; or it is `another` one, which what was written does not speak of."""
        if another:
            self._said.pop(key, None)
        self.look_at(key, now)

    def look_at(self, key: GroupKey, now: float) -> None:
        """If the group has an object and no members, say so after a while; longer when the object is new."""
        group = self._world.groups.get(key)
        if group is None or key in self._world.members:
            self._due.pop(key, None)
            self._said.pop(key, None)
        elif key.source is Source.MUSTER:
            said_before = group.phase or self._said.get(key, _NOTHING_SAID)[0]
            self._put(key, now + (stating.STATE_AFTER_SECONDS if said_before else EXPECT_SECONDS))

    def look_at_all(self, now: float) -> None:
        """The same for every group."""
        for key in self._world.groups:
            self.look_at(key, now)

    def doubt(self) -> None:
        """Queues changed, or which group is in which: other reasons may hold."""
        self._doubted = True

    def failed(self, key: GroupKey, now: float) -> None:
        """A statement could not be written."""
        if self._said.pop(key, None) is not None:
            self._put(key, now + stating.RETRY_SECONDS)

    def _put(self, key: GroupKey, when: float) -> None:
        self._due[key] = when
        heapq.heappush(self._heap, (when, key))

    # --- what is written ------------------------------------------------------------------------

    def statements(self, now: float) -> list[StateGroup]:
        """Those that are due."""
        if now < self._look_at:
            return []
        self._look_at = now + LOOK_SECONDS
        if self._doubted:
            self._doubted = False
            for key in self._world.groups.keys() - self._world.members.keys() - self._due.keys():
                if key.source is Source.MUSTER:
                    self._put(key, now)
        found: list[StateGroup] = []
        while self._heap and self._heap[0][0] <= now and len(found) < STATEMENTS:
            when, key = heapq.heappop(self._heap)
            if self._due.get(key) == when:
                del self._due[key]
                found += self._state(key)
        return found

    def _state(self, key: GroupKey) -> list[StateGroup]:
        group, refusal = self._world.groups.get(key), self.why(key)
        if group is None or refusal is None:
            return []
        stated = self._said.get(key, _NOTHING_SAID)
        statement = stating.state(Entry(key, 0.0, 0.0, refusal=refusal, stated=stated), group, Tally())
        if statement is None:
            return []
        self._said[key] = stating.said(statement)
        return [statement]
