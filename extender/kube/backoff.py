"""How long to wait before trying again.

Takes: failures and successes. Gives: delays that double up to a ceiling. Must not: sleep, or use
randomness: each watch waits for its own failures, and one API server has few of our watches.
"""


class Backoff:
    """Delays of one caller."""

    def __init__(self, first: float, ceiling: float) -> None:
        self._first = first
        self._ceiling = ceiling
        self._next = first

    def next(self) -> float:
        """The delay after one more failure."""
        delay = self._next
        self._next = min(delay * 2, self._ceiling)
        return min(delay, self._ceiling)

    def reset(self) -> None:
        """Start from the first delay again."""
        self._next = self._first
