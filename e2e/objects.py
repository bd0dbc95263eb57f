"""Builders of the objects that tests create: nodes, pods, groups in every dialect.

Takes what a test cares about; gives plain dicts with sane defaults. Must not talk to a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
HOSTNAME = "kubernetes.io/hostname"
RACK = "topology.kubernetes.io/rack"
BLOCK = "topology.kubernetes.io/block"
# source: apiVersion of its group object ("label", "kueue" and "none" have no object).
GROUP_API = {
    "muster": "muster.dev/v1alpha1",
    "native": "scheduling.k8s.io/v1beta1",
    "scheduler-plugins": "scheduling.x-k8s.io/v1alpha1",
    "volcano": "scheduling.volcano.sh/v1beta1",
}
# source: name of its resource, as kubectl and kube.Kube take it.
GROUP_RESOURCE = {
    "muster": "podgroups.muster.dev",
    "native": "podgroups.scheduling.k8s.io",
    "scheduler-plugins": "podgroups.scheduling.x-k8s.io",
    "volcano": "podgroups.scheduling.volcano.sh",
}


def node(
    name: str,
    gpus: int = 8,
    *,
    rack: str = "",
    block: str = "",
    cpu: str = "64",
    memory: str = "512Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: list[Object] | None = None,
    extended: Mapping[str, int] | None = None,
    kwok: bool = True,
) -> Object:
    """A node; with `kwok` it is made Ready by KWOK, otherwise it is Ready as created (and nobody's heart beats)."""
    resources: dict[str, str] = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    resources |= {key: str(value) for key, value in (extended or {}).items()}
    if gpus:
        resources[GPU] = str(gpus)
    given = {HOSTNAME: name, "type": "kwok" if kwok else "bare"}
    given |= {key: value for key, value in ((RACK, rack), (BLOCK, block)) if value}
    status: Object = {"allocatable": resources, "capacity": dict(resources)}
    if not kwok:
        status["conditions"] = [{"type": "Ready", "status": "True", "reason": "Fake", "message": "created Ready"}]
    spec = {"taints": taints} if taints else {}
    meta = {"name": name, "labels": given | dict(labels or {})}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}


def pod(
    name: str,
    namespace: str,
    gpus: int = 1,
    *,
    scheduler: str = "muster",
    group: str = "",
    source: str = "muster",
    task: str = "",
    queue: str = "",
    cpu: str = "1",
    memory: str = "1Gi",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    extended: Mapping[str, int] | None = None,
    spec: Mapping[str, Any] | None = None,
    owner: Object | None = None,
) -> Object:
    """A pod; `group` marks it as a member in the dialect `source` (see GROUP_API; also "label").

    Members with source "label" need muster.dev/min-member among `annotations`. `spec` is laid over the pod's spec.
    """
    requests = {"cpu": cpu, "memory": memory} | {key: str(value) for key, value in (extended or {}).items()}
    if gpus:
        requests[GPU] = str(gpus)
    limits = {key: value for key, value in requests.items() if "/" in key}
    container = {"name": "main", "image": "none.invalid/none", "resources": {"requests": requests, "limits": limits}}
    meta: Object = {"name": name, "namespace": namespace, "labels": {}, "annotations": {}}
    body: Object = {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 0}
    if task:
        meta["labels"]["muster.dev/task"] = task
    if queue:
        meta["labels"]["muster.dev/queue"] = queue
    if group:
        _mark(meta, body, source, group)
    meta["labels"] |= dict(labels or {})
    meta["annotations"] |= dict(annotations or {})
    if owner is not None:
        meta["ownerReferences"] = [reference(owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body | dict(spec or {})}


def gang(name: str, namespace: str, size: int, gpus: int = 1, **options: Any) -> list[Object]:
    """`size` pods `<name>-0`... that are members of group `name`; options as for `pod`."""
    return [pod(f"{name}-{index}", namespace, gpus, group=name, **options) for index in range(size)]


def pod_group(
    source: str,
    name: str,
    namespace: str,
    min_member: int,
    *,
    tasks: Mapping[str, int] | None = None,
    queue: str = "",
    spec: Mapping[str, Any] | None = None,
) -> Object:
    """A group object in one of the dialects of GROUP_API; `tasks` (ours and Volcano's) maps a task to its minimum."""
    native = {"schedulingPolicy": {"gang": {"minCount": min_member}}}
    body: Object = native if source == "native" else {"minMember": min_member}
    if tasks and source == "muster":
        body["tasks"] = [{"name": task, "minMember": least} for task, least in tasks.items()]
    if tasks and source == "volcano":
        body["minTaskMember"] = dict(tasks)
    if queue and source in ("muster", "volcano"):
        body["queue"] = queue
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": GROUP_API[source], "kind": "PodGroup", "metadata": meta, "spec": body | dict(spec or {})}


def queue(name: str, **spec: Any) -> Object:
    """One of our queues."""
    return {"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def budget(name: str, namespace: str, labels: Mapping[str, str], **spec: Any) -> Object:
    """A disruption budget of the pods that bear these labels; `spec` has minAvailable or maxUnavailable."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": dict(labels)}, **spec},
    }


def topology(name: str, levels: list[str]) -> Object:
    """One of our topologies: node labels from broad to narrow."""
    spec = {"levels": levels}
    return {"apiVersion": "muster.dev/v1alpha1", "kind": "Topology", "metadata": {"name": name}, "spec": spec}


def crd(group: str, version: str, kind: str, plural: str, *, namespaced: bool = True) -> Object:
    """A CRD that takes anything, with a status subresource: stands in for those of other projects."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    # An x-k8s.io group is protected: the API server asks for this annotation.
    meta = {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    spec = {
        "group": group,
        "names": names,
        "scope": "Namespaced" if namespaced else "Cluster",
        "versions": [served],
    }
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": meta, "spec": spec}


def foreign_crds() -> list[Object]:
    """The CRDs of others that we read: groups, queues, and what makes pods."""
    return [
        crd("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups"),
        crd("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"),
        crd("scheduling.volcano.sh", "v1beta1", "Queue", "queues", namespaced=False),
        crd("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes", namespaced=False),
        crd("kueue.x-k8s.io", "v1beta2", "Topology", "topologies", namespaced=False),
        crd("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"),
        crd("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets"),
        crd("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs"),
        *(
            crd("kubeflow.org", "v1", kind, f"{kind.lower()}s")
            for kind in ("TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob")
        ),
        crd("kubeflow.org", "v2beta1", "MPIJob", "mpijobs"),
        crd("ray.io", "v1", "RayCluster", "rayclusters"),
        crd("sparkoperator.k8s.io", "v1beta2", "SparkApplication", "sparkapplications"),
        crd("example.com", "v1", "Training", "trainings"),
    ]


def is_bound(obj: Object) -> bool:
    """Whether a pod has a node."""
    return bool(obj["spec"].get("nodeName"))


def is_ready(obj: Object) -> bool:
    """Whether a node is Ready and bears no not-ready taint (the scheduler would use it)."""
    conditions = obj.get("status", {}).get("conditions") or []
    ready = any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
    taints = obj["spec"].get("taints") or []
    return ready and not any(taint["key"].startswith("node.kubernetes.io/not-ready") for taint in taints)


def reference(owner: Object) -> Object:
    """How what an object controls names it."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


def _mark(meta: Object, body: Object, source: str, group: str) -> None:
    if source == "native":
        body["schedulingGroup"] = {"podGroupName": group}
    elif source == "scheduler-plugins":
        meta["labels"]["scheduling.x-k8s.io/pod-group"] = group
    elif source == "volcano":
        meta["annotations"]["scheduling.k8s.io/group-name"] = group
    elif source in ("muster", "label"):
        meta["labels"]["muster.dev/pod-group"] = group
    elif source == "kueue":
        meta["labels"]["kueue.x-k8s.io/pod-group-name"] = group
    else:
        raise ValueError(f"unknown group source {source!r}")
