"""Another scheduler binds to the node that a binding of ours is on its way to: what does not fit is undone.

The gate's Bindings are held by the proxy while the other one is made, so that both land and neither saw the other. The
kubelets are KWOK's and refuse nothing, so the repair is left to Muster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e import history, objects, scenes, starts, waiting
from e2e.cluster.muster import Replica
from e2e.kube import Kube

Object = dict[str, Any]
GPUS = 8
#: the kubelet has 10 s; a look each second, and a busy machine
REPAIRED = 40.0
OVERCOMMITTED = "muster_extender_overcommitted_nodes"


@pytest.fixture
def scene(kube: Kube, replica: Replica, namespace: str) -> Iterator[scenes.Scene]:
    with scenes.cleared(kube, replica, namespace, "replicasets.apps", "poddisruptionbudgets.policy") as made:
        yield made


def owned(scene: scenes.Scene, name: str, replicas: int, group: str = "") -> Object:
    """Pods of ours of all GPUs of a node each, which a ReplicaSet replaces."""
    pod = objects.pod("any", scene.namespace, GPUS, group=group, labels={"app": name})
    template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
    return scene.kube.create(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": scene.namespace},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
        }
    )


def race(scene: scenes.Scene, number: int, create: Callable[[], Any]) -> str:
    """Have so many pods bound by us, and one by another scheduler beside the first of them; the node where they met."""
    through = scene.replica.options.proxies["gate"]
    before = len(through.writes_of("POST", "/binding$"))
    held = starts.hold_bindings(through, scene.namespace)
    create()
    held.wait_hit(number)
    node = str(through.writes_of("POST", "/binding$")[before].json["target"]["name"])
    scene.pod("theirs", 1, scheduler="somebody-else")
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "theirs"}, "target": target}
    scene.kube.request("POST", f"/api/v1/namespaces/{scene.namespace}/pods/theirs/binding", binding)
    held.release()
    waiting.wait_for(scene.bound, 20, "all are bound", until=lambda found: len(found) == number + 1)
    return node


def ours(scene: scenes.Scene) -> dict[str, Object]:
    """Our pods by their uids."""
    return {pod["metadata"]["uid"]: pod for pod in scene.pods() if pod["metadata"]["name"] != "theirs"}


def evictions(scene: scenes.Scene) -> list[Any]:
    """The evictions that the extender asked for in this namespace."""
    through = scene.replica.options.proxies["extender"]
    return through.writes_of("POST", f"/namespaces/{scene.namespace}/pods/[^/]*/eviction$")


def overcommitted(scene: scenes.Scene) -> float:
    """On how many nodes more is bound than they have, as the extender tells."""
    return scene.replica.metric("extender", OVERCOMMITTED)


def wait_repaired(scene: scenes.Scene, before: set[str], number: int) -> dict[str, Object]:
    """Wait until so many new pods of ours are bound and none of the old ones is left."""
    return waiting.wait_for(
        lambda: ours(scene),
        REPAIRED,
        f"{number} new pods run instead",
        until=lambda found: (
            len(found) == number and not before & set(found) and all(map(objects.is_bound, found.values()))
        ),
    )


def test_our_pod_goes_and_starts_elsewhere(
    scene: scenes.Scene, seen: history.History, make_nodes: Callable[..., list[str]]
) -> None:
    nodes = make_nodes(2, GPUS)
    node = race(scene, 1, lambda: owned(scene, "solo", 1))
    before = ours(scene)
    waiting.wait_for(lambda: overcommitted(scene), 5, "the overcommit is told of")
    (new,) = wait_repaired(scene, set(before), 1).values()
    assert [new["spec"]["nodeName"]] == [name for name in nodes if name != node]
    assert scene.bound()["theirs"] == node
    waiting.wait_for(lambda: overcommitted(scene), 5, "no node is overcommitted", until=lambda number: number == 0)
    (uid,) = before
    (written,) = evictions(scene)
    assert written.json["deleteOptions"] == {"preconditions": {"uid": uid}}
    (event,) = waiting.wait_for(lambda: scene.events("Pod"), 5, "an event says why")
    assert (event["reason"], event["involvedObject"]["uid"]) == ("Overcommitted", uid)
    assert node in event["message"]
    assert f"{scene.namespace}/theirs" in event["message"]
    (record,) = seen.records(scene.kube)[uid]
    assert (record["rule"], record["node"]) == ("Overcommitted", node)


def test_a_gang_goes_whole_and_starts_anew_whole(scene: scenes.Scene, make_nodes: Callable[..., list[str]]) -> None:
    make_nodes(3, GPUS)
    scene.group("gang", 2)
    node = race(scene, 2, lambda: owned(scene, "gang", 2, group="gang"))
    before = set(ours(scene))
    new = wait_repaired(scene, before, 2)
    assert node not in {pod["spec"]["nodeName"] for pod in new.values()}
    assert len(evictions(scene)) == 2
    assert scene.bound()["theirs"] == node


def test_a_pod_that_nobody_would_replace_stays_and_is_told_of(
    scene: scenes.Scene, make_nodes: Callable[..., list[str]]
) -> None:
    make_nodes(2, GPUS)
    node = race(scene, 1, lambda: scene.pod("alone", GPUS))

    def outlooks() -> list[str]:
        lines = map(json.loads, scene.replica.extender.log_path.read_text().splitlines())
        return [line["outlook"] for line in lines if line.get("node") == node and "outlook" in line]

    waiting.wait_for(
        outlooks, REPAIRED, "the log says of the node why it stays so", until=lambda said: "NothingMayGo" in said
    )
    assert scene.bound() == {"alone": node, "theirs": node}
    assert evictions(scene) == []
    assert scene.replica.metric("extender", OVERCOMMITTED, outlook="NothingMayGo") == 1


#: budgets and how many pods each lets go; the status of the refused eviction
BUDGETS: dict[str, tuple[dict[str, int], int]] = {
    "one that lets nobody go": ({"never": 0}, 429),
    # the API server can take no leave of two
    "two that let everybody go": ({"always": 9, "always-too": 9}, 500),
}


@pytest.mark.parametrize(("budgets", "status"), BUDGETS.values(), ids=BUDGETS.keys())
def test_a_disruption_budget_is_respected_and_asked_again(
    scene: scenes.Scene,
    seen: history.History,
    make_nodes: Callable[..., list[str]],
    budgets: dict[str, int],
    status: int,
) -> None:
    make_nodes(2, GPUS)
    for name, unavailable in budgets.items():
        scene.kube.create(objects.budget(name, scene.namespace, {"app": "solo"}, maxUnavailable=unavailable))
    race(scene, 1, lambda: owned(scene, "solo", 1))
    before = ours(scene)
    waiting.wait_for(
        lambda: [written.status for written in evictions(scene)],
        REPAIRED,
        "an eviction is refused",
        until=lambda statuses: statuses == [status],
    )
    (uid,) = before
    waiting.wait_for(lambda: seen.records(scene.kube).get(uid), 5, "the record is put there and taken back",
                     until=lambda records: records and records[-1] is None)  # fmt: skip
    assert set(ours(scene)) == set(before)
    for name in budgets:
        scene.kube.delete("poddisruptionbudgets.policy", name, scene.namespace)
    wait_repaired(scene, set(before), 1)
    assert [written.status for written in evictions(scene)] == [status, 201]
    assert [record and record["rule"] for record in seen.records(scene.kube)[uid]] == [
        "Overcommitted",
        None,
        "Overcommitted",
    ]
