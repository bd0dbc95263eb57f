"""Keeps labels few: a time series for each pod or group would fill any Prometheus.

Takes: words from callers. Gives: words of a closed set. Must not: raise; a word that is not in the set is
counted as `other`.
"""

from collections.abc import Mapping
from typing import Any

from prometheus_client import Gauge

OTHER = "other"
WORDS_KEPT = 16


def closed(word: str, allowed: frozenset[str]) -> str:
    """The word itself if it is one of the allowed."""
    return word if word in allowed else OTHER


class Census:
    """A gauge with one label that shows a count for each word; words that vanish from the count go to zero.

    Invariant: never more than `WORDS_KEPT` words of which `expected` says nothing.
    """

    def __init__(self, gauge: Gauge, expected: frozenset[str] = frozenset()) -> None:
        self._gauge = gauge
        self._words = set(expected)
        self._limit = len(expected) + WORDS_KEPT
        self.count({})

    def count(self, numbers: Mapping[Any, int]) -> None:
        """Show these numbers, and no others; the keys are words or members of a StrEnum."""
        shown = dict.fromkeys(self._words, 0)
        for word, number in numbers.items():
            place = word if word in self._words or len(self._words) < self._limit else OTHER
            self._words.add(place)
            shown[place] = shown.get(place, 0) + number
        for word, number in shown.items():
            self._gauge.labels(word).set(number)
