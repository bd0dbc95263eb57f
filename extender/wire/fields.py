"""Reading fields of decoded JSON without trusting their types.

Takes decoded JSON, gives typed values, and notes what was wrong with the path and the value; must not
raise for a bad field: only an object without an identity is refused, with DecodeError.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

Object = Mapping[str, Any]

_EMPTY: Object = {}
#: an object with more faults than this is not better explained by naming all
_MAX_PROBLEMS = 8
_MAX_TEXT = 200
_MAX_INT = 2**63 - 1


class DecodeError(ValueError):
    """An object that cannot be told from others: it has no name or no uid, or is no object."""


class Reader:
    """Reads fields and collects problems, in words that name the field and the value."""

    __slots__ = ("problems",)

    def __init__(self) -> None:
        self.problems: list[str] = []

    def note(self, path: str, value: object, want: str) -> None:
        """Note that the field at `path` is not what it should be."""
        self.say(path, f"{reprlib.repr(value)} is not {want}")

    def say(self, path: str, what: str) -> None:
        """Note a problem in words of its own."""
        self.take(f"{path}: {what}"[:_MAX_TEXT])

    def take(self, text: str) -> None:
        """Note a problem that was found before, once and within the bound."""
        if len(self.problems) < _MAX_PROBLEMS and text not in self.problems:
            self.problems.append(text)

    def mapping(self, parent: Object, key: str, path: str) -> Object:
        """The object in a field; empty when absent, null or of another type."""
        found = parent.get(key)
        if found.__class__ is dict:
            return found
        if found is not None:
            self.note(path, found, "an object")
        return _EMPTY

    def objects(self, parent: Object, key: str, path: str) -> list[Object]:
        """The objects in a list; what is not an object is noted and left out."""
        found = parent.get(key)
        if found is None:
            return []
        if found.__class__ is not list:
            self.note(path, found, "a list")
            return []
        for item in found:
            if item.__class__ is not dict:
                self.note(path, item, "an object")
                return [item for item in found if item.__class__ is dict]
        return found

    def text(self, parent: Object, key: str, path: str) -> str:
        """The text of a field; empty when absent, null or of another type."""
        found = parent.get(key)
        if found.__class__ is str:
            return found
        if found is not None:
            self.note(path, found, "a text")
        return ""

    def texts(self, parent: Object, key: str, path: str) -> tuple[str, ...]:
        """The texts in a list; what is not a text is noted and left out."""
        found = parent.get(key)
        if found is None:
            return ()
        if found.__class__ is not list:
            self.note(path, found, "a list")
            return ()
        kept = tuple(item for item in found if item.__class__ is str)
        if len(kept) != len(found):
            self.note(path, found, "a list of texts")
        return kept

    def integer(self, parent: Object, key: str, path: str, low: int = -_MAX_INT, high: int = _MAX_INT) -> int | None:
        """The integer of a field within bounds, else None."""
        found = parent.get(key)
        if found is None:
            return None
        if found.__class__ is int and low <= found <= high:
            return found
        self.note(path, found, _whole(low, high))
        return None

    def flag(self, parent: Object, key: str, path: str) -> bool | None:
        """The boolean of a field, else None."""
        found = parent.get(key)
        if found is None or found.__class__ is bool:
            return found
        self.note(path, found, "true or false")
        return None

    def time(self, parent: Object, key: str, path: str) -> float | None:
        """Seconds since the epoch of an RFC 3339 time, else None."""
        found = parent.get(key)
        if found is None:
            return None
        if found.__class__ is str:
            seconds = seconds_of(found)
            if seconds is not None:
                return seconds
        self.note(path, found, "an RFC 3339 time")
        return None


def api_group(version: str) -> str:
    """The API group of an `apiVersion`: "" for the core's."""
    group, slash, _ = version.rpartition("/")
    return group if slash else ""


def _whole(low: int, high: int) -> str:
    if (low, high) == (-_MAX_INT, _MAX_INT):
        return "an integer"
    return f"an integer from {low} to {high}"


@lru_cache(maxsize=4096)
def seconds_of(text: str) -> float | None:
    """Seconds since the epoch of an RFC 3339 time; None when it is no such time or names no zone."""
    try:
        time = datetime.fromisoformat(text)
        return time.timestamp() if time.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def metadata(obj: object, *wanted: str) -> Object:
    """An object's metadata, in which the wanted fields are texts that are not empty."""
    if not isinstance(obj, dict):
        raise DecodeError("not an object")
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        raise DecodeError("no metadata")
    for name in wanted:
        found = meta.get(name)
        if not isinstance(found, str) or not found:
            raise DecodeError(f"metadata.{name} is missing")
    return meta
