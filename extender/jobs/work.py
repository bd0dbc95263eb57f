"""Keys that wait to be worked on: each in one hand at most, a bounded number at a time.

Takes keys and when they are due, and a coroutine function that works on one; calls it again later when it says so, and
with growing delays when it fails. Must not know what a key is, or keep anything of a key that was done with.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable

from extender.telemetry import logs

LOG = logs.Log(__name__)
FIRST_DELAY, LONGEST_DELAY = 0.1, 60.0

Key = tuple[str, str]


class Again(Exception):
    """The key could not be worked on; it is tried again after its back-off."""


class Queue:
    """`work` gives the seconds after which the key is to be looked at again, or None."""

    def __init__(self, work: Callable[[Key], Awaitable[float | None]], clock: Callable[[], float]) -> None:
        self._work = work
        self._clock = clock
        #: what waits; entries of the heap that say something else are left-overs
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._order = itertools.count()
        self._busy: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        """Keys that are due or being worked on, those for later left out."""
        now = self._clock()
        return len(self._busy) + sum(due <= now and key not in self._busy for key, due in self._due.items())

    def add(self, key: Key, delay: float = 0.0) -> None:
        """Have the key worked on after so many seconds, or sooner if that was asked for before."""
        due = self._clock() + delay
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            self._push(key)

    async def run(self, workers: int) -> None:
        """Work for ever."""
        room = asyncio.Semaphore(workers)
        async with asyncio.TaskGroup() as group:
            while True:
                await room.acquire()
                key = await self._next()
                self._busy.add(key)
                group.create_task(self._handle(key)).add_done_callback(lambda _: room.release())

    async def _next(self) -> Key:
        """The first key that is due and in nobody's hand."""
        while True:
            self._changed.clear()
            wait = None
            while self._heap:
                due, _, key = self._heap[0]
                if self._due.get(key) != due or key in self._busy:  # pushed again when its hand is free
                    heapq.heappop(self._heap)
                    continue
                wait = due - self._clock()
                break
            if wait is not None and wait <= 0:
                key = heapq.heappop(self._heap)[2]
                del self._due[key]
                return key
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _handle(self, key: Key) -> None:
        try:
            again = await self._work(key)
        except Again as error:
            self._failed(key)
            LOG.debug("a Job is tried again", key="/".join(key), error=error)
        except Exception as error:  # a fault of ours over one object stops no other
            self._failed(key)
            LOG.error("a Job could not be worked on", fault=error, key="/".join(key))
        else:
            self._failures.pop(key, None)
            if again is not None:
                self.add(key, again)
        finally:
            self._busy.discard(key)
            if key in self._due:
                self._push(key)

    def _failed(self, key: Key) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.add(key, min(FIRST_DELAY * 2 ** min(failures - 1, 16), LONGEST_DELAY))

    def _push(self, key: Key) -> None:
        heapq.heappush(self._heap, (self._due[key], next(self._order), key))
        self._changed.set()
