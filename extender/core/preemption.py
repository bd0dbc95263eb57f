"""Room freed for a group that waits: decided, kept for it while the victims leave, and given up when it is of no use.

Takes a group's refusal and the room, gives evictions and what the group waits for now; must not choose the victims
(`choosing`) nor know the rules (`eligible`, `draft`).

What is leaving already is counted first, whatever makes it leave: if the group has its places then, it waits for that
and nobody else goes. Otherwise victims are looked for. No placement, no eviction (design invariant 4). From then on
the places are kept for the group (`earmarks`), and looked at again at each of its turns:

    refused ──entitled, fits when those that leave are gone, or when victims are──> WaitingForVictims
       ^                                                             │  └──room is there──> planned
       └──an eviction was refused, a node is lost, it asks for else──┘

An earmark needs no end of its own: at each turn it is lifted first, and put back only as far as it still holds. Nothing
here survives a restart; then those that leave are room to come for whoever has the first turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from extender.core import choosing
from extender.core.casting import NAMED, Cast, Casting
from extender.core.coming import STUCK_SECONDS, Coming
from extender.core.eligible import Holders
from extender.core.ids import GroupKey, PodUid, QueueName
from extender.core.ledger import Reservation, Slot
from extender.core.losses import Loss, losses
from extender.core.messages import Effect, Evict, NoteEviction
from extender.core.planning import Entry, Member, Plan, Wish
from extender.core.plans import Plans
from extender.core.reasons import Reason, Refusal
from extender.core.snapshot import Room
from extender.core.usage import Usage
from extender.core.wholes import Wholes, pause
from extender.core.world import World

#: reasons that room or quota in use by others would end
MENDED = frozenset(
    (
        *(Reason.RESOURCES, Reason.FRAGMENTED, Reason.DEVICE_NO_FIT, Reason.TOPOLOGY, Reason.UNLABELLED),
        *(Reason.QUOTA, Reason.RESERVED),
    )
)
#: of these, those that may turn out to be another one when victims are thought away
_SUMS = (Reason.RESOURCES,)
_SHAPES = (Reason.FRAGMENTED, Reason.DEVICE_NO_FIT, Reason.TOPOLOGY, Reason.UNLABELLED)
#: changes of more groups than so many are not looked at one by one
_DOUBTED = 20_000


@dataclass(frozen=True, slots=True)
class Decision:
    """A plan, and who is to go for it; nobody when those that are leaving suffice."""

    plan: Plan
    losses: tuple[Loss, ...] = ()


@dataclass(slots=True)
class _Cause:
    """A group for which room is freed, or was."""

    #: members that the newest evictions were for, and how often in a row there were some for any of them
    slots: frozenset[Slot] = frozenset()
    times: int = 0
    #: nobody more is evicted for it before this time
    not_before: float = 0.0
    refusals: int = 0


@dataclass(slots=True)
class _Scene:
    """What is the same for all groups of a round."""

    casting: Casting
    #: pods that are leaving, or are asked to
    coming: Coming
    #: by the group that they are for, those that are asked to
    victims: dict[GroupKey, list[PodUid]]
    #: when time alone may end what bars a group's victims
    until: dict[GroupKey, float] = field(default_factory=dict)


class Preemption:
    """The groups for which room is being freed."""

    def __init__(self, world: World, usage: Usage, plans: Plans, wholes: Wholes) -> None:
        self._world = world
        self._usage = usage
        self._plans = plans
        self._wholes = wholes
        self._disruptions, self._firm = plans.disruptions, plans.firm
        self._causes: dict[GroupKey, _Cause] = {}
        #: evictions under way, by the group that they are for
        self._for: dict[PodUid, GroupKey] = {}
        #: who was not let go, and until when that is believed
        self._refused: dict[PodUid, float] = {}
        #: since when those that are leaving are known to be
        self._since: dict[PodUid, float] = {}
        self._scene: _Scene | None = None
        self._now = 0.0
        #: what lasts from round to round, and the groups to which something has happened since
        self._casting: Casting | None = None
        self._coming: Coming | None = None
        self._doubted: dict[GroupKey, None] = {}

    def reset(self) -> None:
        """Forget for whom room is freed; the evictions are under way all the same."""
        self._causes.clear()
        self._refused.clear()
        self._scene = None
        self.doubt_all()

    def begin(self, now: float) -> None:
        """A round begins, or goes on after something has happened."""
        self._scene, self._now = None, now
        if self._refused:
            self._refused = {uid: until for uid, until in self._refused.items() if until > now}
            self.doubt_all()

    def doubt(self, key: GroupKey) -> None:
        """Something of the group may have changed, or evictions of its members are under way."""
        if self._casting is not None:
            self._doubted[key] = None
            if len(self._doubted) > _DOUBTED:
                self.doubt_all()

    def doubt_all(self) -> None:
        """Something else has changed than members of groups: nothing lasts."""
        self._casting = self._coming = None
        self._doubted.clear()

    def concerns(self, key: GroupKey) -> bool:
        """True when room is being freed for the group."""
        return key in self._causes

    def forget(self, key: GroupKey) -> bool:
        """Nothing is freed for the group any more; True when something was kept for it."""
        self._causes.pop(key, None)
        return bool(self._plans.earmarks.lift(key))

    def refused(self, effect: Evict, now: float) -> GroupKey | None:
        """An eviction was refused: its cause is planned again after a while. The group that it was for."""
        key = self._for.pop(effect.uid, None)
        cause = self._causes.get(key) if key is not None else None
        if key is None or cause is None:
            return None
        cause.refusals += 1
        cause.not_before = max(cause.not_before, now + pause(cause.refusals))
        self._refused[effect.uid] = cause.not_before + pause(cause.refusals)
        return key

    def again_at(self, key: GroupKey, now: float) -> float | None:
        """When time alone may change what can be done for the group."""
        until = self._scene.until.get(key) if self._scene is not None else None
        return min((at for at in (until, self._held_off(key, now)) if at is not None), default=None)

    def _held_off(self, key: GroupKey, now: float) -> float | None:
        """Until when nobody more is evicted for the group."""
        cause = self._causes.get(key)
        return cause.not_before if cause is not None and cause.not_before > now else None

    def lower(self, queue: QueueName, priority: int) -> Mapping[str, int]:
        """What the groups of a queue use of it that are of lower priority and may be evicted."""
        if self._scene is None:
            self._scene = self._look(self._now)
        return self._scene.casting.lower(queue, priority).going.uses(queue)

    # --- a group's turn -------------------------------------------------------------------------

    def lift(self, entry: Entry, room: Room) -> tuple[Reservation, ...]:
        """What is kept for the group is free for it now."""
        places = self._plans.earmarks.lift(entry.key)
        for place in places:
            room.give_back(self._world.nodes.row_of[place.node], place.request, shares=place.shares)
        self._firm.refresh(entry.key)
        return places

    def restore(self, entry: Entry, places: Collection[Reservation]) -> None:
        """What was kept for the group is kept again; the room in which it was lifted is of no use any more."""
        self._plans.earmarks.put(entry.key, places)
        self._firm.refresh(entry.key)

    def answer(
        self, entry: Entry, refusal: Refusal, before: Collection[Reservation], room: Room, now: float
    ) -> tuple[Refusal, list[Effect]]:
        """What the group waits for after this refusal, and the evictions to that end. `before` was kept for it."""
        if refusal.reason not in MENDED:
            self._causes.pop(entry.key, None)
            return refusal, []
        decided = self._same(entry, before, room, now) or self.decide(entry, refusal, room, now)
        if isinstance(decided, Refusal):
            if self._held_off(entry.key, now) is None and not (self._scene and self._scene.victims.get(entry.key)):
                self._causes.pop(entry.key, None)
            return decided, []
        self._keep(entry.key, decided.plan, room)
        cause = self._causes.setdefault(entry.key, _Cause())
        if decided.losses:
            slots = frozenset(member.slot for member, _ in decided.plan.places)
            cause.times = cause.times + 1 if slots & cause.slots else 0
            cause.slots = slots
            cause.not_before = max(cause.not_before, now + pause(cause.times) if cause.times else 0.0)
        effects = [effect for loss in decided.losses for effect in self._evict(entry.key, loss, now)]
        return self._waiting(entry.key, decided.plan), effects

    def _same(self, entry: Entry, before: Collection[Reservation], room: Room, now: float) -> Decision | None:
        """The plan as it was kept, if it is for the same members and still comes true."""
        wish = self._wish(entry, now) if before else None
        if wish is None or {m.slot for m in wish.members} != {place.slot for place in before}:
            return None
        free, usage = self._to_come(room, now)
        rows = self._world.nodes.row_of
        for place in before:
            free.take(rows[place.node], place.request)
            free.take_cards(rows[place.node], place.shares)
        if any(self._is_lost(place, free) for place in before):
            return None
        if not self._allows(entry, wish, free, usage):
            return None
        node_of = {place.slot: place.node for place in before}
        shares_of = {place.slot: place.shares for place in before}
        members = (replace(member, shares=shares_of[member.slot]) for member in wish.members)
        return Decision(Plan(tuple((member, node_of[member.slot]) for member in members)))

    def _is_lost(self, place: Reservation, free: Room) -> bool:
        """True when the place's node does not take such pods any more, or too much is on it."""
        row, want = self._world.nodes.row_of[place.node], free.snapshot.want(place.shape)
        return not want.mask[row] or free.overdrawn(row, [column for column, _ in want.asked])

    def _keep(self, key: GroupKey, plan: Plan, room: Room) -> None:
        places = []
        for member, node in plan.places:
            request = self._world.columns.row(member.shape.request)
            room.take(self._world.nodes.row_of[node], request)
            room.take_cards(self._world.nodes.row_of[node], member.shares)
            places.append(Reservation(member.slot, key, member.task, member.shape, node, request, shares=member.shares))
        self._plans.earmarks.put(key, places)
        self._firm.refresh(key)

    def _evict(self, key: GroupKey, loss: Loss, now: float) -> Iterator[Effect]:
        group = self._world.groups.get(loss.group)
        if group is not None and loss.group.told:
            yield NoteEviction(loss.group, group.uid, loss.ground, now, loss.detail)
        assert self._scene is not None
        for pod in loss.pods:
            self._for[pod.uid] = key
            self._scene.victims.setdefault(key, []).append(pod.uid)
            self._disruptions.asked(pod)
        self._scene.coming.add(loss.pods, now)
        yield from self._wholes.ask(loss.pods, loss.ground, loss.detail)
        self._scene.casting.renew(loss.group)

    def _waiting(self, key: GroupKey, plan: Plan) -> Refusal:
        assert self._scene is not None
        coming = self._scene.coming.absence
        there = {pod.uid: pod for node in {node for _, node in plan.places} for pod in coming.on(node)}
        there |= {uid: coming.pods[uid] for uid in self._scene.victims.get(key, ()) if uid in coming.pods}
        pods = list(there.values())
        stuck = [self._since[pod.uid] + STUCK_SECONDS for pod in pods if pod.uid in self._since]
        if stuck:
            self._scene.until[key] = min(stuck)
        groups = sorted({pod.name if pod.group.lone else pod.group.name for pod in pods})
        return Refusal(Reason.VICTIMS, (("victims", len(pods)), *(("group", name) for name in groups[:NAMED])))

    def dry_run(self, entry: Entry, refusal: Refusal, room: Room, now: float) -> Decision | Refusal:
        """What would be done for a group that waits, if nothing had been done for it before."""
        self._scene = None
        places = self.lift(entry, room)
        try:
            return self.decide(entry, refusal, room, now)
        finally:
            self.restore(entry, places)

    # --- the decision ---------------------------------------------------------------------------

    def decide(self, entry: Entry, refusal: Refusal, room: Room, now: float) -> Decision | Refusal:
        """What would be done for a group that was refused in this room. Changes nothing."""
        wish = self._wish(entry, now)
        if wish is None or not wish.members:
            return refusal
        first: Refusal | None = None
        for part in _parts(wish):
            found = self._try(entry, part, refusal, room, now)
            if isinstance(found, Decision):
                return found
            first = first or found
        assert first is not None
        count = len(wish.surplus)
        return self._some(entry, wish, refusal, room, now, count) or first

    def _some(self, entry: Entry, wish: Wish, refusal: Refusal, room: Room, now: float, failed: int) -> Decision | None:
        """As many of the members that may start one by one as can be; so many are too many."""
        best: Decision | None = None
        fits = 0
        while failed - fits > 1:
            middle = (fits + failed) // 2
            found = self._try(entry, _alone(wish, wish.surplus[:middle]), refusal, room, now)
            if isinstance(found, Decision):
                best, fits = found, middle
            else:
                failed = middle
        return best

    def _wish(self, entry: Entry, now: float) -> Wish | None:
        """What the group wants, if anybody may be evicted for it: all of it exists, and no list leaves nodes out."""
        if entry.offered or any(r.expected for r in self._plans.ledger.of_group(entry.key).values()):
            return None
        wish = self._plans.wish(entry, now)
        return wish if isinstance(wish, Wish) and wish.missing is None else None

    def _try(self, entry: Entry, wish: Wish, refusal: Refusal, room: Room, now: float) -> Decision | Refusal:
        free, usage = self._to_come(room, now)
        assert self._scene is not None
        cast = self._scene.casting.cast(entry.key, wish, usage)
        if not (cast.any_free or cast.any_barred or entry.key in self._causes):
            return refusal
        if cast.until < float("inf"):
            self._scene.until[entry.key] = cast.until
        plan = self._plans.tried(entry, wish, free, usage) if self._scene.coming.absence.pods else None
        if isinstance(plan, Plan):
            return Decision(plan)
        if self._held_off(entry.key, now) is not None:
            return Refusal(Reason.NO_VICTIMS, (("problem", "an eviction was refused, or did not help"),))
        chosen = self._choose(entry, wish, cast, free, usage)
        return chosen or self._barred(entry, wish, cast, free, usage, refusal)

    def _choose(self, entry: Entry, wish: Wish, cast: Cast, room: Room, usage: Usage) -> Decision | None:
        """Victims, if there would be a place at all when everybody had gone who may."""
        if not cast.any_free:
            return None
        if not isinstance(self._plans.tried(entry, wish, *cast.without_free(room, usage)), Plan):
            return None
        assert self._scene is not None
        case = self._scene.casting.case(
            entry.key,
            wish,
            cast,
            room,
            usage,
            lambda room, usage: self._plans.tried(entry, wish, room, usage),
            lambda room, usage: self._allows(entry, wish, room, usage),
        )
        chosen = choosing.choose(case)
        if chosen is None:
            return None
        draft, plan = chosen
        return Decision(plan, tuple(losses(self._world, entry.key, case, draft.units, plan, cast.protected)))

    def _barred(self, entry: Entry, wish: Wish, cast: Cast, room: Room, usage: Usage, refusal: Refusal) -> Refusal:
        """Protected victims are the reason when all would be well without them; or else it is as if they were gone."""
        if not (cast.any_free or cast.any_barred):
            return refusal
        left = self._plans.tried(entry, wish, *cast.without_all(room, usage))
        if isinstance(left, Plan) or (cast.any_barred and left.reason is Reason.RESERVED):
            return Refusal(Reason.NO_VICTIMS, cast.bars(self._disruptions))
        return left if refusal.reason in _SUMS and left.reason in _SHAPES else refusal

    # --- what is leaving already ----------------------------------------------------------------

    def _to_come(self, room: Room, now: float) -> tuple[Room, Usage]:
        """The room, and what queues use, when those that are leaving have gone."""
        if self._scene is None:
            self._scene = self._look(now)
        coming = self._scene.coming.absence
        return coming.room(room), coming.usage(self._usage)

    def _look(self, now: float) -> _Scene:
        shape, asked = self._world.nodes.shape, self._wholes.asked
        casting = self._casting if self._casting is not None and self._casting.shape == shape else None
        coming = self._coming if casting is not None and self._coming is not None and now < self._coming.until else None
        if casting is None:
            holders = Holders(
                self._world, self._usage, self._wholes, self._disruptions, self._firm, self._plans.under_way
            )
            casting = self._casting = Casting(self._world, holders, self._disruptions, self._refused, shape)
        casting.begin(now)
        for key in self._doubted:
            casting.renew(key)
            if coming is not None:
                coming.renew(key, now)
        self._doubted.clear()
        if coming is None:
            coming = self._coming = Coming(self._world, self._wholes, self._since, shape, now)
        self._for = {uid: key for uid, key in self._for.items() if uid in asked}
        victims: dict[GroupKey, list[PodUid]] = {}
        for uid, key in self._for.items():
            victims.setdefault(key, []).append(uid)
        return _Scene(casting, coming, victims)

    def _allows(self, entry: Entry, wish: Wish, room: Room, usage: Usage) -> bool:
        allowance = self._plans.allowance(entry.key, room, usage)
        return allowance.refusal(Counter(member.shape for member in wish.members).items()) is None


def _parts(wish: Wish) -> Iterator[Wish]:
    """What to try to make room for, the most first."""
    if not wish.whole:
        yield _alone(wish, wish.surplus)
        return
    yield _alone(wish, wish.whole)
    if wish.least:
        yield _alone(wish, wish.least)


def _alone(wish: Wish, members: tuple[Member, ...]) -> Wish:
    """These members together, and no others."""
    return replace(wish, whole=members, least=(), surplus=())
