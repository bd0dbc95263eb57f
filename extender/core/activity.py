"""Whether this replica acts: it does while our own kube-scheduler holds and renews the scheduler's lease.

Takes the lease as it is seen and the time, gives yes or no; must not look at the lease's own times, which
are of another machine's clock. Both processes decide by this one rule.
"""

from __future__ import annotations

from dataclasses import dataclass

#: activity ends so long after the last renewal was seen: before another replica may take the lease (15 s)
ACTIVE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Lease:
    """The scheduler's leader election record. `renewals` changes at each renewal."""

    holder: str
    renewed: str
    duration: float = 15.0


class Activity:
    """What this replica knows of the lease. `_renewed_at` is when its newest record was first seen."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._lease: Lease | None = None
        self._renewed_at = float("-inf")

    def seen(self, lease: Lease | None, now: float) -> None:
        """Take in the lease as a watch or a live read shows it; None when there is none."""
        before = self._lease
        if lease is None:
            self._renewed_at = float("-inf")
        elif before is None or (before.holder, before.renewed) != (lease.holder, lease.renewed):
            self._renewed_at = now
        self._lease = lease

    def active(self, now: float) -> bool:
        """True when the holder is our kube-scheduler and its last renewal is recent."""
        if self._lease is None or now - self._renewed_at >= ACTIVE_SECONDS:
            return False
        host, mark, _ = self._lease.holder.rpartition("_")
        return bool(mark) and host == self._host
