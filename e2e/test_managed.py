"""One namespace at a time: what the label muster.dev/managed does to new pods, to queues, and when it is taken off."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e import kube as kube_module
from e2e import objects, waiting
from e2e.cluster import manifests
from e2e.cluster.muster import Replica
from e2e.scenes import SOON, Scene

GPU = objects.GPU
GATE = manifests.GATE
LABEL = "muster.dev/managed"
MODES = ("enforce", "warn", "plain")
#: in the list of open queues there is none of this name, so its pods are gated
BUSY = {GATE: "no-such-queue"}
MakeNodes = Callable[..., list[str]]
Object = dict[str, Any]


def manage(kube: kube_module.Kube, namespace: str, mode: str | None, **labels: str) -> None:
    """Set or take off the label, and see that the API server's own watch of namespaces has followed."""
    kube.patch("namespaces", namespace, {"metadata": {"labels": {LABEL: mode, **labels}}})
    waiting.wait_for(
        lambda: tried(kube, pod(namespace, schedulerName="somebody-else"))[1],
        SOON,
        f"{namespace} is managed: {mode}",
        until=lambda said: ("is managed by Muster" in said) is (mode is not None),
    )


def tried(kube: kube_module.Kube, obj: Object) -> tuple[Object, str]:
    """The object as the API server would store it, storing nothing, and what it warns of."""
    path = kube.resource_of(obj).path(obj["metadata"].get("namespace"))
    headers = {**kube.access.headers(), "Content-Type": "application/json"}
    asked = urllib.request.Request(f"{kube.access.server}{path}?dryRun=All", json.dumps(obj).encode(), headers)
    context = kube.access.ssl_context() or ssl.create_default_context()
    with urllib.request.urlopen(asked, context=context, timeout=30) as answer:
        return json.load(answer), "\n".join(answer.headers.get_all("Warning") or [])


def pod(namespace: str, labels: Object | None = None, owner: str = "", **spec: Any) -> Object:
    """A pod that names no scheduler unless told."""
    made = objects.pod("p", namespace, labels=labels, spec=spec)
    if "schedulerName" not in spec:
        del made["spec"]["schedulerName"]
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "7", "controller": True}
        made["metadata"]["ownerReferences"] = [reference]
    return made


def template(kind: str, namespace: str, **spec: Any) -> Object:
    """An object that makes pods, which name no scheduler unless told."""
    selector: Object = {"selector": {"matchLabels": {"app": "x"}}}
    labelled = {"metadata": {"labels": {"app": "x"}}}
    body = {"template": labelled | {"spec": pod(namespace, restartPolicy="Never", **spec)["spec"]}}
    if kind in ("Deployment", "StatefulSet", "DaemonSet"):
        body["template"]["spec"]["restartPolicy"] = "Always"
        body |= selector
    if kind == "CronJob":
        body = {"schedule": "0 0 * * *", "jobTemplate": {"spec": body}}
    group = "batch/v1" if "Job" in kind else "apps/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "t", "namespace": namespace}, "spec": body}


# --- new pods ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def places(kube: kube_module.Kube, _replica: Replica) -> Iterator[dict[str, str]]:
    """A namespace of each mode, by mode; Muster runs, so there is a list of open queues."""
    found = {mode: f"e2e-managed-{mode}" for mode in MODES}
    for mode, name in found.items():
        kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        waiting.wait_for(lambda name=name: kube.find("serviceaccounts", "default", name), SOON, "its account")
        manage(kube, name, None if mode == "plain" else mode)
    yield found
    for name in found.values():
        kube.delete("namespaces", name)


OURS, DEFAULT, OTHER = "muster", "default-scheduler", "volcano"
ASKS, LEFT = "set schedulerName: muster", f"schedulerName {OTHER} is left as it is"
FOREIGN_GATE, OUR_GATE = {"name": "example.com/wait"}, {"name": GATE}
#: mode, pod, and wanted: its scheduler, its gates, what is said
PODS: dict[str, tuple[str, Object, str, list[str], str]] = {
    "enforced: it is ours and gated": ("enforce", {"labels": BUSY}, OURS, [GATE], ""),
    "enforced: it passes where its queue is open": ("enforce", {}, OURS, [], ""),
    "enforced: a member whose group may name a queue is gated": (
        "enforce", {"labels": {"muster.dev/pod-group": "g"}}, OURS, [GATE], ""),
    "enforced: gates of others are kept": (
        "enforce", {"labels": BUSY, "schedulingGates": [FOREIGN_GATE]}, OURS, ["example.com/wait", GATE], ""),
    "enforced: it brings our gate and gets no second one": (
        "enforce", {"labels": BUSY, "schedulingGates": [OUR_GATE]}, OURS, [GATE], ""),
    "enforced: it was ours already": ("enforce", {"labels": BUSY, "schedulerName": OURS}, OURS, [GATE], ""),
    "enforced: a pod of a Job is ours as well": ("enforce", {"labels": BUSY, "owner": "Job"}, OURS, [GATE], ""),
    "enforced: a pod of a DaemonSet is left alone": ("enforce", {"owner": "DaemonSet"}, DEFAULT, [], ""),
    "enforced: a pod that names its node is left alone": ("enforce", {"nodeName": "n"}, DEFAULT, [], ""),
    "enforced: a pod of a third scheduler is left alone, and that is said": (
        "enforce", {"labels": BUSY, "schedulerName": OTHER}, OTHER, [], LEFT),
    "asked: it stays, and whoever makes it is asked": ("warn", {"labels": BUSY}, DEFAULT, [], ASKS),
    "asked: a pod of ours is all right": ("warn", {"labels": BUSY, "schedulerName": OURS}, OURS, [GATE], ""),
    "asked: a pod of a DaemonSet is all right": ("warn", {"owner": "DaemonSet"}, DEFAULT, [], ""),
    "asked: a pod that names its node is all right": ("warn", {"nodeName": "n"}, DEFAULT, [], ""),
    "asked: a third scheduler is named": ("warn", {"schedulerName": OTHER}, OTHER, [], LEFT),
    "elsewhere nothing happens": ("plain", {"labels": BUSY}, DEFAULT, [], ""),
    "elsewhere nothing happens to a third scheduler's": ("plain", {"schedulerName": OTHER}, OTHER, [], ""),
}  # fmt: skip


@pytest.mark.parametrize(("mode", "fields", "scheduler", "gates", "said"), PODS.values(), ids=PODS)
def test_new_pods_of_managed_namespaces(
    installed: manifests.Manifests,
    muster: Replica,
    kube: kube_module.Kube,
    places: dict[str, str],
    mode: str,
    fields: Object,
    scheduler: str,
    gates: list[str],
    said: str,
) -> None:
    made, warning = tried(kube, pod(places[mode], **fields))
    if not installed.gates_pods:  # nothing can be set on this version: it is asked for instead
        gates = [gate["name"] for gate in fields.get("schedulingGates", [])]
        asked = mode == "enforce" and scheduler == OURS and "schedulerName" not in fields
        scheduler, said = (DEFAULT, ASKS) if asked else (scheduler, said)
    assert made["spec"]["schedulerName"] == scheduler
    assert [gate["name"] for gate in made["spec"].get("schedulingGates", [])] == gates
    assert (said in warning) if said else ("muster" not in warning), warning


#: mode, kind, fields of its pods, and what is said
TEMPLATES: dict[str, tuple[str, str, Object, str]] = {
    **{f"asked: a {kind}": ("warn", kind, {}, ASKS) for kind in ("Job", "CronJob", "Deployment", "StatefulSet")},
    "asked: a Job of ours": ("warn", "Job", {"schedulerName": OURS}, ""),
    "asked: a CronJob of ours": ("warn", "CronJob", {"schedulerName": OURS}, ""),
    "asked: a Deployment of a third scheduler": ("warn", "Deployment", {"schedulerName": OTHER}, LEFT),
    "asked: a DaemonSet": ("warn", "DaemonSet", {}, ""),
    "enforced: a Job of a third scheduler": ("enforce", "Job", {"schedulerName": OTHER}, LEFT),
    "elsewhere: a Job": ("plain", "Job", {}, ""),
}


@pytest.mark.parametrize(("mode", "kind", "fields", "said"), TEMPLATES.values(), ids=TEMPLATES)
def test_whoever_makes_a_template_is_told_at_once(
    kube: kube_module.Kube, places: dict[str, str], mode: str, kind: str, fields: Object, said: str
) -> None:
    _, warning = tried(kube, template(kind, places[mode], **fields))
    assert (said in warning) if said else ("muster" not in warning), warning


@pytest.mark.parametrize("kind", ["Job", "CronJob", "Deployment", "StatefulSet"])
def test_a_template_is_asked_about_only_where_its_pods_will_not_be_made_ours(
    installed: manifests.Manifests, kube: kube_module.Kube, places: dict[str, str], kind: str
) -> None:
    _, warning = tried(kube, template(kind, places["enforce"]))
    assert (ASKS in warning) is not installed.gates_pods


# --- the label itself --------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["Enforce", "true", "", "warn-only"])
def test_a_value_that_means_nothing_is_refused_and_the_namespace_stays_as_it_is(
    kube: kube_module.Kube, places: dict[str, str], value: str
) -> None:
    with pytest.raises(kube_module.ApiError, match="set it to enforce or warn"):
        kube.patch("namespaces", places["enforce"], {"metadata": {"labels": {LABEL: value}}})
    assert kube.get("namespaces", places["enforce"])["metadata"]["labels"][LABEL] == "enforce"


@pytest.mark.parametrize("name", ["kube-system", "muster-system"])
def test_what_muster_stands_on_cannot_be_managed(kube: kube_module.Kube, places: dict[str, str], name: str) -> None:
    with pytest.raises(kube_module.ApiError, match="must not depend on Muster"):
        kube.patch("namespaces", name, {"metadata": {"labels": {LABEL: "enforce"}}})
    kube.patch("namespaces", name, {"metadata": {"labels": {"something": "else"}}})
    kube.patch("namespaces", name, {"metadata": {"labels": {"something": None}}})


# --- with real schedulers ----------------------------------------------------------------------------


@pytest.fixture
def scene(kube: kube_module.Kube, muster: Replica, namespace: str) -> Scene:
    return Scene(kube, muster, namespace)


def wait_used(scene: Scene, queue: str, gpus: int) -> None:
    """Wait until the queue says that so many GPUs are used, and the extender's own count agrees."""
    waiting.wait_for(
        lambda: (scene.kube.get("queues.muster.dev", queue).get("status") or {}).get("allocated", {}),
        SOON,
        f"{queue} uses {gpus}",
        until=lambda allocated: int(allocated.get(GPU, 0)) == gpus,
    )
    scene.wait_sound()
    assert scene.replica.metric("extender", "muster_extender_usage_difference") == 0


def job(name: str, namespace: str, size: int) -> Object:
    """A Job of one-GPU pods that says nothing of schedulers or queues."""
    made = template("Job", namespace)
    made["metadata"]["name"] = name
    made["spec"] |= {"parallelism": size, "completions": size}
    return made


def pending(scene: Scene, queue: str) -> int:
    """How many groups wait in the queue, as its object says."""
    return int((scene.kube.get("queues.muster.dev", queue).get("status") or {}).get("pending", 0))


def schedulers(scene: Scene, name: str) -> list[str]:
    """Who schedules the pods of a Job."""
    found = scene.kube.list("pods", scene.namespace)
    return [one["spec"]["schedulerName"] for one in found if one["metadata"]["name"].startswith(f"{name}-")]


@pytest.mark.gates
def test_a_job_as_it_is_runs_by_the_rules_of_its_queue_until_the_label_is_taken_off(
    scene: Scene, queue: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1)
    scene.kube.patch("queues.muster.dev", queue, {"spec": {"capability": {GPU: 3}}})
    manage(scene.kube, scene.namespace, "enforce", **{GATE: queue})
    scene.kube.create(job("first", scene.namespace, 3))
    scene.wait_bound("first", 3)
    assert schedulers(scene, "first") == 3 * [OURS]
    wait_used(scene, queue, 3)
    scene.kube.create(job("second", scene.namespace, 1))
    waiting.wait_for(lambda: pending(scene, queue), SOON, "one waits", until=lambda number: number == 1)
    waiting.wait_for(
        lambda: tried(scene.kube, pod(scene.namespace))[0]["spec"].get("schedulingGates"), SOON, "the queue is closed"
    )
    scene.kube.create(job("third", scene.namespace, 2))
    waiting.wait_for(lambda: pending(scene, queue), SOON, "three wait", until=lambda number: number == 3)
    assert [one["spec"].get("schedulingGates") for one in scene.pods("third")] == 2 * [[OUR_GATE]]
    manage(scene.kube, scene.namespace, None)
    scene.kube.create(job("fourth", scene.namespace, 2))
    scene.wait_bound("fourth", 2)
    assert schedulers(scene, "fourth") == 2 * [DEFAULT]
    assert scene.bound("third") == {}
    wait_used(scene, queue, 3)
    # what was made ours stays ours, and goes on
    scene.kube.delete("jobs.batch", "first", scene.namespace)
    scene.delete(*(one["metadata"]["name"] for one in scene.pods("first")))
    scene.wait_bound("third", 2)


def test_what_others_scheduled_there_counts_in_its_queue_as_long_as_the_label_stands(
    scene: Scene, queue: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1)
    scene.kube.patch("queues.muster.dev", queue, {"spec": {"capability": {GPU: 4}}})
    scene.pod("before", 2, scheduler=DEFAULT)
    scene.wait_bound("before", 0)
    waiting.wait_for(lambda: "before" in scene.bound(), SOON, "the default scheduler has bound it")
    manage(scene.kube, scene.namespace, "warn", **{GATE: queue})
    wait_used(scene, queue, 2)
    scene.pod("after", 1, scheduler=DEFAULT, queue=queue)
    wait_used(scene, queue, 3)
    scene.group("ours", 1, queue=queue)
    scene.gang("ours", 1, 2)
    scene.wait_says("ours", "QuotaExceeded")
    assert queue in scene.message("ours")
    scene.replica.extender.kill9()
    scene.replica.heal()
    wait_used(scene, queue, 3)
    assert scene.said("ours") == "QuotaExceeded"
    manage(scene.kube, scene.namespace, None)
    scene.wait_bound("ours", 1)
    wait_used(scene, queue, 2)
    manage(scene.kube, scene.namespace, "warn")
    wait_used(scene, queue, 5)
    scene.delete("before")
    wait_used(scene, queue, 3)


def test_pods_of_a_daemonset_start_without_muster_and_count_like_all_others(
    scene: Scene, queue: str, make_nodes: MakeNodes
) -> None:
    nodes = make_nodes(2)
    manage(scene.kube, scene.namespace, "enforce", **{GATE: queue})
    made = template("DaemonSet", scene.namespace, nodeSelector={"type": "kwok"})
    scene.kube.create(made)
    waiting.wait_for(
        lambda: set(scene.bound("t").values()), SOON, "one on each node", until=lambda found: found == set(nodes)
    )
    assert schedulers(scene, "t") == 2 * [DEFAULT]
    wait_used(scene, queue, 2)
