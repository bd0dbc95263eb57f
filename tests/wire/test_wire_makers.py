"""What an object that makes pods says of them: which start together, and how many it takes."""

from __future__ import annotations

from typing import Any

import pytest
from wire_objects import table

from extender.core.makers import Maker, MakerKey, Recognition
from extender.wire.fields import DecodeError
from extender.wire.kinds import KINDS, kind_of
from extender.wire.makers import decode_maker, recognition_of, recognitions_of
from extender.wire.user_kinds import MAX_KINDS, decode_kinds, merged

Json = dict[str, Any]
T: Json = {"spec": {"containers": []}}
#: name of the gang, its roles, minimum, minimums of roles, and whether its pods stand alone by themselves
Want = tuple[str, tuple[str, ...], int, dict[str, int], bool]


def maker_of(version: str, name: str, spec: Json, **meta: Any) -> Maker:
    obj = {"apiVersion": version, "kind": name, "metadata": {"name": "o", "uid": "u", **meta}, "spec": spec}
    kind = kind_of(obj)
    assert kind is not None
    return decode_maker(kind, obj)


def said(maker: Maker) -> list[Want]:
    assert not any(gang.group.problems for gang in maker.gangs)
    return [
        (gang.name, gang.tasks, gang.group.min_member, {str(k): n for k, n in gang.group.tasks}, gang.loose)
        for gang in maker.gangs
    ]


def jobs(*names: str, **more: Any) -> list[Json]:
    return [{"name": name, "template": {"spec": {"parallelism": 2, "template": T}}, **more} for name in names]


def replicas(field: str, more: Json | None = None, **numbers: int) -> Json:
    return {field: {name: {"replicas": number, "template": T} for name, number in numbers.items()}} | (more or {})


def ray(**more: Any) -> Json:
    workers = {"groupName": "w", "replicas": 3, "minReplicas": 1, "numOfHosts": 2, "template": T}
    return {"headGroupSpec": {"template": T}, "workerGroupSpecs": [workers], **more}


TORCH, TF, RAY = ("kubeflow.org/v1", "PyTorchJob"), ("kubeflow.org/v1", "TFJob"), ("ray.io/v1", "RayCluster")
JOB, SET = ("batch/v1", "Job"), ("jobset.x-k8s.io/v1alpha2", "JobSet")
LWS, MPI = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), ("kubeflow.org/v2beta1", "MPIJob")
INDEXED: Json = {"completionMode": "Indexed", "template": T}
NOBODY: tuple[str, ...] = ()

CASES: dict[str, tuple[tuple[str, str], Json, list[Want]]] = {
    "an Indexed Job whose pods are all there at once": (
        JOB,
        {**INDEXED, "parallelism": 4, "completions": 4},
        [("", NOBODY, 4, {}, False)],
    ),
    "an Indexed Job that does its work piece by piece": (
        JOB,
        {**INDEXED, "parallelism": 4, "completions": 5},
        [("", NOBODY, 4, {}, True)],
    ),
    "an Indexed Job without numbers": (JOB, INDEXED, [("", NOBODY, 1, {}, True)]),
    "a Job of pods that know no number": (
        JOB,
        {"parallelism": 4, "completions": 4, "template": T},
        [("", NOBODY, 4, {}, True)],
    ),
    "a JobSet": (SET, {"replicatedJobs": jobs("a", "b", replicas=2)}, [("", NOBODY, 8, {"a": 4, "b": 4}, False)]),
    "a JobSet with more completions than pods at once": (
        SET,
        {"replicatedJobs": [{"name": "a", "template": {"spec": {"parallelism": 4, "completions": 5, "template": T}}}]},
        [("", NOBODY, 4, {}, False)],
    ),
    "a JobSet in order": (
        SET,
        {"replicatedJobs": jobs("a", "b"), "startupPolicy": {"startupPolicyOrder": "InOrder"}},
        [("a", ("a",), 2, {}, False), ("b", ("b",), 2, {}, False)],
    ),
    "a JobSet in any order": (
        SET,
        {"replicatedJobs": jobs("a", "b"), "startupPolicy": {"startupPolicyOrder": "AnyOrder"}},
        [("", NOBODY, 4, {"a": 2, "b": 2}, False)],
    ),
    "a JobSet of which one waits for another": (
        SET,
        {"replicatedJobs": [*jobs("a"), *jobs("b", dependsOn=[{"name": "a", "status": "Complete"}])]},
        [("a", ("a",), 2, {}, False), ("b", ("b",), 2, {}, False)],
    ),
    "a LeaderWorkerSet": (
        LWS,
        {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": T}},
        [("", NOBODY, 4, {"leader": 1, "worker": 3}, False)],
    ),
    "a LeaderWorkerSet whose leader starts first": (
        LWS,
        {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 4, "workerTemplate": T}},
        [("", ("worker",), 3, {}, False)],
    ),
    "a PyTorchJob of one": (TORCH, replicas("pytorchReplicaSpecs", Master=1), [("", NOBODY, 1, {}, True)]),
    "a PyTorchJob": (
        TORCH,
        replicas("pytorchReplicaSpecs", Master=1, Worker=3),
        [("", NOBODY, 4, {"master": 1, "worker": 3}, False)],
    ),
    "an elastic PyTorchJob": (
        TORCH,
        replicas("pytorchReplicaSpecs", {"elasticPolicy": {"minReplicas": 2}}, Worker=4),
        [("", NOBODY, 2, {}, False)],
    ),
    "a TFJob with a minimum": (
        TF,
        replicas("tfReplicaSpecs", {"runPolicy": {"schedulingPolicy": {"minAvailable": 3}}}, PS=1, Worker=4),
        [("", NOBODY, 3, {}, False)],
    ),
    "a minimum that can never be met is as good as all": (
        TF,
        replicas("tfReplicaSpecs", {"runPolicy": {"schedulingPolicy": {"minAvailable": 9}}}, Worker=4),
        [("", NOBODY, 4, {}, False)],
    ),
    "an MPIJob": (
        MPI,
        replicas("mpiReplicaSpecs", Launcher=1, Worker=2),
        [("", NOBODY, 3, {"launcher": 1, "worker": 2}, False)],
    ),
    "an MPIJob whose launcher comes when its workers are ready": (
        MPI,
        replicas("mpiReplicaSpecs", {"launcherCreationPolicy": "WaitForWorkersReady"}, Launcher=1, Worker=2),
        [("", ("worker",), 2, {}, False)],
    ),
    "a RayCluster": (RAY, ray(), [("", NOBODY, 7, {"headgroup": 1, "w": 6}, False)]),
    "a RayCluster that scales itself": (
        RAY,
        ray(enableInTreeAutoscaling=True),
        [("", NOBODY, 3, {"headgroup": 1, "w": 2}, False)],
    ),
    "a RayCluster that says that it does not": (
        RAY,
        ray(enableInTreeAutoscaling=False),
        [("", NOBODY, 7, {"headgroup": 1, "w": 6}, False)],
    ),
    "a SparkApplication": (
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication"),
        {"driver": {"cores": 1}, "executor": {"instances": 5}},
        [("", NOBODY, 1, {"driver": 1}, False)],
    ),
    "a role whose template names its task": (
        TORCH,
        {
            "pytorchReplicaSpecs": {
                "Master": {"template": {**T, "metadata": {"labels": {"muster.dev/task": "first"}}}},
                "Worker": {"template": T},
            }
        },
        [("", NOBODY, 2, {"first": 1, "worker": 1}, False)],
    ),
}


@table("kind, spec, want", CASES)
def test_what_an_object_wants(kind: tuple[str, str], spec: Json, want: list[Want]) -> None:
    assert said(maker_of(*kind, spec)) == want


def test_what_else_a_group_has_of_its_maker() -> None:
    spec = {**INDEXED, "parallelism": 2, "completions": 2}
    maker = maker_of(*JOB, spec, namespace="team", generation=3, labels={"muster.dev/queue": "research"})
    (gang,) = maker.gangs
    assert (maker.key, maker.uid, gang.group.uid) == (MakerKey("job", "team", "o"), "u", "u")
    assert (gang.group.queue, gang.group.generation) == ("research", 3)
    assert (maker.copies, gang.group.done) == (False, 0)
    obj = {"apiVersion": JOB[0], "kind": JOB[1], "metadata": {"name": "o", "uid": "u"}, "spec": spec}
    kind = kind_of(obj)
    assert kind is not None
    for said, done in ((1, 1), (-1, 0), ("1", 0), (True, 0), (2**40, 100_000)):
        assert decode_maker(kind, obj | {"status": {"succeeded": said}}).gangs[0].group.done == done
    assert maker_of(*LWS, {"leaderWorkerTemplate": {"size": 2, "workerTemplate": T}}).copies
    stated = replicas("tfReplicaSpecs", {"runPolicy": {"schedulingPolicy": {"queue": "vision"}}}, Worker=1)
    assert maker_of(*TF, stated).gangs[0].group.queue == "vision"


def test_what_is_wrong_stands_in_the_group_and_without_identity_there_is_none() -> None:
    (gang,) = maker_of(*JOB, {**INDEXED, "parallelism": -1, "completions": 2}).gangs
    assert gang.group.problems == ("spec.parallelism: -1 is not a number of pods from 0 to 100000",)
    kind = next(kind for kind in KINDS if kind.name == "JobSet")
    with pytest.raises(DecodeError):
        decode_maker(kind, {"metadata": {"name": "o"}})


def test_pods_are_known_by_labels_before_their_controllers() -> None:
    known = recognitions_of(KINDS)
    assert [bool(one.label) for one in known] == sorted((bool(one.label) for one in known), reverse=True)
    assert len({one.word for one in known}) == len(known)
    assert recognition_of(next(kind for kind in KINDS if kind.name == "Deployment")) is None
    lws = next(one for one in known if one.word == "leaderworkerset")
    assert lws == Recognition(
        "leaderworkerset",
        (("apps", "StatefulSet"),),
        "leaderworkerset.sigs.k8s.io/name",
        "leaderworkerset.sigs.k8s.io/group-index",
    )


# --- kinds that a site adds ------------------------------------------------------------------------

TRAINING = """
apiVersion: [example.com/v1, example.com/v1beta1]
kind: Training
plural: trainings
controllers: [{apiVersion: batch/v1, kind: Job}]
namedBy: example.com/training
roles:
- {at: spec.coordinator, name: coordinator, number: []}
- {at: "spec.workers[]", name: .name, number: [count, "hosts=2"], least: minCount}
elastic: spec.elastic
apart: [{role: coordinator, when: "spec.start=late"}]
inTurn: "spec.order"
queue: spec.queue
"""


def kinds_of(**data: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found, problems = decode_kinds({"data": data})
    return tuple(kind.name for kind in found), problems


def test_a_kind_that_a_site_adds_is_as_good_as_one_of_ours() -> None:
    (kind,), problems = decode_kinds({"data": {"training": TRAINING}})
    assert problems == ()
    spec = {
        "coordinator": {"template": T},
        "workers": [{"name": "w", "count": 3, "minCount": 1, "template": T}],
        "queue": "research",
    }
    obj = {"metadata": {"name": "o", "uid": "u"}, "spec": spec}
    assert said(decode_maker(kind, obj)) == [("", (), 7, {"coordinator": 1, "w": 6}, False)]
    spec |= {"elastic": True, "start": "late"}
    assert said(decode_maker(kind, obj)) == [("", ("w",), 2, {}, False)]
    assert decode_maker(kind, obj).gangs[0].group.queue == "research"
    assert recognition_of(kind) == Recognition("training", (("batch", "Job"),), "example.com/training")
    assert kind.together is not None
    assert (kind.group, kind.together.plural, kind.together.versions) == ("example.com", "trainings", ("v1", "v1beta1"))
    assert merged([kind])[-1] == kind


def test_a_kind_that_a_site_adds_can_be_queued_by_suspension() -> None:
    (kind,), problems = decode_kinds({"data": {"good": GOOD[:-1] + ", suspend: spec.run.suspend}"}})
    assert problems == ()
    meta = {"name": "o", "uid": "u", "labels": {"muster.dev/queue-by": "suspension"}}
    template = {"spec": {"schedulerName": "muster", "containers": []}}
    spec = {"replicas": 2, "run": {"suspend": True}, "template": template}
    found = decode_maker(kind, {"metadata": meta, "spec": spec}).suspension
    assert found is not None
    assert (found.waits, len(found.pods), found.switch.field) == (True, 2, "spec.run.suspend")


def test_a_kind_of_ours_can_be_replaced() -> None:
    text = (
        "{apiVersion: batch/v1, kind: Job, plural: jobs, roles: [{at: spec, number: [parallelism], most: completions}]}"
    )
    (kind,), problems = decode_kinds({"data": {"job": text}})
    least = GOOD.replace("at: spec", "at: spec, least: minReplicas")
    ((good,), _) = decode_kinds({"data": {"good": least}})
    spec = {"replicas": 5, "minReplicas": 3, "template": T}
    assert said(decode_maker(good, {"metadata": {"name": "o", "uid": "u"}, "spec": spec})) == [("", (), 3, {}, False)]
    assert problems == ()
    assert [one for one in merged([kind]) if one.name == "Job"] == [kind]
    assert said(
        decode_maker(kind, {"metadata": {"name": "o", "uid": "u"}, "spec": {"parallelism": 3, "template": T}})
    ) == [("", (), 3, {}, False)]


GOOD = "{apiVersion: a.b/v1, kind: Good, plural: goods, roles: [{at: spec}]}"
BAD: dict[str, tuple[Any, str]] = {
    "no text": (7, "x: this is no object"),
    "no YAML": ("{", "x: this is not YAML"),
    "a list": ("[]", "x: this is no object"),
    "nothing": ("", "x: this is no object"),
    "an unknown field": (GOOD[:-1] + ", suspended: 1}", "x: suspended: is no field of a kind"),
    "an unknown field of a role": (
        GOOD.replace("at: spec", "at: spec, size: 1"),
        "x: roles.size: is no field of a role",
    ),
    "no kind": (GOOD.replace("kind: Good", "kind: 7"), "x: kind: 7 is not text of the kind that stands here"),
    "no group": (
        GOOD.replace("a.b/v1", "v1"),
        "x: apiVersion: is not group/version, or versions of one group",
    ),
    "no plural": (
        GOOD.replace("plural: goods, ", ""),
        "x: plural: None is not text of the kind that stands here",
    ),
    "no roles": (GOOD.replace(", roles: [{at: spec}]", ""), "x: roles: is missing"),
    "a path that leads elsewhere": (
        GOOD.replace("goods", "'../pods'"),
        "x: plural: '../pods' is not text of the kind that stands here",
    ),
    "a number that is none": (
        GOOD.replace("at: spec", "at: spec, least: '=x'"),
        "x: roles: '=x': what stands behind = is no number",
    ),
    "the name of a kind of ours": (
        GOOD.replace("Good", "JobSet"),
        "x: kind: jobset.x-k8s.io/JobSet has this name",
    ),
    "a name that was given": (GOOD, f"x: kind: Good is given before, or it is one more than {MAX_KINDS}"),
    "a field to switch that is in a list": (
        GOOD[:-1] + ", suspend: 'spec.jobs[].suspend'}",
        "x: suspend: 'spec.jobs[].suspend' is not text of the kind that stands here",
    ),
    "a switch for many": (
        GOOD[:-1] + ", suspend: spec.suspend, copies: spec.replicas}",
        "x: suspend: does not go with copies, which start one by one",
    ),
    "aliases within aliases": ("a: &a [*a]", "x: a: is no field of a kind"),
}


@table("text, want", BAD)
def test_a_bad_kind_is_named_and_the_others_count(text: Any, want: str) -> None:
    names, problems = kinds_of(good=GOOD, x=text)
    assert names == ("Good",)
    assert want in problems


def test_there_are_at_most_so_many() -> None:
    names, problems = kinds_of(**{f"k{n:03}": GOOD.replace("Good", f"Good{n}") for n in range(MAX_KINDS + 2)})
    assert (len(names), len(problems)) == (MAX_KINDS, 2)
    for nothing in (None, [], {}, {"data": None}, {"data": [1]}):
        assert decode_kinds(nothing) == ((), ())
