"""What a scenario's objects become on a real cluster: names, selectors and taints, times, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from extender.sim import objects, report
from extender.sim.real import translation
from extender.sim.real.translation import RUN, Translation

HERE = Translation("sim-x", 5.0)
ONE = {"cpu": "1"}
TASK = report.Task("w", 2, ONE, node_selector={"rack": "a"}, overhead={"cpu": "500m"})
GROUP = report.Group("g", 2, (TASK,), queue="q", priority=-7, recreate=True, grace=12)


def pod(group: report.Group = GROUP, owner: str | None = "u-1") -> dict[str, Any]:
    making = objects.of_group(group, group.tasks[0], 1)
    return HERE.pod(making, objects.pod(making), owner)


def test_a_node_is_kwok_s_and_taken_by_the_run_alone() -> None:
    node = HERE.made("Node", objects.node(report.Node("n1", ONE, {"rack": "a"})))
    assert node["metadata"] == {
        "name": "sim-x-n1",
        "labels": {"type": "kwok", "kubernetes.io/hostname": "sim-x-n1", "rack": "a", RUN: "sim-x"},
        "annotations": {"kwok.x-k8s.io/node": "fake"},
    }
    assert node["spec"] == {"taints": [{"key": RUN, "value": "sim-x", "effect": "NoSchedule"}]}
    assert node["status"] == {"allocatable": {"pods": "110", "cpu": "1"}, "capacity": {"pods": "110", "cpu": "1"}}


def test_labels_that_the_scenario_sets_stay() -> None:
    told = report.Node("n1", ONE, {"kubernetes.io/hostname": "host", "type": "big"})
    assert HERE.made("Node", objects.node(told))["metadata"]["labels"] == {
        "type": "big",
        "kubernetes.io/hostname": "host",
        RUN: "sim-x",
    }


def test_a_pod_goes_to_nodes_of_the_run_alone_and_keeps_its_own_selector() -> None:
    spec = pod()["spec"]
    assert spec["schedulerName"] == "muster"
    assert spec["nodeSelector"] == {"rack": "a", RUN: "sim-x"}
    assert {"key": RUN, "operator": "Equal", "value": "sim-x"} in spec["tolerations"]
    assert all("tolerationSeconds" not in one for one in spec["tolerations"])  # pods there stay


def test_what_admission_adds_is_left_to_it() -> None:
    spec = pod()["spec"]
    assert "priority" not in spec
    assert "overhead" not in spec
    assert "status" not in pod()
    made = {(one["kind"], one["metadata"]["name"]): one for one in HERE.surroundings(report.Scenario((), (), (GROUP,)))}
    assert made["PriorityClass", spec["priorityClassName"]]["value"] == -7
    assert made["RuntimeClass", spec["runtimeClassName"]]["overhead"] == {"podFixed": {"cpu": "500m"}}
    assert all(one["metadata"]["labels"] == {RUN: "sim-x"} for one in made.values())
    assert ("ConfigMap", "owner-of-g") in made


def test_a_pod_has_its_owner_and_its_marks() -> None:
    meta = pod()["metadata"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner-of-g", "uid": "u-1", "controller": True}
    assert meta["ownerReferences"] == [owner]
    assert (meta["name"], meta["namespace"]) == ("g-w-1", "sim-x")
    assert meta["labels"]["muster.dev/pod-group"] == "g"
    assert "ownerReferences" not in pod(owner=None)["metadata"]


def test_loose_pods_name_the_queue_of_the_run_or_are_another_scheduler_s() -> None:
    ours, other = objects.of_loose(report.Pod("p", ONE, "q")), objects.of_loose(report.Pod("p", ONE))
    made = HERE.pod(ours, objects.pod(ours), None)
    assert made["metadata"]["labels"]["muster.dev/queue"] == "sim-x-q"
    made = HERE.pod(other, objects.pod(other), None)
    assert made["spec"]["schedulerName"] == "default-scheduler"
    # which neither takes a place nor gives one
    classes = HERE.surroundings(report.Scenario((), pods=(report.Pod("p", ONE),)))
    assert [(one["metadata"]["name"], one["preemptionPolicy"]) for one in classes] == [
        (made["spec"]["priorityClassName"], "Never")
    ]


@pytest.mark.parametrize(
    ("settings", "group", "spec"),
    [
        ({}, {}, {"minMember": 2, "queue": "sim-x-q"}),
        ({"hold_seconds": 31}, {}, {"minMember": 2, "queue": "sim-x-q", "scheduleTimeoutSeconds": 7}),
        ({}, {"declared_runtime": 1}, {"minMember": 2, "queue": "sim-x-q", "expectedDurationSeconds": 1}),
        ({}, {"declared_runtime": -5}, {"minMember": 2, "queue": "sim-x-q", "expectedDurationSeconds": -5}),
        ({}, {"queue": "default"}, {"minMember": 2, "queue": "default"}),
        ({}, {"queue": None}, {"minMember": 2}),
    ],
)
def test_times_of_groups_are_real_and_their_queues_the_run_s(
    settings: Mapping[str, Any], group: Mapping[str, Any], spec: Mapping[str, Any]
) -> None:
    told = report.Group(**{"name": "g", "minMember": 2, "tasks": (), "queue": "q", **group})
    assert HERE.made("PodGroup", objects.pod_group(told, report.Settings(**settings)))["spec"] == spec


def test_queues_are_the_run_s_and_their_times_real() -> None:
    told = report.Queue("q", parent="top", capability=ONE)
    made = HERE.made("Queue", objects.queue(told, report.Settings(stale_gang_seconds=600)))
    assert made["metadata"]["name"] == "sim-x-q"
    assert made["spec"] == {"parent": "sim-x-top", "capability": ONE, "staleSeconds": 120}
    assert HERE.patched("Queue", {"spec": {"parent": "top"}}) == {"spec": {"parent": "sim-x-top"}}
    assert HERE.patched("Queue", {"spec": {"parent": None}}) == {"spec": {"parent": None}}
    assert HERE.patched("PodGroup", {"spec": {"minMember": 3}}) == {"spec": {"minMember": 3}}


def test_what_the_cluster_says_is_told_in_the_scenario_s_names() -> None:
    said = {"metadata": {"name": "sim-x-q"}, "status": {"message": "queue sim-x-q is below sim-x-top"}}
    assert HERE.told(said) == {"metadata": {"name": "q"}, "status": {"message": "queue q is below top"}}
    assert HERE.told_text("queue sim-x-q") == "queue q"


@pytest.mark.parametrize(
    ("kind", "name", "owned"),
    [
        ("Queue", "sim-x-q", True),
        ("Queue", "q", False),
        ("Queue", "sim-xy-q", False),
        ("Queue", "default", True),
        ("Pod", "any", True),  # only those of its namespace are watched
    ],
)
def test_objects_of_others_are_told_apart(kind: str, name: str, owned: bool) -> None:
    assert HERE.owns(kind, name) is owned


@hypothesis.given(st.floats(0, 1e6), st.floats(0.1, 1000))
def test_whole_seconds_are_never_too_short(scenario: float, scale: float) -> None:
    whole = Translation("r", scale).whole_seconds(scenario)
    assert scenario / scale <= whole <= scenario / scale + 1


def test_classes_of_different_pods_have_different_names() -> None:
    values = (-2, -1, 0, 1, 2)
    assert len({translation.priority_class(value, ours) for value in values for ours in (True, False)}) == 10
    overheads = ({"cpu": "1"}, {"cpu": "1m"}, {"memory": "1"}, {"cpu": "1", "memory": "1"})
    assert len({translation.runtime_class(one) for one in overheads}) == len(overheads)
