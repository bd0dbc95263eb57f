"""Jobs that are queued by suspension: while they wait they have no pods, and they run when their turn has come.

The Jobs are the real controller's; of a JobSet its controller is played by a script, as far as `suspend` goes.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from e2e import kube as kube_module
from e2e import objects, owners, waiting
from e2e.cluster import manifests
from e2e.cluster.muster import Replica
from e2e.owners import Maker
from e2e.scenes import SOON, Scene, priority_classes

MakeNodes = Callable[..., list[str]]
Object = dict[str, Any]
LABEL = {"muster.dev/queue-by": "suspension"}
ADMITTED = "muster.dev/admitted-at"
COMPONENT = pathlib.Path(manifests.ROOT, "manifests", "components", "queue-by-suspension", "rbac.yaml")
JOBS = "jobs.batch"
NEVER = {"template": {"spec": {"containers": [{"name": "main"}], "restartPolicy": "Never"}}}


@pytest.fixture
def scene(kube: kube_module.Kube, answering: Replica, namespace: str) -> Scene:
    answering.heal()
    return Scene(kube, answering, namespace)


@contextlib.contextmanager
def allowed(kube: kube_module.Kube) -> Iterator[None]:
    """Muster may unsuspend."""
    made = [kube.create(one) for one in yaml.safe_load_all(COMPONENT.read_text())]
    yield
    for one in reversed(made):
        kube.delete(f"{one['kind'].lower()}s.rbac.authorization.k8s.io", one["metadata"]["name"])


@pytest.fixture
def _allowed(kube: kube_module.Kube) -> Iterator[None]:
    with allowed(kube):
        yield


@pytest.fixture
def queue(kube: kube_module.Kube, namespace: str) -> Iterator[str]:
    """A queue for one job of 4 GPUs at a time."""
    kube.create(objects.queue(namespace, capability={objects.GPU: 4}))
    yield namespace
    kube.delete("queues.muster.dev", namespace)


def job(scene: Scene, name: str, pods: int = 4, **spec: Any) -> Object:
    """A Job that is queued by suspension in the queue of its namespace's name."""
    labels = {**LABEL, "muster.dev/queue": scene.namespace}
    template = objects.pod("any", "any", 1, labels={"job": name}, spec={"restartPolicy": "Never"})
    meta = {"name": name, "namespace": scene.namespace, "labels": labels}
    body = {
        **{"suspend": True, "parallelism": pods, "completions": pods, "completionMode": "Indexed"},
        "template": {"metadata": {"labels": {"job": name}}, "spec": template["spec"]},
    }
    return scene.kube.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": body | spec})


def pods_of(scene: Scene, name: str) -> list[Object]:
    return list(scene.kube.list("pods", scene.namespace, labels=f"job={name}"))


def wait_runs(scene: Scene, name: str, pods: int = 4, deadline: float = SOON) -> None:
    """Wait until all pods of the job are bound."""
    waiting.wait_for(
        lambda: sum(map(objects.is_bound, pods_of(scene, name))),
        deadline,
        f"{name} runs",
        until=lambda bound: bound == pods,
    )


def suspended(scene: Scene, name: str) -> bool:
    return bool(scene.kube.get(JOBS, name, scene.namespace)["spec"]["suspend"])


def wait_suspended(scene: Scene, name: str) -> None:
    """Wait until the job is suspended and has no pods."""
    waiting.wait_for(lambda: suspended(scene, name) and not pods_of(scene, name), SOON, f"{name} has no pods")


def wait_answer(scene: Scene, name: str, **fields: Any) -> Object:
    """Wait until the live answer about the job has these fields; "" stands for none."""
    path = f"/apis/visibility.muster.dev/v1alpha1/namespaces/{scene.namespace}/workloads/owner:{name}"
    return waiting.wait_for(
        lambda: dict(scene.kube.request("GET", path)["status"]),
        SOON,
        f"{name} is answered with {fields}",
        until=lambda said: all(said.get(field, "") == value for field, value in fields.items()),
    )


def finish(scene: Scene, name: str) -> None:
    """All pods of the job end well."""
    for pod in pods_of(scene, name):
        scene.kube.patch(
            "pods", pod["metadata"]["name"], {"status": {"phase": "Succeeded"}}, scene.namespace, subresource="status"
        )


@pytest.mark.usefixtures("_allowed", "queue")
def test_a_job_waits_without_pods_until_its_queue_has_room(scene: Scene, make_nodes: MakeNodes) -> None:
    make_nodes(1)
    job(scene, "first")
    wait_runs(scene, "first")
    assert ADMITTED in scene.kube.get(JOBS, "first", scene.namespace)["metadata"]["annotations"]
    job(scene, "second")
    scene.pod("late-0", gpus=0)  # when this one is bound, all that came before it was looked at
    scene.wait_bound("late", 1)
    assert suspended(scene, "second")
    assert pods_of(scene, "second") == []
    said = wait_answer(scene, "job:second", phase="Pending", reason="QuotaExceeded")
    assert (said["queue"], said["position"], said["members"]["bound"]) == (scene.namespace, 1, 0)
    finish(scene, "first")
    wait_runs(scene, "second")
    wait_answer(scene, "job:second", phase="Running", reason="")
    scene.wait_sound()


@pytest.mark.usefixtures("_allowed", "queue")
def test_who_waits_is_not_forgotten_when_the_extender_starts_anew(scene: Scene, make_nodes: MakeNodes) -> None:
    make_nodes(1)
    job(scene, "first")
    wait_runs(scene, "first")
    job(scene, "second")
    wait_answer(scene, "job:second", reason="QuotaExceeded")
    scene.replica.extender.kill9()
    finish(scene, "first")
    scene.replica.heal()
    wait_runs(scene, "second")
    scene.wait_sound()


@pytest.mark.usefixtures("_allowed", "queue")
def test_one_that_is_preempted_waits_without_pods_and_runs_again(scene: Scene, make_nodes: MakeNodes) -> None:
    make_nodes(1)
    low = job(scene, "low", backoffLimit=0)
    wait_runs(scene, "low")
    with priority_classes(scene.kube, **{f"{scene.namespace}-high": 20}):
        high = {"priorityClassName": f"{scene.namespace}-high"}
        scene.group("high", 4, queue=scene.namespace)
        scene.gang("high", 4, spec=high)
        scene.wait_bound("high", 4)
        wait_suspended(scene, "low")
        wait_answer(scene, "job:low", phase="Pending", reason="QuotaExceeded")
        assert ADMITTED not in scene.kube.get(JOBS, "low", scene.namespace)["metadata"].get("annotations", {})
        scene.delete(*(pod["metadata"]["name"] for pod in scene.pods("high")))
        wait_runs(scene, "low")
    now = scene.kube.get(JOBS, "low", scene.namespace)
    assert now["metadata"]["uid"] == low["metadata"]["uid"]
    scene.wait_sound()


@pytest.mark.usefixtures("queue")
def test_without_the_right_it_stays_suspended_and_says_so(
    kube: kube_module.Kube, scene: Scene, make_nodes: MakeNodes
) -> None:
    make_nodes(1)
    job(scene, "first")
    said = wait_answer(scene, "job:first", phase="Pending", reason="StaysSuspended")
    assert "forbidden" in said["message"]
    assert "jobs.batch" in said["message"]
    scene.group("others", 4, queue=scene.namespace)
    scene.gang("others", 4)
    scene.wait_bound("others", 4)  # it keeps nobody waiting
    scene.delete(*(pod["metadata"]["name"] for pod in scene.pods("others")))
    with allowed(kube):
        wait_runs(scene, "first", deadline=60)


@pytest.mark.usefixtures("_allowed")
def test_a_job_set_is_unsuspended_when_all_of_it_has_a_place(
    kube: kube_module.Kube, scene: Scene, make_nodes: MakeNodes
) -> None:
    roles = [
        {"name": name, "replicas": jobs, "template": {"spec": {"parallelism": 2, "completions": 2} | NEVER}}
        for name, jobs in (("leader", 1), ("worker", 2))
    ]
    maker = Maker(kube, scene.namespace, "set", [])
    (node,) = make_nodes(1, extended={maker.resource: 5})
    obj = kube.create(
        {
            **{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"},
            "metadata": {"name": "set", "namespace": scene.namespace, "labels": LABEL},
            "spec": {"suspend": True, "replicatedJobs": maker.fitted(roles)},
        }
    )
    wait_answer(scene, "jobset:set", phase="Pending", reason="InsufficientResources")
    assert maker.pods() == []
    more = {"allocatable": {maker.resource: "6"}, "capacity": {maker.resource: "6"}}
    kube.patch("nodes", node, {"status": more}, subresource="status")
    waiting.wait_for(
        lambda: kube.get("jobsets.jobset.x-k8s.io", "set", scene.namespace)["spec"]["suspend"],
        SOON,
        "it is unsuspended",
        until=lambda value: value is False,
    )
    said = wait_answer(scene, "jobset:set", reason="StartingUp")
    assert said["members"]["planned"] == 6, "its room is kept until its pods are there"
    assert list(owners.job_set(maker, obj)) == []  # as its controller does then, all at once
    waiting.wait_for(maker.bound, SOON, "all of it is bound", until=lambda number: number == 6)
    scene.wait_sound()
