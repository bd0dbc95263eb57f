"""How far a benchmark is, and how long it will take.

Takes the steps to come and each that is done; prints one line a step to stderr. Must not know what a step does.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence


class Progress:
    """Counts steps; those that are equal are taken to last equally long."""

    def __init__(self, steps: Sequence[Hashable]) -> None:
        self._number = len(steps)
        self._left = Counter(steps)
        self._spent: dict[Hashable, list[float]] = {}
        self._since = time.monotonic()

    def done(self, step: Hashable, text: str) -> None:
        """A step has ended."""
        now = time.monotonic()
        self._spent.setdefault(step, []).append(now - self._since)
        self._since = now
        self._left[step] -= 1
        done = self._number - self._left.total()
        minutes = seconds_left(self._left, self._spent) / 60
        print(f"[{done}/{self._number}, {minutes:.0f} min left] {text}", file=sys.stderr, flush=True)


def seconds_left(left: Mapping[Hashable, int], spent: Mapping[Hashable, Sequence[float]]) -> float:
    """Each step to come lasts as long as the mean of its equals, those not seen yet as the mean of all steps."""
    overall = statistics.fmean([seconds for some in spent.values() for seconds in some])
    return sum(number * (statistics.fmean(spent[step]) if step in spent else overall) for step, number in left.items())
