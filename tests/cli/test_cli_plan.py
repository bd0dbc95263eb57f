"""`plan`: which pods a file makes, what is asked about them, and how the answer is told. Nothing is created."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import yaml
from cli_world import GPU, World, run

from extender.cli import manifests
from extender.cli.problems import Problem
from extender.kube import errors

CONTAINERS = [{"name": "main", "resources": {"requests": {GPU: "4"}}}]
MARKS = {"muster.dev/pod-group": "train"}


def template(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": {"schedulerName": "muster", "containers": CONTAINERS}}


def job(name: str = "train", **spec: Any) -> dict[str, Any]:
    given = {"parallelism": 4, "completions": 4, "template": template(**MARKS)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": given | spec}


GROUP = {
    "apiVersion": "muster.dev/v1alpha1",
    "kind": "PodGroup",
    "metadata": {"name": "train"},
    "spec": {"minMember": 4},
}
REPLICAS = {"Master": {"replicas": 1, "template": template()}, "Worker": {"replicas": 3, "template": template()}}
MADE = {
    "a Job": (job(), [4]),
    "a Job with fewer completions": (job(completions=2), [2]),
    "a Job of one": (job(parallelism=None, completions=None), [1]),
    "a paused Deployment": ({"kind": "Deployment", "spec": {"replicas": 0, "template": template()}}, []),
    "a StatefulSet": ({"kind": "StatefulSet", "spec": {"replicas": 3, "template": template()}}, [3]),
    "a Pod": ({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": CONTAINERS}}, [1]),
    "a training job of roles": ({"kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": REPLICAS}}, [1, 3]),
    "a JobSet": ({"kind": "JobSet", "spec": {"replicatedJobs": [{"replicas": 2, "template": job()}]}}, [8]),
    "a List": ({"kind": "List", "items": [job("a"), job("b")]}, [4, 4]),
    "a number that is none": (job(parallelism="many", completions=True), [1]),
    "a negative number": (job(parallelism=-3), []),
}


def write(folder: pathlib.Path, *documents: Any) -> str:
    path = folder / "file.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


@pytest.mark.parametrize(("document", "want"), MADE.values(), ids=MADE.keys())
def test_every_template_of_pods_is_found_with_its_number(tmp_path, document, want):
    path = write(tmp_path, GROUP, None, document)
    if not want:
        with pytest.raises(Problem, match="makes no pods"):
            manifests.templates(path, manifests.read(path))
        return
    templates, groups = manifests.templates(path, manifests.read(path))
    assert [one.count for one in templates] == want
    assert groups == [GROUP]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (None, "cannot be read: "),
        (b"\xff\xfe\x00", "cannot be read: "),
        (b"a: [", "is not YAML: "),
        (b"- 1\n---\ntext\n---\n", "makes no pods; give a Pod"),
        (b"", "makes no pods; give a Pod"),
    ],
)
def test_what_is_no_manifest_is_refused_with_the_file_s_name(tmp_path, text, want):
    path = tmp_path / "file.yaml"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(Problem) as refused:
        manifests.templates(str(path), manifests.read(str(path)))
    assert str(refused.value).startswith(f"{path} {want}")
    assert refused.value.status == 2


def planned(**more: Any) -> dict[str, Any]:
    return {"name": "muster:train", "starts": True, "queue": "research", "startsWhen": [], "nodes": []} | more


def test_the_pods_are_asked_about_as_they_would_be_created_with_their_group(tmp_path):
    there = World()
    there.planned = planned(nodes=[{"name": "n1", "members": 3, "requests": {}}, {"name": "n2", "members": 1}])
    out, said = run(there, "plan", "-f", write(tmp_path, GROUP, job()))
    assert (out, said) == (
        "muster:train in namespace team (4 pods) would start now\n"
        "  Queue  research\n"
        "  Nodes  n1 (3)\n"
        "         n2 (1)\n",
        "",
    )
    (dry, pod), (path, asked) = there.posted
    assert (dry, pod["metadata"]["labels"]) == ("/api/v1/namespaces/team/pods", MARKS)
    assert path == "/apis/visibility.muster.dev/v1alpha1/namespaces/team/plans"
    assert asked["spec"]["group"] == GROUP
    assert [(part["count"], part["pod"]["spec"]) for part in asked["spec"]["pods"]] == [(4, pod["spec"])]


def test_what_it_would_wait_for_and_whom_it_would_evict_is_told(tmp_path):
    there, path = World(), write(tmp_path, job())
    change = {"reason": "QuotaExceeded", "message": "the queue uses so much less (more 4)", "detail": []}
    there.planned = planned(
        starts=False, reason="QuotaExceeded", message="over (asked 4)", startsWhen=[change], position=3
    )
    assert run(there, "plan", "-f", path)[0] == (
        "muster:train in namespace team (4 pods) would wait\n"
        "  Queue        research, position 3\n"
        "  Waits        QuotaExceeded: over (asked 4)\n"
        "  Starts when  the queue uses so much less (more 4)\n"
    )
    loss = {"name": "muster:low", "namespace": "ns", "pods": ["a", "b"], "rule": "Preempted", "message": "why"}
    there.planned = planned(starts=False, reason="InsufficientResources", message="no room", evictions=[loss])
    out = run(there, "plan", "-f", path)[0]
    assert "(4 pods) would start when others are evicted for it\n" in out
    assert "  Evicts  2 pods of ns/muster:low, Preempted: why\n" in out
    there.planned = planned(starts=False, reason="InsufficientResources", message="no room", evictions=[])
    assert "would start when those that are leaving have left" in run(there, "plan", "-f", path)[0]


def test_pods_that_are_alone_are_asked_about_one_by_one(tmp_path):
    there = World()
    there.planned = planned(name="pod:web")
    found = json.loads(run(there, "plan", "-f", write(tmp_path, job("web", template=template())), "-o", "json")[0])
    assert [(one["pods"], one["alone"]) for one in found["items"]] == [(4, True)]
    (_, asked) = there.posted[-1]
    assert [part["count"] for part in asked["spec"]["pods"]] == [1]
    assert (
        "(4 pods, each alone: one) would start now"
        in run(there, "plan", "-f", write(tmp_path, job("web", template=template())))[0]
    )


def test_groups_of_a_file_are_asked_about_apart(tmp_path):
    there = World()
    there.planned = planned()
    other = job("b", template=template(**{"muster.dev/pod-group": "other"}))
    run(there, "plan", "-f", write(tmp_path, job("a"), job("a2"), other, GROUP))
    plans = [body["spec"] for path, body in there.posted if path.endswith("/plans")]
    assert [(len(one["pods"]), "group" in one) for one in plans] == [(2, True), (1, False)]


@pytest.mark.parametrize(
    ("part", "error", "want"),
    [
        ("/pods", errors.Forbidden(403, "Forbidden", "over quota"), "a pod of train in namespace team: over quota"),
        ("/plans", errors.NotFound(404, "", ""), "the live answers are not installed"),
        ("/plans", errors.Invalid(422, "Invalid", "spec.schedulerName: x"), "spec.schedulerName: x"),
        ("/plans", errors.Conflict(409, "Conflict", "has members already"), "has members already"),
        ("/plans", errors.ServerError(503, "", ""), "the live answers do not answer"),
        ("/plans", errors.Forbidden(403, "Forbidden", "plans is forbidden"), "plans is forbidden; ask for"),
    ],
)  # fmt: skip
def test_what_is_refused_is_told_in_the_words_of_who_refuses(tmp_path, part, error, want):
    there = World()
    there.fails[part] = error
    with pytest.raises(Problem) as refused:
        run(there, "plan", "-f", write(tmp_path, job()))
    assert want in str(refused.value)


TORCH = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "train", "annotations": {"any": "x"}},
    "spec": {"pytorchReplicaSpecs": REPLICAS},
}


def test_a_job_whose_pods_start_together_by_its_kind_is_asked_about_as_a_whole(tmp_path):
    there = World()
    there.planned = planned(name="owner:pytorchjob:train")
    out, _ = run(there, "plan", "-f", write(tmp_path, TORCH))
    assert out.startswith("owner:pytorchjob:train in namespace team (4 pods) would start now\n")
    asked = there.posted[-1][1]["spec"]
    assert asked["group"] == TORCH | {"metadata": {"name": "train"}}
    tasks = [(part["pod"]["metadata"]["labels"]["muster.dev/task"], part["count"]) for part in asked["pods"]]
    assert tasks == [("master", 1), ("worker", 3)]


def test_roles_that_start_in_turn_and_pods_that_stand_alone_are_asked_about_apart(tmp_path):
    there = World()
    there.planned = planned()
    roles = [{"name": name, "template": {"spec": {"parallelism": 2, "template": template()}}} for name in ("a", "b")]
    ordered = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "s"},
        "spec": {"replicatedJobs": roles, "startupPolicy": {"startupPolicyOrder": "InOrder"}},
    }
    run(there, "plan", "-f", write(tmp_path, ordered, job("web", template=template())))
    plans = [body["spec"] for path, body in there.posted if path.endswith("/plans")]
    assert [([part["count"] for part in one["pods"]], "group" in one) for one in plans] == [
        *(([2], True), ([2], True), ([1], False)),
    ]


def test_what_an_object_makes_of_such_a_kind_is_found_in_it(tmp_path):
    cluster = {"headGroupSpec": {"template": template()}}
    ray = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r"}, "spec": {"rayClusterSpec": cluster}}
    templates, _ = manifests.templates("f", [ray])
    assert [(one.name, one.count, one.maker["kind"]) for one in templates] == [("r", 1, "RayCluster")]
