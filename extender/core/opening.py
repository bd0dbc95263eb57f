"""The list of open queues as it should stand in the ConfigMap: when to write it, and what.

Takes what is wanted and what the watch shows, gives the write or None; must not know why a queue is open.
Closing is immediate: strays are on their way. Opening may wait, so that a queue does not flap.
"""

from __future__ import annotations

from collections.abc import Callable

from extender.core.ids import QueueName
from extender.core.messages import SetOpenQueues

#: queues are opened at most so often
REOPEN_SECONDS = 1.0
#: a round over all that waits is waited for so long, before queues are closed of which it has found that they must be
ROUND_SECONDS = 0.2
#: a failed write is tried again after this time
RETRY_SECONDS = 1.0


class OpenList:
    """What was last asked for and last seen; None is a ConfigMap that is missing."""

    def __init__(self) -> None:
        self._seen: frozenset[QueueName] | None = None
        #: written, but not seen yet
        self._asked: frozenset[QueueName] | None = None
        self._written_at = float("-inf")
        self._not_before = float("-inf")

    def seen(self, names: frozenset[QueueName] | None) -> None:
        """The list as it stands."""
        self._seen, self._asked = names, None

    def failed(self, now: float) -> None:
        """The newest write did not succeed."""
        self._asked, self._not_before = None, now + RETRY_SECONDS

    def restart(self) -> None:
        """Nothing of ours is under way any more."""
        self._asked, self._not_before = None, float("-inf")

    def waits(self, begun: float, now: float) -> bool:
        """True while a round that began then, and is not over, may still be waited for."""
        return now < max(begun, self._written_at) + ROUND_SECONDS

    def close(self, closed: Callable[[QueueName], bool], now: float) -> SetOpenQueues | None:
        """The write that is due before all groups were looked at: what is open may only be known then."""
        have = self._asked if self._asked is not None else self._seen
        return None if have is None else self.write(frozenset(name for name in have if not closed(name)), now)

    def write(self, wanted: frozenset[QueueName], now: float) -> SetOpenQueues | None:
        """The write that is due now."""
        have = self._asked if self._asked is not None else self._seen
        if wanted == have or now < self._not_before:
            return None
        if have is not None and wanted > have and now < self._written_at + REOPEN_SECONDS:
            return None
        self._written_at, self._asked = now, wanted
        return SetOpenQueues(wanted)
