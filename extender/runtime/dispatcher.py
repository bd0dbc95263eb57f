"""Carries effects out, some at once, those on one object in the order in which they were decided.

Takes effects, gives each to a writer, and its outcome back as an event; must not know what a write is.
What fails for the moment is tried again with a growing delay; what fails for good comes back with an error.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable

from extender.core import messages
from extender.telemetry import logs

LOG = logs.Log(__name__)
Write = Callable[[messages.Effect], Awaitable[None]]

LANES = 32
TRIES = 6
FIRST_DELAY, LONGEST_DELAY = 0.05, 2.0


class Transient(Exception):
    """The write may succeed when tried again, after `retry_after` seconds if the other side said so."""

    def __init__(self, text: str, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class Final(Exception):
    """The write cannot succeed."""


class Dispatcher:
    """Lanes of effects. Effects of one object share a lane, and a lane does one thing at a time."""

    def __init__(self, write: Write, report: Callable[[messages.EffectDone], None]) -> None:
        self._write = write
        self._report = report
        self._lanes: list[asyncio.Queue[tuple[messages.Effect, str]]] = [asyncio.Queue() for _ in range(LANES)]

    def put(self, effect: messages.Effect, cause: str) -> None:
        """Queue an effect; never blocks."""
        self._lanes[zlib.crc32(subject(effect).encode()) % LANES].put_nowait((effect, cause))

    async def run(self) -> None:
        """Serve all lanes for ever."""
        async with asyncio.TaskGroup() as group:
            for number, lane in enumerate(self._lanes):
                group.create_task(self._serve(lane), name=f"lane-{number}")

    async def _serve(self, lane: asyncio.Queue[tuple[messages.Effect, str]]) -> None:
        while True:
            effect, cause = await lane.get()
            with logs.caused(cause):
                error = await self._carry_out(effect)
                kind, of = type(effect).__name__, subject(effect)
                if error:
                    LOG.warning("an effect could not be carried out", effect=kind, of=of, error=error)
                else:
                    LOG.debug("effect", effect=kind, of=of)
            self._report(messages.EffectDone(effect, error))

    async def _carry_out(self, effect: messages.Effect) -> str:
        delay, text = FIRST_DELAY, ""
        for _ in range(TRIES):
            try:
                await self._write(effect)
            except Final as error:
                return str(error)
            except Transient as error:
                text = str(error)
                await asyncio.sleep(max(delay, min(error.retry_after, LONGEST_DELAY)))
                delay = min(2 * delay, LONGEST_DELAY)
            else:
                return ""
        return text


def subject(effect: messages.Effect) -> str:
    """What an effect is about: effects of one subject are carried out in their order."""
    match effect:
        case messages.Ungate() | messages.Nominate() | messages.Wake() | messages.Evict():
            return effect.uid
        case messages.Suspend():
            return effect.switch.uid
        case messages.StateGroup() | messages.NoteEviction():
            return str(effect.key)
        case messages.StateQueue():
            return effect.name
    return type(effect).__name__
