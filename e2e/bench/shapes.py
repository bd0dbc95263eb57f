"""What is submitted: shapes of gangs, in the dialect of each system.

Takes a shape, a system and a run's number; gives objects to create, in order. Must not talk to a server.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from e2e import objects

Object = dict[str, Any]
NAMESPACE = "bench"
MUSTER, NATIVE, PLAIN = "muster", "native-gang", "kube-scheduler"
SYSTEMS = (PLAIN, NATIVE, MUSTER)
_CPU, _MEMORY = "4", "16Gi"


@dataclasses.dataclass(frozen=True)
class Shape:
    """So many groups of so many pods of `gpus` GPUs each. `launcher`: the first pod of a group has no GPU but more CPU.

    `groups_last`: pods are created before their group's object. `gang` False: pods without any group. `queue` is named
    to Muster alone.
    """

    name: str
    groups: int
    size: int
    gpus: int = 1
    gang: bool = True
    launcher: bool = False
    groups_last: bool = False
    queue: str = "default"

    @property
    def pods(self) -> int:
        """Number of pods."""
        return self.groups * self.size


SHAPES = (
    Shape("1x1024", 1, 1024),
    Shape("64x16", 64, 16),
    Shape("1000x1", 1000, 1, gang=False),
    Shape("16x(1+63)", 16, 64, launcher=True, groups_last=True),
)
BY_NAME = {shape.name: shape for shape in SHAPES}


def group_objects(shape: Shape, system: str, prefix: str) -> list[Object]:
    """The group objects; none for a system or shape without gangs."""
    if not shape.gang or system == PLAIN:
        return []
    source = "native" if system == NATIVE else "muster"
    tasks = {"launcher": 1, "worker": shape.size - 1} if shape.launcher else None
    return [
        objects.pod_group(source, f"{prefix}{number}", NAMESPACE, shape.size, tasks=tasks)
        for number in range(shape.groups)
    ]


def pod_objects(shape: Shape, system: str, prefix: str) -> Iterator[Object]:
    """The pods, group by group."""
    for number in range(shape.groups):
        for index in range(shape.size):
            yield _pod(shape, system, f"{prefix}{number}", index)


def _pod(shape: Shape, system: str, group: str, index: int) -> Object:
    launches = shape.launcher and index == 0
    return objects.pod(
        f"{group}-{index}",
        NAMESPACE,
        0 if launches else shape.gpus,
        scheduler=MUSTER if system == MUSTER else "default-scheduler",
        group=group if shape.gang and system != PLAIN else "",
        source="native" if system == NATIVE else "muster",
        # pods that come before their group bear no queue: they are gated until the group is known
        queue=shape.queue if system == MUSTER and not shape.groups_last else "",
        task=("launcher" if launches else "worker") if shape.launcher else "",
        cpu="8" if launches else _CPU,
        memory=_MEMORY,
        labels={"bench": "1"},
    )
