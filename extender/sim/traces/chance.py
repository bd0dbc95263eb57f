"""Chance that is the same on every machine and in every version: numbers out of a hash of a seed and of names.

Takes a seed and words, gives numbers; must not keep a state, so that what is drawn for one thing does not hang on
what was drawn before it.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def unit(seed: int, *words: object) -> float:
    """A number from 0 to below 1."""
    text = "\0".join(map(str, (seed, *words))).encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()[:7], "big") / 2**56


def weighted(table: Sequence[tuple[T, float]], seed: int, *words: object) -> T:
    """One of these, each as likely as its weight says."""
    left = unit(seed, *words) * sum(weight for _, weight in table)
    for value, weight in table:
        left -= weight
        if left < 0:
            return value
    return table[-1][0]


def quantile(table: Sequence[tuple[float, float]], seed: int, *words: object) -> float:
    """A value of the distribution with these (share, value), the logarithm of the values linear in between."""
    share = unit(seed, *words)
    for (low, before), (high, after) in itertools.pairwise(table):
        if share <= high:
            part = (share - low) / (high - low)
            return math.exp(math.log(before) + part * (math.log(after) - math.log(before)))
    return table[-1][1]
