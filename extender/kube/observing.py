"""What this package tells about itself.

Takes: nothing. Gives: the Protocol that the composition root fills with metrics. Must not: know any metrics
library. Every `resource` and `reason` is of a bounded set, fit for a label; names of objects are for logs
only.
"""

from typing import Protocol


class Observer(Protocol):
    """Hears of each call and each watch; its methods must be quick and must not raise."""

    def request_done(self, verb: str, resource: str, status: str, seconds: float) -> None:
        """One call ended; `status` is the HTTP status or the kind of the failure."""

    def watch_event(self, resource: str, lag_seconds: float) -> None:
        """One event is handed on, so long after its bytes were taken from the connection."""

    def watch_restarted(self, resource: str, reason: str) -> None:
        """A list or watch ended; `reason` is `closed` or `silent` for an orderly end, else a failure's kind."""

    def object_set_aside(self, resource: str, name: str, error: Exception) -> None:
        """One object could not be used; everything else goes on."""


class Silent:
    """The observer for tools that keep no metrics."""

    def request_done(self, verb: str, resource: str, status: str, seconds: float) -> None:
        """Say nothing."""

    def watch_event(self, resource: str, lag_seconds: float) -> None:
        """Say nothing."""

    def watch_restarted(self, resource: str, reason: str) -> None:
        """Say nothing."""

    def object_set_aside(self, resource: str, name: str, error: Exception) -> None:
        """Say nothing."""
