"""What became of the cluster's GPUs over time: a point each minute for two days, and how long groups waited.

Takes figures of one moment and starts of groups, gives means and quantiles between two times; must not know the
engine. Bounded: so many points, so many pools and queues (the rest counts as `other`). It is of one life of the
process: a restart forgets it, and `began` says since when it knows. Prometheus is the place for longer memories.

How long groups waited is counted by powers of the root of two, in slots of ten minutes: quantiles are upper bounds, at
most half as much again as the truth, and times are taken to the slot.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

#: seconds from one point to the next, and points that are kept
POINT_SECONDS = 60.0
POINTS = 48 * 60
SLOT_SECONDS = 600.0
SLOTS = 48 * 6 + 1
#: so many names each are told apart
POOLS, QUEUES, LINES = 32, 64, 128
OTHER = "other"
#: what becomes of the GPUs of a pool: every one counts in exactly one of these
STATES = ("allocated", "held", "reserved", "fragmented", "idle", "outOfUse")
#: what is said of the GPUs of a queue: the first three are what counts in it
OF_QUEUE = ("allocated", "held", "reserved", "waiting", "fair", "unused")
#: classes of groups, by the GPUs that their members have together when they start: the most of each
SIZES = (("0", 0), ("1", 1), ("2-8", 8), ("9-64", 64), ("65-512", 512))
LARGEST = "over 512"
SIZE_CLASSES = frozenset({*(name for name, _ in SIZES), LARGEST})
_STEPS_A_DOUBLING = 2
_LEAST = 0.125

Floats = npt.NDArray[np.float64]
#: GPUs by name, each with a number for every state
Figures = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Start:
    """A group that has reached its minimum for the first time: how long it waited for its places, and how long it then
    took until its members were bound."""

    queue: str
    gpus: float
    waited: float
    starting: float

    @property
    def size(self) -> str:
        """Its class."""
        return next((name for name, most in SIZES if self.gpus <= most), LARGEST)


@dataclass(frozen=True, slots=True)
class Line:
    """Starts of one queue and size between two times; seconds."""

    queue: str
    size: str
    count: int
    waited: tuple[float, float]
    starting: tuple[float, float]


#: the quantiles of a line
QUANTILES = (0.5, 0.9)


@dataclass(frozen=True, slots=True)
class Window:
    """Means between two times. `first` and `last`: the newest and oldest point of it; None when there is none."""

    points: int
    first: float | None
    last: float | None
    pools: Mapping[str, tuple[float, ...]]
    queues: Mapping[str, tuple[float, ...]]
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class _Point:
    """Figures of one moment; names are shared by the points that have the same ones."""

    at: float
    names: tuple[tuple[str, ...], tuple[str, ...]]
    pools: npt.NDArray[np.float32]
    queues: npt.NDArray[np.float32]


@dataclass(slots=True)
class _Counts:
    """How often each step of waiting, and of starting, came."""

    waited: Counter[int] = field(default_factory=Counter)
    starting: Counter[int] = field(default_factory=Counter)


class Series:
    """Points and starts of the last two days."""

    def __init__(self) -> None:
        self._points: deque[_Point] = deque(maxlen=POINTS)
        self._next = -math.inf
        self._names: tuple[dict[str, None], dict[str, None]] = ({}, {})
        #: by slot, then by queue and size
        self._slots: dict[int, dict[tuple[str, str], _Counts]] = {}

    @property
    def began(self) -> float | None:
        """The time of the oldest point."""
        return self._points[0].at if self._points else None

    def due(self, now: float) -> bool:
        """True when it is time for a point."""
        return now >= self._next

    def note(self, now: float, pools: Figures, queues: Figures) -> None:
        """A point, made of these."""
        self._next = (now // POINT_SECONDS + 1) * POINT_SECONDS
        kept = (_bounded(pools, self._names[0], POOLS), _bounded(queues, self._names[1], QUEUES))
        names = (tuple(kept[0]), tuple(kept[1]))
        if self._points and self._points[-1].names == names:
            names = self._points[-1].names
        self._points.append(_Point(now, names, _packed(kept[0], len(STATES)), _packed(kept[1], len(OF_QUEUE))))

    def started(self, now: float, starts: Iterable[Start]) -> None:
        """These groups have started."""
        slot = int(now // SLOT_SECONDS)
        for start in starts:
            lines = self._slots.setdefault(slot, {})
            key = (start.queue, start.size)
            if key not in lines and len(lines) >= LINES:
                key = (OTHER, start.size)
            counts = lines.setdefault(key, _Counts())
            counts.waited[_step(start.waited)] += 1
            counts.starting[_step(start.starting)] += 1
        for old in [one for one in self._slots if one <= slot - SLOTS]:
            del self._slots[old]

    def between(self, begin: float, end: float) -> Window:
        """What there is to say of the time from `begin` up to `end`."""
        points = [point for point in self._points if begin <= point.at < end]
        return Window(
            points=len(points),
            first=points[0].at if points else None,
            last=points[-1].at if points else None,
            pools=_means([(point.names[0], point.pools) for point in points]),
            queues=_means([(point.names[1], point.queues) for point in points]),
            lines=tuple(self._lines(begin, end)),
        )

    def course(self, begin: float, end: float, most: int) -> Iterator[tuple[float, tuple[float, ...]]]:
        """The whole cluster's GPUs by state over that time, as at most so many means over equal parts of it."""
        points = [point for point in self._points if begin <= point.at < end]
        width = max(1, -(-len(points) // max(1, most)))
        for start in range(0, len(points), width):
            some = points[start : start + width]
            sums = np.sum([point.pools.sum(axis=0, dtype=np.float64) for point in some], axis=0) / len(some)
            yield some[0].at, tuple(float(value) for value in sums)

    def _lines(self, begin: float, end: float) -> Iterator[Line]:
        together: dict[tuple[str, str], _Counts] = {}
        for slot, lines in self._slots.items():
            if begin // SLOT_SECONDS <= slot and slot * SLOT_SECONDS < end:
                for key, counts in lines.items():
                    both = together.setdefault(key, _Counts())
                    both.waited.update(counts.waited)
                    both.starting.update(counts.starting)
        order = [*(name for name, _ in SIZES), LARGEST]
        for queue, size in sorted(together, key=lambda key: (key[0], order.index(key[1]))):
            counts = together[queue, size]
            yield Line(queue, size, counts.waited.total(), _quantiles(counts.waited), _quantiles(counts.starting))


def _bounded(figures: Figures, known: dict[str, None], most: int) -> dict[str, Sequence[float]]:
    """The same with no more names than may be told apart, in their order; those that came first keep theirs."""
    found: dict[str, Sequence[float]] = {}
    for name in sorted(figures):
        if name not in known and len(known) < most - 1:
            known[name] = None
        place = name if name in known else OTHER
        before = found.get(place)
        found[place] = figures[name] if before is None else [a + b for a, b in zip(before, figures[name], strict=True)]
    return found


def _packed(figures: Figures, width: int) -> npt.NDArray[np.float32]:
    return np.array(list(figures.values()), dtype=np.float32).reshape(-1, width)


def _means(points: Sequence[tuple[tuple[str, ...], npt.NDArray[np.float32]]]) -> dict[str, tuple[float, ...]]:
    """Of each name; where it is not named it had nothing."""
    sums: dict[str, Floats] = {}
    for names, values in points:
        for name, row in zip(names, values, strict=True):
            there = sums.get(name)
            sums[name] = row.astype(np.float64) if there is None else there + row
    return {name: tuple(float(value) for value in sums[name] / len(points)) for name in sorted(sums)}


def _step(seconds: float) -> int:
    """The number of the step that these seconds are in; 0 holds all up to the least."""
    return max(0, math.ceil(_STEPS_A_DOUBLING * math.log2(max(seconds, _LEAST) / _LEAST)))


def _quantiles(counts: Counter[int]) -> tuple[float, float]:
    """The upper ends of the steps in which they are."""
    total, seen, found = counts.total(), 0, []
    wanted = [math.ceil(part * total) for part in QUANTILES]
    for step in sorted(counts):
        seen += counts[step]
        found += [_LEAST * 2 ** (step / _STEPS_A_DOUBLING)] * sum(seen - counts[step] < one <= seen for one in wanted)
    return found[0], found[1]
