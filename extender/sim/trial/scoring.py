"""How kube-scheduler 1.37 scores hosts for a pod that states no wishes: the two plugins of which the score is not equal
on all hosts, with their default weights (1 each), in its integers.

Takes what is there and what is free, gives a score for each host; must not choose. After
pkg/scheduler/framework/plugins/noderesources: least_allocated, most_allocated, balanced_allocation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from extender.sim.trial.cluster import CPU, GPUS, MEMORY, Ints

_MOST = 100
Scores = Callable[[Ints, Ints, Ints], Ints]


def least_allocated(total: Ints, free: Ints, row: Ints) -> Ints:
    """The default: hosts with much CPU and memory left, and those that the pod balances better."""
    left = np.maximum(free - row, 0)
    return _mean(left, total, (CPU, MEMORY)) + _balance(total, free, row)


def most_allocated(total: Ints, free: Ints, row: Ints) -> Ints:
    """The strategy that packs, over CPU, memory and GPUs alike."""
    used = np.minimum(total - free + row, total)
    # an extended resource counts only for pods that ask for it
    columns = (CPU, MEMORY, GPUS) if row[GPUS] else (CPU, MEMORY)
    return _mean(used, total, columns) + _balance(total, free, row)


def _mean(amounts: Ints, total: Ints, columns: tuple[int, ...]) -> Ints:
    """The mean over the resources that a host has, rounded down."""
    there = total[:, columns] > 0
    shares = np.where(there, amounts[:, columns] * _MOST // np.maximum(total[:, columns], 1), 0)
    found: Ints = shares.sum(axis=1) // np.maximum(there.sum(axis=1), 1)
    return found


def _balance(total: Ints, free: Ints, row: Ints) -> Ints:
    """By how much the shares of CPU and memory that are used come closer: from 50, over 75 for no change, to 100."""
    after, before = _evenness(total, total - free + row), _evenness(total, total - free)
    return _MOST // 2 + (_MOST // 2 + after - before) // 2


def _evenness(total: Ints, used: Ints) -> Ints:
    columns = (CPU, MEMORY)
    shares = np.minimum(used[:, columns] / np.maximum(total[:, columns], 1), 1.0)
    apart = np.where((total[:, columns] > 0).all(axis=1), np.abs(shares[:, 0] - shares[:, 1]) / 2, 0.0)
    found: Ints = ((1 - apart) * _MOST).astype(np.int64)
    return found
