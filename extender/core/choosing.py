"""Which victims: few pods, then those whose loss costs least. A policy: the rules are in `draft` and `eligible`.

Takes a case, gives a draft in whose room the group has its places, or None; must not decide that anybody goes. Every
way to choose ends alike: what turned out not to be needed stays, the costliest first. Where few may go, a search
through all combinations finds the fewest that will do; where many may go, two ways are tried and the shorter is taken:
- node by node, those first that take a member for the fewest evictions;
- in the order of preference, wherever they are, as for a quota that is full.

The order: surplus of gangs before what stops a group, other queues before its own, queues of lower priority first,
then lower priority, then what is lost: seconds since it began or last saved its work, times the largest share of the
cluster that it uses. What tenants say of themselves counts inside their queue only: after surplus goes who is past its
declared end (design invariant 5), and what was saved is not lost. Between queues it is seconds since it began.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np

from extender.core.draft import Case, Draft, Places, Unit
from extender.core.eligible import Holder
from extender.core.ids import GroupKey, PodUid, QueueName
from extender.core.matching import Mask
from extender.core.model import Pod, Shape
from extender.core.planning import Plan
from extender.core.snapshot import Room
from extender.core.usage import Usage

#: all combinations are searched among so many pods, of so many kinds; so many are looked at, and so many placed
_SEARCH_PODS = 24
_LOOKED_AT = 3000
_PLACED = 300
#: a level that is required may have so many domains that are looked at one by one
_DOMAINS = 32


#: how many pods go, on which row, and who
Step = tuple[int, int, list[Unit]]


def choose(case: Case) -> tuple[Draft, Plan] | None:
    """Who goes, and the plan for which they go; None when no choice was found that the rules allow."""
    ranked = rank(case)
    if not ranked:
        return None
    least = _least(case, ranked)
    best: Draft | None = None
    for way in (_by_nodes, _by_rank):
        if best is None or len(best.pods) > least:
            best = _fewer(best, _spare(case, ranked, way(case, ranked)))
    if best is None or len(best.pods) > least:
        best = _search(case, ranked, least, best) or best
    plan = None if best is None else case.fits(best.room, best.usage)
    return (best, plan) if best is not None and isinstance(plan, Plan) else None


def _fewer(one: Draft | None, other: Draft | None) -> Draft | None:
    if one is None or other is None:
        return one or other
    return other if len(other.pods) < len(one.pods) else one


# --- the order ------------------------------------------------------------------------------------


def rank(case: Case) -> list[Pod]:
    """All that may go, in order of preference."""
    of_queue: dict[QueueName, list[tuple[tuple[object, ...], Pod]]] = {}
    for holder in case.holders.values():
        of_queue.setdefault(holder.queue, []).extend(_inside(case, holder))
    lists = []
    for queue, pods in of_queue.items():
        pods.sort(key=lambda one: one[0])
        lists.append((_priorities(case, queue), [pod for _, pod in pods]))
    if len(lists) == 1:
        return lists[0][1]
    return list(_merged(case, lists))


def _merged(case: Case, lists: Sequence[tuple[tuple[object, ...], list[Pod]]]) -> Iterator[Pod]:
    heap: list[tuple[tuple[object, ...], int, int]] = []
    for number, (queue, pods) in enumerate(lists):
        heap.append((_between(case, queue, pods[0]), number, 0))
    heapq.heapify(heap)
    while heap:
        _, number, at = heap[0]
        queue, pods = lists[number]
        yield pods[at]
        if at + 1 < len(pods):
            heapq.heapreplace(heap, (_between(case, queue, pods[at + 1]), number, at + 1))
        else:
            heapq.heappop(heap)


def _inside(case: Case, holder: Holder) -> Places:
    """The pods of a group with their places in the order of its queue."""
    known = case.places.get(holder)
    if known is None:
        known = case.places[holder] = _places(case, holder)
    return known


def _places(case: Case, holder: Holder) -> Places:
    saved = saved_at(holder, case.now) or 0.0
    costs = [_cost(case, pod, saved) for pod in holder.pods]
    if not holder.spare:  # one of them costs all of it
        costs = [sum(costs)] * len(costs)
    places = [(not holder.spare, not holder.overdue, holder.priority, cost) for cost in costs]
    return [((*place, pod.uid), pod) for place, pod in zip(places, holder.pods, strict=True)]


def _priorities(case: Case, queue: QueueName) -> tuple[object, ...]:
    """Others before its own; of those lower priority first, at the highest level where they differ."""
    terms = case.terms.get(queue)
    if terms is None:
        return (True, ())
    found = [case.usage.tree.at(name) for name, _ in reversed(terms.theirs)]
    return (False, tuple(at.queue.priority for at in found if at is not None))


def _between(case: Case, queue: tuple[object, ...], pod: Pod) -> tuple[object, ...]:
    return (not case.holders[pod.group].spare, *queue, _cost(case, pod, 0.0), pod.uid)


def _cost(case: Case, pod: Pod, saved: float) -> float:
    return lost_seconds(pod, saved, case.now) * case.room.snapshot.want(pod.shape).share


def saved_at(holder: Holder, now: float) -> float | None:
    """When a group saved its work, as it says; times in the future count as absent."""
    return None if holder.checkpoint is None or holder.checkpoint > now else holder.checkpoint


def lost_seconds(pod: Pod, saved: float, now: float) -> float:
    """The work that is lost with a pod whose group saved it then."""
    return max(0.0, now - max(pod.bound_at or 0.0, saved))


# --- how many at least ----------------------------------------------------------------------------


def _least(case: Case, ranked: Sequence[Pod]) -> int:
    """No fewer pods can free what lacks: a bound by sums, for each resource by itself."""
    least = 1
    requests = [dict(request) for request in {pod.shape.request for pod in ranked}]
    for resource, lacking in _lacking(case).items():
        most = max((request.get(resource, 0) for request in requests), default=0)
        least = max(least, -(-lacking // most) if most else least)
    return least


def _lacking(case: Case) -> dict[str, int]:
    """The resources of which more is asked for than is free on all nodes together, and how much more."""
    over = ((resource, amount - case.room.usable(resource)) for resource, amount in case.asked.items())
    return {resource: lacking for resource, lacking in over if lacking > 0}


# --- node by node ---------------------------------------------------------------------------------


def _by_nodes(case: Case, ranked: Sequence[Pod]) -> Draft | None:
    """The best of the domains that may hold all, or of the whole cluster."""
    best: Draft | None = None
    for rows in _domains(case):
        best = _fewer(best, _in_domain(case, ranked, rows))
    return best


def _domains(case: Case) -> Iterator[Mask]:
    facts = case.room.snapshot.facts
    if case.required is None or not facts.knows_level(case.required):
        yield np.ones(len(case.room.free), dtype=bool)
        return
    domains = facts.domains(facts.path(case.required))
    for number in range(min(len(domains.paths), _DOMAINS)):
        yield domains.ids == number


def _in_domain(case: Case, ranked: Sequence[Pod], rows: Mask) -> Draft | None:
    guide, number = _guide(case)
    want = case.room.snapshot.want(guide)
    if want.unknown:
        return None
    draft, inside = Draft(case), want.mask & rows
    hosted = _capacity(draft, inside, want.asked)
    if hosted >= number:
        return None  # it is not room on nodes that lacks
    there = _by_row(case, ranked, inside)
    alike = {row for row, pods in there.items() if _are_alike(pods)}

    def step_on(row: int) -> Step | None:
        """The next of a row."""
        return (_short_step if row in alike else _step)(case, draft, row, there[row], want.asked)

    heap = [step for row in there if (step := step_on(row)) is not None]
    heapq.heapify(heap)
    enough = number
    while heap:
        _, row, units = heapq.heappop(heap)
        if all(pod.uid not in draft.pods for unit in units for pod in unit):
            before = _hosts(draft, row, want.asked)
            stale = any(draft.unit(unit[0]) != unit for unit in units)
            if not stale and not draft.take_all(units):
                continue
            hosted += _hosts(draft, row, want.asked) - before
            if hosted >= enough:
                if isinstance(case.fits(draft.room, draft.usage), Plan):
                    return draft
                enough = hosted + max(1, hosted // 4)
        step = step_on(row)
        if step is not None:
            heapq.heappush(heap, step)
    return draft if draft.pods and isinstance(case.fits(draft.room, draft.usage), Plan) else None


def _by_row(case: Case, ranked: Sequence[Pod], rows: Mask) -> dict[int, list[Pod]]:
    there: dict[int, list[Pod]] = {}
    row_of = case.room.snapshot.row_of
    for pod in ranked:
        row = row_of.get(pod.node) if pod.node is not None else None
        if row is not None and rows[row]:
            there.setdefault(row, []).append(pod)
    return there


def _guide(case: Case) -> tuple[Shape, int]:
    """The shape that is hardest to place, and for how many pods there must be room."""
    shape, _ = max(case.wanted, key=lambda one: case.room.snapshot.want(one[0]).share)
    return shape, sum(number for _, number in case.wanted)


def _capacity(draft: Draft, rows: Mask, asked: Sequence[tuple[int, int]]) -> int:
    fit = [draft.room.free[rows, column] // amount for column, amount in asked]
    return int(np.maximum(np.minimum.reduce(fit), 0).sum())


def _hosts(draft: Draft, row: int, asked: Sequence[tuple[int, int]]) -> int:
    return max(0, min(int(draft.room.free[row, column]) // amount for column, amount in asked))


def _are_alike(pods: Sequence[Pod]) -> bool:
    """True for lone pods of one request: who goes first of these needs no search."""
    request = pods[0].shape.request
    return all(pod.group.lone and pod.shape.request == request for pod in pods)


def _short_step(
    case: Case, draft: Draft, row: int, pods: Sequence[Pod], asked: Sequence[tuple[int, int]]
) -> Step | None:
    """The same as `_step` for pods that are alike."""
    hosts, request, needed = _hosts(draft, row, asked) + 1, case.row(pods[0]), 0
    for column, amount in asked:
        short = hosts * amount - int(draft.room.free[row, column])
        if short > 0 and not request[column]:
            return None
        needed = max(needed, -(-short // int(request[column])) if short > 0 else 0)
    found: list[Unit] = []
    for pod in pods:
        if len(found) == needed:
            break
        unit = draft.unit(pod)
        if unit and draft.may(unit):
            found.append(unit)
    return (needed, row, found) if found and len(found) == needed else None


def _step(case: Case, draft: Draft, row: int, pods: Sequence[Pod], asked: Sequence[tuple[int, int]]) -> Step | None:
    """The units with which the node takes one pod more, and how many pods they are."""
    hosts = _hosts(draft, row, asked) + 1
    short = [hosts * amount - int(draft.room.free[row, column]) for column, amount in asked]
    units: dict[PodUid, Unit] = {}
    relief: dict[PodUid, list[int]] = {}
    singly: Counter[tuple[GroupKey, str]] = Counter()
    for pod in pods:
        unit = draft.unit(pod, singly)
        if not unit or (unit[0].uid not in units and not draft.may(unit)):
            continue
        if case.holders[pod.group].spare and len(unit) == 1:
            singly[pod.group, pod.task] += 1
        first, request = unit[0].uid, case.row(pod)
        units[first] = unit
        gains = relief.setdefault(first, [0] * len(asked))
        for n, (column, _) in enumerate(asked):
            gains[n] += int(request[column])
    order = sorted(units, key=lambda first: draft.stops(units[first]))
    found = _enough(order, units, relief, short)
    if found and len(found) > 1 and len(set(map(tuple, relief.values()))) > 1:
        found = min(found, _enough(_largest(units, relief, short), units, relief, short) or found, key=_pods)
    return (_pods(found), row, found) if found else None


def _pods(units: Sequence[Unit]) -> int:
    return sum(map(len, units))


def _largest(units: dict[PodUid, Unit], relief: dict[PodUid, list[int]], short: Sequence[int]) -> list[PodUid]:
    """Those that help most for each pod that goes come first."""

    def help_of(uid: PodUid) -> float:
        parts = [min(gain, lack) / lack for gain, lack in zip(relief[uid], short, strict=True) if lack > 0]
        return -sum(parts) / len(units[uid])

    return sorted(units, key=help_of)


def _enough(
    order: Sequence[PodUid], units: dict[PodUid, Unit], relief: dict[PodUid, list[int]], short: Sequence[int]
) -> list[Unit] | None:
    """As many as suffice, in this order, less those without which the others suffice."""
    left, chosen = list(short), []
    for uid in order:
        if max(left) <= 0:
            break
        if any(gain and lack > 0 for gain, lack in zip(relief[uid], left, strict=True)):
            chosen.append(uid)
            left = [lack - gain for lack, gain in zip(left, relief[uid], strict=True)]
    if max(left) > 0:
        return None
    for uid in list(reversed(chosen)):
        without = [lack + gain for lack, gain in zip(left, relief[uid], strict=True)]
        if max(without) <= 0:
            chosen.remove(uid)
            left = without
    return [units[uid] for uid in chosen]


# --- in the order of preference -------------------------------------------------------------------


def _by_rank(case: Case, ranked: Sequence[Pod]) -> Draft | None:
    full = Draft(case)
    order: list[Unit] = []
    pending, before = list(ranked), -1
    surplus = True
    while pending and (surplus or len(order) != before):
        # surplus of all groups comes first; and what is not owed yet may be when its own queue has made room
        before = len(order)
        later = []
        for pod in pending:
            unit = full.unit(pod)
            waits = surplus and case.holders[pod.group].spare > 0 and bool(unit) and full.stops(unit)
            if unit and not waits and full.may(unit):
                full.take(unit)
                order.append(unit)
            elif unit:
                later.append(pod)
        pending, surplus = later, False
    if not order or not isinstance(case.fits(full.room, full.usage), Plan):
        return None
    low, high = 0, len(order)
    while high - low > 1:
        middle = (low + high) // 2
        if isinstance(case.fits(*_without(case, order[:middle])), Plan):
            high = middle
        else:
            low = middle
    draft = Draft(case)
    for unit in order[:high]:
        draft.take(unit)
    return draft


def _without(case: Case, units: Sequence[Unit]) -> tuple[Room, Usage]:
    draft = Draft(case)
    for unit in units:
        draft.take(unit)
    return draft.room, draft.usage


# --- who turned out not to be needed --------------------------------------------------------------


def _spare(case: Case, ranked: Sequence[Pod], draft: Draft | None) -> Draft | None:
    """The same with those left out without which the plan stands too, the costliest first."""
    if draft is None:
        return None
    plan = case.fits(draft.room, draft.usage)
    if not isinstance(plan, Plan):
        return None
    room, rows = draft.room.copy(), draft.room.snapshot.row_of
    placed = set()
    for member, node in plan.places:
        placed.add(rows[node])
        room.take(rows[node], room.snapshot.want(member.shape).request)
        room.take_cards(rows[node], member.shares)
    place_of = {pod.uid: n for n, pod in enumerate(ranked)}
    units = sorted(draft.units, key=lambda unit: (-len(unit), -max(place_of[pod.uid] for pod in unit)))
    columns = sorted({column for shape, _ in case.wanted for column, _ in room.snapshot.want(shape).asked})
    for unit in units:
        _give_back(case, room, unit, -1)
        there = {row for pod in unit if pod.node is not None and (row := rows.get(pod.node)) in placed}
        needed = any(room.overdrawn(row, columns) for row in there)
        if needed or not _stands_without(case, draft, unit):
            _give_back(case, room, unit, 1)
    return draft if isinstance(case.fits(draft.room, draft.usage), Plan) else None


def _give_back(case: Case, room: Room, unit: Unit, sign: int) -> None:
    rows = room.snapshot.row_of
    for pod in unit:
        if pod.node in rows:
            room.give_back(rows[pod.node], case.row(pod), sign, pod.shares)


def _stands_without(case: Case, draft: Draft, unit: Unit) -> bool:
    """Leave the unit out, if quotas and the terms of the others allow for it."""
    draft.put_back(unit)
    others = {case.holders[pod.group].queue for pod in draft.pods.values()}
    owed = all(draft.is_owed(terms) for queue, terms in case.terms.items() if queue in others)
    if owed and case.allows(draft.room, draft.usage):
        return True
    draft.take(unit)
    return False


# --- all combinations, where they are few ---------------------------------------------------------


def _search(case: Case, ranked: Sequence[Pod], least: int, best: Draft | None) -> Draft | None:
    """A draft of fewer pods than the best that is known, of all such the first of fewest; None when there is none."""
    if len(ranked) > _SEARCH_PODS:
        return None
    most = len(best.pods) - 1 if best is not None else len(ranked)
    looked, placed, lacking = count(), count(), _lacking(case)
    frees = {pod.uid: dict(pod.shape.request) for pod in ranked}
    for size in range(least, most + 1):
        for chosen in _combinations(ranked, size):
            if next(looked) > _LOOKED_AT:
                return None
            if any(sum(frees[p.uid].get(r, 0) for p in chosen) < lack for r, lack in lacking.items()):
                continue
            draft = _drafted(case, chosen)
            if draft is None or not _suffices(case, draft):
                continue
            if next(placed) > _PLACED:
                return None
            if isinstance(case.fits(draft.room, draft.usage), Plan):
                return draft
    return None


def _combinations(ranked: Sequence[Pod], size: int) -> Iterator[list[Pod]]:
    """So many pods, in order of preference; of those that are alike the first ones only."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for number, pod in enumerate(ranked):
        kinds.setdefault((pod.group, pod.node, pod.shape, pod.task, pod.queue, pod.labels), []).append(number)
    before = {number: alike[n - 1] if n else None for alike in kinds.values() for n, number in enumerate(alike)}
    chosen: list[int] = []

    def extend(first: int) -> Iterator[list[Pod]]:
        if len(chosen) == size:
            yield [ranked[number] for number in chosen]
            return
        for number in range(first, len(ranked) - (size - len(chosen)) + 1):
            if before[number] is None or before[number] in chosen:
                chosen.append(number)
                yield from extend(number + 1)
                chosen.pop()

    yield from extend(0)


def _drafted(case: Case, chosen: Sequence[Pod]) -> Draft | None:
    """A draft of exactly these pods; None when the rules forbid it. The small ones go first, so that most may."""
    draft, wanted = Draft(case), {pod.uid for pod in chosen}
    units: list[Unit] = []
    for key in {pod.group: None for pod in chosen}:
        there = [pod for pod in chosen if pod.group == key]
        whole = len(there) == len(case.holders[key].pods)
        units += [tuple(there)] if whole else [(pod,) for pod in there]
    units.sort(key=lambda unit: sum(case.room.snapshot.want(pod.shape).share for pod in unit))
    for _ in range(2):  # what is not owed yet may be when its own queue has made room
        for unit in units:
            holder = case.holders[unit[0].group]
            whole = len(unit) == len(holder.pods) and holder.whole
            if unit[0].uid not in draft.pods and (whole or draft.unit(unit[0]) == unit) and draft.may(unit):
                draft.take(unit)
    return draft if draft.pods.keys() == wanted else None


def _suffices(case: Case, draft: Draft) -> bool:
    """Whether the sums allow for it: a look that costs little."""
    return all(draft.room.usable(resource) >= amount for resource, amount in case.asked.items())
