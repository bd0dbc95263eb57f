"""A member's pod and the job's objects: names, labels, owners, group, volumes, priority, and nearness."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from job_world import JobWorld, a_job, a_task, a_template

from extender.core.hypernodes import LOWEST
from extender.core.ids import Source
from extender.wire.groups import decode_group
from extender.wire.pods import decode_pod

GROUP = "train-0f1e2d3c"


def group_spec(job: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = orjson.loads(orjson.dumps(JobWorld(job).turn().objects[0].body["spec"]))
    return spec


def one_pod(job: dict[str, Any]) -> dict[str, Any]:
    return JobWorld(job).turn().creates[0].body  # type: ignore[return-value]


def test_the_pod_of_a_member() -> None:
    template = a_template(priorityClassName="")
    template["metadata"] = {
        "name": "web",
        "labels": {"app": "train", "scheduling.x-k8s.io/pod-group": "other"},
        "annotations": {"note": "1", "scheduling.k8s.io/group-name": "other"},
    }
    job = a_job(a_task("worker", 1, template=template), queue="research", priorityClassName="high")
    assert one_pod(job) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train-worker-0",
            "namespace": "team",
            "labels": {
                "app": "train",
                "volcano.sh/job-name": "train",
                "volcano.sh/job-namespace": "team",
                "volcano.sh/task-spec": "worker",
                "volcano.sh/task-index": "0",
                "volcano.sh/queue-name": "research",
                "muster.dev/pod-group": GROUP,
                "muster.dev/task": "worker",
                "muster.dev/run": "0.0",
            },
            "annotations": {
                "note": "1",
                "volcano.sh/job-name": "train",
                "volcano.sh/task-spec": "worker",
                "volcano.sh/task-index": "0",
                "volcano.sh/queue-name": "research",
                "volcano.sh/job-version": "0",
                "volcano.sh/job-retry-count": "0",
                "volcano.sh/template-uid": "train-worker",
            },
            "ownerReferences": [
                {
                    "apiVersion": "batch.volcano.sh/v1alpha1",
                    "kind": "Job",
                    "name": "train",
                    "uid": job["metadata"]["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": {
            "containers": [{"name": "main", "image": "busybox"}],
            "restartPolicy": "Never",
            "schedulerName": "muster",
            "priorityClassName": "high",
        },
    }


def test_the_template_goes_before_the_job() -> None:
    template = a_template(schedulerName="other", priorityClassName="low", hostNetwork=True)
    spec = one_pod(a_job(a_task("worker", 1, template=template), priorityClassName="high"))["spec"]
    assert (spec["schedulerName"], spec["priorityClassName"]) == ("other", "low")
    assert spec["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_the_extender_reads_group_and_pod_as_they_are_meant() -> None:
    job = a_job(a_task("ps", 1, minAvailable=1), a_task("worker", 4, minAvailable=2), minAvailable=3)
    world = JobWorld(job)
    step = world.turn()
    obj = orjson.loads(orjson.dumps(step.objects[0].body))
    obj["metadata"] |= {"uid": "g", "creationTimestamp": "2027-01-15T08:00:00Z", "resourceVersion": "1"}
    group = decode_group(Source.MUSTER, obj)
    assert group.problems == ()
    assert (group.min_member, dict(group.tasks)) == (3, {"ps": 1, "worker": 2})
    pod = decode_pod(world.pods["train-worker-3"])
    assert (pod.group, pod.task) == (group.key, "worker")


#: fields of the job, of its only task with four replicas -> the group's spec
GROUPS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "all": ({}, {}, {"minMember": 4, "queue": "default"}),
    "a minimum": ({"minAvailable": 2}, {}, {"minMember": 2, "queue": "default"}),
    "a task's minimum": (
        {},
        {"minAvailable": 3},
        {"minMember": 3, "queue": "default", "tasks": [{"name": "worker", "minMember": 3}]},
    ),
    "minimums of tasks that are more than the job's do not count": (
        {"minAvailable": 2},
        {"minAvailable": 4},
        {"minMember": 2, "queue": "default"},
    ),
    "queue, priority and time": (
        {"queue": "research", "priorityClassName": "high", "runningEstimate": "1h30m"},
        {},
        {"minMember": 4, "queue": "research", "priorityClassName": "high", "expectedDurationSeconds": 5400},
    ),
    "near": (
        {"networkTopology": {"mode": "hard", "highestTierAllowed": 2}},
        {},
        {
            "minMember": 4,
            "queue": "default",
            "topology": {"required": "topology.volcano.sh/tier-2", "preferred": LOWEST},
        },
    ),
    "in parts": (
        {},
        {
            "partitionPolicy": {
                "totalPartitions": 2,
                "partitionSize": 2,
                "networkTopology": {"highestTierName": "rack"},
            }
        },
        {
            "minMember": 4,
            "queue": "default",
            "tasks": [
                {
                    "name": "worker",
                    "minMember": 0,
                    "topology": {"required": "topology.volcano.sh/tier-name-rack", "size": 2},
                }
            ],
        },
    ),
}


@pytest.mark.parametrize("name", list(GROUPS))
def test_the_group(name: str) -> None:
    of_job, of_task, want = GROUPS[name]
    assert group_spec(a_job(a_task("worker", 4, **of_task), **of_job)) == want


def test_a_long_name_gives_a_group_that_fits() -> None:
    job = a_job(a_task("w", 1), name="a" * 59)
    pod = one_pod(job)
    assert len(pod["metadata"]["labels"]["muster.dev/pod-group"]) == 63
    job["metadata"]["uid"] = "another-uid"
    assert (
        one_pod(job)["metadata"]["labels"]["muster.dev/pod-group"] != pod["metadata"]["labels"]["muster.dev/pod-group"]
    )


def test_a_job_that_is_not_preemptable() -> None:
    job = a_job()
    job["metadata"]["annotations"] = {"volcano.sh/preemptable": "false"}
    assert group_spec(job)["preemptible"] is False
    assert one_pod(job)["metadata"]["annotations"]["volcano.sh/preemptable"] == "false"


def test_volumes_are_mounted_and_claims_are_made_and_outlive_the_job_s_end() -> None:
    volumes = [
        {"mountPath": "/in", "volumeClaimName": "data"},
        {"mountPath": "/out", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}},
    ]
    world = JobWorld(a_job(a_task("worker", 1), volumes=volumes))
    step = world.turn()
    claim = next(one for one in step.objects if one.kind == "PersistentVolumeClaim")
    assert (claim.name, claim.body["spec"]) == ("train-pvc-1", {"accessModes": ["ReadWriteOnce"]})
    spec = step.creates[0].body["spec"]
    assert [one["persistentVolumeClaim"]["claimName"] for one in spec["volumes"]] == ["data", "train-pvc-1"]
    assert [one["mountPath"] for one in spec["containers"][0]["volumeMounts"]] == ["/in", "/out"]
    world.settle()
    world.run()
    world.end("train-worker-0")
    world.settle()
    assert world.phase == "Completed"
    assert "PersistentVolumeClaim" not in {one.kind for one in world.step.removals}


def test_parts_are_numbered_on_the_pods() -> None:
    world = JobWorld(a_job(a_task("worker", 4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})))
    world.turn()
    parts = [pod["metadata"]["labels"]["volcano.sh/partition-id"] for _, pod in sorted(world.pods.items())]
    assert parts == ["0", "0", "1", "1"]
