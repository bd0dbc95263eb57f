"""Durations as Go writes them: `1h30m`, `300ms`, `1.5s`.

Takes such a text, gives seconds; takes seconds, gives such a text.
"""

from __future__ import annotations

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]{1,15}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MAX_PARTS = 16
#: a hundred years
MAX_SECONDS = 100 * 365 * 86400.0


def parse_duration(text: str) -> float | None:
    """Seconds of a duration; None when it is none, is negative, or is longer than a hundred years."""
    if text == "0":
        return 0.0
    total, at, parts = 0.0, 0, 0
    while at < len(text) and parts < _MAX_PARTS:
        found = _PART.match(text, at)
        if found is None:
            return None
        total += float(found[1]) * _UNITS[found[2]]
        at, parts = found.end(), parts + 1
    return total if parts and at == len(text) and total <= MAX_SECONDS else None


def format_duration(seconds: float) -> str:
    """A duration in whole seconds: `2h0m5s`, `5s`."""
    whole = max(0, int(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
