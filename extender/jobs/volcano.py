"""Whether Volcano's own job controller runs: it works on every Job, whatever its scheduler, so we must not.

Takes its leader-election Leases, its Deployments and its pods as watches show them, and the time; gives what shows that
it runs. Must not look at a Lease's own times, which are of another machine's clock: one that is held counts as running
until it has not changed for its whole duration, as seen from here. Without leader election, which is how it is often
installed, there is no Lease, and the name of a Deployment is the installer's choice: its pods are told by their label.
"""

from __future__ import annotations

from extender.core.activity import Lease

#: the leader-election Lease of `vc-controller-manager`, in whichever namespace it was installed
LEASE = "vc-controller-manager"
#: its Deployment as Volcano's manifests and chart name it
DEPLOYMENT = "volcano-controllers"
#: what its manifests and its chart label its pods with, whatever the release is called
POD_LABEL = "app=volcano-controller"
_ENDED = ("Succeeded", "Failed")


class Presence:
    """What is known of Volcano's controller. Nothing is known before both lists were read: see `process`."""

    def __init__(self) -> None:
        #: by namespace: the newest record, and when it was first seen
        self._leases: dict[str, tuple[Lease, float]] = {}
        self._deployments: dict[str, int] = {}
        #: by uid: namespace and name
        self._pods: dict[str, tuple[str, str]] = {}

    def lease_seen(self, namespace: str, lease: Lease | None, now: float) -> None:
        """Take in the Lease of that namespace; None when it is gone."""
        if lease is None:
            self._leases.pop(namespace, None)
        elif namespace not in self._leases or self._leases[namespace][0] != lease:
            self._leases[namespace] = (lease, now)

    def deployment_seen(self, namespace: str, replicas: int) -> None:
        """Take in how many pods the Deployment of that namespace wants or has; 0 when it is gone."""
        self._deployments[namespace] = replicas
        if not replicas:
            del self._deployments[namespace]

    def pod_seen(self, namespace: str, name: str, uid: str, phase: str) -> None:
        """Take in a pod with its label: it counts until it has ended or is gone."""
        if phase in _ENDED:
            self.pod_gone(uid)
        else:
            self._pods[uid] = (namespace, name)

    def pod_gone(self, uid: str) -> None:
        """The pod is there no more."""
        self._pods.pop(uid, None)

    def shown_by(self, now: float) -> str | None:
        """What shows that it runs, such as `Lease volcano-system/vc-controller-manager`; None: it does not."""
        for namespace, (lease, seen) in sorted(self._leases.items()):
            if lease.holder and now - seen < lease.duration:
                return f"Lease {namespace}/{LEASE}"
        for namespace in sorted(self._deployments):
            return f"Deployment {namespace}/{DEPLOYMENT}"
        for namespace, name in sorted(self._pods.values()):
            return f"Pod {namespace}/{name}"
        return None
