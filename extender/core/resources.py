"""Integer resource vectors: names become columns in one place.

Takes amounts as (name, integer) pairs in base units (CPU in millicores, memory and storage in bytes,
everything else in pieces), gives int64 rows. Floats never enter: feasibility is exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt

#: amounts of named resources, sorted by name: hashable, so that equal requests are found equal
Amounts = tuple[tuple[str, int], ...]
Row = npt.NDArray[np.int64]

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
GPU = "nvidia.com/gpu"
GPU_MEMORY = "nvidia.com/gpumem"
GPU_PERCENT = "nvidia.com/gpumem-percentage"
GPU_CORES = "nvidia.com/gpucores"
#: by which HAMi tells pods on one card apart; there is no amount of it
GPU_PRIORITY = "nvidia.com/priority"
#: asked for each GPU and fitted on cards, never on what a node has allocatable
PER_CARD = frozenset({GPU_MEMORY, GPU_PERCENT, GPU_CORES, GPU_PRIORITY})
#: what a pod is charged where a queue charges by share: GPUs asked x percentage of memory, and MIG instances by their
#: slices. No node has it, and only queues that charge so name it
GPU_SHARE = "muster.dev/gpu-parts"
#: parts of a GPU: hundredths, sevenths and quarters of one are whole numbers of them
GPU_PARTS = 700
MIG = "nvidia.com/mig-"
_MIG_PROFILE = re.compile(
    r"(?:(?P<compute>[1-7])c\.)?(?P<slices>[1-7])g\.(?P<memory>[0-9]{1,4}gb)(?:[.+][a-z.]+)?", re.ASCII
)
#: profiles of GPUs that are cut into four slices; all others are cut into seven
_OF_FOUR = frozenset({"1g.6gb", "2g.12gb", "4g.24gb", "1g.24gb", "2g.48gb", "4g.96gb"})
#: what pods ask for that is not compared with what nodes have
BESIDE_NODES = PER_CARD | {GPU_SHARE}
#: larger amounts are refused when read (wire), whatever they are of
MAX_AMOUNT = 2**55
#: A pod that asks for more of anything is refused when read, a node that has more counts as having so much, and as
#: having room for so many pods at most. So no sum over a node leaves int64 while the node takes pods at all: each pod
#: is one of `pods`, and the product is 2**62. Past that the column of `pods` says that the node is full, and the
#: other columns, which wrap around, come back exactly when pods go. Sums over nodes are made in other ways.
MAX_ON_NODE = 2**48
MAX_PODS_ON_NODE = 2**14


def amounts(values: Mapping[str, int]) -> Amounts:
    """Sorted, hashable amounts of a mapping; zero amounts are kept out."""
    return tuple(sorted((name, value) for name, value in values.items() if value))


class Columns:
    """Growing map of resource name -> column. Columns are never removed or renumbered.

    Only what nodes offer has one: pods may name anything, and a request for what no node offers needs no sums.
    """

    def __init__(self) -> None:
        self._index: dict[str, int] = {CPU: 0, MEMORY: 1, PODS: 2}

    def __len__(self) -> int:
        return len(self._index)

    @property
    def names(self) -> tuple[str, ...]:
        """Resource names in the order of their columns."""
        return tuple(self._index)

    def offer(self, names: Iterable[str]) -> bool:
        """Give these a column, where they have none; true when there are new ones."""
        before = len(self._index)
        for name in names:
            self._index.setdefault(name, len(self._index))
        return len(self._index) > before

    def of(self, name: str) -> int | None:
        """Column of a resource; None when no node ever offered it."""
        return self._index.get(name)

    def know(self, values: Iterable[tuple[str, int]]) -> bool:
        """True when each of these has a column, or is fitted on cards."""
        return all(name in self._index or name in BESIDE_NODES for name, _ in values)

    def sums(self, values: npt.NDArray[np.int64]) -> dict[str, int]:
        """The sum of each column of (rows x resources), which may be narrower or wider than what is named."""
        return {name: exact_sum(values[:, column]) for column, name in enumerate(self.names[: values.shape[1]])}

    def row(self, values: Iterable[tuple[str, int]]) -> Row:
        """The amounts as one row of as many columns as there are; what has no column is left out."""
        row = np.zeros(len(self._index), dtype=np.int64)
        for name, value in values:
            column = self._index.get(name)
            if column is not None:
                row[column] = value
        return row


def add(sums: dict[str, int], values: Iterable[tuple[str, int]], number: int = 1) -> None:
    """Add the amounts so many times to sums by name."""
    for name, amount in values:
        sums[name] = sums.get(name, 0) + number * amount


@lru_cache(maxsize=1024)
def parts_of(name: str) -> int:
    """Parts of a GPU that one piece of a resource is; 0 for what is no GPU.

    A MIG instance is its compute slices of the seven, or four, into which its GPU can be cut; one whose name says
    nothing of them is a whole GPU.
    """
    if name == GPU:
        return GPU_PARTS
    if not name.startswith(MIG):
        return 0
    profile = _MIG_PROFILE.fullmatch(name.removeprefix(MIG))
    if profile is None:
        return GPU_PARTS
    slices = 4 if f"{profile['slices']}g.{profile['memory']}" in _OF_FOUR else 7
    return GPU_PARTS * int(profile["compute"] or profile["slices"]) // slices


def parts_in(amounts: Iterable[tuple[str, int]]) -> int:
    """Parts of GPUs that these amounts are, of whole GPUs and of MIG instances."""
    return sum(parts_of(name) * amount for name, amount in amounts)


def with_shares(sums: dict[str, int]) -> dict[str, int]:
    """Sums of what there is, GPUs and MIG instances also as what queues charge that charge by share."""
    parts = parts_in(sums.items())
    return sums | {GPU_SHARE: parts} if parts else sums


def told(name: str, **amounts: int) -> tuple[tuple[str, str | int], ...]:
    """A resource and amounts of it in the words of an answer: parts of GPUs as GPUs."""
    if name != GPU_SHARE:
        return (("resource", name), *amounts.items())
    return (("resource", GPU), *((what, gpus(amount)) for what, amount in amounts.items()))


def gpus(parts: int) -> str | int:
    """GPUs of so many parts: a number, or a decimal of two places."""
    whole, part = divmod((200 * parts + GPU_PARTS) // (2 * GPU_PARTS), 100)
    return f"{whole}.{part:02}".rstrip("0") if part else whole


def exact_sum(values: Row) -> int:
    """Sum as a Python integer: 10^5 amounts of the largest size leave int64."""
    return (int((values >> 31).sum()) << 31) + int((values & (2**31 - 1)).sum())
