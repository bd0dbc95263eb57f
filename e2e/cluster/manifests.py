"""The product's manifests, as the tests install and use them.

Takes a kustomize folder; gives its rendered objects, and from them the scheduler configuration and the service account
that our processes run under. Must not change what is installed, but for replicas: 0 on Deployments (the tests run the
processes themselves).
"""

from __future__ import annotations

import copy
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from e2e import kube, waiting
from e2e.cluster import base

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NAMESPACE = "muster-system"
SCHEDULER = "muster"
LEASE = "muster-scheduler"
GATE = "muster.dev/queue"


@dataclasses.dataclass(frozen=True)
class Manifests:
    """The rendered objects of one kustomize folder."""

    documents: tuple[dict[str, Any], ...]

    @classmethod
    def render(cls, cluster: base.Cluster, folder: pathlib.Path | None = None) -> Manifests:
        """Render `folder`, by default what a user of this server's minor would apply."""
        rendered = cluster.kubectl("kustomize", str(folder or folder_for(cluster.server_minor)))
        return cls(tuple(document for document in yaml.safe_load_all(rendered) if document))

    def scheduler_config(self) -> dict[str, Any]:
        """The KubeSchedulerConfiguration with our profile, found in the ConfigMaps."""
        for document in self._of_kind("ConfigMap"):
            for text in (document.get("data") or {}).values():
                config = _scheduler_config(text)
                if config:
                    return config
        raise AssertionError(f"no ConfigMap holds a KubeSchedulerConfiguration with the profile {SCHEDULER}")

    def service_account(self) -> str:
        """The service account of the Deployment that runs a kube-scheduler, in muster-system."""
        for document in self._of_kind("Deployment"):
            spec = document["spec"]["template"]["spec"]
            if any("kube-scheduler" in container.get("image", "") for container in spec["containers"]):
                return str(spec["serviceAccountName"])
        raise AssertionError("no Deployment runs a kube-scheduler")

    @property
    def gates_pods(self) -> bool:
        """Whether new pods are gated on the cluster's version."""
        return bool(self._of_kind("MutatingAdmissionPolicy"))

    def install(self, cluster: base.Cluster) -> None:
        """Apply everything as `kubectl apply -k` would; again if it fails, as objects of a new CRD may at first."""
        documents = yaml.safe_dump_all([_without_replicas(document) for document in self.documents])
        waiting.wait_for(
            lambda: cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=documents),
            60,
            "the manifests are applied",
        )
        for document in self._of_kind("CustomResourceDefinition"):
            cluster.kubectl(
                "wait", "--for=condition=Established", f"crd/{document['metadata']['name']}", "--timeout=30s"
            )

    def wait_gating(self, cluster: base.Cluster) -> None:
        """Wait until a new pod of ours is gated: policies and their params take effect some time after they exist."""
        if not self.gates_pods:
            return
        labels = {GATE: "e2e-probe"}
        container = {"name": "main", "image": "none.invalid/none"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "e2e-probe", "namespace": "default", "labels": labels},
            "spec": {"schedulerName": SCHEDULER, "containers": [container]},
        }

        def gated() -> Any:
            made = cluster.kube.request("POST", "/api/v1/namespaces/default/pods", pod, query={"dryRun": "All"})
            return made["spec"].get("schedulingGates")

        waiting.wait_for(gated, 30, "the admission policy gates a pod of a queue that is not open")

    def _of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [document for document in self.documents if document["kind"] == kind]


def folder_for(minor: str) -> pathlib.Path:
    """The kustomize folder for a server of this minor: the newest overlay that is not newer than the server."""
    whole = ROOT / "manifests"
    overlays = sorted((base.ordinal(folder.name), folder) for folder in (whole / "overlays").iterdir())
    fitting = [folder for number, folder in overlays if number <= base.ordinal(minor)]
    return whole if fitting[-1] == overlays[-1][1] else fitting[-1]


def rewritten(
    config: dict[str, Any],
    *,
    kubeconfig: pathlib.Path,
    extender: str,
    gate: str,
    qps: float = 0,
    burst: int = 0,
    profiles: Sequence[str] = (),
    extenders: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The scheduler configuration with addresses and credentials of this machine; all else as in the manifest.

    profiles: names of stock profiles that the same process serves beside ours. extenders: entries of others.
    """
    result = copy.deepcopy(config)
    result["profiles"] += [{"schedulerName": name} for name in profiles]
    connection = result.setdefault("clientConnection", {})
    connection["kubeconfig"] = str(kubeconfig)
    if qps:
        connection |= {"qps": qps, "burst": burst or int(2 * qps)}
    for entry in result["extenders"]:
        entry["urlPrefix"] = gate if entry.get("bindVerb") else extender
    result["extenders"] += [dict(entry) for entry in extenders]
    return result


def release_lease(api: kube.Kube) -> None:
    """Delete the scheduler's Lease: after a kill nobody has to wait for it to run out."""
    api.delete("leases.coordination.k8s.io", LEASE, NAMESPACE)


def _scheduler_config(text: str) -> dict[str, Any] | None:
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    if not isinstance(config, dict) or config.get("kind") != "KubeSchedulerConfiguration":
        return None
    names = [profile.get("schedulerName") for profile in config.get("profiles") or []]
    return config if SCHEDULER in names else None


def _without_replicas(document: dict[str, Any]) -> dict[str, Any]:
    if document["kind"] != "Deployment":
        return document
    return {**document, "spec": {**document["spec"], "replicas": 0}}
