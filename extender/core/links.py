"""How the GPUs of one node are joined, and which of them belong together.

Takes a matrix of links as `nvidia-smi topo -m` names them, gives the best subset of the free ones; must not know
pods, nor which GPUs are free.

The best k of the free GPUs are those whose worst link is best; of these the ones that leave the rest best joined, so
that a pair or a quad stays whole for who asks for it. Exact for up to 16 GPUs by tables over all subsets, which are
made once for each matrix; larger nodes are filled greedily.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

#: names from worst to best; each NVLink of a bond adds one to the last of them
SELF = "X"
PATHS = ("SYS", "NODE", "PHB", "PXB", "PIX")
NVLINK = re.compile(r"NV([1-9][0-9]{0,2})", re.ASCII)
#: subsets of so many GPUs are tabled; with 16 these are 65,536
EXACT = 16
#: a node with more GPUs than this is taken for a mistake
MAX_GPUS = 64
#: better than every link: what a GPU has to itself
BEST = 2**15 - 1
#: products whose GPUs are all joined alike on every board that is made of them, and the NVLinks of each pair where
#: there are eight (sixteen of the V100)
UNIFORM = (
    ("A100-SXM4", 12),
    ("A800-SXM4", 8),
    ("H100-80GB-HBM3", 18),
    ("H100-96GB-HBM3", 18),
    ("H800-80GB-HBM3", 8),
    ("H20", 18),
    ("B100", 18),
    ("B200", 18),
    ("B300", 18),
    ("V100-SXM3", 6),
)
#: parts of names of what is not: MIG instances, cards in slots, and pairs or fours of these under a bridge
_NOT_UNIFORM = ("-MIG-", "PCIE", "-NVL")
#: pairs among 16 GPUs, rounded up to a power of two: so much more counts a link of the next better kind
_KINDS = 128
_MOST_KINDS = 8

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Links:
    """Names of the links, a row for each GPU, and the NUMA node of each where it is known."""

    rows: tuple[tuple[str, ...], ...]
    numa: tuple[int | None, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)


def rank(name: str) -> int:
    """Links compared: larger is better. ValueError for a name that is none."""
    bonded = NVLINK.fullmatch(name)
    if bonded is not None:
        return len(PATHS) + int(bonded[1])
    return PATHS.index(name) + 1


def best(links: Links, free: Iterable[int], number: int) -> tuple[int, ...] | None:
    """So many of these free GPUs, in order; None when there are not so many."""
    there = sorted(set(free))
    if number > len(there):
        return None
    if len(links) > EXACT:
        return _greedy(_matrix(links), there, number)
    return _tables(links).best(there, number)


def worst(links: Links, gpus: Sequence[int]) -> int:
    """The rank of the worst link among these GPUs; one alone has a better one than any two."""
    matrix = _matrix(links)
    return int(min((matrix[a, b] for a in gpus for b in gpus if a < b), default=BEST))


@dataclass(frozen=True, slots=True)
class Fit:
    """What a pod gets: GPUs as bits, their worst link, and how many NVLinks go from them to the free ones left."""

    bits: int
    worst: int
    cut: int


@lru_cache(maxsize=65536)
def fit(links: Links, free: int, number: int) -> Fit | None:
    """The best so many of the free GPUs, which are bits; None when there are not so many."""
    there = tuple(gpu for gpu in range(len(links)) if free >> gpu & 1)
    chosen = best(links, there, number)
    if chosen is None:
        return None
    left = [gpu for gpu in there if gpu not in chosen]
    bonds = np.maximum(_matrix(links)[np.ix_(chosen, left)] - len(PATHS), 0)
    return Fit(sum(1 << gpu for gpu in chosen), worst(links, chosen), int(bonds.sum()))


@lru_cache(maxsize=256)
def uniform(product: str, number: int) -> Links | None:
    """The links of a node of so many GPUs of this product, as GPU feature discovery names it; None where the name does
    not tell."""
    bond = next((bond for name, bond in UNIFORM if name in product), None)
    apart = any(part in product.upper() for part in _NOT_UNIFORM)
    if bond is None or apart or not 0 < number <= MAX_GPUS:
        return None
    name = f"NV{bond}"
    return Links(tuple(tuple(SELF if a == b else name for b in range(number)) for a in range(number)))


@lru_cache(maxsize=256)
def _matrix(links: Links) -> Ints:
    ranks = [[BEST if name == SELF else rank(name) for name in row] for row in links.rows]
    return np.array(ranks, dtype=np.int64).reshape(len(links), len(links))


@lru_cache(maxsize=64)
def _tables(links: Links) -> _Tables:
    return _Tables(_matrix(links))


class _Tables:
    """For each subset, as a number with a bit for each GPU: its worst link, and how well it is joined."""

    def __init__(self, matrix: Ints) -> None:
        count = len(matrix)
        self._worst = np.full(1 << count, BEST, dtype=np.int64)
        #: sum over the pairs, in which one better link outweighs any number of worse ones
        self._joined = np.zeros(1 << count, dtype=np.int64)
        kinds = sorted(set(matrix[~np.eye(count, dtype=bool)].tolist()))[-_MOST_KINDS:]
        weight = {kind: _KINDS**place for place, kind in enumerate(kinds)}
        for gpu in range(count):
            below = 1 << gpu  # subsets of the GPUs before this one
            least, sums = np.full(below, BEST, dtype=np.int64), np.zeros(below, dtype=np.int64)
            for other in range(gpu):
                link, start = int(matrix[gpu, other]), 1 << other
                least[start : 2 * start] = np.minimum(least[:start], link)
                sums[start : 2 * start] = sums[:start] + weight.get(link, 0)
            self._worst[below : 2 * below] = np.minimum(self._worst[:below], least)
            self._joined[below : 2 * below] = self._joined[:below] + sums
        sizes = np.zeros(1 << count, dtype=np.int64)
        for gpu in range(count):
            sizes[1 << gpu : 2 << gpu] = sizes[: 1 << gpu] + 1
        self._of_size = [np.flatnonzero(sizes == size) for size in range(count + 1)]

    def best(self, free: Sequence[int], number: int) -> tuple[int, ...]:
        """The best so many of these."""
        there = sum(1 << gpu for gpu in free)
        subsets = self._of_size[number]
        subsets = subsets[(subsets & ~there) == 0]
        left = there & ~subsets
        chosen = int(subsets[np.lexsort((subsets, -self._joined[left], -self._worst[subsets]))[0]])
        return tuple(gpu for gpu in free if chosen >> gpu & 1)


def _greedy(matrix: Ints, free: Sequence[int], number: int) -> tuple[int, ...]:
    """From each GPU the one that is joined best is added until there are enough; the best of these sets."""
    found: list[tuple[int, tuple[int, ...]]] = []
    for first in free:
        chosen = [first]
        while len(chosen) < number:
            others = [gpu for gpu in free if gpu not in chosen]
            chosen.append(max(others, key=lambda gpu: (int(matrix[gpu, chosen].min()), -gpu)))
        gpus = chosen[:number]
        least = min((int(matrix[a, b]) for a in gpus for b in gpus if a < b), default=BEST)
        found.append((-least, tuple(sorted(gpus))))
    return min(found)[1] if found else ()
