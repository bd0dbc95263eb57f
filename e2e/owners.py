"""Objects that make pods, and stand-ins for their controllers: what these create, with their labels and owners.

Takes API access and an object that exists; creates its children. Job, StatefulSet and Deployment have their real
controllers. Must not know what Muster makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e import kube as kube_module
from e2e import objects, waiting

Object = dict[str, Any]
#: label of all pods of one case
CASE = "e2e-case"


@dataclass(frozen=True)
class Case:
    """An object, and how many pods of it there will be. `early` of them start when there is room for all but one."""

    name: str
    version: str
    kind: str
    spec: Object
    pods: int
    early: int = 0
    #: creates its pods, or what makes them; None: somebody real does
    controller: Callable[[Maker], None] | None = None
    #: labels of the object
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def resource(self) -> str:
        """A resource that only its pods ask for, one piece each."""
        return f"example.com/{self.name}"


class Maker:
    """A case in a namespace."""

    def __init__(self, api: kube_module.Kube, namespace: str, case: Case) -> None:
        self.kube, self.namespace, self.case = api, namespace, case
        meta = {"name": case.name, "namespace": namespace, "labels": dict(case.labels)}
        spec = _with_templates(case.spec, template(case))
        self.obj = api.create({"apiVersion": case.version, "kind": case.kind, "metadata": meta, "spec": spec})
        if case.controller is not None:
            case.controller(self)

    def pods(self) -> list[Object]:
        """Its pods."""
        found = self.kube.list("pods", self.namespace, labels=f"{CASE}={self.case.name}")
        return list(found)

    def bound(self) -> int:
        """How many of them have nodes."""
        return sum(map(objects.is_bound, self.pods()))

    def pod(self, name: str, labels: Mapping[str, str], owner: Object | None = None) -> Object:
        """Create a pod as its controller does."""
        made = template(self.case, labels)
        meta = {**made["metadata"], "name": f"{self.case.name}-{name}", "namespace": self.namespace}
        meta["ownerReferences"] = [objects.reference(owner or self.obj)]
        return self.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made["spec"]})

    def job(self, name: str, pods: int, labels: Mapping[str, str], completions: int = 0) -> None:
        """Create a Job as a controller above it does; the real one makes its pods."""
        spec = {
            "parallelism": pods,
            "completions": completions or pods,
            "completionMode": "Indexed",
            "template": template(self.case, labels),
        }
        self._child("batch/v1", "Job", name, spec)

    def stateful_set(self, name: str, pods: int, labels: Mapping[str, str]) -> None:
        """The same with a StatefulSet, all pods at once."""
        made = template(self.case, {**labels, "set": name})
        made["spec"].pop("restartPolicy")
        spec = {
            "replicas": pods,
            "podManagementPolicy": "Parallel",
            "serviceName": "none",
            "selector": {"matchLabels": {CASE: self.case.name, "set": name}},
            "template": made,
        }
        self._child("apps/v1", "StatefulSet", name, spec)

    def _child(self, version: str, kind: str, name: str, spec: Object) -> None:
        meta = {
            "name": f"{self.case.name}-{name}",
            "namespace": self.namespace,
            "ownerReferences": [objects.reference(self.obj)],
        }
        self.kube.create({"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec})


def template(case: Case, labels: Mapping[str, str] | None = None) -> Object:
    """A pod template of a case."""
    made = objects.pod("any", "any", 0, extended={case.resource: 1}, labels={CASE: case.name, **(labels or {})})
    return {"metadata": {"labels": made["metadata"]["labels"]}, "spec": made["spec"] | {"restartPolicy": "Never"}}


def _with_templates(value: Any, pods: Object) -> Any:
    """The spec with a template in the place of each "TEMPLATE"; "ALWAYS" is one whose pods are started anew."""
    if isinstance(value, dict):
        return {key: _with_templates(one, pods) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_templates(one, pods) for one in value]
    if value == "ALWAYS":
        return {**pods, "spec": {key: one for key, one in pods["spec"].items() if key != "restartPolicy"}}
    return pods if value == "TEMPLATE" else value


def wait_bound(maker: Maker, pods: int) -> None:
    """Wait until so many of its pods are bound."""
    waiting.wait_for(maker.bound, 20, f"{pods} of {maker.case.name} are bound", until=lambda found: found == pods)


# --- stand-ins -------------------------------------------------------------------------------------


def kubeflow(operator: str, field_name: str) -> Callable[[Maker], None]:
    """The training operator's, for one kind."""

    def create(maker: Maker) -> None:
        for role, spec in maker.obj["spec"][field_name].items():
            for index in range(spec["replicas"]):
                labels = {
                    "training.kubeflow.org/operator-name": operator,
                    "training.kubeflow.org/job-name": maker.case.name,
                    "training.kubeflow.org/replica-type": role.lower(),
                    "training.kubeflow.org/replica-index": str(index),
                }
                maker.pod(f"{role.lower()}-{index}", labels)

    return create


def mpi(maker: Maker) -> None:
    """The MPI operator's: workers, and a Job for the launcher."""
    common = {
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/job-name": maker.case.name,
    }
    for index in range(maker.obj["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]):
        maker.pod(f"worker-{index}", {**common, "training.kubeflow.org/job-role": "worker"})
    maker.job("launcher", 1, {**common, "training.kubeflow.org/job-role": "launcher"})


def job_set(maker: Maker) -> None:
    """JobSet's: a Job for each replica of each role, in order where the object says so."""
    in_order = maker.obj["spec"].get("startupPolicy", {}).get("startupPolicyOrder") == "InOrder"
    made = 0
    for role in maker.obj["spec"]["replicatedJobs"]:
        job = role["template"]["spec"]
        for index in range(role["replicas"]):
            labels = {
                "jobset.sigs.k8s.io/jobset-name": maker.case.name,
                "jobset.sigs.k8s.io/replicatedjob-name": role["name"],
                "jobset.sigs.k8s.io/job-index": str(index),
            }
            maker.job(f"{role['name']}-{index}", job["parallelism"], labels, job["completions"])
            made += job["parallelism"]
        if in_order and role is not maker.obj["spec"]["replicatedJobs"][-1]:
            wait_bound(maker, made)


def leader_worker_set(maker: Maker) -> None:
    """LeaderWorkerSet's: a leader and its workers for each replica."""
    size = maker.obj["spec"]["leaderWorkerTemplate"]["size"]
    for replica in range(maker.obj["spec"]["replicas"]):
        labels = {
            "leaderworkerset.sigs.k8s.io/name": maker.case.name,
            "leaderworkerset.sigs.k8s.io/group-index": str(replica),
        }
        maker.stateful_set(f"l{replica}", 1, {**labels, "leaderworkerset.sigs.k8s.io/worker-index": "0"})
        maker.stateful_set(f"w{replica}", size - 1, {**labels, "leaderworkerset.sigs.k8s.io/worker-index": "1"})


def ray(maker: Maker) -> None:
    """KubeRay's."""
    common = {"ray.io/cluster": maker.case.name, "ray.io/is-ray-node": "yes"}
    maker.pod("head", {**common, "ray.io/group": "headgroup"})
    for group in maker.obj["spec"]["workerGroupSpecs"]:
        for index in range(group["replicas"]):
            maker.pod(f"{group['groupName']}-{index}", {**common, "ray.io/group": group["groupName"]})


def spark(maker: Maker) -> None:
    """Spark's: the operator makes the driver, which makes the executors once it runs."""
    common = {"sparkoperator.k8s.io/app-name": maker.case.name}
    driver = maker.pod("driver", {**common, "spark-role": "driver"})
    wait_bound(maker, 1)
    for index in range(maker.obj["spec"]["executor"]["instances"]):
        maker.pod(f"executor-{index}", {**common, "spark-role": "executor"}, driver)


def plain(maker: Maker) -> None:
    """Of a kind of the site's own: pods of a number of workers."""
    for index in range(maker.obj["spec"]["workers"]["count"]):
        maker.pod(f"worker-{index}", {})
