"""The table of kinds: roles, numbers and templates of objects that make pods."""

from __future__ import annotations

from typing import Any

from wire_objects import pod, table

from extender.wire import kinds, marks
from extender.wire.fields import Reader
from extender.wire.objects import decode_pod

Json = dict[str, Any]
T: Json = {"spec": {"containers": []}}


def parts(version: str, name: str, spec: Json) -> tuple[list[tuple[str, int, int | None]], list[str]]:
    obj = {"apiVersion": version, "kind": name, "metadata": {"name": "o"}, "spec": spec}
    kind, reader = kinds.kind_of(obj), Reader()
    assert kind is not None
    return [(str(p.role), p.number, p.minimum) for p in kinds.parts_of(reader, obj, kind)], reader.problems


@table(
    "version, name, spec, want",
    {
        "a pod": ("v1", "Pod", T["spec"], [("", 1, None)]),
        "a Deployment": ("apps/v1", "Deployment", {"replicas": 3, "template": T}, [("", 3, None)]),
        "a Job without numbers": ("batch/v1", "Job", {"template": T}, [("", 1, None)]),
        "a Job of few completions": (
            "batch/v1",
            "Job",
            {"parallelism": 5, "completions": 2, "template": T},
            [("", 2, None)],
        ),
        "a Job of many completions": (
            "batch/v1",
            "Job",
            {"parallelism": 3, "completions": 100, "template": T},
            [("", 3, None)],
        ),
        "Volcano": (
            "batch.volcano.sh/v1alpha1",
            "Job",
            {"tasks": [{"name": "ps", "template": T}, {"name": "w", "replicas": 4, "minAvailable": 2, "template": T}]},
            [("ps", 1, None), ("w", 4, 2)],
        ),
        "Kubeflow": (
            "kubeflow.org/v1",
            "TFJob",
            {"tfReplicaSpecs": {"PS": {"replicas": 2, "template": T}, "Worker": {"template": T}}},
            [("ps", 2, None), ("worker", 1, None)],
        ),
        "JobSet": (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 3, "template": T}}}]},
            [("w", 6, None)],
        ),
        "LeaderWorkerSet, whose leader has the workers' template": (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"size": 4, "workerTemplate": T}},
            [("leader", 1, None), ("worker", 3, None)],
        ),
        "Ray, with hosts, and without replicas": (
            "ray.io/v1",
            "RayCluster",
            {
                "headGroupSpec": {"template": T},
                "workerGroupSpecs": [
                    {"groupName": "a", "replicas": 2, "numOfHosts": 4, "minReplicas": 1, "template": T},
                    {"groupName": "b", "template": T},
                ],
            },
            [("headgroup", 1, None), ("a", 8, 1), ("b", 0, None)],
        ),
        "a RayJob without a submitter of its own": ("ray.io/v1", "RayJob", {"rayClusterSpec": {}}, []),
        "Spark": (
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            {"driver": {"cores": 1}, "executor": {"instances": 5}},
            [("driver", 1, None), ("executor", 5, 0)],
        ),
    },
)
def test_parts(version: str, name: str, spec: Json, want: list[tuple[str, int, int | None]]) -> None:
    assert parts(version, name, spec) == (want, [])


@table(
    "spec, want, problem",
    {
        "a negative number": ({"replicas": -1, "template": T}, 0, "spec.replicas: -1 is not a number of pods"),
        "a number in words": ({"replicas": "3", "template": T}, 0, "spec.replicas: '3' is not a number of pods"),
        "a number with a fraction": ({"replicas": 2.5, "template": T}, 0, "spec.replicas: 2.5"),
        "a number beyond reason": ({"replicas": 10**9, "template": T}, 0, "spec.replicas: 1000000000"),
        "no template": ({"replicas": 2}, 0, "spec.template: None is not a pod template"),
        "a template that is a list": ({"replicas": 2, "template": [T]}, 0, "spec.template: ["),
    },
)
def test_a_bad_field_is_named_and_makes_no_pods(spec: Json, want: int, problem: str) -> None:
    found, problems = parts("apps/v1", "Deployment", spec)
    assert found == [("", want, None)]
    assert [text.startswith(problem) for text in problems] == [True], problems


def test_a_product_beyond_reason_is_named() -> None:
    spec = {"parallelism": 1000, "template": T}
    jobs = [{"name": "w", "replicas": 1000, "template": {"spec": spec}}]
    found, problems = parts("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})
    assert found == [("w", 0, None)]
    assert problems == ["spec.replicatedJobs[]: 1000000 is not a number of pods from 0 to 100000"]


def test_a_kind_is_found_by_its_group_whatever_the_version() -> None:
    for version, name, known in (
        ("batch/v1", "Job", True),
        ("batch.volcano.sh/v1beta9", "Job", True),
        ("v1", "Pod", True),
        ("v1", "ConfigMap", False),
        ("example.com/v1", "Job", False),
    ):
        assert (kinds.kind_of({"apiVersion": version, "kind": name}) is not None) is known
    assert kinds.kind_of({"apiVersion": 1, "kind": ["Pod"]}) is None


def test_what_holds_other_objects_hands_on_its_name_and_what_it_does_not_say() -> None:
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c", "namespace": "n", "labels": {"a": "outer"}},
        "spec": {"jobTemplate": {"metadata": {"labels": {"a": "inner"}}, "spec": {"template": T}}},
    }
    kind = kinds.kind_of(cron)
    assert kind is not None
    (held,) = kinds.held_objects(Reader(), cron, kind)
    assert (held["apiVersion"], held["kind"]) == ("batch/v1", "Job")
    assert held["metadata"] == {"name": "c", "namespace": "n", "labels": {"a": "inner"}}


def test_no_kind_is_there_twice() -> None:
    assert len({(kind.group, kind.name) for kind in kinds.KINDS}) == len(kinds.KINDS)


def test_every_role_that_a_controller_writes_on_its_pods_is_read_as_their_task() -> None:
    """The table and the marks are one thing: what the table says is written, `marks` reads."""
    words = {
        "name": "o",
        "namespace": "n",
        "uid": "u",
        "role": "r",
        "index": "1",
        "order": "1",
        "copy": "0",
        "size": "2",
        "outer": "0",
        "inner": "1",
        "partition": "0",
    }
    for kind in kinds.KINDS:
        written = [{key: text.format_map(words) for key, text in writes} for writes in (kind.labels, kind.notes)]
        if any("{role}" in text for _, text in (*kind.labels, *kind.notes)):
            got = decode_pod(pod(meta={"labels": written[0], "annotations": written[1]}))
            assert got.task == "r", kind.name
    assert set(marks.ROLE_LABELS) >= {key for kind in kinds.KINDS for key, text in kind.labels if text == "{role}"} - {
        "volcano.sh/task-spec"
    }
