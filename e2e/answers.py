"""A replica whose live answers are registered as a user registers them, on an address that the API server can reach.

Takes a cluster; gives a server's address and files, and a pod that stands for it. The fixtures are in conftest.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import socket
import subprocess
import tempfile
from collections.abc import Iterator

from e2e import objects
from e2e.cluster import base, manifests, muster, process

SERVICE = "muster-answers.muster-system.svc"
REGISTERED = "v1alpha1.visibility.muster.dev"
FOLDER = manifests.ROOT / "manifests" / "answers"


class Server:
    """Where one extender serves its answers, as the cluster knows it."""

    def __init__(self, cluster: base.Cluster) -> None:
        self.cluster = cluster
        self.host, self.port = own_address(), process.free_port()
        self.cert, self.key = cluster.key_pair(SERVICE)
        #: what the extender decides is on record there
        self.decisions = pathlib.Path(tempfile.mkdtemp(prefix="decisions-", dir=cluster.work))

    @property
    def arguments(self) -> dict[str, list[str]]:
        """What its extender is told."""
        files = [f"--answers-cert={self.cert}", f"--answers-key={self.key}"]
        log = [f"--decision-log={self.decisions}", "--decision-log-size=1"]
        return {"extender": [f"--answers-listen={self.host}:{self.port}", *files, *log]}

    @contextlib.contextmanager
    def known(self, name: str) -> Iterator[None]:
        """In the block a pod as the Deployment makes them stands for our processes, on a node that is nobody's."""
        api = self.cluster.kube
        deployment = api.get("deployments.apps", "muster", manifests.NAMESPACE)
        template = deployment["spec"]["template"]
        for container in template["spec"]["containers"]:
            for port in container.get("ports", []):
                port |= {"containerPort": self.port} if port["name"] == "answers" else {}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": name}}
        pod["metadata"]["namespace"] = manifests.NAMESPACE
        pod["spec"] = template["spec"] | {"nodeName": name}
        api.create(objects.node(name, 0, kwok=False))
        try:
            api.create(pod)
            ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady", "PodScheduled")]
            status = {"phase": "Running", "podIP": self.host, "podIPs": [{"ip": self.host}], "conditions": ready}
            api.patch("pods", name, {"status": status}, manifests.NAMESPACE, subresource="status")
            yield
        finally:
            api.delete("pods", name, manifests.NAMESPACE, grace=0)
            api.delete("nodes", name)


def own_address() -> str:
    """An address of this machine that is not the loopback's: endpoints may not have that. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("203.0.113.1", 9))
        return str(probe.getsockname()[0])


@contextlib.contextmanager
def answering(
    cluster: base.Cluster,
    installed: manifests.Manifests,
    server: Server,
    options: muster.ReplicaOptions = muster.ReplicaOptions(),  # noqa: B008
) -> Iterator[muster.Replica]:
    """A replica that answers; no other one may run."""
    options = dataclasses.replace(options, arguments=server.arguments)
    with muster.Replica(cluster, installed, options) as replica, server.known("answers-first"):
        replica.wait_active()
        environment = {"KUBECTL": cluster.binaries.path("kubectl"), "KUBECONFIG": str(cluster.kubeconfig)}
        try:
            subprocess.run(
                [str(FOLDER / "install.sh"), str(server.cert), str(server.key)],
                env=os.environ | environment, check=True, timeout=240,
            )  # fmt: skip
            yield replica
        finally:
            cluster.kube.delete("apiservices.apiregistration.k8s.io", REGISTERED)
