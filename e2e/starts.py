"""The start of a gang, stage by stage, for tests that break something on the way.

Takes API access, a namespace and sizes; gives `Start`, which creates a group and its pods, says how far it is, and
judges the end: whole, each pod bound once, nothing left reserved. Knows Muster by Kubernetes and HTTP only.
"""

from __future__ import annotations

from typing import Any

from e2e import history, objects, waiting
from e2e.cluster import manifests, muster, proxy
from e2e.kube import Kube

# A restarted process has to be ready, and kube-scheduler's back-off of a failed pod lasts up to ten seconds.
WHOLE_SECONDS = 45
GATE_AGENT = "muster-permit-gate"
ALWAYS = 1_000_000


class Start:
    """One gang of `size` pods of one GPU each, all of them needed."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        name: str,
        size: int,
        *,
        queue: str = "default",
        timeout: int = 0,
        selector: dict[str, str] | None = None,
    ) -> None:
        self.kube = kube
        self.namespace = namespace
        self.name = name
        self.size = size
        self.queue = queue
        spec: dict[str, Any] = {"scheduleTimeoutSeconds": timeout} if timeout else {}
        self._group = objects.pod_group("muster", name, namespace, size, queue=queue, spec=spec)
        self._pods = objects.gang(name, namespace, size, queue=queue, spec={"nodeSelector": selector or {}})
        self._created = 0

    def create(self, pods: int | None = None) -> Start:
        """Create the group, and pods until there are so many (all, unless said otherwise)."""
        if self._created == 0:
            self.kube.create(self._group)
        upto = self.size if pods is None else pods
        for pod in self._pods[self._created : upto]:
            self.kube.create(pod)
        self._created = upto
        return self

    def pods(self) -> list[objects.Object]:
        """Its pods as they are now."""
        return self.kube.list("pods", self.namespace, labels=f"muster.dev/pod-group={self.name}")

    def bound(self) -> list[str]:
        """Names of its pods that have a node."""
        return sorted(pod["metadata"]["name"] for pod in self.pods() if objects.is_bound(pod))

    def gated(self) -> list[str]:
        """Names of its pods that bear a scheduling gate."""
        return sorted(pod["metadata"]["name"] for pod in self.pods() if pod["spec"].get("schedulingGates"))

    def uids(self) -> set[str]:
        """Uids of its pods."""
        return {pod["metadata"]["uid"] for pod in self.pods()}

    def held(self, replica: muster.Replica) -> list[str]:
        """Uids of its pods that this replica's gate holds."""
        ours = self.uids()
        return sorted(hold["uid"] for hold in replica.holds()["holds"] if hold["uid"] in ours)

    def wait_held(self, replica: muster.Replica, number: int, deadline: float = 20) -> None:
        """Wait until so many of its pods are held."""
        what = f"{number} members of {self.name} are held"
        waiting.wait_for(lambda: self.held(replica), deadline, what, until=lambda held: len(held) == number)

    def wait_bound(self, number: int, deadline: float = WHOLE_SECONDS) -> None:
        """Wait until exactly so many of its pods are bound."""
        what = f"{number} members of {self.name} are bound"
        waiting.wait_for(self.bound, deadline, what, until=lambda bound: len(bound) == number)

    def wait_whole(self, deadline: float = WHOLE_SECONDS) -> None:
        """Wait until all are bound."""
        self.wait_bound(self.size, deadline)

    def wait_phase(self, reason: str, deadline: float = 20) -> None:
        """Wait until the group's status says that it waits for this reason: Muster has looked at it."""

        def conditions() -> list[str]:
            status = self.kube.get("podgroups.muster.dev", self.name, self.namespace).get("status") or {}
            return [str(condition.get("reason")) for condition in status.get("conditions") or []]

        what = f"the status of {self.name} gives the reason {reason}"
        waiting.wait_for(conditions, deadline, what, until=lambda reasons: reason in reasons)

    def delete(self) -> None:
        """Delete group and pods, and wait until they are gone."""
        self.kube.delete("podgroups.muster.dev", self.name, self.namespace)
        self.kube.delete_all("pods", self.namespace, labels=f"muster.dev/pod-group={self.name}", grace=0)
        waiting.wait_for(self.pods, 20, f"the pods of {self.name} are gone", until=lambda left: not left)


def ended_well(start: Start, replica: muster.Replica, seen: history.History, room: int) -> None:
    """The gang is whole, no pod was bound twice, and what it does not use (`room`) is free for another gang."""
    start.wait_whole()
    assert seen.twice(start.kube) == {}
    nothing_left(start, replica, room)


def nothing_left(start: Start, replica: muster.Replica, room: int) -> None:
    """No call is held, ledger and watches agree, and a gang as large as the room that is left starts at once."""
    replica.wait_ready()
    waiting.wait_for(lambda: start.held(replica), 20, "no call is held", until=lambda held: not held)
    waiting.wait_for(
        lambda: replica.metric("extender", "muster_extender_ledger_difference"),
        20,
        "ledger and watches agree",
        until=lambda difference: difference == 0,
    )
    other = Start(start.kube, start.namespace, f"{start.name}-other", room).create()
    other.wait_whole()


def hold_bindings(through: proxy.Proxy, namespace: str, pods: str = "[^/]*") -> proxy.Fault:
    """Hold the gate's Bindings of pods whose name matches, before they are carried out."""
    path = rf"/namespaces/{namespace}/pods/{pods}/binding$"
    return through.hold_before(path, "POST", times=ALWAYS, agent=GATE_AGENT)


def hold_release(through: proxy.Proxy, start: Start) -> proxy.Fault:
    """Hold the gate's live read of the group: all members are held, and the release is about to come."""
    path = rf"/namespaces/{start.namespace}/podgroups/{start.name}$"
    return through.hold_before(path, "GET", times=ALWAYS, agent=GATE_AGENT)


def open_queues(kube: Kube) -> list[str]:
    """The queues whose new pods come ungated."""
    data = kube.get("configmaps", "muster-admission", manifests.NAMESPACE).get("data") or {}
    return str(data.get("open", "")).split()


def wait_listed(kube: Kube, queue: str, wanted: bool) -> None:
    """Wait until the queue stands in the list of open queues, or does not."""
    state = "open" if wanted else "closed"
    waiting.wait_for(
        lambda: queue in open_queues(kube), 30, f"queue {queue} is {state}", until=lambda found: found is wanted
    )


def close_queue(kube: Kube, namespace: str, queue: str) -> None:
    """Give a queue a backlog, a pod `giant` that never fits, and wait until its new pods are gated."""
    kube.create(objects.pod("giant", namespace, 1000, queue=queue))
    wait_listed(kube, queue, False)
    probe = objects.pod("probe", namespace, queue=queue)
    path = f"/api/v1/namespaces/{namespace}/pods"
    waiting.wait_for(
        lambda: kube.request("POST", path, probe, query={"dryRun": "All"})["spec"].get("schedulingGates"),
        20,
        f"new pods of queue {queue} are gated",
    )
