"""Jobs of Volcano's kind run by Muster's own controller: the real API server, kube-scheduler and garbage collector.

KWOK starts pods; how they end is played by the tests. The controller is killed on the way: nothing comes out otherwise.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from e2e import history, objects, waiting
from e2e import kube as kube_module
from e2e.cluster import base, jobs
from e2e.volcano_jobs import COMMANDS, CRON_JOBS, JOBS, Object, Stage, policy, task


def test_a_job_starts_as_one_gang_and_completes(stage: Stage) -> None:
    stage.create("train", task("master", 1), task("worker", 3), minAvailable=4, queue="default")
    pods = stage.wait_running("train", 4)
    assert sorted(pods) == ["train-master-0", "train-worker-0", "train-worker-1", "train-worker-2"]
    (group,) = stage.kube.list("podgroups.muster.dev", stage.namespace)
    assert group["spec"]["minMember"] == 4
    assert group["metadata"]["ownerReferences"][0]["uid"] == stage.job("train")["metadata"]["uid"]
    stage.wait_phase("train", "Running")
    name = group["metadata"]["name"]
    found = waiting.wait_for(
        lambda: stage.kube.get("podgroups.muster.dev", name, stage.namespace).get("status"),
        20,
        "the extender tells of the gang",
        until=lambda status: (status or {}).get("phase") == "Running",
    )
    assert found["scheduled"] == 4
    for pod in pods:
        stage.end(pod)
    stage.wait_phase("train", "Completed")
    assert stage.status("train")["succeeded"] == 4
    assert stage.uids("train") == pods


def test_plugins_and_volumes_get_what_they_need_by_the_controllers_own_rights(
    stage: Stage, kube: kube_module.Kube
) -> None:
    volume = {"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none"}}
    volume["volumeClaim"] |= {"resources": {"requests": {"storage": "1Gi"}}}
    plugins: Object = {"svc": [], "ssh": [], "env": []}
    stage.create("plugged", task("mpi", 2, gpus=0), plugins=plugins, volumes=[volume])
    said = "all objects are there"
    made = waiting.wait_for(lambda: _owned(stage, "plugged"), 20, said, until=lambda found: len(found) >= 5)
    kinds = {one["kind"] for one in made.values()}
    assert kinds == {"Service", "ConfigMap", "Secret", "NetworkPolicy", "PersistentVolumeClaim"}
    (secret,) = [one for one in made.values() if one["kind"] == "Secret"]
    public = base64.b64decode(secret["data"]["id_rsa.pub"]).decode()
    assert public.startswith("ssh-ed25519 ")
    assert b"OPENSSH PRIVATE KEY" in base64.b64decode(secret["data"]["id_rsa"])
    waiting.wait_for(lambda: len(stage.pods("plugged")) == 2, 20, "both pods are there")
    (claim,) = [one["metadata"]["name"] for one in made.values() if one["kind"] == "PersistentVolumeClaim"]
    for pod in stage.pods("plugged").values():
        assert claim in [one.get("persistentVolumeClaim", {}).get("claimName") for one in pod["spec"]["volumes"]]
    # nothing is made anew, the key least of all
    assert {uid: one["kind"] for uid, one in made.items()} == {
        uid: one["kind"] for uid, one in _owned(stage, "plugged").items()
    }


def _owned(stage: Stage, name: str) -> dict[str, Object]:
    """Objects other than pods and groups that the Job owns, by uid."""
    job = stage.job(name)["metadata"]["uid"]
    kinds = {
        "services": "Service",
        "configmaps": "ConfigMap",
        "secrets": "Secret",
        "networkpolicies.networking.k8s.io": "NetworkPolicy",
        "persistentvolumeclaims": "PersistentVolumeClaim",
    }
    return {
        one["metadata"]["uid"]: one | {"kind": kind}
        for resource, kind in kinds.items()
        for one in stage.kube.list(resource, stage.namespace)
        if [owner["uid"] for owner in one["metadata"].get("ownerReferences") or []] == [job]
    }


@pytest.mark.parametrize("its_node", ["is healthy", "takes no pods any more"])
def test_a_worker_that_is_lost_is_back_in_its_place_and_the_gang_never_below_its_minimum(
    stage: Stage, kube: kube_module.Kube, seen: history.History, its_node: str
) -> None:
    lines = [policy("PodEvicted", "RestartPod"), policy("PodFailed", "RestartPod")]
    stage.create("gang", task("worker", 8, gpus=1), minAvailable=7, policies=lines, plugins={"env": []})
    before = stage.wait_running("gang", 8)
    stage.wait_phase("gang", "Running")
    was = stage.pods("gang")["gang-worker-5"]
    if its_node == "is healthy":
        stage.end("gang-worker-5", 137)
    else:
        kube.patch("nodes", was["spec"]["nodeName"], {"spec": {"unschedulable": True}})
        kube.delete("pods", "gang-worker-5", stage.namespace, grace=0)
    stage.wait_replaced("gang", before, ["gang-worker-5"])
    now = stage.pods("gang")["gang-worker-5"]
    assert (now["spec"]["nodeName"] == was["spec"]["nodeName"]) is (its_node == "is healthy")
    assert rank_of(now) == rank_of(was) == ("5", "5")
    stage.wait_phase("gang", "Running")
    # of the others none left, was evicted or was to be: seven, its minimum, ran all the time
    disturbed = {pod for pod, what in seen.story(kube) if what in ("leaving", "gone", "target", "recorded")}
    assert disturbed == {"gang-worker-5"}


def rank_of(pod: Object) -> tuple[str, str]:
    """The index of a member as the pod's annotation and its program's environment say it."""
    variables = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
    return pod["metadata"]["annotations"]["volcano.sh/task-index"], variables["VC_TASK_INDEX"]


@pytest.mark.parametrize("moment", ["before it could look", "in the middle of the restart"])
def test_a_controller_that_is_killed_changes_nothing_of_the_outcome(
    stage: Stage, controller: jobs.Controller, moment: str
) -> None:
    stage.create("twice", task("worker", 4), policies=[policy("PodFailed", "RestartJob")])
    before = stage.wait_running("twice", 4)
    stage.wait_phase("twice", "Running")
    if moment == "before it could look":
        controller.process.kill9()
        stage.end("twice-worker-2", 1)
        controller.process.start()
    else:
        stage.end("twice-worker-2", 1)
        waiting.wait_for(lambda: stage.uids("twice") != before, 20, "the restart has begun")
        controller.crash()
    stage.wait_replaced("twice", before, before)
    stage.wait_phase("twice", "Running")
    assert stage.status("twice")["retryCount"] == 1
    for pod in stage.uids("twice"):
        stage.end(pod)
    stage.wait_phase("twice", "Completed")


def test_a_controller_that_is_killed_in_the_middle_of_a_batch_makes_no_pod_too_many(
    stage: Stage, controller: jobs.Controller, kube: kube_module.Kube, seen: history.History
) -> None:
    names = [f"batch-{number}" for number in range(24)]
    worker = task("worker", 4, gpus=0)
    lines = [policy("PodFailed", "RestartJob")]
    for name in names[:12]:
        stage.create(name, worker, policies=lines)
    waiting.wait_for(lambda: kube.list("pods", stage.namespace), 20, "the first pods are made")
    controller.process.kill9()
    for name in names[12:]:
        stage.create(name, worker, policies=lines)
    controller.process.start()
    stage.wait_all(names, phase="Running", running=4)
    for name in names:
        stage.end(f"{name}-worker-2", 1)
    waiting.wait_for(lambda: any(stage.status(name).get("retryCount") for name in names), 20, "one is restarted")
    controller.crash()
    stage.wait_all(names, phase="Running", running=4, retryCount=1)
    for name in names:
        for index in range(4):
            stage.end(f"{name}-worker-{index}")
    stage.wait_all(names, phase="Completed", succeeded=4, retryCount=1)
    seen.settle(kube)
    assert len(seen.nodes()) == 24 * 4 * 2


def test_a_job_is_suspended_and_resumed_by_commands(stage: Stage, kube: kube_module.Kube) -> None:
    stage.create("pause", task("worker", 2))
    before = stage.wait_running("pause", 2)
    stage.command("pause", "AbortJob")
    stage.wait_phase("pause", "Aborted")
    assert stage.pods("pause") == {}
    stage.command("pause", "ResumeJob")
    after = stage.wait_running("pause", 2)
    stage.wait_phase("pause", "Running")
    assert not set(before.values()) & set(after.values())
    waiting.wait_for(
        lambda: kube.list(COMMANDS, stage.namespace), 10, "obeyed Commands are gone", until=lambda left: not left
    )


def test_what_a_quota_refuses_is_said_in_the_status_and_made_good(stage: Stage, kube: kube_module.Kube) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": stage.namespace}}
    kube.create(quota | {"spec": {"hard": {"pods": "1"}}})
    waiting.wait_for(
        lambda: kube.get("resourcequotas", "few", stage.namespace).get("status", {}).get("hard"), 20, "it is in force"
    )
    stage.create("many", task("worker", 3))
    waiting.wait_for(
        lambda: stage.status("many").get("state", {}).get("message", ""),
        20,
        "the status says what was refused",
        until=lambda said: "exceeded quota: few" in said,
    )
    kube.delete("resourcequotas", "few", stage.namespace)
    stage.wait_running("many", 3, deadline=60)
    stage.wait_phase("many", "Running")
    assert "quota" not in stage.status("many")["state"].get("message", "")


def test_a_cron_job_makes_good_for_missed_runs_once_and_its_job_runs(stage: Stage, kube: kube_module.Kube) -> None:
    template = {"spec": {"schedulerName": "muster", "tasks": [task("worker", 1, gpus=0)]}}
    meta = {"name": "tick", "namespace": stage.namespace}
    spec = {"schedule": "0 0 1 1 *", "suspend": True, "concurrencyPolicy": "Forbid", "jobTemplate": template}
    kube.create({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "metadata": meta, "spec": spec})
    long_ago = {"status": {"lastScheduleTime": "2020-06-01T00:00:00Z"}}
    kube.patch(CRON_JOBS, "tick", long_ago, stage.namespace, subresource="status")
    kube.patch(CRON_JOBS, "tick", {"spec": {"suspend": False}}, stage.namespace)
    (job,) = waiting.wait_for(lambda: kube.list(JOBS, stage.namespace), 20, "a Job is created")
    name = job["metadata"]["name"]
    (pod,) = stage.wait_running(name, 1)
    stage.end(pod)
    stage.wait_phase(name, "Completed")
    status = waiting.wait_for(
        lambda: kube.get(CRON_JOBS, "tick", stage.namespace)["status"],
        10,
        "the status tells of the success",
        until=lambda found: "lastSuccessfulTime" in found and not found["active"],
    )
    assert status["lastScheduleTime"].endswith("-01-01T00:00:00Z")
    assert [one["metadata"]["name"] for one in kube.list(JOBS, stage.namespace)] == [name]


class FakeVolcano:
    """Volcano's controller as far as others see it: it holds its Lease, and makes the pods of Jobs and a PodGroup."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._kube = stage.kube
        if self._kube.find("namespaces", "volcano-system") is None:
            self._kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}})

    def hold(self, holder: str) -> None:
        """Hold the Lease for a minute, or give it back."""
        meta = {"name": "vc-controller-manager", "namespace": "volcano-system"}
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 60}
        self._kube.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec})

    def sync(self, name: str) -> None:
        """Make the pods that the Job lacks, as Volcano's controller and scheduler would have them."""
        job = self._stage.job(name)
        group = f"{name}-{job['metadata']['uid']}"
        if self._kube.find("podgroups.scheduling.volcano.sh", group, self._stage.namespace) is None:
            made = objects.pod_group("volcano", group, self._stage.namespace, job["spec"]["minAvailable"])
            self._kube.create(made)
        for one in job["spec"]["tasks"]:
            for index in range(one["replicas"]):
                pod = f"{name}-{one['name']}-{index}"
                if self._kube.find("pods", pod, self._stage.namespace) is None:
                    self._kube.create(self._pod(job, one, index, pod, group))

    def _pod(self, job: Object, one: Object, index: int, pod: str, group: str) -> Object:
        name = job["metadata"]["name"]
        said = {"volcano.sh/job-name": name, "volcano.sh/task-spec": one["name"], "volcano.sh/task-index": str(index)}
        annotations = said | {"volcano.sh/job-version": "0", "scheduling.k8s.io/group-name": group}
        made = objects.pod(
            pod, self._stage.namespace, 1, labels=said | {"volcano.sh/job-namespace": self._stage.namespace},
            annotations=annotations, owner=job,
        )  # fmt: skip
        return made


@pytest.fixture
def volcano(stage: Stage) -> Iterator[FakeVolcano]:
    """Volcano's controller, which is not there yet."""
    fake = FakeVolcano(stage)
    yield fake
    fake.hold("")


def wait_aside(controller: jobs.Controller, aside: bool) -> None:
    """Wait until the controller leaves all Jobs to Volcano's, or runs them."""
    said = "Volcano's controller is found" if aside else "Volcano's controller is found gone"
    waiting.wait_for(
        lambda: controller.metric("muster_jobs_volcano_runs"), 20, said, until=lambda runs: bool(runs) is aside
    )


def why(stage: Stage, name: str) -> str:
    """What stands on the Job of who runs it."""
    return str((stage.job(name)["metadata"].get("annotations") or {}).get("muster.dev/why", ""))


def test_beside_volcanos_controller_ours_makes_nothing_and_takes_over_what_is_there(
    stage: Stage, kube: kube_module.Kube, controller: jobs.Controller, volcano: FakeVolcano
) -> None:
    volcano.hold("volcano_1")
    wait_aside(controller, True)
    stage.create("first", task("worker", 3), minAvailable=3, policies=[policy("PodFailed", "RestartPod")])
    waiting.wait_for(lambda: why(stage, "first"), 20, "the Job says who runs it")
    assert "volcano-system/vc-controller-manager" in why(stage, "first")
    assert stage.pods("first") == {}
    assert stage.status("first") == {}
    volcano.sync("first")
    before = stage.wait_running("first", 3)
    volcano.hold("")
    wait_aside(controller, False)
    stage.wait_phase("first", "Running")
    assert stage.uids("first") == before
    assert why(stage, "first") == ""
    stage.end("first-worker-1", 1)
    stage.wait_replaced("first", before, ["first-worker-1"])
    groups = {one["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for one in stage.pods("first").values()}
    assert len(groups) == 1
    assert kube.list("podgroups.muster.dev", stage.namespace) == []


def test_when_volcanos_controller_comes_ours_leaves_everything_to_it(
    stage: Stage, controller: jobs.Controller, volcano: FakeVolcano
) -> None:
    stage.create("second", task("worker", 2), minAvailable=1, policies=[policy("PodFailed", "RestartPod")])
    before = stage.wait_running("second", 2)
    stage.wait_phase("second", "Running")
    volcano.hold("volcano_1")
    wait_aside(controller, True)
    waiting.wait_for(lambda: why(stage, "second"), 20, "the Job says who runs it")
    version = stage.job("second")["metadata"]["resourceVersion"]
    stage.end("second-worker-1", 1)
    # a Job of later is looked at later: the first one has been looked at by then, and left alone
    stage.create("third", task("worker", 1), minAvailable=1)
    waiting.wait_for(lambda: why(stage, "third"), 20, "the later Job says who runs it")
    assert stage.uids("second") == before
    assert stage.job("second")["metadata"]["resourceVersion"] == version
    volcano.hold("")
    wait_aside(controller, False)
    stage.wait_replaced("second", before, ["second-worker-1"])
    stage.wait_running("third", 1)


def test_volcanos_controller_without_leader_election_is_told_by_its_pods(
    stage: Stage, kube: kube_module.Kube, controller: jobs.Controller
) -> None:
    labels = {"app": "volcano-controller"}
    kube.create(objects.pod("other-release-controllers-x", stage.namespace, 0, labels=labels))
    wait_aside(controller, True)
    stage.create("left", task("worker", 1, gpus=0))
    waiting.wait_for(lambda: why(stage, "left"), 20, "the Job says who runs it")
    assert f"Pod {stage.namespace}/other-release-controllers-x" in why(stage, "left")
    kube.delete("pods", "other-release-controllers-x", stage.namespace, grace=0)
    wait_aside(controller, False)
    stage.wait_running("left", 1)


def test_a_second_replica_waits_and_takes_over_when_the_first_is_lost(
    cluster: base.Cluster, stage: Stage, controller: jobs.Controller
) -> None:
    with jobs.Controller(cluster, "jobs-two") as second:
        stage.create("handed", task("worker", 2), policies=[policy("PodFailed", "RestartJob")])
        before = stage.wait_running("handed", 2)
        stage.wait_phase("handed", "Running")
        assert second.metric("muster_jobs_active") == 0
        controller.process.term()
        second.wait_active()
        stage.end("handed-worker-0", 1)
        stage.wait_replaced("handed", before, before)
        assert stage.status("handed")["retryCount"] == 1
    controller.process.start()
    controller.wait_ready()
    controller.wait_active()
