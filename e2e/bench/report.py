"""Rows and ratios out of runs.

Takes runs; gives what latest.json holds of them. Must not measure, nor make text for people.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from e2e.bench import histogram, measure, observe, ratios, shapes

Row = dict[str, Any]
#: nodes, shape, system
Key = tuple[int, str, str]


def rows(runs: dict[Key, list[measure.Run]]) -> list[Row]:
    """One row for each combination; index i of `runs_s` pairs over systems."""
    return [
        {
            "nodes": nodes,
            "shape": shape,
            "system": system,
            **figures(done),
            "writes_per_pod": writes(done),
            "overcommitted_nodes": max(run.overcommitted for run in done),
        }
        for (nodes, shape, system), done in runs.items()
        if done
    ]


def figures(runs: Sequence[measure.Run]) -> Row:
    """The times of runs of one kind; index i of `runs_s` pairs over kinds."""
    return {
        "runs_s": [round(run.total_s, 3) for run in runs],
        "median_s": round(statistics.median(run.total_s for run in runs), 3),
        "create_s": round(statistics.median(run.create_s for run in runs), 3),
        "bind_s": round(statistics.median(run.bind_s for run in runs), 3),
    }


def writes(runs: Sequence[measure.Run]) -> float:
    """API writes for each pod, the median of the runs; what the benchmark itself writes is not counted."""
    return round(statistics.median(run.writes_per_pod for run in runs), 3)


def cpu(runs: Sequence[measure.Run]) -> dict[str, float]:
    """CPU seconds by process between first create and last bind, each the median of the runs."""
    roles = runs[0].observed.cpu_s
    return {role: round(statistics.median(run.observed.cpu_s[role] for run in runs), 2) for role in roles}


def cpu_rows(runs: dict[Key, list[measure.Run]]) -> list[Row]:
    """What each combination used."""
    return [
        {
            "nodes": nodes,
            "shape": shape,
            "system": system,
            "median_s": figures(done)["median_s"],
            "cpu_s": cpu(done),
        }
        for (nodes, shape, system), done in runs.items()
    ]


def muster_rows(runs: dict[Key, list[measure.Run]]) -> list[Row]:
    """Filter calls and memory of the runs of Muster, by shape; lists are in the order run."""
    return [
        {
            "nodes": nodes,
            "shape": shape,
            "filter": {way: _calls([run.observed.filters[way] for run in done]) for way in observe.FILTERS},
            "memory_mib": {
                role: [round(run.observed.memory_mib[role], 1) for run in done] for role in ("extender", "gate")
            },
        }
        for (nodes, shape, system), done in runs.items()
        if system == shapes.MUSTER
    ]


def paired(over: Sequence[measure.Run], under: Sequence[measure.Run]) -> dict[str, Row]:
    """Ratios of paired runs: of the whole time, of the time to create, of the CPU seconds of all processes."""
    timed = {
        "total": ([run.total_s for run in over], [run.total_s for run in under]),
        "create": ([run.create_s for run in over], [run.create_s for run in under]),
        "cpu": (_all_cpu(over), _all_cpu(under)),
    }
    found = {what: ratios.paired(*both) for what, both in timed.items()}
    return {what: ratio.as_json() for what, ratio in found.items() if ratio}


def _all_cpu(runs: Sequence[measure.Run]) -> list[float]:
    return [sum(run.observed.cpu_s.values()) for run in runs]


def _calls(found: Sequence[histogram.Histogram]) -> dict[str, list[Any]]:
    return {
        "calls": [histogram.count(some) for some in found],
        "p50_ms": [_milliseconds(some, 0.5) for some in found],
        "p99_ms": [_milliseconds(some, 0.99) for some in found],
    }


def _milliseconds(some: histogram.Histogram, fraction: float) -> float | str | None:
    """The upper bound of a percentile's bucket; None without calls, a text above the last bound (JSON has no inf)."""
    if not histogram.count(some):
        return None
    bound = histogram.percentile(some, fraction)
    if math.isinf(bound):
        return f">{1000 * max(filter(math.isfinite, some)):g}"
    return round(1000 * bound, 3)
