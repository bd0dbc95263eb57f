"""Rows by key that know when each changed, so that a reader is told only what is new to it.

Takes rows with the number of the version that they are of, gives those that changed after a version; must not know
what a row says. Rows are values: one that is equal to the row before it is no change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Key = str | int
Row = tuple[Any, ...]
#: keys that are gone are remembered for so many changes of a table
GONE_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Change:
    """A row as it is now; None: it is gone. `scope` is the namespace whose row it is or was, "" for none."""

    key: Key
    row: Row | None
    scope: str


class Table:
    """Rows of one kind. Invariant: `_changed` has every key of `rows`, in the order of the newest changes."""

    def __init__(self) -> None:
        self.rows: dict[Key, Row] = {}
        #: version and scope of each key's newest change, the oldest first; keys that are gone too
        self._changed: dict[Key, tuple[int, str]] = {}
        self._gone: dict[Key, None] = {}
        #: readers of an older version must begin anew
        self.since_version = 0

    def put(self, key: Key, row: Row, version: int, scope: str = "") -> None:
        """Add a row, or replace it."""
        if self.rows.get(key) != row:
            self.rows[key] = row
            self._gone.pop(key, None)
            self._note(key, version, scope)

    def drop(self, key: Key, version: int) -> None:
        """Take a row away."""
        if self.rows.pop(key, None) is None:
            return
        self._note(key, version, self._changed[key][1])
        self._gone[key] = None
        if len(self._gone) > GONE_KEPT:
            oldest = next(iter(self._gone))
            del self._gone[oldest]
            self.since_version = self._changed.pop(oldest)[0]

    def keep(self, keys: set[Key], version: int) -> None:
        """Take away all rows but these."""
        for key in [key for key in self.rows if key not in keys]:
            self.drop(key, version)

    def since(self, version: int) -> Iterator[Change]:
        """What changed after this version; for 0 every row there is, and nothing that is gone."""
        for key, (at, scope) in reversed(self._changed.items()):
            if at <= version:
                return
            row = self.rows.get(key)
            if row is not None or version:
                yield Change(key, row, scope)

    def _note(self, key: Key, version: int, scope: str) -> None:
        self._changed.pop(key, None)
        self._changed[key] = (version, scope)
