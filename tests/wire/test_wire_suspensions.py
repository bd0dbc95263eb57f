"""What an object says of its queueing by suspension: whose switch, which pods, and what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from extender.core.ids import QUEUE_GATE, TaskName
from extender.core.makers import Suspension
from extender.core.model import Pod, Toleration
from extender.wire.kinds import KINDS, Kind
from extender.wire.makers import decode_maker
from extender.wire.suspensions import MAX_PLANNED

Object = dict[str, Any]
LABEL = {"muster.dev/queue-by": "suspension"}
CREATED = "2026-12-01T10:00:00Z"
ADMITTED = "muster.dev/admitted-at"


def template(gpus: int = 1, scheduler: str = "muster", **more: Any) -> Object:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {"spec": {"schedulerName": scheduler, "containers": [container], **more}}


def kind(name: str) -> Kind:
    return next(one for one in KINDS if one.name == name and one.group != "batch.volcano.sh")


def made(word: str, spec: Object, *, labels: Object = LABEL, **meta: Any) -> Object:
    names = {"name": "train", "namespace": "team", "uid": "u", "generation": 3, "creationTimestamp": CREATED}
    return {"kind": word, "metadata": names | {"labels": labels} | meta, "spec": spec}


def job(pods: int = 2, **more: Any) -> Object:
    spec = {"suspend": True, "parallelism": pods, "completions": pods, "completionMode": "Indexed"}
    return spec | {"template": template()} | more


def read(word: str, spec: Object, **meta: Any) -> Suspension | None:
    return decode_maker(kind(word), made(word, spec, **meta)).suspension


def pods(word: str, spec: Object, **meta: Any) -> tuple[Pod, ...]:
    found = read(word, spec, **meta)
    assert found is not None
    return found.pods


def numbers(found: tuple[Pod, ...]) -> list[tuple[TaskName, tuple[int, ...]]]:
    return [(pod.task, pod.index) for pod in found]


def replicas(**of: int) -> Object:
    return {role: {"replicas": number, "template": template()} for role, number in of.items()}


ROLE = {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 2, "completions": 2, "template": template()}}}
RUN = {"runPolicy": {"suspend": True}}
RAY = {
    "headGroupSpec": {"template": template()},
    "workerGroupSpecs": [{"groupName": "w", "replicas": 2} | {"template": template()}],
}


@pytest.mark.parametrize(
    ("word", "spec", "tasks"),
    [
        ("Job", job(), ["", ""]),
        ("Job", job(completionMode="NonIndexed"), ["", ""]),  # they would stand alone, but wait as one
        ("Job", job(completions=7), ["", ""]),
        ("Job", job(pods=1), [""]),
        ("JobSet", {"suspend": True, "replicatedJobs": [ROLE]}, ["w"] * 4),
        ("PyTorchJob", RUN | {"pytorchReplicaSpecs": replicas(Master=1, Worker=2)}, ["master", "worker", "worker"]),
        ("TFJob", RUN | {"tfReplicaSpecs": replicas(PS=1)}, ["ps"]),
        ("XGBoostJob", RUN | {"xgbReplicaSpecs": replicas(Master=1)}, ["master"]),
        ("PaddleJob", RUN | {"paddleReplicaSpecs": replicas(Worker=1)}, ["worker"]),
        ("JAXJob", RUN | {"jaxReplicaSpecs": replicas(Worker=1)}, ["worker"]),
        ("MPIJob", RUN | {"mpiReplicaSpecs": replicas(Launcher=1, Worker=2)}, ["launcher", "worker", "worker"]),
        (
            "MPIJob",
            RUN | {"mpiReplicaSpecs": replicas(Launcher=1, Worker=2), "launcherCreationPolicy": "WaitForWorkersReady"},
            ["worker", "worker"],
        ),
        ("RayCluster", RAY | {"suspend": True}, ["headgroup", "w", "w"]),
    ],
)
def test_the_pods_are_those_that_start_first(word: str, spec: Object, tasks: list[str]) -> None:
    found = decode_maker(kind(word), made(word, spec))
    assert found.suspension is not None
    assert found.suspension.waits
    assert [pod.task for pod in found.suspension.pods] == tasks
    assert len({pod.uid for pod in found.suspension.pods}) == len(tasks)
    assert not found.gangs[0].loose
    assert found.gangs[0].group.min_member == len(tasks)
    assert found.gangs[0].group.problems == ()


def test_of_roles_in_turn_the_first_one_waits() -> None:
    spec = {"suspend": True, "startupPolicy": {"startupPolicyOrder": "InOrder"}}
    spec |= {"replicatedJobs": [ROLE | {"name": "first", "replicas": 1}, ROLE]}
    assert [pod.task for pod in pods("JobSet", spec)] == ["first", "first"]


def test_a_planned_pod_is_what_the_api_server_would_hold() -> None:
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    spec = template(2, nodeSelector={"pool": "a"}, tolerations=tolerations, nodeName="n", priorityClassName="high")
    first, second = pods("Job", job(template=spec))
    assert dict(first.shape.request)["nvidia.com/gpu"] == 2
    assert first.shape.constraints.selector == (("pool", "a"),)
    added = [Toleration(f"node.kubernetes.io/{key}", "Exists", "", "NoExecute") for key in ("not-ready", "unreachable")]
    assert set(first.shape.constraints.tolerations) == {Toleration("gpu", "Exists", "", ""), *added}
    assert (first.gates, first.node, first.ours, first.namespace) == ((QUEUE_GATE,), None, True, "team")
    assert first.owner is not None
    assert (first.owner.kind, first.owner.api, first.owner.uid) == ("Job", "batch", "u")
    assert (first.index, second.index) == ((0,), (1,))
    assert first.shape == second.shape
    assert read("Job", job(template=spec)).classes == ("high", "high")  # type: ignore[union-attr]


def test_a_slice_is_told_by_the_number_of_the_pod() -> None:
    notes = {"kueue.x-k8s.io/podset-slice-required-topology": "rack", "kueue.x-k8s.io/podset-slice-size": "2"}
    found = pods("Job", job(4, template=template() | {"metadata": {"annotations": notes}}))
    slices = [pod.parts[0].name for pod in found]
    assert slices[0] == slices[1] != slices[2] == slices[3]


def test_numbers_are_those_of_the_controller() -> None:
    assert numbers(pods("JobSet", {"suspend": True, "replicatedJobs": [ROLE]})) == [
        ("w", (outer, inner)) for outer in range(2) for inner in range(2)
    ]


def test_those_that_are_done_are_not_made_again() -> None:
    done = made("Job", job(4)) | {"status": {"succeeded": 3}}
    found = decode_maker(kind("Job"), done).suspension
    assert found is not None
    assert len(found.pods) == 1


@pytest.mark.parametrize(
    ("word", "spec", "meta", "waits"),
    [
        ("Job", job(), {"labels": {}}, None),
        ("Job", job(), {}, True),
        ("Job", job(suspend=False), {}, False),
        ("Job", job(suspend="yes"), {}, False),
        ("Job", job(), {"annotations": {ADMITTED: "2026-12-01T10:00:00Z"}}, None),  # suspended by hand after that
        ("Job", job(suspend=False), {"annotations": {ADMITTED: "2026-12-01T10:00:01Z"}}, False),
        ("Job", job(), {"annotations": {ADMITTED: "2026-12-01T09:59:59Z"}}, True),  # copied from another object
        ("Job", job(), {"annotations": {ADMITTED: "yesterday"}}, True),
        ("Job", job(), {"deletionTimestamp": CREATED}, None),
        ("LeaderWorkerSet", {"suspend": True}, {}, None),  # has no such field
    ],
)
def test_whether_it_waits(word: str, spec: Object, meta: Object, waits: bool | None) -> None:
    found = read(word, spec, **meta)
    assert (None if found is None else found.waits) is waits


def test_one_that_has_ended_waits_no_more() -> None:
    ended = made("Job", job()) | {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}
    assert decode_maker(kind("Job"), ended).suspension is None
    going_on = made("Job", job()) | {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}
    assert decode_maker(kind("Job"), going_on).suspension is not None


def owner(version: str, name: str) -> Object:
    one = {"apiVersion": version, "kind": name, "name": "above", "uid": "a", "controller": True}
    return {"ownerReferences": [{"kind": "Other", "controller": False}, one]}


def test_whose_switch_it_is() -> None:
    own = read("Job", job())
    assert own is not None
    assert (own.switch.plural, own.switch.field, own.switch.uid, own.switch.generation) == (
        "jobs",
        "spec.suspend",
        "u",
        3,
    )
    torch = read("PyTorchJob", RUN | {"pytorchReplicaSpecs": replicas(Worker=1)})
    assert torch is not None
    assert torch.switch.field == "spec.runPolicy.suspend"
    of_cron = read("Job", job(), **owner("batch/v1", "CronJob"))
    assert of_cron is not None
    assert of_cron.switch == own.switch
    trained = read(
        "JobSet", {"suspend": True, "replicatedJobs": [ROLE]}, **owner("trainer.kubeflow.org/v1", "TrainJob")
    )
    assert trained is not None
    assert (trained.switch.plural, trained.switch.name, trained.switch.uid) == ("trainjobs", "above", "a")
    assert not trained.switch.own
    assert read("Job", job(), **owner("jobset.x-k8s.io/v1alpha2", "JobSet")) is None
    assert read("RayCluster", RAY | {"suspend": True}, **owner("ray.io/v1", "RayJob")) is None


@pytest.mark.parametrize(
    ("word", "spec", "meta", "problem"),
    [
        ("Job", job(template=None), {}, "template"),
        ("Job", job(template="x"), {}, "template"),
        ("Job", job(pods=-1), {}, "parallelism"),
        ("Job", job(pods=MAX_PLANNED + 1), {}, str(MAX_PLANNED)),
        ("Job", job(), {"labels": {"muster.dev/queue-by": "gates"}}, "queue-by"),
        ("Job", job(template=template() | {"metadata": {"labels": {"muster.dev/pod-group": "g"}}}), {}, "mark"),
        ("JobSet", {"suspend": True, "replicatedJobs": "x"}, {}, "replicatedJobs"),
        (
            "JobSet",
            {"suspend": True, "replicatedJobs": [{"name": "w"}], "startupPolicy": {"startupPolicyOrder": "InOrder"}},
            {},
            "template",
        ),
        ("PyTorchJob", RUN | {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}}, {}, "template"),
    ],
)
def test_what_is_wrong_is_said_of_a_group_that_waits(word: str, spec: Object, meta: Object, problem: str) -> None:
    found = decode_maker(kind(word), made(word, spec, **meta))
    assert found.suspension is not None
    assert found.suspension.pods
    assert all(pod.ours for pod in found.suspension.pods)
    assert any(problem in text for text in found.gangs[0].group.problems)


def test_a_bad_request_is_said_of_the_pods() -> None:
    (first, *_) = pods("Job", job(template=template("many")))  # type: ignore[arg-type]
    assert first.problems


def test_what_others_schedule_is_not_planned() -> None:
    assert pods("Job", job(template=template(scheduler="default-scheduler"))) == ()
    mixed = replicas(Master=1, Worker=1)
    mixed["Master"]["template"] = template(scheduler="other")
    assert [pod.task for pod in pods("PyTorchJob", RUN | {"pytorchReplicaSpecs": mixed})] == ["worker"]
    assert pods("Job", job(0)) == ()


def test_a_group_that_runs_says_by_what_it_is_stopped() -> None:
    running, waiting = (decode_maker(kind("Job"), made("Job", job(suspend=one))) for one in (False, True))
    assert running.suspension is not None
    assert running.gangs[0].group.switch == running.suspension.switch
    assert waiting.gangs[0].group.switch is None
