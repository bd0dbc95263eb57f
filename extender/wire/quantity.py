"""Kubernetes quantities as exact integers.

Takes the text of a quantity (or a JSON integer), gives nano units, and from them base units rounded up
as Kubernetes rounds; must not use floats. Sums are made in nano units and rounded once, because
Kubernetes adds the unrounded quantities of the containers and rounds their sum.
"""

from __future__ import annotations

import re
from functools import lru_cache

from extender.core.resources import CPU, MAX_AMOUNT

NANO = 10**9
_NANOS_OF_MILLI = 10**6
_MAX_NANOS = MAX_AMOUNT * NANO
#: longer texts are refused unread: canonical quantities are far shorter
_MAX_TEXT = 64
#: beyond this an exponent makes any amount huge, or one nano unit
_MAX_EXPONENT = 400

_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+))?",
    re.ASCII,
)
_TEN = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWO = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class QuantityError(ValueError):
    """A quantity that is malformed, negative or too large; the message names its text."""


def nanos(value: object) -> int:
    """Nano units of a quantity as it stands in JSON; null is nothing, as in Kubernetes."""
    if value.__class__ is str:
        return _nanos_of_text(value)
    if value is None:
        return 0
    if value.__class__ is int:
        return _nanos_of_text(str(value))
    raise QuantityError(f"{str(value)[:_MAX_TEXT]!r} is not a quantity")


def units(name: str, amount: int, most: int = MAX_AMOUNT) -> int:
    """Base units of a resource (millicores of cpu) for an amount in nano units, rounded up, and at most so many."""
    result = -(-amount // (_NANOS_OF_MILLI if name == CPU else NANO))
    if result > most:
        raise QuantityError(f"{result} is too large an amount")
    return result


@lru_cache(maxsize=8192)
def _nanos_of_text(text: str) -> int:
    form = _FORM.fullmatch(text) if 0 < len(text) <= _MAX_TEXT else None
    if form is None:
        raise QuantityError(f"{text[:_MAX_TEXT]!r} is not a quantity")
    part = form["part"] or ""
    digits = int((form["whole"] + part) or "0")
    result = _scaled(digits, _exponent(form) - len(part) + 9, _TWO.get(form["suffix"], 0))
    if result and form["sign"] == "-":
        raise QuantityError(f"{text!r} is negative")
    if result > _MAX_NANOS:
        raise QuantityError(f"{text!r} is too large an amount")
    return result


def _exponent(form: re.Match[str]) -> int:
    exponent = int(form["exponent"] or _TEN.get(form["suffix"], 0))
    return max(-_MAX_EXPONENT, min(_MAX_EXPONENT, exponent))


def _scaled(digits: int, ten: int, two: int) -> int:
    """digits * 10**ten * 2**two, rounded up: what is not nothing is at least one nano unit."""
    power: int = 10 ** abs(ten)
    digits <<= two
    return digits * power if ten >= 0 else -(-digits // power)
