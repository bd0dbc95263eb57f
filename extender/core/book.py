"""The permit gate's book of holds: who waits, on which node, what is being bound, and what room that leaves.

Takes moves of holds, gives Answer and Bind effects; must not decide when a group is released.

Room on a node = allocatable - what the watch shows there - bindings sent that it does not show yet - waiting
holds of the same group. Holds of other groups do not count: a hold is not a reservation, and the group that
is released first has the room. A resource of which the node listed nothing when kube-scheduler chose it is
handed out by other means (a DeviceClass) and is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from extender.core.gate_messages import Answer, Bind, CallId, GateEffect, HoldCalled, Why
from extender.core.holds import Gang, Hold, State
from extender.core.ids import GroupKey, NodeName, PodUid
from extender.core.model import Node, Pod
from extender.core.resources import Amounts
from extender.core.world import World

K = TypeVar("K")
#: summed amounts by name of resource; zeros are kept out
Load = dict[str, int]

_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_NOT_READY = "node.kubernetes.io/not-ready"
_NONE: Mapping[str, str] = {}


class Book:
    """All holds that have not ended. Only its own methods write its attributes; the gate takes `out`."""

    def __init__(self, world: World) -> None:
        self.out: list[GateEffect] = []
        #: grows with each change of what `GET /holds` shows
        self.version = 0
        self.holds: dict[PodUid, Hold] = {}
        self._world = world
        self._calls: dict[CallId, Hold] = {}
        #: waiting holds by node, oldest first
        self._waiting_on: dict[NodeName, dict[PodUid, Hold]] = {}
        #: sums of the requests of waiting holds, by group and node; none is kept that is empty
        self._asked: dict[tuple[GroupKey | None, NodeName], Load] = {}
        #: sums of the requests of bindings sent that the watch does not show, by node
        self._going: dict[NodeName, Load] = {}

    # --- calls ----------------------------------------------------------------------------------

    def open(self, event: HoldCalled, now: float) -> Hold:
        """Begin a hold; there must be none for this pod."""
        hold = Hold(event.uid, event.namespace, event.name, event.node, now, [event.call])
        self.holds[event.uid] = hold
        self._calls[event.call] = hold
        return hold

    def join(self, hold: Hold, call: CallId) -> None:
        """One more call that gets the result of a binding under way."""
        hold.calls.append(call)
        self._calls[call] = hold

    def hang_up(self, call: CallId, now: float) -> Hold | None:
        """The call needs no answer any more; its hold ends, or goes on being bound."""
        hold = self._calls.pop(call, None)
        if hold is None:
            return None
        hold.calls.remove(call)
        if hold.state is not State.COMMITTING:
            self._end(hold, State.CLOSED, now)
        return hold

    def answer(self, hold: Hold, error: str, now: float) -> None:
        """End a hold; an empty error is for a proved binding only."""
        for call in hold.calls:
            del self._calls[call]
            self.out.append(Answer(call, error))
        hold.calls.clear()
        self._end(hold, State.ANSWERED, now)

    # --- moves ----------------------------------------------------------------------------------

    def place(self, hold: Hold, gang: Gang, now: float) -> None:
        """Let a hold wait for its group."""
        hold.move(State.HELD, now)
        self._waiting_on.setdefault(hold.node, {})[hold.uid] = hold
        _shift(self._asked, (hold.group, hold.node), hold.judged, 1)
        gang.hold(hold)
        self.version += 1

    def commit(self, holds: Iterable[Hold], annotations: Mapping[PodUid, Mapping[str, str]], now: float) -> None:
        """Have these pods bound; other groups' holds that now lack room are refused."""
        nodes: dict[NodeName, None] = {}
        for hold in holds:
            assert hold.calls, "no binding is begun for a call that nobody waits for"
            hold.move(State.COMMITTING, now)
            self._leave_node(hold)
            _shift(self._going, hold.node, hold.judged, 1)
            if hold.gang is not None:
                hold.gang.commit(hold)
            notes = tuple(sorted(annotations.get(hold.uid, _NONE).items()))
            self.out.append(Bind(hold.uid, hold.namespace, hold.name, hold.node, notes))
            nodes[hold.node] = None
            self.version += 1
        for node in nodes:
            self.recheck(node, now)

    def reshape(self, hold: Hold, pod: Pod, now: float) -> None:
        """Take in a changed task or request of a waiting pod."""
        if hold.gang is not None and hold.task != pod.task:
            hold.gang.retask(hold, pod.task)
        if hold.request != pod.shape.request:
            _shift(self._asked, (hold.group, hold.node), hold.judged, -1)
            self.measure(hold, pod)
            _shift(self._asked, (hold.group, hold.node), hold.judged, 1)
            self.recheck(hold.node, now)

    def _end(self, hold: Hold, state: State, now: float) -> None:
        if hold.state is State.COMMITTING:
            _shift(self._going, hold.node, hold.judged, -1)
        else:
            self._leave_node(hold)
        hold.move(state, now)
        del self.holds[hold.uid]
        if hold.gang is not None:
            hold.gang.forget(hold)
        self.version += 1

    def _leave_node(self, hold: Hold) -> None:
        """Take a hold off its node, if it waits there."""
        waiting = self._waiting_on.get(hold.node)
        if waiting is None or waiting.pop(hold.uid, None) is None:
            return
        _shift(self._asked, (hold.group, hold.node), hold.judged, -1)
        if not waiting:
            del self._waiting_on[hold.node]

    # --- nodes and room -------------------------------------------------------------------------

    def measure(self, hold: Hold, pod: Pod) -> None:
        """Note by which resources room is judged for this pod on its node."""
        hold.request = hold.judged = pod.shape.request
        node = self._world.node(hold.node)
        if node is None or not any("/" in name for name, _ in hold.request):
            return
        listed = {name for name, _ in node.allocatable}
        hold.judged = tuple(one for one in hold.request if "/" not in one[0] or one[0] in listed)

    def refusal(self, hold: Hold, pod: Pod) -> Why | None:
        """Why this measured hold, which does not wait yet, cannot go to its node now, if so."""
        closed = _closed(self._world.node(hold.node), pod)
        if closed is not None:
            return closed
        beside = self._asked.get((hold.group, hold.node), {})
        asked = {name: amount + beside.get(name, 0) for name, amount in hold.judged}
        return None if self._fits(hold.node, asked) else Why.NO_ROOM

    def recheck(self, node: NodeName, now: float) -> None:
        """Refuse the waiting holds of a node which can no longer go there, the newest of a group first."""
        waiting = self._waiting_on.get(node)
        if waiting is None:
            return
        facts = self._world.node(node)
        by_group: dict[GroupKey | None, list[Hold]] = {}
        for hold in list(waiting.values()):
            closed = _closed(facts, self._world.pods.get(hold.uid))
            if closed is not None:
                self.answer(hold, closed, now)
            else:
                by_group.setdefault(hold.group, []).append(hold)
        for group, holds in by_group.items():
            while holds and not self._fits(node, self._asked[group, node]):
                self.answer(holds.pop(), Why.NO_ROOM, now)

    def _fits(self, node: NodeName, asked: Load) -> bool:
        table, columns = self._world.nodes, self._world.columns
        index, width = table.row_of[node], table.used.shape[1]
        going = self._going.get(node, {})
        for name, amount in asked.items():
            column = columns.of(name)
            free = 0
            if column is not None and column < width:
                free = table.allocatable.item(index, column) - table.used.item(index, column)
            if amount > 0 and amount > free - going.get(name, 0):
                return False
        return True


def _shift(loads: dict[K, Load], key: K, amounts: Amounts, sign: int) -> None:
    """Add amounts to a sum, or with sign -1 take them off; a sum that is empty then is dropped."""
    load = loads.setdefault(key, {})
    for name, amount in amounts:
        left = load.get(name, 0) + sign * amount
        if left:
            load[name] = left
        else:
            del load[name]
    if not load:
        del loads[key]


def _closed(node: Node | None, pod: Pod | None) -> Why | None:
    """Why a pod cannot go to a node whatever its room; a pod may tolerate what keeps others away."""
    if node is None:
        return Why.NODE_GONE
    if node.unschedulable and not _tolerates(pod, _UNSCHEDULABLE):
        return Why.NODE_CLOSED
    if node.mig_state or (not node.ready and not _tolerates(pod, _NOT_READY)):
        return Why.NODE_CLOSED
    return None


def _tolerates(pod: Pod | None, key: str) -> bool:
    if pod is None:
        return False
    return any(
        toleration.key in ("", key)
        and toleration.effect in ("", "NoSchedule")
        and (toleration.operator == "Exists" or (toleration.key == key and not toleration.value))
        for toleration in pod.shape.constraints.tolerations
    )
