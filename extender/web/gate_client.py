"""The extender's two calls to the permit gate: read the held calls, and withdraw some.

Takes the gate's base URL, gives values; must not decide. The gate may be away: it is asked again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import aiohttp

from extender.core import messages
from extender.core.ids import PodUid
from extender.runtime.dispatcher import Transient
from extender.wire import records
from extender.wire.extender_v1 import WireError

#: the gate answers at the latest after this time, changed or not
WAIT_SECONDS = 20
#: two answers are at least so far apart, as a gang of a thousand changes the list a thousand times; but for
#: one that we caused ourselves
PACE_SECONDS = 0.5
RETRY_SECONDS = 0.5
_FAILURES = (aiohttp.ClientError, TimeoutError, WireError)


class GateClient:
    """Calls to the permit gate over one session."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session = session
        self._base = base.rstrip("/")
        self._withdrew = asyncio.Event()

    async def follow_holds(self, seen: Callable[[messages.HoldsSeen], None]) -> None:
        """Tell of the held calls, now and at each change, for ever; none are held while the gate is away."""
        sequence = -1
        while True:
            try:
                answer = await self._holds(sequence)
            except _FAILURES:
                if sequence >= 0:
                    seen(messages.HoldsSeen(()))
                sequence = -1
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if answer.sequence != sequence:
                seen(messages.HoldsSeen(answer.holds))
                sequence = answer.sequence
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PACE_SECONDS):
                    await self._withdrew.wait()
            self._withdrew.clear()

    async def withdraw(self, uids: tuple[PodUid, ...]) -> None:
        """Have the gate answer these held calls with an error."""
        body = records.encode_withdrawal(records.Withdrawal(uids, "the group's plan was revoked"))
        try:
            async with self._session.post(f"{self._base}/withdraw", data=body) as response:
                records.decode_withdrawn(await response.read())
                self._withdrew.set()
        except _FAILURES as error:
            raise Transient(f"permit gate: {type(error).__name__}") from error

    async def _holds(self, sequence: int) -> records.HoldsAnswer:
        query = {"after": str(sequence), "wait": str(WAIT_SECONDS)} if sequence >= 0 else {}
        limit = aiohttp.ClientTimeout(total=WAIT_SECONDS + 5)
        async with self._session.get(f"{self._base}/holds", params=query, timeout=limit) as response:
            response.raise_for_status()
            return records.decode_holds(await response.read())
