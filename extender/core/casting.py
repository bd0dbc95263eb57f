"""Who may go for a group that waits, on which terms, and what protects the others.

Takes a group's wish, room and usage to come, and the groups that hold room; gives a cast: those who may go, those who
are protected, and the terms. Must not choose, nor know what is kept for whom.

What depends on one queue alone is looked up once, and kept up as its groups change: many groups wait, and few queues
hold room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from extender.core import eligible
from extender.core.absence import Absence
from extender.core.budgets import Disruptions
from extender.core.draft import Case, Places
from extender.core.eligible import Holder, Holders, Terms
from extender.core.ids import GroupKey, PodUid, QueueName
from extender.core.lots import Lot
from extender.core.planning import Plan, Wish
from extender.core.quota import Sums
from extender.core.reasons import Detail, Refusal
from extender.core.snapshot import Room
from extender.core.usage import Usage
from extender.core.world import World

#: so many of a kind are named in a refusal
NAMED = 5


@dataclass(frozen=True, slots=True, eq=False)
class Cast:
    """The lots that matter for one group: those of which somebody may go, and those that are protected as a whole."""

    lots: tuple[Lot, ...]
    kept: tuple[tuple[QueueName, Absence], ...]
    terms: Mapping[QueueName, Terms]

    @property
    def holders(self) -> Mapping[GroupKey, Holder]:
        """Who may go, as far as each alone is concerned."""
        several = [lot.free for lot in self.lots if lot.free]
        return several[0] if len(several) == 1 else {key: one for free in several for key, one in free.items()}

    @property
    def any_free(self) -> bool:
        """True when there is anybody who may go."""
        return any(lot.free for lot in self.lots)

    @property
    def any_barred(self) -> bool:
        """True when anybody is protected who could make room."""
        return bool(self.kept) or any(lot.barred.pods for lot in self.lots)

    @property
    def until(self) -> float:
        """When the first of the protected is protected no more by time alone."""
        return min((lot.until for lot in self.lots), default=float("inf"))

    def without_free(self, room: Room, usage: Usage) -> tuple[Room, Usage]:
        """Room and usage if everybody had gone who may."""
        for lot in self.lots:
            room, usage = lot.going.room(room), lot.going.usage(usage)
        return room, usage

    def without_all(self, room: Room, usage: Usage) -> tuple[Room, Usage]:
        """The same if nobody were protected."""
        room, usage = self.without_free(room, usage)
        for lot in self.lots:
            room, usage = lot.barred.room(room), lot.barred.usage(usage)
        for _, absence in self.kept:
            room, usage = absence.room(room), absence.usage(usage)
        return room, usage

    @property
    def protected(self) -> set[tuple[str, str]]:
        """What protects those who may not go at all, each by name."""
        names = {(kind, str(name)) for lot in self.lots for kind, name in lot.names}
        return names | {("queue that gives nothing back", str(queue)) for queue, _ in self.kept}

    def bars(self, disruptions: Disruptions) -> Detail:
        """What protects those who could make room, by name, some of each kind."""
        names = {name for lot in self.lots for name in lot.names} | {("queue", queue) for queue, _ in self.kept}
        for holder in self.holders.values():  # each of them may go, but perhaps not all together
            names |= {("budget", b.name) for pod in holder.pods for b in disruptions.of(pod)}
            names |= {("queue", holder.queue)} if holder.queue in self.terms else set()
        kinds: Counter[str] = Counter()
        found = []
        for kind, name in sorted(names, key=str):
            kinds[kind] += 1
            if kinds[kind] <= NAMED:
                found.append((kind, name))
        return tuple(found)


class Casting:
    """What is the same for all groups of a round, and of it what lasts from one round to the next.

    `refused`: pods whose eviction was refused a short time ago.
    """

    def __init__(
        self,
        world: World,
        holders: Holders,
        disruptions: Disruptions,
        refused: Collection[PodUid],
        shape: tuple[int, ...],
    ) -> None:
        self._world = world
        self._holders = holders
        self._disruptions = disruptions
        self._refused = refused
        self.shape = shape
        self._now = 0.0
        #: by queue, the lots of groups below a priority, and of those that take one of some resources
        self._lots: dict[QueueName, dict[int | frozenset[str], Lot]] = {}
        #: the queue in whose lots each group is, if it is in any
        self._queue_of: dict[GroupKey, QueueName] = {}
        self._whole: dict[tuple[QueueName, frozenset[str]], Absence] = {}
        self._places: dict[Holder, Places] = {}

    def begin(self, now: float) -> None:
        """A round begins, or goes on after something has happened: `renew` was told to which groups."""
        self._now = now
        self._places = {}
        self._whole.clear()
        self._holders.begin(now)
        for queue, lots in self._lots.items():
            self._lots[queue] = {kind: lot for kind, lot in lots.items() if lot.lasting}

    def renew(self, key: GroupKey) -> None:
        """Something of the group has changed, or members of it are to be evicted."""
        self._holders.forget(key)
        queue = self._world.queue_of(key)
        self._whole = {of: absence for of, absence in self._whole.items() if of[0] != queue}
        for name in dict.fromkeys((self._queue_of.pop(key, queue), queue)):
            self._renew(key, name, self._holders.get(key, queue) if name == queue and self._lots.get(name) else None)

    def _renew(self, key: GroupKey, queue: QueueName, holder: Holder | None) -> None:
        """The group is so now in the lots of a queue. Where budgets protect some, they may protect others now."""
        budgets = self._world.budgets
        for kind, lot in list(self._lots.get(queue, {}).items()):
            if key.namespace in budgets or not lot.namespaces.isdisjoint(budgets):
                del self._lots[queue][kind]
                continue
            lot.drop(key)
            if holder is not None and _belongs(holder, kind):
                self._put(lot, (holder,))

    def cast(self, key: GroupKey, wish: Wish, usage: Usage) -> Cast:
        """Who could make room for these members, when those that are leaving have gone."""
        queue = self._world.queue_of(key)
        own = self.lower(queue, self._world.priority(key))
        lots, kept = [own], []
        found = self._terms(usage, queue, own, wish.asked)
        for other, on_terms in found.items():
            keeper = eligible.keeper(usage, on_terms)
            if keeper is None and not eligible.above(usage, on_terms.theirs, on_terms.resources):
                keeper = other
            if keeper is None:
                lots.append(self._lot(other, on_terms.resources))
            elif (all_of := self._all(other, on_terms.resources)).pods:
                kept.append((keeper, all_of))
        return Cast(tuple(lots), tuple(kept), found)

    def case(
        self,
        key: GroupKey,
        wish: Wish,
        cast: Cast,
        room: Room,
        usage: Usage,
        fits: Callable[[Room, Usage], Plan | Refusal],
        allows: Callable[[Room, Usage], bool],
    ) -> Case:
        """The same as a case for `choosing`."""
        return Case(
            queue=self._world.queue_of(key),
            wanted=tuple(Counter(member.shape for member in wish.members).items()),
            now=self._now,
            room=room,
            usage=usage,
            holders=cast.holders,
            terms=cast.terms,
            lower=lambda queue, priority: self.lower(queue, priority).going.uses(queue),
            disruptions=self._disruptions,
            row=self._world.request_row,
            required=wish.required,
            fits=fits,
            allows=allows,
            places=self._places,
        )

    def _terms(self, usage: Usage, queue: QueueName, own: Lot, asked: Sums) -> dict[QueueName, Terms]:
        """How each other queue is taken from, when its own lower work has made room if need be."""
        tree = usage.tree
        owned = {r for name in tree.path(queue) if (at := tree.at(name)) is not None for r in at.owned}
        if owned.isdisjoint(resource for resource, amount in asked.items() if amount):
            return {}
        owed = eligible.owed(usage, queue, asked)
        if own.free:
            owed = {**eligible.owed(own.going.usage(usage), queue, asked), **owed}
        if not owed:
            return {}
        found = {}
        for other in sorted(self._holders.queues):
            on_terms = eligible.terms(usage, queue, other, owed)
            if on_terms is not None:
                found[other] = on_terms
        return found

    def lower(self, queue: QueueName, priority: int) -> Lot:
        """Groups of lower priority in the queue."""
        return self._lot(queue, priority)

    def _lot(self, queue: QueueName, kind: int | frozenset[str]) -> Lot:
        """Groups of lower priority in the group's own queue (`kind` is its priority), or those of another queue: there
        only those matter that take of what is owned and asked for."""
        lots = self._lots.setdefault(queue, {})
        lot = lots.get(kind)
        if lot is None:
            lot = lots[kind] = Lot(self._world, self.shape)
            self._put(lot, [holder for holder in self._holders.of(queue) if _belongs(holder, kind)])
        return lot

    def _put(self, lot: Lot, holders: Collection[Holder]) -> None:
        self._queue_of.update((holder.key, holder.queue) for holder in holders)
        lot.put((holder, self._bar(holder)) for holder in map(self._without_refused, holders))

    def _all(self, queue: QueueName, resources: frozenset[str]) -> Absence:
        """All pods of a queue that take of these."""
        found = self._whole.get((queue, resources))
        if found is None:
            members = (self._world.members.get(key, {}).values() for key in self._holders.keys(queue))
            pods = (pod for group in members for pod in group if pod.ours and pod.bound)
            taking = (
                pod for pod in pods if pod.uid not in self._holders.asked and _takes(pod.shape.request, resources)
            )
            found = self._whole[queue, resources] = Absence(self._world, self.shape, taking)
        return found

    def _bar(self, holder: Holder) -> Detail:
        """Why nobody of the group may go; () when somebody may."""
        if holder.bar:
            return holder.bar
        budgets = [[b.name for b in self._disruptions.of(p) if self._disruptions.left(b) < 1] for p in holder.pods]
        if all(budgets):
            return tuple(("budget", name) for names in budgets for name in names)
        return () if holder.spare or holder.whole else (("cannot go as a whole", holder.name),)

    def _without_refused(self, holder: Holder) -> Holder:
        if not self._refused or not any(pod.uid in self._refused for pod in holder.pods):
            return holder
        pods = tuple(pod for pod in holder.pods if pod.uid not in self._refused)
        if not pods:
            return replace(holder, bar=(("refused to leave", holder.name),), until=float("inf"))
        return replace(holder, pods=pods, whole=False)


def _belongs(holder: Holder, kind: int | frozenset[str]) -> bool:
    if isinstance(kind, int):
        return holder.priority < kind
    return any(_takes(pod.shape.request, kind) for pod in holder.pods)


def _takes(request: Iterable[tuple[str, int]], resources: frozenset[str]) -> bool:
    return any(resource in resources for resource, _ in request)
