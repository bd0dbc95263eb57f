"""The decision log: what the engine was told, when, and what it decided, one JSON object a line.

Takes events, effects and decisions, gives lines; takes lines, gives them back as values. Must not read or write files,
nor decide. A file begins with a header: which code decided (`rules`), its settings, and the engine's state at that
moment, unless it had none yet. So each file can be replayed alone. A line for an event:

    {"at": 1764554400.0, "event": "PodSeen", "of": {...}, "effects": [["Ungate", {...}]], "decided": [["Placed", {}]]}

A last line {"lost": 7} says that so many events are missing from there on. All that stands in a log is what the core
knows of the cluster's objects: no environment, no image, no Secret, and of annotations those that Muster reads.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import zlib
from collections.abc import Sequence
from typing import Any, get_args

import orjson

from extender.core import messages
from extender.core.decisions import Decided
from extender.core.engine import Engine
from extender.wire import frozen, values

FORMAT = 1
_EVENTS: dict[str, type] = {kind.__name__: kind for kind in get_args(messages.EngineEvent)}
_EFFECTS: dict[str, type] = {kind.__name__: kind for kind in get_args(messages.Effect)}
_DECIDED: dict[str, type] = {kind.__name__: kind for kind in get_args(Decided)}
#: a state is no larger; who sends more means no good
_MAX_STATE = 2**31


class Unreadable(ValueError):
    """This is no line of a decision log, or of another version of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What the engine was told."""

    nominate_above: int
    turns: int | None = None

    def engine(self) -> Engine:
        """A new one."""
        return Engine(self.nominate_above, self.turns)


@dataclasses.dataclass(frozen=True, slots=True)
class Header:
    """`begins`: why a file begins here. `state` is that of the engine; None: it is new."""

    settings: Settings
    begins: str
    at: float
    state: bytes | None = None

    def engine(self) -> Engine:
        """The engine as it was when the file began."""
        try:
            return self.settings.engine() if self.state is None else frozen.thaw(self.state)
        except frozen.Unusable as error:
            raise Unreadable(f"the state in the header: {error}") from error


@dataclasses.dataclass(frozen=True, slots=True)
class Lost:
    """So many events are missing here."""

    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One event, and what came of it as decoded JSON."""

    at: float
    event: messages.EngineEvent
    effects: list[Any]
    decided: list[Any]


#: why a file begins
START, FULL, GAP = "start", "full", "gap"


def header(settings: Settings, begins: str, at: float, state: bytes | None = None) -> bytes:
    """The first line of a file."""
    told: dict[str, Any] = {"muster-decisions": FORMAT, "rules": frozen.rules(), "begins": begins, "at": at}
    told["settings"] = dataclasses.asdict(settings)
    if state is not None:
        told["state"] = base64.b64encode(zlib.compress(state, 1)).decode()
    return orjson.dumps(told) + b"\n"


def lost(number: int) -> bytes:
    """The line that says so."""
    return orjson.dumps({"lost": number}) + b"\n"


def line(
    at: float, event: messages.EngineEvent, effects: Sequence[messages.Effect], decided: Sequence[Decided]
) -> bytes:
    """The line of one event."""
    kind = type(event)
    if kind is messages.Tick and not effects and not decided:  # most of them
        return f'{{"at":{at!r},"event":"Tick"}}\n'.encode()
    told: dict[str, Any] = {"at": at, "event": kind.__name__}
    if isinstance(event, messages.EffectDone):
        told["of"] = [type(event.effect).__name__, event.effect, event.error]
    elif kind is not messages.Tick:
        told["of"] = event
    if effects:
        told["effects"] = _named(effects)
    if decided:
        told["decided"] = _named(decided)
    return values.encode(told) + b"\n"


def _named(some: Sequence[object]) -> list[tuple[str, object]]:
    return [(type(one).__name__, one) for one in some]


def outcome(effects: Sequence[messages.Effect], decided: Sequence[Decided]) -> tuple[list[Any], list[Any]]:
    """Effects and decisions as they stand in an Entry."""
    found: tuple[list[Any], list[Any]] = orjson.loads(values.encode((_named(effects), _named(decided))))
    return found[0], found[1]


# --- reading -----------------------------------------------------------------------------------------


def read_header(text: bytes) -> Header:
    """The first line of a file; Unreadable says of what else it is."""
    told = _object(text)
    if "muster-decisions" not in told:
        raise Unreadable("no decision log: its first line is no header")
    if told["muster-decisions"] != FORMAT:
        raise Unreadable(f"format {told['muster-decisions']!r}, and this Muster reads {FORMAT}")
    if told.get("rules") != frozen.rules():
        mine, theirs = frozen.rules(), str(told.get("rules"))[:40]
        raise Unreadable(f"written by another version of Muster (rules {theirs}, here {mine}): replay it with that one")
    try:
        settings = values.decode(Settings, told.get("settings"), "settings")
        at = values.decode(float, told.get("at"), "at")
        begins = values.decode(str, told.get("begins"), "begins")
    except values.Malformed as error:
        raise Unreadable(str(error)) from error
    return Header(settings, begins, at, _state(told.get("state")))


def _state(text: object) -> bytes | None:
    if text is None:
        return None
    try:
        unpacking = zlib.decompressobj()
        state = unpacking.decompress(base64.b64decode(str(text), validate=True), _MAX_STATE)
    except (binascii.Error, zlib.error) as error:
        raise Unreadable(f"state: {error}") from error
    if not unpacking.eof:
        raise Unreadable("state: it does not end")
    return state


def read_line(text: bytes) -> Entry | Lost:
    """Any other line."""
    told = _object(text)
    try:
        if "lost" in told:
            return Lost(values.decode(int, told["lost"], "lost"))
        at = values.decode(float, told.get("at"), "at")
        return Entry(at, _event(told.get("event"), told.get("of")), _list(told, "effects"), _list(told, "decided"))
    except values.Malformed as error:
        raise Unreadable(str(error)) from error


def _object(text: bytes) -> dict[str, Any]:
    try:
        told = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"no JSON ({error})") from error
    if not isinstance(told, dict):
        raise Unreadable("no JSON object")
    return told


def _list(told: dict[str, Any], name: str) -> list[Any]:
    found = told.get(name, [])
    if not isinstance(found, list):
        raise Unreadable(f"{name}: not an array")
    return found


def _event(name: object, told: object) -> messages.EngineEvent:
    kind = _EVENTS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise Unreadable(f"event: {str(name)[:40]!r} is not known")
    if kind is messages.EffectDone:
        return _effect_done(told)
    event: messages.EngineEvent = values.decode(kind, {} if kind is messages.Tick else told, str(name))
    return event


def _effect_done(told: object) -> messages.EffectDone:
    if not isinstance(told, list) or len(told) != 3:
        raise Unreadable("EffectDone: not an array of 3")
    effect = made(told[:2])
    if not isinstance(effect, get_args(messages.Effect)):
        raise Unreadable("EffectDone: not of an effect")
    return messages.EffectDone(effect, values.decode(str, told[2], "error"))


def made(told: object) -> Any:
    """The effect or decision that a pair of name and fields stands for."""
    if not isinstance(told, list) or len(told) != 2 or not isinstance(told[0], str):
        raise Unreadable("no pair of a name and its fields")
    kind = _EFFECTS.get(told[0]) or _DECIDED.get(told[0])
    if kind is None:
        raise Unreadable(f"{told[0][:40]!r} is no effect and no decision")
    try:
        return values.decode(kind, told[1], told[0])
    except values.Malformed as error:
        raise Unreadable(str(error)) from error
