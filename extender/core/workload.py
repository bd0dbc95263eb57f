"""Which shapes of pods that ask for GPUs there are, and how many of each: the workload that has been seen.

Takes pods as they come and go, gives the most frequent shapes, and what pods without GPUs ask for; must not know nodes.
Pods count as long as they wait or run, those of other schedulers too. All of it follows from the pods, so nothing is
lost by a restart.
"""

from __future__ import annotations

from collections import Counter

from extender.core.model import Pod, Shape
from extender.core.resources import CPU, GPU, MEMORY, Amounts, amounts

#: so many shapes stand for all
MOST = 64
#: what was told holds until so many pods, or this part of all, came or went
_SLACK = 16
_SLACK_PART = 16

#: shapes with how many pods there are of each
Typical = tuple[tuple[Shape, int], ...]


class Workload:
    """How many pods there are of each shape that asks for GPUs, and what all others ask of CPU and memory."""

    def __init__(self) -> None:
        #: what pods without GPUs ask of CPU and memory, as of when the typical shapes were told last; where these are
        #: not all that ask for GPUs, it is the part that belongs to them
        self.others: Amounts = ()
        self._count: Counter[Shape] = Counter()
        self._others: Counter[str] = Counter()
        self._total = 0
        self._changes = 0
        self._typical: Typical = ()
        #: how many changes there may be until it is told anew
        self._until = 0

    def add(self, pod: Pod) -> None:
        """There is a pod more."""
        self._change(pod, 1)

    def remove(self, pod: Pod) -> None:
        """A pod that was added is there no more."""
        self._change(pod, -1)

    def _change(self, pod: Pod, sign: int) -> None:
        if pod.ended:
            return
        asked = dict(pod.shape.request)
        if GPU in asked:
            self._count[pod.shape] += sign
            if not self._count[pod.shape]:
                del self._count[pod.shape]
        else:
            for name in (CPU, MEMORY):
                self._others[name] += sign * asked.get(name, 0)
        self._total += sign
        self._changes += 1

    def typical(self) -> Typical:
        """The most frequent shapes, lately: the same object until enough has changed."""
        if self._changes >= self._until:
            most = tuple(sorted(self._count.items(), key=lambda one: (-one[1], one[0].request))[:MOST])
            told, all_of_them = sum(number for _, number in most), self._count.total()
            others = amounts({name: amount * told // (all_of_them or 1) for name, amount in self._others.items()})
            if (most, others) != (self._typical, self.others):
                self._typical, self.others = most, others
            self._until = self._changes + min(max(1, self._total // _SLACK_PART), _SLACK * (len(self._count) + 1))
        return self._typical
