"""Objects that hold others, and groups that operators make: what their controllers create, as plain objects.

Takes objects as people write them, gives those that make pods; wrappers themselves are read by nobody in these tests
and stay on paper. Must not talk to a server: what creates is handed in.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import yaml

Object = dict[str, Any]
Create = Callable[[Object, str], Object]
#: kind -> fields with the spec of one object, and which object that is
_SPECS = {
    "RayJob": ("rayClusterSpec", "ray.io/v1", "RayCluster"),
    "RayService": ("rayClusterConfig", "ray.io/v1", "RayCluster"),
}
_PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}")
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_TIER = "volcano.sh/network-topology-highest-tier-allowed"


def kind_of(obj: Object) -> tuple[str, str]:
    """API group and kind."""
    group, slash, _ = str(obj.get("apiVersion")).rpartition("/")
    return (group if slash else ""), str(obj.get("kind"))


def unwrapped(given: Iterable[Object], known: Iterable[Object] = ()) -> Iterator[Object]:
    """What comes of these objects. A runtime that none of them names is played as it stands."""
    every = [*given]
    runtimes = {one["metadata"]["name"]: one for one in (*every, *known) if kind_of(one)[1].endswith("TrainingRuntime")}
    named = {one["spec"]["runtimeRef"]["name"] for one in every if kind_of(one)[1] == "TrainJob"}
    for obj in every:
        kind = kind_of(obj)[1]
        if kind == "TrainJob":
            yield from _train(obj, runtimes[obj["spec"]["runtimeRef"]["name"]])
        elif kind.endswith("TrainingRuntime"):
            yield from _train(obj, obj) if obj["metadata"]["name"] not in named else ()
        else:
            yield from _held(obj)


def _held(obj: Object) -> Iterator[Object]:
    group, kind = kind_of(obj)
    spec = obj.get("spec") or {}
    if kind in _SPECS:
        field, version, held = _SPECS[kind]
        # those that select a cluster hold none
        if field in spec:
            yield {"apiVersion": version, "kind": held, "metadata": {}, "spec": spec[field]}
    elif kind == "AppWrapper":
        yield from unwrapped([one["template"] for one in spec["components"]])
    elif kind == "CronJob":
        yield {"apiVersion": obj["apiVersion"], "kind": "Job", "metadata": {}} | spec["jobTemplate"]
    elif (group, kind) == ("flow.volcano.sh", "JobTemplate"):
        yield {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {}, "spec": spec}
    elif kind in ("Workflow", "WorkflowTemplate"):
        yield from _workflow(spec)
    else:
        yield {"metadata": {}} | obj


def _workflow(spec: Object) -> Iterator[Object]:
    """Argo's: a pod for each step with a container, and what steps submit."""
    for template in spec["templates"]:
        if "container" in template:
            pod = {"containers": [{"name": "main"} | template["container"]], "restartPolicy": "Never"}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": pod}
        # a template that only hands its manifest to those that call it is no step
        if "resource" in template and isinstance(template["resource"].get("manifest"), str):
            yield yaml.safe_load(_PLACEHOLDER.sub("x", template["resource"]["manifest"]))


def _train(job: Object, runtime: Object) -> Iterator[Object]:
    """Trainer's: the JobSet of the runtime with so many nodes, and the group that the runtime asks for."""
    spec = copy.deepcopy(runtime["spec"]["template"]["spec"])
    numbers = [
        (job["spec"].get("trainer") or {}).get("numNodes"),
        (runtime["spec"].get("mlPolicy") or {}).get("numNodes"),
    ]
    nodes = next((number for number in numbers if number is not None), 1)
    size = 0
    for role in spec["replicatedJobs"]:
        if ((role["template"].get("metadata") or {}).get("labels") or {}).get(_STEP) == "trainer":
            role["template"]["spec"] |= {"parallelism": nodes, "completions": nodes}
        size += role["template"]["spec"].get("parallelism", 1) * role.get("replicas", 1)
    name, policy = job["metadata"]["name"], runtime["spec"].get("podGroupPolicy") or {}
    marks: Object = {}
    if "coscheduling" in policy:
        yield _group("scheduling.x-k8s.io/v1alpha1", name, {"minMember": size})
        marks = {"labels": {"scheduling.x-k8s.io/pod-group": name}}
    elif "volcano" in policy:
        wish = {key: policy["volcano"][key] for key in ("networkTopology",) if key in policy["volcano"]}
        yield _group("scheduling.volcano.sh/v1beta1", name, {"minMember": size} | wish)
        marks = {"annotations": {"scheduling.k8s.io/group-name": name}}
    for role in spec["replicatedJobs"]:
        template = role["template"]["spec"]["template"]
        meta = template.get("metadata") or {}
        template["metadata"] = meta | {key: {**(meta.get(key) or {}), **more} for key, more in marks.items()}
    yield {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {}, "spec": spec}


def _group(version: str, name: str, spec: Object) -> Object:
    return {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def volcano_group(name: str, least: int, create: Create, **more: Any) -> None:
    """Create a group of Volcano's."""
    create(_group("scheduling.volcano.sh/v1beta1", name, {"minMember": least, **more}), name)


def ray_group(cluster: Object, size: int, create: Create) -> tuple[dict[str, str], dict[str, str]]:
    """KubeRay's group for a cluster, by the labels of the cluster: labels and annotations of its members."""
    name, labels = cluster["metadata"]["name"], cluster["metadata"].get("labels") or {}
    if "ray.io/gang-scheduling-enabled" in labels:
        create(_group("scheduling.x-k8s.io/v1alpha1", name, {"minMember": size}), name)
        return {"scheduling.x-k8s.io/pod-group": name}, {}
    if _TIER not in labels:
        return {}, {}
    parts = []
    for group in cluster["spec"].get("workerGroupSpecs") or []:
        wish = _wish((group["template"].get("metadata") or {}).get("labels") or {})
        selector = {"matchLabels": {"ray.io/group": group["groupName"]}}
        parts += [{"name": group["groupName"], "labelSelector": selector, "networkTopology": wish}] if wish else []
    volcano_group(f"ray-{name}-pg", size, create, networkTopology=_wish(labels), subGroupPolicy=parts)
    return {}, {"scheduling.k8s.io/group-name": f"ray-{name}-pg"}


def _wish(labels: dict[str, str]) -> Object:
    return {"mode": "hard", "highestTierAllowed": int(labels[_TIER])} if _TIER in labels else {}
