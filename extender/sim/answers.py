"""The sidecar's live answers in the neutral words of the reports: why something waits, and what was refused.

Takes the engine's refusals and texts, gives codes and what they mention; must not judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from extender.core import explain
from extender.core.reasons import Refusal
from extender.sim.vocabulary import CODES
from extender.wire import quantity

#: our reasons whose names are not those of the reports; one that is in neither has no neutral code
NEUTRAL: Mapping[str, str] = {
    "WaitingForMembers": "NotEnoughMembers",
    "TopologyUnsatisfied": "TopologyNoDomain",
    "ReservedForOthers": "ReservedForHead",
}
#: what texts of refused calls and writes say
_SAID: Mapping[str, str] = {"already bound to": "AlreadyBound", "already assigned to": "AlreadyBound"}
_TOKEN = re.compile(r"[^\s,;:()\[\]{}\"'=]+")
_THOUSANDTHS = 1000


@dataclass(frozen=True, slots=True)
class Said:
    """An answer: a code, the sentence, and the parameters beside it."""

    code: str
    sentence: str
    parameters: tuple[tuple[str, str | int], ...] = ()

    def __str__(self) -> str:
        return f"{self.code}: {self.sentence}"


def of_refusal(refusal: Refusal) -> Said:
    """A refusal as an answer."""
    return Said(code_of(refusal.reason.value), explain.sentence(refusal), refusal.detail)


def code_of(reason: str) -> str:
    """The neutral code of one of our reasons; its own name where there is none."""
    return NEUTRAL.get(reason, reason)


def code_of_text(text: str) -> str:
    """The neutral code of an error's text; the text where it says none."""
    return next((code for words, code in _SAID.items() if words in text), text)


def has_code(reason: str) -> bool:
    """True when a reason of ours has a neutral code."""
    return code_of(reason) in CODES


def mentions(said: Said, wanted: str) -> bool:
    """Whether an answer names this word, or this number in whatever unit, as a whole."""
    number = _number(wanted)
    if number is None:
        return any(wanted in (token, token.rstrip(".")) for token in _tokens(said))
    return any(number == value for value in _numbers(said))


def _tokens(said: Said) -> Iterator[str]:
    yield from _TOKEN.findall(said.sentence)
    for _, value in said.parameters:
        yield from _TOKEN.findall(str(value))


def _numbers(said: Said) -> Iterator[Fraction]:
    for token in _tokens(said):
        value = _number(token.rstrip("."))
        if value is not None:
            yield value
    # parameters are in base units: of cpu these are thousandths
    if ("resource", "cpu") in said.parameters:
        yield from (Fraction(value, _THOUSANDTHS) for _, value in said.parameters if isinstance(value, int))


def _number(text: str) -> Fraction | None:
    try:
        return Fraction(quantity.nanos(text), quantity.NANO)
    except quantity.QuantityError:
        return None
