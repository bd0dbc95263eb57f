"""Who was evicted lately, by whom and at what cost: by us, and by others as far as Kubernetes says so.

Takes pods as they change and the time, gives records of the newest evictions, and of those that nobody else writes down
what goes onto the group's object. Must not decide that anybody goes.

An eviction is a fact when a pod that bears a record of it (`Pod.evicted`) is seen to leave its node: a record may be
taken back while the pod stays, and a pod that its owner or a user deletes bears none. All pods that count in queues are
looked at: ours, and those of managed namespaces. Pods of one group that leave on the same ground in one go make one
record, which grows.

What of this stands in objects survives a restart; and what pods still say when they are listed is taken in again, and
written down if the group's object does not know of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from extender.core import stating
from extender.core.ids import GroupKey, NodeName, PodUid, QueueName
from extender.core.messages import NoteEviction
from extender.core.model import Pod
from extender.core.planning import Entry
from extender.core.reasons import NOT_OURS, Detail, Evicted, Ground
from extender.core.world import World

#: the newest so many records are kept, and of so many pods that are gone whose they are
KEPT = 500
PODS_KEPT = 10_000
#: so many records are told of one group
TOLD = 8
#: pods of a group that leave on the same ground within this time are of one go
SAME_SECONDS = 60.0
#: a note is written so long after the first of a go has left, so that one tells of all
SETTLE_SECONDS = 2.0
LOOK_SECONDS = 1.0
#: so many notes at most at each look
NOTES = 20
#: after this time a group's notes are counted anew
HOUR = 3600.0
#: so many nodes of a record are named
_NAMED = 3
#: whoever decides these writes the note at once
_NOTED = frozenset({Ground.RECLAIMED, Ground.PREEMPTED, Ground.STALE})


@dataclass(frozen=True, slots=True)
class Eviction:
    """Pods of one group, or one pod alone, that were evicted in one go."""

    number: int
    group: GroupKey
    #: of the group; of a pod that stood alone its own
    name: str
    queue: QueueName
    ground: Ground
    #: what the record on the first pod says
    said: Detail
    #: when the first and the last one of them left
    at: float
    last: float
    pods: int = 0
    #: the first few, by the order in which they were seen
    nodes: tuple[NodeName, ...] = ()
    #: seconds of work that were lost in all, and when the group had saved it; None: it never did
    lost: int = 0
    saved: float | None = None

    @property
    def detail(self) -> Detail:
        """The numbers: ours stand on each pod, those of others are counted here."""
        if self.ground not in NOT_OURS:
            return self.said
        return (
            *(("node", name) for name in self.nodes),
            ("evicted", self.pods),
            ("lost-seconds", self.lost),
            ("checkpoint", "none" if self.saved is None else f"{max(0, int(self.at - self.saved))} s old"),
            *self.said,
        )


@dataclass(frozen=True, slots=True)
class _Noted:
    """How many notes of a group were written in this hour, and when the newest one was."""

    times: int
    at: float


class Evictions:
    """The newest evictions. `entries` are read, and told of each write: a group that waits has one budget of them."""

    def __init__(self, world: World, entries: Mapping[GroupKey, Entry]) -> None:
        self._world = world
        self._entries = entries
        self._records: dict[int, Eviction] = {}
        #: the newest record of each group
        self._newest: dict[GroupKey, int] = {}
        #: by namespace and name of a pod, its uid and the newest record that counts it
        self._of_pod: dict[tuple[str, str], tuple[PodUid, int]] = {}
        self._number = 0
        #: groups of which the newest record is to be written down, and since when that is known
        self._untold: dict[GroupKey, float] = {}
        self._noted: dict[GroupKey, _Noted] = {}
        self._look_at = float("-inf")

    def __iter__(self) -> Iterator[Eviction]:
        """All records, the oldest first."""
        return iter(self._records.values())

    def of(self, key: GroupKey, name: str) -> tuple[Eviction, ...]:
        """The newest records of a group, the oldest first; of a pod alone also those of earlier ones of its name."""
        found = [one for one in self if one.group == key or (key.lone and _same_pod(one, key.namespace, name))]
        return tuple(found[-TOLD:])

    def of_pod(self, namespace: str, name: str) -> Eviction | None:
        """The newest record that counts a pod of this name."""
        _, number = self._of_pod.get((namespace, name), (None, 0))
        return self._records.get(number)

    def restart(self) -> None:
        """Another replica has acted meanwhile: what it has told of groups stands in their objects, of pods nowhere."""
        self._untold = {key: since for key, since in self._untold.items() if not key.lone}

    # --- what happens to pods -------------------------------------------------------------------

    def seen(self, before: Pod | None, pod: Pod | None, now: float) -> None:
        """A pod came, changed or (`pod` None) is gone."""
        one = pod or before
        if one is None or one.evicted is None or one.node is None or one.succeeded:
            return
        if (pod is not None and not _leaves(pod)) or (before is not None and _leaves(before)):
            return
        if one.ours or one.namespace in self._world.managed:
            self._take_in(one, one.evicted, now)

    def _take_in(self, pod: Pod, evicted: Evicted, now: float) -> None:
        name = (pod.namespace, pod.name)
        if self._of_pod.get(name, (None, 0))[0] == pod.uid:  # it was said to leave, then to stay, and leaves again
            return
        at = evicted.at if 0 < evicted.at <= now else now
        record = self._records.get(self._newest.get(pod.group, 0))
        if record is None or not _of_one_go(record, evicted, at):
            record = self._begin(pod, evicted, at)
        saved = self._saved(pod, at)
        lost = 0.0 if pod.bound_at is None else max(0.0, at - max(pod.bound_at, saved or 0.0))
        nodes = record.nodes if pod.node in record.nodes or pod.node is None else (*record.nodes, pod.node)
        self._records[record.number] = replace(
            record,
            last=max(record.last, at),
            pods=record.pods + 1,
            nodes=nodes[:_NAMED],
            lost=record.lost + int(lost),
            saved=saved if record.saved is None else record.saved,
        )
        self._of_pod.pop(name, None)
        self._of_pod[name] = (pod.uid, record.number)
        if len(self._of_pod) > PODS_KEPT:
            del self._of_pod[next(iter(self._of_pod))]
        if evicted.ground not in _NOTED:
            self._untold.setdefault(pod.group, now)

    def _begin(self, pod: Pod, evicted: Evicted, at: float) -> Eviction:
        self._number += 1
        name = pod.name if pod.group.lone else pod.group.name
        queue = pod.queue or self._world.queue_of(pod.group)
        record = Eviction(self._number, pod.group, name, queue, evicted.ground, evicted.detail, at, at)
        self._records[record.number], self._newest[pod.group] = record, record.number
        if len(self._records) > KEPT:
            old = self._records.pop(next(iter(self._records)))
            if self._newest[old.group] == old.number:
                del self._newest[old.group]
                self._untold.pop(old.group, None)
        return record

    def _saved(self, pod: Pod, at: float) -> float | None:
        """When the group saved its work last, as it says; times in the future count as absent."""
        members = (pod, *self._world.members.get(pod.group, {}).values())
        return max(
            (one.checkpoint for one in members if one.checkpoint is not None and one.checkpoint <= at), default=None
        )

    # --- what is written ------------------------------------------------------------------------

    def notes(self, now: float) -> list[NoteEviction]:
        """Those that are due."""
        if not self._untold or now < self._look_at:
            return []
        self._look_at = now + LOOK_SECONDS
        self._noted = {key: noted for key, noted in self._noted.items() if now < noted.at + HOUR}
        found: list[NoteEviction] = []
        for key, since in list(self._untold.items()):
            if len(found) == NOTES:
                break
            if now >= max(since + SETTLE_SECONDS, self._pause_until(key)):
                del self._untold[key]
                found += self._note(self._records[self._newest[key]], now)
        return found

    def _note(self, record: Eviction, now: float) -> list[NoteEviction]:
        key, group = record.group, self._world.groups.get(record.group)
        if key.lone:
            return [NoteEviction(key, key.name, record.ground, record.last, record.detail, record.name)]
        if group is None or not key.told or int(record.last) <= int(group.evicted_at):
            return []
        before = self._noted.get(key)
        self._noted[key] = _Noted(1 if before is None else before.times + 1, now)
        entry = self._entries.get(key)
        if entry is not None and not entry.running:
            entry.told, entry.told_at = entry.told + 1, now
        return [NoteEviction(key, group.uid, record.ground, record.last, record.detail)]

    def _pause_until(self, key: GroupKey) -> float:
        """As reasons are paused: a note is two writes as well, and together they are no more."""
        entry, noted = self._entries.get(key), self._noted.get(key)
        own = 0.0 if noted is None else noted.at + stating.PAUSES[min(noted.times, len(stating.PAUSES)) - 1]
        return own if entry is None or entry.running else max(own, stating.pause_until(entry))


def _leaves(pod: Pod) -> bool:
    """One that was on its way before, whoever sent it, is not evicted once more when its record changes."""
    return pod.terminating or pod.ended


def _of_one_go(record: Eviction, evicted: Evicted, at: float) -> bool:
    same = evicted.ground in NOT_OURS or record.said == evicted.detail
    return record.ground is evicted.ground and same and abs(at - record.last) <= SAME_SECONDS


def _same_pod(record: Eviction, namespace: str, name: str) -> bool:
    return record.group.lone and (record.group.namespace, record.name) == (namespace, name)
