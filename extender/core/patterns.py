"""Regular expressions that others wrote, matched against names in bounded time whatever they say.

Takes the text of a pattern in Go's syntax (RE2, as Volcano's HyperNodes have it), gives a test of names; must not use
an engine that backtracks: `(a+)+$` would stop it. Refuses with PatternError what is malformed, what RE2 has and names
have no use for (flags, Unicode classes, word borders), and what is larger than the bounds here.

A match is followed as the set of positions at which it may stand, held as the bits of one integer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MAX_LENGTH = 512
#: as in RE2, also for counts inside counts
MAX_COUNT = 1000
_MAX_DEPTH = 16
_CLASSES = {"d": "0123456789", "w": "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_", "s": "\t\n\f\r "}
_SPECIAL = frozenset("\\.+*?()|[]{}^$")


class PatternError(ValueError):
    """The pattern cannot be used; the text says why."""


@dataclass(slots=True)
class _Name:
    """A name that is matched: for each set of characters the positions at which one of it stands."""

    text: str
    at: dict[frozenset[str] | None, int]

    def mask(self, chars: frozenset[str] | None, negated: bool) -> int:
        """None stands for any character."""
        found = self.at.get(chars)
        if found is None:
            found = sum(1 << n for n, char in enumerate(self.text) if chars is None or char in chars)
            self.at[chars] = found
        return found ^ ((1 << len(self.text)) - 1) if negated else found


#: from positions before to positions after
_Step = Callable[[_Name, int], int]


class Pattern:
    """A pattern that was read. It matches a name when it matches anywhere in it, unless it is anchored."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise PatternError(f"longer than {MAX_LENGTH} characters")
        self.text = text
        parser = _Parser(text)
        self._step = parser.whole()
        #: what every name begins with, or has in it, that matches: most are told apart by that
        self._begins = text.startswith("^")
        self._plain = "" if parser.several else _plain_part(text.removeprefix("^"))

    def __reduce__(self) -> tuple[type[Pattern], tuple[str]]:
        """Kept as its text: steps are functions."""
        return Pattern, (self.text,)

    def matches(self, name: str) -> bool:
        """True when the pattern matches somewhere in the name."""
        if not (name.startswith(self._plain) if self._begins else self._plain in name):
            return False
        return self._step(_Name(name, {}), (2 << len(name)) - 1) != 0


def _plain_part(text: str) -> str:
    """The characters with which a pattern begins that stand for themselves."""
    end = next((n for n, char in enumerate(text) if char in _SPECIAL), len(text))
    if text[end : end + 1] in ("*", "?", "{"):  # the last one may be absent
        end = max(0, end - 1)
    return text[:end]


class _Parser:
    """Reads a pattern by descent; each part becomes a step."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        #: whether the whole pattern is one of several
        self.several = False

    def whole(self) -> _Step:
        step, _ = self._either()
        if self._at < len(self._text):
            raise PatternError("a parenthesis is closed that was not opened")
        return step

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        char = self._peek()
        if not char:
            raise PatternError("it ends too early")
        self._at += 1
        return char

    def _either(self) -> tuple[_Step, int]:
        """Alternatives, and how often the largest count in them repeats."""
        parts = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            parts.append(self._sequence())
        if len(parts) == 1:
            return parts[0]
        steps = [step for step, _ in parts]
        self.several |= not self._depth

        def either(name: _Name, before: int) -> int:
            after = 0
            for step in steps:
                after |= step(name, before)
            return after

        return either, max(count for _, count in parts)

    def _sequence(self) -> tuple[_Step, int]:
        steps, largest = [], 1
        while self._peek() not in ("", "|", ")"):
            step, count = self._repeated()
            steps.append(step)
            largest = max(largest, count)

        def one_by_one(name: _Name, at: int) -> int:
            for step in steps:
                at = step(name, at) if at else 0
            return at

        return one_by_one, largest

    def _repeated(self) -> tuple[_Step, int]:
        step, inside = self._one()
        times = self._times()
        if times is None:
            return step, inside
        if self._peek() == "?":  # lazy: the same names match
            self._at += 1
        if self._peek() in ("*", "+", "?"):
            raise PatternError("a repetition of a repetition")
        least, most = times
        count = inside * max(1, least, most or 0)
        if count > MAX_COUNT:
            raise PatternError(f"repeats more than {MAX_COUNT} times")
        return _repeat(step, least, most), count

    def _times(self) -> tuple[int, int | None] | None:
        """How often at least and at most (None: any number) what stands before is repeated; None: once."""
        known: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        found = known.get(self._peek())
        if found is not None:
            self._at += 1
            return found
        return self._counted() if self._peek() == "{" else None

    def _counted(self) -> tuple[int, int | None]:
        end = self._text.find("}", self._at)
        low, comma, high = self._text[self._at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not _number(low) or (high and not _number(high)):
            raise PatternError("a brace without a count")
        self._at = end + 1
        least = int(low)
        most = (int(high) if high else None) if comma else least
        if max(least, most or 0) > MAX_COUNT or (most is not None and most < least):
            raise PatternError(f"a count that is not from 0 to {MAX_COUNT}")
        return least, most

    def _one(self) -> tuple[_Step, int]:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "^":
            return (lambda _, before: before & 1), 1
        if char == "$":
            return (lambda name, before: before & (1 << len(name.text))), 1
        if char in "*+?{":
            raise PatternError(f"{char!r} repeats nothing")
        if char == ".":
            return _any_of(None, False), 1
        if char == "[":
            return self._class(), 1
        if char == "\\":
            return self._escape(), 1
        return _any_of(frozenset(char), False), 1

    def _group(self) -> tuple[_Step, int]:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise PatternError(f"more than {_MAX_DEPTH} parentheses in each other")
        if self._peek() == "?":
            self._at += 1
            if self._next() != ":":
                raise PatternError("flags, names and conditions of groups are not known here")
        found = self._either()
        if self._peek() != ")":
            raise PatternError("a parenthesis is not closed")
        self._at += 1
        self._depth -= 1
        return found

    def _escape(self) -> _Step:
        char = self._next()
        if char.lower() in _CLASSES:
            return _any_of(frozenset(_CLASSES[char.lower()]), char.isupper())
        if char == "A":
            return lambda _, before: before & 1
        if char == "z":
            return lambda name, before: before & (1 << len(name.text))
        return _any_of(frozenset(_plain(char)), False)

    def _class(self) -> _Step:
        negated = self._peek() == "^"
        self._at += negated
        chars: set[str] = set()
        first = True
        while first or self._peek() != "]":
            first = False
            chars |= self._members()
        self._at += 1
        return _any_of(frozenset(chars), negated)

    def _members(self) -> set[str]:
        """One character of a class, or a range of them."""
        low = self._next()
        if low == "[" and self._peek() == ":":
            raise PatternError("named classes are not known here")
        if low == "\\":
            char = self._next()
            if char in _CLASSES:
                return set(_CLASSES[char])
            low = _plain(char)
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("]", ""):
            return {low}
        self._at += 1
        high = self._next()
        high = _plain(self._next()) if high == "\\" else high
        if high < low or ord(high) > 127:
            raise PatternError(f"the range {low}-{high}")
        return {chr(code) for code in range(ord(low), ord(high) + 1)}


def _plain(char: str) -> str:
    """The character that stands escaped for itself."""
    if char.isalnum() or not char.isascii():
        raise PatternError(f"\\{char} is not known here")
    return char


def _number(text: str) -> bool:
    return 0 < len(text) <= 4 and text.isascii() and text.isdigit()


def _any_of(chars: frozenset[str] | None, negated: bool) -> _Step:
    return lambda name, before: (before & name.mask(chars, negated)) << 1


def _repeat(step: _Step, least: int, most: int | None) -> _Step:
    def repeat(name: _Name, at: int) -> int:
        for _ in range(least):
            at = step(name, at) if at else 0
        found, left = at, most
        while at and (left is None or left > least):
            at = step(name, at) & ~found
            found |= at
            left = None if left is None else left - 1
        return found

    return repeat
