"""What a watch has shown of the pods of one namespace: on which nodes each was ever bound, why it was evicted.

Takes API access and a namespace; gives what each uid showed in the order seen, complete once `settle` has returned.
Reads by a thread with its own connections, resumes when the API server is restarted, and must not write.
"""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any

from e2e import waiting
from e2e.kube import ApiError, Kube

#: the record that a pod bears when it is evicted
RECORD = "muster.dev/evicted"
WATCH_SECONDS = 5
RETRY_SECONDS = 0.2
GONE = 410


class History:
    """The record; reads from entering the context until leaving it."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = Kube(kube.kubeconfig)
        self._namespace = namespace
        self._nodes: dict[str, list[str]] = {}
        self._records: dict[str, list[str | None]] = {}
        self._story: dict[tuple[str, str], None] = {}
        self._names: dict[str, str] = {}
        self._newest: dict[str, str] = {}
        self._since = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, name="pod-history", daemon=True)

    def __enter__(self) -> History:
        self._list()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(2 * WATCH_SECONDS)
        self._kube.close()

    def nodes(self) -> dict[str, list[str]]:
        """Pod name and uid: every node that its spec.nodeName ever named, in order, without repetitions."""
        return {f"{self._names[uid]} {uid}": list(nodes) for uid, nodes in list(self._nodes.items())}

    def settle(self, kube: Kube) -> None:
        """Wait until the record holds the newest state of every pod that exists."""

        def behind() -> list[str]:
            pods = kube.list("pods", self._namespace)
            return [
                pod["metadata"]["name"]
                for pod in pods
                if self._newest.get(pod["metadata"]["uid"]) != pod["metadata"]["resourceVersion"]
            ]

        waiting.wait_for(behind, 20, "the watch has shown the newest state of all pods", until=lambda left: not left)

    def twice(self, kube: Kube) -> dict[str, list[str]]:
        """Pods that were bound more than once, or lost their node again; {} is right."""
        self.settle(kube)
        return {name: nodes for name, nodes in self.nodes().items() if len(nodes) > 1}

    def ever_bound(self, kube: Kube) -> list[str]:
        """Pods that had a node at any time."""
        self.settle(kube)
        return [name for name, nodes in self.nodes().items() if nodes]

    def records(self, kube: Kube) -> dict[str, list[dict[str, Any] | None]]:
        """By uid the records of its eviction that a pod bore; None where one was taken back."""
        self.settle(kube)
        return {uid: [text and json.loads(text) for text in texts] for uid, texts in list(self._records.items())}

    def story(self, kube: Kube) -> list[tuple[str, str]]:
        """Which pod (its name) came to which stage, each for the first time, in the order seen.

        The stages: `bound`, `recorded` (bears the record of its eviction), `target` (the API server has marked it as
        about to be disrupted), `leaving` (is being deleted), `gone`.
        """
        self.settle(kube)
        return list(self._story)

    def _read(self) -> None:
        while not self._ended.is_set():
            try:
                if not self._since:
                    self._list()
                self._follow()
            except (OSError, http.client.HTTPException, ApiError, ValueError) as error:
                # A restarted API server does not know what was before: a list says what became of it.
                if getattr(error, "status", 0) == GONE:
                    self._since = ""
                self._ended.wait(RETRY_SECONDS)

    def _list(self) -> None:
        answer = self._kube.request("GET", self._kube.resource("pods").path(self._namespace))
        for pod in answer["items"]:
            self._note(pod)
        self._since = answer["metadata"]["resourceVersion"]

    def _follow(self) -> None:
        for event in self._kube.watch("pods", self._namespace, since=self._since, seconds=WATCH_SECONDS):
            if event["type"] == "ERROR":
                self._since = ""
                return
            self._since = event["object"]["metadata"]["resourceVersion"]
            self._note(event["object"], gone=event["type"] == "DELETED")

    def _note(self, pod: dict[str, Any], gone: bool = False) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName") or ""
        seen = self._nodes.setdefault(uid, [])
        for stage in _stages(pod, gone):
            self._story.setdefault((pod["metadata"]["name"], stage))
        records, record = self._records.get(uid, []), (pod["metadata"].get("annotations") or {}).get(RECORD)
        if record != (records[-1] if records else None):
            self._records[uid] = [*records, record]
        # A pod that has no node any more would show as "" after a node.
        if node != (seen[-1] if seen else ""):
            seen.append(node)
        self._names[uid] = pod["metadata"]["name"]
        self._newest[uid] = pod["metadata"]["resourceVersion"]


def _stages(pod: dict[str, Any], gone: bool) -> list[str]:
    """The stages at which a pod is, in the order in which it comes to them."""
    conditions = pod.get("status", {}).get("conditions") or []
    at = {
        "bound": bool(pod["spec"].get("nodeName")),
        "recorded": RECORD in (pod["metadata"].get("annotations") or {}),
        "target": any(one["type"] == "DisruptionTarget" and one["status"] == "True" for one in conditions),
        "leaving": "deletionTimestamp" in pod["metadata"],
        "gone": gone,
    }
    return [stage for stage, reached in at.items() if reached]
