"""An engine with a clock and short words for its events, so that a test of it reads like a log.

Takes builders' values, gives effects; must not hold expectations, but for what holds after every event
(`check`): the ledger is the sum of its parts, nothing is reserved on unknown nodes, nothing is unaccounted for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from extender.core import messages
from extender.core.engine import Engine
from extender.core.ids import QUEUE_GATE, GroupKey, NodeName, PodUid, QueueName
from extender.core.messages import Effect, EngineEvent
from extender.core.model import Group, Hold, Node, Pod, Queue, Topology
from extender.core.planning import Entry
from extender.core.reasons import Reason
from tests import builders

START = 1_000_000.0
GATED = (QUEUE_GATE,)
#: more nodes than any test has: kube-scheduler is led by the full list
BY_LIST = 10_000
#: every engine with a node nominates
BY_NOMINATION = 0
OPEN = frozenset({QueueName("default")})


class Driver:
    """An active engine whose list of open queues already stands as it wants it, unless told."""

    def __init__(
        self,
        *things: Node | Pod | Group | Topology | Queue,
        above: int = BY_LIST,
        active: bool = True,
        opened: frozenset[QueueName] | None = OPEN,
    ) -> None:
        self.engine = Engine(above)
        self.now = START
        self.effects: list[Effect] = []
        #: writes to queues, which come with time and not with what a test is about
        self.statements: list[messages.StateQueue] = []
        if opened is not None:
            self.send(messages.OpenQueuesSeen(opened))
        if active:
            self.send(messages.ActivityChanged(True))
        self.see(*things)

    # --- events ---------------------------------------------------------------------------------

    def send(self, *events: EngineEvent) -> list[Effect]:
        """Hand these over, one by one."""
        found: list[Effect] = []
        for event in events:
            for effect in self.engine.handle(event, self.now):
                (self.statements if isinstance(effect, messages.StateQueue) else found).append(effect)
            check(self.engine)
        self.effects += found
        return found

    def see(self, *things: Node | Pod | Group | Topology | Queue) -> list[Effect]:
        """The watch shows these; no cycle is run yet."""
        return self.send(*(builders.seen(thing) for thing in things))

    def gone(self, *things: Node | Pod | Group | Queue) -> list[Effect]:
        """The watch shows that these were deleted."""
        return self.send(*(_gone(thing) for thing in things))

    def tick(self, seconds: float = 0.0) -> list[Effect]:
        """Time passes, then a cycle."""
        self.now += seconds
        return self.send(messages.Tick())

    def ticks(self, seconds: float, step: float = 0.5) -> list[Effect]:
        """Time passes in steps, with a cycle after each."""
        return [effect for _ in range(round(seconds / step)) for effect in self.tick(step)]

    def call(self, pod: Pod, offered: Iterable[str]) -> list[Effect]:
        """kube-scheduler asks where this pod may go; as in the shell, a cycle follows."""
        called = messages.FilterCalled(pod, tuple(NodeName(name) for name in offered))
        return self.send(called, messages.Tick())

    def hold(self, *pods: Pod, round_: int = 1) -> list[Effect]:
        """The gate holds exactly these pods, each on its planned node."""
        return self.held({pod: self.node(pod) or "?" for pod in pods}, round_)

    def held(self, at: dict[Pod, str], round_: int = 1) -> list[Effect]:
        """The gate holds exactly these pods on these nodes."""
        return self.send(messages.HoldsSeen(tuple(Hold(p.uid, NodeName(n), p.group, round_) for p, n in at.items())))

    def bind(self, *pods: Pod) -> list[Effect]:
        """The watch shows these bound, each to its planned node."""
        return self.see(*(builders.bound(pod, self.node(pod) or "?") for pod in pods))

    def done(self, *effects: Effect, error: str = "") -> list[Effect]:
        """These effects were carried out, or failed."""
        return self.send(*(messages.EffectDone(effect, error) for effect in effects))

    # --- what the engine thinks -----------------------------------------------------------------

    def node(self, pod: Pod) -> str | None:
        """The node planned for the pod."""
        return self.engine.view.planned(pod.uid)

    def nodes(self, pods: Iterable[Pod]) -> list[str | None]:
        """The nodes planned for the pods."""
        return [self.node(pod) for pod in pods]

    def entry(self, key: GroupKey | Pod) -> Entry:
        """The group's record."""
        return self.engine.entries[key.group if isinstance(key, Pod) else key]

    def reason(self, key: GroupKey | Pod) -> Reason | None:
        """Why the group waits."""
        refusal = self.entry(key).refusal
        return None if refusal is None else refusal.reason

    def detail(self, key: GroupKey | Pod) -> dict[str, str | int]:
        """The numbers of its refusal; of equal names the last."""
        refusal = self.entry(key).refusal
        return {} if refusal is None else dict(refusal.detail)

    @property
    def reserved(self) -> int:
        """How many reservations there are, lingering ones too."""
        ledger = ledger_of(self.engine)
        return len(ledger) + len(ledger.lingering())


def ledger_of(engine: Engine):  # type: ignore[no-untyped-def]
    """The engine's ledger, which its view reads too."""
    return engine._plans.ledger


def check(engine: Engine) -> None:
    """What holds after each event."""
    ledger, table = ledger_of(engine), engine.world.nodes
    expected = np.zeros_like(ledger.reserved)
    for reservation in [*ledger.planned().values(), *ledger.lingering().values()]:
        assert reservation.node in table.row_of, f"{reservation.slot} is reserved on an unknown node"
        assert reservation.slot in ledger.on_node(reservation.node)
        expected[table.row_of[reservation.node], : len(reservation.request)] += reservation.request
    assert (ledger.reserved == expected).all(), "the reserved sums are not those of the reservations"
    assert not ledger.planned().keys() & ledger.lingering().keys(), "a slot is planned and lingers"
    assert engine.self_check() == 0
    assert list(engine.check_usage())[-1] == 0
    for name, used in plain_usage(engine).items():
        assert dict(engine.usage.of(QueueName(name))) == used, f"{name} uses something else"


def finish(engine: Engine, piece: Callable[[], object]) -> None:
    """A round that is made in pieces ends, though its groups ask to be looked at again."""
    for _ in range(10_000):
        if not engine.unfinished:
            return
        piece()
    raise AssertionError("the round does not end")


def plain_usage(engine: Engine) -> dict[str, dict[str, int]]:
    """What each queue uses: every pod on a node that counts, every reservation, up the tree as the engine reads it."""
    sums: dict[str, dict[str, int]] = {}
    pods = [pod for pod in engine.world.pods.values() if pod.node is not None and not pod.ended]
    pods = [pod for pod in pods if pod.ours or pod.namespace in engine.world.managed]
    charged = [(pod.queue or engine.world.queue_of(pod.group), pod.shape) for pod in pods]
    ledger = ledger_of(engine)
    reserved = [*ledger.planned().values(), *ledger.lingering().values(), *engine._plans.earmarks]
    charged += [(engine.world.queue_of(reservation.group), reservation.shape) for reservation in reserved]
    for queue, shape in charged:
        for name in engine.usage.tree.path(queue):
            there = sums.setdefault(name, {})
            for resource, amount in shape.request:
                there[resource] = there.get(resource, 0) + amount
    return sums


def earmarked(engine: Engine) -> Counter[tuple[str, str]]:
    """What is kept in each queue for groups whose victims still leave, by queue and resource."""
    kept: Counter[tuple[str, str]] = Counter()
    for place in engine._plans.earmarks:
        for name in engine.usage.tree.path(engine.world.queue_of(place.group)):
            kept.update({(name, resource): amount for resource, amount in place.shape.request})
    return kept


def overfull(engine: Engine) -> list[str]:
    """Nodes where used and reserved exceed what there is, in a resource that a reservation wants."""
    engine._plans.ledger.fit()
    ledger, table = ledger_of(engine), engine.world.nodes
    return [
        str(name)
        for name, row in table.row_of.items()
        if ledger.on_node(name) and any(engine._plans.short(r) for r in ledger.on_node(name).values())
    ]


def gated(pods: list[Pod]) -> list[Pod]:
    """The same pods with our scheduling gate on."""
    return [replace(pod, gates=GATED) for pod in pods]


def ungates(pods: Iterable[Pod]) -> list[Effect]:
    """The Ungate effects of these pods."""
    return [messages.Ungate(pod.uid, pod.namespace, pod.name) for pod in pods]


def nominate(pod: Pod, node: str | None) -> messages.Nominate:
    """The Nominate effect of this pod."""
    return messages.Nominate(pod.uid, pod.namespace, pod.name, NodeName(node) if node else None)


def wakes(pods: Iterable[Pod], at: float) -> list[Effect]:
    """The Wake effects of these pods at this time."""
    return [messages.Wake(pod.uid, pod.namespace, pod.name, str(int(at * 1000))) for pod in pods]


def withdraw(*pods: Pod) -> messages.Withdraw:
    """The Withdraw effect of these pods."""
    return messages.Withdraw(tuple(PodUid(pod.uid) for pod in pods))


def _gone(thing: Node | Pod | Group | Queue) -> messages.WorldEvent:
    match thing:
        case Node():
            return messages.NodeGone(thing.name)
        case Pod():
            return messages.PodGone(thing.uid)
        case Group():
            return messages.GroupGone(thing.key)
        case Queue():
            return messages.QueueGone(thing.source, thing.name)
