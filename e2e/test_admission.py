"""The two admission policies on a real API server: which new pods are gated, and which changes are refused.

Takes a control plane of its own, where the test writes the list of open queues in the extender's place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import kube, waiting
from e2e import manifest_plane as plane
from e2e.cluster import base

pytestmark = pytest.mark.e2e

Object = dict[str, Any]
GATE, pod = plane.GATE, plane.pod


@pytest.fixture(scope="module")
def installed() -> Iterator[base.Cluster]:
    with plane.started() as cluster:
        yield cluster


# --- the gate on new pods ----------------------------------------------------------------------------


def gates(cluster: base.Cluster, obj: Object) -> list[str]:
    """Names of the gates that this pod would be created with."""
    return [gate["name"] for gate in plane.tried(cluster, obj)["spec"].get("schedulingGates", [])]


@contextlib.contextmanager
def open_queues(cluster: base.Cluster, *names: str) -> Iterator[None]:
    """The ConfigMap as the extender writes it, seen by the API server; gone again afterwards."""
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "muster-admission", "namespace": plane.NAMESPACE},
        "data": {"open": "\n".join(names)},
    }
    cluster.kube.apply(config)
    try:
        wait_for_gating(cluster, {GATE: names[0]}, gated=False)
        wait_for_gating(cluster, {GATE: "busy"}, gated=plane.policy_served(cluster))
        yield
    finally:
        cluster.kube.delete("configmaps", "muster-admission", plane.NAMESPACE)
        wait_for_gating(cluster, {GATE: "busy"}, gated=False)


def wait_for_gating(cluster: base.Cluster, labels: Object, *, gated: bool) -> None:
    """The API server's own watches follow a change within moments; ask until they did."""
    waiting.wait_for(
        lambda: gates(cluster, pod(labels=labels)),
        30,
        f"new pods {labels} gated: {gated}",
        until=lambda found: (GATE in found) is gated,
    )


@pytest.fixture(scope="module")
def open_list(installed: base.Cluster) -> Iterator[base.Cluster]:
    with open_queues(installed, "default", "open-a", "open-b"):
        yield installed


MARKS = {
    "scheduler-plugins": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
    "Volcano": {"annotations": {"scheduling.k8s.io/group-name": "g"}},
    "Volcano's newer": {"annotations": {"scheduling.volcano.sh/group-name": "g"}},
    "our label": {"labels": {"muster.dev/pod-group": "g"}},
    "native": {"schedulingGroup": {"podGroupName": "g"}},
}
FOREIGN_GATE = {"schedulingGates": [{"name": "example.com/wait"}]}
OUR_GATE = {"schedulingGates": [{"name": GATE}]}
BUSY, OPEN = {GATE: "busy"}, {GATE: "open-a"}
LABELLED, ELSEWHERE = plane.LABELLED, plane.ELSEWHERE
GATED: list[tuple[str, Object, list[str]]] = [
    ("a pod of an open queue passes", pod(labels=OPEN), []),
    ("the last queue of the list is open as well", pod(labels={GATE: "open-b"}), []),
    ("a pod of a queue with a backlog is gated", pod(labels=BUSY), [GATE]),
    ("a part of an open queue's name is another queue", pod(labels={GATE: "open"}), [GATE]),
    ("an empty label is no queue: gated, for the extender to judge", pod(labels={GATE: ""}), [GATE]),
    ("a pod without any label is in the queue default", pod(), []),
    ("the namespace's label counts when the pod has none", pod(namespace=LABELLED), []),
    ("the namespace's queue with a backlog gates", pod(namespace=ELSEWHERE), [GATE]),
    ("the pod's label goes before the namespace's", pod(namespace=ELSEWHERE, labels=OPEN), []),
    ("also when the pod's queue is the busy one", pod(namespace=LABELLED, labels=BUSY), [GATE]),
    *((f"a member by {by} mark without a label is gated", pod(**mark), [GATE]) for by, mark in MARKS.items()),
    ("a marked pod whose label names an open queue passes",
     pod(labels={"muster.dev/pod-group": "g", GATE: "open-a"}), []),
    ("a marked pod in a namespace with an open queue is gated: its group may name another",
     pod(namespace=LABELLED, annotations={"scheduling.k8s.io/group-name": "g"}), [GATE]),
    ("a pod that names a queue as for Volcano is gated, for the extender to judge",
     pod(annotations={"scheduling.volcano.sh/queue-name": "open-a"}), [GATE]),
    ("a task or a minimum alone is no group mark",
     pod(labels={"muster.dev/task": "w"}, annotations={"muster.dev/min-member": "2"}), []),
    ("gates of others are kept and ours is added", pod(labels=BUSY, **FOREIGN_GATE),
     ["example.com/wait", GATE]),
    ("gates of others in an open queue are left alone", pod(labels=OPEN, **FOREIGN_GATE),
     ["example.com/wait"]),
    ("a pod that has our gate already gets no second one", pod(labels=BUSY, **OUR_GATE), [GATE]),
    ("a pod that brings our gate into an open queue keeps it",
     pod(labels=OPEN, **OUR_GATE), [GATE]),
    ("a pod that names its node is not gated", pod(labels=BUSY, nodeName="n"), []),
    ("a pod of the default scheduler is not touched",
     pod(labels={**BUSY, "muster.dev/pod-group": "g"}, schedulerName="default-scheduler"), []),
    ("a pod of a scheduler with a similar name is not touched",
     pod(labels=BUSY, schedulerName="muster-score"), []),
]  # fmt: skip


def understood(cluster: base.Cluster, obj: Object) -> bool:
    """False for a native mark on a server that drops the field."""
    return "schedulingGroup" not in obj["spec"] or "schedulingGroup" in plane.tried(cluster, obj)["spec"]


@pytest.mark.parametrize(("obj", "expected"), [pytest.param(*rest, id=sentence) for sentence, *rest in GATED])
def test_new_pods_are_gated_unless_their_queue_is_open(
    open_list: base.Cluster, obj: Object, expected: list[str]
) -> None:
    brought = [gate["name"] for gate in obj["spec"].get("schedulingGates", [])]
    acts = plane.policy_served(open_list) and understood(open_list, obj)
    assert gates(open_list, obj) == (expected if acts else brought)


def test_an_empty_list_means_that_no_queue_is_open(installed: base.Cluster) -> None:
    with open_queues(installed, "open-a"):
        for data in ({"open": ""}, {"other": "default"}, None):
            installed.kube.patch("configmaps", "muster-admission", {"data": None}, plane.NAMESPACE)
            installed.kube.patch("configmaps", "muster-admission", {"data": data}, plane.NAMESPACE)
            wait_for_gating(installed, {GATE: "open-a"}, gated=plane.policy_served(installed))
            wait_for_gating(installed, {}, gated=plane.policy_served(installed))
        installed.kube.patch("configmaps", "muster-admission", {"data": {"open": "open-a"}}, plane.NAMESPACE)
        wait_for_gating(installed, {GATE: "open-a"}, gated=False)


def test_a_list_of_a_thousand_queues_is_read_to_its_end(installed: base.Cluster) -> None:
    with open_queues(installed, *(f"research-{number}" for number in range(1000))):
        assert gates(installed, pod(labels={GATE: "research-999"})) == []


def test_without_the_configmap_all_pods_are_created_and_none_is_gated(installed: base.Cluster) -> None:
    with open_queues(installed, "open-a"):
        pass
    for _, obj, _ in GATED:
        brought = [gate["name"] for gate in obj["spec"].get("schedulingGates", [])]
        assert gates(installed, obj) == brought


def test_without_the_configmap_a_managed_namespace_is_left_to_the_default_scheduler(installed: base.Cluster) -> None:
    unnamed = pod(namespace=ELSEWHERE, schedulerName="default-scheduler")
    installed.kube.patch("namespaces", ELSEWHERE, {"metadata": {"labels": {"muster.dev/managed": "enforce"}}})
    try:
        with open_queues(installed, "open-a"):
            wanted = ("muster", [GATE]) if plane.policy_served(installed) else ("default-scheduler", [])
            waiting.wait_for(
                lambda: made(installed, unnamed), 30, "the label acts", until=lambda found: found == wanted
            )
        waiting.wait_for(
            lambda: made(installed, unnamed), 30, "left alone", until=lambda found: found == ("default-scheduler", [])
        )
    finally:
        installed.kube.patch("namespaces", ELSEWHERE, {"metadata": {"labels": {"muster.dev/managed": None}}})


def made(cluster: base.Cluster, obj: Object) -> tuple[str, list[str]]:
    """Scheduler and gates that this pod would be created with."""
    spec = plane.tried(cluster, obj)["spec"]
    return spec["schedulerName"], [gate["name"] for gate in spec.get("schedulingGates", [])]


# --- marks -------------------------------------------------------------------------------------------

LABEL_MARKS = (
    "scheduling.x-k8s.io/pod-group", "muster.dev/pod-group", "kueue.x-k8s.io/pod-group-name", "muster.dev/queue",
    "muster.dev/task",
)  # fmt: skip
ANNOTATION_MARKS = (
    "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name", "scheduling.volcano.sh/queue-name",
    "volcano.sh/task-spec", "muster.dev/min-member",
    "muster.dev/expected-duration-seconds", "muster.dev/preemptible", "muster.dev/topology-required",
    "muster.dev/topology-preferred",
)  # fmt: skip
MARK_KEYS = [("labels", key) for key in LABEL_MARKS] + [("annotations", key) for key in ANNOTATION_MARKS]


@pytest.fixture(scope="module")
def pods(installed: base.Cluster) -> Iterator[base.Cluster]:
    """Three waiting pods: marked and bare ones of ours, a marked one of another scheduler."""
    marks = {"labels": dict.fromkeys(LABEL_MARKS, "a"), "annotations": dict.fromkeys(ANNOTATION_MARKS, "a")}
    wait = {"schedulingGates": [{"name": "example.com/wait"}]}
    made = [
        pod("marked", **marks, **wait),
        pod("bare", **wait),
        pod("foreign", **marks, **wait, schedulerName="default-scheduler"),
    ]
    for obj in made:
        installed.kube.delete("pods", obj["metadata"]["name"], plane.TENANT, grace=0)
        installed.kube.create(obj)
    probe = {"metadata": {"labels": {"muster.dev/task": "probe"}}}
    waiting.wait_for(lambda: refusal(installed, "marked", probe), 30, "the policy on marks acts")
    yield installed
    for obj in made:
        installed.kube.delete("pods", obj["metadata"]["name"], plane.TENANT, grace=0)


def refusal(cluster: base.Cluster, name: str, patch: Object) -> str:
    """Why this change of a pod would be refused, "" when it is not."""
    path = cluster.kube.resource("pods").path(plane.TENANT, name)
    try:
        cluster.kube.request("PATCH", path, patch, query={"dryRun": "All"}, content_type=kube.MERGE)
    except kube.ApiError as error:
        return error.message
    return ""


@pytest.mark.parametrize(("where", "key"), MARK_KEYS)
def test_marks_are_fixed_at_creation(pods: base.Cluster, where: str, key: str) -> None:
    for name, value in (("marked", "b"), ("marked", None), ("bare", "b")):
        said = refusal(pods, name, {"metadata": {where: {key: value}}})
        assert f"{where.removesuffix('s')} {key} is fixed when the pod is created" in said
        assert "delete the pod and create it anew" in said
    assert refusal(pods, "marked", {"metadata": {where: {key: "a"}}}) == ""
    for value in ("b", None):
        assert refusal(pods, "foreign", {"metadata": {where: {key: value}}}) == ""


def test_a_refusal_names_every_mark_that_was_changed(pods: base.Cluster) -> None:
    said = refusal(pods, "bare", {"metadata": {"labels": {"muster.dev/queue": "b", "muster.dev/task": "b"}}})
    assert "label muster.dev/queue, muster.dev/task is fixed" in said


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"metadata": {"annotations": {"muster.dev/last-checkpoint": "2026-01-01T00:00:00Z"}}},
                     id="a checkpoint is noted"),
        pytest.param({"metadata": {"annotations": {"muster.dev/why": "TopologyUnsatisfied"}}},
                     id="a reason is noted"),
        pytest.param({"metadata": {"labels": {"app": "x"}}}, id="a label of the user's is set"),
        pytest.param({"metadata": {"labels": {"training.kubeflow.org/replica-type": "worker"}}},
                     id="a label of another controller is set"),
        pytest.param({"spec": {"schedulingGates": []}}, id="a gate is removed"),
    ],
)  # fmt: skip
def test_everything_else_stays_mutable(pods: base.Cluster, patch: Object) -> None:
    assert refusal(pods, "marked", patch) == ""
    assert refusal(pods, "bare", patch) == ""
