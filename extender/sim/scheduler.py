"""kube-scheduler, played: its own checks, filter, then a bind call that it waits for.

Takes the cluster's truth and the sidecar's answers, gives calls; must not know groups or queues. A pod that was
refused is offered again once something has changed, one whose call failed after the back-off too. The pods of
others are bound by a scheduler of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from extender.core.gate_messages import CallId
from extender.sim import resources
from extender.sim.agenda import Phase
from extender.sim.api import NAMESPACE, Change, Json
from extender.sim.cards import PER_CARD
from extender.sim.cluster import Cluster
from extender.sim.lives import Life
from extender.sim.sidecar import Sidecar

BACKOFF_SECONDS = 1.0
_GONE = b'{"Error":"the extender is not there"}'


@dataclass(slots=True)
class Call:
    """A bind call without an answer. `named` is what a check calls it, if it does."""

    life: Life
    node: str
    named: str = ""
    answered: bool = False


class Scheduler:
    """All that kube-scheduler knows beside the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.sidecar = Sidecar(cluster, self._answered, self._lost)
        self.calls: dict[CallId, Call] = {}
        #: answers to calls that checks name: the error, or nothing
        self.answers: dict[str, str] = {}
        #: pods that are on their way to a node
        self._assumed: dict[str, str] = {}
        #: grows with each change that may let a pod pass
        self._changes = 0
        self._saying = False
        #: the changes that there had been when a pod was last tried
        self._tried: dict[str, int] = {}
        #: by how much the answer to the next bind call for a pod of this name is late
        self.late: dict[str, float] = {}
        #: pods that wait for a node that was named to kube-scheduler
        self._nominated: dict[str, str] = {}
        cluster.api.watch(self._changed)

    def _changed(self, change: Change) -> None:
        if change.kind == "Pod":
            uid, node = change.object["metadata"]["uid"], change.object["status"].get("nominatedNodeName")
            self._nominated.pop(uid, None)
            if node is not None and change.type != "DELETED":
                self._nominated[uid] = node
        if change.kind in ("Pod", "Node") and not self._saying:
            self._changes += 1

    def look_again(self) -> None:
        """Something changed that the API server does not show."""
        self._changes += 1

    # --- one turn -------------------------------------------------------------------------------

    def turn(self) -> bool:
        """Offer every pod that may have a chance; True when any was."""
        waiting = [life for life in self._cluster.lives.by_uid.values() if life.waits]
        waiting.sort(key=lambda life: -life.making.priority)
        did = False
        for life in waiting:
            if life.waits and life.uid not in self._assumed and self._tried.get(life.uid) != self._changes:
                pod = self._cluster.object_of(life)
                if pod is not None and not pod["spec"].get("schedulingGates"):
                    self._tried[life.uid] = self._changes
                    did = True
                    self._offer(life, pod)
        return did

    def _offer(self, life: Life, pod: Json) -> None:
        nominated = pod["status"].get("nominatedNodeName")
        if life.making.ours and nominated is not None and self._fits(life, pod, nominated):
            accepted, _ = self._filter(life, pod, [nominated])
            if accepted is not None:
                self._call(life, accepted)
                return
        offered = [node["metadata"]["name"] for node in self._cluster.api.list("Node")]
        number = len(offered)
        offered = [name for name in offered if self._fits(life, pod, name)]
        if not offered:
            self._say(life, f"0/{number} nodes are available: {number} cannot take the pod.")
        elif not life.making.ours:
            self._bind_foreign(life, offered[0])
        else:
            accepted, refused = self._filter(life, pod, offered)
            if accepted is not None:
                self._call(life, accepted)
            elif refused:
                self._say(life, f"0/{number} nodes are available: {number} {refused}.")
            else:
                self._back_off(life)

    def _filter(self, life: Life, pod: Json, offered: list[str]) -> tuple[str | None, str]:
        """The node that is left, or why there is none; neither when the call failed."""
        body = self.sidecar.filter(pod, offered)
        answer = orjson.loads(_GONE if body is None else body)
        if answer.get("Error"):
            return None, ""
        names = answer.get("NodeNames") or []
        texts = answer.get("FailedAndUnresolvableNodes") or {}
        return (names[0], "") if names else (None, next(iter(texts.values()), "no reason was given"))

    def _say(self, life: Life, message: str) -> None:
        """Write why a pod has no node, if that is news."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        self._saying = True
        self._cluster.api.patch("Pod", life.making.name, {"status": {"conditions": [condition]}})
        self._saying = False

    def _back_off(self, life: Life) -> None:
        def again() -> None:
            self._tried.pop(life.uid, None)

        self._cluster.agenda.at(self._cluster.agenda.now + BACKOFF_SECONDS, Phase.LATE, again)

    # --- its own checks -------------------------------------------------------------------------

    def _fits(self, life: Life, pod: Json, name: str) -> bool:
        node = self._cluster.api.get("Node", name)
        if node is None or node["spec"].get("unschedulable"):
            return False
        if any(taint["effect"] in ("NoSchedule", "NoExecute") for taint in node["spec"].get("taints", ())):
            return False
        labels, wanted = node["metadata"]["labels"], pod["spec"].get("nodeSelector", {})
        if any(labels.get(key) != value for key, value in wanted.items()):
            return False
        there, used = resources.allocatable(node), resources.used(one.making for one in self._there(life, name))
        asked = resources.request_of(life.making)
        return all(value <= there.get(key, 0) - used.get(key, 0) for key, value in asked.items() if key not in PER_CARD)

    def _there(self, life: Life, node: str) -> Iterator[Life]:
        """What takes room on a node: bound, on its way, or nominated before this pod."""
        yield from self._cluster.lives.on(node)
        by_uid = self._cluster.lives.by_uid
        yield from (by_uid[uid] for uid, there in self._assumed.items() if there == node and by_uid[uid].waits)
        for uid, there in self._nominated.items():
            other = by_uid[uid]
            counts = other.waits and other is not life and uid not in self._assumed
            if counts and there == node and other.making.priority >= life.making.priority:
                yield other

    def _bind_foreign(self, life: Life, node: str) -> None:
        self._cluster.bind(life.making.name, life.uid, node, {})

    # --- bind calls -----------------------------------------------------------------------------

    def _call(self, life: Life, node: str) -> None:
        self._assumed[life.uid] = node
        self.bind(life, node)

    def bind(self, life: Life, node: str, named: str = "") -> None:
        """Make a bind call; `named` when its answer is to be kept for a check."""
        number = self.sidecar.bind(life.making.name, NAMESPACE, life.uid, node)
        call = Call(life, node, named)
        if number is None:
            self._settle(call, _GONE)
            return
        self.calls[number] = call
        agenda = self._cluster.agenda
        agenda.at(agenda.now + self._cluster.settings.http_timeout, Phase.LATE, lambda: self._give_up(number))

    def _answered(self, number: CallId, body: bytes) -> None:
        call = self.calls.get(number)
        if call is None:
            return
        call.answered = True
        late = self.late.pop(call.life.making.name, 0.0)
        if not late:
            self._arrived(number, body)
            return
        agenda = self._cluster.agenda
        agenda.at(agenda.now + late, Phase.LATE, lambda: self._arrived(number, body))

    def _arrived(self, number: CallId, body: bytes) -> None:
        call = self.calls.pop(number, None)
        if call is not None:
            self._settle(call, body)

    def _give_up(self, number: CallId) -> None:
        call = self.calls.pop(number, None)
        if call is None:
            return
        if not call.answered:
            self.sidecar.hang_up(number)
        self._settle(call, b'{"Error":"no answer in time"}')

    def _lost(self) -> None:
        """The sidecar died: every call ends with its connection."""
        calls, self.calls = self.calls, {}
        for call in calls.values():
            self._settle(call, _GONE)

    def _settle(self, call: Call, body: bytes) -> None:
        error = str(orjson.loads(body).get("Error", ""))
        if call.named:
            self.answers[call.named] = error
            return
        self._assumed.pop(call.life.uid, None)
        if call.life.waits:
            self._forget(call.life)

    def _forget(self, life: Life) -> None:
        """The pod is not on its way any more: its room is free, and its nomination is cleared."""
        pod = self._cluster.object_of(life)
        if pod is not None and pod["status"].get("nominatedNodeName") is not None:
            self._cluster.api.patch("Pod", life.making.name, {"status": {"nominatedNodeName": None}})
        self._changes += 1
        self._tried[life.uid] = self._changes
        self._back_off(life)

    def repeat(self, life: Life, same: bool, named: str) -> None:
        """Call bind again for a pod; its answer is kept under this name."""
        others = (node["metadata"]["name"] for node in self._cluster.api.list("Node"))
        node = life.node if same else next((name for name in others if name != life.node), life.node)
        if node is not None:
            self.bind(life, node, named)

    def waiting_calls(self) -> Iterator[Life]:
        """Pods of which a bind call has no answer of the sidecar yet."""
        return (call.life for call in self.calls.values() if not call.answered and not call.named)
