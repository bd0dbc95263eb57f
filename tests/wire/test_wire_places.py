"""What pods say of their place: index labels of controllers, and Kueue's annotations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from wire_objects import group, pod, table

from extender.core.ids import Source
from extender.core.model import Expression, Part, PartRule
from extender.wire import objects

KUEUE = "kueue.x-k8s.io/podset-"
JOBSET = {
    "jobset.sigs.k8s.io/replicatedjob-name": "workers",
    "jobset.sigs.k8s.io/job-index": "2",
    "batch.kubernetes.io/job-completion-index": "5",
}
LWS = {
    "leaderworkerset.sigs.k8s.io/worker-index": "1",
    "leaderworkerset.sigs.k8s.io/group-index": "3",
}


@table(
    "name, labels, notes, want",
    {
        "an indexed Job": ("train-7-x9k2f", {"batch.kubernetes.io/job-completion-index": "7"}, {}, (7,)),
        "one of an older cluster": ("train-7-x9k2f", {}, {"batch.kubernetes.io/job-completion-index": "7"}, (7,)),
        "a StatefulSet": ("db-12", {"apps.kubernetes.io/pod-index": "12"}, {}, (12,)),
        "a JobSet": ("x", JOBSET, {}, (2, 5)),
        "a LeaderWorkerSet": ("x", LWS, {}, (3, 1)),
        "Kubeflow": ("job-worker-1", {"training.kubeflow.org/replica-index": "1"}, {}, (1,)),
        "the end of the name": ("gang-worker-12", {}, {}, (12,)),
        "a label that is none": ("gang-worker-12", {"apps.kubernetes.io/pod-index": "-3"}, {}, (12,)),
        "a random end": ("train-x9k2f", {}, {}, ()),
        "a name that ends in digits by chance": ("train-x9k20", {}, {}, ()),
        "a number too long": ("a-1234567890", {}, {}, ()),
    },
)
def test_index(name: str, labels: dict, notes: dict, want: tuple) -> None:
    found = objects.decode_pod(pod(meta={"name": name, "labels": labels, "annotations": notes}))
    assert found.index == want
    assert not found.problems


def parts(labels: dict, **notes: str) -> tuple[tuple[Part, ...], str | None, tuple[str, ...]]:
    annotations = {f"{KUEUE}{key.replace('_', '-')}": value for key, value in notes.items()}
    found = objects.decode_pod(pod(meta={"name": "p-9", "labels": labels, "annotations": annotations}))
    return found.parts, found.prefers, found.problems


@table(
    "labels, notes, want",
    {
        "a task in one domain": (JOBSET, {"required_topology": "rack"}, (Part("rack", "podset workers"),)),
        "slices by size": (
            JOBSET,
            {"slice_required_topology": "rack", "slice_size": "4"},
            (Part("rack", "podset workers/0/2/1", True),),
        ),
        "slices of a JobSet are its Jobs": (
            JOBSET,
            {"slice_required_topology": "rack"},
            (Part("rack", "podset workers/0/2", True),),
        ),
        "both": (
            {"batch.kubernetes.io/job-completion-index": "9"},
            {"required_topology": "block", "slice_required_topology": "rack", "slice_size": "4"},
            (Part("block", "podset "), Part("rack", "podset /1/2", True)),
        ),
        "layers": (
            {"batch.kubernetes.io/job-completion-index": "40"},
            {
                "slice_required_topology_constraints": '[{"topology": "block", "size": "32"},'
                ' {"topology": "rack", "size": 16}]'
            },
            (Part("block", "podset /0/1", True), Part("rack", "podset /1/2", True)),
        ),
        "tasks that belong together": (
            LWS,
            {"required_topology": "rack", "group_name": "lws-group"},
            (Part("rack", "podset-group lws-group/3"),),
        ),
        "unconstrained": (JOBSET, {"unconstrained_topology": "true"}, ()),
    },
)
def test_parts(labels: dict, notes: dict, want: tuple) -> None:
    assert parts(labels, **notes) == (want, None, ())


def test_leader_and_workers_of_a_podset_group_bear_the_same_part() -> None:
    leader = {**LWS, "leaderworkerset.sigs.k8s.io/worker-index": "0"}
    wish = {"required_topology": "rack", "group_name": "g"}
    assert parts(leader, **wish) == parts(LWS, **wish)


def test_a_preferred_level_is_the_tasks() -> None:
    assert parts(JOBSET, preferred_topology="rack") == ((), "rack", ())


@table(
    "labels, notes, problem",
    {
        "required and preferred": ({}, {"required_topology": "a", "preferred_topology": "b"}, "is given too"),
        "a slice without a size": ({}, {"slice_required_topology": "rack"}, "slice-size"),
        "a size of 0": (JOBSET, {"slice_required_topology": "rack", "slice_size": "0"}, "slice-size"),
        "a negative size": (JOBSET, {"slice_required_topology": "rack", "slice_size": "-4"}, "slice-size"),
        "a fractional size": (JOBSET, {"slice_required_topology": "rack", "slice_size": "1.5"}, "slice-size"),
        "a huge size": (JOBSET, {"slice_required_topology": "rack", "slice_size": "9" * 30}, "slice-size"),
        "layers that are no JSON": ({}, {"slice_required_topology_constraints": "rack"}, "JSON list"),
        "layers with a comma too many": (
            {},
            {"slice_required_topology_constraints": '[{"topology": "rack", "size": 1},]'},
            "JSON list",
        ),
        "four layers": (
            {},
            {"slice_required_topology_constraints": str([{"topology": "r", "size": 1}] * 4).replace("'", '"')},
            "JSON list",
        ),
        "a layer without a size": (
            {},
            {"slice_required_topology_constraints": '[{"topology": "rack", "sizes": [1, 2]}]'},
            "a topology and a size",
        ),
        "sizes that do not divide": (
            {},
            {"slice_required_topology_constraints": '[{"topology":"a","size":8},{"topology":"b","size":3}]'},
            "divide each other",
        ),
        "both forms": (
            {},
            {
                "slice_required_topology": "a",
                "slice_required_topology_constraints": '[{"topology":"a","size":8}]',
            },
            "is given too",
        ),
    },
)
def test_what_is_not_understood_is_named(labels: dict, notes: dict, problem: str) -> None:
    assert problem in " ".join(parts(labels, **notes)[2])


def test_a_slice_of_a_pod_without_an_index_is_refused() -> None:
    notes = {f"{KUEUE}slice-required-topology": "rack", f"{KUEUE}slice-size": "2"}
    found = objects.decode_pod(pod(meta={"name": "train-x9k2f", "annotations": notes}))
    assert "no index" in found.problems[0]


@given(st.sampled_from(("slice-required-topology-constraints", "slice-size", "required-topology")), st.text(max_size=9))
def test_any_annotation_is_taken_without_a_crash(key: str, value: str) -> None:
    notes = {f"{KUEUE}{key}": value, f"{KUEUE}slice-required-topology": "rack"}
    objects.decode_pod(pod(meta={"annotations": notes}))


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("tas__sample-job-required.yaml", [((Part("cloud.provider.com/topology-rack", "podset "),), None)]),
        ("tas__sample-job-preferred.yaml", [((), "cloud.provider.com/topology-block")]),
        ("tas__sample-job-unconstrained.yaml", [((), None)]),
        (
            "jobs__sample-jobset-tas-combined.yaml",
            [
                (
                    (
                        Part("cloud.provider.com/topology-block", "podset "),
                        Part("cloud.provider.com/topology-rack", "podset /1/1", True),
                    ),
                    None,
                )
            ],
        ),
        (
            "serving-workloads__sample-leaderworkerset-tas.yaml",
            [((Part("cloud.provider.com/topology-rack", "podset-group lws-group"),), None)] * 2,
        ),
    ],
)
def test_manifests_that_people_run(name: str, want: list, shared: Path) -> None:
    """Each pod template of the file, as the pod of index 5."""
    thing = yaml.safe_load((shared / "data/manifests/kueue" / name).read_text())
    read = []
    for found in templates(thing):
        meta = {"name": "p-5", "annotations": found.get("annotations") or {}}
        one = objects.decode_pod(pod(meta=meta))
        read.append((one.parts, one.prefers))
        assert not one.problems
    assert read == want


def templates(thing: Any) -> list[dict]:
    """The metadata of all pod templates inside an object."""
    if isinstance(thing, list):
        return [found for one in thing for found in templates(one)]
    if not isinstance(thing, dict):
        return []
    if "containers" in (thing.get("spec") or {}):
        return [thing.get("metadata") or {}]
    return [found for one in thing.values() for found in templates(one)]


@table(
    "spec, want",
    {
        "all of a task": ([{"name": "ps", "topology": {"required": "host"}}], (PartRule("host", "ps"),)),
        "slices": (
            [{"name": "w", "topology": {"required": "rack", "size": 4}}, {"name": "x"}],
            (PartRule("rack", "w", size=4),),
        ),
    },
)
def test_tasks_of_our_groups_may_have_a_level(spec: list, want: tuple) -> None:
    tasks = [{"minMember": 1, **task} for task in spec]
    found = objects.decode_group(Source.MUSTER, group(spec={"minMember": 4, "tasks": tasks}))
    assert (found.parts, found.problems) == (want, ())


@pytest.mark.parametrize("wish", ["rack", {"size": 4}, {"required": "rack", "size": 0}, {"required": 3}])
def test_a_wish_of_a_task_that_is_not_understood_is_a_problem(wish: object) -> None:
    tasks = [{"name": "w", "minMember": 1, "topology": wish}]
    assert objects.decode_group(Source.MUSTER, group(spec={"minMember": 4, "tasks": tasks})).problems


def test_sub_groups_of_volcano_are_divided_by_labels() -> None:
    policy = {
        "name": "task0",
        "subGroupSize": 3,
        "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "task0"}},
        "matchLabelKeys": ["volcano.sh/partition-id"],
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    soft = {"name": "task1", "networkTopology": {"mode": "soft"}}
    found = objects.decode_group(Source.VOLCANO, group(spec={"minMember": 3, "subGroupPolicy": [policy, soft]}))
    chosen = (Expression("volcano.sh/task-spec", "In", ("task0",)),)
    rule = PartRule("topology.volcano.sh/tier-1", None, chosen, ("volcano.sh/partition-id",))
    assert (found.parts, found.problems) == ((rule,), ())
