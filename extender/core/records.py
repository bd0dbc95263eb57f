"""The records of all groups, and what a decision about one of them writes into them.

Takes what the engine's handlers note and what the cycle decides, gives effects; must not choose whose turn it is, nor
what a group gets. `Cycle` is made of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

from extender.core import backlog, messages, plans, spans, stating, switching
from extender.core.backfill import Backfill
from extender.core.claiming import Claiming
from extender.core.decisions import Refused
from extender.core.evictions import Evictions
from extender.core.explain import is_ours
from extender.core.feasibility import Facts, Feasibility
from extender.core.ids import GroupKey, NodeName, PodUid
from extender.core.ledger import Slot
from extender.core.membership import Standing, satisfied
from extender.core.model import Hold, Pod
from extender.core.planning import EXPECT_SECONDS, Entry
from extender.core.preemption import Preemption
from extender.core.reasons import FOR_ROOM, HELD_BACK, Reason, Refusal
from extender.core.repair import Repair
from extender.core.snapshot import Room, Snapshot
from extender.core.stale import Stale
from extender.core.usage import Usage
from extender.core.vacancy import Vacancy
from extender.core.vacated import Vacated
from extender.core.waiting import Waiting
from extender.core.wholes import Wholes
from extender.core.world import World

#: node lists that kube-scheduler offered are believed for this long
OFFERED_SECONDS = 10.0
#: a plan that kube-scheduler's checks refused is tried again after this time, each next time after twice
#: as long, up to 2**4 times; or when a node changes; at first also when a list is offered
REFUSED_RETRY_SECONDS = 2.0
_REFUSED_DOUBLINGS = 4
#: a planned pod that kube-scheduler itself has put aside, and does not take up again in this time, is refused
PUT_ASIDE_SECONDS = 30.0


class Records:
    """What is known of each group between two cycles, and the parts that know more."""

    def __init__(self, world: World, nominate_above: int) -> None:
        self.world = world
        self.entries: dict[GroupKey, Entry] = {}
        self.backlog = backlog.Backlog()
        self.usage = Usage(world.queue_of)
        self.plans = plans.Plans(world, self.usage)
        #: who waits; and what each group asks for, whether or not it waits
        self.asking = self.plans.asking = Waiting(world, self.plans.ledger)
        self.backfill = Backfill(world, self.plans, self.usage, self.entries)
        self.vacated = Vacated()
        self.wholes = Wholes(world, self.plans.under_way)
        self.repair = Repair(world, self.plans, self.wholes)
        self.preemption = Preemption(world, self.usage, self.plans, self.wholes)
        self.plans.lower = self.preemption.lower
        self.claiming = Claiming(world, self.preemption.lower)
        self.plans.claims = self.claiming.against
        self.wholes.changed = self.preemption.doubt
        world.changed = self.plans.ledger.changed = self._changed
        self.stale = Stale(world, self.plans, self.usage, self.wholes)
        self.vacancy = Vacancy(world, self.usage)
        self.evictions = Evictions(world, self.entries)
        #: groups to look at in the next round; `grown`: room appeared, look at all that wait
        self.dirty: dict[GroupKey, None] = {}
        self.grown = False
        #: nodes where a plan may have lost its room
        self.suspects: set[NodeName] = set()
        self.effects: list[messages.Effect] = []
        self._nominate_above = nominate_above
        #: kube-scheduler may accept now what it refused
        self._refusals_doubtful = False
        self._feasibility = Feasibility()
        #: when to look at a group again though nothing happens to it
        self._timers: dict[GroupKey, float] = {}
        #: no timer is due before
        self._ring_at = float("inf")

    def _changed(self, key: GroupKey) -> None:
        """Something of the group, or its plan, has changed."""
        self.asking.doubt(key)
        self.preemption.doubt(key)
        self.plans.firm.doubt(key)

    def doubt_all(self) -> None:
        """Something has changed that may concern any group: all that waits is looked at again."""
        self.grown = True
        self.preemption.doubt_all()
        self.plans.firm.doubt_all()

    def doubt_holds(self, *holds: Iterable[Hold]) -> None:
        """Other calls are held for these groups, so that members may be bound at any moment, or are not any more."""
        for hold in itertools.chain(*holds):
            self.preemption.doubt(hold.group)

    def facts(self) -> Facts:
        """What constraints and levels look at of the nodes, as it is now."""
        return self._feasibility.at(self.world)

    def reset(self) -> None:
        """Forget every decision; what the gate holds stays known."""
        self.entries.clear()
        self.plans.reset()
        self.usage.take_moved()
        self.evictions.restart()
        for part in (self.repair, self.backfill, self.claiming, self.preemption, self.stale, self.vacancy):
            part.reset()
        self.backlog = backlog.Backlog()
        for index in (self.dirty, self._timers, self.asking, self.suspects):
            index.clear()

    def ring(self, now: float) -> None:
        """Groups whose time has come are to be looked at."""
        if now < self._ring_at:
            return
        for key in [key for key, at in self._timers.items() if at <= now]:
            del self._timers[key]
            self.dirty[key] = None
        self._ring_at = min(self._timers.values(), default=float("inf"))

    def look_at(self, key: GroupKey, when: float) -> None:
        """Look at a group at this time, if not earlier."""
        self._timers[key] = min(when, self._timers.get(key, when))
        self._ring_at = min(when, self._ring_at)

    def _look_again(self, entry: Entry, now: float) -> None:
        """When time alone may change what it waits for: room, members that stay away, or offered lists."""
        if now < entry.changed_at + EXPECT_SECONDS and not entry.key.lone:
            self.look_at(entry.key, entry.changed_at + EXPECT_SECONDS)
        if any(entry.offered.values()):  # that no node will do does not grow old
            self.look_at(entry.key, entry.offered_at + OFFERED_SECONDS)

    def _postpone(self, entry: Entry, now: float) -> None:
        """Its turn comes when its old plan is undone, or at the time to try again."""
        if now < entry.retry_at:
            self.look_at(entry.key, entry.retry_at)
        self.count_waiting(entry)
        self._state(entry, now)

    def _put_aside(self, entry: Entry, now: float) -> Refusal | None:
        """kube-scheduler told of a planned pod once that no node will do, and does not take it up again.

        A repeated rejection in the same words is not written, so there is no event that says so.
        """
        pod = self._put_aside_member(entry)
        if pod is None or entry.planned_at is None or now < entry.planned_at + PUT_ASIDE_SECONDS:
            return None
        entry.refused_by = pod.rejection
        entry.refused.add(pod.uid)
        entry.offered[pod.uid], entry.offered_at = frozenset(), now  # no node will do
        return plans.refused_by_scheduler(entry)

    def _put_aside_member(self, entry: Entry) -> Pod | None:
        """A planned, unheld member that kube-scheduler has put aside in its own words."""
        members = self.world.members.get(entry.key, {})
        for slot in self.plans.ledger.of_group(entry.key):
            pod = members.get(PodUid(slot))
            if pod is None or not pod.rejection or pod.uid in self.plans.holds:
                continue
            if not is_ours(pod.rejection):
                return pod
        return None

    def startable(self, entry: Entry, expecting: bool = False) -> bool:
        """True when members that run and those that are planned reach every minimum."""
        need = self.world.need(entry.key)
        if isinstance(need, Refusal) or entry.key not in self.world.tallies:
            return False
        plan = self.plans.ledger.of_group(entry.key)
        planned = [r.task for r in plan.values() if expecting or not r.expected]
        return satisfied(need, self.world.tallies[entry.key], planned)

    def _admitted(self, entry: Entry, now: float) -> None:
        entry.refusal = None
        entry.remember(None, now)
        self.asking.drop(entry.key)
        self.backlog.put(entry.key, None)
        self.grown |= self.backfill.forget(entry.key) | self.claiming.drop(entry.key)
        self.preemption.forget(entry.key)
        entry.waits_since = None
        if any(r.expected for r in self.plans.ledger.of_group(entry.key).values()):
            self.look_at(entry.key, entry.changed_at + EXPECT_SECONDS)
        self.lead(entry, now)

    def refuse(self, entry: Entry, refusal: Refusal, now: float, keep: bool = False) -> None:
        """The group waits. Its plan is given up, unless it can start and only more members wait (`keep`)."""
        if refusal.reason is Reason.SCHEDULER_REFUSED and self.plans.ledger.of_group(entry.key):  # it was tried
            entry.retry_at = now + REFUSED_RETRY_SECONDS * 2 ** min(entry.times_refused, _REFUSED_DOUBLINGS)
            entry.times_refused += 1
            self.look_at(entry.key, entry.retry_at)
        if keep:
            self.lead(entry, now)
        else:
            self.give_up(entry)
        if refusal.reason not in HELD_BACK:
            self.grown |= self.claiming.drop(entry.key)
        if entry.refusal is None or entry.refusal.reason is not refusal.reason:
            entry.refused_at = now
            self.plans.decided.append(Refused(entry.key, refusal))
        entry.remember(refusal.reason, now)
        entry.refusal = refusal
        self.asking.put(entry)
        entry.waits_since = now if entry.waits_since is None else entry.waits_since
        self.count_waiting(entry)

    def doubt_refusals(self) -> None:
        """A node came or changed: what kube-scheduler refused before, it may accept now."""
        self._refusals_doubtful = True

    def _doubt_refusals(self, now: float) -> None:
        self._refusals_doubtful = False
        for entry in self.asking:
            if entry.refusal is not None and entry.refusal.reason is Reason.SCHEDULER_REFUSED:
                entry.offered.clear()
                entry.retry_at = now

    def count_waiting(self, entry: Entry) -> None:
        """Bring the backlog's record of a group up to date."""
        refusal = entry.refusal
        for_room = refusal is not None and not refusal.reasons.isdisjoint(FOR_ROOM)
        self.backlog.put(entry.key, None if refusal is None else self.asking.record(entry, for_room))

    def _forget_group(self, entry: Entry, now: float) -> None:
        self.grown |= self.preemption.forget(entry.key)
        self.give_up(entry)
        self.vacancy.emptied(entry, now)
        self.stale.forget(entry.key)
        self.grown |= self.backfill.forget(entry.key) | self.claiming.drop(entry.key)
        self.backlog.put(entry.key, None)
        self.entries.pop(entry.key, None)
        self.asking.drop(entry.key)
        self._timers.pop(entry.key, None)

    def eviction_done(self, effect: messages.Evict, failed: bool, now: float) -> None:
        """The pod leaves, or it stays: then its group, if it was to go as a whole, may be planned again."""
        self.plans.disruptions.answered(effect.uid, failed)
        if not failed:
            return
        key = self.preemption.refused(effect, now)
        if key is not None:
            self.dirty[key] = None
        if self.wholes.refused(effect, now):
            self.repair.refused(effect, now)
        pod = self.world.pods.get(effect.uid)
        if pod is not None and pod.group in self.entries:
            self.dirty[pod.group] = None

    def entry(self, key: GroupKey, created: float, now: float) -> Entry:
        """The group's record, made when it is new."""
        entry = self.entries.get(key)
        if entry is None:
            stated, tally = self.vacancy.filled(key), self.world.tallies.get(key)
            started = tally is not None and tally.count(Standing.BOUND) > 0
            entry = Entry(key, arrival=created, changed_at=now, stated=stated, started=started)
            self.entries[key] = entry
        entry.arrival = min(entry.arrival, created)
        return entry

    def room(self) -> Room:
        """A scratch of the room that is free now."""
        return self.plans.less_kept_cards(Room(self._snapshot()))

    def _snapshot(self) -> Snapshot:
        self.plans.firm.begin()
        return Snapshot.take(self.world, self._feasibility, self.plans.reserved())

    def give_up(self, entry: Entry) -> None:
        """Revoke the group's plan."""
        self.effects += self.plans.revoke(entry)
        self.grown |= self.plans.take_freed()

    def unplaced(self, key: GroupKey, uid: PodUid) -> None:
        """A reservation was lost with its node or its room; a call held for it is of no use any more."""
        self.grown = True
        if uid in self.plans.holds:
            self.effects.append(messages.Withdraw((uid,)))
        entry = self.entries.get(key)
        if entry is not None:
            entry.led.pop(uid, None)
            self.dirty[key] = None

    def planned(self, uid: PodUid) -> NodeName | None:
        """The node planned for this pod."""
        reservation = self.plans.ledger.get(Slot(uid))
        return None if reservation is None else reservation.node

    def lead(self, entry: Entry, now: float) -> None:
        """Bring kube-scheduler to the group's plan."""
        self.effects += self.plans.lead(entry, self.nominating, now)
        if entry.planned_at is not None and self._put_aside_member(entry) is not None:
            self.look_at(entry.key, entry.planned_at + PUT_ASIDE_SECONDS)

    @property
    def nominating(self) -> bool:
        """With many nodes the scheduler is led by nomination; then no queue is open (design 3.3)."""
        return len(self.world.nodes.row_of) > self._nominate_above

    def claimed(self, pod: Pod, instead_of: PodUid | None) -> bool:
        """True when a new member has a place that was kept: of the planned pod that stood for it, or of any that was
        expected."""
        node = None if instead_of is None else self.plans.forget(instead_of)
        if node is None:
            return self.plans.claim(pod)
        self.suspects.add(node)  # the pod may ask for more than was planned
        taken = self.plans.adopt(pod, node)
        self.grown |= not taken
        return taken

    def not_switched(self, effect: messages.Suspend, error: str, now: float) -> None:
        """What makes a group's pods could not be let go: others may have the room, until it is tried again. That it
        could not be stopped does no harm: its pods wait then as all others do."""
        entry = self.entries.get(effect.group)
        if entry is None or effect.on or entry.switched != (effect.switch, False):
            return
        entry.switched, entry.retry_at = None, now + switching.pause(entry)
        detail = (("object", str(effect.switch)), ("error", error[:300]))
        self.refuse(entry, Refusal(Reason.STAYS_SUSPENDED, detail), now)
        self.look_at(entry.key, entry.retry_at)

    def _state(self, entry: Entry, now: float) -> None:
        group = self.world.groups.get(entry.key)
        if group is not None and group.switch is not None and not self.plans.under_way(entry.key):
            self.effects += switching.put_back(self.world, entry, group.switch, now)
        if group is None or not entry.key.told:
            return
        statement = stating.state(entry, group, self.world.tallies[entry.key])
        if statement is None:
            return
        due = entry.state_after
        if not entry.running:
            due = max(due, entry.refused_at + stating.STATE_AFTER_SECONDS)
        again = stating.only_a_reason(statement, stating.known(entry, group))
        if again:
            due = max(due, stating.pause_until(entry))
        if now < due:
            self.look_at(entry.key, due)
            return
        entry.told, entry.told_at = 1 + (entry.told if again else 0), now
        entry.stated = stating.said(statement)
        span = spans.of_group(self.facts(), self.world, entry.key) if entry.running else None
        self.effects.append(replace(statement, span=span))

    def statement_failed(self, key: GroupKey, now: float) -> None:
        """What was to be written into the group's object was not."""
        entry = self.entries.get(key)
        if entry is None:
            self.vacancy.failed(key, now)
        else:
            entry.stated, entry.state_after = ("", "", 0), now + stating.RETRY_SECONDS
            entry.told = max(0, entry.told - 1)
            self.look_at(key, entry.state_after)
