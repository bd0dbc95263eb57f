"""Runs in pairs: their order, and the ratios of what they gave.

Takes two lists of figures whose index i was measured in one round; gives the median ratio with its spread. Must not
measure.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Ratio:
    """One figure over another: median, lowest and highest of the pairs."""

    median: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        return f"{self.median:5.2f} [{self.lowest:.2f} .. {self.highest:.2f}]"

    def as_json(self) -> dict[str, Any]:
        """As the results file has it."""
        return {name: round(value, 3) for name, value in dataclasses.asdict(self).items()}


def in_turn(kinds: Sequence[T], rounds: int) -> list[T]:
    """Each kind once a round; every other round backwards, so that what drifts favours none."""
    return [kind for number in range(rounds) for kind in (kinds[::-1] if number % 2 else kinds)]


def paired(over: Sequence[float], under: Sequence[float]) -> Ratio | None:
    """The ratio of each pair; None without a pair. Rounds that lack one side, or divide by zero, are left out."""
    found = [a / b for a, b in zip(over, under, strict=False) if b]
    return Ratio(statistics.median(found), min(found), max(found)) if found else None
