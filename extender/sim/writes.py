"""The sidecar's requests to the API server, each counted: the bodies are those that the real processes send.

Takes effects and the cluster, does the writes; a refusal is an exception of the API server. Must not decide.
"""

from __future__ import annotations

import contextlib
from typing import Any

from extender.core import gate_messages as gm
from extender.core import messages
from extender.core.ids import QUEUE_GATE
from extender.sim.api import Refused, Request, stamp
from extender.sim.cluster import Cluster
from extender.wire import departed, evictions, marks, objects, small, status


class Writes:
    """All that extender and gate write. `requests` is the record of it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.requests: list[Request] = []
        #: refusals to come: (kind, name, subresource; none means every write of the object) -> how many
        self.conflicts: dict[tuple[str, str, str], int] = {}

    def engine(self, effect: messages.Effect) -> None:
        """Carry out an effect of the engine."""
        match effect:
            case messages.Ungate():
                gates = [{"$patch": "delete", "name": QUEUE_GATE}]
                self._pod(effect.name, effect.uid, {"spec": {"schedulingGates": gates}})
            case messages.Nominate():
                self._pod(effect.name, effect.uid, {"status": {"nominatedNodeName": effect.node}}, "status")
            case messages.Wake():
                self._pod(effect.name, effect.uid, {"metadata": {"annotations": {marks.WAKE_ANNOTATION: effect.token}}})
            case messages.SetOpenQueues():
                self._open_queues(objects.encode_open_queues(effect.names))
            case messages.StateGroup():
                self._to_group(effect, status.patches(effect, self._time()))
            case messages.StateQueue():
                body = {"status": objects.encode_queue_status(effect.status, effect.before)}
                self._patch("Queue", effect.name, body, "status")
            case messages.Evict():
                self.evict(effect)
            case messages.NoteEviction():
                self._note_eviction(effect)
            case _:
                raise TypeError(f"no write for {type(effect).__name__}")

    def _pod(self, name: str, uid: str, patch: dict[str, Any], subresource: str = "") -> None:
        self._patch("Pod", name, patch, subresource, uid)

    def _patch(self, kind: str, name: str, patch: dict[str, Any], subresource: str, uid: str | None = None) -> None:
        """A patch that only the object of this uid takes, if one is named; one that is gone is no fault."""
        self._note("patch", kind, name, subresource, uid or "")
        try:
            self._conflict(kind, name, subresource)
            self._cluster.api.patch(kind, name, patch, subresource=subresource, uid=uid)
        except Refused:
            there = self._cluster.api.get(kind, name)
            if there is not None and uid in (None, there["metadata"]["uid"]):
                raise

    def _open_queues(self, text: str) -> None:
        api, data = self._cluster.api, {small.OPEN_KEY: text}
        if api.get("ConfigMap", small.OPEN_QUEUES) is None:
            self._note("create", "ConfigMap", small.OPEN_QUEUES)
            api.create("ConfigMap", {"apiVersion": "v1", "metadata": {"name": small.OPEN_QUEUES}, "data": data})
        else:
            self._note("patch", "ConfigMap", small.OPEN_QUEUES)
            api.patch("ConfigMap", small.OPEN_QUEUES, {"data": data})

    def _note_eviction(self, effect: messages.NoteEviction) -> None:
        if effect.key.lone:
            self._note("create", "Event", effect.name, regarding=("Pod", effect.name))
        else:
            self._to_group(effect, evictions.patches(effect))

    def _to_group(self, effect: messages.StateGroup | messages.NoteEviction, patches: status.Patches) -> None:
        name = effect.key.name
        if patches.status is not None:
            self._patch("PodGroup", name, dict(patches.status), "status", effect.uid)
        if patches.annotations is not None:
            self._patch("PodGroup", name, {"metadata": {"annotations": patches.annotations}}, "", effect.uid)
        self._note("create", "Event", name, regarding=("PodGroup", name))

    def evict(self, effect: messages.Evict) -> None:
        """Evict a pod, and tell why; one that is gone already is a success, and nothing is told."""
        self._record(effect, evictions.record(effect.ground, effect.detail, self._time()))
        self._note("create", "Pod", effect.name, "eviction", effect.uid)
        try:
            self._conflict("Pod", effect.name, "eviction")
            self._cluster.evict(effect.name, effect.uid)
        except Refused as error:
            if error.code != 404:
                self._record(effect, None)
                raise
        else:
            self._note("create", "Event", effect.name, regarding=("Pod", effect.name))

    def _record(self, effect: messages.Evict, text: str | None) -> None:
        note = {departed.EVICTED_ANNOTATION: text}
        self._pod(effect.name, effect.uid, {"metadata": {"annotations": note}}, "status")

    def _time(self) -> str:
        return stamp(self._cluster.agenda.now)

    # --- the gate -------------------------------------------------------------------------------

    def bind(self, effect: gm.Bind) -> gm.BindDone | None:
        """Send a Binding; what it came to is asked of the pod. None: it must be sent again."""
        self._note("create", "Pod", effect.name, "binding", effect.uid)
        try:
            self._conflict("Pod", effect.name, "binding")
            self._cluster.bind(effect.name, effect.uid, effect.node, dict(effect.annotations))
        except Refused as error:
            return self._judge(effect, error)
        return gm.BindDone(effect.uid)

    def _judge(self, effect: gm.Bind, error: Refused) -> gm.BindDone | None:
        """What the pod proves after a Binding that was refused; None when it can still be bound."""
        pod = self._cluster.api.get("Pod", effect.name)
        if pod is None or pod["metadata"]["uid"] != effect.uid or "deletionTimestamp" in pod["metadata"]:
            return gm.BindDone(effect.uid, f"muster: gone: {error}", gone=True)
        node = pod["spec"].get("nodeName")
        if node is not None:
            return gm.BindDone(effect.uid, "" if node == effect.node else f"muster: elsewhere: already bound to {node}")
        if pod["spec"].get("schedulingGates"):
            return gm.BindDone(effect.uid, f"muster: refused: {error}")
        return None

    def state_condition(self, effect: gm.StateCondition) -> None:
        """Write a named condition on a pod; a refusal is left at that, as in the real shell."""
        condition = {
            "type": f"muster.dev/{effect.reason}",
            "status": "True",
            "reason": effect.reason,
            "message": effect.text,
            "lastTransitionTime": stamp(self._cluster.agenda.now),
        }
        with contextlib.suppress(Refused):
            self._pod(effect.name, effect.uid, {"status": {"conditions": [condition]}}, "status")

    def _conflict(self, kind: str, name: str, subresource: str) -> None:
        for key in {(kind, name, subresource), (kind, name, "")}:
            if self.conflicts.get(key, 0):
                self.conflicts[key] -= 1
                raise Refused(409, "the object has been modified")

    def _note(
        self,
        verb: str,
        kind: str,
        name: str,
        subresource: str = "",
        uid: str = "",
        regarding: tuple[str, str] = ("", ""),
    ) -> None:
        self.requests.append(Request(self._cluster.agenda.now, verb, kind, name, subresource, uid, regarding))
