"""A real cluster as a scenario sees it: what its watches have shown, and what is to be written to it.

Takes what a scenario does and what watches tell, gives lives of pods and writes as values; must not talk to anybody.
It plays the kubelets, and with `Upkeep` the owners: a pod that is bound starts to run, one that is deleted ends after
its grace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extender.core.ids import DEFAULT_QUEUE
from extender.sim import objects, report
from extender.sim.agenda import Agenda, Phase
from extender.sim.api import Json, Request
from extender.sim.lives import Life
from extender.sim.objects import Making
from extender.sim.real.translation import CUSTOM, KWOK_STATUS, Translation, owner_of
from extender.sim.real.writers import request_of
from extender.sim.resources import short_of
from extender.sim.upkeep import Upkeep

#: the reason of the condition with which the Eviction API marks a pod
EVICTED = "EvictionByEvictionAPI"
ENDS = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Write:
    """One request, with names as the cluster has them. `what` is how a refusal is noted: by nobody, if it is empty."""

    verb: str  # create, patch or delete
    kind: str
    name: str
    body: Json | None = None
    subresource: str = ""
    uid: str = ""
    now: bool = False  # a delete without grace
    what: str = ""
    making: Making | None = None
    told: str = ""  # the name in the scenario


class RealCluster(Upkeep):
    """One run's part of the cluster."""

    def __init__(
        self, scenario: report.Scenario, agenda: Agenda, translation: Translation, wall: Callable[[], str]
    ) -> None:
        super().__init__(agenda)
        self.settings = scenario.settings
        self.translation = translation
        self._wall = wall
        self._known: dict[tuple[str, str], Json] = {}
        #: what pods that are being created are made of, by name
        self._expected: dict[str, Making] = {}
        #: uids of the objects that own pods, by their names
        self.owners: dict[str, str] = {}
        #: pods whose end is on its way
        self._ending: set[str] = set()
        #: writes that must be done in this order, and those of kubelets, which wait for nobody
        self.ordered: deque[Write] = deque()
        self.kubelets: deque[Write] = deque()
        #: writes of Muster and its kube-scheduler that have changed something
        self.requests: list[Request] = []

    # --- what there is --------------------------------------------------------------------------

    @property
    def api(self) -> RealCluster:
        """What there is."""
        return self

    def get(self, kind: str, name: str) -> Json | None:
        """An object, or None."""
        return self._known.get((kind, name))

    def list(self, kind: str) -> Iterator[Json]:
        """All objects of a kind."""
        return (thing for key, thing in list(self._known.items()) if key[0] == kind)

    def has_node(self, name: str) -> bool:
        """Whether the node is there."""
        return ("Node", name) in self._known

    # --- what users write -----------------------------------------------------------------------

    def attempt(self, what: str, kind: str, thing: Json) -> None:
        """A user makes an object; what is refused is noted under `what`. The default queue is not the run's to make."""
        if (kind, thing["metadata"]["name"]) == ("Queue", DEFAULT_QUEUE):
            return
        self._create(kind, self.translation.made(kind, thing), thing["metadata"]["name"], what)

    def write(self, what: str, kind: str, name: str, patch: Mapping[str, Any]) -> None:
        """A user changes an object; what is refused is noted under `what`."""
        self._patch(kind, name, self.translation.patched(kind, patch), what=what)

    def remove(self, kind: str, name: str) -> None:
        """A user deletes an object that is no pod."""
        self.ordered.append(Write("delete", kind, self.translation.name_of(kind, name), told=name))

    def add_node(self, node: report.Node) -> None:
        """A node joins."""
        self.attempt(f"node {node.name}", "Node", objects.node(node))

    def label_node(self, name: str, labels: Mapping[str, str | None]) -> None:
        """Labels are set, or removed with None."""
        self._patch("Node", name, {"metadata": {"labels": dict(labels)}})

    def cordon(self, name: str, cordoned: bool) -> None:
        """A node takes no new pods, or takes some again; the cluster's controllers set the taint."""
        self._patch("Node", name, {"spec": {"unschedulable": True if cordoned else None}})

    def ready(self, name: str, ready: bool) -> None:
        """A node's kubelet is well, or is not; KWOK leaves a failed one alone, and controllers set the taints."""
        self._patch("Node", name, {"metadata": {"annotations": {KWOK_STATUS: None if ready else CUSTOM}}})
        condition = {"type": "Ready", "status": "True" if ready else "False", "reason": "Scenario"}
        self._patch("Node", name, {"status": {"conditions": [condition]}}, "status")

    def set_card(self, node: str, card: str, healthy: bool, allocatable: Mapping[str, str]) -> None:
        """Nobody plays cards here: `limits` keeps such reports out."""
        raise NotImplementedError

    def delete_group(self, name: str, pods: Iterable[Life]) -> None:
        """The object and its pods go, and nobody makes new ones."""
        self.ended_groups.add(name)
        self.remove("PodGroup", name)
        for life in pods:
            self.delete(life)

    def _create(self, kind: str, body: Json, told: str, what: str = "", making: Making | None = None) -> None:
        name = body["metadata"]["name"]
        self.ordered.append(Write("create", kind, name, body, what=what, making=making, told=told))

    def _patch(self, kind: str, name: str, body: Json, subresource: str = "", what: str = "") -> None:
        real = self.translation.name_of(kind, name)
        self.ordered.append(Write("patch", kind, real, body, subresource, what=what, told=name))

    # --- pods -----------------------------------------------------------------------------------

    def make(self, making: Making) -> None:
        """A pod is created."""
        self._make(making)

    def make_running(self, making: Making, node: str) -> None:
        """A pod that is on a node from the first: its kubelet starts it as one that was bound."""
        self._make(making, {"nodeName": self.translation.name_of("Node", node)})

    def _make(self, making: Making, spec: Json | None = None) -> None:
        self._expected[making.name] = making
        owner = self.owners.get(owner_of(making.group.name)) if making.group is not None else None
        body = self.translation.pod(making, objects.pod(making), owner)
        body["spec"] |= spec or {}
        self._create("Pod", body, making.name, f"pod {making.name}", making)

    def delete(self, life: Life) -> None:
        """The pod is asked to end: a bound one takes its grace."""
        if not (life.leaving or life.gone):
            life.leaving = True
            self.ordered.append(self._removal(life, now=False))

    def vanish(self, life: Life, owed: bool = True) -> None:
        """The pod's object goes away at once; its owner may make another one."""
        life.owed = life.owed or not owed
        if not life.gone:
            self.ordered.append(self._removal(life, now=True))

    def finish(self, life: Life, phase: str, reason: str = "") -> None:
        """The pod's containers have ended."""
        if not (life.phase or life.gone):
            self.ordered.append(self._status(life, _ended(phase, reason)))

    def _removal(self, life: Life, now: bool) -> Write:
        return Write("delete", "Pod", life.making.name, uid=life.uid, now=now)

    def _status(self, life: Life, status: Json) -> Write:
        body = {"metadata": {"uid": life.uid}, "status": status}
        return Write("patch", "Pod", life.making.name, body, "status", uid=life.uid)

    def take_ordered(self) -> Sequence[Write]:
        """What is to be written next: one write, or all new pods of one task, whose order is nobody's matter."""
        batch: Sequence[Write] = ()
        while self.ordered and (not batch or _alike(batch[-1], self.ordered[0])):
            batch = (*batch, self.ordered.popleft())
        return batch

    # --- what becomes of writes -----------------------------------------------------------------

    def done(self, write: Write, answer: Json) -> None:
        """A write was carried out, and answered with the object."""
        if write.making is not None:
            self._begin(answer["metadata"]["uid"], write.making)
        elif write.kind == "Node" and write.verb == "delete":
            self._known.pop(("Node", write.told), None)
        elif write.kind == "Node":  # nobody watches all nodes of a cluster for these few
            self._known["Node", write.told] = self.translation.told(answer)

    def refused(self, write: Write, text: str) -> None:
        """The API server says no."""
        if write.what:
            self.refusals.append((write.what, self.translation.told_text(text)))

    def _begin(self, uid: str, making: Making) -> Life:
        return self.lives.by_uid.get(uid) or self.lives.begin(uid, making)

    # --- what watches show ----------------------------------------------------------------------

    def hear(self, kind: str, gone: bool, content: Json) -> None:
        """An object is new, different or gone; of one that is gone there is only its identity."""
        if not self.translation.owns(kind, content["metadata"]["name"]):
            return
        thing = self.translation.told(content)
        meta = thing["metadata"]
        before = self._known.get((kind, meta["name"]))
        if before is not None and before["metadata"]["uid"] != meta["uid"]:
            before = None
        if not gone:
            self._known[kind, meta["name"]] = thing
            found = request_of(kind, before, thing, self.agenda.now)
            self.requests += [] if found is None else [found]
        elif before is not None:
            del self._known[kind, meta["name"]]
        if kind == "Pod":
            self._hear_pod(meta["uid"], gone, thing)

    def _hear_pod(self, uid: str, gone: bool, pod: Json) -> None:
        making = self._expected.get(pod["metadata"]["name"])
        if making is None:
            return
        life = self._begin(uid, making)
        if gone:
            life.gone = True
            self._owe(life)
            return
        self._note_eviction(life, pod)
        self._note_binding(life, pod["spec"].get("nodeName"))
        self._note_end(life, pod["status"].get("phase", ""))
        self._note_deletion(life, pod["metadata"])

    def _note_eviction(self, life: Life, pod: Json) -> None:
        conditions = pod["status"].get("conditions", ())
        if any(one["type"] == "DisruptionTarget" and one.get("reason") == EVICTED for one in conditions):
            life.evicted = True

    def _note_binding(self, life: Life, node: str | None) -> None:
        if node is not None and life.node is None:
            self.lives.bound(life, node)
            self._start(life, node)

    def _note_end(self, life: Life, phase: str) -> None:
        if phase in ENDS and not life.phase:
            life.phase = phase
            life.failed_on_node = phase == "Failed" and life.node is not None
            if phase == "Failed":
                self._owe(life)

    def _note_deletion(self, life: Life, meta: Json) -> None:
        if "deletionTimestamp" not in meta or life.uid in self._ending:
            return
        self._ending.add(life.uid)
        life.leaving = True
        end = self._removal(life, now=True)
        self.agenda.at(self.agenda.now + life.making.grace, Phase.ENDS, lambda: self.kubelets.append(end))

    # --- kubelets -------------------------------------------------------------------------------

    def _start(self, life: Life, node: str) -> None:
        """The node's kubelet takes the pod, or ends it at once."""
        there = self.get("Node", node)
        if there is None:
            return
        short = short_of(there, [one.making for one in self.lives.on(node)])
        if node in self.rejecting or short:
            reason = f"OutOf{short}" if short else "UnexpectedAdmissionError"
            self.kubelets.append(self._status(life, _ended("Failed", reason)))
        else:
            self.kubelets.append(self._status(life, self._running()))
            self._end_later(life)

    def _running(self) -> Json:
        now = self._wall()
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
        return {"phase": "Running", "startTime": now, "conditions": [ready]}


def _alike(one: Write, other: Write) -> bool:
    making, next_ = one.making, other.making
    return making is not None and next_ is not None and making.group is not None and making.task is next_.task


def _ended(phase: str, reason: str) -> Json:
    ready = {"type": "Ready", "status": "False", "reason": "PodCompleted"}
    return {"phase": phase, "conditions": [ready], **({"reason": reason} if reason else {})}
