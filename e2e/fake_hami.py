"""A kubelet with HAMi's device plugin, for nodes that the tests made: it publishes cards and hands them out.

Takes API access and nodes; plays both in a thread. Must not know Muster, nor be kinder than the real one: a pod whose
annotations or lock are not there ends Failed with UnexpectedAdmissionError, as do its cards when they are short.

The plugin, at each Allocate of a container: the pod that the node's lock names, or without a lock the first pending one
with a bind-time, in phase allocating or success, whose vgpu-node is this node. It takes that pod's first container
entry of devices-to-allocate that is not empty, and strikes it out. When no device is left in the text, the pod's phase
is success and the lock is given back; at an error it is failed, and the lock is given back too.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import threading
import time
from collections.abc import Iterable
from typing import Any

from e2e import kube as kube_module
from e2e.objects import GPU

Object = dict[str, Any]
PREFIX = "hami.io/"
REGISTER = f"{PREFIX}node-nvidia-register"
LOCK = f"{PREFIX}mutex.lock"
NODE, BIND_TIME, PHASE = f"{PREFIX}vgpu-node", f"{PREFIX}bind-time", f"{PREFIX}bind-phase"
TO_ALLOCATE, ALLOCATED = f"{PREFIX}vgpu-devices-to-allocate", f"{PREFIX}vgpu-devices-allocated"
WORD = "NVIDIA"
POLL_SECONDS = 0.03
BEAT_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
class Card:
    """A card of a node."""

    id: str
    slots: int = 10
    memory: int = 16384
    cores: int = 100
    healthy: bool = True


@dataclasses.dataclass(frozen=True)
class Device:
    """What a container was handed of a card."""

    card: str
    memory: int
    cores: int


class AllocateError(Exception):
    """The plugin cannot hand out what is asked."""


class Plugin(threading.Thread):
    """Plays kubelet and plugin of these nodes, all with equal cards, until `stop` is called."""

    def __init__(self, kube: kube_module.Kube, nodes: Iterable[str], cards: Iterable[Card], form: str = "json") -> None:
        super().__init__(name="fake-hami", daemon=True)
        self.kube = kube
        self.nodes = tuple(nodes)
        self.cards = {
            node: {card.id: card for card in cards} for node, cards in ((n, tuple(cards)) for n in self.nodes)
        }
        self.form = form
        #: what each pod that runs was handed, by node and uid
        self.handed: dict[tuple[str, str], list[Device]] = {}
        #: pods in the order in which they were served, with the pod that the lock named then
        self.served: list[tuple[str, str]] = []
        #: what the real one would have stumbled over
        self.faults: list[str] = []
        #: while it is set no kubelet asks for devices
        self.slow = threading.Event()
        #: so many of the next Allocates fail
        self.failing = 0
        self._ended = threading.Event()
        self._beat = 0.0
        for node in self.nodes:
            self.publish(node)

    # --- the node -------------------------------------------------------------------------------

    def publish(self, node: str) -> None:
        """Write what the node's cards are into its annotation, and its slots into what it has allocatable."""
        cards = self.cards[node].values()
        slots = str(sum(card.slots for card in cards if card.healthy))
        self.kube.patch("nodes", node, {"metadata": {"annotations": {REGISTER: registered(cards, self.form)}}})
        status = {"status": {"allocatable": {GPU: slots}, "capacity": {GPU: slots}}}
        self.kube.patch("nodes", node, status, subresource="status")

    def set_health(self, node: str, card: str, healthy: bool) -> None:
        """A card falls ill or recovers."""
        self.cards[node][card] = dataclasses.replace(self.cards[node][card], healthy=healthy)
        self.publish(node)

    def lock_of(self, node: str) -> str:
        """The node's lock, or nothing."""
        return str((self.kube.get("nodes", node)["metadata"].get("annotations") or {}).get(LOCK) or "")

    # --- the thread -----------------------------------------------------------------------------

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        self.join()

    def run(self) -> None:
        """Serve what is bound, and keep the nodes' hearts beating."""
        while not self._ended.wait(POLL_SECONDS):
            if time.monotonic() >= self._beat:
                self._beat = time.monotonic() + BEAT_SECONDS
                self._beat_hearts()
            if not self.slow.is_set():
                self._serve()

    def _beat_hearts(self) -> None:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "reason": "Fake", "message": "", "lastHeartbeatTime": now}
        for node in self.nodes:
            self.kube.patch(
                "nodes",
                node,
                {"status": {"conditions": [ready]}},
                subresource="status",
                content_type=kube_module.STRATEGIC,
            )

    def _serve(self) -> None:
        pods = [pod for pod in self.kube.list("pods") if pod["spec"].get("nodeName") in self.nodes]
        self._forget(pods)
        for pod in pods:
            leaving = pod["metadata"].get("deletionTimestamp") is not None
            if pod["status"].get("phase") == "Pending" and not leaving and not self.slow.is_set():
                self._admit(pod)

    def _forget(self, pods: list[Object]) -> None:
        using = {pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") in ("Pending", "Running")}
        self.handed = {key: devices for key, devices in self.handed.items() if key[1] in using}

    def _admit(self, pod: Object) -> None:
        """The kubelet asks for the devices of each container, then runs the pod."""
        node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
        handed: list[Device] = []
        try:
            for key in ("initContainers", "containers"):
                for container in pod["spec"].get(key, ()):
                    number = int((container.get("resources", {}).get("limits") or {}).get(GPU, 0))
                    devices = self._allocate(node, pod, number) if number else []
                    if key == "initContainers":  # it ends before the others start
                        self._check_room(node, uid, devices)
                    else:
                        handed += devices
            self._check_room(node, uid, handed)
        except (AllocateError, kube_module.ApiError) as error:
            self._state(pod, {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": str(error)})
            return
        self.handed[node, uid] = handed
        self._state(pod, {"phase": "Running"})

    def _state(self, pod: Object, status: Object) -> None:
        meta = pod["metadata"]
        try:
            self.kube.patch("pods", meta["name"], {"status": status}, meta["namespace"], subresource="status")
        except kube_module.ApiError as error:
            if error.status != 404:
                self.faults.append(str(error))

    def _check_room(self, node: str, uid: str, devices: list[Device]) -> None:
        """No card is used beyond what it has."""
        there = [one for (at, other), given in self.handed.items() if at == node and other != uid for one in given]
        for card in self.cards[node].values():
            mine = [one for one in (*there, *devices) if one.card == card.id]
            alone = len(mine) > 1 and any(one.cores >= 100 for one in mine)
            sizes = (sum(one.memory for one in mine), sum(one.cores for one in mine), len(mine))
            if alone or any(x > y for x, y in zip(sizes, (card.memory, card.cores, card.slots), strict=True)):
                self.faults.append(f"card {card.id} of {node} has {sizes} taken")

    # --- the plugin -----------------------------------------------------------------------------

    def _allocate(self, node: str, asking: Object, number: int) -> list[Device]:
        locked = self.lock_of(node)
        pod = self._pod_to_serve(node, locked)
        self.served.append((asking["metadata"]["name"], locked))
        if pod is None:
            raise AllocateError(f"no binding pod found on node {node}")
        if pod["metadata"]["uid"] != asking["metadata"]["uid"]:
            self.faults.append(f"{asking['metadata']['name']} asks, {pod['metadata']['name']} is served")
        try:
            return self._hand_out(pod, node, number)
        except AllocateError:
            self._annotate(pod, {PHASE: "failed"})
            self._unlock(node, pod)
            raise

    def _hand_out(self, pod: Object, node: str, number: int) -> list[Device]:
        if self.failing:
            self.failing -= 1
            raise AllocateError("the plugin is ill")
        entries = (self._notes(pod).get(TO_ALLOCATE) or "").split(";")
        at = next((index for index, entry in enumerate(entries) if WORD in entry), None)
        devices = [] if at is None else [_device(text) for text in entries[at].split(":") if text]
        if at is None or len(devices) != number:
            raise AllocateError(f"{number} devices are asked for, {len(devices)} are in the annotation")
        known = self.cards[node]
        if any(one.card not in known or not known[one.card].healthy for one in devices):
            raise AllocateError("a device is not there, or is not healthy")
        entries[at] = ""
        left = ";".join(entries)
        self._annotate(pod, {TO_ALLOCATE: left})
        if WORD not in left:
            self._annotate(pod, {PHASE: "success"})
            self._unlock(node, pod)
        return devices

    def _pod_to_serve(self, node: str, locked: str) -> Object | None:
        if locked:
            _, namespace, name = locked.split(",")
            return self.kube.find("pods", name, namespace)
        for pod in self.kube.list("pods"):
            notes = self._notes(pod)
            waits = pod["status"].get("phase") == "Pending" and BIND_TIME in notes
            if waits and notes.get(PHASE) in ("allocating", "success") and notes.get(NODE) == node:
                return pod
        return None

    def _notes(self, pod: Object) -> dict[str, str]:
        live = self.kube.find("pods", pod["metadata"]["name"], pod["metadata"]["namespace"]) or pod
        return live["metadata"].get("annotations") or {}

    def _annotate(self, pod: Object, notes: dict[str, str]) -> None:
        meta = pod["metadata"]
        self.kube.patch("pods", meta["name"], {"metadata": {"annotations": notes}}, meta["namespace"])

    def _unlock(self, node: str, pod: Object) -> None:
        """Give the lock back, if it is this pod's."""
        seen = self.kube.get("nodes", node)["metadata"]
        lock = (seen.get("annotations") or {}).get(LOCK) or ""
        if lock.split(",")[1:] != [pod["metadata"]["namespace"], pod["metadata"]["name"]]:
            self.faults.append(f"the lock of {node} is {lock!r} when {pod['metadata']['name']} gives it back")
            return
        body = {"metadata": {"annotations": {LOCK: None}, "resourceVersion": seen["resourceVersion"]}}
        try:
            self.kube.patch("nodes", node, body)
        except kube_module.ApiError as error:
            if error.status != 409:
                raise
            self._unlock(node, pod)


def registered(cards: Iterable[Card], form: str) -> str:
    """The cards in one of the three texts: json (what is false is left out), 7 or 9 (fields)."""
    if form == "json":
        return json.dumps(
            [
                {
                    "id": c.id,
                    "index": n,
                    "count": c.slots,
                    "devmem": c.memory,
                    "devcore": c.cores,
                    "type": "NVIDIA-Fake",
                }
                | ({"health": True} if c.healthy else {})
                for n, c in enumerate(cards)
            ]
        )
    last = {"7": "", "9": ",{n},hami-core"}[form]
    texts = [
        f"{c.id},{c.slots},{c.memory},{c.cores},NVIDIA-Fake,0,{str(c.healthy).lower()}" + last.format(n=n)
        for n, c in enumerate(cards)
    ]
    return "".join(f"{text}:" for text in texts)


def _device(text: str) -> Device:
    card, word, memory, cores = text.split(",")
    if word != WORD:
        raise AllocateError(f"a device of type {word}")
    return Device(card, int(memory), int(cores))
