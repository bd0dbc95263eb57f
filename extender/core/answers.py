"""The live answers: what the engine says of a group and of a queue at this moment.

Takes the engine to read and a time, gives frozen values; must not change anything or make sentences. Phase and
reason are read when they are asked for. What needs all waiting groups of a queue (positions), or all queues
(shares), is counted at most once a second, whoever asks how often: filter calls wait for no reader.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator

from extender.core import ordering, queue_stating
from extender.core.engine import Engine
from extender.core.ids import QUEUE_GATE, GroupKey, NodeName, QueueName, Source
from extender.core.membership import LIVE, STARTED, Need, Standing, Tally, satisfied
from extender.core.model import Pod, QueueStatus
from extender.core.planning import Entry
from extender.core.quota import Sums
from extender.core.reasons import Reason, Refusal
from extender.core.resources import Amounts, amounts
from extender.core.stating import PENDING, RUNNING

#: every member has ended, or is going
ENDED = "Ended"
_AT_WORK = (Standing.WAITING, Standing.BLOCKED, Standing.FOREIGN, Standing.BOUND)
_GATES_SHOWN = 8

#: positions and shares are at most so old
COUNT_SECONDS = 1.0
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
    #: place among the waiting groups of its queue, from 1; None when nothing of it waits
    position: int | None
    members: Members
    #: nodes planned for members that are not bound yet, with their numbers; the first of them, by name
    nodes: tuple[tuple[NodeName, int], ...]


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
        self._engine = engine
        #: by queue: when it was counted, and the groups in order with their positions
        self._lines: dict[QueueName, tuple[float, dict[GroupKey, int]]] = {}
        self._shares: tuple[float, dict[QueueName, Sums]] = (float("-inf"), {})

    # --- groups ---------------------------------------------------------------------------------

    def groups(self, namespace: str | None = None) -> Iterator[tuple[str, Source, str, GroupKey]]:
        """Namespace, source, name and key of every group, or of those of one namespace, in no order."""
        for key in self._keys():
            if namespace is None or key.namespace == namespace:
                name = self._name(key)
                if name is not None:
                    yield key.namespace, key.source, name, key

    def find(self, namespace: str, source: Source, name: str) -> GroupKey | None:
        """The group of this name; None when there is none that concerns us."""
        if source is Source.POD:
            lone = (key for key in self._engine.entries if key.lone and key.namespace == namespace)
            return next((key for key in lone if self._name(key) == name), None)
        key = GroupKey(source, namespace, name)
        return key if self._known(key) else None

    def workload(self, key: GroupKey, now: float) -> Workload | None:
        """What there is to say of a group; None when there is none that concerns us."""
        name = self._name(key)
        if name is None or not self._known(key):
            return None
        world, entry = self._engine.world, self._engine.entries.get(key)
        places = Counter(self._engine.view.places(key))
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
            position=None if entry is None or entry.refusal is None else self._position(key, now),
            members=self._members(key, places.total()),
            nodes=tuple(sorted(places.items())[:NODES_SHOWN]),
        )

    def _keys(self) -> Iterator[GroupKey]:
        world, entries = self._engine.world, self._engine.entries
        yield from (key for key in entries if key in world.members)
        yield from (key for key in world.groups if key.source is Source.MUSTER and key not in entries)

    def _known(self, key: GroupKey) -> bool:
        """Ours are groups with a pod of ours, and objects of our own group."""
        world = self._engine.world
        if key in self._engine.entries:
            return key in world.members or key in world.groups
        return key.source is Source.MUSTER and key in world.groups

    def _one(self, key: GroupKey) -> Pod | None:
        return next(iter(self._engine.world.members.get(key, {}).values()), None)

    def _name(self, key: GroupKey) -> str | None:
        """The group's name as its users know it; None for a lone pod that has just gone."""
        if not key.lone:
            return key.name
        pod = self._one(key)
        return None if pod is None else pod.name

    def _phase(self, key: GroupKey, entry: Entry | None, placed: bool) -> tuple[str, Refusal | None]:
        """The phase, and why something of the group waits."""
        world = self._engine.world
        tally, need = world.tallies.get(key) or Tally(), world.need(key)
        if entry is not None and entry.refusal is not None:
            return RUNNING if entry.running else PENDING, entry.refusal
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
        return PENDING, self._idle(key, need, tally)

    def _idle(self, key: GroupKey, need: Need, tally: Tally) -> Refusal:
        """Nothing of it can be placed: members are missing, or gates of others are on them."""
        pods = self._engine.world.members.get(key, {}).values()
        gates = {gate for pod in pods if pod.ours for gate in pod.gates} - {QUEUE_GATE}
        detail: list[tuple[str, str | int]] = [("have", tally.count(*STARTED)), ("minimum", need.min_member)]
        detail += [("gate", gate) for gate in sorted(gates)[:_GATES_SHOWN]]
        return Refusal(Reason.MEMBERS, tuple(detail))

    def _members(self, key: GroupKey, planned: int) -> Members:
        world = self._engine.world
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
        return tuple(sorted(self._engine.usage.tree.downwards))

    def queue(self, name: QueueName, now: float) -> QueueState | None:
        """What there is to say of a queue; None when there is none of this name."""
        usage = self._engine.usage
        at = usage.tree.at(name)
        if at is None:
            return None
        share = self._fair(now).get(name, {})
        status = queue_stating.status_of(at.queue, usage, self._engine.backlog, share, at.queue.status, now)
        return QueueState(name, at.queue.parent, status, amounts(share), tuple(self._waiters(name, now)))

    def _fair(self, now: float) -> dict[QueueName, Sums]:
        counted, shares = self._shares
        if now >= counted + COUNT_SECONDS:
            usage, backlog = self._engine.usage, self._engine.backlog
            shares = queue_stating.shares_of(usage, backlog, usage.shared(self._engine.view.free()))
            self._shares = (now, shares)
        return shares

    def _waiters(self, queue: QueueName, now: float) -> Iterator[Waiter]:
        for key, position in itertools.islice(self._line(queue, now).items(), WAITING_SHOWN):
            name, entry = self._name(key), self._engine.entries.get(key)
            if name is not None and entry is not None and entry.refusal is not None:
                yield Waiter(key.namespace, key.source, name, position, entry.refusal, entry.refused_at)

    def _position(self, key: GroupKey, now: float) -> int | None:
        queue = self._engine.world.queue_of(key)
        if key not in self._line(queue, now):
            self._lines.pop(queue, None)  # it waits since a moment ago
        return self._line(queue, now).get(key)

    def _line(self, queue: QueueName, now: float) -> dict[GroupKey, int]:
        """The waiting groups of a queue in order, with their positions."""
        known = self._lines.get(queue)
        if known is not None and now < known[0] + COUNT_SECONDS:
            return known[1]
        world, entries = self._engine.world, self._engine.entries
        waiting = [key for key in self._engine.backlog.waiting_in(queue) if key in entries]
        waiting.sort(key=lambda key: ordering.order_of(world, key, entries[key].arrival))
        line = {key: position for position, key in enumerate(waiting, 1)}
        self._lines = {name: one for name, one in self._lines.items() if now < one[0] + COUNT_SECONDS}
        self._lines[queue] = (now, line)
        return line


def _since(entry: Entry, refusal: Refusal | None) -> float | None:
    if refusal is None:
        return None
    return entry.refused_at if refusal is entry.refusal else entry.planned_at
