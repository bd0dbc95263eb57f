"""Replay of a decision log: the engine is told the same again, and what it decides is held against what is on record.

Takes files of a log, gives for each what it came to; must not decide, nor repair what it reads.
"""

from __future__ import annotations

import datetime
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from extender.core import explain, messages
from extender.core.decisions import Placed, Refused
from extender.sim.logbook import Book, Line
from extender.wire import journal

#: progress is told after so many events
TOLD_EVERY = 5000
_SHOWN_PLACES = 8


@dataclass(frozen=True, slots=True)
class Difference:
    """The first event after which not the same was decided."""

    line: int
    at: float
    event: str
    recorded: str
    replayed: str

    def __str__(self) -> str:
        told = f"line {self.line}, {time(self.at)}, after {self.event}:"
        return f"{told}\n  on record  {self.recorded}\n  replayed   {self.replayed}"


@dataclass(slots=True)
class Outcome:
    """What a file came to so far. `lost`: so many events are missing at its end."""

    events: int = 0
    decisions: int = 0
    first: float | None = None
    last: float = 0.0
    lost: int = 0
    difference: Difference | None = None


def replay(path: pathlib.Path, tell: Callable[[Outcome], None] = lambda _: None) -> Outcome:
    """Replay one file to its end, or to the first difference."""
    book, found = Book(path), Outcome()
    try:
        engine = book.header.engine()
    except journal.Unreadable as error:
        raise book.fault(1, str(error)) from error
    for line in book.lines():
        entry = line.found
        if isinstance(entry, journal.Lost):
            found.lost += entry.number
            continue
        effects = engine.handle(entry.event, entry.at)
        found.events += 1
        found.decisions += len(entry.effects) + len(entry.decided)
        found.first, found.last = entry.at if found.first is None else found.first, entry.at
        found.difference = _difference(line, entry, *journal.outcome(effects, engine.decided))
        if found.difference is not None:
            break
        if not found.events % TOLD_EVERY:
            tell(found)
    return found


def _difference(line: Line, entry: journal.Entry, effects: list[Any], decided: list[Any]) -> Difference | None:
    for recorded, replayed in ((entry.decided, decided), (entry.effects, effects)):
        if recorded != replayed:
            one, other = _apart(recorded, replayed)
            return Difference(line.number, entry.at, _event(entry.event), words(one), words(other))
    return None


def _apart(recorded: list[Any], replayed: list[Any]) -> tuple[Any, Any]:
    """The first of each that differ; None where one ends before."""
    for number in range(max(len(recorded), len(replayed))):
        one = recorded[number] if number < len(recorded) else None
        other = replayed[number] if number < len(replayed) else None
        if one != other:
            return one, other
    return None, None


def time(at: float) -> str:
    """A time as people read it."""
    try:
        return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + "Z"
    except (ValueError, OverflowError, OSError):
        return f"{at:g}"


def _event(event: messages.EngineEvent) -> str:
    match event:
        case messages.PodSeen(pod) | messages.FilterCalled(pod):
            return f"{type(event).__name__} of {pod.namespace}/{pod.name}"
        case messages.NodeSeen(node):
            return f"NodeSeen of {node.name}"
        case messages.GroupSeen(group):
            return f"GroupSeen of {group.key}"
        case messages.QueueSeen(queue):
            return f"QueueSeen of {queue.name}"
    return type(event).__name__


def words(told: Any) -> str:
    """A decision or an effect, as it stands in a log, in words."""
    if told is None:
        return "nothing"
    try:
        made = journal.made(told)
    except journal.Unreadable:
        return orjson.dumps(told).decode()
    match made:
        case Placed(group, places):
            return f"{group} gets its places: {', '.join(_places(places))}"
        case Refused(group, refusal):
            return f"{group} waits, {refusal.reason.value}: {explain.sentence(refusal)}"
        case messages.Evict(_, namespace, name, ground, detail):
            return f"{namespace}/{name} is evicted, {ground.value}: {explain.why_evicted(ground, detail)}"
        case messages.StateGroup(key, _, phase, refusal):
            return f"{key} is stated as {phase}{f', {refusal.reason.value}' if refusal else ''}"
    return orjson.dumps(told).decode()


def _places(places: tuple[tuple[str, str], ...]) -> Iterator[str]:
    yield from (f"{slot} on {node}" for slot, node in places[:_SHOWN_PLACES])
    if len(places) > _SHOWN_PLACES:
        yield f"and {len(places) - _SHOWN_PLACES} more"
