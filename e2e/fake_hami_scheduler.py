"""HAMi's scheduler extender, for clusters of the tests: its filter chooses cards, its bind hands them to the plugin.

Takes API access, and the plugin whose nodes it serves; answers on loopback until `stop`. Must not know Muster, nor be
kinder than the real one: filter answers one node and writes what it chose on the pod before the scheduler has decided;
bind takes the node's lock or fails, and waits for it only for members of pod groups by the marks that HAMi knows.
"""

from __future__ import annotations

import contextlib
import datetime
import http.server
import json
import threading
import time
from typing import Any

from e2e import fake_hami
from e2e import kube as kube_module
from e2e.fake_hami import ALLOCATED, BIND_TIME, LOCK, NODE, PHASE, TO_ALLOCATE, WORD, Device
from e2e.objects import GPU

Object = dict[str, Any]
VGPU_TIME = f"{fake_hami.PREFIX}vgpu-time"
MEMORY, PERCENT, CORES = "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"
LOCK_TRIES, LOCK_PAUSE_SECONDS, LOCK_RETRY_SECONDS, LOCK_EXPIRES_SECONDS = 5, 0.1, 28.0, 300.0
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


class HamiError(Exception):
    """What bind answers with."""


class Extender:
    """The extender as a server; `url` is what the scheduler's configuration and the gate are told."""

    def __init__(self, kube: kube_module.Kube) -> None:
        self.kube = kube
        self._cards: dict[str, dict[str, fake_hami.Card]] = {}
        #: names of the pods that it was asked to bind, in order, and those that it bound
        self.asked: list[str] = []
        self.bound: list[str] = []
        #: so many of the next bindings fail after the lock was taken
        self.failing = 0
        self.faults: list[str] = []
        #: what filter chose, by uid, until it chooses anew
        self._chosen: dict[str, tuple[str, list[list[Device]]]] = {}
        self._filtering = threading.Lock()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="fake-hami-extender", daemon=True)
        self._thread.start()

    def serve(self, plugin: fake_hami.Plugin) -> None:
        """Know the cards of this plugin's nodes, as they are at any time, and nothing of what was before."""
        self._cards = plugin.cards
        self._chosen.clear()
        for log in (self.asked, self.bound, self.faults):
            log.clear()

    def stop(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def entry(self) -> Object:
        """Its entry in the scheduler's configuration, without bindVerb."""
        names = (GPU, MEMORY, PERCENT, CORES)
        return {
            "urlPrefix": self.url,
            "filterVerb": "filter",
            "nodeCacheCapable": True,
            "weight": 1,
            "httpTimeout": "30s",
            "managedResources": [{"name": name, "ignoredByScheduler": True} for name in names],
        }

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        extender = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                args = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                verbs = {"/filter": extender.filter, "/bind": extender.bind}
                answer = json.dumps(verbs[self.path](args)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: tests read what came of it."""

        return Handler

    # --- filter ---------------------------------------------------------------------------------

    def filter(self, args: Object) -> Object:
        """One node with cards for the pod; all of them for a pod that asks for none."""
        pod, names = args["Pod"], args["NodeNames"] or []
        asks = [_ask(one) for one in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])]
        if not any(asks):
            return {"NodeNames": names}
        with self._filtering:
            self._chosen.pop(pod["metadata"]["uid"], None)
            for name in names:
                devices = self._fit(name, asks, pod)
                if devices is not None:
                    self._chosen[pod["metadata"]["uid"]] = (name, devices)
                    self._write(pod, name, devices)
                    failed = dict.fromkeys((other for other in names if other != name), "not chosen")
                    return {"NodeNames": [name], "FailedNodes": failed}
        return {"NodeNames": [], "FailedNodes": dict.fromkeys(names, "no card fits")}

    def _fit(
        self, node: str, asks: list[tuple[int, int | None, int | None, int]], pod: Object
    ) -> list[list[Device]] | None:
        used = self._used(node, pod["metadata"]["uid"])
        chosen: list[list[Device]] = []
        for number, memory, percent, cores in asks:
            given: list[Device] = []
            for card in self._cards.get(node, {}).values():
                size = memory if memory is not None else card.memory * (percent or 100) // 100
                there = [one for one in (*used, *given) if one.card == card.id]
                alone = there and (cores == 100 or any(one.cores == 100 for one in there))
                room = sum(one.memory for one in there) + size <= card.memory
                room = room and sum(one.cores for one in there) + cores <= card.cores and len(there) < card.slots
                if len(given) < number and card.healthy and room and not alone:
                    given.append(Device(card.id, size, cores))
            if len(given) < number:
                return None
            chosen.append(given)
            used += given
        return chosen

    def _used(self, node: str, but: str) -> list[Device]:
        """What pods have there, by their annotation, and what was chosen for others and is not written yet."""
        found: dict[str, list[Device]] = {}
        for pod in self.kube.list("pods"):
            notes, uid = pod["metadata"].get("annotations") or {}, pod["metadata"]["uid"]
            if notes.get(NODE) == node and pod["status"].get("phase") not in ("Succeeded", "Failed"):
                found[uid] = _devices(notes.get(ALLOCATED, ""))
        for uid, (at, chosen) in self._chosen.items():
            if at == node and uid not in found and uid in {pod["metadata"]["uid"] for pod in self.kube.list("pods")}:
                found[uid] = [one for given in chosen for one in given]
        return [one for uid, devices in found.items() if uid != but for one in devices]

    def _write(self, pod: Object, node: str, devices: list[list[Device]]) -> None:
        text = "".join("".join(f"{d.card},{WORD},{d.memory},{d.cores}:" for d in given) + ";" for given in devices)
        notes = {NODE: node, VGPU_TIME: str(int(time.time())), TO_ALLOCATE: text, ALLOCATED: text}
        meta = pod["metadata"]
        body = {"metadata": {"annotations": notes, "labels": {NODE: node}}}
        with contextlib.suppress(kube_module.ApiError):
            self.kube.patch("pods", meta["name"], body, meta["namespace"])

    # --- bind -----------------------------------------------------------------------------------

    def bind(self, args: Object) -> Object:
        """Lock the node, say on the pod that its cards are handed out, and write the Binding."""
        self.asked.append(args["PodName"])
        try:
            self._bind(args)
        except (HamiError, kube_module.ApiError) as error:
            return {"Error": str(error)}
        self.bound.append(args["PodName"])
        return {"Error": ""}

    def _bind(self, args: Object) -> None:
        name, namespace, node = args["PodName"], args["PodNamespace"], args["Node"]
        pod = self.kube.find("pods", name, namespace)
        if pod is None:
            raise HamiError(f"pod {namespace}/{name} not found")
        chosen = (pod["metadata"].get("annotations") or {}).get(NODE)
        if chosen != node:
            self.faults.append(f"{name} is to be bound to {node}, its cards are on {chosen}")
        self._lock(pod, node)
        try:
            if self.failing:
                self.failing -= 1
                raise HamiError("patch of the pod failed")
            notes = {PHASE: "allocating", BIND_TIME: str(int(time.time()))}
            self.kube.patch("pods", name, {"metadata": {"annotations": notes}}, namespace)
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name, "namespace": namespace, "uid": args["PodUID"]},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            }
            self.kube.request("POST", f"{self.kube.resource('pods').path(namespace, name)}/binding", body)
        except (HamiError, kube_module.ApiError):
            self._unlock(pod, node)
            raise

    def _lock(self, pod: Object, node: str) -> None:
        member = GROUP_LABEL in (pod["metadata"].get("labels") or {}) or "schedulingGroup" in pod["spec"]
        ends = time.monotonic() + (LOCK_RETRY_SECONDS if member else 0.0)
        while not self._try_lock(pod, node):
            if time.monotonic() >= ends:
                raise HamiError(f"node {node} has been locked within 5 minutes")
            time.sleep(LOCK_PAUSE_SECONDS)

    def _try_lock(self, pod: Object, node: str) -> bool:
        mine = [pod["metadata"]["namespace"], pod["metadata"]["name"]]
        for _ in range(LOCK_TRIES):
            seen = self.kube.get("nodes", node)["metadata"]
            held = (seen.get("annotations") or {}).get(LOCK) or ""
            if held and held.split(",")[1:] == mine:
                return True
            if held and not self._left_over(held):
                return False
            text = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ},{mine[0]},{mine[1]}"
            body = {"metadata": {"annotations": {LOCK: text}, "resourceVersion": seen["resourceVersion"]}}
            try:
                self.kube.patch("nodes", node, body)
            except kube_module.ApiError as error:
                if error.status != 409:
                    raise
                continue
            return True
        return False

    def _left_over(self, held: str) -> bool:
        since, *owner = held.split(",")
        age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(since)
        return age.total_seconds() > LOCK_EXPIRES_SECONDS or (
            len(owner) == 2 and self.kube.find("pods", owner[1], owner[0]) is None
        )

    def _unlock(self, pod: Object, node: str) -> None:
        seen = self.kube.get("nodes", node)["metadata"]
        held = (seen.get("annotations") or {}).get(LOCK) or ""
        if held.split(",")[1:] == [pod["metadata"]["namespace"], pod["metadata"]["name"]]:
            body = {"metadata": {"annotations": {LOCK: None}, "resourceVersion": seen["resourceVersion"]}}
            with contextlib.suppress(kube_module.ApiError):
                self.kube.patch("nodes", node, body)


def _ask(container: Object) -> tuple[int, int | None, int | None, int]:
    """GPUs, MiB, percent and cores that a container asks for; nothing at all without GPUs."""
    limits = (container.get("resources") or {}).get("limits") or {}
    number = int(limits.get(GPU, 0))
    if not number:
        return (0, 0, None, 0)
    memory, percent = _whole(limits.get(MEMORY)), _whole(limits.get(PERCENT))
    return (
        number,
        memory,
        percent,
        _whole(limits.get(CORES)) or 0,
    )


def _whole(amount: str | None) -> int | None:
    """The number of a quantity as the API server writes whole ones: 3000 as 3k."""
    if amount is None:
        return None
    return int(amount.removesuffix("k")) * (1000 if amount.endswith("k") else 1)


def _devices(text: str) -> list[Device]:
    parts = [part.split(",") for part in text.replace(";", ":").split(":") if part]
    return [Device(card, int(memory), int(cores)) for card, _, memory, cores in parts]
