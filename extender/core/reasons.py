"""The closed sets of reasons: why a group waits, why a pod is evicted, what becomes of an overcommitted node.

Takes nothing, gives values; must not make sentences with numbers in them: kube-scheduler writes the
text of a rejected pod into its PodScheduled condition, and a changing text requeues the pod for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: pairs of a name and a number or word, in an order that reads well
Detail = tuple[tuple[str, str | int], ...]


class Kind(StrEnum):
    """What will end the wait."""

    WAIT = "wait"  # changes by itself: others finish, members appear
    NEVER = "never"  # needs a person
    FAULT = "fault"  # ours: not synced, not active


class Reason(StrEnum):
    """Why a group does not run yet. Used as verb text, condition reason, metric label and answer."""

    QUEUE_NOT_FOUND = "QueueNotFound"  # there is no queue of the name that the group gives
    QUEUE_INVALID = "QueueInvalid"  # the queue, or one above it, is wrong or missing
    QUEUE_NOT_LEAF = "QueueNotLeaf"  # groups wait in queues with none below them
    QUEUE_CLOSED = "QueueClosed"  # the queue, or one above it, is closed
    NAMESPACE = "NamespaceNotAllowed"  # the queue does not serve the group's namespace
    QUOTA = "QuotaExceeded"  # would pass the capability of the queue or of one above it
    RESERVED = "ReservedForOthers"  # the room is there, and is kept for those it was promised to
    RESERVED_FOR_HEAD = "ReservedForHead"  # it would fit, but then the first that waits would start later
    FIRM = "NonPreemptibleOverQuota"  # may not be evicted, so it may not borrow, and its queue owns too little
    VICTIMS = "WaitingForVictims"  # its room is being freed: those that must go have not left yet
    NO_VICTIMS = "NoEligibleVictims"  # room could be freed, but those that would have to go are protected
    QUEUED = "Queued"  # waits in its queue: groups before it, or not looked at yet
    RESOURCES = "InsufficientResources"  # not enough free, in quantity or on any fitting nodes
    FRAGMENTED = "Fragmented"  # enough free in sum, but no placement exists
    DEVICE_NO_FIT = "DeviceNoFit"  # a node has the slots, but no card the memory or the cores
    DEVICE_UNHEALTHY = "DeviceUnhealthy"  # would fit if the cards that are out of use were in use
    NODE_UNAVAILABLE = "NodeUnavailable"  # would fit if the nodes that take no pods now took some
    TOPOLOGY = "TopologyUnsatisfied"  # room exists, but in no single domain of the required level
    UNLABELLED = "TopologyUnlabelled"  # room exists on nodes that lack a label of the required level
    CONSTRAINTS = "NoMatchingNode"  # selector, affinity or taints leave no node
    SIBLING = "GangWaiting"  # of a member that could run: another one of its group cannot
    MEMBERS = "WaitingForMembers"  # fewer members exist than the minimum, and the rest stay away
    GROUP_NOT_FOUND = "GroupNotFound"  # a mark whose object is missing
    INVALID = "InvalidRequest"  # contradictory or malformed request
    SCHEDULER_REFUSED = "RefusedByScheduler"  # kube-scheduler's own checks refused the plan
    HELD_ELSEWHERE = "StartingUp"  # placed; its members are on their way
    STAYS_SUSPENDED = "StaysSuspended"  # its turn has come, but what makes its pods could not be let go
    EVICTING = "BeingEvicted"  # all its members are being evicted: new ones start when the old ones have gone
    NOT_READY = "NotReady"  # Muster has not listed the cluster yet
    INACTIVE = "NotActive"  # this replica does not act


KIND_OF: dict[Reason, Kind] = {
    Reason.QUEUE_NOT_FOUND: Kind.NEVER,
    Reason.QUEUE_INVALID: Kind.NEVER,
    Reason.QUEUE_NOT_LEAF: Kind.NEVER,
    Reason.QUEUE_CLOSED: Kind.NEVER,
    Reason.NAMESPACE: Kind.NEVER,
    Reason.QUOTA: Kind.WAIT,
    Reason.RESERVED: Kind.WAIT,
    Reason.RESERVED_FOR_HEAD: Kind.WAIT,
    Reason.FIRM: Kind.WAIT,
    Reason.VICTIMS: Kind.WAIT,
    Reason.NO_VICTIMS: Kind.WAIT,
    Reason.QUEUED: Kind.WAIT,
    Reason.RESOURCES: Kind.WAIT,
    Reason.FRAGMENTED: Kind.WAIT,
    Reason.DEVICE_NO_FIT: Kind.WAIT,
    Reason.DEVICE_UNHEALTHY: Kind.WAIT,
    Reason.NODE_UNAVAILABLE: Kind.WAIT,
    Reason.TOPOLOGY: Kind.WAIT,
    Reason.UNLABELLED: Kind.WAIT,
    Reason.CONSTRAINTS: Kind.NEVER,
    Reason.SIBLING: Kind.WAIT,
    Reason.MEMBERS: Kind.WAIT,
    Reason.GROUP_NOT_FOUND: Kind.WAIT,
    Reason.INVALID: Kind.NEVER,
    Reason.SCHEDULER_REFUSED: Kind.WAIT,
    Reason.HELD_ELSEWHERE: Kind.WAIT,
    Reason.STAYS_SUSPENDED: Kind.NEVER,
    Reason.EVICTING: Kind.WAIT,
    Reason.NOT_READY: Kind.FAULT,
    Reason.INACTIVE: Kind.FAULT,
}


#: reasons that room would end: they close the queue for ungated pods
FOR_ROOM = frozenset(
    {
        *(Reason.RESOURCES, Reason.FRAGMENTED, Reason.TOPOLOGY, Reason.UNLABELLED, Reason.QUEUED),
        *(Reason.DEVICE_NO_FIT, Reason.DEVICE_UNHEALTHY, Reason.NODE_UNAVAILABLE),
        *(Reason.QUOTA, Reason.RESERVED, Reason.RESERVED_FOR_HEAD),
        *(Reason.VICTIMS, Reason.NO_VICTIMS, Reason.FIRM),
    }
)
#: those of them for which room on nodes is held back. Others wait for quota, or their room is being freed; and who
#: would take what is kept for a head could not use it, while others may end before that one starts
HELD_BACK = FOR_ROOM - {Reason.QUOTA, Reason.FIRM, Reason.VICTIMS, Reason.RESERVED_FOR_HEAD}

#: name of the detail that tells which member of its group cannot run
MEMBER = "member"
#: and that the group is missing because the object is that makes its pods
MAKER = "maker"
#: name of the detail that tells a second reason, which would stand if the first were gone
ALSO = "also"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a group was not placed, with the numbers that caused it.

    `detail` is small and ordered: pairs of a name ("asked", "free", "resource", "level", "plugin",
    "message", ...) and a value. It is for answers and status; never for the verb's text.
    """

    reason: Reason
    detail: Detail = ()

    @property
    def reasons(self) -> frozenset[str]:
        """The reason, and the second one if there is one."""
        return frozenset({self.reason.value, *(str(value) for name, value in self.detail if name == ALSO)})

    @property
    def kind(self) -> Kind:
        """What will end this wait."""
        return KIND_OF[self.reason]


class Ground(StrEnum):
    """Why a bound pod was evicted. Used as the reason of its Event, in its annotation, in answers and in logs."""

    RECLAIMED = "Reclaimed"  # another queue takes back what it deserves
    PREEMPTED = "Preempted"  # a group of higher priority in the same queue
    STALE = "BelowMinimum"  # its gang stayed below its minimum for longer than its queue bears

    OVERCOMMIT = "Overcommitted"  # bound at the same time as another scheduler's pod, to a node without room for both
    PARTIAL_RELEASE = "PartialRelease"  # others of its group could not be bound, and the minimum was not reached

    # not by us: reasons of the pod's condition DisruptionTarget
    SCHEDULER = "PreemptionByScheduler"  # a scheduler made room for a pod of higher priority
    TAINT = "DeletionByTaintManager"  # its node got a taint with the effect NoExecute
    API = "EvictionByEvictionAPI"  # somebody called the Eviction API, as a drain does
    NODE_GONE = "DeletionByPodGC"  # its node does not exist any more, or is out of service
    KUBELET = "TerminationByKubelet"  # its node was short of something, or was shut down
    OTHERS = "DisruptedByOthers"  # for another reason, which the record names


#: the grounds on which others evict
NOT_OURS = frozenset({Ground.SCHEDULER, Ground.TAINT, Ground.API, Ground.NODE_GONE, Ground.KUBELET, Ground.OTHERS})


@dataclass(frozen=True, slots=True)
class Evicted:
    """What stands on a pod of its eviction: by which rule, when, and what else is known of it. It is a fact when the
    pod leaves."""

    ground: Ground
    #: seconds since the epoch; 0 when nothing says it
    at: float
    detail: Detail = ()


class Overcommit(StrEnum):
    """What becomes of a node on which more is bound than it has."""

    SETTLING = "Settling"  # the kubelet, or the other side, may still solve it
    LEAVING = "Leaving"  # it fits once those that are leaving have gone
    NOT_BY_BINDING = "NotByBinding"  # no concurrent binding of others explains it: nobody is evicted for it
    KEPT = "NothingMayGo"  # no pods of ours that may be evicted make it fit
    REFUSED = "EvictionRefused"  # an eviction was refused, by a disruption budget for one
