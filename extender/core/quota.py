"""The queue tree: which queue stands above which, who may use it, and what is wrong with it.

Takes the Queue values that the watches show, gives positions, refusals and grants of guarantees; must not
know what is used. Anything may be wrong with a tree: each fault is one queue's, and all others go on.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import StrEnum

from extender.core.ids import DEFAULT_QUEUE, QueueName, Source
from extender.core.model import Queue
from extender.core.reasons import Reason, Refusal
from extender.core.resources import add

#: Volcano's queues name it as their parent whether or not there is an object of this name
_VOLCANO_ROOT = QueueName("root")

#: so many queues of a ring are named
_SHOWN = 8
#: amounts of resources by name
Sums = dict[str, int]


class Fault(StrEnum):
    """Why nothing is admitted into a queue or any queue below it."""

    SPEC = "InvalidSpec"  # a field that cannot be read: its limits are not known
    NO_PARENT = "ParentNotFound"
    CYCLE = "ParentCycle"  # it stands above itself
    ABOVE = "ParentInvalid"  # one of the queues above it has one of these faults


class Shortfall(StrEnum):
    """Why a queue's guarantee is not kept in full."""

    CAPABILITY = "AboveCapability"
    PARENT = "AboveParent"  # with its siblings' it is more than the queue above has for them
    CLUSTER = "AboveCluster"


@dataclass(frozen=True, slots=True)
class Blame:
    """A fault, the queue whose it is, and what is wrong there in words."""

    fault: Fault
    queue: QueueName
    problem: str


@dataclass(frozen=True, slots=True)
class Position:
    """A queue in the tree. `path` is itself and the queues above it, as far as they are sound."""

    queue: Queue
    path: tuple[QueueName, ...]
    children: tuple[QueueName, ...]
    blame: Blame | None
    #: the nearest closed queue on its path
    closed_by: QueueName | None
    capability: Mapping[str, int]
    #: what is deserved or guaranteed, whichever is more
    owned: Mapping[str, int]

    @property
    def admits(self) -> bool:
        """True when groups may be admitted into it at all."""
        return self.blame is None and not self.children and self.closed_by is None


class Tree:
    """All queues, and `default` in any case. Never changes."""

    def __init__(self, queues: Mapping[QueueName, Queue]) -> None:
        stated = {DEFAULT_QUEUE: Queue(DEFAULT_QUEUE), **queues}
        parents = {name: _parent(queue, stated) for name, queue in stated.items()}
        rings = _rings(parents)
        below: dict[QueueName, list[QueueName]] = {}
        for name, parent in sorted(parents.items()):
            if parent is not None and name not in rings:
                below.setdefault(parent, []).append(name)
        self._at: dict[QueueName, Position] = {}
        for name in stated:
            for queue in reversed(self._unplaced(name, parents, rings)):
                parent = None if queue in rings else parents[queue]
                above = self._at.get(parent) if parent is not None else None
                blame = _blame(stated[queue], parents[queue], rings.get(queue, ()), above)
                self._at[queue] = _position(stated[queue], tuple(below.get(queue, ())), above, blame)
        #: names so ordered that each queue comes after the one above it
        self.downwards = tuple(sorted(self._at, key=lambda name: (len(self._at[name].path), name)))
        self.roots = tuple(name for name in self.downwards if len(self._at[name].path) == 1)
        #: resources of which some queue owns something
        self.owned = frozenset(what for at in self._at.values() for what, amount in at.owned.items() if amount)
        #: some queue charges GPUs by share
        self.by_share = any(at.queue.by_share for at in self._at.values())
        self.admitting = frozenset(name for name, at in self._at.items() if at.admits)
        #: where a cap is, and of what
        self.capped = tuple((name, resource) for name, at in self._at.items() for resource in at.capability)

    def at(self, name: QueueName) -> Position | None:
        """Where a queue stands; None when there is none of this name."""
        return self._at.get(name)

    def path(self, name: QueueName) -> tuple[QueueName, ...]:
        """The queue and those above it; a name without a queue stands alone."""
        found = self._at.get(name)
        return (name,) if found is None else found.path

    def refusal(self, name: QueueName, namespace: str) -> Refusal | None:
        """Why nothing of this namespace is admitted into this queue, however little is used."""
        found = self._at.get(name)
        if found is None:
            return Refusal(Reason.QUEUE_NOT_FOUND, (("queue", name),))
        if found.blame is not None:
            detail = (("queue", name), ("blamed", found.blame.queue), ("problem", found.blame.problem))
            return Refusal(Reason.QUEUE_INVALID, detail)
        if found.children:
            below = tuple(("below", child) for child in found.children[:5])
            return Refusal(Reason.QUEUE_NOT_LEAF, (("queue", name), *below))
        if found.closed_by is not None:
            return Refusal(Reason.QUEUE_CLOSED, (("queue", name), ("closed", found.closed_by)))
        for above in found.path:
            allowed = self._at[above].queue.namespaces
            if allowed is not None and namespace not in allowed:
                return Refusal(Reason.NAMESPACE, (("queue", above), ("namespace", namespace)))
        return None

    def _unplaced(
        self, name: QueueName, parents: Mapping[QueueName, QueueName | None], rings: Container[QueueName]
    ) -> list[QueueName]:
        """The queue and those above it that have no position yet, from below."""
        found: list[QueueName] = []
        at: QueueName | None = name
        while at is not None and at in parents and at not in self._at:
            found.append(at)
            at = None if at in rings else parents[at]
        return found


@dataclass(frozen=True, slots=True)
class Grants:
    """The guarantees that can be kept: at each queue no more than its cap, its parent's and the cluster's.

    What does not suffice goes by priority, then by name. A queue that names no guarantee of a resource has
    the sum of those below it.
    """

    kept: Mapping[QueueName, Mapping[str, int]]
    short: Mapping[QueueName, tuple[Shortfall, str, int, int]]


def grants(tree: Tree, totals: Mapping[str, int]) -> Grants:
    """The guarantees of the tree on a cluster of these amounts.

    Queues with a fault are promised nothing, and one that asks for more than there is in all keeps nothing of that
    resource: what cannot be kept must not stop everybody else.
    """
    wanted = _wanted(tree, totals)
    kept: dict[QueueName, Sums] = {name: {} for name in wanted}
    left: dict[QueueName | None, Sums] = {None: dict(totals)}
    for name in sorted(wanted, key=lambda name: _turn(tree, name)):
        path = tree.path(name)
        source = left[path[1] if len(path) > 1 else None]
        for resource, amount in wanted[name].items():
            kept[name][resource] = given = min(amount, source.get(resource, 0))
            source[resource] = source.get(resource, 0) - given
        left[name] = dict(kept[name])
    short = {name: found for name in kept if (found := _shortfall(tree, name, totals, wanted, kept)) is not None}
    return Grants({name: amounts for name, amounts in kept.items() if any(amounts.values())}, short)


def _turn(tree: Tree, name: QueueName) -> tuple[int, int, str]:
    found = tree.at(name)
    assert found is not None
    return (len(found.path), -found.queue.priority, name)


def _wanted(tree: Tree, totals: Mapping[str, int]) -> dict[QueueName, Sums]:
    """What each queue should keep if there were no bounds but its own cap, those below before it."""
    wanted: dict[QueueName, Sums] = {}
    for name in reversed(tree.downwards):
        found = tree.at(name)
        assert found is not None
        if found.blame is not None:
            continue
        sums: Sums = {}
        for child in found.children:
            add(sums, wanted.get(child, {}).items())
        sums.update((what, amount) for what, amount in found.queue.guarantee if amount <= totals.get(what, 0))
        wanted[name] = {
            resource: min(amount, found.capability.get(resource, amount)) for resource, amount in sums.items()
        }
    return wanted


def _shortfall(
    tree: Tree,
    name: QueueName,
    totals: Mapping[str, int],
    wanted: Mapping[QueueName, Sums],
    kept: Mapping[QueueName, Sums],
) -> tuple[Shortfall, str, int, int] | None:
    found = tree.at(name)
    assert found is not None
    for resource, amount in found.queue.guarantee:
        given = kept[name].get(resource, 0)
        if given == amount:
            continue
        if amount > totals.get(resource, 0):
            return Shortfall.CLUSTER, resource, amount, given
        if wanted[name][resource] < amount and given == wanted[name][resource]:
            return Shortfall.CAPABILITY, resource, amount, given
        above = found.path[1] if len(found.path) > 1 else None
        full = above is not None and kept[above].get(resource, 0) == wanted[above].get(resource, 0)
        return Shortfall.PARENT if full else Shortfall.CLUSTER, resource, amount, given
    return None


def _parent(queue: Queue, stated: Mapping[QueueName, Queue]) -> QueueName | None:
    implied = queue.source is Source.VOLCANO and queue.parent == _VOLCANO_ROOT
    return None if implied and _VOLCANO_ROOT not in stated else queue.parent


def _rings(parents: Mapping[QueueName, QueueName | None]) -> dict[QueueName, tuple[QueueName, ...]]:
    """For each queue that stands above itself the way from it back to it."""
    seen: set[QueueName] = set()
    found: dict[QueueName, tuple[QueueName, ...]] = {}
    for name in parents:
        walked: dict[QueueName, None] = {}
        at: QueueName | None = name
        while at is not None and at in parents and at not in seen and at not in walked:
            walked[at] = None
            at = parents[at]
        if at in walked:
            names = list(walked)
            ring = names[names.index(at) :]
            found.update((member, (*ring[n:], *ring[:n], member)) for n, member in enumerate(ring))
        seen.update(walked)
    return found


def _blame(queue: Queue, parent: QueueName | None, ring: tuple[QueueName, ...], above: Position | None) -> Blame | None:
    if queue.problems:
        return Blame(Fault.SPEC, queue.name, queue.problems[0])
    if ring:
        return Blame(Fault.CYCLE, queue.name, f"the queues above lead back to it ({_way(ring)})")
    if parent is not None and above is None:
        return Blame(Fault.NO_PARENT, queue.name, f"there is no queue {parent}")
    if above is not None and above.blame is not None:
        return Blame(Fault.ABOVE, above.blame.queue, above.blame.problem)
    return None


def _way(ring: tuple[QueueName, ...]) -> str:
    shown = ring if len(ring) <= _SHOWN else (*ring[: _SHOWN - 1], "...", ring[-1])
    return " below ".join(shown)


def _position(queue: Queue, children: tuple[QueueName, ...], above: Position | None, blame: Blame | None) -> Position:
    return Position(
        queue=queue,
        path=(queue.name, *(above.path if above is not None else ())),
        children=children,
        blame=blame,
        closed_by=queue.name if queue.closed else above.closed_by if above is not None else None,
        capability=dict(queue.capability),
        owned=_larger(dict(queue.deserved), dict(queue.guarantee)),
    )


def _larger(one: Sums, other: Sums) -> Sums:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one | other}
