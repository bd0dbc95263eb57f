"""What became of the GPUs between two times, as an object of the live answers: `usages/gpus?since=...&until=...`.

Takes a series and a query, gives JSON data; must not decide who may read it. Times are RFC 3339; without them it is the
last day. Numbers are means over the points of that time, one a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extender.core.series import OF_QUEUE, POINT_SECONDS, QUANTILES, STATES, Series, Window
from extender.wire import answers
from extender.wire.fields import seconds_of

Object = dict[str, Any]
#: the only one of its kind
GPUS = "gpus"
DAY = 86_400.0
#: so many points of the course are given at most
COURSE = 480
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """Which time is asked about, and for how many points of it."""

    since: float
    until: float
    points: int


def asked(query: Mapping[str, str], now: float) -> Asked:
    """What a query asks for; ValueError, which names the field, when it cannot be read."""
    since, until = (_moment(query, name) for name in ("since", "until"))
    points = query.get("points") or "0"
    if not (points.isascii() and points.isdigit() and len(points) < 6):
        raise ValueError("points: not a whole number")
    until = now if until is None else until
    since = until - DAY if since is None else since
    if since > until:
        raise ValueError("since: later than until")
    return Asked(since, until, min(int(points), COURSE))


def _moment(query: Mapping[str, str], name: str) -> float | None:
    text = query.get(name)
    found = seconds_of(text) if text else None
    if text and found is None:
        raise ValueError(f"{name}: not a time as 2026-01-31T12:00:00Z")
    return found


def usage(series: Series, wanted: Asked, now: float) -> Object:
    """The object."""
    window = series.between(wanted.since, wanted.until)
    status: Object = {
        "since": answers.time_text(wanted.since),
        "until": answers.time_text(wanted.until),
        "observedAt": answers.time_text(now),
        "pointSeconds": int(POINT_SECONDS),
        "points": window.points,
        **_of(window),
    }
    for name, at in (("knownSince", series.began), ("firstPoint", window.first), ("lastPoint", window.last)):
        if at is not None:
            status[name] = answers.time_text(at)
    if wanted.points:
        course = series.course(wanted.since, wanted.until, wanted.points)
        status["course"] = [{"at": answers.time_text(at), **_named(STATES, values)} for at, values in course]
    meta = {"name": GPUS, "creationTimestamp": None}
    return {"apiVersion": answers.API_VERSION, "kind": answers.USAGES.kind, "metadata": meta, "status": status}


def _of(window: Window) -> Object:
    together = [sum(values) for values in zip(*window.pools.values(), strict=True)] or [0.0] * len(STATES)
    return {
        "cluster": _pool(together),
        "pools": [{"name": name, **_pool(values)} for name, values in window.pools.items()],
        "queues": [{"name": name, **_named(OF_QUEUE, values)} for name, values in window.queues.items()],
        "starts": [
            {
                "queue": line.queue,
                "size": line.size,
                "count": line.count,
                "waitedSeconds": _quantiles(line.waited),
                "startingSeconds": _quantiles(line.starting),
            }
            for line in window.lines
        ],
    }


def _pool(values: Sequence[float]) -> Object:
    return {"gpus": round(sum(values), _DIGITS), **_named(STATES, values)}


def _named(names: Iterable[str], values: Iterable[float]) -> Object:
    return {name: round(value, _DIGITS) for name, value in zip(names, values, strict=True)}


def _quantiles(values: Sequence[float]) -> Object:
    return {f"p{round(100 * part)}": round(value, _DIGITS) for part, value in zip(QUANTILES, values, strict=True)}
