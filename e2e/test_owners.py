"""Jobs that people have: which of their pods start together follows from the object that makes them.

Every case asks for a resource of its own, of which one piece is missing at first; all are there at the same time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e import kube as kube_module
from e2e import owners, waiting
from e2e.cluster.muster import Replica
from e2e.owners import Maker
from e2e.scenes import SOON, Scene

MakeNodes = Callable[..., list[str]]
Object = dict[str, Any]
ALWAYS: Object = {"spec": {"containers": [{"name": "main"}]}}
NEVER: Object = {"spec": ALWAYS["spec"] | {"restartPolicy": "Never"}}
T: Object = {"template": NEVER}


@dataclasses.dataclass(frozen=True)
class Case:
    """An object, and how many pods of it there will be. `early` of them start when there is room for all but one."""

    name: str
    version: str
    kind: str
    spec: Object
    pods: int
    early: int = 0

    def make(self, api: kube_module.Kube, namespace: str) -> Maker:
        """Create it, and what comes of it."""
        obj = {"apiVersion": self.version, "kind": self.kind, "metadata": {}, "spec": self.spec}
        return Maker(api, namespace, self.name, [obj])


def role(name: str, parallelism: int, completions: int = 0, replicas: int = 1) -> Object:
    """A role of a JobSet."""
    spec = {"parallelism": parallelism, "completions": completions or parallelism, **T}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def replicas(**numbers: int) -> Object:
    """Roles of one of Kubeflow's kinds."""
    return {name: {"replicas": number, **T} for name, number in numbers.items()}


def selector(name: str) -> Object:
    """What a Deployment or StatefulSet selects its pods by."""
    return {"selector": {"matchLabels": {owners.CASE: name}}}


JOB = ("batch/v1", "Job")
SET = ("jobset.x-k8s.io/v1alpha2", "JobSet")
MADE: list[tuple[str, Case]] = [
    (
        "an Indexed Job of as many pods as completions is a gang",
        Case("indexed", *JOB, {"parallelism": 3, "completions": 3, "completionMode": "Indexed", **T}, 3),
    ),
    (
        "a Job that does its work piece by piece is none",
        Case("pieces", *JOB, {"parallelism": 3, "completions": 5, "completionMode": "Indexed", **T}, 3, early=2),
    ),
    (
        "a Job whose pods know no number is none",
        Case("alike", *JOB, {"parallelism": 3, "completions": 3, **T}, 3, early=2),
    ),
    (
        "a Deployment is none",
        Case("web", "apps/v1", "Deployment", {"replicas": 3, "template": ALWAYS, **selector("web")}, 3, early=2),
    ),
    (
        "a StatefulSet, whose pods come one by one, is none",
        Case(
            "db",
            "apps/v1",
            "StatefulSet",
            {"replicas": 3, "serviceName": "none", "template": ALWAYS, **selector("db")},
            3,
            early=2,
        ),
    ),
    (
        "a JobSet is a gang of all its Jobs",
        Case("set", *SET, {"replicatedJobs": [role("a", 1), role("b", 2, replicas=2)]}, 5, 0),
    ),
    (
        "a JobSet in order is a gang for each role",
        Case(
            "ordered",
            *SET,
            {"replicatedJobs": [role("a", 1), role("b", 2)], "startupPolicy": {"startupPolicyOrder": "InOrder"}},
            3,
            1,
        ),
    ),
    (
        "each replica of a LeaderWorkerSet is a gang",
        Case(
            "llm",
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": NEVER}},
            6,
            3,
        ),
    ),
    (
        "a PyTorchJob is a gang",
        Case(
            "torch",
            "kubeflow.org/v1",
            "PyTorchJob",
            {"pytorchReplicaSpecs": replicas(Master=1, Worker=2)},
            3,
            0,
        ),
    ),
    (
        "an elastic PyTorchJob starts with its least",
        Case(
            "elastic",
            "kubeflow.org/v1",
            "PyTorchJob",
            {"pytorchReplicaSpecs": replicas(Worker=3), "elasticPolicy": {"minReplicas": 2}},
            3,
            2,
        ),
    ),
    (
        "a TFJob with a minimum starts with it",
        Case(
            "tf",
            "kubeflow.org/v1",
            "TFJob",
            {
                "tfReplicaSpecs": replicas(PS=1, Worker=3),
                "runPolicy": {"schedulingPolicy": {"minAvailable": 3}},
            },
            4,
            3,
        ),
    ),
    (
        "an MXJob is a gang",
        Case("mx", "kubeflow.org/v1", "MXJob", {"mxReplicaSpecs": replicas(Scheduler=1, Server=1, Worker=2)}, 4),
    ),
    (
        "an MPIJob is a gang with its launcher, which a Job makes",
        Case(
            "mpi",
            "kubeflow.org/v2beta1",
            "MPIJob",
            {"mpiReplicaSpecs": replicas(Launcher=1, Worker=2)},
            3,
            0,
        ),
    ),
    (
        "a RayCluster is a gang",
        Case(
            "ray",
            "ray.io/v1",
            "RayCluster",
            {"headGroupSpec": T, "workerGroupSpecs": [{"groupName": "w", "replicas": 2, **T}]},
            3,
            0,
        ),
    ),
    (
        "a SparkApplication starts with its driver and takes what executors it gets",
        Case(
            "spark",
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            {"driver": {"cores": 1}, "executor": {"instances": 3}},
            4,
            3,
        ),
    ),
    (
        "a kind that the site adds is a gang",
        Case("own", "example.com/v1", "Training", {"workers": {"count": 3, **T}}, 3, 0),
    ),
]
SITE = """
apiVersion: example.com/v1
kind: Training
plural: trainings
roles: [{at: spec.workers, name: worker, number: [count]}]
"""


@pytest.fixture(scope="module")
def _site(kube: kube_module.Kube, _replica: Replica) -> Iterator[None]:
    """A kind of the site's own, as its administrator adds it: a role, then the ConfigMap."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "muster-trainings"},
        "rules": [{"apiGroups": ["example.com"], "resources": ["trainings"], "verbs": ["get", "list", "watch"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "muster-trainings"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "muster-trainings"},
        "subjects": [{"kind": "ServiceAccount", "name": "muster", "namespace": "muster-system"}],
    }
    meta = {"name": "muster-owner-kinds", "namespace": "muster-system"}
    names = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "data": {"training": SITE, "bad": "kind: [no kind"},
    }
    for obj in (role, binding, names):
        kube.create(obj)
    for process in ("gate", "extender"):
        waiting.wait_for(
            lambda process=process: _replica.metric(
                process, "muster_api_requests_total", verb="GET", resource="trainings.example.com", code="200"
            ),
            SOON,
            f"the {process} has listed the site's kind",
            until=lambda calls: calls > 0,
        )
    yield
    kube.delete("configmaps", "muster-owner-kinds", "muster-system")
    kube.delete("clusterrolebindings.rbac.authorization.k8s.io", "muster-trainings")
    kube.delete("clusterroles.rbac.authorization.k8s.io", "muster-trainings")


def set_room(kube: kube_module.Kube, node: str, room: dict[str, int]) -> None:
    """So much of these resources on a node."""
    amounts = {name: str(amount) for name, amount in room.items()}
    status = {"status": {"allocatable": amounts, "capacity": amounts}}
    kube.patch("nodes", node, status, subresource="status")


@pytest.mark.usefixtures("_site")
def test_pods_start_together_as_what_makes_them_wants_it(
    kube: kube_module.Kube, scene: Scene, make_nodes: MakeNodes
) -> None:
    cases = [case for _, case in MADE]
    (node,) = make_nodes(1, extended={f"example.com/{case.name}": case.pods - 1 for case in cases})
    makers = [case.make(kube, scene.namespace) for case in cases]

    def there() -> dict[str, int]:
        return {maker.name: len(maker.pods()) for maker in makers}

    def bound() -> dict[str, int]:
        return {maker.name: maker.bound() for maker in makers}

    early = {case.name: case.early for case in cases}
    waiting.wait_for(there, SOON, "all pods are there", until=lambda found: found == {c.name: c.pods for c in cases})
    waiting.wait_for(bound, SOON, f"{early} are bound", until=lambda found: found == early)
    scene.pod("late-0")  # when this one is bound, all that came before it was looked at
    scene.wait_bound("late", 1)
    assert bound() == early
    set_room(kube, node, {f"example.com/{case.name}": case.pods for case in cases})
    whole = {case.name: case.pods for case in cases}
    waiting.wait_for(bound, SOON, f"{whole} are bound", until=lambda found: found == whole)
    scene.wait_sound()


def test_a_jobset_with_more_completions_than_pods_at_once_ends(
    kube: kube_module.Kube, scene: Scene, make_nodes: MakeNodes
) -> None:
    """KAI-Scheduler 1347: what is left of the work is less than the gang that began it."""
    case = Case("rest", *SET, {"replicatedJobs": [role("w", 4, 5)]}, 4, 0)
    make_nodes(1, extended={"example.com/rest": 4})
    maker = case.make(kube, scene.namespace)
    waiting.wait_for(maker.bound, SOON, "four are bound", until=lambda found: found == 4)
    done = maker.pods()[0]["metadata"]["name"]
    kube.patch("pods", done, {"status": {"phase": "Succeeded"}}, scene.namespace, subresource="status")
    waiting.wait_for(maker.bound, SOON, "the fifth is bound", until=lambda found: found == 5)
