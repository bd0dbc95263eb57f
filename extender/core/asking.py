"""What groups ask for, and what decides whose turn comes first.

Takes the world, the ledger and a group's record, gives sums and keys; must not decide.
"""

from __future__ import annotations

from collections import Counter

from extender.core import ordering, quota
from extender.core.ids import GroupKey
from extender.core.ledger import Ledger, Slot
from extender.core.membership import Standing, satisfied, standing
from extender.core.planning import Entry
from extender.core.reasons import Refusal
from extender.core.resources import Amounts, add, amounts
from extender.core.world import World


class Asking:
    """Answers about the members of a group that wait without a place."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        self._world = world
        self._ledger = ledger

    def asks(self, entry: Entry) -> bool:
        """True when a member waits without a place, or room is wanted for replacements that do not exist yet."""
        plan, pods = self._ledger.of_group(entry.key), self._world.members.get(entry.key, {}).values()
        if any(standing(pod) is Standing.WAITING and Slot(pod.uid) not in plan for pod in pods):
            return True
        return self.stage(entry.key) is ordering.Stage.REPAIR

    def stage(self, key: GroupKey) -> ordering.Stage:
        """What the group asks for first, if it asks for anything: its minimum, as it was or anew, or more."""
        if key.lone:
            return ordering.Stage.START
        tally, plan = self._world.tallies.get(key), self._ledger.of_group(key)
        if tally is None or not (plan or tally.started):
            return ordering.Stage.START
        need = self._world.need(key)
        if isinstance(need, Refusal):
            return ordering.Stage.START
        if satisfied(need, tally, (r.task for r in plan.values() if not r.expected)):
            return ordering.Stage.SURPLUS
        return ordering.Stage.REPAIR if tally.count(Standing.BOUND) else ordering.Stage.START

    def asked(self, entry: Entry) -> Amounts:
        """What the members that wait without a place ask for together."""
        plan = self._ledger.of_group(entry.key)
        pods = self._world.members.get(entry.key, {}).values()
        if entry.key.lone and not plan:
            return next((pod.shape.request for pod in pods), ())
        shapes = Counter(p.shape.request for p in pods if standing(p) is Standing.WAITING and Slot(p.uid) not in plan)
        asked: quota.Sums = {}
        for request, number in shapes.items():
            add(asked, request, number)
        return amounts(asked)

    def order_key(self, entry: Entry) -> ordering.OrderKey:
        """The group's place in its queue."""
        tally = self._world.tallies.get(entry.key)
        gated = tally is not None and 0 < tally.gated == tally.count(Standing.WAITING)
        priority, stage = self._world.priority(entry.key), self.stage(entry.key)
        return ordering.order_key(entry.key, priority, entry.arrival, gated, stage)

    def same(self, entry: Entry) -> object | None:
        """Groups with an equal value fare alike in one round, as room and quota only shrink while it lasts.

        They are those that wait as a whole, and whose pods are all alike.
        """
        need = self._world.need(entry.key)
        if isinstance(need, Refusal) or entry.offered or self._ledger.of_group(entry.key):
            return None
        if self._world.tallies[entry.key].done:
            return None
        pods = self._world.members[entry.key].values()
        one = next(iter(pods))
        for pod in pods:
            if standing(pod) is not Standing.WAITING or (pod.shape, pod.task) != (one.shape, one.task):
                return None
            if pod.parts or need.parts:
                return None  # what it asks of domains depends on who its members are
        if need.missing(len(pods), {one.task: len(pods)}) != (0, {}):
            return None  # what it lacks may still come
        least = (len(pods), need.min_member, need.topology_required, need.topology_preferred)
        kind = (entry.key.namespace, entry.key.lone, need.expected_duration)
        return (one.shape, least, need.queue, self._world.priority(entry.key), *kind)
