"""The one task that owns the engine: an inbox of events in, effects out.

Takes events from watches and calls, gives them to the engine one at a time, runs a cycle when the inbox is
drained, and hands effects on; must not do I/O or decide. No lock is needed: nobody else calls the engine.
A cycle over many waiting groups is made in pieces, so that calls are answered and events taken in between.
Each event has a cause id, which its effects bear; what a cycle decides bears that of the event before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from extender.core import messages
from extender.core.engine import Engine

#: groups that the engine looks at before the clock is read; each takes up to some milliseconds, where much runs
TURNS = 1
#: events are handled for so long before a cycle, and so long one piece of it takes
PIECE_SECONDS = 0.003
#: turns that the loop gets then: in these a call is read, handled, and answered
_YIELDS = 4
#: how often time alone may change a decision
TICK_SECONDS = 0.1
#: after a cycle events gather for so many times as long as it took, so that cycles leave time to those who wait for
#: answers and for their watches; who asks gets a cycle at once
GATHERING = 3.0
#: but no longer than this
GATHERING_SECONDS = 0.25


#: told of each event, when the engine has handled it
Record = Callable[[float, messages.EngineEvent, Sequence[messages.Effect]], None]


class Observer(Protocol):
    """Hears of each round of the inbox."""

    def cycle(self, seconds: float) -> None:
        """A cycle took so long, all its pieces together."""


class Owner:
    """Owns the engine. `post` never blocks; the inbox is bounded by what the watches and calls can send."""

    def __init__(
        self,
        engine: Engine,
        carry_out: Callable[[messages.Effect, str], None],
        clock: Callable[[], float],
        wall: Callable[[], float],
        observer: Observer,
        record: Record | None = None,
    ) -> None:
        self._engine = engine
        self._carry_out = carry_out
        self._clock = clock
        self._wall = wall
        self._observer = observer
        self._record = record
        self._inbox: deque[tuple[messages.EngineEvent, asyncio.Future[None] | None]] = deque()
        self._wake = asyncio.Event()
        self._events = 0
        #: seconds that the pieces of the cycle have taken
        self._spent = 0.0
        #: no cycle before this time, unless somebody asks
        self._gathers_until = 0.0
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
            answered = self._take_in()
            if answered or self._engine.unfinished or self._clock() >= self._gathers_until:
                self._piece()
            for done in answered:
                if not done.done():
                    done.set_result(None)
            for _ in range(_YIELDS):
                await asyncio.sleep(0)

    def _take_in(self) -> list[asyncio.Future[None]]:
        """Handle what is in the inbox, for some milliseconds; who asked for it."""
        answered: list[asyncio.Future[None]] = []
        until = self._clock() + PIECE_SECONDS
        while self._inbox:
            event, done = self._inbox.popleft()
            self._events += 1
            self._cause = f"{type(event).__name__}-{self._events}"
            self._handle(event)
            if done is not None:
                answered.append(done)
            if self._clock() >= until:
                return answered
        self._wake.clear()
        return answered

    def _piece(self) -> None:
        """A cycle, or so much of it as may be done at once."""
        started = self._clock()
        self._handle(messages.Tick())
        while self._engine.unfinished and self._clock() < started + PIECE_SECONDS:
            self._handle(messages.Tick())
        self._spent += self._clock() - started
        if not self._engine.unfinished:
            self._observer.cycle(self._spent)
            self._gathers_until = self._clock() + min(GATHERING * self._spent, GATHERING_SECONDS)
            self._spent = 0.0

    async def _wake_or_tick(self) -> None:
        if self._inbox or self._engine.unfinished:
            return
        left = self._gathers_until - self._clock()
        try:
            async with asyncio.timeout(left if 0 < left < TICK_SECONDS else TICK_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return

    def _handle(self, event: messages.EngineEvent) -> None:
        now = self._wall()
        effects = self._engine.handle(event, now)
        for effect in effects:
            self._carry_out(effect, self._cause)
        if self._record is not None:
            self._record(now, event, effects)
