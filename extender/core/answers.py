"""The live answers: what the engine says of a group and of a queue at this moment.

Takes the engine to read and a time, gives frozen values; must not change anything or make sentences. Phase and
reason are read when they are asked for. Positions need all waiting groups, so they are counted for all at once, at
most for a tenth of the time: with 10,000 waiting groups once a second, with few nearly always.

What looks at every group is an iterator that does a little at each step: filter calls get their turn between two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from extender.core import queue_stating
from extender.core.engine import Engine
from extender.core.evictions import Eviction
from extender.core.ids import QUEUE_GATE, GroupKey, NodeName, QueueName, Source
from extender.core.membership import LIVE, Need, Standing, Tally, satisfied
from extender.core.mending import Mend, of_refusal
from extender.core.model import Pod, QueueStatus, Span
from extender.core.ordering import OrderKey
from extender.core.planning import Entry, Past, members_missing
from extender.core.quota import Sums
from extender.core.reasons import Reason, Refusal
from extender.core.resources import Amounts, add, amounts
from extender.core.stating import PENDING, RUNNING

#: namespace, source, name and key of a group
Named = tuple[str, Source, str, GroupKey]
#: every member has ended, or is going
ENDED = "Ended"
_AT_WORK = (Standing.WAITING, Standing.BLOCKED, Standing.FOREIGN, Standing.BOUND)
_GATES_SHOWN = 8

#: positions are kept so long for each group that waits
KEPT_SECONDS_A_GROUP = 0.0001
#: shares are kept so long
SHARES_SECONDS = 1.0
#: so many groups are looked at in one step
STEP = 250
#: so many planned nodes are named of a group
NODES_SHOWN = 100
#: so many waiting groups are named of a queue
WAITING_SHOWN = 500


@dataclasses.dataclass(frozen=True, slots=True)
class Members:
    """How many members a group has and needs. `minimum` is None while it cannot be judged."""

    have: int
    minimum: int | None
    planned: int
    bound: int
    succeeded: int
    failed: int


@dataclasses.dataclass(frozen=True, slots=True)
class Places:
    """So many members have their places on a node, and take so much there."""

    node: NodeName
    members: int
    asked: Amounts


@dataclasses.dataclass(frozen=True, slots=True)
class Workload:
    """One group. `name` is the pod's for a lone one; `refusal` says why something of it still waits."""

    key: GroupKey
    name: str
    uid: str
    created: float
    phase: str
    refusal: Refusal | None
    #: since when it waits for this reason, or has its places
    since: float | None
    queue: QueueName
    #: place among the waiting groups of its queue, from 1; None when nothing of it waits, or only since the last count
    position: int | None
    members: Members
    #: where members that are not bound yet have their places; the first of these nodes, by name
    nodes: tuple[Places, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Closer:
    """What is worked out for one group at a time."""

    #: what would end its wait, all of it together
    mends: tuple[Mend, ...]
    #: when it starts, as far as declared durations tell
    starts: float | None
    #: since when it waited for which reason, the newest last; None: it had its places
    past: Past
    #: what it has of the network against what it asked for; None when there is nothing to say
    span: Span | None = None
    #: the newest evictions of members, the newest last
    evictions: tuple[Eviction, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Waiter:
    """A group that waits in a queue, at its position."""

    namespace: str
    source: Source
    name: str
    position: int
    refusal: Refusal
    since: float


@dataclasses.dataclass(frozen=True, slots=True)
class QueueState:
    """One queue. `share` is what it is owed now, by resource; `waiting` the first of its groups, in order."""

    name: QueueName
    parent: QueueName | None
    status: QueueStatus
    share: Amounts
    waiting: tuple[Waiter, ...]


class Answers:
    """Answers out of an engine that acts; of one that does not there is nothing to say."""

    def __init__(self, engine: Engine) -> None:
        #: to be read
        self.engine = engine
        #: by queue the waiting groups in order, as they were counted last, and how long that counts
        self._lines: dict[QueueName, list[GroupKey]] = {}
        self._positions: dict[GroupKey, int] = {}
        self._lines_until = float("-inf")
        self._shares: tuple[float, dict[QueueName, Sums]] = (float("-inf"), {})

    def count(self, now: float) -> Iterator[None]:
        """Brings the positions up to date, in steps; to be done before they are asked for."""
        if now < self._lines_until:
            return
        view, entries = self.engine.view, self.engine.entries
        lines: dict[QueueName, list[tuple[OrderKey, GroupKey]]] = {}
        number = 0
        for number, (key, queue) in enumerate(self.engine.backlog.waiting(), 1):
            entry = entries.get(key)
            if entry is not None:
                lines.setdefault(queue, []).append((view.order_key(entry), key))
            if not number % STEP:
                yield
        for line in lines.values():
            line.sort()
        yield
        self._lines = {queue: [key for _, key in line] for queue, line in lines.items()}
        self._positions = {key: place for line in self._lines.values() for place, key in enumerate(line, 1)}
        self._lines_until = now + number * KEPT_SECONDS_A_GROUP

    @property
    def positions(self) -> Mapping[GroupKey, int]:
        """The place in its queue of each group that waits, as it was counted last."""
        return self._positions

    # --- groups ---------------------------------------------------------------------------------

    def groups(self, namespace: str | None = None) -> Iterator[list[Named]]:
        """Namespace, source, name and key of every group, or of those of one namespace, in no order, in steps."""
        keys = self.keys()
        for start in range(0, len(keys), STEP):
            some = [key for key in keys[start : start + STEP] if namespace is None or key.namespace == namespace]
            yield [(key.namespace, key.source, name, key) for key in some if (name := self._name(key)) is not None]

    def find(self, namespace: str, source: Source, name: str) -> Iterator[GroupKey | None]:
        """The group of this name, in steps: the last one gives it, or None when there is none that concerns us."""
        if source is not Source.POD:
            key = GroupKey(source, namespace, name)
            yield key if self._known(key) else None
            return
        for some in self.groups(namespace):
            lone = (key for _, _, named, key in some if key.lone and named == name)
            if (found := next(lone, None)) is not None:
                yield found
                return
            yield None

    def workload(self, key: GroupKey) -> Workload | None:
        """What there is to say of a group; None when there is none that concerns us."""
        name = self._name(key)
        if name is None or not self._known(key):
            return None
        world, entry = self.engine.world, self.engine.entries.get(key)
        places = self.engine.view.places(key)
        phase, refusal = self._phase(key, entry, bool(places))
        group, pod = world.groups.get(key), self._one(key)
        sources = [(group.uid, group.created)] if group is not None else []
        sources += [(str(pod.uid), pod.created)] if key.lone and pod is not None else []
        uid, created = sources[0] if sources else ("", entry.arrival if entry is not None else 0.0)
        return Workload(
            key=key,
            name=name,
            uid=uid,
            created=created,
            phase=phase,
            refusal=refusal,
            since=None if entry is None else _since(entry, refusal),
            queue=world.queue_of(key),
            position=None if entry is None or entry.refusal is None else self._positions.get(key),
            members=self._members(key, len(places)),
            nodes=tuple(places_on(places)),
        )

    def closer(self, found: Workload, now: float) -> Closer:
        """What else there is to say of a group: slow, for one at a time."""
        view, refusal, entry = self.engine.view, found.refusal, self.engine.entries.get(found.key)
        mends = () if entry is None or refusal is None else view.mends(entry, self.engine.usage, now)
        promise = None if refusal is None else view.promise(found.key)
        return Closer(
            mends=mends if refusal is None or mends else (of_refusal(refusal),),
            starts=None if promise is None or promise.at is None else max(promise.at, now),
            past=view.past(found.key),
            span=None if found.key.lone else view.span(found.key),
            evictions=self.engine.evictions.of(found.key, found.name),
        )

    def gone(self, namespace: str, source: Source, name: str) -> tuple[Eviction, ...]:
        """What is remembered of a group or pod that is not there any more: how it was evicted, the newest last."""
        if source is not Source.POD:
            return self.engine.evictions.of(GroupKey(source, namespace, name), name)
        last = self.engine.evictions.of_pod(namespace, name)
        members = self.engine.world.members.get(last.group, {}).values() if last is not None else ()
        return () if last is None or any(pod.name == name for pod in members) else (last,)

    def keys(self) -> list[GroupKey]:
        """The groups that may concern us."""
        entries = self.engine.entries
        memberless = (key for key in self.engine.world.groups if key.source is Source.MUSTER and key not in entries)
        return [*entries, *memberless]

    def gates(self, key: GroupKey) -> tuple[str, ...]:
        """Gates of others on the group's pods, sorted; they are told of one of which nothing can be placed."""
        pods = self.engine.world.members.get(key, {}).values()
        return tuple(sorted({gate for pod in pods if pod.ours for gate in pod.gates} - {QUEUE_GATE}))

    def _known(self, key: GroupKey) -> bool:
        """Ours are groups with a pod of ours, and objects of our own group."""
        world = self.engine.world
        if key in self.engine.entries:
            return key in world.members or key in world.groups
        return key.source is Source.MUSTER and key in world.groups

    def _one(self, key: GroupKey) -> Pod | None:
        return next(iter(self.engine.world.members.get(key, {}).values()), None)

    def _name(self, key: GroupKey) -> str | None:
        """The group's name as its users know it; None for a lone pod that has just gone."""
        if not key.lone:
            return key.name
        pod = self._one(key)
        return None if pod is None else pod.name

    def _phase(self, key: GroupKey, entry: Entry | None, placed: bool) -> tuple[str, Refusal | None]:
        """The phase, and why something of the group waits."""
        world = self.engine.world
        tally, need = world.tallies.get(key) or Tally(), world.need(key)
        refusal = self.engine.view.why(key)
        if refusal is not None:
            return RUNNING if entry is not None and entry.running else PENDING, refusal
        if tally.count(*Standing) and not tally.count(*_AT_WORK):
            return ENDED, None
        if isinstance(need, Refusal):
            return PENDING, need
        if satisfied(need, tally):
            return RUNNING, None
        if placed:
            return PENDING, Refusal(Reason.HELD_ELSEWHERE)
        if tally.count(Standing.WAITING):
            return PENDING, Refusal(Reason.QUEUED)
        return PENDING, self._idle(key, members_missing(need, tally))

    def _idle(self, key: GroupKey, refusal: Refusal) -> Refusal:
        """Nothing of it can be placed: members are missing, or gates of others are on them."""
        return Refusal(refusal.reason, (*refusal.detail, *(("gate", gate) for gate in self.gates(key)[:_GATES_SHOWN])))

    def _members(self, key: GroupKey, planned: int) -> Members:
        world = self.engine.world
        tally, need = world.tallies.get(key) or Tally(), world.need(key)
        return Members(
            have=tally.count(*LIVE),
            minimum=need.min_member if isinstance(need, Need) else None,
            planned=planned,
            bound=tally.count(Standing.BOUND),
            succeeded=tally.count(Standing.SUCCEEDED),
            failed=tally.count(Standing.FAILED),
        )

    # --- queues ---------------------------------------------------------------------------------

    def queues(self) -> tuple[QueueName, ...]:
        """The names of all queues, sorted."""
        return tuple(sorted(self.engine.usage.tree.downwards))

    def queue(self, name: QueueName, now: float) -> QueueState | None:
        """What there is to say of a queue; None when there is none of this name."""
        found = self.queue_status(name, now)
        at = self.engine.usage.tree.at(name)
        if found is None or at is None:
            return None
        status, share = found
        return QueueState(name, at.queue.parent, status, share, tuple(self._waiters(name)))

    def queue_status(self, name: QueueName, now: float) -> tuple[QueueStatus, Amounts] | None:
        """What a queue's status says now, and its fair share; None when there is none of this name."""
        usage = self.engine.usage
        at = usage.tree.at(name)
        if at is None:
            return None
        share = self._fair(now).get(name, {})
        lent = self.engine.view.lent(name)
        status = queue_stating.status_of(at.queue, usage, self.engine.backlog, lent, share, at.queue.status, now)
        return status, amounts(share)

    def _fair(self, now: float) -> dict[QueueName, Sums]:
        counted, shares = self._shares
        if now >= counted + SHARES_SECONDS:
            usage, backlog = self.engine.usage, self.engine.backlog
            shares = queue_stating.shares_of(usage, backlog, usage.shared(self.engine.view.free()))
            self._shares = (now, shares)
        return shares

    def _waiters(self, queue: QueueName) -> Iterator[Waiter]:
        for position, key in enumerate(self._lines.get(queue, ())[:WAITING_SHOWN], 1):
            name, entry = self._name(key), self.engine.entries.get(key)
            if name is not None and entry is not None and entry.refusal is not None:
                yield Waiter(key.namespace, key.source, name, position, entry.refusal, entry.refused_at)


def _since(entry: Entry, refusal: Refusal | None) -> float | None:
    if refusal is None:
        return None
    return entry.refused_at if refusal is entry.refusal else entry.planned_at


def places_on(places: Iterable[tuple[NodeName, Amounts]]) -> Iterator[Places]:
    """By node, the first by name."""
    of: dict[NodeName, list[Amounts]] = {}
    for node, asked in places:
        of.setdefault(node, []).append(asked)
    for node in sorted(of)[:NODES_SHOWN]:
        sums: Sums = {}
        for asked in of[node]:
            add(sums, asked)
        yield Places(node, len(of[node]), amounts(sums))
