"""What is due when: the virtual clock.

Takes actions with their times and phases, gives them back in order; must not know what they do.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import IntEnum

Action = Callable[[], object]


class Phase(IntEnum):
    """The order of what is due at one instant."""

    ENDS = 0  # a runtime, a grace, an `until`
    LATE = 1  # deliveries and answers that were delayed
    EVENTS = 2
    GROUPS = 3
    PODS = 4
    OWNERS = 5  # replacements
    WAKE = 6  # nothing but a reason to look: deadlines, and the moments of checks


class Agenda:
    """Actions by time. `now` never goes back."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, Phase, int, Action]] = []
        self._number = 0

    def at(self, time: float, phase: Phase, action: Action) -> None:
        """Do this then; a time that has passed means now."""
        self._number += 1
        heapq.heappush(self._due, (max(time, self.now), phase, self._number, action))

    def wake(self, time: float) -> None:
        """Make an instant of this time."""
        self.at(time, Phase.WAKE, _nothing)

    def next(self) -> float | None:
        """The next instant at which something is due."""
        return self._due[0][0] if self._due else None

    def advance(self, time: float) -> None:
        """Go on to a time at which nothing is due before."""
        self.now = max(self.now, time)

    def run(self, time: float) -> None:
        """Go to this instant and do what is due."""
        self.now = time
        while self._due and self._due[0][0] <= time:
            heapq.heappop(self._due)[3]()


def _nothing() -> None:
    return None
