"""What is read from manifests that people run: every file against the result that was reviewed by hand."""

from __future__ import annotations

import io
import pathlib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from extender.core.ids import Source
from extender.sim import console, controllers, manifests
from extender.wire import kinds
from tests.test_repository import ROOT

GOLDEN = ROOT / "tests" / "golden" / "manifests"
FOLDERS = sorted(path.stem for path in GOLDEN.glob("*.yaml") if path.stem != "samples")
Json = dict[str, Any]


def wanted(name: str) -> dict[str, list[Json]]:
    return yaml.safe_load((GOLDEN / f"{name}.yaml").read_text())


def got_from(folder: pathlib.Path, prefix: str = "") -> dict[str, list[Json]]:
    found = manifests.read_files(sorted(str(path) for path in folder.iterdir()))
    return {prefix + pathlib.Path(path).name: results for path, results in found.items()}


def test_samples() -> None:
    assert got_from(GOLDEN / "samples") == wanted("samples")


def test_each_folder_of_the_shared_manifests_has_wanted_results(shared: pathlib.Path) -> None:
    assert sorted(path.name for path in (shared / "data" / "manifests").iterdir()) == FOLDERS


@pytest.mark.parametrize("name", FOLDERS)
def test_shared_manifests(shared: pathlib.Path, name: str) -> None:
    """A file without a wanted result fails too; tests/golden/README.md says how one is made."""
    assert got_from(shared / "data" / "manifests" / name, f"{name}/") == wanted(name)


def job(kind: str, spec: Json, **meta: Any) -> Json:
    versions = {"PyTorchJob": "kubeflow.org/v1", "RayCluster": "ray.io/v1", "Job": "batch.volcano.sh/v1alpha1"}
    return {"apiVersion": versions[kind], "kind": kind, "metadata": {"name": "j", **meta}, "spec": spec}


def template(cpu: int = 1, **spec: Any) -> Json:
    return {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": cpu}}}], **spec}}


def task(name: str, replicas: int, **more: Any) -> Json:
    return {"name": name, "replicas": replicas, "template": template(), **more}


def only(objects: list[Any], known: tuple[Any, ...] = ()) -> Json:
    results = manifests.read(objects, known)
    assert len(results) == 1, results
    return results[0]


def test_volcano_looks_at_the_minimums_of_tasks_only_when_the_job_wants_them_all() -> None:
    tasks = [task("ps", 2), task("worker", 4, minAvailable=3)]
    for minimum, want in ((None, [2, 3]), (5, [2, 3]), (6, [2, 3]), (4, [None, None])):
        spec = {"tasks": tasks} | ({} if minimum is None else {"minAvailable": minimum})
        found = only([job("Job", spec)])
        assert (found["minimum"], [one.get("minimum") for one in found["tasks"]]) == (minimum or 5, want)


def test_a_task_without_a_queue_or_name_is_still_read() -> None:
    found = only([job("Job", {"queue": "q", "tasks": [{"template": template()}]})])
    assert (found["queue"], found["tasks"]) == ("q", [{"name": "", "pods": 1, "minimum": 1, "requests": {"cpu": 1000}}])


def test_kubeflow_with_a_policy_is_one_group_with_its_minimum_and_queue() -> None:
    policy = {"schedulingPolicy": {"minAvailable": 3, "queue": "q"}}
    roles = {"Master": {"template": template()}, "Worker": {"replicas": 4, "template": template(2)}}
    found = only([job("PyTorchJob", {"runPolicy": policy, "pytorchReplicaSpecs": roles})])
    assert found == {
        "group": "volcano/default/j",
        "minimum": 3,
        "queue": "q",
        "tasks": [
            {"name": "master", "pods": 1, "requests": {"cpu": 1000}},
            {"name": "worker", "pods": 4, "requests": {"cpu": 2000}},
        ],
    }


def test_a_ray_cluster_that_scales_itself_starts_with_its_least_workers() -> None:
    workers = {"groupName": "w", "replicas": 3, "minReplicas": 2, "numOfHosts": 2, "template": template()}
    spec = {"headGroupSpec": {"template": template()}, "workerGroupSpecs": [workers]}
    marked = {"labels": {"ray.io/gang-scheduling-enabled": "true"}}
    assert only([job("RayCluster", spec, **marked)])["minimum"] == 7
    assert only([job("RayCluster", spec | {"enableInTreeAutoscaling": True}, **marked)])["minimum"] == 5


def test_partitions_of_a_volcano_task_are_domains_of_their_own() -> None:
    policy = {"partitionSize": 2, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    spec = {"tasks": [task("w", 6, partitionPolicy=policy), task("ps", 1)]}
    assert only([job("Job", spec)])["domains"] == [{"level": "topology.volcano.sh/tier-1", "pods": [2, 2, 2]}]


def test_slices_of_a_group_are_told_by_their_sizes() -> None:
    """Members that bear Kueue's wishes on their template, gathered into a group of Volcano's."""
    wish = {"slice-required-topology": "rack", "slice-size": "2", "required-topology": "block"}
    notes = {f"kueue.x-k8s.io/podset-{key}": value for key, value in wish.items()}
    marked = {"template": {**template(), "metadata": {"annotations": notes}}}
    found = only([job("Job", {"tasks": [task("w", 5) | marked, task("ps", 1)]})])
    assert found["domains"] == [{"level": "block", "pods": [5]}, {"level": "rack", "pods": [2, 2, 1]}]


def test_a_priority_class_in_the_same_files_counts() -> None:
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **template(priorityClassName="high")}
    assert only([pod], (high,))["priority"] == 7


SITE = """
apiVersion: example.com/v1
kind: Training
plural: trainings
namedBy: example.com/training
controllers: [{apiVersion: batch/v1, kind: Job}]
copies: spec.replicas
copyBy: example.com/replica
roles: [{at: spec.workers, name: worker, number: [count], least: least}]
"""


def site(**data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "muster-owner-kinds"}, "data": data}


def test_a_kind_that_the_site_adds_is_read_with_its_configmap() -> None:
    spec = {"replicas": 2, "workers": {"count": 4, "least": 3, "template": template()}}
    one = {"apiVersion": "example.com/v1", "kind": "Training", "metadata": {"name": "t"}, "spec": spec}
    assert manifests.read([one]) == []
    for found in (manifests.read([one, site(training=SITE)]), manifests.read([one], [site(training=SITE)])):
        assert [(group["group"], group["minimum"], group["tasks"][0]["pods"]) for group in found] == [
            ("owner/default/training:t:0", 3, 4),
            ("owner/default/training:t:1", 3, 4),
        ]


def test_a_bad_kind_of_the_site_is_named() -> None:
    (found,) = manifests.read([site(training="kind: [no kind")])
    assert found == {"problem": "ConfigMap muster-owner-kinds: training: this is not YAML"}


def test_what_cannot_be_read_is_named_and_the_rest_is_read() -> None:
    found = manifests.read(
        [
            job("Job", {"tasks": [task("a", 2), task("b", -1), {"name": "c", "replicas": 1}]}),
            {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": {"runtimeRef": {"name": "x"}}},
            "text",
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": "none"}},
        ]
    )
    assert [one.get("group", one.get("alone", one.get("problem"))) for one in found] == [
        "volcano/default/j-uid-of-Job-j",
        1,
        "Job j: spec.tasks[].replicas: -1 is not a number of pods from 0 to 100000",
        "Job j: spec.tasks[].template: None is not a pod template",
        "TrainJob unnamed-x: spec.runtimeRef: there is no runtime x",
    ]
    assert found[1]["refused"] == "InvalidRequest"
    assert not manifests.sound(found)


def test_controllers_write_their_marks_on_pods() -> None:
    made = controllers.make([job("Job", {"tasks": [task("w", 1)]})])
    assert [source for source, _ in made.groups] == [Source.VOLCANO]
    meta = made.pods[0]["metadata"]
    assert meta["annotations"]["volcano.sh/task-spec"] == "w"
    assert meta["ownerReferences"][0]["kind"] == "Job"
    assert made.pods[0]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 5) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "replicas",
    "template",
    "name",
    "spec",
    "containers",
    "resources",
    "metadata",
    "labels",
    "size",
    "minAvailable",
)
shaped = st.recursive(
    anything,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)


@given(kind=st.sampled_from(kinds.KINDS), spec=shaped, meta=anything, inner=st.sampled_from(("", "tasks", "template")))
def test_whatever_stands_in_an_object_of_a_kind_is_read_or_named(
    kind: kinds.Kind, spec: object, meta: object, inner: str
) -> None:
    """Also where a role should stand."""
    if inner and kind.roles:
        for key in reversed(kind.roles[0].at.strip("[]{}").split(".")[1:]):
            spec = {key: [spec] if kind.roles[0].at.endswith("[]") else {"A": spec}}
    obj = {"apiVersion": f"{kind.group}/v1" if kind.group else "v1", "kind": kind.name, "metadata": meta, "spec": spec}
    for result in manifests.read([obj]):
        assert {"group", "alone", "problem"} & set(result)


def test_the_command_prints_what_is_read_and_says_whether_all_was_understood(tmp_path: pathlib.Path) -> None:
    out, errors = io.StringIO(), io.StringIO()
    sample = str(GOLDEN / "samples" / "volcano-job.yaml")
    assert console.main(["read", sample], out, errors) == 0
    assert yaml.safe_load(out.getvalue()) == {sample: wanted("samples")["volcano-job.yaml"]}
    bad = tmp_path / "bad.yaml"
    bad.write_text("{{ .Name }}: {")
    assert console.main(["read", str(bad)], out, errors) == 1
    assert console.main(["read", str(tmp_path / "none.yaml")], out, errors) == 2
    assert "name a file that is there" in errors.getvalue()
