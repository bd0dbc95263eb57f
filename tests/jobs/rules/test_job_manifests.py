"""Every Volcano Job in the shared manifests is read, starts as its author meant it, and has what its command reads."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
import yaml
from job_world import JobWorld

from extender.jobs.rules import reading
from extender.jobs.rules.refusals import Reason

#: manifests that Volcano's webhook denies too, and why
DENIED = {
    "invalid_jobs__duplicatedPolicyEvent-webhook-deny.yaml": Reason.DUPLICATE_POLICY,
    "invalid_jobs__duplicatedTaskName-webhook-deny.yaml": Reason.DUPLICATE_TASK_NAME,
    "invalid_jobs__minAvailable-webhook-deny.yaml": Reason.INVALID_MIN_AVAILABLE,
}
#: file -> minimum of the gang, and pods that are made at once
STARTS = {
    "MindSpore-example__mindspore_cpu__mindspore-cpu.yaml": (1, 8),
    "MindSpore-example__mindspore_gpu__mindspore-gpu.yaml": (3, 3),
    "apis-artifacts__vcjob.yaml": (3, 6),
    "cronjob__cronjob.yaml": (1, 1),
    "integrations__argo__10-job-step.yaml": (1, 2),
    "integrations__argo__20-job-DAG.yaml": (1, 2),
    "integrations__argo__mpi__hello-world.yaml": (3, 3),
    "integrations__mxnet__train__train-mnist-cpu.yaml": (5, 5),
    "integrations__paddlepaddle__ctr-paddlepaddle-on-volcano.yaml": (4, 4),
    "integrations__ray__ray-example.yaml": (3, 3),
    "integrations__tensorflow__benchmark__tf-example.yaml": (3, 3),
    "integrations__tensorflow__dist-mnist__tf-dist-mnist-example.yaml": (3, 3),
    "job-plugin.yaml": (3, 3),
    "job.yaml": (3, 6),
    "jobflow__JobTemplate.yaml": (1, 1),
    "kubecon-2019-china__gang__mpi-example.yaml": (4, 4),
    "kubecon-2019-china__horovod-sample__lm-horovod-tf-mnist-v0.5.yaml": (4, 4),
    "kubecon-2019-china__mpi-sample__mpi-example.yaml": (3, 3),
    "kubecon-2019-china__task-priority__elastic-job.yaml": (3, 10),
    "kubecon-2019-china__tf-sample__tf-example.yaml": (3, 3),
    "task-start-dependency__job.yaml": (1, 1),
    "task-start-dependency__mpi.yaml": (3, 10),
}
HOME_OF_ROOT = "/root"
_FILE = re.compile(r"/etc/volcano/([a-z0-9_]+\.host)")
#: variables of ours that a command reads; what the shell sets itself is not asked of us
_VARIABLE = re.compile(r"\$\{?(V[CK]_[A-Z_]+|MASTER_[A-Z]+|WORLD_SIZE|RANK|TF_CONFIG)\}?")


def jobs_in(text: str) -> list[dict[str, Any]]:
    """The Jobs of a manifest: as they are, in a template of a CronJob or JobFlow, or as text in an Argo workflow."""
    found = []
    for document in yaml.safe_load_all(text):
        if not isinstance(document, dict):
            continue
        kind, spec = document.get("kind"), document.get("spec") or {}
        if kind in ("Job", "JobTemplate"):
            found.append(document)
        elif kind == "CronJob":
            found.append({**spec["jobTemplate"], "metadata": document["metadata"]})
        for template in spec.get("templates") or [] if kind in ("Workflow", "WorkflowTemplate") else []:
            if "manifest" in template.get("resource", {}):
                found += jobs_in(re.sub(r"\{\{[^}]*\}\}", "filled-in", template["resource"]["manifest"]))
    return [given_an_identity(one) for one in found if "Job" in one.get("kind", "Job")]


def given_an_identity(job: dict[str, Any]) -> dict[str, Any]:
    meta = job.get("metadata") or {}
    name = meta.get("name") or f"{meta.get('generateName', 'job-')}x"
    return {**job, "metadata": {**meta, "name": name, "namespace": "team", "uid": "0f1e2d3c-uid"}}


@pytest.fixture(scope="module")
def volcano(shared: pathlib.Path) -> pathlib.Path:
    return shared / "data" / "manifests" / "volcano"


def test_all_manifests_with_jobs_are_known(volcano: pathlib.Path) -> None:
    with_jobs = {path.name for path in volcano.glob("*.yaml") if jobs_in(path.read_text())}
    assert with_jobs == STARTS.keys() | DENIED.keys()


@pytest.mark.parametrize("name", list(DENIED))
def test_what_the_webhook_denies_is_refused(volcano: pathlib.Path, name: str) -> None:
    (job,) = jobs_in((volcano / name).read_text())
    found = reading.decode_job(job)
    assert isinstance(found, reading.Refusal)
    assert found.reason is DENIED[name]


@pytest.mark.parametrize("name", list(STARTS))
def test_a_manifest_starts_as_it_was_meant(volcano: pathlib.Path, name: str) -> None:
    jobs = jobs_in((volcano / name).read_text())
    assert jobs
    for job in jobs:
        world = JobWorld(job)
        step = world.turn()
        least, pods = STARTS[name]
        assert step.objects[0].body["spec"]["minMember"] == least
        assert len(step.creates) == pods
        for pod in world.pods.values():
            has_what_it_reads(pod, {one.name: one.body for one in step.objects if one.kind == "ConfigMap"})


def has_what_it_reads(pod: dict[str, Any], files: dict[str, Any]) -> None:
    """Host files and variables that a pod's command names are there, and the variables' sources have the keys."""
    volumes = {one["name"]: one for one in pod["spec"].get("volumes", [])}
    for container in pod["spec"]["containers"]:
        said = "\n".join(str(word) for word in [*container.get("command", []), *container.get("args", [])])
        mounted = {
            file
            for mount in container.get("volumeMounts", [])
            if mount["mountPath"] == "/etc/volcano"
            for file in files[volumes[mount["name"]]["configMap"]["name"]]["data"]
        }
        assert set(_FILE.findall(said)) <= mounted
        assert set(_VARIABLE.findall(said)) <= {one["name"] for one in container.get("env", [])}
        for one in container.get("env", []):
            if key := one.get("valueFrom", {}).get("configMapKeyRef"):
                assert key["key"] in files[key["name"]]["data"]
        if "sshd" in said:
            assert HOME_OF_ROOT + "/.ssh" in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_the_mpi_example_of_dependencies_starts_its_master_when_all_workers_run(volcano: pathlib.Path) -> None:
    (job,) = jobs_in((volcano / "task-start-dependency__mpi.yaml").read_text())
    world = JobWorld(job)
    world.settle()
    workers = world.names()
    world.run(*workers[:9])
    world.settle()
    assert world.names() == workers
    world.run()
    world.settle()
    assert sorted(set(world.names()) - set(workers)) == ["lm-mpi-job-mpimaster-0"]
    world.end("lm-mpi-job-mpimaster-0")
    world.settle()
    world.finish_deleting()
    world.settle()
    assert world.phase == "Completed"
    assert world.names() == ["lm-mpi-job-mpimaster-0"]
