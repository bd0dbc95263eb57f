"""Where members of groups stood that are gone: their replacements go back there when they can.

Takes members as they leave, gives nodes; must not decide. A replacement bears the task and the index of its
predecessor; of a task without indexes each is the replacement of any, and the newest place comes first. Nothing of
this survives a restart: what stands of the group, and objects of failed pods, still say where it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.core.ids import GroupKey, NodeName, TaskName
from extender.core.model import Pod

#: of each group the newest so many are remembered
REMEMBERED = 1_000


class Homes:
    """The places of all groups, those that were left last at the end."""

    def __init__(self) -> None:
        self._left: dict[GroupKey, dict[str, Pod]] = {}

    def left(self, pod: Pod) -> None:
        """A member has no pod any more."""
        if pod.node is None or pod.succeeded or pod.group.lone:
            return
        left = self._left.setdefault(pod.group, {})
        left.pop(pod.name, None)
        left[pod.name] = pod
        if len(left) > REMEMBERED:
            del left[next(iter(left))]

    def forget(self, key: GroupKey) -> None:
        """Nobody of the group is left."""
        self._left.pop(key, None)

    def of(self, key: GroupKey, leaving: Iterable[Pod]) -> dict[tuple[TaskName, tuple[int, ...]], NodeName]:
        """The place of each task and index; `leaving` are pods that are still there and will be replaced."""
        found = {}
        for pod in (*self._left.get(key, {}).values(), *leaving):
            if pod.node is not None:
                found[pod.task, pod.index] = pod.node
        return found
