"""A model of kube-scheduler's queues (simulated): what is to be tried now, what backs off, and what is put aside.

Takes pods or gangs with their priorities, gives them one by one; must not know why one was put aside.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 1.0, 10.0
#: what fitted nowhere is tried again after so long, whatever happens
FLUSH_SECONDS = 300.0
#: more tries do not make the back-off longer
_MOST_TRIES = 5


class Waiting(Generic[T]):
    """By priority, then by the time at which it came in; back-off counts only while others are active."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._active: list[tuple[int, float, int, T]] = []
        #: by the end of the back-off
        self._backing_off: list[tuple[float, int, int, T]] = []
        #: fitted nowhere: since when, in order of that, and its priority
        self._aside: dict[T, tuple[float, int]] = {}
        self._tries: dict[T, int] = {}

    def add(self, entity: T, priority: int, now: float) -> None:
        """To be tried."""
        heapq.heappush(self._active, (-priority, now, next(self._numbers), entity))

    def pop(self, now: float) -> T | None:
        """What is tried next; None when nothing is to be tried."""
        while self._backing_off and self._backing_off[0][0] <= now:
            _, lower, _, entity = heapq.heappop(self._backing_off)
            self.add(entity, -lower, now)
        if self._active:
            return heapq.heappop(self._active)[3]
        return heapq.heappop(self._backing_off)[3] if self._backing_off else None

    def put_aside(self, entity: T, priority: int, now: float) -> None:
        """It fitted nowhere."""
        self._tries[entity] = min(self._tries.get(entity, 0) + 1, _MOST_TRIES)
        self._aside[entity] = (now, priority)

    def drop(self, entity: T) -> None:
        """It waits no more, or is not to be tried; one that is active is dropped by who pops it."""
        self._aside.pop(entity, None)
        self._tries.pop(entity, None)

    def freed(self, now: float) -> None:
        """Something may fit now: all that was put aside is tried, what backs off still last."""
        aside, self._aside = self._aside, {}
        for entity, (since, priority) in aside.items():
            ends = since + min(FIRST_BACKOFF_SECONDS * 2 ** (self._tries[entity] - 1), LONGEST_BACKOFF_SECONDS)
            if ends <= now:
                self.add(entity, priority, now)
            else:
                heapq.heappush(self._backing_off, (ends, -priority, next(self._numbers), entity))

    def flush(self, now: float) -> None:
        """What was put aside long ago is tried."""
        while self._aside:
            entity, (since, priority) = next(iter(self._aside.items()))
            if now < since + FLUSH_SECONDS:
                return
            del self._aside[entity]
            self.add(entity, priority, now)

    def looks_at(self) -> float | None:
        """When something is tried again though nothing has changed."""
        first = next(iter(self._aside.values()), None)
        return None if first is None else first[0] + FLUSH_SECONDS
