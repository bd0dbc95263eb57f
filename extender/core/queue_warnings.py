"""What is doubtful about the settings of queues, each by name: what cannot be kept, what would stop work that is there.

Takes a tree of queues with what is used, waits and there is in all; gives warnings. Must not refuse anything: a person
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from extender.core.engine import Engine
from extender.core.ids import QueueName
from extender.core.quota import Position, Sums, Tree


class Doubt(StrEnum):
    """A kind of warning."""

    INVALID = "Invalid"  # nothing is admitted into it
    NOT_LEAF = "NotLeaf"  # groups wait in it, and it has queues below it
    CLOSED = "Closed"  # groups wait in it, and it is closed
    NAMESPACE = "NamespaceExcluded"  # groups of namespaces that it does not serve are in it
    GUARANTEE = "GuaranteeNotKept"  # more is guaranteed than its parent or the cluster has
    DESERVED = "DeservedNotThere"  # more is deserved than its own capability, that of its parent or the cluster has
    IN_USE = "CapabilityBelowUse"  # more is in use than it may use from now on
    NOTHING = "OwnsNothing"  # weight 0 and nothing owned: it gets what nobody else wants
    AT_ONCE = "TakenBackAtOnce"  # both sides take back from each other what began a moment ago
    FIRST = "BorrowsFirst"  # by its priority it borrows before others what one of them owns, and loses it again
    LOOPS = "Oscillates"  # evictions do not come to an end


@dataclass(frozen=True, slots=True)
class Warned:
    """One warning about one queue."""

    queue: QueueName
    doubt: Doubt
    message: str


def warnings_of(engine: Engine, names: Collection[QueueName]) -> list[Warned]:
    """The warnings about these queues, as the engine has them now."""
    known = _Known(engine)
    found = []
    for name in sorted(names):
        at = known.tree.at(name)
        if at is not None:
            found += [Warned(name, doubt, text) for doubt, look in _LOOKS for text in look(known, at)]
    return found


class _Known:
    """What is looked at."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.tree: Tree = engine.usage.tree
        self.totals: Sums = engine.world.nodes.totals()
        self.groups: dict[QueueName, list[str]] = {}
        for key in engine.world.members:
            self.groups.setdefault(engine.world.queue_of(key), []).append(key.namespace)

    def waiting(self, name: QueueName) -> int:
        """How many groups wait in the queue."""
        return self.engine.backlog.groups[name]

    def limits(self, at: Position) -> Iterator[tuple[str, Mapping[str, int]]]:
        """What bounds a queue from above: capabilities on its path, and the cluster."""
        for name in at.path[1:]:
            above = self.tree.at(name)
            if above is not None and above.capability:
                yield f"the capability of {name}", above.capability
        yield "the cluster", self.totals


def _invalid(known: _Known, at: Position) -> Iterator[str]:
    if at.blame is not None:
        yield f"nothing is admitted: {at.blame.fault.value} of {at.blame.queue}, {at.blame.problem}"


def _not_leaf(known: _Known, at: Position) -> Iterator[str]:
    if at.children and (number := len(known.groups.get(at.queue.name, ()))):
        yield f"{number} groups are in it, and groups wait in the lowest queues only"


def _closed(known: _Known, at: Position) -> Iterator[str]:
    if at.closed_by is not None and (number := known.waiting(at.queue.name)):
        yield f"{number} groups wait in it for as long as {at.closed_by} is closed"


def _namespace(known: _Known, at: Position) -> Iterator[str]:
    if at.queue.namespaces is not None:
        outside = sorted(set(known.groups.get(at.queue.name, ())) - at.queue.namespaces)
        if outside:
            yield f"groups of {', '.join(outside[:5])} are in it, which it does not serve"


def _guarantee(known: _Known, at: Position) -> Iterator[str]:
    short = known.engine.usage.grants.short.get(at.queue.name)
    if short is not None:
        kind, resource, asked, kept = short
        yield f"{resource}: of {asked} only {kept} can be kept ({kind.value})"


def _deserved(known: _Known, at: Position) -> Iterator[str]:
    for resource, amount in at.queue.deserved:
        for what, there in (("its own capability", at.capability), *known.limits(at)):
            most = there.get(resource, 0 if there is known.totals else None)
            if most is not None and amount > most:
                yield f"{resource}: {amount} deserved, and {what} is {most}"
                break
    yield from _deserved_beside(known, at)


def _deserved_beside(known: _Known, at: Position) -> Iterator[str]:
    """The siblings together deserve more than there is above them."""
    siblings = _siblings(known, at)
    for resource, _ in at.queue.deserved:
        owned = sum(one.owned.get(resource, 0) for name in siblings if (one := known.tree.at(name)) is not None)
        for what, there in known.limits(at):
            most = there.get(resource, 0 if there is known.totals else None)
            if most is not None and owned > most:
                yield f"{resource}: it and its siblings deserve {owned} together, and {what} is {most}"
                break


def _siblings(known: _Known, at: Position) -> Collection[QueueName]:
    """The queues below the same one, itself included."""
    above = known.tree.at(at.path[1]) if len(at.path) > 1 else None
    return known.tree.roots if above is None else above.children


def _in_use(known: _Known, at: Position) -> Iterator[str]:
    used = known.engine.usage.of(at.queue.name)
    for resource, most in at.capability.items():
        if used.get(resource, 0) > most:
            yield f"{resource}: {used[resource]} in use and {most} allowed: what runs goes on, nothing more starts"


def _first(known: _Known, at: Position) -> Iterator[str]:
    """Higher priority orders who borrows, and protects no loan."""
    mine = at.queue
    if not mine.reclaimable or mine.min_runtime or any(at.owned.values()):
        return
    for name in sorted(_siblings(known, at)):
        other = known.tree.at(name)
        if other is not None and other.queue.priority < mine.priority and any(other.owned.values()):
            yield f"its priority lets it borrow first what {name} owns, and it loses that each time {name} asks for it"
            return


def _nothing(known: _Known, at: Position) -> Iterator[str]:
    if not at.queue.weight and not any(at.owned.values()) and not at.children:
        yield "its weight is 0 and it owns nothing: it gets only what nobody else wants, and that is taken back"


def _at_once(known: _Known, at: Position) -> Iterator[str]:
    """What either borrows may be taken back by the other as soon as it runs."""
    mine = at.queue
    if not (mine.reclaimable and not mine.min_runtime and any(at.owned.values())):
        return
    for name in sorted(_siblings(known, at)):
        other = known.tree.at(name)
        if other is None or name == mine.name or not other.queue.reclaimable or other.queue.min_runtime:
            continue
        if any(at.owned.get(resource) and amount for resource, amount in other.owned.items()):
            yield f"it and {name} take back from each other, and minRuntimeSeconds is 0 in both: loans may not last"
            return


_LOOKS: tuple[tuple[Doubt, Callable[[_Known, Position], Iterator[str]]], ...] = (
    (Doubt.INVALID, _invalid),
    (Doubt.NOT_LEAF, _not_leaf),
    (Doubt.CLOSED, _closed),
    (Doubt.NAMESPACE, _namespace),
    (Doubt.GUARANTEE, _guarantee),
    (Doubt.DESERVED, _deserved),
    (Doubt.IN_USE, _in_use),
    (Doubt.NOTHING, _nothing),
    (Doubt.AT_ONCE, _at_once),
    (Doubt.FIRST, _first),
)
