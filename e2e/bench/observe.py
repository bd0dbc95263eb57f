"""What a run cost: CPU by process, memory, and how fast the extender answered.

Takes the processes of a system under test; gives an `Observed` for one run. Must not submit anything.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping

from e2e.bench import histogram, usage

#: filter calls by how they were answered -> the extender's histogram of them, and the labels to choose by
FILTERS: dict[str, tuple[str, dict[str, str]]] = {
    "at_once": ("muster_extender_verb_seconds", {"verb": "filter"}),
    "awaited": ("muster_extender_filter_awaited_seconds", {}),
}
CLIENT = "client"


@dataclasses.dataclass(frozen=True)
class Watched:
    """Role -> process id of all that work in a run; `extender_metrics` gives its /metrics, where there is one."""

    pids: Mapping[str, int]
    extender_metrics: Callable[[], str] | None = None

    def cpu(self) -> dict[str, float]:
        """Seconds used so far by each process and by this one."""
        return {role: usage.cpu_seconds(pid) for role, pid in (*self.pids.items(), (CLIENT, os.getpid()))}

    def memory(self) -> dict[str, float]:
        """High-water mark of each process, in MiB."""
        return {role: usage.high_water_mib(pid) for role, pid in self.pids.items()}

    def filters(self) -> dict[str, histogram.Histogram]:
        """The filter calls so far; empty without an extender."""
        if self.extender_metrics is None:
            return {}
        text = self.extender_metrics()
        return {way: histogram.read(text, name, **labels) for way, (name, labels) in FILTERS.items()}


@dataclasses.dataclass(frozen=True)
class Observed:
    """CPU seconds from first create to last bind; memory in MiB since the processes were started; filter calls."""

    cpu_s: dict[str, float]
    memory_mib: dict[str, float]
    filters: dict[str, histogram.Histogram]


class Meter:
    """Made just before the first create; `bound` is called at the last bind, `read` when all has come to rest."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._filters = watched.filters()
        self._used: dict[str, float] = {}
        self._cpu = watched.cpu()

    def bound(self) -> None:
        """The last pod is bound: what is used from now on does not count."""
        self._used = {role: used - self._cpu[role] for role, used in self._watched.cpu().items()}

    def read(self) -> Observed:
        """What the run cost."""
        after = self._watched.filters()
        filters = {way: histogram.difference(found, self._filters[way]) for way, found in after.items()}
        return Observed(self._used, self._watched.memory(), filters)
