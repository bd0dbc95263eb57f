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
from e2e import objects, waiting
from e2e.cluster import manifests
from e2e.cluster.muster import Replica
from e2e.scenes import SOON, Scene

MakeNodes = Callable[..., list[str]]
Object = dict[str, Any]
LABEL = {"muster.dev/queue-by": "suspension"}
ADMITTED = "muster.dev/admitted-at"
COMPONENT = pathlib.Path(manifests.ROOT, "manifests", "components", "queue-by-suspension", "rbac.yaml")
JOBS = "jobs.batch"


@pytest.fixture
def scene(kube: kube_module.Kube, muster: Replica, namespace: str) -> Scene:
    return Scene(kube, muster, namespace)


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


def wait_runs(scene: Scene, name: str, pods: int = 4) -> None:
    """Wait until all pods of the job are bound."""
    waiting.wait_for(
        lambda: sum(map(objects.is_bound, pods_of(scene, name))),
        SOON,
        f"{name} runs",
        until=lambda bound: bound == pods,
    )


def suspended(scene: Scene, name: str) -> bool:
    return bool(scene.kube.get(JOBS, name, scene.namespace)["spec"]["suspend"])


def wait_suspended(scene: Scene, name: str) -> None:
    """Wait until the job is suspended and has no pods."""
    waiting.wait_for(lambda: suspended(scene, name) and not pods_of(scene, name), SOON, f"{name} has no pods")


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
    finish(scene, "first")
    wait_runs(scene, "second")
    scene.wait_sound()
