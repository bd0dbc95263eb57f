"""The numbered cycle of design section 5: one round of decisions over one snapshot, and its records.

Takes what the engine's handlers noted (groups to look at, nodes to doubt, timers), gives effects; must not
read events. The handlers note, the cycle decides; both write the records that are kept here.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator

from extender.core import changes, messages, ordering, plans, queue_stating, quota, stating
from extender.core.allowance import owns
from extender.core.backfill import Backfill
from extender.core.backlog import Backlog, Waiting
from extender.core.claims import Claim
from extender.core.explain import is_ours
from extender.core.feasibility import Feasibility
from extender.core.ids import GroupKey, NodeName, PodUid, QueueName
from extender.core.ledger import Reservation, Slot
from extender.core.membership import Need, Standing, Tally, satisfied, standing
from extender.core.model import Pod
from extender.core.opening import OpenList
from extender.core.planning import EXPECT_SECONDS, Entry
from extender.core.preemption import Preemption
from extender.core.reasons import FOR_ROOM, HELD_BACK, Reason, Refusal
from extender.core.repair import Repair
from extender.core.snapshot import Room, Snapshot
from extender.core.stale import Stale
from extender.core.usage import Usage
from extender.core.vacancy import Vacancy
from extender.core.vacated import Vacated
from extender.core.visibility import Visibility
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


class Cycle:
    """The records of all groups, and the decisions about them."""

    def __init__(self, world: World, nominate_above: int) -> None:
        self.world = world
        self.entries: dict[GroupKey, Entry] = {}
        self.backlog = Backlog()
        self.usage = Usage(world.queue_of)
        self.plans = plans.Plans(world, self.usage)
        self.asking = self.plans.asking
        self._order = ordering.Turns[Entry](self.usage, {}, self.asking.asked)
        self.backfill = Backfill(world, self.plans, self.usage, self.entries)
        self.opening = OpenList()
        self.vacated = Vacated()
        self.statements = queue_stating.Statements(self.plans.firm)
        self.wholes = Wholes(world, self.plans.under_way)
        self.repair = Repair(world, self.plans, self.wholes)
        self.preemption = Preemption(world, self.usage, self.plans, self.wholes)
        self.stale = Stale(world, self.plans, self.usage, self.wholes)
        self.vacancy = Vacancy(world, self.usage)
        self.visibility = Visibility(world, self.usage, self.plans.ledger)
        #: groups to look at in the next round; `grown`: room appeared, look at all that wait
        self.dirty: dict[GroupKey, None] = {}
        self.grown = False
        #: amounts of the whole cluster changed, or the queues
        self._unsettled = True
        #: nodes where a plan may have lost its room
        self.suspects: set[NodeName] = set()
        self.effects: list[messages.Effect] = []
        self._nominate_above = nominate_above
        self._feasibility = Feasibility()
        #: when to look at a group again though nothing happens to it
        self._timers: dict[GroupKey, float] = {}
        self._tree: quota.Tree | None = None
        #: what all nodes have together
        self.totals: quota.Sums = {}
        self._waiting: dict[GroupKey, None] = {}

    def reset(self) -> None:
        """Forget every decision; what the gate holds stays known."""
        self.entries.clear()
        self.plans.reset()
        self.usage.take_moved()
        for part in (self.repair, self.backfill, self.preemption, self.stale, self.vacancy):
            part.reset()
        self.backlog = Backlog()
        self.opening.restart()
        self.statements.restart()
        self.visibility.restart()
        for index in (self.dirty, self._timers, self._waiting, self.suspects):
            index.clear()

    def run(self, now: float) -> None:
        """One round."""
        self.follow_queues()
        self.plans.firm.begin()
        self.preemption.begin(now)
        for key in self.usage.take_moved():
            self._queue_left(key, now)
        changed = bool(self.suspects)
        for reservation in self.plans.broken(self.suspects, self._feasibility.at(self.world)):
            self.unplaced(reservation.group, PodUid(reservation.slot))
        self.suspects.clear()
        self._repair(now)
        grown, self.grown = self.grown, False
        if grown:
            self.dirty.update(self._waiting)
        if self.dirty or self.backfill.doubts(now):
            room = self.room()  # 1. snapshot
            self.grown = self.backfill.begin(room, now, grown or changed)  # 6. backfill: what is kept for whom
            failed: dict[object, Refusal] = {}
            for entry in self._turns():  # 3. order
                self._turn(entry, room, failed, now)  # 4. place, 5. reclaim and preempt
        self._list_open_queues(now)
        waiting = map(self.entries.__getitem__, self._waiting)
        self.effects += self.visibility.due(waiting, self.backlog.strays, now)
        self.effects += self.vacancy.statements(now)
        self.effects += self.statements.due(self.world.queues, self.usage, self.backlog, self._shared, now)

    def cluster_changed(self) -> None:
        """A node came, changed or went."""
        self.grown = self._unsettled = True
        self.backfill.cluster_changed()

    def note_room(self, before: Pod | None, pod: Pod | None, now: float) -> None:
        """A pod may take other room than before."""
        was, is_now = changes.use(before), changes.use(pod)
        if was is not None and was != is_now:
            self.grown = True
            self.vacated.note(was[0], now)
        if is_now is not None and was != is_now:
            self.suspects.add(is_now[0])

    def queues_changed(self) -> None:
        """A queue came, changed or went."""
        self._tree = None
        self.cluster_changed()
        self.vacancy.doubt()

    def namespace_changed(self, name: str) -> None:
        """Its groups may be in another queue."""
        self.usage.settle_namespace(name)
        self.vacancy.doubt()

    def follow_queues(self) -> None:
        """2. usage: count for the queues as they are now, with the guarantees that the cluster can keep."""
        if not self._unsettled:
            return
        self._unsettled = False
        tree = self._tree = self._tree or quota.Tree(self.world.queues)
        self.totals = self.world.nodes.totals()
        self.usage.follow(tree, quota.grants(tree, self.totals))

    def _repair(self, now: float) -> None:
        """Undo what another scheduler's binding at the same time as ours has done; end what is hurt for too long."""
        for eviction in (*self.wholes.look(now), *self.repair.look(now), *self.stale.look(now)):
            self.effects.append(eviction)
            if isinstance(eviction, messages.Evict):
                self.plans.disruptions.asked(self.world.pods[eviction.uid])
                self.dirty[self.world.pods[eviction.uid].group] = None

    def ring(self, now: float) -> None:
        """Groups whose time has come are to be looked at."""
        for key in [key for key, at in self._timers.items() if at <= now]:
            del self._timers[key]
            self.dirty[key] = None

    def look_at(self, key: GroupKey, when: float) -> None:
        """Look at a group at this time, if not earlier."""
        self._timers[key] = min(when, self._timers.get(key, when))

    def _queue_left(self, key: GroupKey, now: float) -> None:
        """What the group uses is free in its old queue; what is only planned for it is to be asked of its new one."""
        self.grown = True
        entry = self.entries.get(key)
        if entry is not None and self.plans.ledger.of_group(key):
            self.refuse(entry, Refusal(Reason.QUEUED), now)

    def _shared(self) -> quota.Sums:
        return self.usage.shared(self.plans.free())

    def _turns(self) -> Iterator[Entry]:
        """First those who ask for nothing: they may only free room, and would hide what their queues ask for."""
        asking = self._order = ordering.Turns(self.usage, self.totals, self.asking.asked)
        others: list[Entry] = []
        for entry in [self.entries[key] for key in self.dirty if key in self.entries]:
            if self.asking.asks(entry):
                asking.put(self.world.queue_of(entry.key), self.asking.order_key(entry), entry)
            else:
                others.append(entry)
        self.dirty.clear()
        return itertools.chain(others, asking)

    def _turn(self, entry: Entry, room: Room, failed: dict[object, Refusal], now: float) -> None:
        if entry.key not in self.world.members:
            self._forget_group(entry, now)
            return
        self._count_members(entry, now)
        if self.plans.lingers(entry) or now < entry.retry_at:
            self._postpone(entry, now)
            return
        if entry.offered and now >= entry.offered_at + OFFERED_SECONDS:
            entry.forget_lists()
        aside = Refusal(Reason.EVICTING) if self.wholes.evicting(entry.key) else self._put_aside(entry, now)
        if aside is not None:
            self.grown |= self.preemption.forget(entry.key)
            self.refuse(entry, aside, now)
            self._state(entry, now)
            return
        same = None if self.preemption.concerns(entry.key) else self.asking.same(entry)
        known = failed.get(same)
        if known is not None and known == entry.refusal and self.backlog.has(entry.key, self.world.queue_of(entry.key)):
            self._state(entry, now)
            return  # it waits as before, without a plan, and for the same
        kept = self.preemption.lift(entry, room)
        refusal = known or self.plans.make(entry, room, now)
        self.grown |= self.plans.take_freed()
        if refusal is None:
            self._admitted(entry, now)
        else:
            if known is None:
                refusal = self._after_all(entry, refusal, kept, room, now)
                self.grown |= bool(kept) and refusal.reason is not Reason.VICTIMS
            if same is not None and refusal.reason is not Reason.VICTIMS:
                failed[same] = refusal
            self.refuse(entry, refusal, now, keep=self.startable(entry))
            if known is None:
                self._claim(entry, refusal, room, now)
            else:  # one that is equal, in the same queue and before it, has claimed what can be
                self.grown |= self.backfill.forget(entry.key)
            self._look_again(entry, now)
        self._state(entry, now)

    def _after_all(
        self, entry: Entry, refusal: Refusal, kept: Collection[Reservation], room: Room, now: float
    ) -> Refusal:
        """What it waits for when all is said, and who is evicted for it, if anybody may be."""
        if entry.offered:  # what would be so with every node offered is said first
            return self.plans.refusal_anywhere(entry, room, now) or plans.refused_by_scheduler(entry)
        if self.plans.ledger.of_group(entry.key) and not self.startable(entry):
            return refusal  # that part of a plan is given up at once
        left, effects = self.preemption.answer(entry, refusal, kept, room, now)
        self.effects += effects
        if (again := self.preemption.again_at(entry.key, now)) is not None:
            self.look_at(entry.key, again)
        return self.plans.out_of_use(entry, left, room, now)

    def _count_members(self, entry: Entry, now: float) -> None:
        need, tally = self.world.need(entry.key), self.world.tallies[entry.key]
        entry.running = tally.started and isinstance(need, Need) and satisfied(need, tally)
        entry.started |= entry.running
        if entry.started and not entry.running:
            self.stale.note(entry.key, now)
        else:
            self.stale.forget(entry.key)

    def _claim(self, entry: Entry, refusal: Refusal, room: Room, now: float) -> None:
        """The first of a queue's groups that waits for room that the queue owns holds it back from who would borrow."""
        queue, claims, waits = self.world.queue_of(entry.key), self.plans.claims, not self.startable(entry)
        self.grown |= self.backfill.refused(entry, refusal, waits, room, now)
        if (
            refusal.reason in HELD_BACK
            and claims.is_first(queue, entry.key, order := self.asking.order_key(entry))
            and owns(self.usage, queue, asked := self.asking.asked(entry))
            and waits
            and self.backfill.able(entry, room, now)
        ):
            pods = self.world.members[entry.key].values()
            constraints = frozenset(pod.shape.constraints for pod in pods if standing(pod) is Standing.WAITING)
            claims.put(queue, Claim(entry.key, order, asked, constraints))
        else:
            self.grown |= claims.drop(entry.key)

    def _look_again(self, entry: Entry, now: float) -> None:
        """When time alone may change what it waits for: room, members that stay away, or offered lists."""
        if now < entry.changed_at + EXPECT_SECONDS and not entry.key.lone:
            self.look_at(entry.key, entry.changed_at + EXPECT_SECONDS)
        if entry.offered:
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
        self._waiting.pop(entry.key, None)
        self.backlog.put(entry.key, None)
        self.grown |= self.backfill.forget(entry.key)
        self.preemption.forget(entry.key)
        entry.waits_since = None
        if any(r.expected for r in self.plans.ledger.of_group(entry.key).values()):
            self.look_at(entry.key, entry.changed_at + EXPECT_SECONDS)
        self.lead(entry, now)
        if self.asking.asks(entry):  # what is above its minimum has a turn of its own
            self._order.again(self.world.queue_of(entry.key), self.asking.order_key(entry), entry)

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
        if entry.refusal is None or entry.refusal.reason is not refusal.reason:
            entry.refused_at = now
        entry.refusal = refusal
        entry.waits_since = now if entry.waits_since is None else entry.waits_since
        self._waiting[entry.key] = None
        self.count_waiting(entry)

    def doubt_refusals(self, now: float) -> None:
        """A node came or changed: what kube-scheduler refused before, it may accept now."""
        for key in self._waiting:
            entry = self.entries[key]
            if entry.refusal is not None and entry.refusal.reason is Reason.SCHEDULER_REFUSED:
                entry.offered.clear()
                entry.retry_at = now

    def count_waiting(self, entry: Entry) -> None:
        """Bring the backlog's record of a group up to date."""
        refusal = entry.refusal
        self.backlog.put(entry.key, None if refusal is None else self._as_waiting(entry, refusal))

    def _as_waiting(self, entry: Entry, refusal: Refusal) -> Waiting:
        tally = self.world.tallies.get(entry.key) or Tally()
        queue = self.world.queue_of(entry.key)
        strays: Counter[QueueName] = Counter()
        for named, number in tally.ungated.items():
            strays[named or queue] += number
        if strays:
            for slot in self.plans.ledger.of_group(entry.key):
                pod = self.world.pods.get(PodUid(slot))
                if pod is not None and standing(pod) is Standing.WAITING and not pod.queue_gated:
                    strays[pod.queue or queue] -= 1
        for_room = not refusal.reasons.isdisjoint(FOR_ROOM)
        return Waiting(queue, for_room, tuple(strays.items()), self.asking.asked(entry))

    def _forget_group(self, entry: Entry, now: float) -> None:
        self.grown |= self.preemption.forget(entry.key)
        self.give_up(entry)
        self.vacancy.emptied(entry, now)
        self.stale.forget(entry.key)
        self.grown |= self.backfill.forget(entry.key)
        self.backlog.put(entry.key, None)
        self.entries.pop(entry.key, None)
        self._waiting.pop(entry.key, None)
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

    # --- what the handlers use too --------------------------------------------------------------

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
        self.plans.firm.begin()
        return self.plans.less_kept_cards(Room(Snapshot.take(self.world, self._feasibility, self.plans.reserved())))

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

    def _state(self, entry: Entry, now: float) -> None:
        group = self.world.groups.get(entry.key)
        if group is None:
            return
        statement = stating.state(entry, group, self.world.tallies[entry.key])
        if statement is None:
            return
        due = entry.state_after
        if not entry.running:
            due = max(due, entry.refused_at + stating.STATE_AFTER_SECONDS)
        if now < due:
            self.look_at(entry.key, due)
            return
        entry.stated = stating.said(statement)
        self.effects.append(statement)

    def statement_failed(self, key: GroupKey, now: float) -> None:
        """What was to be written into the group's object was not."""
        entry = self.entries.get(key)
        if entry is None:
            self.vacancy.failed(key, now)
        else:
            entry.stated, entry.state_after = ("", "", 0), now + stating.RETRY_SECONDS
            self.look_at(key, entry.state_after)

    def _list_open_queues(self, now: float) -> None:
        known = () if self.nominating else self.usage.tree.admitting
        wanted = frozenset(name for name in known if self.backlog.is_open(name))
        write = self.opening.write(wanted, now)
        if write is not None:
            self.effects.append(write)
