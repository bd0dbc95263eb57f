"""The job controller's manifests on a real API server, as a user applies them; no process of ours runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import kube as kube_module
from e2e import manifest_plane, objects
from e2e.cluster import base, jobs, local

Object = dict[str, Any]
ACCOUNT = "system:serviceaccount:muster-system:muster-jobs"


@pytest.fixture(scope="module")
def plane() -> Iterator[base.Cluster]:
    """A control plane with Muster on it, and a definition of CronJob that is somebody else's."""
    with local.LocalCluster(local.Options(kwok=False, default_scheduler=False)) as cluster:
        manifest_plane.install(cluster)
        cluster.kube.create(objects.crd("batch.volcano.sh", "v1alpha1", "CronJob", "cronjobs"))
        yield cluster


def install(cluster: base.Cluster) -> str:
    """Run the script."""
    access = {"KUBECTL": str(cluster.binaries.path("kubectl")), "KUBECONFIG": str(cluster.kubeconfig)}
    script = str(jobs.FOLDER / "install.sh")
    done = subprocess.run([script], env={**os.environ, **access}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def definition(cluster: base.Cluster, name: str) -> Object:
    return cluster.kube.get("customresourcedefinitions.apiextensions.k8s.io", name)


def may(cluster: base.Cluster, verb: str, resource: str, namespace: str) -> bool:
    """Whether the account may do this, as the API server's own authorizer says."""
    named, _, sub = resource.partition("/")
    plural, _, group = named.partition(".")
    asked = {"verb": verb, "resource": plural, "group": group, "subresource": sub, "namespace": namespace}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    body["spec"] = {"user": ACCOUNT, "groups": ["system:serviceaccounts"], "resourceAttributes": asked}
    answer = cluster.kube.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def job(**spec: Any) -> Object:
    tasks = [{"name": "worker", "replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}]
    meta = {"name": "j", "namespace": "default"}
    given = {"schedulerName": "muster", "tasks": tasks} | spec
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": given}


#: what may be done, by whom it is asked: verb, resource, namespace, allowed
RIGHTS = [
    ("create", "pods", "tenant", True),
    ("delete", "pods", "tenant", True),
    ("update", "jobs.batch.volcano.sh/status", "tenant", True),
    ("delete", "commands.bus.volcano.sh", "tenant", True),
    ("create", "secrets", "tenant", True),
    ("get", "secrets", "tenant", False),
    ("list", "secrets", "muster-system", False),
    ("patch", "pods", "tenant", False),
    ("create", "pods/exec", "tenant", False),
    ("create", "pods/eviction", "tenant", False),
    ("create", "pods/binding", "tenant", False),
    ("update", "jobs.batch.volcano.sh", "tenant", False),
    ("patch", "nodes", "", False),
    ("create", "jobs.batch", "tenant", False),
    ("list", "leases.coordination.k8s.io", "tenant", False),
    ("list", "deployments.apps", "tenant", False),
    ("patch", "customresourcedefinitions.apiextensions.k8s.io", "", False),
    ("create", "clusterrolebindings.rbac.authorization.k8s.io", "", False),
    ("create", "serviceaccounts/token", "muster-system", False),
]


def test_it_comes_with_definitions_where_there_are_none_and_goes_without_them(plane: base.Cluster) -> None:
    foreign = definition(plane, "cronjobs.batch.volcano.sh")
    said = install(plane)
    assert "cronjobs.batch.volcano.sh is there already, and stays as it is" in said
    assert "jobs.batch.volcano.sh created" in said
    assert definition(plane, "cronjobs.batch.volcano.sh")["spec"] == foreign["spec"]
    again = install(plane)
    assert "created" not in again
    assert "\njobs.batch.volcano.sh is there already" in f"\n{again}"

    kube = plane.kube
    assert kube.get("deployments.apps", "muster-jobs", "muster-system")["spec"]["replicas"] == 2
    template = kube.get("deployments.apps", "muster-jobs", "muster-system")["spec"]["template"]
    probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": "muster-system"}}
    kube.request(
        "POST", "/api/v1/namespaces/muster-system/pods", probe | {"spec": template["spec"]}, query={"dryRun": "All"}
    )

    assert [(right, may(plane, *right)) for *right, _ in RIGHTS] == [(right, allowed) for *right, allowed in RIGHTS]

    collection = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
    kube.request("POST", collection, job(), query={"dryRun": "All"})
    for spec, said in (
        ({"minAvailable": 3}, "minAvailable is more than the replicas of all tasks"),
        ({"minAvailable": -1}, "spec.minAvailable"),
        ({"policies": [{"event": "PodBored", "action": "RestartJob"}]}, "Unsupported value"),
        ({"policies": [{"event": "PodFailed", "action": "Pray"}]}, "Unsupported value"),
        ({"queue": "Ärger"}, "spec.queue"),
        ({"tasks": [{"name": "a b", "replicas": 1}]}, "spec.tasks[0].name"),
        ({"maxRetry": 2**40}, "spec.maxRetry"),
    ):
        with pytest.raises(kube_module.ApiError, match=said.replace("[", r"\[")):
            kube.request("POST", collection, job(**spec), query={"dryRun": "All"})

    kube.create(job())
    plane.kubectl("delete", "-k", str(jobs.FOLDER), "--timeout=60s")
    assert kube.find("deployments.apps", "muster-jobs", "muster-system") is None
    assert kube.find("jobs.batch.volcano.sh", "j", "default") is not None
