"""Making, moving and revoking plans: the changes to ledger and group records that a decision consists of.

Takes a group's record and the cycle's room, changes the ledger, and gives effects; must not choose
which group's turn it is (engine) nor how members are placed (planning, placement).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from extender.core import changes, claims, departures, leading, messages, ordering, outage, placing, planning
from extender.core.allowance import Allowance, over_capability
from extender.core.asking import Asking
from extender.core.budgets import Disruptions
from extender.core.claims import Against, Claim
from extender.core.decisions import Decided, Placed
from extender.core.earmarks import Earmarks
from extender.core.feasibility import Facts
from extender.core.firm import Firm
from extender.core.headroom import FREE, Behind, Headroom, Headrooms
from extender.core.ids import GroupKey, NodeName, PodUid, QueueName
from extender.core.ledger import Ledger, Reservation, Slot
from extender.core.membership import Need
from extender.core.messages import Effect
from extender.core.model import Hold, Pod, Shares
from extender.core.parts import parts_of
from extender.core.planning import Entry, Plan, Wish
from extender.core.reasons import Reason, Refusal
from extender.core.resources import Amounts, with_shares
from extender.core.snapshot import Matrix, Room
from extender.core.usage import Charge, Usage
from extender.core.world import World

#: so many groups and charges are counted anew in one step, which takes about two milliseconds
_COUNTED_AT_ONCE = 100


class Plans:
    """The ledger and what may be done to it. `holds` is the gate's newest list of held calls."""

    def __init__(self, world: World, usage: Usage) -> None:
        self._world = world
        self._usage = usage
        #: of a cluster in which nothing runs, and that has no queues
        self._unused = Usage(world.queue_of)
        self.disruptions = Disruptions(world)
        self.firm = Firm(world, usage, self.disruptions)
        #: what others hold back from a group, and what the evictable groups of a queue use below a priority (`Records`)
        self.claims: Callable[[GroupKey, Usage, Mapping[str, int]], Iterable[Claim]] = lambda key, usage, asked: ()
        self.lower: Callable[[QueueName, int], Mapping[str, int]] = lambda queue, priority: {}
        self.headrooms = Headrooms()
        self.ledger = Ledger(world.nodes, usage.charge)
        self.asking = Asking(world, self.ledger)
        self.earmarks = Earmarks(world.nodes, usage.charge)
        self.holds: Mapping[PodUid, Hold] = {}
        #: nominated uids whose clearing has not been confirmed yet
        self._clearing: set[PodUid] = set()
        self._freed = False
        #: what was decided about groups since this was last cleared
        self.decided: list[Decided] = []

    def take_freed(self) -> bool:
        """True when room was given up since this was last asked."""
        freed, self._freed = self._freed, False
        return freed

    def reset(self) -> None:
        """Forget all plans; what the gate holds stays known."""
        self.ledger.clear()
        self.earmarks.clear()
        self.headrooms = Headrooms()
        self._clearing.clear()

    def make(self, entry: Entry, room: Room, now: float) -> Refusal | None:
        """Give the group what it wants of the room; the refusal that remains, if any.

        One that starts is given its minimum alone; for what it wants beyond that it has another turn.

        Members that cannot be placed beside those planned before may still fit all together elsewhere: as
        long as none of the planned ones is held at the gate, the whole plan is made anew.
        """
        wish = self.wish(entry, now)
        if not isinstance(wish, Wish):
            return wish
        before = self._free(entry, room, expected_only=True)
        behind = self._behind(entry, now)
        outcome = placing.begin(wish, room, self.allowance(entry.key, room, self._usage, behind))
        if isinstance(outcome, Refusal):
            self._freed |= bool(before)
            return self.remake(entry, room, now) if self.movable(entry) else outcome
        self._reserve(entry, outcome, now)
        self._note_freed(before)
        return outcome.left

    def remake(self, entry: Entry, room: Room, now: float) -> Refusal | None:
        """Plan the whole group anew, as if none of it were planned; the old plan stays if that fails."""
        before = self._free(entry, room, expected_only=False)
        wish = self.wish(entry, now)
        outcome = self._fulfil(entry, wish, room, now) if isinstance(wish, Wish) else wish
        if isinstance(outcome, Plan):
            self._reserve(entry, outcome, now)
            self._note_freed(before)
            return outcome.left
        self._restore(before, room)
        self._freed |= any(r.expected for r in before)
        return outcome

    def refusal_anywhere(self, entry: Entry, room: Room, now: float) -> Refusal | None:
        """Why the group has no place in this room even if the lists offered to its members are left aside."""
        lists, entry.offered = entry.offered, {}
        wish = self.wish(entry, now)
        entry.offered = lists
        outcome = self._fulfil(entry, wish, room.copy(), now) if isinstance(wish, Wish) else wish
        if isinstance(outcome, Plan):
            return None if outcome.places else outcome.left
        return outcome

    def move(self, entry: Entry, pod: Pod, room: Room, now: float) -> bool:
        """Plan one member anew within the nodes offered to it, beside its siblings; False if impossible."""
        old = self.ledger.release(Slot(pod.uid))
        assert old is not None, f"{pod.uid} has no plan to move"
        room.give_back(self._row(old), old.request, shares=old.shares)
        wish = self._alone(entry, pod)
        outcome = wish if isinstance(wish, Refusal) else self._fulfil(entry, wish, room, now)
        if isinstance(outcome, Refusal):
            self._restore([old], room)
            return False
        self._reserve(entry, outcome, entry.planned_at or 0.0)
        self._freed = True
        return True

    def wish(self, entry: Entry, now: float) -> Wish | Refusal | None:
        """What the group wants, if its queue may have it at all: that is said before anything that time may mend."""
        wish = planning.wish_of(self._world, self.ledger, entry, now)
        if wish is None or (isinstance(wish, Refusal) and wish.reason is Reason.INVALID):
            return wish
        if isinstance(wish, Wish) and not wish.whole and not wish.surplus:
            return wish
        refused = self._usage.tree.refusal(self._world.queue_of(entry.key), entry.key.namespace)
        return refused or self._world.no_class(entry.key) or wish

    def _fulfil(self, entry: Entry, wish: Wish, room: Room, now: float) -> Plan | Refusal:
        return placing.fulfil(wish, room, self.allowance(entry.key, room, self._usage, self._behind(entry, now)))

    def allowance(self, key: GroupKey, room: Room, usage: Usage, behind: Behind = FREE) -> Allowance:
        """What the group may still take, with this usage, behind heads that come before it."""
        firm = self.firm.sums() if self.firm.is_firm(key) else None
        return Allowance(usage, self._world.queue_of(key), room, self.against(key, usage), firm, behind)

    def against(self, key: GroupKey, usage: Usage) -> Against:
        """What others hold back from the group; where no queue owns anything that is nothing, and costs nothing."""
        return functools.partial(self.claims, key) if usage.tree.owned else claims.nothing

    def outcome(self, entry: Entry, room: Room, now: float) -> Plan | Refusal | None:
        """What would become of the group in this room, which is not used up; None when it wants nothing."""
        wish = self.wish(entry, now)
        return self._fulfil(entry, wish, room.copy(), now) if isinstance(wish, Wish) else wish

    def tried(self, entry: Entry, wish: Wish, room: Room, usage: Usage) -> Plan | Refusal:
        """What would become of the wish in this room, with this usage; neither is used up."""
        there = room.copy()
        behind = self._behind(entry, None).aside()
        return placing.fulfil(wish, there, self.allowance(entry.key, there, usage, behind))

    def before(self, entry: Entry) -> Iterator[Headroom]:
        """What is kept for heads that come before this group."""
        return self.headrooms.before(entry.key, self._passes(entry))

    def _behind(self, entry: Entry, now: float | None) -> Behind:
        """What binds the group if it starts now; None: it is not known when it starts."""
        if not self.headrooms:
            return FREE
        seconds = None if now is None else departures.duration(self._world.need(entry.key))
        return self.headrooms.behind(entry.key, now or 0.0, seconds, self._passes(entry))

    def _passes(self, entry: Entry) -> Callable[[Headroom], bool]:
        order, asked = self.asking.order_key(entry), self.asking.asked(entry)
        mine = self.turn(self._world.queue_of(entry.key), order, asked)
        return lambda mark: ordering.passes(self._usage, mine, self.turn(mark.queue, mark.order, mark.asked))

    def turn(self, queue: QueueName, order: ordering.OrderKey, asked: Amounts) -> ordering.Turn:
        """What decides whose turn comes first."""
        owned = self._usage.tree.owned
        lower = {} if owned.isdisjoint(resource for resource, _ in asked) else self.lower(queue, -order[0])
        return ordering.Turn(queue, order, asked, lower)

    def out_of_use(self, entry: Entry, refusal: Refusal, room: Room, now: float) -> Refusal:
        """The refusal, or another one where the group would have places with all nodes and cards in use."""
        whole = room.mended() if refusal.reason in outage.MENDABLE else None
        wish = self.wish(entry, now) if whole is not None else None
        if whole is None or not isinstance(wish, Wish):
            return refusal
        outcome = self._fulfil(entry, wish, whole, now)
        if isinstance(outcome, Refusal) or not outcome.places:
            return refusal
        rows = self._world.nodes.row_of
        return outage.refusal(room, [(rows[node], member.shares) for member, node in outcome.places])

    def could_start(self, entry: Entry, room: Room, now: float) -> bool:
        """True when the group would have its places if nothing else ran."""
        wish = self.wish(entry, now)
        if not isinstance(wish, Wish):
            return False
        alone, queue = self._usage.emptied(), self._world.queue_of(entry.key)
        return isinstance(placing.fulfil(wish, there := room.emptied(), Allowance(alone, queue, there)), Plan)

    def lead(self, entry: Entry, nominate: bool, now: float) -> Iterator[Effect]:
        """Effects that bring kube-scheduler to the plan; each is given once."""
        for slot, reservation in self.ledger.of_group(entry.key).items():
            pod = self._world.pods.get(PodUid(slot))
            if pod is not None:
                yield from leading.lead(entry, pod, reservation.node, nominate, now)
        yield from self._unlead_others(entry)

    def lead_one(self, entry: Entry, pod: Pod, nominate: bool, now: float) -> Iterator[Effect]:
        """The same for one member that has a plan."""
        reservation = self.ledger.get(Slot(pod.uid))
        assert reservation is not None, f"{pod.uid} has no plan"
        yield from leading.lead(entry, pod, reservation.node, nominate, now)

    def revoke(self, entry: Entry) -> Iterator[Effect]:
        """Give up the group's plan. What the scheduler may still act on is counted until that is undone."""
        plan = list(self.ledger.of_group(entry.key))
        self._freed |= bool(plan)
        held = tuple(PodUid(slot) for slot in plan if PodUid(slot) in self.holds)
        for slot in plan:
            yield from self._undo(entry, slot)
        yield from self._unlead_others(entry)
        entry.led.clear()
        entry.nominated.clear()
        entry.planned_at = None
        if held:
            yield messages.Withdraw(held)

    def _unlead_others(self, entry: Entry) -> Iterator[Effect]:
        """Members that were led once and have lost their place since."""
        for uid in [uid for uid in entry.nominated if self.ledger.get(Slot(uid)) is None]:
            pod = self._world.pods.get(uid)
            yield from leading.unlead(entry, pod) if pod is not None else ()

    def _undo(self, entry: Entry, slot: Slot) -> Iterator[Effect]:
        uid = PodUid(slot)
        pod = self._world.pods.get(uid)
        cleared = list(leading.unlead(entry, pod)) if pod is not None else []
        if uid in self.holds or cleared:
            self.ledger.linger(slot)
        else:
            self.ledger.release(slot)
        if cleared:
            self._clearing.add(uid)
            yield from cleared

    def cleared(self, uid: PodUid) -> bool:
        """A nomination was cleared in the API; True when room became free by it."""
        self._clearing.discard(uid)
        return self.settle(uid)

    def settle(self, uid: PodUid) -> bool:
        """Stop counting a lingering reservation that nobody can act on any more; True when one went."""
        if Slot(uid) not in self.ledger.lingering() or uid in self.holds or uid in self._clearing:
            return False
        return self.ledger.release(Slot(uid)) is not None

    def forget(self, uid: PodUid) -> NodeName | None:
        """The pod is bound, ended or gone: whatever it held is over. The node where it held something."""
        self._clearing.discard(uid)
        held = self.ledger.release(Slot(uid))
        return None if held is None else held.node

    def clearing(self, uid: PodUid) -> bool:
        """True while the nomination of a revoked plan is still to be cleared."""
        return uid in self._clearing

    def held_astray(self, uid: PodUid) -> bool:
        """True when a bind call of this pod is held that its plan does not account for."""
        hold, planned = self.holds.get(uid), self.ledger.get(Slot(uid))
        return hold is not None and (planned is None or planned.node != hold.node)

    def lingers(self, entry: Entry) -> bool:
        """True while a revoked plan of this group is still being undone."""
        return self.ledger.lingers(entry.key)

    def under_way(self, key: GroupKey) -> bool:
        """True while members of this group are planned, or are held at the gate: they may be bound at any moment."""
        if self.ledger.of_group(key) or self.ledger.lingers(key):
            return True
        return any(hold.group == key for hold in self.holds.values())

    def on_their_way(self, key: GroupKey) -> bool:
        """The same, but for room that is only kept for members that do not exist."""
        plan = self.ledger.of_group(key)
        return self.under_way(key) and not (plan and all(r.expected for r in plan.values()))

    def claim(self, pod: Pod) -> bool:
        """Let a new member take the room kept for an expected one of its task and shape; not where its slice decides
        where it goes."""
        need = self._world.need(pod.group)
        if isinstance(need, Need) and any(part.divided for part in parts_of(pod, need.parts)):
            return False
        plan = self.ledger.of_group(pod.group)
        for slot, reservation in plan.items():
            if reservation.expected and reservation.task == pod.task and reservation.shape == pod.shape:
                self.ledger.claim(slot, Slot(pod.uid))
                return True
        return False

    def adopt(self, pod: Pod, node: NodeName) -> bool:
        """Take over a placement found in the cluster (a hold, a nomination), if node and queue have room for it."""
        row = self._world.nodes.row_of.get(node)
        request = self._world.request_row(pod)
        if row is None or not self._world.columns.know(pod.shape.request):
            return False
        self.ledger.fit()
        nodes, width = self._world.nodes, len(request)
        free = nodes.allocatable[row] - nodes.used[row] - self.ledger.reserved[row]
        for kept in self.earmarks.on_node(node):
            free[: len(kept)] -= kept
        if (free[:width] < request).any():
            return False
        if over_capability(self._usage, self._world.queue_of(pod.group), dict(pod.shape.request)) is not None:
            return False
        shares: Shares | None = ()
        if nodes.cards and pod.shape.cards is not None:
            shares = nodes.cards.choose(node, pod.shape.cards)
        if shares is None:
            return False
        slot = Slot(pod.uid)
        self.ledger.reserve(Reservation(slot, pod.group, pod.task, pod.shape, node, request, shares=shares))
        return True

    def broken(self, suspects: set[NodeName], facts: Facts) -> Iterator[Reservation]:
        """Release, on these nodes, reservations that the node refuses or has no room for; held ones last."""
        for name in sorted(suspects):
            held_last = sorted(self.ledger.on_node(name).values(), key=lambda r: (PodUid(r.slot) in self.holds, r.slot))
            for reservation in held_last:
                mask = facts.mask(reservation.shape.constraints)
                if mask[self._row(reservation)] and not self.short(reservation):
                    continue
                self.ledger.release(reservation.slot)
                yield reservation

    def drop_node(self, name: NodeName) -> list[Reservation]:
        """Release all on a node that goes away; call it before the world forgets the node."""
        self.earmarks.drop_node(name)
        return self.ledger.drop_node(name)

    def reserved(self) -> Matrix:
        """What plans reserve and what is kept for groups, by row of the node table."""
        self.ledger.fit()
        return self.earmarks.added_to(self.ledger.reserved)

    def less_kept_cards(self, room: Room) -> Room:
        """The room without the cards that are kept for groups: the victims may stand there still."""
        for place in self.earmarks if room.cards is not None else ():
            room.take_cards(self._row(place), place.shares)
        return room

    def free(self) -> dict[str, int]:
        """What neither pods nor reservations take of the nodes, by resource."""
        nodes = self._world.nodes
        free = np.maximum(nodes.allocatable - nodes.used - self.reserved(), 0)
        return with_shares(self._world.columns.sums(free))

    def recount(self) -> Iterator[int | None]:
        """Count anew what queues use, in steps (None); in how many of them it differs from what was kept up.

        Events may be handled between two steps. None at the end when the queues changed meanwhile.
        """
        keys = dict.fromkeys((*self._world.members, *self._usage.groups()))
        recount, counted = self._usage.recount(keys), 0
        for key in keys:
            charges = list(self._charges(key))
            recount.count(key, charges)
            counted += 1 + len(charges)
            if counted >= _COUNTED_AT_ONCE:
                counted = 0
                yield None
        differing = self._usage.differing(recount)
        yield None if differing is None else len(differing)

    def _charges(self, key: GroupKey) -> Iterator[Charge]:
        """What the group is charged with: its pods, its reservations, and what is kept for it."""
        for pod in self._world.members.get(key, {}).values():
            charge = changes.charge(pod, self._world.managed)
            if charge is not None:
                yield charge
        lingering = self.ledger.lingering().values() if self.ledger.lingers(key) else ()
        kept = (*self.ledger.of_group(key).values(), *self.earmarks.of(key))
        for place in (*kept, *(one for one in lingering if one.group == key)):
            yield key, None, place.shape.request

    def unaccounted(self) -> int:
        """Planned reservations of pods that do not wait, and lingering ones that nothing is to end."""
        pods = self._world.pods
        planned = sum(
            1
            for slot, reservation in self.ledger.planned().items()
            if not reservation.expected and ((pod := pods.get(PodUid(slot))) is None or not pod.waiting)
        )
        lingering = map(PodUid, self.ledger.lingering())
        return planned + sum(1 for uid in lingering if uid not in self.holds and uid not in self._clearing)

    def short(self, reservation: Reservation) -> bool:
        """True when the reservation's node has less of something it wants than is promised there."""
        nodes = self._world.nodes
        row, width = self._row(reservation), len(reservation.request)
        promised = nodes.used[row, :width] + self.ledger.reserved[row, :width]
        if ((promised > nodes.allocatable[row, :width]) & (reservation.request > 0)).any():
            return True
        cards = nodes.cards if reservation.shape.cards is not None else None
        return bool(cards) and nodes.cards.over(reservation.node, reservation.shares)

    def _row(self, reservation: Reservation) -> int:
        return self._world.nodes.row_of[reservation.node]

    def movable(self, entry: Entry) -> bool:
        """True when there is a plan of which nothing is held at the gate."""
        plan = self.ledger.of_group(entry.key)
        return bool(plan) and not any(PodUid(slot) in self.holds for slot in plan)

    def _alone(self, entry: Entry, pod: Pod) -> Wish | Refusal:
        need = self._world.need(entry.key)
        return need if isinstance(need, Refusal) else planning.beside_others(self._world, self.ledger, entry, need, pod)

    def _free(self, entry: Entry, room: Room, expected_only: bool) -> list[Reservation]:
        freed = [r for r in self.ledger.of_group(entry.key).values() if r.expected or not expected_only]
        for reservation in freed:
            self.ledger.release(reservation.slot)
            room.give_back(self._row(reservation), reservation.request, shares=reservation.shares)
        return freed

    def _restore(self, before: list[Reservation], room: Room) -> None:
        for reservation in before:
            if not reservation.expected:
                self.ledger.reserve(reservation)
                room.take(self._row(reservation), reservation.request)
                room.take_cards(self._row(reservation), reservation.shares)

    def _note_freed(self, before: list[Reservation]) -> None:
        now = {slot: r.node for slot, r in self.ledger.of_group(before[0].group).items()} if before else {}
        self._freed |= any(now.get(r.slot) != r.node for r in before)

    def _reserve(self, entry: Entry, plan: Plan, now: float) -> None:
        for member, node in plan.places:
            request = self._world.columns.row(member.shape.request)
            self.ledger.reserve(
                Reservation(
                    *(member.slot, entry.key, member.task, member.shape, node, request),
                    expected=member.expected,
                    shares=member.shares,
                )
            )
        if plan.places:
            entry.planned_at = now
            self.decided.append(Placed(entry.key, tuple((member.slot, node) for member, node in plan.places)))
        self.firm.refresh(entry.key)


def refused_by_scheduler(entry: Entry) -> Refusal:
    """The refusal of a plan that kube-scheduler's own checks turned down, with its words."""
    detail: tuple[tuple[str, str | int], ...] = (("members", len(entry.refused)),)
    if entry.refused_by:
        detail += (("message", entry.refused_by[:300]),)
    return Refusal(Reason.SCHEDULER_REFUSED, detail)
