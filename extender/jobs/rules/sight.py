"""Which pods are whose: those that count as members now, those of before a restart, and those that are too many.

Takes a job and pods, gives them sorted out; must not decide. A pod counts for a member when it has the member's name,
was made for this Job object, and is not older than the member's last restart: what is older we are deleting ourselves,
so that its end is no event (Volcano's issue 4814).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from extender.jobs.rules.model import Job, PodPhase, PodState, Record, Slot
from extender.jobs.rules.plugins.hosts import pod_name

#: a pod in one of these does, or will do, something
_LIVE = (PodPhase.PENDING, PodPhase.RUNNING, PodPhase.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Sight:
    """The pods of a job, sorted out under one record."""

    #: all pods of this Job object, by name
    own: tuple[PodState, ...]
    #: the pod of a member
    members: Mapping[Slot, PodState]
    #: of before a restart of the member
    stale: tuple[PodState, ...]
    #: of no member: above the replicas, or of no task
    surplus: tuple[PodState, ...]
    #: names that are taken, by whosever pods
    names: frozenset[str]

    def live(self) -> Iterable[PodState]:
        """Pods of the job that are still there to end, those that are being deleted included."""
        return (pod for pod in self.own if pod.deleting or pod.phase in _LIVE)


def is_live(pod: PodState) -> bool:
    """Whether a pod does or will do something."""
    return pod.phase in _LIVE and not pod.deleting


def look(job: Job, pods: Iterable[PodState], record: Record) -> Sight:
    """Sort out the pods of a job."""
    everyone = sorted(pods, key=lambda pod: (pod.name, pod.uid))
    own = tuple(pod for pod in everyone if pod.owner_uid == job.uid)
    members: dict[Slot, PodState] = {}
    stale, surplus = [], []
    replicas = {task.name: task.replicas for task in job.spec.tasks}
    for pod in own:
        slot = (pod.task, pod.index)
        if not 0 <= pod.index < replicas.get(pod.task, 0) or pod.name != pod_name(job.name, *slot):
            surplus.append(pod)
        elif pod.version < floor_of(record, slot) or slot in members:
            stale.append(pod)
        else:
            members[slot] = pod
    return Sight(own, members, tuple(stale), tuple(surplus), frozenset(pod.name for pod in everyone))


def floor_of(record: Record, slot: Slot) -> int:
    """The version that the pod of a member must have at least."""
    loss = record.losses.get(slot)
    return max(record.floors.get(slot[0], 0), loss.floor if loss is not None else 0)
