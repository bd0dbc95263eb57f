"""What the core knows of the cluster: immutable values made by `extender.wire` from API objects.

Takes nothing from I/O, gives frozen dataclasses, must not hold behaviour beyond small derived facts.
Times are seconds since the epoch (UTC); amounts are integers in base units (see resources).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from extender.core.ids import (
    NO_TASK,
    QUEUE_GATE,
    SCHEDULER_NAME,
    GroupKey,
    NodeName,
    PodUid,
    QueueName,
    Source,
    TaskName,
)
from extender.core.links import Links
from extender.core.reasons import Evicted
from extender.core.resources import Amounts
from extender.core.switches import Switch

#: state of a change of MIG layout: pending, rebooting, failed, success
MIG_STATE_LABEL = "nvidia.com/mig.config.state"
_MIG_DONE = "success"


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node that keeps pods off (NoSchedule or NoExecute; softer ones are not read)."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration as in core/v1; an empty key or effect matches all."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Expression:
    """One requirement of a node selector: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a required node affinity: all expressions on labels and on fields must hold."""

    labels: tuple[Expression, ...]
    fields: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Constraints:
    """Which nodes a pod accepts. `affinity` None = no required affinity; () = matches no node."""

    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class CardAsk:
    """What one container asks of each of so many different cards. Without `memory` (MiB) and `percent` it takes a
    card's whole memory; from 100 cores on the card is its own."""

    number: int
    memory: int | None = None
    percent: int | None = None
    cores: int = 0

    @property
    def whole(self) -> bool:
        """True when it takes all of each card's memory."""
        return self.memory is None and self.percent in (None, 100)


@dataclass(frozen=True, slots=True)
class CardRequest:
    """What a pod asks of cards: init containers first, None for one that asks for none; and which cards it accepts."""

    containers: tuple[CardAsk | None, ...]
    #: parts of the types that it takes, and that it does not take, in upper case; () says nothing
    kinds: tuple[str, ...] = ()
    not_kinds: tuple[str, ...] = ()
    #: the same of the cards themselves
    ids: tuple[str, ...] = ()
    not_ids: tuple[str, ...] = ()
    #: places of containers that end before the pod's own ones start
    passing: tuple[int, ...] = ()

    @property
    def asks(self) -> tuple[CardAsk, ...]:
        """What the containers ask for that ask for any."""
        return tuple(ask for ask in self.containers if ask is not None)

    @property
    def plain(self) -> bool:
        """True when whole GPUs of any kind do, so that a node that publishes no cards will do too."""
        choosy = self.kinds or self.not_kinds or self.ids or self.not_ids
        return not choosy and all((a.memory, a.percent, a.cores) == (None, None, 0) for a in self.asks)


@dataclass(frozen=True, slots=True)
class Share:
    """What a container has of one card; memory in MiB. A `passing` one is given back before those start that last."""

    card: str
    memory: int
    cores: int
    passing: bool = False


#: what a pod has of cards, by container as in its CardRequest
Shares = tuple[tuple[Share, ...], ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """All that placement needs to know of a pod: equal shapes are interchangeable. `request` is computed as Kubernetes
    does and always contains one piece of `pods`."""

    request: Amounts
    constraints: Constraints = Constraints()
    #: None when it asks for no GPU
    cards: CardRequest | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller that would replace a deleted pod; `api` is the API group of its kind."""

    kind: str
    name: str
    uid: str
    api: str = ""


@dataclass(frozen=True, slots=True)
class Declared:
    """What annotations on a pod say of its group, where no PodGroup of ours says it."""

    min_member: int | None = None
    expected_duration: int | None = None
    preemptible: bool | None = None
    topology_required: str | None = None
    topology_preferred: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What all of a group that bears it must stand in: one domain of this level. `divided` when the members of its task
    may have different ones (slices), so that who does not exist yet may be of any."""

    level: str
    name: str
    divided: bool = False


@dataclass(frozen=True, slots=True)
class PartRule:
    """How a group's object divides members into parts: those that `selector` and `task` leave (None: any task), by the
    values of labels, and by index, so many in each part (None: however many)."""

    level: str
    task: TaskName | None = None
    selector: tuple[Expression, ...] = ()
    labels: tuple[str, ...] = ()
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of any scheduler."""

    uid: PodUid
    namespace: str
    name: str
    shape: Shape
    group: GroupKey
    scheduler: str = SCHEDULER_NAME
    node: NodeName | None = None
    #: status.nominatedNodeName
    nominated: NodeName | None = None
    phase: str = "Pending"
    terminating: bool = False
    gates: tuple[str, ...] = ()
    priority: int = 0
    task: TaskName = NO_TASK
    #: what the pod itself names: label muster.dev/queue, else Volcano's annotation
    queue: QueueName | None = None
    declared: Declared = Declared()
    #: its place among its siblings, as numbers that are compared one by one; () when nothing says it
    index: tuple[int, ...] = ()
    #: the parts of its group that it names itself, from broad to narrow
    parts: tuple[Part, ...] = ()
    #: level that its task prefers to be in one domain of
    prefers: str | None = None
    owner: Owner | None = None
    #: all labels, sorted by key: disruption budgets select by them
    labels: tuple[tuple[str, str], ...] = ()
    #: when its job last saved its work, as the job says; None when it does not
    checkpoint: float | None = None
    created: float = 0.0
    #: when the PodScheduled condition became true; None while it is not
    bound_at: float | None = None
    #: message of PodScheduled=False/Unschedulable as kube-scheduler wrote it, else ""
    rejection: str = ""
    #: it has failed because its kubelet did not admit it
    not_admitted: bool = False
    #: what it was given of its node's cards, as far as an annotation says so
    shares: Shares = ()
    #: by which rule it is evicted, as far as the object says so
    evicted: Evicted | None = None
    #: what is wrong with the object, in words that name the field; () when it is sound
    problems: tuple[str, ...] = ()
    #: it is not made yet: it will be when this is switched on
    planned: Switch | None = None

    @property
    def ours(self) -> bool:
        """True when Muster schedules this pod."""
        return self.scheduler == SCHEDULER_NAME

    @property
    def queue_gated(self) -> bool:
        """True while our own scheduling gate is on the pod."""
        return QUEUE_GATE in self.gates

    @property
    def succeeded(self) -> bool:
        """True when it ended well: it counts towards minimums and uses nothing."""
        return self.phase == "Succeeded"

    @property
    def ended(self) -> bool:
        """True when it uses nothing any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def bound(self) -> bool:
        """True when it stands on a node and is neither ended nor being deleted."""
        return self.node is not None and not self.ended and not self.terminating

    @property
    def waiting(self) -> bool:
        """True when it still has to be bound."""
        return self.node is None and not self.ended and not self.terminating


class Trouble(StrEnum):
    """Why a card takes no share."""

    NONE = ""
    UNHEALTHY = "unhealthy"
    CORDONED = "cordoned"
    #: the kubelet refused pods that were given it, one after the other
    REFUSED = "refused by its kubelet"
    #: it is cut into MIG instances, which are resources of their own
    MIG = "in MIG mode"
    #: its node publishes it no more
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU card that pods share, as its node publishes it: so many pods at most, MiB of memory, and cores."""

    id: str
    slots: int
    memory: int
    cores: int
    kind: str = ""
    trouble: Trouble = Trouble.NONE


@dataclass(frozen=True, slots=True)
class Node:
    """A node; `allocatable` is from status only and always contains `pods`."""

    name: NodeName
    labels: Mapping[str, str]
    allocatable: Amounts
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    #: the Ready condition is true or absent
    ready: bool = True
    #: bears a HAMi register annotation: its devices are handed out by annotations in the Binding
    hami: bool = False
    #: its cards, in their order; None when it publishes none, () when what it publishes cannot be read
    cards: tuple[Card, ...] | None = None
    #: how its GPUs are joined, where it says so or its product does
    links: Links | None = None
    #: its kubelet refused pods one after the other: it gets nothing until it reports a change
    refusing: bool = False
    problems: tuple[str, ...] = ()

    @property
    def mig_state(self) -> str:
        """How far NVIDIA's MIG manager is in cutting its GPUs anew: it gets nothing until that is done (then "")."""
        state = self.labels.get(MIG_STATE_LABEL, "")
        return "" if state == _MIG_DONE else state


@dataclass(frozen=True, slots=True)
class Group:
    """A pod group object of any source, as declared. Minimums are at least 1 when sound."""

    key: GroupKey
    uid: str
    min_member: int
    #: minimum of each named task; a task that is not named has no minimum of its own
    tasks: tuple[tuple[TaskName, int], ...] = ()
    queue: QueueName | None = None
    topology_required: str | None = None
    topology_preferred: str | None = None
    #: parts that go into domains of their own, from broad to narrow
    parts: tuple[PartRule, ...] = ()
    schedule_timeout: int | None = None
    expected_duration: int | None = None
    preemptible: bool | None = None
    #: its own priority, which may only lower the pods', as a value or (with the value None) as a priority class
    priority: int | None = None
    priority_class: str | None = None
    created: float = 0.0
    generation: int = 0
    #: condition PodGroupInitiallyScheduled (native groups), or our own phase Running
    initially_scheduled: bool = False
    #: phase in the status of our own PodGroup objects, else ""
    phase: str = ""
    #: `reason` of our waiting condition or status as it stands in the object, else ""
    stated_reason: str = ""
    #: when members were evicted last, as the object says; 0 when it does not
    evicted_at: float = 0.0
    problems: tuple[str, ...] = ()
    #: so many members have succeeded, as the object says; their pods may be gone
    done: int = 0
    #: by which its pods can be stopped, where it is queued by suspension and runs
    switch: Switch | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget. `selector` None covers no pod, () all of the namespace.

    The numbers are its status, which the disruption controller and the API server keep: it may be old.
    """

    namespace: str
    name: str
    uid: str
    selector: tuple[Expression, ...] | None
    #: evictions that the API server would let pass now
    allowed: int = 0
    #: healthy pods that it wants, of so many that there should be
    desired: int = 0
    expected: int = 0
    #: pods that the API server has let go and that the controller has not seen leaving yet, by name
    disrupted: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Topology:
    """Levels of the network from broad to narrow, as node label keys. Others' names begin with an API group and `/`."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Members:
    """Which nodes, or (`inner`) which HyperNodes, a HyperNode consists of: those of one name, those whose names match
    a pattern, or nodes with labels. Exactly one of the three is given."""

    inner: bool = False
    name: str = ""
    pattern: str = ""
    labels: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class HyperNode:
    """Volcano's object for a domain of the network: a switch with what hangs from it. Tier 1 is next to the nodes."""

    name: str
    tier: int
    tier_name: str = ""
    members: tuple[Members, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """Where a group stands. `domains`: of each level from broad to narrow, in how many domains its members are."""

    required: str | None
    preferred: str | None
    domains: tuple[tuple[str, int], ...]
    #: the narrowest level of which one domain holds all, and its path; None and () when no domain does
    level: str | None
    domain: tuple[str, ...]

    @property
    def met(self) -> bool:
        """True when all are in one domain of the level that was preferred, or required."""
        wanted = self.preferred or self.required
        return wanted is None or dict(self.domains).get(wanted) == 1


@dataclass(frozen=True, slots=True)
class QueueCondition:
    """One condition of a queue's status; `since` is its last transition, in whole seconds."""

    kind: str
    true: bool
    reason: str
    message: str
    since: int


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """What a queue's status says. `generation` is that of the spec it speaks of."""

    allocated: Amounts = ()
    share: str = ""
    pending: int = 0
    state: str = ""
    generation: int = 0
    conditions: tuple[QueueCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class Queue:
    """A node of the quota tree, as declared by an object of ours or of Volcano.

    Amounts name each resource at most once, and keep nothing (0), which forbids. A resource that `capability`
    does not name is limited by the queues above only.
    """

    name: QueueName
    source: Source = Source.MUSTER
    parent: QueueName | None = None
    #: share of what is left among siblings; of 0 only what nobody else wants
    weight: int = 1
    #: hard cap
    capability: Amounts = ()
    #: lent while it is not used, and taken back
    deserved: Amounts = ()
    #: never lent
    guarantee: Amounts = ()
    #: what it has borrowed may be taken back by eviction
    reclaimable: bool = True
    priority: int = 0
    closed: bool = False
    #: namespaces whose pods may use it and the queues below; None = all
    namespaces: frozenset[str] | None = None
    #: seconds that a group runs before it may be a victim
    min_runtime: int = 0
    #: seconds that a running group may stay below its minimum before it is evicted whole; None: for ever
    stale: int | None = None
    #: what waits there for room is shown to a cluster autoscaler
    visible: bool = False
    #: GPUs are counted by share: its amounts name resources.GPU_SHARE instead of GPUs
    by_share: bool = False
    uid: str = ""
    generation: int = 0
    #: as it stands in an object of ours
    status: QueueStatus = QueueStatus()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hold:
    """A bind call that the permit gate has not answered yet."""

    uid: PodUid
    node: NodeName
    group: GroupKey
    #: number of the group's assembling at the gate
    round: int = 0
    releasing: bool = field(default=False)
