"""Who may go for a group that waits, on which terms, and what protects the others.

Takes a group's wish, room and usage to come, and the groups that hold room; gives a case for `choosing`, and bars.
Must not choose, nor know what is kept for whom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from extender.core.absence import Absence
from extender.core.budgets import Disruptions
from extender.core.draft import Case
from extender.core.eligible import Holder, Holders, Terms, above, lenders, terms
from extender.core.ids import GroupKey, PodUid, QueueName
from extender.core.model import Pod
from extender.core.planning import Plan, Wish
from extender.core.quota import Sums
from extender.core.reasons import Detail, Refusal
from extender.core.resources import add
from extender.core.snapshot import Room
from extender.core.usage import Usage
from extender.core.world import World

#: so many of a kind are named in a refusal
NAMED = 5


@dataclass(slots=True)
class Bars:
    """Who could make room and is protected, by what, and until when at least."""

    names: dict[tuple[str, str | int], None] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    #: when the first of them is protected no more by time alone
    until: float = float("inf")

    def add(self, bar: Detail, holders: Iterable[Holder]) -> None:
        """These are protected by this, or else by what stands in them."""
        for holder in holders:
            self.pods += holder.pods
            self.names.update(dict.fromkeys(bar or holder.bar))
            if holder.bar:
                self.until = min(self.until, holder.until)

    def limits(self, case: Case) -> None:
        """What keeps some of those who may go from going all together."""
        for holder in case.holders.values():
            self.names.update((("budget", b.name), None) for pod in holder.pods for b in case.disruptions.of(pod))
            if holder.queue in case.terms:
                self.names["queue", holder.queue] = None

    def told(self) -> Detail:
        """The bars by name, some of each kind."""
        kinds: Counter[str] = Counter()
        found = []
        for kind, name in sorted(self.names, key=str):
            kinds[kind] += 1
            if kinds[kind] <= NAMED:
                found.append((kind, name))
        return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Casting:
    """What is the same for all groups of a round."""

    world: World
    holders: Holders
    disruptions: Disruptions
    #: pods whose eviction was refused a short time ago
    refused: Collection[PodUid]
    now: float

    def case(
        self,
        key: GroupKey,
        wish: Wish,
        room: Room,
        usage: Usage,
        fits: Callable[[Room, Usage], Plan | Refusal],
        allows: Callable[[Room, Usage], bool],
    ) -> tuple[Case, Bars]:
        """Who may go so that these members have places, when those that are leaving have gone."""
        queue, bars = self.world.queue_of(key), Bars()
        asked: Sums = {}
        for member in wish.members:
            add(asked, member.shape.request)
        holders = self._own(key, queue, bars)
        found = self._terms(room, usage, queue, holders, asked)
        for other, on_terms in found.items():
            holders += self._others(usage, queue, other, on_terms, bars)
        case = Case(
            queue=queue,
            wanted=tuple(Counter(member.shape for member in wish.members).items()),
            now=self.now,
            room=room,
            usage=usage,
            holders={holder.key: holder for holder in holders},
            terms=found,
            disruptions=self.disruptions,
            row=self.world.request_row,
            required=wish.required,
            fits=fits,
            allows=allows,
        )
        return case, bars

    def _own(self, key: GroupKey, queue: QueueName, bars: Bars) -> list[Holder]:
        """Groups of lower priority in its own queue."""
        priority = self.world.priority(key)
        lower = [holder for holder in self.holders.of(queue) if holder.priority < priority and holder.key != key]
        return self._unbarred(lower, bars)

    def _terms(
        self, room: Room, usage: Usage, queue: QueueName, own: list[Holder], asked: Sums
    ) -> Mapping[QueueName, Terms]:
        """How each other queue is taken from, when its own lower work has made room if need be."""
        tree = usage.tree
        owned = {r for name in tree.path(queue) if (at := tree.at(name)) is not None for r in at.owned}
        if owned.isdisjoint(resource for resource, amount in asked.items() if amount):
            return {}
        pods = [pod for holder in own for pod in holder.pods]
        relieved = Absence(self.world, room.free.shape, pods).usage(usage) if pods else usage
        found = {}
        for other in sorted(self.holders.keys()):
            on_terms = terms(usage, queue, other, asked) or terms(relieved, queue, other, asked)
            if on_terms is not None:
                found[other] = on_terms
        return found

    def _others(self, usage: Usage, queue: QueueName, other: QueueName, found: Terms, bars: Bars) -> list[Holder]:
        """Groups of another queue; only those matter that take of what is owned and asked for."""
        holders = [h for h in self.holders.of(other) if any(_takes(pod, found.resources) for pod in h.pods)]
        kept = lenders(usage, queue, other)
        if kept is not None:
            bars.add((("queue", kept),), holders)
            return []
        if not above(usage, found.theirs, found.resources):
            bars.add((("queue", other),), holders)
            return []
        return self._unbarred(holders, bars)

    def _unbarred(self, holders: Iterable[Holder], bars: Bars) -> list[Holder]:
        """Those of whom some may go as far as they alone are concerned."""
        found = []
        for holder in map(self._without_refused, holders):
            if holder.bar:
                bars.add((), [holder])
                continue
            budgets = [[b.name for b in self.disruptions.of(p) if self.disruptions.left(b) < 1] for p in holder.pods]
            if all(budgets):
                bars.add(tuple(("budget", name) for names in budgets for name in names), [holder])
            elif holder.spare or holder.whole:
                found.append(holder)
            else:
                bars.add((("cannot go as a whole", holder.name),), [holder])
        return found

    def _without_refused(self, holder: Holder) -> Holder:
        if not self.refused or not any(pod.uid in self.refused for pod in holder.pods):
            return holder
        pods = tuple(pod for pod in holder.pods if pod.uid not in self.refused)
        if not pods:
            return replace(holder, bar=(("refused to leave", holder.name),), until=float("inf"))
        return replace(holder, pods=pods, whole=False)


def _takes(pod: Pod, resources: Collection[str]) -> bool:
    return any(resource in resources for resource, _ in pod.shape.request)
