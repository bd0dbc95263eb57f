"""Names of things, as distinct types, so that two strings cannot be swapped.

Takes nothing, gives types only, must not hold logic beyond parsing a key.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, NewType

PodUid = NewType("PodUid", str)
NodeName = NewType("NodeName", str)
QueueName = NewType("QueueName", str)
TaskName = NewType("TaskName", str)

#: the queue of a pod that names none
DEFAULT_QUEUE = QueueName("default")
#: the task of a member that names none
NO_TASK = TaskName("")
#: the scheduling gate that our admission policy adds
QUEUE_GATE = "muster.dev/queue"
#: schedulerName of pods that are ours
SCHEDULER_NAME = "muster"
#: label of a pod: which restart of its whole job it is of, and which of its task, as two numbers with a dot between
#: that grow; what an older run did counts no more
RUN_LABEL = "muster.dev/run"


class Source(StrEnum):
    """Where a group is declared; the order is the order in which marks on a pod are looked at."""

    NATIVE = "native"  # spec.schedulingGroup.podGroupName, scheduling.k8s.io
    SCHEDULER_PLUGINS = "scheduler-plugins"  # label scheduling.x-k8s.io/pod-group
    VOLCANO = "volcano"  # annotation scheduling.k8s.io/group-name
    MUSTER = "muster"  # label muster.dev/pod-group
    KUEUE = "kueue"  # label kueue.x-k8s.io/pod-group-name; there is no object, its pods say how many they are
    OWNER = "owner"  # no mark, but the object that made the pod says who stands together (see `makers`)
    POD = "pod"  # no mark: the pod alone; name is the pod's uid

    # Enum's own hash is a Python function, and group keys are looked up for every event
    __hash__ = str.__hash__


class GroupKey(NamedTuple):
    """Identity of a pod group; for lone pods `name` is the pod's uid, so that names may be reused."""

    source: Source
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.source}/{self.namespace}/{self.name}"

    @property
    def lone(self) -> bool:
        """True for a pod that belongs to no declared group."""
        return self.source is Source.POD

    @property
    def told(self) -> bool:
        """True when its object, if it has one, is there to say what becomes of the group. Makers of pods are not."""
        return self.source is not Source.OWNER
