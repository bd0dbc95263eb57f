"""One group's turn: which members need a place, and where others of it stand already.

Takes the world, the ledger and the group's record, gives a wish as a value; must not look for places (see `placing`).

A group below its minimum is placed whole: all waiting members and those that are expected; if that does
not fit and enough members exist, just the minimum. What is above the minimum, and replacements of a
group that runs, are placed beside the others, as many as have a place. One that runs below its minimum has room
kept for as many as are missing, also while none of them exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from extender.core.ids import GroupKey, NodeName, PodUid, TaskName
from extender.core.ledger import Ledger, Slot
from extender.core.membership import STARTED, Need, Standing, Tally, satisfied, standing
from extender.core.model import Part, Pod, Shape, Shares
from extender.core.parts import parts_of, undivided
from extender.core.quota import Sums
from extender.core.reasons import Reason, Refusal
from extender.core.resources import add
from extender.core.switches import Switch
from extender.core.world import World

#: room for members that do not exist yet is kept so long after the newest one appeared (design 3.2)
EXPECT_SECONDS = 10.0
#: of so many members of a group the offered lists are kept: each may name thousands of nodes
_OFFERED_MEMBERS = 64
#: so many reasons of a group are remembered
_REMEMBERED = 16
#: times and reasons
Past = tuple[tuple[float, Reason | None], ...]


@dataclass(slots=True)
class Entry:
    """What the engine remembers of a group between cycles. Written by the engine only."""

    key: GroupKey
    #: creation time of the first member seen; the group's place in the order
    arrival: float
    #: when a member last appeared, or one was lost that a controller will replace
    changed_at: float
    #: why it waits; None while it is planned, runs, or was not looked at yet
    refusal: Refusal | None = None
    #: since when it has been waiting; None while it is planned or runs
    waits_since: float | None = None
    #: the minimum was reached and nothing of that was lost since
    running: bool = False
    #: the minimum was reached once, or some of it was bound when we began to look
    started: bool = False
    #: when the newest plan was made; None without one
    planned_at: float | None = None
    #: node lists from which kube-scheduler's own checks had removed the planned node, by member
    offered: dict[PodUid, frozenset[NodeName]] = field(default_factory=dict)
    offered_at: float = 0.0
    #: message of kube-scheduler when it refused a member on every node
    refused_by: str = ""
    #: not looked at before this time
    retry_at: float = 0.0
    #: members that filter rejected since they were last woken
    rejected: set[PodUid] = field(default_factory=set)
    #: members whose gate we asked to remove, with the node they were nominated to
    led: dict[PodUid, NodeName] = field(default_factory=dict)
    #: nominations that we asked to write and not to clear
    nominated: dict[PodUid, NodeName] = field(default_factory=dict)
    #: members that were woken for the plan that stands
    woken: set[PodUid] = field(default_factory=set)
    #: members of which the newest call offered nothing but the node of an older nomination
    passed: set[PodUid] = field(default_factory=set)
    #: phase, reason and generation that were last written to the group's object
    stated: tuple[str, str, int] = ("", "", 0)
    #: nothing is written to the group's object before this time
    state_after: float = 0.0
    #: how many reasons of this wait were written, and when the newest was
    told: int = 0
    told_at: float = 0.0
    refused_at: float = 0.0
    #: since when it waited for which reason, the newest last; None: it had its places
    past: Past = ()
    #: how often kube-scheduler refused its plans since a member was bound, and on whose account
    times_refused: int = 0
    refused: set[PodUid] = field(default_factory=set)
    #: whose switch we asked to be written, in which state of it, and how: True stops the group's pods
    switched: tuple[Switch, bool] | None = None
    #: how often what makes its pods was let go in vain since a member was bound
    in_vain: int = 0

    def remember(self, reason: Reason | None, now: float) -> None:
        """From now on it waits for this reason; None: it has its places."""
        if not self.past or self.past[-1][1] is not reason:
            self.past = (*self.past[1 - _REMEMBERED :], (now, reason))

    def forget_lists(self) -> None:
        """Offered lists grow old. That no node at all would do stays true until kube-scheduler offers one: it looks
        again by itself when that may have changed, and says nothing when the outcome is the same."""
        self.offered = {uid: nodes for uid, nodes in self.offered.items() if not nodes}
        if not self.offered:
            self.refused_by = ""

    def offer(self, uid: PodUid, nodes: Iterable[NodeName], now: float) -> None:
        """Believe for a while that the member may go to these nodes only."""
        self.offered.pop(uid, None)
        if len(self.offered) >= _OFFERED_MEMBERS:
            del self.offered[next(iter(self.offered))]
        self.offered[uid] = frozenset(nodes)
        self.offered_at = now

    def first_pass(self, pod: Pod, offered: Sequence[NodeName]) -> bool:
        """True when the call may be for an older nomination of the pod alone, so that the full list follows.

        The full list may be that one node too: then the same call comes twice.
        """
        if pod.uid in self.passed or offered != (pod.nominated,):
            self.passed.discard(pod.uid)
            return False
        self.passed.add(pod.uid)
        return True

    def reject(self, uid: PodUid) -> None:
        """kube-scheduler puts the member aside: what led it before is of no use, and it must be woken."""
        self.rejected.add(uid)
        self.led.pop(uid, None)

    def forget(self, uid: PodUid) -> None:
        """The member needs no leading any more."""
        for notes in (self.offered, self.led, self.nominated):
            notes.pop(uid, None)
        for members in (self.rejected, self.woken, self.passed, self.refused):
            members.discard(uid)


#: nodes of members that stand already, or have a plan, with the parts that each is of
Fixed = tuple[tuple[NodeName, tuple[Part, ...]], ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A pod, or an expected one, that needs a place. `allowed` None = any node."""

    slot: Slot
    task: TaskName
    shape: Shape
    allowed: frozenset[NodeName] | None = None
    expected: bool = False
    #: parts of the group that it is of, from broad to narrow
    parts: tuple[Part, ...] = ()
    #: its place among its siblings
    index: tuple[int, ...] = ()
    #: where the one stood that it replaces
    home: NodeName | None = field(default=None, compare=False)
    #: the pod's name; "" while it does not exist
    name: str = field(default="", compare=False)
    #: what it gets of its node's cards, once it has a place
    shares: Shares = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Wish:
    """What to place: `whole` together or not at all, then each of `surplus` for itself.

    `least` is the smallest part of `whole` that may start when the rest does not fit; () when there is
    no smaller one. `fixed` are nodes where members already are. `missing` says how many members do not
    exist yet, when `whole` counts on some that are expected.
    """

    whole: tuple[Member, ...]
    least: tuple[Member, ...] = ()
    surplus: tuple[Member, ...] = ()
    fixed: tuple[NodeName, ...] = ()
    required: str | None = None
    preferred: str | None = None
    standing: tuple[tuple[Part, NodeName], ...] = ()
    missing: Refusal | None = None

    @property
    def members(self) -> tuple[Member, ...]:
        """All that are to be placed."""
        return (*self.whole, *self.surplus)

    @property
    def asked(self) -> Sums:
        """What all of them ask for together."""
        asked: Sums = {}
        for member in self.members:
            add(asked, member.shape.request)
        return asked


@dataclass(frozen=True, slots=True)
class Plan:
    """Members with their nodes, and why the others got none (None when all did)."""

    places: tuple[tuple[Member, NodeName], ...]
    left: Refusal | None = None


def wish_of(world: World, ledger: Ledger, entry: Entry, now: float) -> Wish | Refusal | None:
    """What the group wants now; a refusal when it cannot be judged or must wait for members.

    None: nothing of it needs a place. Expected members that already hold room count as wanting nothing;
    an empty wish gives up room that is kept for members that are not expected any more.
    """
    tally = world.tallies.get(entry.key)
    plan = ledger.of_group(entry.key)
    if tally is None:
        return None
    need = world.need(entry.key)
    hurt = False
    if not tally.count(Standing.WAITING, Standing.BLOCKED):
        hurt = isinstance(need, Need) and tally.count(Standing.BOUND) > 0 and not satisfied(need, tally)
        if not hurt:
            return Wish(()) if plan else None
    if isinstance(need, Refusal):
        return need
    waiting = _waiting(world, entry.key)
    if not waiting and not hurt:
        alone = entry.key.lone or satisfied(need, tally)
        return None if alone else members_missing(need, tally)
    fixed = _fixed(world, ledger, entry.key, need)
    homes = _homes(world, entry.key, tally) if fixed else {}
    loose = tuple(member_of(pod, entry, need, homes) for pod in waiting if Slot(pod.uid) not in plan)
    if satisfied(need, tally, [r.task for r in plan.values() if not r.expected]):
        expecting = any(r.expected for r in plan.values())
        return _wish(need, fixed, surplus=loose) if loose or expecting else None
    return _gang_wish(world, ledger, entry, need, tally, waiting, loose, fixed, now)


def beside_others(world: World, ledger: Ledger, entry: Entry, need: Need, pod: Pod) -> Wish:
    """That this member, which has no plan any more, is placed beside all others."""
    return _wish(need, _fixed(world, ledger, entry.key, need), whole=(member_of(pod, entry, need),))


def _gang_wish(
    world: World,
    ledger: Ledger,
    entry: Entry,
    need: Need,
    tally: Tally,
    waiting: Sequence[Pod],
    loose: tuple[Member, ...],
    fixed: Fixed,
    now: float,
) -> Wish | Refusal | None:
    expected = _expected(world, entry, need, tally, waiting)
    if isinstance(expected, Refusal):
        return expected
    if expected and (now >= entry.changed_at + EXPECT_SECONDS or _nobody_replaces(world, entry)):
        return members_missing(need, tally)
    kept = Counter((r.task, r.shape) for r in ledger.of_group(entry.key).values() if r.expected)
    if not loose and kept == Counter((m.task, m.shape) for m in expected):
        return None
    least = () if expected else _least(need, tally, waiting, ledger, loose)
    missing = members_missing(need, tally) if expected else None
    return replace(_wish(need, fixed, whole=(*loose, *expected), least=least), missing=missing)


def _nobody_replaces(world: World, entry: Entry) -> bool:
    """True when the group has run, and its members have no controller that would make those anew that it lost."""
    return entry.started and all(pod.owner is None for pod in world.members[entry.key].values())


def _wish(
    need: Need,
    fixed: Fixed,
    whole: tuple[Member, ...] = (),
    least: tuple[Member, ...] = (),
    surplus: tuple[Member, ...] = (),
) -> Wish:
    nodes, required = tuple(node for node, _ in fixed), need.topology_required
    firsts = {member.parts[:1] for member in (*whole, *surplus)} | {parts[:1] for _, parts in fixed}
    if required is None and len(firsts) == 1 and () not in firsts:
        # a part to which all belong is as good as the whole group
        required = firsts.pop()[0].level
        whole, least, surplus = (
            tuple(replace(one, parts=one.parts[1:]) for one in some) for some in (whole, least, surplus)
        )
        fixed = tuple((node, parts[1:]) for node, parts in fixed)
    standing = tuple((part, node) for node, parts in fixed for part in parts)
    return Wish(whole, least, surplus, nodes, required, need.topology_preferred, standing)


def _waiting(world: World, key: GroupKey) -> list[Pod]:
    found = [pod for pod in world.members[key].values() if standing(pod) is Standing.WAITING]
    found.sort(key=lambda pod: (pod.created, pod.index, pod.name))
    return found


def member_of(
    pod: Pod,
    entry: Entry,
    need: Need,
    homes: Mapping[tuple[TaskName, tuple[int, ...]], NodeName] = MappingProxyType({}),
) -> Member:
    """The pod as a member that needs a place."""
    return Member(
        *(Slot(pod.uid), pod.task, pod.shape, entry.offered.get(pod.uid)),
        parts=parts_of(pod, need.parts),
        index=pod.index,
        home=homes.get((pod.task, pod.index)),
        name=pod.name,
    )


def _fixed(world: World, ledger: Ledger, key: GroupKey, need: Need) -> Fixed:
    members = world.members[key]
    there = [(pod.node, parts_of(pod, need.parts)) for pod in members.values() if pod.bound and pod.node is not None]
    for slot, reservation in ledger.of_group(key).items():
        if not reservation.expected:
            pod = members.get(PodUid(slot))
            there.append((reservation.node, parts_of(pod, need.parts) if pod is not None else ()))
    return tuple(there)


def _homes(world: World, key: GroupKey, tally: Tally) -> dict[tuple[TaskName, tuple[int, ...]], NodeName]:
    gone = (Standing.LEAVING, Standing.FAILED)
    pods = world.members[key].values() if tally.count(*gone) else ()
    return world.homes.of(key, (pod for pod in pods if standing(pod) in gone))


def _expected(
    world: World, entry: Entry, need: Need, tally: Tally, waiting: Sequence[Pod]
) -> tuple[Member, ...] | Refusal:
    """The members that the minimum wants and that do not exist, in the shape of their siblings."""
    counted = (*STARTED, Standing.WAITING)
    have_of = {task: tally.count(*counted, task=task) for task, _ in need.tasks}
    missing, missing_of = need.missing(tally.count(*counted), have_of)
    if not missing and not missing_of:
        return ()
    ours = sorted((pod for pod in world.members[entry.key].values() if pod.ours), key=lambda p: (p.created, p.name))
    lost = [pod for pod in ours if standing(pod) in (Standing.LEAVING, Standing.FAILED)]
    wanted: list[Pod] = []
    for task, number in missing_of.items():
        siblings = [pod for pod in ours if pod.task == task]
        if not siblings:
            return members_missing(need, tally)
        wanted += siblings[-1:] * number
    # like those that the group has lost: the newest that is going or has failed, else the newest
    like = list(waiting[-1:]) or lost[-1:] or ours[-1:]
    if not like:
        return members_missing(need, tally)
    wanted += like * (missing - len(wanted))
    return tuple(_replacement(f"{entry.key}#{number}", pod, lost, need) for number, pod in enumerate(wanted))


def _replacement(name: str, like: Pod, lost: list[Pod], need: Need) -> Member:
    """A member that does not exist yet: of one that is lost, which is then taken off, or else any of its task."""
    for gone in reversed(lost):
        if (gone.task, gone.shape) == (like.task, like.shape):
            lost.remove(gone)
            parts, home = parts_of(gone, need.parts), gone.node
            return Member(Slot(name), gone.task, gone.shape, expected=True, parts=parts, index=gone.index, home=home)
    return Member(Slot(name), like.task, like.shape, expected=True, parts=undivided(parts_of(like, need.parts)))


def members_missing(need: Need, tally: Tally) -> Refusal:
    """The refusal of a group that has fewer members than its minimum, or than a task's."""
    counted = (*STARTED, Standing.WAITING)
    detail: list[tuple[str, str | int]] = [("have", tally.count(*counted)), ("minimum", need.min_member)]
    for task, least in need.tasks:
        have = tally.count(*counted, task=task)
        if have < least:
            detail += [("task", task), ("have", have), ("minimum", least)]
    return Refusal(Reason.MEMBERS, tuple(detail))


def _least(
    need: Need, tally: Tally, waiting: Sequence[Pod], ledger: Ledger, loose: tuple[Member, ...]
) -> tuple[Member, ...]:
    """The smallest start: planned members first, then by age, each task's minimum before the rest."""
    planned = ledger.of_group(waiting[0].group)
    inside = [pod for pod in waiting if Slot(pod.uid) in planned]
    outside = [pod for pod in waiting if Slot(pod.uid) not in planned]
    room = need.min_member - tally.count(*STARTED)
    quota = {task: least - tally.count(*STARTED, task=task) for task, least in need.tasks}
    chosen: dict[str, None] = {pod.uid: None for pod in inside}
    taken = Counter(pod.task for pod in inside)
    for pod in outside:
        if taken[pod.task] < quota.get(pod.task, 0):
            taken[pod.task] += 1
            chosen[pod.uid] = None
    for pod in outside:
        if len(chosen) >= room:
            break
        chosen[pod.uid] = None
    least = tuple(member for member in loose if member.slot in chosen)
    return least if len(least) < len(loose) else ()
