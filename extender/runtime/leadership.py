"""Whether this replica acts, kept up to date from the lease's watch and from live reads.

Takes leases and a way to read one, gives yes or no and tells of changes; must not know Kubernetes. The rule
itself is core.activity.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from extender.core.activity import Activity, Lease

#: activity is looked at again so often: it ends by time alone
CHECK_SECONDS = 0.5


class Leadership:
    """The activity of this replica. A call that comes while inactive costs one live read for all callers."""

    def __init__(
        self,
        activity: Activity,
        read: Callable[[], Awaitable[Lease | None]],
        clock: Callable[[], float],
        changed: Callable[[bool], None],
    ) -> None:
        self._activity = activity
        self._read = read
        self._clock = clock
        self._changed = changed
        self._reading: asyncio.Task[None] | None = None
        self.active = False

    def seen(self, lease: Lease | None) -> None:
        """Take in the lease as the watch shows it."""
        self._activity.seen(lease, self._clock())
        self._look()

    async def confirm(self) -> bool:
        """Whether this replica acts; asks the API server when it seems not to."""
        self._look()
        if not self.active:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read_now(), name="lease-read")
            await asyncio.shield(self._reading)
        return self.active

    async def watch_the_clock(self) -> None:
        """Notice for ever when activity ends because nobody renewed the lease."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self._look()

    async def _read_now(self) -> None:
        self.seen(await self._read())

    def _look(self) -> None:
        active = self._activity.active(self._clock())
        if active != self.active:
            self.active = active
            self._changed(active)
