"""Who may go for a group that waits, on which terms, and what protects the others.

Takes a group's wish, room and usage to come, and the groups that hold room; gives a cast: those who may go, those who
are protected, and the terms. Must not choose, nor know what is kept for whom.

What depends on one queue alone is looked up once a round: many groups wait, and few queues hold room.
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
from extender.core.planning import Plan, Wish
from extender.core.quota import Sums
from extender.core.reasons import Detail, Refusal
from extender.core.resources import add
from extender.core.snapshot import Room
from extender.core.usage import Usage
from extender.core.world import World

#: so many of a kind are named in a refusal
NAMED = 5


@dataclass(frozen=True, slots=True, eq=False)
class Lot:
    """Some groups of one queue: who of them may go, who is protected and by what, and until when at least."""

    free: tuple[Holder, ...]
    #: what those use of their queue
    uses: Mapping[str, int]
    going: Absence
    barred: Absence
    names: frozenset[tuple[str, str | int]]
    until: float


@dataclass(frozen=True, slots=True, eq=False)
class Cast:
    """The lots that matter for one group: those of which somebody may go, and those that are protected as a whole."""

    lots: tuple[Lot, ...]
    kept: tuple[tuple[QueueName, Absence], ...]
    terms: Mapping[QueueName, Terms]

    @property
    def holders(self) -> dict[GroupKey, Holder]:
        """Who may go, as far as each alone is concerned."""
        return {holder.key: holder for lot in self.lots for holder in lot.free}

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
    """What is the same for all groups of a round. `refused`: pods whose eviction was refused a short time ago."""

    def __init__(
        self,
        world: World,
        holders: Holders,
        disruptions: Disruptions,
        refused: Collection[PodUid],
        shape: tuple[int, ...],
        now: float,
    ) -> None:
        self._world = world
        self._holders = holders
        self._disruptions = disruptions
        self._refused = refused
        self._shape = shape
        self._now = now
        self._own: dict[tuple[QueueName, int], Lot] = {}
        self._others: dict[tuple[QueueName, frozenset[str]], Lot] = {}
        self._whole: dict[tuple[QueueName, frozenset[str]], Absence] = {}
        self._places: dict[Holder, Places] = {}

    def forget(self, key: GroupKey) -> None:
        """Members of the group are to be evicted."""
        self._holders.forget(key)
        queue = self._world.queue_of(key)
        self._own = {of: lot for of, lot in self._own.items() if of[0] != queue}
        self._others = {of: lot for of, lot in self._others.items() if of[0] != queue}
        self._whole = {of: absence for of, absence in self._whole.items() if of[0] != queue}

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
                lots.append(self._other(other, on_terms.resources))
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
            lower=lambda queue, priority: self.lower(queue, priority).uses,
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
        lot = self._own.get((queue, priority))
        if lot is None:
            lower = [holder for holder in self._holders.of(queue) if holder.priority < priority]
            lot = self._own[queue, priority] = self._lot(lower)
        return lot

    def _other(self, queue: QueueName, resources: frozenset[str]) -> Lot:
        """Groups of another queue; only those matter that take of what is owned and asked for."""
        lot = self._others.get((queue, resources))
        if lot is None:
            taking = [h for h in self._holders.of(queue) if any(_takes(pod.shape.request, resources) for pod in h.pods)]
            lot = self._others[queue, resources] = self._lot(taking)
        return lot

    def _all(self, queue: QueueName, resources: frozenset[str]) -> Absence:
        """All pods of a queue that take of these."""
        found = self._whole.get((queue, resources))
        if found is None:
            members = (self._world.members.get(key, {}).values() for key in self._holders.keys(queue))
            pods = (pod for group in members for pod in group if pod.ours and pod.bound)
            taking = (
                pod for pod in pods if pod.uid not in self._holders.asked and _takes(pod.shape.request, resources)
            )
            found = self._whole[queue, resources] = Absence(self._world, self._shape, taking)
        return found

    def _lot(self, holders: Iterable[Holder]) -> Lot:
        """Those of whom some may go as far as they alone are concerned, and the others."""
        free: list[Holder] = []
        barred: list[Holder] = []
        names: set[tuple[str, str | int]] = set()
        until = float("inf")
        for holder in map(self._without_refused, holders):
            bar = self._bar(holder)
            if bar:
                barred.append(holder)
                names.update(bar)
                until = min(until, holder.until if holder.bar else until)
            else:
                free.append(holder)
        return Lot(tuple(free), _uses(free), self._absence(free), self._absence(barred), frozenset(names), until)

    def _absence(self, holders: Iterable[Holder]) -> Absence:
        return Absence(self._world, self._shape, (pod for holder in holders for pod in holder.pods))

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


def _uses(holders: Iterable[Holder]) -> Sums:
    sums: Sums = {}
    for holder in holders:
        for pod in holder.pods:
            if pod.queue in (None, holder.queue):
                add(sums, pod.shape.request)
    return sums


def _takes(request: Iterable[tuple[str, int]], resources: frozenset[str]) -> bool:
    return any(resource in resources for resource, _ in request)
