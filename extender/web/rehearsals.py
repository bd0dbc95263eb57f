"""What if a node is drained, or queues are others: rehearsed on a copy of the process, so that deciding goes on.

Takes the body of a request that was allowed, gives the JSON of an object; must not change anything here. One rehearsal
is made at a time: each costs a processor for a moment, and memory for what it changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import orjson

from extender.core.engine import Engine
from extender.core.ids import NodeName
from extender.core.queue_rehearsal import rehearse
from extender.core.rehearsal import drain
from extender.runtime.aside import Aside
from extender.telemetry import logs
from extender.web.plans import Unanswerable
from extender.wire import rehearsals
from extender.wire.fields import DecodeError

LOG = logs.Log(__name__)
#: so many wait for their turn; who comes then is told to come again
_IN_LINE = 4


class Rehearsals:
    """All rehearsals of a process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def drain(self, content: object, now: float) -> bytes:
        """The JSON of the answer."""
        try:
            node = rehearsals.decode_drain(content)
        except DecodeError as error:
            raise Unanswerable(422, "Invalid", str(error)) from None
        if self._engine.world.node(node) is None:
            raise Unanswerable(404, "NotFound", f'nodes "{node}" not found')
        return await self._aside(lambda: _drained(self._engine, node, now))

    async def queues(self, content: object, now: float) -> bytes:
        """The same for queues."""
        try:
            queues = rehearsals.decode_queues(content)
        except DecodeError as error:
            raise Unanswerable(422, "Invalid", str(error)) from None
        known = rehearsals.in_place(queues, self._engine.world.queues.values())
        return await self._aside(lambda: orjson.dumps(rehearsals.encode_outcome(rehearse(self._engine, known, now))))

    async def _aside(self, make: Callable[[], bytes]) -> bytes:
        if self._waiting >= _IN_LINE:
            raise Unanswerable(429, "TooManyRequests", "others have asked the same kind of question: ask again soon")
        self._waiting += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(Aside(make).result)
        except OSError as error:
            LOG.error("a rehearsal failed", fault=error)
            raise Unanswerable(500, "InternalError", "the rehearsal failed; the extender's log says more") from error
        finally:
            self._waiting -= 1


def _drained(engine: Engine, node: NodeName, now: float) -> bytes:
    found = drain(engine, node, now)
    assert found is not None
    return orjson.dumps(rehearsals.encode_drained(found))
