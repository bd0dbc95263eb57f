"""Events that enter the engine and effects that leave it: frozen data, never callbacks.

The shell turns watch changes and calls into events, and carries effects out; the outcome of an effect
that matters comes back as an event. `cause` follows one event to its effects and log lines.
"""

from __future__ import annotations

from dataclasses import dataclass

from extender.core.ids import GroupKey, NodeName, PodUid, QueueName, Source
from extender.core.model import Budget, Group, Hold, HyperNode, Node, Pod, Queue, QueueStatus, Span, Topology
from extender.core.reasons import Detail, Ground, Refusal
from extender.core.resources import Amounts
from extender.core.switches import Switch

# --- events: what the watches show (shared with the permit gate) -----------------------------------


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod was added or changed; the newest state of it that our watch has."""

    pod: Pod
    #: the planned pod that stood for it, and will be gone next (see `suspended`)
    instead_of: PodUid | None = None


@dataclass(frozen=True, slots=True)
class PodGone:
    """The pod with this uid no longer exists."""

    uid: PodUid


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node was added or changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node was deleted."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A group object was added or changed."""

    group: Group


@dataclass(frozen=True, slots=True)
class GroupGone:
    """A group object was deleted."""

    key: GroupKey


@dataclass(frozen=True, slots=True)
class TopologySeen:
    """A Topology object was added or changed."""

    topology: Topology


@dataclass(frozen=True, slots=True)
class TopologyGone:
    """A Topology object was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class HyperNodeSeen:
    """A HyperNode was added or changed."""

    hypernode: HyperNode


@dataclass(frozen=True, slots=True)
class HyperNodeGone:
    """A HyperNode was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """A Queue object was added or changed."""

    queue: Queue


@dataclass(frozen=True, slots=True)
class QueueGone:
    """A Queue object was deleted."""

    source: Source
    name: QueueName


@dataclass(frozen=True, slots=True)
class BudgetSeen:
    """A disruption budget was added or changed."""

    budget: Budget


@dataclass(frozen=True, slots=True)
class BudgetGone:
    """A disruption budget was deleted."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class NamespaceSeen:
    """A namespace, the queue that its label names, if any, and whether all its pods count in queues."""

    name: str
    queue: QueueName | None
    managed: bool = False


@dataclass(frozen=True, slots=True)
class NamespaceGone:
    """A namespace was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class PriorityClassSeen:
    """A priority class was added or changed, with its value."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class PriorityClassGone:
    """A priority class was deleted."""

    name: str


WorldEvent = (
    PodSeen
    | PodGone
    | NodeSeen
    | NodeGone
    | GroupSeen
    | GroupGone
    | TopologySeen
    | TopologyGone
    | HyperNodeSeen
    | HyperNodeGone
    | QueueSeen
    | QueueGone
    | BudgetSeen
    | BudgetGone
    | NamespaceSeen
    | NamespaceGone
    | PriorityClassSeen
    | PriorityClassGone
)

# --- events: calls and results ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilterCalled:
    """kube-scheduler asks where this pod may go. `offered` are the nodes that its own checks left.

    The pod may be ahead of our watch. One offered node that is the pod's nominated node is the first pass
    of a nominated pod: nothing may be concluded from it about other nodes.
    """

    pod: Pod
    offered: tuple[NodeName, ...]


@dataclass(frozen=True, slots=True)
class FilterRejected:
    """The published view was enough to reject this pod: it must be woken when its group is admitted."""

    uid: PodUid


@dataclass(frozen=True, slots=True)
class HoldsSeen:
    """The whole list of bind calls held at the gate, newest known state."""

    holds: tuple[Hold, ...]


@dataclass(frozen=True, slots=True)
class ActivityChanged:
    """This replica begins or ceases to act (it holds the scheduler's lease, or lost it)."""

    active: bool


@dataclass(frozen=True, slots=True)
class OpenQueuesSeen:
    """The list of open queues as it stands in the ConfigMap; None when the ConfigMap is missing."""

    names: frozenset[QueueName] | None


@dataclass(frozen=True, slots=True)
class EffectDone:
    """An effect was carried out, or (with `error`) could not be: the engine decides again."""

    effect: Effect
    error: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed, or the shell has drained its inbox: run a cycle if anything asks for one."""


EngineEvent = (
    WorldEvent | FilterCalled | FilterRejected | HoldsSeen | ActivityChanged | OpenQueuesSeen | EffectDone | Tick
)

# --- effects ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ungate:
    """Remove our scheduling gate from a pod."""

    uid: PodUid
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Nominate:
    """Write (or with None clear) status.nominatedNodeName of a pod."""

    uid: PodUid
    namespace: str
    name: str
    node: NodeName | None


@dataclass(frozen=True, slots=True)
class Wake:
    """Patch an annotation of a rejected pod, so that kube-scheduler looks at it again."""

    uid: PodUid
    namespace: str
    name: str
    token: str


@dataclass(frozen=True, slots=True)
class Suspend:
    """Have an object make its pods (`on` False), or stop them; at that time, in seconds since the epoch."""

    group: GroupKey
    switch: Switch
    on: bool
    at: float


@dataclass(frozen=True, slots=True)
class SetOpenQueues:
    """Write the list of queues whose new pods need no gate."""

    names: frozenset[QueueName]


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Ask the gate to answer the held calls of these pods with an error: their plan is gone."""

    uids: tuple[PodUid, ...]


@dataclass(frozen=True, slots=True)
class StateGroup:
    """Write a group's phase and reason into its object (and one Event when `event` is set)."""

    key: GroupKey
    uid: str
    phase: str
    refusal: Refusal | None
    generation: int
    initially_scheduled: bool
    #: counts (members, scheduled, succeeded, failed) at the time of writing
    counts: tuple[int, int, int, int]
    event: bool = True
    #: what it has of the network, once it runs
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class StateQueue:
    """Write the status of a queue of ours. `before` has the amounts that may stand in the object."""

    name: QueueName
    status: QueueStatus
    before: Amounts


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a pod as its disruption budgets allow, and tell why in an Event of it.

    `stop`: first suspend what made it, which else may count the eviction as a failure.
    """

    uid: PodUid
    namespace: str
    name: str
    ground: Ground
    detail: Detail = ()
    stop: Switch | None = None


@dataclass(frozen=True, slots=True)
class NoteEviction:
    """Write onto a group's object that members of it are evicted: by which rule, for whom, at what cost, and when.

    Of a pod that stands alone (`name`) an Event tells it: its own object says it already.
    """

    key: GroupKey
    uid: str
    ground: Ground
    at: float
    detail: Detail = ()
    name: str = ""


Effect = Ungate | Nominate | Wake | Suspend | SetOpenQueues | Withdraw | StateGroup | StateQueue | Evict | NoteEviction
