"""Which process a record means: its id and when it started, so that an id used anew is never taken for it.

Takes process ids; gives start times and answers. Must not end anything.
"""

from __future__ import annotations

import pathlib
from typing import Any


def same_process(entry: dict[str, Any]) -> bool:
    """Whether the recorded process still runs."""
    return bool(entry["start"]) and start_time(entry["pid"]) == entry["start"]


def start_time(pid: int) -> str:
    """When a process started, in clock ticks since boot; empty when there is none (or only its remains)."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in "ZX" else fields[19]
