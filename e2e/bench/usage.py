"""What processes of this machine have used, from /proc.

Takes process ids; gives CPU seconds and the high-water mark of resident memory. Must not know what the processes are.
"""

from __future__ import annotations

import os
import pathlib
import re

_HIGH_WATER = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads since it was started, in seconds."""
    return stat_seconds(_read(pid, "stat"), os.sysconf("SC_CLK_TCK"))


def high_water_mib(pid: int) -> float:
    """The most memory that it ever had resident, in MiB."""
    return status_high_water_mib(_read(pid, "status"))


def stat_seconds(text: str, ticks: int) -> float:
    """utime and stime of a /proc/<pid>/stat; the program's name in it may hold spaces and brackets."""
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / ticks


def status_high_water_mib(text: str) -> float:
    """VmHWM of a /proc/<pid>/status. ValueError when there is none: the process has ended."""
    found = _HIGH_WATER.search(text)
    if not found:
        raise ValueError("no high-water mark: the process has ended")
    return int(found[1]) / 1024


def _read(pid: int, name: str) -> str:
    return pathlib.Path(f"/proc/{pid}/{name}").read_text()
