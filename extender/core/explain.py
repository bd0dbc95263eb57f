"""Sentences, made at the edge only: one constant text for each reason.

Takes a reason, gives words; must not contain a number or a time: kube-scheduler writes the text into the
pod's condition, and a text that changes requeues the pod for ever (design 3.4).
"""

from __future__ import annotations

from extender.core.ids import NO_TASK
from extender.core.model import Pod
from extender.core.reasons import MAKER, MEMBER, Detail, Ground, Reason, Refusal

#: as in `0/200 nodes are available: 200 waiting in its queue`
TEXT: dict[Reason, str] = {
    Reason.QUEUE_NOT_FOUND: "the queue that the group names does not exist",
    Reason.QUEUE_INVALID: "the group's queue, or one above it, is invalid",
    Reason.QUEUE_NOT_LEAF: "the group's queue has queues below it, and groups wait in the lowest only",
    Reason.QUEUE_CLOSED: "the group's queue, or one above it, is closed",
    Reason.NAMESPACE: "the group's queue does not serve its namespace",
    Reason.QUOTA: "the group would exceed the capability of its queue or of one above it",
    Reason.RESERVED: "the free room is kept for others, to whom it is promised",
    Reason.RESERVED_FOR_HEAD: "the free room is kept for a group that waits before this one",
    Reason.FIRM: "the group may not be preempted, and its queue owns too little for all such work",
    Reason.VICTIMS: "room is being freed for the group, and the evicted pods have not left yet",
    Reason.NO_VICTIMS: "room could be freed for the group, but the pods in question are protected",
    Reason.QUEUED: "waiting in its queue",
    Reason.RESOURCES: "not enough free resources for the whole group",
    Reason.FRAGMENTED: "free resources are too scattered for the whole group",
    Reason.DEVICE_NO_FIT: "no card has the memory and cores that are asked for, on nodes that have the slots",
    Reason.DEVICE_UNHEALTHY: "cards on which there would be room are out of use",
    Reason.NODE_UNAVAILABLE: "nodes on which there would be room take no pods now",
    Reason.TOPOLOGY: "no single domain of the required topology level has room for the group",
    Reason.UNLABELLED: "nodes with room for the group lack a label of the required topology level",
    Reason.CONSTRAINTS: "no node matches the group's selectors and tolerations",
    Reason.SIBLING: "waiting for a member of its group that no node can take",
    Reason.MEMBERS: "waiting for the group's other members to be created",
    Reason.GROUP_NOT_FOUND: "the pod group that this pod names does not exist",
    Reason.INVALID: "the pod group's request is invalid",
    Reason.SCHEDULER_REFUSED: "kube-scheduler's own checks refused the group's placement",
    Reason.HELD_ELSEWHERE: "planned on another node",
    Reason.STAYS_SUSPENDED: "the group's turn has come, but the object that makes its pods could not be unsuspended",
    Reason.EVICTING: "the group is being evicted as a whole, to start anew",
    Reason.NOT_READY: "muster has not read the cluster yet",
    Reason.INACTIVE: "this muster replica is not active",
}

#: reasons that a person is told in other words than kube-scheduler
_TOLD: dict[Reason, str] = {
    Reason.HELD_ELSEWHERE: "has its places, and its members are on their way to them",
}

#: and when what is missing is no group's object but that which makes the pods
_NO_MAKER = "the object that makes this pod does not exist, or was not seen yet"
_NO_MAKER_MEND = (
    "that object is there; when it was deleted for good, delete what it left: these pods, and the Jobs or StatefulSets "
    "that make them"
)

#: how "it starts when ..." goes on
MENDS: dict[Reason, str] = {
    Reason.QUEUE_NOT_FOUND: "the queue is created, or the group names one that exists",
    Reason.QUEUE_INVALID: "the queue is mended: its condition Valid says what is wrong",
    Reason.QUEUE_NOT_LEAF: "the group names a queue that has none below it",
    Reason.QUEUE_CLOSED: "the queue is opened, or the group names another one",
    Reason.NAMESPACE: "the queue serves the namespace, or the group names another queue",
    Reason.QUOTA: "the queue uses so much less, or may use so much more",
    Reason.RESERVED: "those for whom the room is kept start, or need it no more",
    Reason.RESERVED_FOR_HEAD: "the group before it starts, or this one declares that it ends before that",
    Reason.FIRM: "the queue owns so much more, or the group may be preempted",
    Reason.VICTIMS: "the evicted pods have left",
    Reason.NO_VICTIMS: "the protected pods end, or may be evicted",
    Reason.QUEUED: "its turn comes: those before it are looked at first",
    Reason.RESOURCES: "so many more of its pods find room at the same time",
    Reason.FRAGMENTED: "so many more of its pods find room at the same time",
    Reason.DEVICE_NO_FIT: "one card has that much free",
    Reason.DEVICE_UNHEALTHY: "these cards are in use again",
    Reason.NODE_UNAVAILABLE: "these nodes take pods again",
    Reason.TOPOLOGY: "so many more of its pods find room at the same time, in one domain of the level",
    Reason.UNLABELLED: "the nodes get the label that they lack",
    Reason.CONSTRAINTS: "a node has what its selectors and tolerations ask for, or they ask for less",
    Reason.SIBLING: "the member that it waits for finds a node",
    Reason.MEMBERS: "so many more of its pods are created",
    Reason.GROUP_NOT_FOUND: "the pod group is created, or each pod says its minimum by an annotation",
    Reason.INVALID: "the request is mended",
    Reason.SCHEDULER_REFUSED: "kube-scheduler's own checks let it pass",
    Reason.HELD_ELSEWHERE: "its members are bound, which is under way",
    Reason.STAYS_SUSPENDED: "Muster may patch that object, which the component queue-by-suspension allows",
    Reason.EVICTING: "its old members have left",
    Reason.NOT_READY: "muster has read the cluster",
    Reason.INACTIVE: "the active replica is asked",
}

EVICTED: dict[Ground, str] = {
    Ground.RECLAIMED: "its queue had borrowed what another queue deserves, and that one takes it back",
    Ground.PREEMPTED: "a group of higher priority in the same queue takes its room",
    Ground.STALE: "its group stayed below its minimum for longer than its queue allows",
    Ground.OVERCOMMIT: "another scheduler bound a pod to the same node at the same time, and both do not fit",
    Ground.PARTIAL_RELEASE: "bound while other members of its group could not be",
    Ground.SCHEDULER: "not by Muster: a scheduler preempted it for a pod of higher priority",
    Ground.TAINT: "not by Muster: its node got a taint that it does not tolerate",
    Ground.API: "not by Muster: somebody evicted it, as a drain of its node does",
    Ground.NODE_GONE: "not by Muster: its node is gone",
    Ground.KUBELET: "not by Muster: its kubelet ended it: the node was short of something, or was shut down",
    Ground.OTHERS: "not by Muster: it leaves before its end",
}


def is_ours(message: str) -> bool:
    """True when a pod's rejection contains one of our sentences."""
    return any(text in message for text in TEXT.values())


def of_member(refusal: Refusal, pod: Pod) -> Refusal:
    """Why this pod waits, by the refusal of its group: where another task's member blocks it, it waits for that one."""
    detail = dict(refusal.detail)
    name, task = detail.get(MEMBER), detail.get("task", NO_TASK)
    if name is None or pod.task == task:
        return refusal
    return Refusal(Reason.SIBLING, ((MEMBER, name), ("reason", refusal.reason.value)))


def sentence(refusal: Refusal) -> str:
    """The reason in words with its numbers, for status and answers; never for a verb's text."""
    told = _NO_MAKER if _lacks_maker(refusal.reason, refusal.detail) else _TOLD.get(refusal.reason)
    return _with_numbers(told or TEXT[refusal.reason], refusal.detail)


def mend(reason: Reason, detail: Detail) -> str:
    """What would end a wait for this reason, in words with the numbers: it starts when ..."""
    return _with_numbers(_NO_MAKER_MEND if _lacks_maker(reason, detail) else MENDS[reason], detail)


def why_evicted(ground: Ground, detail: Detail) -> str:
    """Why a pod was evicted, in words with the numbers, for its Event and the log."""
    return _with_numbers(EVICTED[ground], detail)


def _lacks_maker(reason: Reason, detail: Detail) -> bool:
    return reason is Reason.GROUP_NOT_FOUND and any(name == MAKER for name, _ in detail)


def _with_numbers(text: str, detail: Detail) -> str:
    numbers = ", ".join(f"{name} {value}" for name, value in detail)
    return f"{text} ({numbers})" if numbers else text
