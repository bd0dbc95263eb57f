"""Counts evictions, and those that hit a group again: many of these are a circle in which work is only moved about.

Takes evictions that were carried out, gives counts; must not decide. Of so many groups the newest one is remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from extender.core.model import Pod
from extender.core.reasons import Ground

#: a group is evicted again when it was evicted before in this time, but not in the same go
AGAIN_SECONDS = 3600.0
SAME_SECONDS = 60.0
_REMEMBERED = 10_000


class Metrics(Protocol):
    """Where the counts go."""

    def evicted(self, rule: str, again: bool) -> None:
        """A pod is evicted."""


class Evictions:
    """What was evicted lately."""

    def __init__(self, metrics: Metrics, wall: Callable[[], float]) -> None:
        self._metrics = metrics
        self._wall = wall
        #: when a group was first evicted in the newest go, and before that; the newest last
        self._when: dict[object, tuple[float, float]] = {}

    def done(self, ground: Ground, pod: Pod | None) -> None:
        """The pod was evicted; None: it is gone already."""
        key, now = None if pod is None else _key(pod), self._wall()
        if key is None:
            self._metrics.evicted(ground, False)
            return
        newest, before = self._when.pop(key, (float("-inf"), float("-inf")))
        if now >= newest + SAME_SECONDS:
            newest, before = now, newest
        self._when[key] = (newest, before)
        if len(self._when) > _REMEMBERED:
            del self._when[next(iter(self._when))]
        self._metrics.evicted(ground, newest < before + AGAIN_SECONDS)


def _key(pod: Pod) -> object | None:
    """What is the same of a pod and of the one that replaces it; None where nothing is known to be."""
    if not pod.group.lone:
        return pod.group
    return (pod.owner.uid, pod.index) if pod.owner is not None and pod.index else None
