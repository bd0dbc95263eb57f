"""Pods: marks, constraints, states, and bad fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from wire_objects import pod, table

from extender.core.ids import GroupKey, Source
from extender.core.model import Constraints, Declared, Expression, Owner, Shape, Term, Toleration
from extender.wire.objects import DecodeError, decode_pod

NATIVE = {"schedulingGroup": {"podGroupName": "native"}}
PLUGINS = {"scheduling.x-k8s.io/pod-group": "plugins"}
VOLCANO = {"scheduling.k8s.io/group-name": "volcano"}
OURS = {"muster.dev/pod-group": "ours"}
KUEUE = {"kueue.x-k8s.io/pod-group-name": "kueue"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@table(
    "spec, labels, notes, want",
    {
        "the native field comes first": (NATIVE, PLUGINS | OURS, VOLCANO, (Source.NATIVE, "native")),
        "then the label of scheduler-plugins": (
            {},
            PLUGINS | OURS,
            VOLCANO,
            (Source.SCHEDULER_PLUGINS, "plugins"),
        ),
        "then the annotation of Volcano": ({}, OURS, VOLCANO, (Source.VOLCANO, "volcano")),
        "or by its newer name": ({}, OURS, {"scheduling.volcano.sh/group-name": "new"}, (Source.VOLCANO, "new")),
        "then our label": ({}, OURS | KUEUE, {}, (Source.MUSTER, "ours")),
        "then Kueue's": ({}, KUEUE, {}, (Source.KUEUE, "kueue")),
        "but for pods that are made one after the other": (
            {},
            KUEUE,
            {"kueue.x-k8s.io/pod-group-fast-admission": "true"},
            (Source.POD, "u-1"),
        ),
        "a pod without marks is alone, under its uid": ({}, {}, {}, (Source.POD, "u-1")),
        "an empty mark is none": ({}, {"muster.dev/pod-group": ""}, {}, (Source.POD, "u-1")),
        "an empty native field is none": ({"schedulingGroup": {}}, OURS, {}, (Source.MUSTER, "ours")),
    },
)
def test_group(spec: dict, labels: dict, notes: dict, want: tuple[Source, str]) -> None:
    got = decode_pod(pod(spec=spec, meta={"labels": labels, "annotations": notes}))
    assert got.group == GroupKey(want[0], "team", want[1])
    assert got.problems == ()


@table(
    "labels, notes, want",
    {
        "our label comes first": (
            {"muster.dev/task": "ps", "training.kubeflow.org/replica-type": "worker"},
            {"volcano.sh/task-spec": "x"},
            "ps",
        ),
        "then Volcano's annotation": (
            {"training.kubeflow.org/replica-type": "worker"},
            {"volcano.sh/task-spec": "launcher"},
            "launcher",
        ),
        "Kubeflow": ({"training.kubeflow.org/replica-type": "master"}, {}, "master"),
        "Kubeflow's replica type before its job role": (
            {"training.kubeflow.org/job-role": "master", "training.kubeflow.org/replica-type": "worker"},
            {},
            "worker",
        ),
        "the MPI operator": ({"training.kubeflow.org/job-role": "launcher"}, {}, "launcher"),
        "old Kubeflow": ({"replica-type": "ps"}, {}, "ps"),
        "JobSet": ({"jobset.sigs.k8s.io/replicatedjob-name": "driver"}, {}, "driver"),
        "the first pod of LeaderWorkerSet leads": (
            {"leaderworkerset.sigs.k8s.io/worker-index": "0"},
            {},
            "leader",
        ),
        "the others work": ({"leaderworkerset.sigs.k8s.io/worker-index": "10"}, {}, "worker"),
        "none": ({"app": "x"}, {}, ""),
    },
)
def test_task(labels: dict, notes: dict, want: str) -> None:
    assert decode_pod(pod(meta={"labels": labels, "annotations": notes})).task == want


@table(
    "notes, want, problem",
    {
        "all of them": (
            {
                "muster.dev/min-member": "64",
                "muster.dev/expected-duration-seconds": "3600",
                "muster.dev/preemptible": "false",
                "muster.dev/topology-required": "rack",
                "muster.dev/topology-preferred": "block",
            },
            Declared(64, 3600, False, "rack", "block"),
            None,
        ),
        "none of them": ({"muster.dev/other": "x"}, Declared(), None),
        "a minimum of nothing": ({"muster.dev/min-member": "0"}, Declared(), "muster.dev/min-member: '0'"),
        "a minimum beyond reason": (
            {"muster.dev/min-member": "100001"},
            Declared(),
            "muster.dev/min-member: '100001'",
        ),
        "an empty minimum": ({"muster.dev/min-member": ""}, Declared(), "muster.dev/min-member: ''"),
        "spaces": ({"muster.dev/min-member": " 4"}, Declared(), "muster.dev/min-member: ' 4'"),
        "digits of another script": ({"muster.dev/min-member": "٤"}, Declared(), "muster.dev/min-member"),
        "digits without end": ({"muster.dev/min-member": "9" * 5000}, Declared(), "muster.dev/min-member"),
        "a number where a text must be": ({"muster.dev/min-member": 4}, Declared(), "muster.dev/min-member"),
        "a duration in words": (
            {"muster.dev/expected-duration-seconds": "1h"},
            Declared(),
            "muster.dev/expected-duration-seconds: '1h'",
        ),
        "yes is not true": ({"muster.dev/preemptible": "yes"}, Declared(), "muster.dev/preemptible: 'yes'"),
    },
)
def test_declared(notes: dict, want: Declared, problem: str | None) -> None:
    got = decode_pod(pod(meta={"annotations": notes}))
    assert got.declared == want
    assert [text.startswith(problem) for text in got.problems] == ([True] if problem else [])


@table(
    "labels, notes, want, problem",
    {
        "the count of its pods": (KUEUE, {"kueue.x-k8s.io/pod-group-total-count": "5"}, Declared(5), None),
        "which is no number": (
            KUEUE,
            {"kueue.x-k8s.io/pod-group-total-count": "all"},
            Declared(),
            "kueue.x-k8s.io/pod-group-total-count: 'all'",
        ),
        "and says nothing of another group": (OURS, {"kueue.x-k8s.io/pod-group-total-count": "5"}, Declared(), None),
        "as ours says nothing of Kueue's": (KUEUE, {"muster.dev/min-member": "5"}, Declared(), None),
    },
)
def test_kueue_says_how_many_pods_its_group_has(labels: dict, notes: dict, want: Declared, problem: str | None) -> None:
    got = decode_pod(pod(meta={"labels": labels, "annotations": notes}))
    assert got.declared == want
    assert [text.startswith(problem) for text in got.problems] == ([True] if problem else [])


@table(
    "labels, notes, want",
    {
        "our label": ({"muster.dev/queue": "a"}, {"scheduling.volcano.sh/queue-name": "b"}, "a"),
        "else Volcano's annotation": ({}, {"scheduling.volcano.sh/queue-name": "b"}, "b"),
        "which may be empty": ({}, {"scheduling.volcano.sh/queue-name": ""}, None),
    },
)
def test_queue(labels: dict, notes: dict, want: str | None) -> None:
    assert decode_pod(pod(meta={"labels": labels, "annotations": notes})).queue == want


def terms(*made: dict) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(made)}}}}


ZONE = {"key": "zone", "operator": "In", "values": ["a", "b"]}
FIELD = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


@table(
    "text, want",
    {
        "a time in UTC": ("2026-11-30T10:00:00Z", 1796032800.0),
        "no zone": ("2026-11-30T10:00:00", None),
        "no time": ("yesterday", None),
        "no text": (7, None),
    },
)
def test_checkpoint(text: Any, want: float | None) -> None:
    found = decode_pod(pod(meta={"annotations": {"muster.dev/last-checkpoint": text}}))
    assert (found.checkpoint, found.problems) == (want, ())


@table(
    "spec, want",
    {
        "nothing": ({}, Constraints()),
        "a selector, in the order of keys": (
            {"nodeSelector": {"b": "2", "a": "1"}},
            Constraints(selector=(("a", "1"), ("b", "2"))),
        ),
        "labels and fields of a term": (
            terms({"matchExpressions": [ZONE], "matchFields": [FIELD]}),
            Constraints(
                affinity=(Term((Expression("zone", "In", ("a", "b")),), (Expression("metadata.name", "In", ("n1",)),)),)
            ),
        ),
        "expressions without values": (
            terms({"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}),
            Constraints(affinity=(Term((Expression("gpu", "Exists", ()),)),)),
        ),
        "an empty term matches nothing, so it is left out": (
            terms({}, {"matchFields": [FIELD]}),
            Constraints(affinity=(Term((), (Expression("metadata.name", "In", ("n1",)),)),)),
        ),
        "no term matches no node": (terms(), Constraints(affinity=())),
        "only preferences": (
            {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
            Constraints(),
        ),
        "affinity to pods is not ours to read": ({"affinity": {"podAffinity": {}}}, Constraints()),
        "tolerations with their defaults": (
            {"tolerations": [{"key": "gpu"}, {"operator": "Exists", "effect": "NoExecute"}]},
            Constraints(tolerations=(Toleration("gpu", "Equal", "", ""), Toleration("", "Exists", "", "NoExecute"))),
        ),
        "tolerations of soft taints are not read": (
            {"tolerations": [{"key": "gpu", "effect": "PreferNoSchedule"}]},
            Constraints(),
        ),
    },
)
def test_constraints(spec: dict, want: Constraints) -> None:
    got = decode_pod(pod(spec=spec))
    assert got.shape.constraints == want
    assert got.problems == ()


def test_a_term_that_is_not_understood_matches_nothing_and_is_stated() -> None:
    odd = {"key": "zone", "operator": "Near", "values": ["a"]}
    for _ in range(2):  # the second time from the cache
        got = decode_pod(pod(spec=terms({"matchExpressions": [ZONE, odd]})))
        assert got.shape.constraints.affinity == ()
        assert got.problems == (
            "spec.affinity.nodeAffinity.required.nodeSelectorTerms.matchExpressions.operator: "
            "'Near' is not an operator of node selectors",
        )


def test_equal_pods_share_one_shape() -> None:
    spec = {"nodeSelector": {"a": "1"}, "tolerations": [{"key": "gpu", "tolerationSeconds": 3}]}
    other = {"nodeSelector": {"a": "1"}, "tolerations": [{"key": "gpu", "tolerationSeconds": 4}]}
    texts = [orjson.dumps(pod(spec=each, meta={"uid": f"u-{i}"})) for i, each in enumerate([spec, spec, other])]
    shapes = [decode_pod(orjson.loads(text)).shape for text in texts]
    assert shapes[0] is shapes[1] is shapes[2]
    assert decode_pod(pod(spec={"nodeSelector": {"a": "2"}})).shape != shapes[0]
    assert decode_pod(pod()).shape == Shape((("cpu", 1000), ("memory", 2**30), ("pods", 1)))


def test_all_plain_fields() -> None:
    got = decode_pod(
        pod(
            meta={
                "labels": {"muster.dev/queue": "team-a"},
                "creationTimestamp": "1970-01-01T00:00:10Z",
                "deletionTimestamp": "1970-01-01T00:00:20Z",
                "ownerReferences": [
                    {"kind": "Other", "name": "x", "uid": "y"},
                    {"kind": "Job", "name": "train", "uid": "j-1", "controller": True},
                ],
            },
            spec={
                "nodeName": "n1",
                "priority": -7,
                "schedulingGates": [{"name": "muster.dev/queue"}, {"name": "other"}],
            },
            status={
                "phase": "Running",
                "nominatedNodeName": "n2",
                "conditions": [
                    {"type": "Ready", "status": "True"},
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:15Z"},
                ],
            },
        )
    )
    assert replace(got, shape=Shape(())) == replace(
        got,
        uid="u-1",
        namespace="team",
        name="p",
        shape=Shape(()),
        group=GroupKey(Source.POD, "team", "u-1"),
        scheduler="muster",
        node="n1",
        nominated="n2",
        phase="Running",
        terminating=True,
        gates=("muster.dev/queue", "other"),
        priority=-7,
        task="",
        queue="team-a",
        declared=Declared(),
        owner=Owner("Job", "train", "j-1"),
        created=10.0,
        bound_at=15.0,
        rejection="",
        problems=(),
    )


def test_a_pod_that_says_nothing_belongs_to_the_default_scheduler_and_is_pending() -> None:
    got = decode_pod({"metadata": {"name": "p", "uid": "u"}})
    assert (got.scheduler, got.phase, got.namespace, got.node, got.created) == (
        "default-scheduler",
        "Pending",
        "default",
        None,
        0.0,
    )
    assert (got.ours, got.waiting, got.problems, got.owner) == (False, True, (), None)


@table(
    "condition, want",
    {
        "rejected": ({"status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}, "0/3 nodes"),
        "gated is not rejected": ({"status": "False", "reason": "SchedulingGated", "message": "x"}, ""),
        "an error is not a rejection": ({"status": "False", "reason": "SchedulerError", "message": "x"}, ""),
        "bound": ({"status": "True", "message": "x"}, ""),
    },
)
def test_rejection(condition: dict, want: str) -> None:
    got = decode_pod(pod(status={"conditions": [{"type": "PodScheduled"} | condition]}))
    assert (got.rejection, got.bound_at) == (want, None)


@table(
    "change, problem",
    {
        "a priority beyond int32": ({"spec": {"priority": 2**31}}, "spec.priority: 2147483648"),
        "a priority in words": ({"spec": {"priority": "high"}}, "spec.priority: 'high'"),
        "true is not a priority": ({"spec": {"priority": True}}, "spec.priority: True"),
        "a time without a zone": (
            {"meta": {"creationTimestamp": "2026-01-01T00:00:00"}},
            "metadata.creation",
        ),
        "a time of another form": ({"meta": {"creationTimestamp": "yesterday"}}, "metadata.creation"),
        "labels that are a list": ({"meta": {"labels": ["a"]}}, "metadata.labels: ['a']"),
        "a node name that is a number": ({"spec": {"nodeName": 3}}, "spec.nodeName: 3"),
        "a native group that is a text": ({"spec": {"schedulingGroup": "g"}}, "spec.schedulingGroup: 'g'"),
        "a queue that is a number": ({"meta": {"labels": {"muster.dev/queue": 1}}}, "muster.dev/queue: 1"),
    },
)
def test_bad_fields_are_stated(change: dict, problem: str) -> None:
    got = decode_pod(pod(**change))
    assert len(got.problems) == 1
    assert got.problems[0].startswith(problem)


@pytest.mark.parametrize(
    "obj",
    [
        None,
        [],
        "pod",
        {},
        {"metadata": None},
        {"metadata": {"name": "p"}},
        {"metadata": {"uid": "u"}},
        {"metadata": {"name": "", "uid": "u"}},
        {"metadata": {"name": "p", "uid": 5}},
    ],
)
def test_an_object_without_identity_is_refused(obj: object) -> None:
    with pytest.raises(DecodeError):
        decode_pod(obj)


def test_constraints_nested_without_end_leave_no_node() -> None:
    deep: list = []
    for _ in range(2000):
        deep = [deep]
    got = decode_pod(pod(spec={"tolerations": deep}))
    assert got.shape.constraints.affinity == ()
    assert got.problems == ("spec: nested too deeply",)
