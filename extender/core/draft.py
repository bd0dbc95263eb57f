"""Victims chosen so far for one group, and what the rules let be chosen next: the scratch of one decision.

Takes a case (who asks, for what, who may go on which terms), keeps room and usage as they would be without those
chosen. Must not choose. Design invariant 1: a member goes singly while its group's minimums stay reached without it,
else the whole group goes, or nobody of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from extender.core.budgets import Disruptions
from extender.core.eligible import Holder, Terms, above, fits_inside
from extender.core.ids import GroupKey, PodUid, QueueName
from extender.core.model import Pod, Shape
from extender.core.planning import Plan
from extender.core.quota import Sums
from extender.core.reasons import Refusal
from extender.core.resources import Row, add
from extender.core.snapshot import Room
from extender.core.usage import Usage

#: pods that go together
Unit = tuple[Pod, ...]
#: pods of a group, each with its place in the order of its queue
Places = list[tuple[tuple[object, ...], Pod]]
_NOBODY: Counter[tuple[GroupKey, str]] = Counter()


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A group that waits, and what may be done for it. Never changed by a choice."""

    queue: QueueName
    #: the pods that it needs places for, of each shape so many
    wanted: tuple[tuple[Shape, int], ...]
    now: float
    #: as they will be when those that are leaving have gone
    room: Room
    usage: Usage
    #: who may go
    holders: Mapping[GroupKey, Holder]
    #: how each other queue is taken from; its own queue has no terms
    terms: Mapping[QueueName, Terms]
    #: what those who may go use of a queue who are of lower priority than this
    lower: Callable[[QueueName, int], Mapping[str, int]]
    disruptions: Disruptions
    row: Callable[[Pod], Row]
    #: level of which one domain must hold them all
    required: str | None
    #: a plan in this room, with this usage, or why there is none; neither is used up
    fits: Callable[[Room, Usage], Plan | Refusal]
    #: whether quotas alone allow for it
    allows: Callable[[Room, Usage], bool]
    #: the places of a group's pods in the order of its queue, once they are known
    places: dict[Holder, Places] = field(default_factory=dict)

    @property
    def asked(self) -> Sums:
        """What the pods ask for together."""
        asked: Sums = {}
        for shape, number in self.wanted:
            add(asked, shape.request, number)
        return asked


class Draft:
    """Who goes. `room` and `usage` are as if they had gone."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._asked = case.asked
        self.room = case.room.copy()
        self.usage = case.usage.scratch()
        self.pods: dict[PodUid, Pod] = {}
        #: by group and first pod; a group that goes as a whole is one unit
        self._units: dict[GroupKey, dict[PodUid, Unit]] = {}
        self._gone: Counter[GroupKey] = Counter()
        self._gone_of: Counter[tuple[GroupKey, str]] = Counter()
        self._leave: Counter[tuple[str, str]] = Counter()
        #: by queue, priority and resources that a unit takes: whether they may be taken back now
        self._owed: dict[tuple[QueueName, int, frozenset[str]], bool] = {}
        #: what those who go used of their queue, by their priority
        self._went: dict[QueueName, dict[int, Sums]] = {}
        #: by what units ask for: which of the resources that are owed they take
        self._taken_by: dict[tuple[object, frozenset[str]], frozenset[str]] = {}

    @property
    def units(self) -> list[Unit]:
        """What was chosen: members that go singly, and whole groups."""
        return [unit for units in self._units.values() for unit in units.values()]

    def unit(self, pod: Pod, beside: Counter[tuple[GroupKey, str]] | None = None) -> Unit:
        """Who must go with this pod; () when it cannot go, or goes already.

        `beside`: members of so many tasks that are to go singly too; with them no group goes as a whole.
        """
        holder = self._case.holders[pod.group]
        if pod.uid in self.pods:
            return ()
        if self._spared(holder, pod, beside or _NOBODY):
            return (pod,)
        if not holder.whole or (beside and any(key == holder.key for key, _ in beside)):
            return ()
        return tuple(p for p in holder.pods if p.uid not in self.pods) if self._gone[holder.key] else holder.pods

    def stops(self, unit: Unit) -> bool:
        """True when nothing of their group is left running, though it needs some."""
        return not self._spared(self._case.holders[unit[0].group], unit[0], _NOBODY)

    def _spared(self, holder: Holder, pod: Pod, beside: Counter[tuple[GroupKey, str]]) -> bool:
        if not holder.spare:
            return False
        key, task = holder.key, pod.task
        more = sum(number for (group, _), number in beside.items() if group == key)
        if self._gone[key] + more >= holder.spare:
            return False
        return self._gone_of[key, task] + beside[key, task] < holder.spare_of.get(task, holder.spare)

    def may(self, unit: Unit) -> bool:
        """True when the rules let these go as well."""
        if not self._is_let_go(unit):
            return False
        holder = self._case.holders[unit[0].group]
        terms = self._case.terms.get(holder.queue)
        if terms is None:
            return True
        takes = self._takes(unit, terms)
        surplus = self._surplus(unit)
        if surplus:  # those come first, and what is left of it must be too much without them
            self._book(surplus, -1)
            owed = self._is_loan(holder, terms, takes)
            self._book(surplus, 1)
            return owed
        state = (holder.queue, holder.priority, takes)
        known = self._owed.get(state)
        if known is None:
            known = self._owed[state] = self._is_loan(holder, terms, takes)
        return known

    def _is_loan(self, holder: Holder, terms: Terms, takes: frozenset[str]) -> bool:
        """True when the group's queue borrowed of these, also if its lower work made room, and they are owed."""
        lower = dict(self._case.lower(holder.queue, holder.priority))
        for priority, sums in self._went.get(holder.queue, {}).items():
            if priority < holder.priority:
                add(lower, sums.items(), -1)
        return above(self.usage, terms.theirs, takes, lower) and self.is_owed(terms)

    def _takes(self, unit: Unit, terms: Terms) -> frozenset[str]:
        requests = unit[0].shape.request if len(unit) == 1 else tuple({p.shape.request: None for p in unit})
        known = self._taken_by.get((requests, terms.resources))
        if known is None:
            known = frozenset(r for pod in unit for r, _ in pod.shape.request if r in terms.resources)
            self._taken_by[requests, terms.resources] = known
        return known

    def _surplus(self, unit: Unit) -> Unit:
        """Of a group that would go as a whole, those who could go without the others."""
        if len(unit) == 1:
            return ()
        holder, singly = self._case.holders[unit[0].group], Counter[tuple[GroupKey, str]]()
        found = []
        for pod in unit:
            if self._spared(holder, pod, singly):
                singly[pod.group, pod.task] += 1
                found.append(pod)
        return tuple(found)

    def _is_let_go(self, unit: Unit) -> bool:
        """True when the budgets of these allow for it, beside those chosen before."""
        of = self._case.disruptions.of
        for budget in {budget.name: budget for pod in unit for budget in of(pod)}.values():
            going = sum(budget in of(pod) for pod in unit)
            if self._leave[budget.namespace, budget.name] + going > self._case.disruptions.left(budget):
                return False
        return True

    def is_owed(self, terms: Terms) -> bool:
        """True when the group's side is inside what it owns with what is asked for."""
        return fits_inside(self.usage, terms.mine, self._asked)

    def take(self, unit: Unit) -> None:
        """These go."""
        key = unit[0].group
        assert not any(pod.uid in self.pods for pod in unit), "a pod goes twice"
        self._count(unit, 1)
        self.pods.update((pod.uid, pod) for pod in unit)
        units = self._units.setdefault(key, {})
        if len(unit) > 1 and units:  # the rest of a group of which members went singly
            unit = (*(pod for one in units.values() for pod in one), *unit)
            units.clear()
        units[unit[0].uid] = unit

    def put_back(self, unit: Unit) -> None:
        """These stay; they must be one of `units`, or have been taken last."""
        units = self._units[unit[0].group]
        self._count(unit, -1)
        for pod in unit:
            del self.pods[pod.uid]
        if units.pop(unit[0].uid, None) is None:  # it was joined with what went singly before
            [joined] = units.values()
            units.clear()
            units.update((pod.uid, (pod,)) for pod in joined if pod.uid in self.pods)

    def _count(self, unit: Unit, sign: int) -> None:
        rows = self.room.snapshot.row_of
        self._book(unit, -sign)
        self._note(unit, sign)
        for pod in unit:
            self._gone[pod.group] += sign
            self._gone_of[pod.group, pod.task] += sign
            if pod.node in rows:
                self.room.give_back(rows[pod.node], self._case.row(pod), sign, pod.shares)
            for budget in self._case.disruptions.of(pod):
                self._leave[budget.namespace, budget.name] += sign
        self._owed.clear()

    def _note(self, unit: Unit, sign: int) -> None:
        holder = self._case.holders[unit[0].group]
        went = self._went.setdefault(holder.queue, {}).setdefault(holder.priority, {})
        for pod in unit:
            if pod.queue in (None, holder.queue):
                add(went, pod.shape.request, sign)

    def _book(self, pods: Unit, sign: int) -> None:
        for pod in pods:
            self.usage.book(pod.queue or self._case.holders[pod.group].queue, pod.shape.request, sign)

    def take_all(self, units: Iterable[Unit]) -> bool:
        """All of these go, one after the other; nobody when the rules forbid one."""
        taken: list[Unit] = []
        for unit in units:
            if self.unit(unit[0]) != unit or not self.may(unit):
                for one in reversed(taken):
                    self.put_back(one)
                return False
            self.take(unit)
            taken.append(unit)
        return True
