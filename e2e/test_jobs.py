"""Jobs of Volcano's kind run by Muster's own controller: the real API server, kube-scheduler and garbage collector.

KWOK starts pods; how they end is played by the tests. The controller is killed on the way: nothing comes out otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e import kube as kube_module
from e2e.cluster import base, jobs, manifests, muster
from e2e.volcano_jobs import Stage, policy, task

RESTART, RESTARTED = policy("PodFailed", "RestartJob"), 20.0


@pytest.fixture(scope="module")
def controller(
    cluster: base.Cluster, installed: manifests.Manifests, _replica: muster.Replica
) -> Iterator[jobs.Controller]:
    """The job controller beside the replica of the run."""
    jobs.install(cluster)
    with jobs.Controller(cluster) as running:
        running.wait_active()
        yield running


@pytest.fixture
def stage(
    kube: kube_module.Kube,
    namespace: str,
    controller: jobs.Controller,
    muster: muster.Replica,
    make_nodes: Callable[..., list[str]],
) -> Stage:
    """A namespace for Jobs, and two nodes of 8 GPUs."""
    make_nodes(2)
    return Stage(kube, namespace)


def test_a_job_starts_as_one_gang_and_completes(stage: Stage) -> None:
    stage.create("train", task("master", 1), task("worker", 3), minAvailable=4, queue="default")
    pods = stage.wait_running("train", 4)
    assert sorted(pods) == ["train-master-0", "train-worker-0", "train-worker-1", "train-worker-2"]
    (group,) = stage.kube.list("podgroups.muster.dev", stage.namespace)
    assert group["spec"]["minMember"] == 4
    assert group["metadata"]["ownerReferences"][0]["uid"] == stage.job("train")["metadata"]["uid"]
    stage.wait_phase("train", "Running")
    for pod in pods:
        stage.end(pod)
    stage.wait_phase("train", "Completed")
    assert stage.status("train")["succeeded"] == 4
    assert stage.uids("train") == pods
