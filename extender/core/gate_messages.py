"""Events that enter the permit gate and effects that leave it, beside the world events of `messages`.

Takes nothing, gives frozen data; must not hold behaviour. Every effect that asks something (ReadPod,
ReadGroup, AskRelease, Bind, Evict) is answered by exactly one event, also when it failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from extender.core.ids import GroupKey, NodeName, PodUid
from extender.core.messages import ActivityChanged, Evict, Tick, WorldEvent
from extender.core.model import Group, Pod

#: number of one bind call, given by the shell and never used again
CallId = NewType("CallId", int)


class Why(StrEnum):
    """Texts with which held calls are refused. Constant, because each becomes an event on the pod."""

    NOT_ACTIVE = "muster: this replica does not act"
    NOT_READY = "muster: the permit gate has not listed the cluster yet"
    STOPPING = "muster: the permit gate is stopping"
    SUPERSEDED = "muster: a newer bind call for this pod came"
    POD_GONE = "muster: the pod is gone"
    POD_UNREAD = "muster: the pod is not known yet and could not be read"
    POD_OTHER = "muster: the uid belongs to a pod of another name"
    POD_LEAVING = "muster: the pod is being deleted"
    POD_ENDED = "muster: the pod has ended"
    POD_GATED = "muster: the pod has scheduling gates"
    POD_REGROUPED = "muster: the pod has changed its group"
    NODE_GONE = "muster: the node is gone"
    NODE_CLOSED = "muster: the node is cordoned or not ready"
    NO_ROOM = "muster: the node has no room for the pod any more"
    INVALID = "muster: the pod group's requests are contradictory"
    INCOMPLETE = "muster: the pod group was not complete in time"
    TOO_FEW = "muster: too few members of the pod group are left"
    WITHDRAWN = "muster: the plan of the pod group was withdrawn"


#: named condition of pods that a stuck release left behind and that nobody would replace
PARTIAL_GROUP = "PartialGroup"
PARTIAL_TEXT = (
    "bound while other members of its group could not be; left running because no controller would replace it"
)

# --- events ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HoldCalled:
    """kube-scheduler asks to bind this pod to this node, and waits for the answer."""

    call: CallId
    uid: PodUid
    namespace: str
    name: str
    node: NodeName


@dataclass(frozen=True, slots=True)
class CallClosed:
    """The scheduler no longer waits for this call: its connection is gone."""

    call: CallId


@dataclass(frozen=True, slots=True)
class Synced:
    """Every watch has been listed once: what is not known now does not exist, or is newer."""


@dataclass(frozen=True, slots=True)
class PodRead:
    """Answer to ReadPod: the live pod of that name, or None when there is none."""

    uid: PodUid
    pod: Pod | None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class GroupRead:
    """Answer to ReadGroup: the live object, or None when there is none."""

    key: GroupKey
    ask: int
    group: Group | None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class ReleaseAnswered:
    """Answer to AskRelease. A member's annotations, or None for a veto; no mapping when nobody answered."""

    key: GroupKey
    ask: int
    answers: Mapping[PodUid, Mapping[str, str] | None] | None


@dataclass(frozen=True, slots=True)
class BindDone:
    """Answer to Bind: proved when `error` is empty. `gone` when the API server says so of the pod."""

    uid: PodUid
    error: str = ""
    gone: bool = False


@dataclass(frozen=True, slots=True)
class EvictDone:
    """Answer to Evict: taken when `error` is empty, or the pod is gone already."""

    uid: PodUid
    error: str = ""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The extender asks that the held calls of these pods be refused: their plan is gone."""

    uids: tuple[PodUid, ...]


@dataclass(frozen=True, slots=True)
class Stopping:
    """The process is about to end: refuse what is held, finish what is being bound."""


GateEvent = (
    WorldEvent
    | HoldCalled
    | CallClosed
    | Synced
    | PodRead
    | GroupRead
    | ReleaseAnswered
    | BindDone
    | EvictDone
    | Withdrawn
    | ActivityChanged
    | Stopping
    | Tick
)

# --- effects ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a held call; an empty error is a success, and always proved."""

    call: CallId
    error: str


@dataclass(frozen=True, slots=True)
class ReadPod:
    """Read a pod live that the watch does not show, or shows too old."""

    uid: PodUid
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ReadGroup:
    """Read the group's object live: its minimum may have been raised."""

    key: GroupKey
    ask: int


@dataclass(frozen=True, slots=True)
class Member:
    """A held member that may be bound next."""

    uid: PodUid
    namespace: str
    name: str
    node: NodeName


@dataclass(frozen=True, slots=True)
class AskRelease:
    """Ask the extender for each member's Binding annotations, or a veto."""

    key: GroupKey
    ask: int
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind a pod, and prove it."""

    uid: PodUid
    namespace: str
    name: str
    node: NodeName
    annotations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class StateCondition:
    """Write a named condition on a pod."""

    uid: PodUid
    namespace: str
    name: str
    reason: str
    text: str


GateEffect = Answer | ReadPod | ReadGroup | AskRelease | Bind | Evict | StateCondition
