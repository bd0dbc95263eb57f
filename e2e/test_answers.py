"""Live answers: an API under the API server's own address, with its credentials and rights.

A file of its own replica, whose extender serves them on an address of this machine that the API server can reach.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from e2e import answers, objects, waiting
from e2e import kube as kube_module
from e2e.cluster import base, muster
from e2e.scenes import SOON, Scene

API = "/apis/visibility.muster.dev/v1alpha1"
WORKLOADS, QUEUES = "workloads.visibility.muster.dev", "queues.visibility.muster.dev"
MakeNodes = Callable[..., list[str]]
Object = dict[str, Any]


@pytest.fixture
def scene(kube: kube_module.Kube, answering: muster.Replica, namespace: str) -> Scene:
    answering.heal()
    return Scene(kube, answering, namespace)


def ask(api: kube_module.Kube, path: str) -> Object:
    """GET an answer."""
    return dict(api.request("GET", f"{API}/{path}"))


def status_of(scene: Scene, name: str) -> Object:
    """What is answered about a group of the scene."""
    return dict(ask(scene.kube, f"namespaces/{scene.namespace}/workloads/{name}")["status"])


def wait_answer(scene: Scene, name: str, **fields: Any) -> Object:
    """Wait until the answer has these fields; "" stands for none."""
    return waiting.wait_for(
        lambda: status_of(scene, name),
        SOON,
        f"{name} is answered with {fields}",
        until=lambda said: all(said.get(field, "") == value for field, value in fields.items()),
    )


def names(answer: Object) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"]]


# --- what is answered --------------------------------------------------------------------------------


def test_a_waiting_gang_is_answered_as_its_status_says_and_otherwise_at_once_when_it_is_admitted(
    scene: Scene, make_nodes: MakeNodes, queue: str
) -> None:
    (node,) = make_nodes(1)
    scene.fill(node, 8)
    scene.group("train", 4, queue=queue)
    scene.gang("train", 4)
    scene.wait_says("train", "InsufficientResources")
    said = wait_answer(scene, "muster:train", phase="Pending", reason="InsufficientResources")
    assert (said["queue"], said["position"]) == (queue, 1)
    assert said["message"] == scene.message("train")
    assert said["members"] == {"have": 4, "minimum": 4, "planned": 0, "bound": 0, "succeeded": 0, "failed": 0}
    scene.delete("filler")
    scene.wait_started("train", 4)
    said = status_of(scene, "muster:train")
    assert (said["phase"], said.get("reason"), said.get("position")) == ("Running", None, None)
    assert said["members"]["bound"] == 4


def test_lone_pods_and_groups_of_one_name_of_every_kind_are_told_apart(scene: Scene, make_nodes: MakeNodes) -> None:
    (node,) = make_nodes(1)
    scene.fill(node, 8)
    wanted = {"muster:same", "scheduler-plugins:same", "volcano:same", "pod:same"}
    sources = ["muster", "scheduler-plugins", "volcano"]
    if scene.kube.serves("scheduling.k8s.io/v1beta1", "PodGroup"):
        sources, wanted = [*sources, "native"], wanted | {"native:same"}
    for source in sources:
        scene.group("same", 1, source)
        scene.kube.create(objects.pod(f"{source}-0", scene.namespace, group="same", source=source))
    scene.pod("same")
    waiting.wait_for(
        lambda: set(names(ask(scene.kube, f"namespaces/{scene.namespace}/workloads"))),
        SOON,
        "all are listed",
        until=lambda found: found == wanted,
    )
    for name in wanted:
        wait_answer(scene, name, phase="Pending", reason="InsufficientResources")
    scene.delete("filler")
    for name in wanted:
        wait_answer(scene, name, phase="Running", reason="")


def test_a_queue_tells_who_waits_in_which_order(scene: Scene, make_nodes: MakeNodes, queue: str) -> None:
    make_nodes(1)
    scene.kube.patch("queues.muster.dev", queue, {"spec": {"capability": {objects.GPU: 2}}})
    scene.pod("runs", 2, queue=queue)
    scene.wait_bound("", 1)
    for number in range(3):
        scene.group(f"g{number}", 1, queue=queue)
        scene.gang(f"g{number}", 1)
        scene.wait_says(f"g{number}", "QuotaExceeded")
    told = waiting.wait_for(
        lambda: ask(scene.kube, f"queues/{queue}")["status"],
        SOON,
        "three wait",
        until=lambda status: len(status["waiting"]) == status["pending"] == 3,
    )
    assert (told["state"], told["allocated"][objects.GPU]) == ("Open", "2")
    assert [(one["position"], one["name"]) for one in told["waiting"]] == [
        (number + 1, f"muster:g{number}") for number in range(3)
    ]
    assert {(one["namespace"], one["reason"]) for one in told["waiting"]} == {(scene.namespace, "QuotaExceeded")}
    assert [status_of(scene, f"muster:g{number}")["position"] for number in range(3)] == [1, 2, 3]
    assert "default" in names(ask(scene.kube, "queues"))


def test_kubectl_shows_tables_and_pages(scene: Scene, make_nodes: MakeNodes, cluster: base.Cluster, queue: str) -> None:
    (node,) = make_nodes(1)
    scene.fill(node, 8)
    for number in range(5):
        scene.pod(f"p-{number}")
        wait_answer(scene, f"pod:p-{number}", reason="InsufficientResources")
    shown = cluster.kubectl("get", WORKLOADS, "-n", scene.namespace, "--chunk-size=2")
    head, *rows = shown.splitlines()
    assert head.split() == ["NAME", "PHASE", "REASON", "QUEUE", "POSITION", "BOUND", "SINCE"]
    assert [row.split()[:4] for row in rows] == [
        [f"pod:p-{number}", "Pending", "InsufficientResources", "default"] for number in range(5)
    ]
    assert scene.namespace in cluster.kubectl("get", WORKLOADS, "-A")
    assert "pod:p-3" in cluster.kubectl("get", WORKLOADS, "pod:p-3", "-n", scene.namespace)
    assert "default" in cluster.kubectl("get", QUEUES)
    raw = cluster.kubectl("get", "--raw", f"{API}/namespaces/{scene.namespace}/workloads/pod:p-0")
    assert json.loads(raw)["status"]["reason"] == "InsufficientResources"
    # the short name stays that of our definition
    assert cluster.kubectl("get", "queues", queue, "-o", "name").split() == [f"queue.muster.dev/{queue}"]


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("namespaces/{ns}/workloads/muster:missing", 404, "NotFound"),
        ("namespaces/{ns}/workloads/missing", 404, "NotFound"),
        ("namespaces/{ns}/workloads/pod:%C3%BC%2F..", 404, "NotFound"),
        ("queues/missing", 404, "NotFound"),
        ("namespaces/{ns}/workloads?watch=1", 405, "MethodNotAllowed"),
        ("workloads?labelSelector=a%3Db", 400, "BadRequest"),
        ("workloads?limit=-1", 400, "BadRequest"),
        ("workloads?continue=%00", 400, "BadRequest"),
        ("nothing", 404, "NotFound"),
    ],
)
def test_what_cannot_be_answered_is_a_status_that_says_why(scene: Scene, path: str, status: int, reason: str) -> None:
    with pytest.raises(kube_module.ApiError) as refused:
        ask(scene.kube, path.format(ns=scene.namespace))
    assert (refused.value.status, refused.value.reason) == (status, reason)


# --- who may ask -------------------------------------------------------------------------------------


def test_rights_of_the_cluster_decide_who_is_answered(scene: Scene, cluster: base.Cluster, namespace: str) -> None:
    scene.pod("p")
    wait_answer(scene, "pod:p", phase="Pending")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant", "namespace": namespace}}
    scene.kube.create(account)
    tenant = kube_module.Kube(cluster.kubeconfig_for_service_account(namespace, "tenant"))
    mine = f"namespaces/{namespace}/workloads"
    with pytest.raises(kube_module.ApiError) as refused:
        ask(tenant, mine)
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "tenant", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}],
    }
    scene.kube.create(binding)
    answer = waiting.wait_for(lambda: ask(tenant, mine), SOON, "the tenant may ask")
    assert names(answer) == ["pod:p"]
    assert ask(tenant, f"{mine}/pod:p")["metadata"]["uid"] == scene.pods()[0]["metadata"]["uid"]
    for path in ("workloads", "namespaces/default/workloads", "queues", "queues/default"):
        with pytest.raises(kube_module.ApiError) as refused:
            ask(tenant, path)
        assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
        assert "tenant" in refused.value.message
    scene.kube.delete("rolebindings.rbac.authorization.k8s.io", "tenant", namespace)
    waiting.wait_for(lambda: code_of(tenant, mine), SOON, "the right is taken", until=lambda code: code == 403)
    tenant.close()


def code_of(api: kube_module.Kube, path: str) -> int:
    try:
        ask(api, path)
    except kube_module.ApiError as error:
        return error.status
    return 200


def test_who_does_not_come_through_the_api_server_is_refused_whatever_it_says(
    scene: Scene, server: answers.Server
) -> None:
    headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    for path in (f"{API}/workloads", f"{API}/queues", API, "/apis", "/metrics", "/filter"):
        status, body = directly(server, path, headers)
        assert (status, json.loads(body)["reason"]) == (401, "Unauthorized")
    assert directly(server, "/healthz", {}) == (200, "ok")


def directly(server: answers.Server, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """One call past the API server, without a certificate."""
    context = ssl.create_default_context(cafile=str(server.cert))
    context.check_hostname = False
    connection = http.client.HTTPSConnection(server.host, server.port, context=context, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()


# --- replicas and absence ----------------------------------------------------------------------------


def test_with_two_replicas_every_call_of_kubectl_is_answered(
    scene: Scene, cluster: base.Cluster, start_replica: Callable[..., muster.Replica]
) -> None:
    other = answers.Server(cluster)
    second = start_replica(hostname="answers-second", arguments=other.arguments)
    scene.pod("p")
    wait_answer(scene, "pod:p", phase="Pending")

    def turned_away() -> float:
        raw = cluster.kubectl("get", "--raw", f"{API}/namespaces/{scene.namespace}/workloads/pod:p")
        assert json.loads(raw)["metadata"]["name"] == "pod:p"
        return second.metric("extender", "muster_extender_answer_seconds_count", resource="workloads", code="503")

    with other.known("answers-second"):
        waiting.wait_for(turned_away, 60, "some calls came to the replica that does not act")


def test_while_nothing_answers_namespaces_wait_to_be_deleted_and_go_when_something_does(
    scene: Scene, kube: kube_module.Kube
) -> None:
    """The harm that makes the answers a choice: it is as the README tells, and ends by itself."""
    name = f"{scene.namespace}-gone"
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    scene.replica.extender.kill9()
    wait_registered(kube, "False")
    kube.delete("namespaces", name)
    waiting.wait_for(
        lambda: kube.get("namespaces", name).get("status", {}).get("conditions") or [],
        60,
        "its deletion says what it waits for",
        until=lambda found: [one for one in found if failed_discovery(one)],
    )
    scene.replica.heal()
    wait_registered(kube, "True")
    waiting.wait_for(lambda: kube.find("namespaces", name) is None, 120, "it is gone")


def failed_discovery(condition: Object) -> bool:
    named = condition["type"] == "NamespaceDeletionDiscoveryFailure" and condition["status"] == "True"
    return named and "visibility.muster.dev" in condition["message"]


def wait_registered(kube: kube_module.Kube, status: str) -> None:
    waiting.wait_for(
        lambda: kube.get("apiservices.apiregistration.k8s.io", answers.REGISTERED)["status"]["conditions"],
        60,
        f"available is {status}",
        until=lambda found: [one for one in found if (one["type"], one["status"]) == ("Available", status)],
    )
