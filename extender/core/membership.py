"""What a group has (tally of its members) and what it needs (its minimums), for engine and gate alike.

Takes pods one by one, those that are gone and had succeeded, and the group's object; gives counts and a `Need` or
a refusal that says why the group cannot be judged. Counting is incremental: a gang of 1000 sends thousands of events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from extender.core.ids import DEFAULT_QUEUE, GroupKey, QueueName, Source, TaskName
from extender.core.makers import maker_key
from extender.core.model import Declared, Group, PartRule, Pod
from extender.core.reasons import MAKER, Reason, Refusal

K = TypeVar("K")
T = TypeVar("T")


class Standing(StrEnum):
    """Where a member stands."""

    WAITING = "waiting"  # ours, to be bound
    BLOCKED = "blocked"  # ours, to be bound, but a scheduling gate of somebody else is on it
    FOREIGN = "foreign"  # another scheduler's, not bound: never planned or held
    BOUND = "bound"  # on a node, neither ended nor being deleted; of any scheduler
    LEAVING = "leaving"  # being deleted
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    # Enum's own hash is a Python function, and members are counted for every event
    __hash__ = str.__hash__


def standing(pod: Pod) -> Standing:
    """Where a pod stands; exactly one answer for each pod."""
    if pod.succeeded:
        return Standing.SUCCEEDED
    if pod.phase == "Failed":
        return Standing.FAILED
    if pod.terminating:
        return Standing.LEAVING
    if pod.node is not None:
        return Standing.BOUND
    if not pod.ours:
        return Standing.FOREIGN
    return Standing.BLOCKED if len(pod.gates) > pod.queue_gated else Standing.WAITING


#: standings of members that exist and may still run or have run well
LIVE = (Standing.WAITING, Standing.BLOCKED, Standing.FOREIGN, Standing.BOUND, Standing.SUCCEEDED)
#: standings that count towards a minimum without our doing anything
STARTED = (Standing.BOUND, Standing.SUCCEEDED)


class Tally:
    """Counts of a group's members, kept by adding and removing pods."""

    def __init__(self) -> None:
        self._count: Counter[tuple[TaskName, Standing]] = Counter()
        self._total: Counter[Standing] = Counter()
        #: queue labels, priorities and declarations of our members that have not ended, with their numbers
        self.queues: Counter[QueueName | None] = Counter()
        self.priorities: Counter[int] = Counter()
        self.declared: Counter[Declared] = Counter()
        self.problems: Counter[tuple[str, ...]] = Counter()
        #: levels that their tasks prefer
        self.prefers: Counter[str] = Counter()
        #: of those that succeeded, how many of each task have no pod any more
        self.done: Counter[TaskName] = Counter()
        #: waiting members without our scheduling gate, by the queue that they name
        self.ungated: Counter[QueueName | None] = Counter()

    def add(self, pod: Pod) -> None:
        """Count a pod in."""
        self._move(pod, 1)

    def remove(self, pod: Pod) -> None:
        """Count a pod out; it must have been counted in, in the same state."""
        self._move(pod, -1)

    def replace(self, before: Pod, pod: Pod) -> bool:
        """Count a pod's newer state instead of its older one; True when what its group needs may have changed."""
        self._place(before, -1)
        self._place(pod, 1)
        if _says(before) == _says(pod):
            return False
        self._hear(before, -1)
        self._hear(pod, 1)
        return True

    def count_done(self, tasks: Iterable[TaskName], by: int) -> None:
        """Count members of these tasks as succeeded that have no pod any more (`by` 1), or no longer (`by` -1)."""
        for task in tasks:
            _step(self._count, (task, Standing.SUCCEEDED), by)
            _step(self._total, Standing.SUCCEEDED, by)
            _step(self.done, task, by)

    def _move(self, pod: Pod, by: int) -> None:
        self._place(pod, by)
        self._hear(pod, by)

    def _place(self, pod: Pod, by: int) -> None:
        where = standing(pod)
        _step(self._count, (pod.task, where), by)
        _step(self._total, where, by)
        if where is Standing.WAITING and not pod.queue_gated:
            _step(self.ungated, pod.queue, by)

    def _hear(self, pod: Pod, by: int) -> None:
        if pod.ours and not pod.ended and not pod.terminating:
            _step(self.queues, pod.queue, by)
            _step(self.priorities, pod.priority, by)
            _step(self.declared, pod.declared, by)
            if pod.problems:
                _step(self.problems, pod.problems, by)
            if pod.prefers is not None:
                _step(self.prefers, pod.prefers, by)

    def count(self, *standings: Standing, task: TaskName | None = None) -> int:
        """Members in any of these standings, of one task or of all."""
        if task is None:
            return sum(self._total[s] for s in standings)
        return sum(self._count[task, s] for s in standings)

    def totals(self) -> dict[Standing, int]:
        """Members by standing; to compare with those of another time."""
        return dict(self._total)

    @property
    def started(self) -> bool:
        """True when a member is bound or has succeeded. Asked for every waiting group in every cycle."""
        return bool(self._total.get(Standing.BOUND) or self._total.get(Standing.SUCCEEDED))

    @property
    def gated(self) -> int:
        """Waiting members that bear our own scheduling gate."""
        return self._total[Standing.WAITING] - self.ungated.total()

    @property
    def tasks(self) -> set[TaskName]:
        """Tasks that have members."""
        return {task for task, _ in self._count}


def _says(pod: Pod) -> tuple[object, ...]:
    """What the pod says of its group, as long as it counts."""
    counts = pod.ours and not pod.ended and not pod.terminating
    return (counts, pod.queue, pod.priority, pod.declared, pod.problems, pod.prefers)


def _step(counter: Counter[K], key: K, by: int) -> None:
    counter[key] += by
    if not counter[key]:
        del counter[key]


@dataclass(frozen=True, slots=True)
class Need:
    """What a group must have before it starts, and what else was declared for it."""

    min_member: int
    tasks: tuple[tuple[TaskName, int], ...]
    queue: QueueName
    priority: int
    topology_required: str | None = None
    topology_preferred: str | None = None
    parts: tuple[PartRule, ...] = ()
    schedule_timeout: int | None = None
    expected_duration: int | None = None
    preemptible: bool = True

    def confines(self, pod: Pod) -> bool:
        """True when this member must be in a domain with others."""
        return bool(self.topology_required or self.parts or pod.parts)

    def missing(self, have: int, have_of: dict[TaskName, int]) -> tuple[int, dict[TaskName, int]]:
        """How many members are missing in all, and of each named task, when these counts are there."""
        of = {task: least - have_of.get(task, 0) for task, least in self.tasks}
        return max(0, self.min_member - have), {task: n for task, n in of.items() if n > 0}


def satisfied(need: Need, tally: Tally, extra: Iterable[TaskName] = ()) -> bool:
    """True when bound and succeeded members, and `extra` ones of these tasks, reach every minimum."""
    more = Counter(extra)
    if tally.count(*STARTED) + more.total() < need.min_member:
        return False
    return all(tally.count(*STARTED, task=task) + more[task] >= least for task, least in need.tasks)


def queue_of(tally: Tally, group: Group | None, namespace_queue: QueueName | None) -> QueueName:
    """The queue of a group: that which a member names, the group's own, its namespace's, else the default one.

    Of several that members name, the first by name: such a group waits, and what runs of it is counted there.
    """
    named = min((queue for queue in tally.queues if queue is not None), default=None)
    return named or (group.queue if group is not None else None) or namespace_queue or DEFAULT_QUEUE


def _missing(key: GroupKey) -> tuple[tuple[str, str], ...]:
    """What is not there: the group's object, or the one that makes the pods."""
    if key.source is not Source.OWNER:
        return (("group", str(key)),)
    maker = maker_key(key)
    return ((MAKER, f"{maker.kind} {maker.namespace}/{maker.name}"),)


def need_of(key: GroupKey, tally: Tally, group: Group | None, namespace_queue: QueueName | None) -> Need | Refusal:
    """The group's need, or why it has none: unsound, contradictory, or its object is missing.

    Rules of design section 4: an object of the group's source comes first; without one, every member of
    a group marked by our label must declare the same minimum. Of a group that is of its maker the minimum which members
    declare comes before what its fields say.
    """
    trouble = _trouble(tally, group)
    if trouble is not None:
        return trouble
    declared = next(iter(tally.declared), Declared())
    priority = min(tally.priorities, default=0)
    if group is None and not key.lone and (key.source is Source.OWNER or declared.min_member is None):
        return Refusal(Reason.GROUP_NOT_FOUND, _missing(key))
    tasks = group.tasks if group is not None else ()
    if key.lone:
        least: int = 1
    elif key.source is Source.OWNER and declared.min_member is not None:
        least, tasks = declared.min_member, ()  # its pods know better than what their maker's fields let guess
    else:
        least = _left(group, tally) if group is not None else (declared.min_member or 1)
    # our own PodGroup says everything itself; beside any other object the annotations add what it cannot say
    said = Declared() if group is not None and key.source is Source.MUSTER else declared
    return Need(
        min_member=least,
        tasks=tasks,
        queue=queue_of(tally, group, namespace_queue),
        priority=priority if group is None or group.priority is None else min(priority, group.priority),
        topology_required=_first(group.topology_required if group else None, said.topology_required),
        topology_preferred=_first(
            group.topology_preferred if group else None, said.topology_preferred, _most(tally.prefers)
        ),
        parts=group.parts if group is not None else (),
        schedule_timeout=group.schedule_timeout if group is not None else None,
        expected_duration=_first(group.expected_duration if group else None, said.expected_duration),
        preemptible=_first(group.preemptible if group is not None else None, said.preemptible) is not False,
    )


def _left(group: Group, tally: Tally) -> int:
    """The group's minimum, less those that did their part and of whom only its object knows it."""
    return max(1, group.min_member - max(0, group.done - tally.count(Standing.SUCCEEDED)))


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)


def _most(counter: Counter[str]) -> str | None:
    """What is said most often, the first by name among equals."""
    return max(sorted(counter), key=counter.__getitem__, default=None)


def _trouble(tally: Tally, group: Group | None) -> Refusal | None:
    if group is not None and group.problems:
        return Refusal(Reason.INVALID, tuple(("problem", text) for text in group.problems[:5]))
    if tally.problems:
        texts = sorted(text for problems in tally.problems for text in problems)
        return Refusal(Reason.INVALID, tuple(("problem", text) for text in texts[:5]))
    queues = sorted(q for q in tally.queues if q is not None)
    if len(queues) > 1:
        return Refusal(Reason.INVALID, (("problem", "members name different queues"), *_named("queue", queues)))
    if len(tally.declared) > 1:
        return Refusal(Reason.INVALID, (("problem", "members' muster.dev annotations disagree"),))
    return None


def _named(name: str, values: Iterable[str]) -> tuple[tuple[str, str | int], ...]:
    return tuple((name, value) for value in list(values)[:5])
