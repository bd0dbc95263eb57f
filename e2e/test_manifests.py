"""The manifests on a real API server: applied as a user would, probed object by object, taken out again.

Takes a control plane of its own, since it ends with uninstalling Muster. Must not need our processes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from e2e import kube, kubeconfig, manifest_cases, waiting
from e2e import manifest_plane as plane
from e2e.cluster import base

pytestmark = pytest.mark.e2e

OURS = "app.kubernetes.io/part-of=muster"
Object = dict[str, Any]


@pytest.fixture(scope="module")
def installed() -> Iterator[base.Cluster]:
    with plane.started() as cluster:
        yield cluster


# --- applying ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("minor", plane.OVERLAYS)
def test_every_overlay_builds_and_those_that_the_server_can_serve_are_accepted(
    installed: base.Cluster, minor: str
) -> None:
    overlay = str(plane.MANIFESTS / "overlays" / minor)
    found = list(yaml.safe_load_all(installed.kubectl("kustomize", overlay)))
    (deployment,) = [obj for obj in found if obj["kind"] == "Deployment"]
    images = [entry["image"] for entry in deployment["spec"]["template"]["spec"]["containers"]]
    assert images[0].startswith(f"registry.k8s.io/kube-scheduler:v{minor}.")
    if plane.ordinal(minor) <= plane.ordinal(installed.server_minor):
        installed.kubectl("apply", "-k", overlay, "--dry-run=server")


def test_a_second_apply_is_safe_and_keeps_the_list_of_open_queues(installed: base.Cluster) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"open": "kept"}}
    config["metadata"] = {"name": "muster-admission", "namespace": plane.NAMESPACE}
    installed.kube.create(config)
    again = plane.install(installed)
    assert "created" not in again
    assert installed.kube.get("configmaps", "muster-admission", plane.NAMESPACE)["data"] == {"open": "kept"}


def test_the_pods_of_the_deployment_pass_the_pod_security_of_their_namespace(installed: base.Cluster) -> None:
    template = installed.kube.get("deployments.apps", "muster", plane.NAMESPACE)["spec"]["template"]
    plane.tried(
        installed,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": plane.NAMESPACE},
            "spec": template["spec"],
        },
    )


@pytest.mark.parametrize("example", sorted(path.name for path in (plane.MANIFESTS / "examples").glob("*.yaml")))
def test_each_example_is_accepted(installed: base.Cluster, example: str) -> None:
    path = plane.MANIFESTS / "examples" / example
    found = [obj for obj in yaml.safe_load_all(path.read_text()) if obj]
    namespaces = [obj for obj in found if obj["kind"] == "Namespace"]
    for obj in namespaces:  # what stands in one is accepted only where it is
        installed.kube.create(obj)
    said = installed.kubectl("apply", "--dry-run=server", "-f", str(path))
    for obj in namespaces:
        installed.kube.delete("namespaces", obj["metadata"]["name"])
    assert len(said.splitlines()) == len(found)


def test_queues_groups_and_topologies_of_the_pages_are_accepted(
    installed: base.Cluster, tmp_path: pathlib.Path
) -> None:
    pages = plane.MANIFESTS.parent / "docs"
    texts = [re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.M | re.S) for page in sorted(pages.glob("*.md"))]
    found = [obj for some in texts for text in some for obj in yaml.safe_load_all(text) if isinstance(obj, dict)]
    ours = [obj for obj in found if str(obj.get("apiVersion", "")).startswith("muster.dev/")]
    assert {obj["kind"] for obj in ours} == {"Queue", "PodGroup", "Topology"}
    for obj in ours:
        obj["metadata"].pop("namespace", None)
    path = tmp_path / "objects.yaml"
    path.write_text(yaml.safe_dump_all(ours))
    assert len(installed.kubectl("apply", "--dry-run=server", "-f", str(path)).splitlines()) == len(ours)


def test_the_component_of_metrics_opens_a_port_of_both_processes(
    installed: base.Cluster, tmp_path: pathlib.Path
) -> None:
    from_here = pathlib.Path(os.path.relpath(plane.MANIFESTS, tmp_path.resolve()))
    kustomization = {
        "resources": [str(from_here / "overlays" / plane.OVERLAYS[0])],
        "components": [str(from_here / "components" / "metrics")],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    built = installed.kubectl("kustomize", str(tmp_path))
    (deployment,) = [obj for obj in yaml.safe_load_all(built) if obj["kind"] == "Deployment"]
    for container in deployment["spec"]["template"]["spec"]["containers"][1:]:
        ports = {one["name"]: one["containerPort"] for one in container["ports"]}
        (listen,) = [one for one in container["args"] if one.startswith("--metrics-listen=")]
        assert int(listen.rpartition(":")[2]) in ports.values()
    (tmp_path / "built.yaml").write_text(yaml.safe_dump(deployment))
    installed.kubectl("apply", "--dry-run=server", "-f", str(tmp_path / "built.yaml"))


def test_the_scoring_example_replaces_the_configuration_that_the_deployment_mounts(
    installed: base.Cluster,
) -> None:
    folder = str(plane.MANIFESTS / "examples" / "muster-score")
    found = {obj["kind"]: obj for obj in yaml.safe_load_all(installed.kubectl("kustomize", folder))}
    config, deployment = found["ConfigMap"], found["Deployment"]
    assert "muster-score" in config["data"]["scheduler-config.yaml"]
    (volume,) = [one for one in deployment["spec"]["template"]["spec"]["volumes"] if "configMap" in one]
    assert volume["configMap"]["name"] == config["metadata"]["name"]


# --- definitions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("obj", "message"),
    [pytest.param(obj, message, id=sentence) for sentence, obj, message in manifest_cases.DEFINITIONS],
)
def test_definitions_take_sound_objects_and_refuse_others_with_a_message(
    installed: base.Cluster, obj: Object, message: str
) -> None:
    if obj["kind"] == "PodGroup":
        obj = {**obj, "metadata": {**obj["metadata"], "namespace": plane.TENANT}}
    obj = {key: value for key, value in obj.items() if value is not None}
    if message == manifest_cases.ACCEPTED:
        plane.tried(installed, obj)
        return
    with pytest.raises(kube.ApiError) as refused:
        plane.tried(installed, obj)
    assert refused.value.status in (400, 422)
    assert message in refused.value.message


def test_a_queue_gets_the_defaults_that_the_design_names(installed: base.Cluster) -> None:
    bare = {"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "bare"}}
    expected = {"weight": 1, "reclaimable": True, "priority": 0, "state": "Open"}
    expected |= {"autoscaling": "Hidden", "gpuCharge": "gpus"}
    assert plane.tried(installed, bare)["spec"] == expected


def test_status_is_written_through_its_own_door_only(installed: base.Cluster) -> None:
    group = manifest_cases.group(2, name="status")
    group["metadata"]["namespace"] = plane.TENANT
    status = {
        "phase": "Pending", "members": 2, "scheduled": 0, "running": 0, "succeeded": 0, "failed": 0,
        "reason": "Queued", "message": "waits", "observedAt": "2026-01-01T00:00:00Z", "observedGeneration": 1,
        "conditions": [{
            "type": "Waiting", "status": "True", "reason": "Queued", "message": "waits",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }  # fmt: skip
    installed.kube.delete("podgroups.muster.dev", "status", plane.TENANT)
    assert "status" not in installed.kube.create({**group, "status": status})
    written = installed.kube.patch(
        "podgroups.muster.dev", "status", {"status": status}, plane.TENANT, subresource="status"
    )
    assert written["status"] == status
    installed.kube.delete("podgroups.muster.dev", "status", plane.TENANT)


def test_the_api_server_finds_no_mistake_in_the_expressions_of_our_policies(installed: base.Cluster) -> None:
    def unchecked() -> list[str]:
        """Policies that it has not looked through yet, or in which it found something."""
        found = installed.kube.list("validatingadmissionpolicies.admissionregistration.k8s.io")
        ours = [obj for obj in found if obj["metadata"]["name"].startswith("muster-")]
        assert len(ours) == 3
        return [
            str(obj.get("status"))
            for obj in ours
            if obj.get("status") != {"observedGeneration": obj["metadata"]["generation"], "typeChecking": {}}
        ]

    waiting.wait_for(unchecked, 20, "all are checked and sound", until=lambda left: not left)


# --- rights ------------------------------------------------------------------------------------------


def allowed(cluster: base.Cluster, verb: str, resource: str, namespace: str, name: str) -> bool:
    """What the API server's authorizer says of our service account."""
    whole, _, subresource = resource.partition("/")
    plural, _, group = whole.partition(".")
    attributes = {
        "verb": verb, "group": group, "resource": plural, "subresource": subresource,
        "namespace": namespace, "name": name,
    }  # fmt: skip
    accounts = "system:serviceaccounts"
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{plane.NAMESPACE}:{plane.ACCOUNT}",
            "groups": [accounts, f"{accounts}:{plane.NAMESPACE}", "system:authenticated"],
            "resourceAttributes": attributes,
        },
    }
    answer = cluster.kube.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


@pytest.mark.parametrize(("verb", "resource", "namespace", "name"), manifest_cases.ALLOWED)
def test_our_account_may(installed: base.Cluster, verb: str, resource: str, namespace: str, name: str) -> None:
    waiting.wait_for(lambda: allowed(installed, verb, resource, namespace, name), 10, "allowed")


@pytest.mark.parametrize(("verb", "resource", "namespace", "name"), manifest_cases.REFUSED)
def test_our_account_may_not(installed: base.Cluster, verb: str, resource: str, namespace: str, name: str) -> None:
    assert not allowed(installed, verb, resource, namespace, name)


def test_requests_of_our_account_are_served_at_the_level_of_the_stock_scheduler(
    installed: base.Cluster,
) -> None:
    access = kubeconfig.read(installed.kubeconfig_for_service_account(plane.NAMESPACE, plane.ACCOUNT))
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{plane.NAMESPACE}/leases"
    for path, schema in (
        ("/api/v1/pods?limit=1", "muster"),
        (f"{leases}/muster-scheduler", "muster-leader-election"),
    ):
        known = installed.kube.get("flowschemas.flowcontrol.apiserver.k8s.io", schema)
        waiting.wait_for(
            lambda path=path: flow_schema(access, path),
            20,
            f"{path} is served by {schema}",
            until=lambda uid, wanted=known["metadata"]["uid"]: uid == wanted,
        )


def flow_schema(access: kubeconfig.Access, path: str) -> str:
    """The uid of the FlowSchema that the API server took for a request."""
    asked = urllib.request.Request(access.server + path, headers=access.headers())
    context = access.ssl_context() or ssl.create_default_context()
    try:
        with urllib.request.urlopen(asked, context=context, timeout=30) as answer:
            return str(answer.headers["X-Kubernetes-PF-FlowSchema-UID"])
    except urllib.error.HTTPError as error:
        with error:
            return str(error.headers["X-Kubernetes-PF-FlowSchema-UID"])


@pytest.mark.parametrize("folder", ["base", "examples/muster-score"])
def test_the_stock_scheduler_runs_with_the_configuration_and_the_account_of_the_manifests(
    installed: base.Cluster, folder: str
) -> None:
    config = yaml.safe_load((plane.MANIFESTS / folder / "scheduler-config.yaml").read_text())
    account = installed.kubeconfig_for_service_account(plane.NAMESPACE, plane.ACCOUNT)
    config["clientConnection"]["kubeconfig"] = str(account)
    path = installed.work / f"{installed.unique('manifest-scheduler')}.yaml"
    path.write_text(yaml.safe_dump(config))
    installed.kube.delete("leases.coordination.k8s.io", "muster-scheduler", plane.NAMESPACE)
    flags = scheduler_flags(installed)
    scheduler = installed.start_kube_scheduler(path, name="manifest-scheduler", extra_flags=flags)
    try:
        waiting.wait_for(
            lambda: installed.kube.find("leases.coordination.k8s.io", "muster-scheduler", plane.NAMESPACE),
            30,
            "it leads by its own lease",
            until=lambda lease: bool(lease and lease["spec"].get("holderIdentity")),
        )
        assert "forbidden" not in scheduler.log_path.read_text().lower()
    finally:
        scheduler.kill9()
        installed.kube.delete("leases.coordination.k8s.io", "muster-scheduler", plane.NAMESPACE)


def scheduler_flags(cluster: base.Cluster) -> list[str]:
    """The flags of the Deployment's scheduler, but for its file."""
    template = cluster.kube.get("deployments.apps", "muster", plane.NAMESPACE)["spec"]["template"]
    arguments: list[str] = template["spec"]["containers"][0]["args"]
    return [argument for argument in arguments if not argument.startswith("--config=")]


# --- taking it out -----------------------------------------------------------------------------------


@dataclasses.dataclass
class Foreigner:
    """Somebody else, who goes on creating pods for another scheduler."""

    cluster: base.Cluster
    created: int = 0
    failed: list[str] = dataclasses.field(default_factory=list)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Create pods in a thread of its own until the block ends."""
        done = threading.Event()
        thread = threading.Thread(target=self._create_until, args=(done,))
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _create_until(self, done: threading.Event) -> None:
        while not done.wait(0.02):
            try:
                plane.tried(self.cluster, plane.pod("somebody", schedulerName="default-scheduler"))
                self.created += 1
            except kube.ApiError as error:
                self.failed.append(str(error))
        self.cluster.kube.close()


def uninstall(cluster: base.Cluster, *arguments: str) -> str:
    access = {"KUBECTL": cluster.binaries.path("kubectl"), "KUBECONFIG": str(cluster.kubeconfig)}
    done = subprocess.run(
        [str(plane.MANIFESTS / "uninstall.sh"), *arguments],
        env={**os.environ, **access},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ours(cluster: base.Cluster) -> set[str]:
    """Everything of ours that stands in the cluster, as kind/name."""
    kinds = [
        "namespaces", "customresourcedefinitions", "serviceaccounts", "roles", "rolebindings",
        "clusterroles", "clusterrolebindings", "configmaps", "deployments", "poddisruptionbudgets",
        "validatingadmissionpolicies", "validatingadmissionpolicybindings", "flowschemas", "apiservices",
    ]  # fmt: skip
    if plane.policy_served(cluster):
        kinds += ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"]
    return set(cluster.kubectl("get", ",".join(kinds), "-A", "-l", OURS, "-o", "name").split())


@pytest.fixture
def waiting_pods(installed: base.Cluster) -> Iterator[base.Cluster]:
    """A Job of three gated pods, a lone gated pod that another gate holds too, and a queue that is in use."""
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "waits", "namespace": plane.TENANT},
        "spec": {"parallelism": 3, "completions": 3, "template": {
            "metadata": {"labels": {plane.GATE: "busy"}},
            "spec": {**plane.pod(schedulingGates=[{"name": plane.GATE}])["spec"], "restartPolicy": "Never"},
        }},
    }  # fmt: skip
    both = {"schedulingGates": [{"name": "example.com/wait"}, {"name": plane.GATE}]}
    installed.kube.create(job)
    installed.kube.create(plane.pod("lone", **both))
    installed.kube.apply(manifest_cases.queue("in-use"))
    installed.kube.apply(answers_without_a_server())
    waiting.wait_for(lambda: len(gates_of_waiting(installed)) == 4, 30, "four pods wait")
    installed.kube.patch("namespaces", plane.LABELLED, {"metadata": {"labels": {"muster.dev/managed": "warn"}}})
    yield installed
    installed.kube.patch("namespaces", plane.LABELLED, {"metadata": {"labels": {"muster.dev/managed": None}}})
    installed.kubectl("delete", "jobs/waits", "pods/lone", "-n", plane.TENANT, "--grace-period=0", "--force")
    plane.install(installed)


def answers_without_a_server() -> Object:
    """The API of live answers when none of our processes runs: no namespace can be deleted then."""
    (service,) = yaml.safe_load_all((plane.MANIFESTS / "answers" / "apiservice.yaml").read_text())
    del service["spec"]["caBundle"]
    return dict(service)


def gates_of_waiting(cluster: base.Cluster) -> list[list[str]]:
    made = [
        obj
        for obj in cluster.kube.list("pods", plane.TENANT, fields="spec.schedulerName=muster")
        if obj["metadata"]["name"].startswith(("waits-", "lone"))
    ]
    return sorted([gate["name"] for gate in obj["spec"].get("schedulingGates", [])] for obj in made)


def test_uninstalling_is_one_command_in_the_right_order_that_harms_nobody(waiting_pods: base.Cluster) -> None:
    cluster, before = waiting_pods, ours(waiting_pods)
    definitions = {entry for entry in before if entry.startswith("customresourcedefinition")}
    gated = gates_of_waiting(cluster)

    said = uninstall(cluster, "--dry-run", "--ungate", "--purge")
    assert "(server dry run)" in said
    assert (ours(cluster), gates_of_waiting(cluster)) == (before, gated)
    assert len(before) == len(plane.built(cluster)) + 1  # the API of answers

    foreigner = Foreigner(cluster)
    with foreigner.at_work():
        said = uninstall(cluster)
        for kind in ("mutatingadmissionpolicybinding", "mutatingadmissionpolicy"):
            for name in ("muster-queue-gate", "muster-managed"):
                assert (f'{kind}.admissionregistration.k8s.io "{name}"' in said) is plane.policy_served(cluster)
        order = [said.index(text) for text in (
            'validatingadmissionpolicybinding.admissionregistration.k8s.io "muster-marks"',
            'validatingadmissionpolicy.admissionregistration.k8s.io "muster-marks"',
            f"keep the label muster.dev/managed, which does nothing any more: {plane.LABELLED}",
            "that still wait",
            'apiservice.apiregistration.k8s.io "v1alpha1.visibility.muster.dev"',
            'deployment.apps "muster"',
            'clusterrole.rbac.authorization.k8s.io "muster-extender"',
            'namespace "muster-system"',
            "queues.muster.dev: 1 objects",
        )]  # fmt: skip
        assert order == sorted(order)
        assert f"{plane.TENANT} Job/waits: 3 waiting, 3 of them gated." in said
        assert f"{plane.TENANT} Pod/lone: 1 waiting, 1 of them gated." in said
        assert "--purge" in said
        assert ours(cluster) == definitions
        assert cluster.kube.find("queues.muster.dev", "in-use") is not None
        assert gates_of_waiting(cluster) == gated

        uninstall(cluster, "--ungate")  # again: nothing left to remove but the gates
        assert gates_of_waiting(cluster) == [[], [], [], ["example.com/wait"]]
        uninstall(cluster, "--purge")
        assert ours(cluster) == set()
        assert f"{plane.TENANT} Job/waits: 3 waiting, 0 of them gated." in uninstall(cluster, "--purge")
    assert foreigner.failed == []
    assert foreigner.created > 10
