"""The one task that owns the engine: an inbox of events in, effects out.

Takes events from watches and calls, gives them to the engine one at a time, runs a cycle when the inbox is
drained, and hands effects on; must not do I/O or decide. No lock is needed: nobody else calls the engine.
Each event has a cause id, which its effects bear; what a cycle decides bears that of the event before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from extender.core import messages
from extender.core.engine import Engine

#: events handled before the loop gets a turn: some milliseconds
_TURN = 100
#: how often time alone may change a decision
TICK_SECONDS = 0.1


class Observer(Protocol):
    """Hears of each round of the inbox."""

    def cycle(self, seconds: float) -> None:
        """A cycle took so long."""


class Owner:
    """Owns the engine. `post` never blocks; the inbox is bounded by what the watches and calls can send."""

    def __init__(
        self,
        engine: Engine,
        carry_out: Callable[[messages.Effect, str], None],
        clock: Callable[[], float],
        wall: Callable[[], float],
        observer: Observer,
    ) -> None:
        self._engine = engine
        self._carry_out = carry_out
        self._clock = clock
        self._wall = wall
        self._observer = observer
        self._inbox: deque[tuple[messages.EngineEvent, asyncio.Future[None] | None]] = deque()
        self._wake = asyncio.Event()
        self._events = 0
        self._cause = "start"

    def post(self, event: messages.EngineEvent) -> None:
        """Put an event into the inbox."""
        self._inbox.append((event, None))
        self._wake.set()

    async def ask(self, event: messages.EngineEvent) -> None:
        """Put an event into the inbox and wait until it was handled and a cycle was run."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inbox.append((event, done))
        self._wake.set()
        await done

    async def run(self) -> None:
        """Serve the inbox for ever."""
        while True:
            await self._wake_or_tick()
            answered: list[asyncio.Future[None]] = []
            for _ in range(_TURN):
                if not self._inbox:
                    self._wake.clear()
                    break
                event, done = self._inbox.popleft()
                self._events += 1
                self._cause = f"{type(event).__name__}-{self._events}"
                self._handle(event)
                if done is not None:
                    answered.append(done)
            started = self._clock()
            self._handle(messages.Tick())
            self._observer.cycle(self._clock() - started)
            for done in answered:
                if not done.done():
                    done.set_result(None)
            await asyncio.sleep(0)

    async def _wake_or_tick(self) -> None:
        if self._inbox:
            return
        try:
            async with asyncio.timeout(TICK_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return

    def _handle(self, event: messages.EngineEvent) -> None:
        for effect in self._engine.handle(event, self._wall()):
            self._carry_out(effect, self._cause)
