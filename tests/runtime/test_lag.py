"""The lag of the event loop: near nothing when it is idle, the length of the blockage when it is not."""

import asyncio
import contextlib
import time

from extender.runtime import lag


async def test_a_blockage_is_told_and_idleness_is_not(monkeypatch):
    monkeypatch.setattr(lag, "PERIOD_SECONDS", 0.02)
    told: asyncio.Queue[float] = asyncio.Queue()
    task = asyncio.create_task(lag.measure(told.put_nowait))
    await told.get()
    time.sleep(0.2)  # noqa: ASYNC251 - to block the loop is the point; the next sleep has just begun
    assert await told.get() >= 0.15
    idle = min([await told.get() for _ in range(5)])
    assert 0 <= idle < 0.15
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
