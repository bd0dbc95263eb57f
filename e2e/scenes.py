"""A test's own stage: groups and pods in its namespace, and what the cluster, the gate and the extender say of them.

Takes API access, a replica and a namespace; gives short names for what the tests of gangs do and await. Must not
decide what is right: it asks, the tests judge.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from e2e import kube, objects, waiting
from e2e.cluster.muster import Replica

Object = dict[str, Any]
#: what the issue allows from the moment there is room to the last binding
STARTS_WITHIN = 2.0
#: what the issue allows until a call that must be answered is
ANSWERED_WITHIN = 1.0
#: for everything that no promise is about, on a busy machine
SOON = 20.0
#: room for members that were not created is kept so long after the newest one
EXPECTED = 10.0
#: in which fields of its object each source says why it waits
_SAID: dict[str, Callable[[Object], str]] = {
    "muster": lambda group: _status(group).get("reason") or "",
    "scheduler-plugins": lambda group: (group["metadata"].get("annotations") or {}).get("muster.dev/why", ""),
    "native": lambda group: _native_message(_condition(group, "PodGroupInitiallyScheduled")),
    "volcano": lambda group: _condition(group, "Unschedulable").get("reason", ""),
}


class Scene:
    """One namespace as its test sees it. Pods of a group are named <group>-<number>."""

    def __init__(self, api: kube.Kube, replica: Replica, namespace: str) -> None:
        self.kube = api
        self.replica = replica
        self.namespace = namespace

    # -- making

    def group(self, name: str, min_member: int, source: str = "muster", **options: Any) -> Object:
        """Create a group object."""
        return self.kube.create(objects.pod_group(source, name, self.namespace, min_member, **options))

    def gang(self, name: str, size: int, gpus: int = 1, *, first: int = 0, **options: Any) -> list[Object]:
        """Create members of a group, numbered from `first`."""
        members = objects.gang(name, self.namespace, first + size, gpus, **options)[first:]
        return [self.kube.create(member) for member in members]

    def pod(self, name: str, gpus: int = 1, **options: Any) -> Object:
        """Create one pod."""
        return self.kube.create(objects.pod(name, self.namespace, gpus, **options))

    def fill(self, node: str, gpus: int, name: str = "filler") -> Object:
        """Take room on a node by a pod that was bound there by somebody else."""
        return self.pod(name, gpus, scheduler="somebody-else", spec={"nodeName": node})

    def delete(self, *names: str) -> None:
        """Delete pods at once."""
        for name in names:
            self.kube.delete("pods", name, self.namespace, grace=0)

    # -- asking

    def pods(self, group: str = "") -> list[Object]:
        """The pods (of a group)."""
        found = self.kube.list("pods", self.namespace)
        return [one for one in found if not group or one["metadata"]["name"].rpartition("-")[0] == group]

    def bound(self, group: str = "") -> dict[str, str]:
        """The node of each bound pod (of a group)."""
        return {one["metadata"]["name"]: one["spec"]["nodeName"] for one in self.pods(group) if objects.is_bound(one)}

    def held(self, group: str = "") -> dict[str, str]:
        """The node for which the gate holds each pod (of a group)."""
        names = {one["metadata"]["uid"]: one["metadata"]["name"] for one in self.pods(group)}
        holds = self.replica.holds()["holds"]
        return {names[hold["uid"]]: hold["node"] for hold in holds if hold["uid"] in names}

    def held_uids(self) -> set[str]:
        """Everything that the gate holds, also for pods that are gone."""
        return {hold["uid"] for hold in self.replica.holds()["holds"]}

    def get_group(self, name: str, source: str = "muster") -> Object:
        """The group's object."""
        return self.kube.get(objects.GROUP_RESOURCE[source], name, self.namespace)

    def said(self, name: str, source: str = "muster") -> str:
        """Why the group waits, as its object says."""
        return _SAID[source](self.get_group(name, source))

    def phase(self, name: str) -> str:
        """The phase in the status of a group of ours, "" while there is none."""
        return str(_status(self.get_group(name)).get("phase", ""))

    def message(self, name: str) -> str:
        """The sentence in the status of a group of ours."""
        return str(_status(self.get_group(name)).get("message", ""))

    def events(self, kind: str) -> list[Object]:
        """Events of ours about objects of a kind; kube-scheduler's own bear its profile's name and its host's."""
        return [
            event
            for event in self.kube.list("events", self.namespace)
            if event["involvedObject"]["kind"] == kind and event.get("reportingInstance") == "muster"
        ]

    # -- waiting

    def wait_bound(self, group: str, count: int, deadline: float = SOON) -> dict[str, str]:
        """Wait until so many of the group are bound, no more and no fewer."""
        return waiting.wait_for(
            lambda: self.bound(group),
            deadline,
            f"{count} of {group} are bound",
            until=lambda found: len(found) == count,
        )

    def wait_whole(self, group: str, count: int, deadline: float = SOON) -> dict[str, str]:
        """Wait until so many of the group are bound, and nothing at all is held any more."""
        placed = self.wait_bound(group, count, deadline)
        waiting.wait_for(self.held_uids, SOON, "nothing is held", until=lambda held: not held)
        return placed

    def wait_held(self, group: str, count: int, deadline: float = SOON) -> dict[str, str]:
        """Wait until the gate holds so many of the group."""
        return waiting.wait_for(
            lambda: self.held(group), deadline, f"{count} of {group} are held", until=lambda held: len(held) == count
        )

    def wait_started(self, group: str, count: int) -> dict[str, str]:
        """Wait until so many are bound, as soon as a gang must start once nothing is in its way."""
        return self.wait_bound(group, count, STARTS_WITHIN)

    def wait_answered(self, uids: Iterable[str], deadline: float = ANSWERED_WITHIN) -> None:
        """Wait until the gate holds no call of these pods any more, as soon as a call must be answered."""
        asked = set(uids)
        waiting.wait_for(
            lambda: asked & self.held_uids(), deadline, "these calls are answered", until=lambda left: not left
        )

    def wait_says(self, name: str, reason: str, source: str = "muster", deadline: float = SOON) -> str:
        """Wait until the group's object names this reason: the system has looked, and the group waits."""
        return waiting.wait_for(
            lambda: self.said(name, source),
            deadline,
            f"{name} says {reason}",
            until=lambda said: said.partition(":")[0] == reason,
        )

    def wait_running(self, name: str, deadline: float = SOON) -> Object:
        """Wait until the status of a group of ours says Running."""
        return waiting.wait_for(
            lambda: _status(self.get_group(name)),
            deadline,
            f"{name} is Running",
            until=lambda status: status.get("phase") == "Running",
        )

    def wait_text(self, pod: str, text: str, deadline: float = SOON) -> None:
        """Wait until kube-scheduler has written this text into the pod's condition."""
        waiting.wait_for(
            lambda: self.scheduled_text(pod), deadline, f"{pod} says {text!r}", until=lambda said: text in said
        )

    def scheduled_text(self, pod: str) -> str:
        """What the PodScheduled condition of a pod says."""
        return str(_condition(self.kube.get("pods", pod, self.namespace), "PodScheduled").get("message", ""))

    def wait_open(self) -> None:
        """Wait until a new pod of the default queue would come ungated."""
        probe = objects.pod("probe", self.namespace, queue="default")

        def gates() -> Any:
            path = f"/api/v1/namespaces/{self.namespace}/pods"
            return self.kube.request("POST", path, probe, query={"dryRun": "All"})["spec"].get("schedulingGates")

        waiting.wait_for(gates, SOON, "the default queue is open", until=lambda found: not found)

    def wait_sound(self) -> None:
        """Wait until the gate holds nothing and the extender's books agree with the cluster (counted every 2 s)."""
        waiting.wait_for(self.held_uids, SOON, "nothing is held", until=lambda held: not held)
        waiting.wait_for(
            lambda: self.replica.metric("extender", "muster_extender_ledger_difference"),
            SOON,
            "no reservation is unaccounted for",
            until=lambda difference: difference == 0,
        )


@contextlib.contextmanager
def priority_classes(api: kube.Kube, **values: int) -> Iterator[None]:
    """Priority classes of a test; cluster-scoped, so they go with it."""
    try:
        for name, value in values.items():
            meta = {"name": name}
            api.create(
                {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}
            )
        yield
    finally:
        for name in values:
            api.delete("priorityclasses.scheduling.k8s.io", name)


def uids(pods: Iterable[Object]) -> set[str]:
    """The uids of these pods."""
    return {one["metadata"]["uid"] for one in pods}


def _native_message(condition: Object) -> str:
    return str(condition["message"]) if condition.get("status") == "False" else ""


def _status(obj: Object) -> Object:
    return obj.get("status") or {}


def _condition(obj: Object, kind: str) -> Object:
    conditions = _status(obj).get("conditions") or []
    return next((entry for entry in conditions if entry["type"] == kind), {})


@contextlib.contextmanager
def cleared(api: kube.Kube, replica: Replica, namespace: str, *kinds: str) -> Iterator[Scene]:
    """A scene of which nothing is left at the end: objects of these kinds, then pods, which those may make anew."""
    made = Scene(api, replica, namespace)
    yield made
    for kind in kinds:
        api.delete_all(kind, namespace)
    api.delete_all("pods", namespace, grace=0)
    waiting.wait_for(lambda: api.list("pods", namespace), 30, "all pods are gone", until=lambda pods: not pods)
    made.wait_sound()
