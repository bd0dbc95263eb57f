"""The virtual cluster: an API server, and the pods' owners, kubelets and users who write to it.

Takes what a scenario says and what the sidecar writes, gives objects and the lives of pods; must not decide
where a pod goes. A pod goes through: made, gated or not, bound, running, leaving or ended, gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from extender.core.ids import QueueName
from extender.sim import admission, cards, objects, report
from extender.sim.agenda import Agenda, Phase
from extender.sim.api import NAMESPACE, Api, Change, Json, Refused, stamp
from extender.sim.budgets import Budgets
from extender.sim.lives import Life
from extender.sim.objects import Making
from extender.sim.resources import short_of
from extender.sim.upkeep import Upkeep
from extender.wire import small

_CORDON, _NOT_READY = objects.TAINTS
#: what is there at the start was made so long before
BEFORE_SECONDS = 3600


class Cluster(Upkeep):
    """Everything but the sidecar and kube-scheduler."""

    def __init__(self, scenario: report.Scenario, agenda: Agenda) -> None:
        super().__init__(agenda)
        self.settings = scenario.settings
        self.api = Api(lambda: agenda.now, self._admit)
        self.budgets = Budgets(self.api)
        self.api.watch(self._changed)
        #: cards by node, as the node's kubelet knows them
        self.cards: dict[str, dict[str, report.Card]] = {}

    def _admit(self, kind: str, thing: Json) -> Json:
        admission.judge(kind, thing)
        return admission.gate(thing, self._open_queues()) if kind == "Pod" else thing

    def _open_queues(self) -> frozenset[QueueName] | None:
        listed = self.api.get("ConfigMap", small.OPEN_QUEUES)
        return None if listed is None else small.decode_open_queues(listed)

    def _changed(self, change: Change) -> None:
        if change.kind in ("Pod", "PodDisruptionBudget"):
            self.budgets.publish()

    # --- nodes and users' objects ---------------------------------------------------------------

    def attempt(self, what: str, kind: str, thing: Json) -> None:
        """A user makes an object; what is refused is noted under `what`."""
        try:
            self.api.create(kind, thing)
        except Refused as error:
            self.refusals.append((what, str(error)))

    def write(self, what: str, kind: str, name: str, patch: Mapping[str, Any]) -> None:
        """A user changes an object; what is refused is noted under `what`."""
        try:
            self.api.patch(kind, name, patch)
        except Refused as error:
            self.refusals.append((what, str(error)))

    def remove(self, kind: str, name: str) -> None:
        """A user deletes an object that is no pod."""
        self.api.remove(kind, name)

    def add_node(self, node: report.Node) -> None:
        """A node joins."""
        self.cards[node.name] = {card.id: card for card in node.devices}
        self.attempt(f"node {node.name}", "Node", objects.node(node))

    def has_node(self, name: str) -> bool:
        """Whether the node is there."""
        return self.api.get("Node", name) is not None

    def label_node(self, name: str, labels: Mapping[str, str | None]) -> None:
        """Labels are set, or removed with None."""
        self._change_node(name, {"metadata": {"labels": dict(labels)}})

    def cordon(self, name: str, cordoned: bool) -> None:
        """A node takes no new pods, or takes some again."""
        self._change_node(name, {"spec": {"unschedulable": True if cordoned else None}})
        self._taint(name, _CORDON, cordoned)

    def ready(self, name: str, ready: bool) -> None:
        """A node's kubelet is well, or is not."""
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        self._change_node(name, {"status": {"conditions": conditions}})
        self._taint(name, _NOT_READY, not ready)

    def _change_node(self, name: str, patch: Mapping[str, Any]) -> None:
        """A node's object changes; one that is not there stays away."""
        if self.has_node(name):
            self.api.patch("Node", name, patch)

    def _taint(self, name: str, key: str, tainted: bool) -> None:
        """Put the taints of a trouble on a node, or take them off."""
        node = self.api.get("Node", name)
        if node is None:
            return
        taints = [taint for taint in node["spec"].get("taints", ()) if taint["key"] != key]
        if tainted:
            taints += [{"key": key, "effect": effect} for effect in objects.TAINTS[key]]
        self.api.patch("Node", name, {"spec": {"taints": taints}})

    def set_card(self, node: str, card: str, healthy: bool, allocatable: Mapping[str, str]) -> None:
        """A card falls ill or recovers, and the node publishes it."""
        there = self.cards[node]
        if card in there:
            old = there[card]
            there[card] = report.Card(old.id, old.memory_mib, old.cores, old.slots, healthy)
        notes = {objects.HAMI_REGISTER: objects.cards(there.values())}
        self._change_node(node, {"metadata": {"annotations": notes}, "status": {"allocatable": dict(allocatable)}})

    # --- pods -----------------------------------------------------------------------------------

    def make(self, making: Making) -> None:
        """A pod is created; a second one of a name that is there is refused."""
        try:
            pod = self.api.create("Pod", objects.pod(making))
        except Refused as error:
            self.refusals.append((f"pod {making.name}", str(error)))
        else:
            self.lives.begin(pod["metadata"]["uid"], making)

    def make_running(self, making: Making, node: str) -> None:
        """A pod that runs on a node; it was created long ago, but its runtime counts from now on."""
        life_uid = f"placed-{making.name}"
        there = objects.pod(making)
        there["metadata"] |= {"uid": life_uid, "creationTimestamp": stamp(self.agenda.now - BEFORE_SECONDS)}
        there["spec"]["nodeName"] = node
        shares = self._take_cards(node, making)
        if shares:
            there["metadata"]["annotations"][objects.HAMI_ALLOCATED] = cards.encode(shares)
        there["status"] = _running(self.agenda.now)
        self.api.create("Pod", there)
        life = self.lives.begin(life_uid, making)
        self.lives.bound(life, node)
        life.shares = shares or ()
        self._end_later(life)

    def object_of(self, life: Life) -> Json | None:
        """The pod's object, while it is there."""
        pod = self.api.get("Pod", life.making.name)
        return pod if pod is not None and pod["metadata"]["uid"] == life.uid else None

    def bind(self, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> None:
        """Answer a Binding; Refused as the API server refuses."""
        pod = self.api.get("Pod", name)
        if pod is None:
            raise Refused(404, f"pod {name} not found")
        if pod["metadata"]["uid"] != uid:
            raise Refused(409, "the uid is another one")
        if pod["spec"].get("nodeName"):
            raise Refused(409, f"pod {name} is already assigned to node {pod['spec']['nodeName']}")
        if "deletionTimestamp" in pod["metadata"]:
            raise Refused(409, f"pod {name} is being deleted")
        if pod["spec"].get("schedulingGates"):
            raise Refused(409, f"pod {name} has scheduling gates")
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(self.agenda.now)}
        patch = {
            "metadata": {"annotations": dict(annotations)},
            "spec": {"nodeName": node},
            "status": {"nominatedNodeName": None, "conditions": [scheduled | {"reason": None, "message": None}]},
        }
        life = self.lives.by_uid[uid]
        self.lives.bound(life, node)
        self.api.patch("Pod", name, patch)
        self._start(life, node, annotations)

    def evict(self, name: str, uid: str) -> None:
        """Answer the Eviction API; Refused when a budget says no."""
        life = self.lives.by_uid.get(uid)
        pod = self.object_of(life) if life is not None else None
        if life is None or pod is None:
            raise Refused(404, f"pod {name} not found")
        if life.leaving:
            return
        budget = self.budgets.refuses(pod)
        if budget:
            raise Refused(429, f"the disruption budget {budget} does not allow it")
        life.evicted = True
        target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        self.api.patch("Pod", name, {"status": {"conditions": [target]}})
        self.delete(life)

    def delete(self, life: Life) -> None:
        """The pod is asked to end: a bound one takes its grace."""
        pod = self.object_of(life)
        if pod is None or life.leaving:
            return
        life.leaving = True
        grace = life.making.grace if life.takes else 0.0
        if not grace:
            self.vanish(life)
            return
        meta = {"deletionTimestamp": stamp(self.agenda.now + grace), "deletionGracePeriodSeconds": int(grace)}
        self.api.patch("Pod", life.making.name, {"metadata": meta})
        self.agenda.at(self.agenda.now + grace, Phase.ENDS, lambda: self.vanish(life))

    def vanish(self, life: Life, owed: bool = True) -> None:
        """The pod's object goes away; its owner may make another one."""
        if life.gone:
            return
        there = self.object_of(life) is not None
        life.gone = True
        if there:
            self.api.remove("Pod", life.making.name)
        if owed:
            self._owe(life)

    def finish(self, life: Life, phase: str, reason: str = "") -> None:
        """The pod's containers have ended."""
        if life.phase or life.gone:
            return
        life.phase = phase
        life.failed_on_node = phase == "Failed" and life.node is not None
        status: Json = {"phase": phase, "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted"}]}
        if reason:
            status["reason"] = reason
        self.api.patch("Pod", life.making.name, {"status": status})
        if phase == "Failed":
            self._owe(life)

    # --- kubelets -------------------------------------------------------------------------------

    def _start(self, life: Life, node: str, annotations: Mapping[str, str]) -> None:
        """The node's kubelet takes the pod, or ends it at once."""
        there = self.api.get("Node", node)
        if there is None:
            return
        asked = annotations.get(objects.HAMI_ALLOCATED)
        shares = cards.decode(asked) if asked is not None else self._take_cards(node, life.making)
        short = short_of(there, [self.lives.by_uid[one.uid].making for one in self.lives.on(node)])
        if node in self.rejecting or shares is None:
            self.finish(life, "Failed", "UnexpectedAdmissionError")
        elif short:
            self.finish(life, "Failed", f"OutOf{short}")
        else:
            life.shares = shares
            self.api.patch("Pod", life.making.name, {"status": _running(self.agenda.now)})
            self._end_later(life)

    def _take_cards(self, node: str, making: Making) -> tuple[cards.Share, ...] | None:
        """Cards for a pod of which nobody said which it should have; None: too few have room."""
        there = self.cards.get(node)
        if not there:
            return ()
        taken = cards.loads(share for life in self.lives.on(node) for share in life.shares)
        return cards.hand_out(there.values(), taken, making.task.requests)

    # --- owners --- owners ---------------------------------------------------------------------------------

    def delete_group(self, name: str, pods: Iterable[Life]) -> None:
        """The object and its pods go, and nobody makes new ones."""
        self.ended_groups.add(name)
        self.api.remove("PodGroup", name, NAMESPACE)
        for life in pods:
            self.delete(life)


def _running(since: float) -> Json:
    then = stamp(since)
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": then} for kind in ("PodScheduled", "Ready")]
    return {"phase": "Running", "startTime": then, "conditions": conditions}
