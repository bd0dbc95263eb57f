"""Who may be evicted for a group that waits, and what bars the others.

Takes the world, what queues use, and the evictions that are under way; gives groups with what of each may go, and the
terms on which one queue takes from another. Must not choose among them.

Preemption: in the group's own queue, work of lower priority. Reclaim: from another queue what that one borrowed, while
the group's side stays inside what it owns. Which side that is, the queue tree says: both queues have a lowest queue
above them in common, and the sides are what stands below it, on every level. For each resource that the group's side
owns and the group asks for, every level of the other side must use more than it owns. A queue owns what it deserves or
is guaranteed; against a claim that is guaranteed, it owns only what is guaranteed to it. A weight owns nothing.

On both sides a queue's own work of lower priority counts as gone, where it may be evicted: the group's, as that may
make room for it, and the victim's, as that could make room for the victim. So what a queue owns is that of its highest
priorities, what it borrowed is at its lowest; and nobody is evicted who could take the room back, which two gangs
that fit into each other's room only as wholes would do for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from extender.core import departures
from extender.core.budgets import Disruptions
from extender.core.firm import Firm
from extender.core.ids import GroupKey, PodUid, QueueName, TaskName
from extender.core.membership import STARTED, Standing, standing
from extender.core.model import Pod
from extender.core.quota import Sums
from extender.core.reasons import Detail, Refusal
from extender.core.usage import Usage
from extender.core.wholes import Wholes
from extender.core.world import World

_NOTHING: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Holder:
    """A group that holds room: its pods that stay as far as is known, and how many of them may go, as it is itself."""

    key: GroupKey
    #: as people know it: of a lone pod the pod's name
    name: str
    queue: QueueName
    priority: int
    pods: tuple[Pod, ...]
    #: how many may go singly, in all and of each task that has a minimum of its own
    spare: int
    spare_of: Mapping[TaskName, int]
    #: whether all may go together, so that nobody stays
    whole: bool
    #: what protects all of it; () when nothing does
    bar: Detail
    #: it is protected no longer than until then
    until: float
    #: when it last saved its work, as it says
    checkpoint: float | None
    #: all of it runs past the end that it declared
    overdue: bool = False
    #: it stays as it is until something happens to it: neither time, budgets nor plans change it
    lasting: bool = False


class Holders:
    """The groups that hold room, by queue, as they are in one round. Those that last are known from round to round."""

    def __init__(
        self,
        world: World,
        usage: Usage,
        wholes: Wholes,
        disruptions: Disruptions,
        firm: Firm,
        starting: Callable[[GroupKey], bool],
    ) -> None:
        self._world = world
        self._usage = usage
        self._wholes = wholes
        self._disruptions = disruptions
        self._firm = firm
        self._starting = starting
        self._now = 0.0
        self._holders: dict[GroupKey, Holder | None] = {}
        #: of these, those that are looked at anew in each round
        self._passing: list[GroupKey] = []

    def begin(self, now: float) -> None:
        """A round begins, or goes on after something has happened."""
        self._now = now
        for key in self._passing:
            self._holders.pop(key, None)
        self._passing.clear()

    @property
    def asked(self) -> Set[PodUid]:
        """Pods whose eviction is under way."""
        return self._wholes.asked

    def of(self, queue: QueueName) -> Iterator[Holder]:
        """The groups of a queue that have pods on nodes."""
        for key in self.keys(queue):
            holder = self.get(key, queue)
            if holder is not None:
                yield holder

    def get(self, key: GroupKey, queue: QueueName) -> Holder | None:
        """A group of the queue; None when nothing of it is on a node and stays."""
        if key not in self._holders:
            holder = self._holders[key] = self._holder(key, queue)
            if not (key.lone if holder is None else holder.lasting):
                self._passing.append(key)
        return self._holders[key]

    @property
    def queues(self) -> Iterable[QueueName]:
        """The queues of groups that use something."""
        return self._usage.groups_of().keys()

    def keys(self, queue: QueueName) -> Iterable[GroupKey]:
        """The groups of a queue that use something: on nodes, or planned."""
        return self._usage.groups_of().get(queue, ())

    def forget(self, key: GroupKey) -> None:
        """Something of the group has changed, or members of it are to be evicted."""
        self._holders.pop(key, None)

    def _holder(self, key: GroupKey, queue: QueueName) -> Holder | None:
        if self._wholes.going(key):
            return None
        world, asked = self._world, self._wholes.asked
        bound = [pod for pod in world.members.get(key, {}).values() if standing(pod) is Standing.BOUND]
        staying = tuple(pod for pod in bound if pod.ours and pod.uid not in asked)
        if not staying:
            return None
        # the API server refuses to evict a pod under two budgets
        loose = tuple(pod for pod in staying if len(self._disruptions.of(pod)) < 2)
        spare, spare_of = self._spare(key, Counter(pod.task for pod in bound if pod.uid in asked))
        bar, until = self._bar(key, queue, staying)
        return Holder(
            key=key,
            name=staying[0].name if key.lone else key.name,
            queue=queue,
            priority=world.priority(key),
            pods=loose or staying,
            spare=spare,
            spare_of=spare_of,
            whole=all(pod.ours for pod in bound) and loose == staying and not self._starting(key),
            bar=bar,
            until=until,
            checkpoint=max((p.checkpoint for p in staying if p.checkpoint is not None), default=None),
            overdue=departures.overdue(world, key, self._now) > 0,
            lasting=self._lasts(key, until),
        )

    def _lasts(self, key: GroupKey, until: float) -> bool:
        timed = 0.0 < until < float("inf") or departures.duration(self._world.need(key)) is not None
        return key.lone and not timed and key.namespace not in self._world.budgets

    def _spare(self, key: GroupKey, going: Counter[TaskName]) -> tuple[int, Mapping[TaskName, int]]:
        need, tally = self._world.need(key), self._world.tallies[key]
        if key.lone or isinstance(need, Refusal):
            return 0, {}
        spare_of = {task: tally.count(*STARTED, task=task) - going[task] - least for task, least in need.tasks}
        if any(number < 0 for number in spare_of.values()):
            return 0, {}
        return max(0, tally.count(*STARTED) - going.total() - need.min_member), spare_of

    def _bar(self, key: GroupKey, queue: QueueName, pods: tuple[Pod, ...]) -> tuple[Detail, float]:
        name = pods[0].name if key.lone else key.name
        if not self._firm.preemptible(key):
            return (("not preemptible", name),), float("inf")
        budgets = [self._disruptions.of(pod) for pod in pods]
        if all(len(over) > 1 for over in budgets):
            return tuple(("budget", budget.name) for over in budgets for budget in over), float("inf")
        least = self._world.queues[queue].min_runtime if queue in self._world.queues else 0
        oldest = min(pod.bound_at or 0.0 for pod in pods)
        if least and self._now < oldest + least:
            return (("runs too shortly", name),), oldest + least
        return (), 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """On what terms one queue takes from another: levels of both sides, lowest first.

    `mine`: by level and resource, how much the group's side may use; `theirs`: how much the other keeps in any case.
    """

    mine: tuple[tuple[QueueName, Mapping[str, int]], ...]
    theirs: tuple[tuple[QueueName, Mapping[str, int]], ...]
    resources: frozenset[str]
    guaranteed: bool


@dataclass(frozen=True, slots=True, eq=False)
class Owed:
    """What a group's side owns of what it asks for, and which of that is guaranteed to it."""

    mine: tuple[tuple[QueueName, Mapping[str, int]], ...]
    resources: frozenset[str]
    kept: frozenset[str]


def owed(usage: Usage, queue: QueueName, asked: Sums) -> dict[QueueName | None, Owed]:
    """What is owed to a group of the queue that asks for so much, by the queue below which the others stand.

    None stands for the top. Where nothing is owed, or its side would use more than it owns, there is no entry.
    """
    path = usage.tree.path(queue)
    found: dict[QueueName | None, Owed] = {}
    for end in range(1, len(path) + 1):
        mine = tuple((name, own) for name in path[:end] if (own := _owned(usage, name)))
        resources = frozenset(resource for _, own in mine for resource in own if asked.get(resource))
        if resources and fits_inside(usage, mine, asked):
            kept = frozenset(r for r in resources if _guaranteed(usage, path[:end], r, asked[r]))
            found[path[end] if end < len(path) else None] = Owed(mine, resources, kept)
    return found


def terms(usage: Usage, queue: QueueName, victim: QueueName, owed: Mapping[QueueName | None, Owed]) -> Terms | None:
    """The terms on which `victim` gives; None when nothing is owed by its side."""
    mine, theirs = set(usage.tree.path(queue)), []
    common: QueueName | None = None
    for name in usage.tree.path(victim):
        if name in mine:
            common = name
            break
        theirs.append(name)
    claim = owed.get(common)
    if claim is None or not theirs or common == queue:
        return None
    floors = []
    for name in theirs:
        own, least = _owned(usage, name), usage.grants.kept.get(name, _NOTHING)
        floors.append((name, {r: (least if r in claim.kept else own).get(r, 0) for r in claim.resources}))
    return Terms(claim.mine, tuple(floors), claim.resources, claim.kept == claim.resources)


def fits_inside(usage: Usage, levels: Iterable[tuple[QueueName, Mapping[str, int]]], asked: Mapping[str, int]) -> bool:
    """True when each level would use no more than so much of what is asked for."""
    for name, own in levels:
        used = usage.of(name)
        for resource, most in own.items():
            amount = asked.get(resource, 0)
            if amount and used.get(resource, 0) + amount > most:
                return False
    return True


def above(
    usage: Usage,
    levels: Iterable[tuple[QueueName, Mapping[str, int]]],
    request: Iterable[str],
    without: Mapping[str, int] = _NOTHING,
) -> bool:
    """True when each level uses more than its floor of one of these resources, also without so much of what it uses."""
    there = [(usage.of(name), floors) for name, floors in levels]
    return any(
        all(r in floors and used.get(r, 0) - without.get(r, 0) > floors[r] for used, floors in there) for r in request
    )


def keeper(usage: Usage, found: Terms) -> QueueName | None:
    """The first queue on the other side that does not let what it borrowed be taken back; None when all do."""
    for name, _ in found.theirs:
        at = usage.tree.at(name)
        if at is not None and not at.queue.reclaimable:
            return name
    return None


def _owned(usage: Usage, name: QueueName) -> Mapping[str, int]:
    at = usage.tree.at(name)
    return _NOTHING if at is None else at.owned


def _guaranteed(usage: Usage, levels: Iterable[QueueName], resource: str, amount: int) -> bool:
    kept = [(name, usage.grants.kept.get(name, _NOTHING).get(resource, 0)) for name in levels]
    return any(most for _, most in kept) and all(
        usage.of(name).get(resource, 0) + amount <= most for name, most in kept if most
    )
