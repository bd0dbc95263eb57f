"""`kubectl muster usage`: what became of the GPUs over time, and how long groups waited; before and after a moment.

Takes live answers, gives windows of time as tables side by side. Numbers are means of a point a minute; the extender
keeps two days of them, of its own life.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from extender.cli import tables
from extender.cli.arguments import UNITS
from extender.cli.cluster import Cluster
from extender.cli.problems import UNUSABLE, Problem
from extender.core.series import OF_QUEUE, STATES
from extender.wire.answers import age, time_text
from extender.wire.fields import seconds_of

Object = dict[str, Any]
_USED = "used %"
_POOL = ("gpus", _USED, *STATES)
_TITLES = {"outOfUse": "OUT OF USE"}
_STARTS = ("QUEUE", "GPUS", "STARTED", "WAITED 50 %", "90 %", "TO RUN 50 %", "90 %")
MEND = "say how long ago, as 90m, 24h or 2d, or a time as 2026-01-31T12:00:00Z"


def moment(text: str, now: float) -> float:
    """The time that a text names: so long ago, or RFC 3339."""
    ago = re.fullmatch(r"([0-9]{1,6})([smhd])", text, re.ASCII)
    found = now - int(ago[1]) * UNITS[ago[2]] if ago else seconds_of(text)
    if found is None:
        raise Problem(f"{text[:40]!r} is no time", MEND, UNUSABLE)
    return found


async def gather(cluster: Cluster, since: str, compare: str | None) -> Object:
    """One window of time, or two."""
    now = time.time()
    begin = moment(since, now)
    middle = None if compare is None else moment(compare, now)
    if begin >= now:
        raise Problem(f"--since: {since} is not in the past", MEND, UNUSABLE)
    if middle is not None and not begin < middle < now:
        raise Problem(f"--compare: {compare} is not between {time_text(begin)} and now", MEND, UNUSABLE)
    times = [(begin, now)] if middle is None else [(begin, middle), (middle, now)]
    names = ["now"] if middle is None else ["before", "after"]
    windows = [
        {"name": name, **await cluster.usage(time_text(start), time_text(end))}
        for name, (start, end) in zip(names, times, strict=True)
    ]
    for window in windows:
        _note(cluster, window)
    return {"windows": windows}


def _note(cluster: Cluster, window: Object) -> None:
    """Say where less is known than was asked for."""
    known = window.get("knownSince")
    if not window.get("points"):
        when = (
            f"nothing is known before {known}" if known else "nothing is known yet: the first point comes in a minute"
        )
        cluster.note(f"from {window['since']} to {window['until']} there is no point; {when}")
    elif known and (seconds_of(known) or 0) > (seconds_of(window["since"]) or 0) + window.get("pointSeconds", 60):
        cluster.note(
            f"it is known since {known} only: the replica that acts began then, and Prometheus remembers longer"
        )


# --- for people --------------------------------------------------------------------------------------


def show(told: Object, paint: tables.Paint) -> Iterator[str]:
    """Tables: all GPUs and those of each pool, of each queue, and how long groups waited; `before -> after`."""
    windows = told["windows"]
    for one in windows:
        label = f"{one['name']}: " if len(windows) > 1 else ""
        yield f"{label}{one['since']} to {one['until']}, {one['points']} points"
    yield ""
    everything = ("all", *_cells([one["cluster"] if one["points"] else None for one in windows], _POOL))
    yield from tables.table(("POOL", *_heads(_POOL)), [everything, *_rows(windows, "pools", _POOL, "  ")], paint)
    if any(one["queues"] for one in windows):
        yield ""
        yield from tables.table(("QUEUE", *_heads(OF_QUEUE)), _rows(windows, "queues", OF_QUEUE), paint)
    if any(one["starts"] for one in windows):
        yield ""
        yield from tables.table(_STARTS, _starts(windows), paint)


def _heads(fields: Sequence[str]) -> list[str]:
    return [_TITLES.get(field, field.upper()) for field in fields]


def _rows(
    windows: Sequence[Object], what: str, fields: Sequence[str], indent: str = ""
) -> Iterator[tuple[object, ...]]:
    for name in sorted({row["name"] for one in windows for row in one[what]}):
        found: list[Object | None] = [
            next((row for row in one[what] if row["name"] == name), {}) if one["points"] else None for one in windows
        ]
        yield (indent + name, *_cells(found, fields))


def _cells(rows: Sequence[Mapping[str, Any] | None], fields: Sequence[str]) -> list[str]:
    return [_beside(_number(row, field) for row in rows) for field in fields]


def _number(row: Mapping[str, Any] | None, field: str) -> str:
    """To one place; of a time without a point nothing is known."""
    if row is None:
        return "-"
    whole = 100 * float(row.get("allocated", 0)) / float(row.get("gpus") or 1) if field == _USED else row.get(field, 0)
    return f"{whole:.1f}".removesuffix(".0")


def _beside(texts: Iterable[str]) -> str:
    """What was and what is, in one cell."""
    return " -> ".join(dict.fromkeys(texts))


def _starts(windows: Sequence[Object]) -> Iterator[tuple[object, ...]]:
    keys = list(dict.fromkeys((row["queue"], row["size"]) for one in windows for row in one["starts"]))
    for queue, size in sorted(keys, key=lambda key: key[0]):
        found: list[Object | None] = [
            next((row for row in one["starts"] if (row["queue"], row["size"]) == (queue, size)), None)
            for one in windows
        ]
        cells = [_beside(str(row["count"]) if row else "0" for row in found)]
        cells += [
            _beside(f"<= {_span(row[name][part])}" if row else "-" for row in found)
            for name in ("waitedSeconds", "startingSeconds")
            for part in ("p50", "p90")
        ]
        yield (queue, size, *cells)


def _span(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds < 10 else age(-(-seconds // 1))
