"""How late the event loop is: what every call pays on top of its own work.

Takes: where to tell. Gives: one figure each period, for ever. Must not: end.
"""

import asyncio
from collections.abc import Callable

PERIOD_SECONDS = 0.25


async def measure(tell: Callable[[float], None]) -> None:
    """Sleep for a period again and again, and tell by how much each sleep was too long."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + PERIOD_SECONDS
        await asyncio.sleep(PERIOD_SECONDS)
        tell(max(0.0, loop.time() - due))
