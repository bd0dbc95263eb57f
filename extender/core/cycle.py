"""The numbered cycle of design section 5: one round of decisions over one snapshot.

Takes what the engine's handlers noted (groups to look at, nodes to doubt, timers), gives effects; must not
read events. The handlers note, the cycle decides; both write the records.
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Collection

from extender.core import changes, messages, plans, queue_stating, quota
from extender.core.claiming import Claimant
from extender.core.ids import GroupKey, PodUid
from extender.core.ledger import Reservation
from extender.core.membership import Need, Standing, satisfied, standing
from extender.core.model import Pod
from extender.core.opening import OpenList
from extender.core.planning import Entry, Plan
from extender.core.reasons import HELD_BACK, Reason, Refusal
from extender.core.records import OFFERED_SECONDS, Records
from extender.core.resources import GPU_PARTS, parts_in
from extender.core.series import Start
from extender.core.snapshot import Room, Snapshot
from extender.core.sweep import Sweep
from extender.core.visibility import Visibility
from extender.core.waiting import Place
from extender.core.world import World

#: groups that something happens to join a round that began no longer ago: it must come to its end
JOIN_SECONDS = 1.0
#: so many starts are kept for who takes note of them
_STARTS = 10_000


class Cycle(Records):
    """The decisions about all groups."""

    def __init__(self, world: World, nominate_above: int, turns: int | None) -> None:
        super().__init__(world, nominate_above)
        self.opening = OpenList()
        self.statements = queue_stating.Statements(self.plans.firm)
        self.visibility = Visibility(world, self.usage, self.plans.ledger, self.asking)
        #: groups that are looked at in one piece of a round; None: all
        self._turns = turns
        #: the round that was begun and is not over
        self._sweep: Sweep | None = None
        #: a round was closed to groups that are still to be looked at
        self._left_out = False
        #: the state that the newest piece has left: nodes, reservations, and what constraints look at
        self._left: object = None
        #: what is free in a state, whatever the round leaves to the next one
        self._newest: tuple[object, Room] | None = None
        #: two refusals, and whether they are equal and of the same reasons: many groups share each of them
        self._compared = (Refusal(Reason.QUEUED), Refusal(Reason.QUEUED), True, True)
        #: something happened since the newest piece, so that what was looked up once for the round may be otherwise
        self.disturbed = True
        #: amounts of the whole cluster changed, or the queues
        self._unsettled = True
        self._tree: quota.Tree | None = None
        #: what all nodes have together
        self.totals: quota.Sums = {}
        #: groups that have started since somebody took note
        self.starts: deque[Start] = deque(maxlen=_STARTS)

    def reset(self) -> None:
        """Forget every decision; what the gate holds stays known."""
        super().reset()
        self.opening.restart()
        self.statements.restart()
        self.visibility.restart()
        self._sweep, self.usage.withheld = None, {}

    def run(self, now: float) -> None:
        """One round, or one piece of it."""
        self.claiming.begin()
        self.follow_queues()
        for key in self.usage.take_moved():
            self._queue_left(key, now)
        changed = bool(self.suspects)
        for reservation in self.plans.broken(self.suspects, self._feasibility.at(self.world)):
            self.unplaced(reservation.group, PodUid(reservation.slot))
        self.suspects.clear()
        self._repair(now)
        if self._sweep is None or self.disturbed:
            self.disturbed = False
            self.plans.firm.begin()
            self.preemption.begin(now)
        if self._refusals_doubtful:
            self._doubt_refusals(now)
        if self._sweep is not None:
            self._resume(self._sweep)
        if self._sweep is None and (self.dirty or self.grown or self.backfill.doubts(now)):
            self._sweep = self._begin(now, changed)
        if self._sweep is not None:
            self._go_on(self._sweep, now)
        self._list_open_queues(now)
        if self._sweep is None:
            self.effects += self.visibility.due(self.asking, self.backlog.strays, now)
            self.effects += self.vacancy.statements(now)
            self.effects += self.evictions.notes(now)
            self.effects += self.statements.due(self.world.queues, self.usage, self.backlog, self._shared, now)

    @property
    def unfinished(self) -> bool:
        """True when a round was begun and is not over, or was closed to groups that are still to be looked at."""
        return self._sweep is not None or self._left_out

    def pending(self, key: GroupKey) -> bool:
        """True when the group is still to be looked at in the round that was begun."""
        return self._sweep is not None and (key in self.dirty or self.asking.due(key, self._sweep))

    def _begin(self, now: float, changed: bool) -> Sweep:
        room = self.room()  # 1. snapshot
        sweep = Sweep(room, self.world.nodes, self.usage, self.totals, now)
        grown, self.grown, self._left_out = self.grown, False, False
        if grown:
            sweep.add_all(self.asking.lines())
        self.grown = self.backfill.begin(room, now, grown or changed)  # 6. backfill: what is kept for whom
        return sweep

    def _resume(self, sweep: Sweep) -> None:
        snapshot = self._snapshot() if self._state_of_room() != self._left else None
        if snapshot is not None and snapshot.facts.levels is not sweep.room.snapshot.facts.levels:
            self._give_up_round()
        else:
            self._narrow(sweep, snapshot)

    def _narrow(self, sweep: Sweep, snapshot: Snapshot | None) -> None:
        """Go on with what is free now of the round's room; None: nothing has changed."""
        sweep.resume(snapshot)
        if snapshot is not None:
            sweep.room = self.plans.less_kept_cards(sweep.room)

    def _state_of_room(self) -> object:
        reserved = (self.plans.ledger.changes, self.plans.earmarks.changes)
        return (self.world.nodes.changes, *reserved, id(self._feasibility.at(self.world)))

    def _give_up_round(self) -> None:
        """What it rests on has changed, so that more may be possible than it knows of: the next one begins anew."""
        if self._sweep is not None:
            left = self._sweep.left()
            self.dirty.update((place.entry.key, None) for place in left if not place.settled)
            self.grown |= any(place.settled for place in left)
            self._sweep, self.usage.withheld = None, {}

    def _go_on(self, sweep: Sweep, now: float) -> None:
        if now < sweep.began + JOIN_SECONDS:
            for entry in [self.entries[key] for key in self.dirty if key in self.entries]:
                sweep.insert(self.asking.place(entry))
            self.dirty.clear()
        hand_on = functools.partial(self._hand_on, now)
        for _ in itertools.count() if self._turns is None else range(self._turns):
            place = sweep.next(hand_on)  # 3. order
            if place is None:
                self._sweep, self.usage.withheld = None, {}
                self._left_out = self._turns is not None and bool(self.dirty)
                return
            self._turn(place.entry, sweep, now)  # 4. place, 5. reclaim and preempt
            place.settled = True
            self.asking.line_up(place.entry.key)
            self._look_at_the_rest(sweep, place)
        sweep.pause()
        self._left = self._state_of_room()

    def _look_at_the_rest(self, sweep: Sweep, place: Place) -> None:
        """What a group asks for above its minimum has a turn of its own, at a later place in its queue."""
        if place.entry.refusal is None and place.entry.key in self.world.members:
            rest = self.asking.place(place.entry)
            if rest.asks and rest.order > place.order:
                sweep.insert(rest)

    def _hand_on(self, now: float, place: Place, refusal: Refusal) -> bool:
        """A group waits for the same as one that is equal and was refused: False when it must be looked at itself."""
        entry, known = place.entry, place.entry.refusal
        if not place.settled or known is None or entry.offered or now < entry.retry_at or self.plans.lingers(entry):
            return False
        if self.preemption.concerns(entry.key):
            return False
        if self.claiming.has(entry.key) and not self.backfill.knows(entry.key):
            return False
        if known is not self._compared[0] or refusal is not self._compared[1]:
            self._compared = (known, refusal, known == refusal, known.reasons == refusal.reasons)
        _, _, equal, for_the_same = self._compared
        if equal or for_the_same:
            entry.refusal = refusal
            return True
        return False

    def cluster_changed(self) -> None:
        """A node came, changed or went."""
        self.grown = self._unsettled = True
        self.preemption.doubt_all()
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
        self.plans.firm.doubt_all()
        if self.usage.follow(tree, quota.grants(tree, self.totals)):
            self._give_up_round()

    def _repair(self, now: float) -> None:
        """Undo what another scheduler's binding at the same time as ours has done; end what is hurt for too long."""
        for eviction in (*self.wholes.look(now), *self.repair.look(now), *self.stale.look(now)):
            self.effects.append(eviction)
            self.disturbed = True
            if isinstance(eviction, messages.Evict):
                self.plans.disruptions.asked(self.world.pods[eviction.uid])
                self.dirty[self.world.pods[eviction.uid].group] = None

    def _queue_left(self, key: GroupKey, now: float) -> None:
        """What the group uses is free in its old queue; what is only planned for it is to be asked of its new one."""
        self.grown = True
        entry = self.entries.get(key)
        if entry is not None and self.plans.ledger.of_group(key):
            self.refuse(entry, Refusal(Reason.QUEUED), now)

    def _shared(self) -> quota.Sums:
        return self.usage.shared(self.plans.free())

    def _turn(self, entry: Entry, sweep: Sweep, now: float) -> None:
        room, failed = sweep.room, sweep.failed
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
                refusal = self._after_all(entry, refusal, kept, sweep, now)
                self.grown |= bool(kept) and refusal.reason is not Reason.VICTIMS
            if same is not None and refusal.reason is not Reason.VICTIMS:
                failed[same] = refusal
            self.refuse(entry, refusal, now, keep=self.startable(entry))
            waits = not self.startable(entry)
            self._claim(entry, refusal, waits, sweep.room, now)
            if known is None:
                self.grown |= self.backfill.refused(entry, refusal, waits, sweep.room, now)
            else:  # one that is equal, in the same queue and before it, is the head if either can be
                self.grown |= self.backfill.forget(entry.key)
            self._look_again(entry, now)
        self._state(entry, now)

    def _after_all(
        self, entry: Entry, refusal: Refusal, kept: Collection[Reservation], sweep: Sweep, now: float
    ) -> Refusal:
        """What it waits for when all is said, and who is evicted for it, if anybody may be."""
        if entry.offered:  # what would be so with every node offered is said first
            return self.plans.refusal_anywhere(entry, sweep.room, now) or plans.refused_by_scheduler(entry)
        if self.plans.ledger.of_group(entry.key) and not self.startable(entry):
            return refusal  # that part of a plan is given up at once
        if sweep.withholds:
            return self._as_it_is_now(entry, refusal, kept, sweep, now)
        return self._answer(entry, refusal, kept, sweep.room, now)

    def _as_it_is_now(
        self, entry: Entry, refusal: Refusal, kept: Collection[Reservation], sweep: Sweep, now: float
    ) -> Refusal:
        """Nobody is evicted for want of what has become free and is left to the next round."""
        self.usage.withheld = {}
        state = self._state_of_room()
        if self._newest is None or self._newest[0] != state:
            self._newest = (state, self.room())
        room = self._newest[1]
        outcome = self.plans.outcome(entry, room, now)
        if isinstance(outcome, Plan) and outcome.places:
            self.preemption.restore(entry, kept)
            self.grown = True
            found = entry.refusal if kept and entry.refusal is not None else refusal
        else:
            found = self._answer(entry, refusal, kept, room, now)
        self._narrow(sweep, self._snapshot())
        return found

    def _answer(self, entry: Entry, refusal: Refusal, kept: Collection[Reservation], room: Room, now: float) -> Refusal:
        left, effects = self.preemption.answer(entry, refusal, kept, room, now)
        self.effects += effects
        if effects:
            self.claiming.begin()
        if (again := self.preemption.again_at(entry.key, now)) is not None:
            self.look_at(entry.key, again)
        return self.plans.out_of_use(entry, left, room, now)

    def _count_members(self, entry: Entry, now: float) -> None:
        need, tally = self.world.need(entry.key), self.world.tallies[entry.key]
        entry.running = tally.started and isinstance(need, Need) and satisfied(need, tally)
        if entry.running and not entry.started:
            self.starts.append(self._start(entry, now))
        entry.started |= entry.running
        if entry.started and not entry.running:
            self.stale.note(entry.key, now)
        else:
            self.stale.forget(entry.key)

    def _start(self, entry: Entry, now: float) -> Start:
        """The group has reached its minimum for the first time."""
        planned = now if entry.planned_at is None else entry.planned_at
        bound = (pod for pod in self.world.members[entry.key].values() if pod.bound)
        return Start(
            queue=self.world.queue_of(entry.key),
            gpus=sum(parts_in(pod.shape.request) for pod in bound) / GPU_PARTS,
            waited=max(0.0, planned - entry.arrival),
            starting=now - planned,
        )

    def _claim(self, entry: Entry, refusal: Refusal, waits: bool, room: Room, now: float) -> None:
        """The first of a queue's groups that wait for room hold back from borrowers what the queue owns of it."""
        queue, asked = self.world.queue_of(entry.key), self.asking.asked(entry)
        order = self.asking.order_key(entry)
        if (
            waits
            and refusal.reason in HELD_BACK
            and self.claiming.is_early(queue, entry.key, order, asked, self.usage.tree)
            and self.backfill.able(entry, room, now)
        ):
            pods = self.world.members[entry.key].values()
            constraints = frozenset(pod.shape.constraints for pod in pods if standing(pod) is Standing.WAITING)
            self.claiming.put(queue, Claimant(entry.key, order, asked, constraints))
        else:
            self.grown |= self.claiming.drop(entry.key)

    def _list_open_queues(self, now: float) -> None:
        known = frozenset() if self.nominating else self.usage.tree.admitting
        if self._sweep is None:
            write = self.opening.write(frozenset(name for name in known if self.backlog.is_open(name)), now)
        elif self.opening.waits(self._sweep.began, now):
            return
        else:
            write = self.opening.close(lambda name: name not in known or not self.backlog.is_open(name), now)
        if write is not None:
            self.effects.append(write)
