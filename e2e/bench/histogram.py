"""Histograms as Prometheus writes them: read, subtracted, and asked for percentiles.

Takes the text of /metrics; gives cumulative counts by upper bound. Must not know which histograms there are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

#: upper bound of a bucket (the last is infinite) -> how many observations were at most that
Histogram = dict[float, float]
_SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def read(text: str, name: str, **labels: str) -> Histogram:
    """The sum of one histogram over all children that bear these labels; empty when there is none."""
    found: Histogram = {}
    for metric, inside, value in _SAMPLE.findall(text):
        if metric != f"{name}_bucket":
            continue
        told = dict(_LABEL.findall(inside))
        if labels.items() <= told.items():
            bound = float(told["le"])
            found[bound] = found.get(bound, 0.0) + float(value)
    return dict(sorted(found.items()))


def difference(after: Mapping[float, float], before: Mapping[float, float]) -> Histogram:
    """What was observed in between. ValueError when counts went down: the process was started anew."""
    between = {bound: count - before.get(bound, 0.0) for bound, count in after.items()}
    if before.keys() - after.keys() or any(count < 0 for count in between.values()):
        raise ValueError("a histogram went down: its process was started anew between the two readings")
    return between


def count(histogram: Mapping[float, float]) -> int:
    """The number of observations."""
    return int(histogram.get(math.inf, 0.0))


def percentile(histogram: Mapping[float, float], fraction: float) -> float:
    """The upper bound of the bucket that holds the observation of this rank (nearest rank, 0 < fraction <= 1).

    Infinite when it lies above the last bound. ValueError when nothing was observed.
    """
    if not count(histogram):
        raise ValueError("a percentile of nothing")
    rank = math.ceil(fraction * count(histogram))
    return min(bound for bound, reached in histogram.items() if reached >= rank)
