"""What watches show, as lives and requests: evictions, ends, other people's writes, and objects of others."""

from __future__ import annotations

from typing import Any

import pytest

from extender.sim import objects, report
from extender.sim.agenda import Agenda
from extender.sim.api import Json, Request
from extender.sim.lives import Life
from extender.sim.real.cluster import RealCluster, Write
from extender.sim.real.outside import Outside
from extender.sim.real.translation import Translation
from extender.sim.real.writers import request_of
from extender.sim.sight import Unread

TASK = report.Task("w", 1, {"cpu": "1"})
GROUP = report.Group("g", 1, (TASK,), queue="q", recreate=True, grace=10)


def make(*uids: str) -> RealCluster:
    """A node, and a pod of one name for each uid, which the watch has shown."""
    cluster = RealCluster(report.Scenario(()), Agenda(), Translation("sim-x", 5.0), lambda: "2026-01-01T00:00:00Z")
    cluster.add_node(report.Node("n1", {"cpu": "4"}))
    node = cluster.ordered.popleft()
    cluster.done(node, node.body or {})
    for uid in uids:
        cluster.make(objects.of_group(GROUP, TASK, 0))
        cluster.hear("Pod", False, pod(uid))
    cluster.ordered.clear()
    return cluster


def pod(uid: str = "u-1", name: str = "g-w-0", spec: Json | None = None, **status: Any) -> Json:
    return {"metadata": {"name": name, "uid": uid}, "spec": spec or {}, "status": {"phase": "Pending", **status}}


BOUND = {"nodeName": "sim-x-n1"}


def life_of(cluster: RealCluster, uid: str = "u-1") -> Life:
    return cluster.lives.by_uid[uid]


def test_a_pod_is_known_once_whether_answer_or_watch_comes_first() -> None:
    cluster = make()
    for answer_first in (True, False):
        cluster.make(objects.of_group(GROUP, TASK, 0))
        write = cluster.ordered.pop()
        uid = f"u-{answer_first}"
        if answer_first:
            cluster.done(write, pod(uid))
        cluster.hear("Pod", False, pod(uid))
        cluster.done(write, pod(uid))
    assert list(cluster.lives.by_uid) == ["u-True", "u-False"]


def test_pods_of_others_in_the_namespace_are_not_looked_at() -> None:
    cluster = make()
    cluster.hear("Pod", False, pod("u-9", "stranger"))
    assert cluster.lives.by_uid == {}


def test_a_bound_pod_is_started_once() -> None:
    cluster = make("u-1")
    for _ in range(2):
        cluster.hear("Pod", False, pod(spec=BOUND))
    assert life_of(cluster).node == "n1"
    [write] = cluster.kubelets
    assert (write.verb, write.subresource, write.uid) == ("patch", "status", "u-1")
    assert write.body is not None
    assert write.body["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("conditions", "evicted"),
    [
        ([{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}], True),
        ([{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}], False),
        ([{"type": "Ready", "status": "True"}], False),
    ],
)
def test_an_eviction_is_known_by_its_condition(conditions: list[Json], evicted: bool) -> None:
    cluster = make("u-1")
    cluster.hear("Pod", False, pod(spec=BOUND, conditions=conditions))
    assert life_of(cluster).evicted is evicted


def test_a_pod_that_terminates_counts_until_its_kubelet_has_ended_it() -> None:
    cluster = make("u-1")
    cluster.hear("Pod", False, pod(spec=BOUND))
    cluster.kubelets.clear()
    leaving = pod(spec=BOUND)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:09Z"
    for _ in range(2):
        cluster.hear("Pod", False, leaving)
    cluster.agenda.run(9.0)
    assert (list(cluster.kubelets), life_of(cluster).takes) == ([], True)
    cluster.agenda.run(10.0)
    assert list(cluster.kubelets) == [Write("delete", "Pod", "g-w-0", uid="u-1", now=True)]
    cluster.hear("Pod", True, {"metadata": {"name": "g-w-0", "uid": "u-1"}})
    assert life_of(cluster).takes is False


def test_a_pod_is_asked_to_end_once() -> None:
    cluster = make("u-1")
    for _ in range(2):
        cluster.delete(life_of(cluster))
    assert list(cluster.ordered) == [Write("delete", "Pod", "g-w-0", uid="u-1")]


def test_an_owner_makes_one_new_pod_for_a_lost_one() -> None:
    cluster = make("u-1")
    cluster.hear("Pod", False, pod(spec=BOUND, phase="Failed"))
    cluster.hear("Pod", True, {"metadata": {"name": "g-w-0", "uid": "u-1"}})
    cluster.agenda.run(1.0)
    assert [(write.verb, write.name) for write in cluster.ordered] == [("create", "g-w-0")]


def test_the_end_of_an_old_pod_leaves_the_new_one_of_its_name() -> None:
    cluster = make("u-1", "u-2")
    cluster.hear("Pod", True, {"metadata": {"name": "g-w-0", "uid": "u-1"}})
    found = cluster.get("Pod", "g-w-0")
    assert found is not None
    assert found["metadata"]["uid"] == "u-2"


def test_a_full_node_takes_no_more() -> None:
    cluster = make()
    big = report.Task("b", 1, {"cpu": "5"})
    cluster.make(objects.of_group(GROUP, big, 0))
    cluster.hear("Pod", False, pod(name="g-b-0", spec=BOUND))
    [write] = cluster.kubelets
    assert write.body is not None
    assert (write.body["status"]["phase"], write.body["status"]["reason"]) == ("Failed", "OutOfcpu")


def test_the_default_queue_is_not_the_run_s_to_make() -> None:
    cluster = make()
    for name in ("default", "q"):
        cluster.attempt(f"queue {name}", "Queue", objects.queue(report.Queue(name), report.Settings()))
    assert [write.name for write in cluster.ordered] == ["sim-x-q"]


def test_queues_of_others_are_not_looked_at() -> None:
    cluster = make()
    for uid, name in (("u-1", "sim-x-q"), ("u-2", "q"), ("u-3", "default")):
        cluster.hear("Queue", False, {"metadata": {"name": name, "uid": uid}, "spec": {}})
    assert [queue["metadata"]["uid"] for queue in cluster.list("Queue")] == ["u-1", "u-3"]


def test_equal_pods_are_made_at_once_and_all_else_in_its_order() -> None:
    cluster = make()
    other = report.Task("v", 1, {"cpu": "1"})
    for task, index in ((TASK, 0), (TASK, 1), (other, 0)):
        cluster.make(objects.of_group(GROUP, task, index))
    cluster.make(objects.of_loose(report.Pod("p", {"cpu": "1"})))
    cluster.make(objects.of_loose(report.Pod("r", {"cpu": "1"})))
    cluster.remove("Queue", "q")
    batches = []
    while batch := cluster.take_ordered():
        batches.append([write.name for write in batch])
    assert batches == [["g-w-0", "g-w-1"], ["g-v-0"], ["p"], ["r"], ["sim-x-q"]]


# --- whose write it was ----------------------------------------------------------------------------


def written(by: str, status: str = "", node: str = "") -> Json:
    entry = {"manager": by, "operation": "Update", "time": status or node}
    meta = {"name": "g", "uid": "u", "managedFields": [entry]}
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": {"phase": status}}


@pytest.mark.parametrize(
    ("kind", "before", "after", "request_"),
    [
        ("PodGroup", None, written("muster-extender"), None),
        (
            "PodGroup",
            written("scenario-runner"),
            written("muster-extender", "Running"),
            Request(3.0, "patch", "PodGroup", "g", "status", "u"),
        ),
        ("PodGroup", written("x"), written("scenario-runner", "Running"), None),
        ("Pod", written("x"), written("kube-scheduler"), Request(3.0, "patch", "Pod", "g", "", "u")),
        (
            "Pod",
            written("x"),
            written("x", node="n"),
            Request(3.0, "create", "Pod", "g", "binding", "u"),
        ),
    ],
)
def test_writes_are_known_by_their_field_manager(
    kind: str, before: Json | None, after: Json, request_: Request | None
) -> None:
    assert request_of(kind, before, after, 3.0) == request_


@pytest.mark.parametrize(
    ("reporter", "counted"),
    [({"reportingComponent": "muster"}, True), ({"source": {"component": "muster"}}, True), ({}, False)],
)
def test_events_are_counted_by_what_they_speak_of(reporter: Json, counted: bool) -> None:
    event = {"involvedObject": {"kind": "Pod", "name": "g-w-0"}, **reporter}
    found = request_of("Event", None, event, 3.0)
    assert (found is not None and found.regarding == ("Pod", "g-w-0")) is counted


# --- what Muster says ------------------------------------------------------------------------------


def test_a_lone_pod_s_reason_is_in_live_answers_alone() -> None:
    cluster = make()
    cluster.make(objects.of_loose(report.Pod("p", {"cpu": "1"}, "q")))
    cluster.hear("Pod", False, pod(name="p"))
    word = Outside(cluster)
    with pytest.raises(Unread):
        word.why_pod(life_of(cluster))
    word.answers = {"pod:p": {"reason": "QueueClosed", "message": "the queue q is closed"}}
    assert str(word.why_pod(life_of(cluster))) == "QueueClosed: the queue q is closed"
    word.answers = {}
    assert word.why_pod(life_of(cluster)) is None


def test_a_group_that_does_not_wait_has_no_reason() -> None:
    cluster = make()
    word = Outside(cluster)
    assert word.why_group("g") is None
    status = {"phase": "Running", "message": "2 of 2 members are bound"}
    cluster.hear("PodGroup", False, {"metadata": {"name": "g", "uid": "u"}, "spec": {}, "status": status})
    assert word.why_group("g") is None
