"""A control plane with the manifests applied as a user applies them, and nothing of Muster running.

Takes nothing; gives it to test_manifests.py and test_admission.py, which need one of their own: they write
the list of open queues, which a running extender keeps, and uninstall Muster. Must not start our processes.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import yaml

from e2e import waiting
from e2e.cluster import base, local

MANIFESTS = pathlib.Path(__file__).resolve().parent.parent / "manifests"
OVERLAYS = ("1.34", "1.35", "1.36", "1.37")
NAMESPACE, ACCOUNT = "muster-system", "muster"
GATE = "muster.dev/queue"
#: namespaces of tenants: one without a queue, one of an open queue, one of a queue with a backlog
TENANT, LABELLED, ELSEWHERE = "manifests-tenant", "manifests-labelled", "manifests-elsewhere"
Object = dict[str, Any]


@contextlib.contextmanager
def started() -> Iterator[base.Cluster]:
    """The control plane, with the three namespaces."""
    with local.LocalCluster(local.Options(kwok=False, default_scheduler=False)) as cluster:
        install(cluster)
        for name, labels in ((TENANT, {}), (LABELLED, {GATE: "open-b"}), (ELSEWHERE, {GATE: "busy"})):
            meta = {"name": name, "labels": labels}
            cluster.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
            waiting.wait_for(lambda name=name: cluster.kube.find("serviceaccounts", "default", name), 30, "its account")
        yield cluster


def ordinal(minor: str) -> int:
    """Minors as numbers, to compare them."""
    return int(minor.partition(".")[2])


def folder_for(cluster: base.Cluster) -> pathlib.Path:
    """What a user of this cluster applies: the newest overlay that is not newer than the server."""
    fitting = [minor for minor in OVERLAYS if ordinal(minor) <= ordinal(cluster.server_minor)]
    return MANIFESTS if fitting[-1] == OVERLAYS[-1] else MANIFESTS / "overlays" / fitting[-1]


def built(cluster: base.Cluster) -> list[Object]:
    """The objects of that folder."""
    rendered = cluster.kubectl("kustomize", str(folder_for(cluster)))
    return [obj for obj in yaml.safe_load_all(rendered) if obj]


def install(cluster: base.Cluster) -> str:
    """Apply the manifests and keep the Deployment from starting anything."""
    output = cluster.kubectl("apply", "-k", str(folder_for(cluster)))
    cluster.kube.patch("deployments.apps", "muster", {"spec": {"replicas": 0}}, NAMESPACE)
    for plural in ("podgroups", "queues", "topologies"):
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{plural}.muster.dev", "--timeout=30s")
    return output


def pod(
    name: str = "p",
    namespace: str = TENANT,
    *,
    labels: Object | None = None,
    annotations: Object | None = None,
    **spec: Any,
) -> Object:
    """A pod of ours that runs nothing."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels or {},
            "annotations": annotations or {},
        },
        "spec": {
            "schedulerName": "muster",
            "containers": [{"name": "main", "image": "busybox:1.37", "command": ["sleep", "1"]}],
            **spec,
        },
    }


def tried(cluster: base.Cluster, obj: Object) -> Object:
    """The object as the API server would store it, storing nothing."""
    path = cluster.kube.resource_of(obj).path(obj["metadata"].get("namespace"))
    return dict(cluster.kube.request("POST", path, obj, query={"dryRun": "All"}))


def policy_served(cluster: base.Cluster) -> bool:
    """Whether new pods can be gated on this server."""
    return cluster.kube.serves("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy")
