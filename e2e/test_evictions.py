"""Reclaim and preemption: who goes and who stays, that it is on record before it happens, and that it comes to rest.

Victims are pods of ReplicaSets, so that replacements come at once and want back what they had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e import history, objects, scenes, waiting
from e2e.cluster.muster import Replica
from e2e.kube import Kube
from e2e.queue_trees import Queues
from e2e.scenes import SOON

Object = dict[str, Any]
MakeNodes = Callable[..., list[str]]
GPUS = 8
#: victims have no grace here unless a test gives them some
EVICTED_WITHIN = 30.0
#: so many cycles later nothing has moved: it has come to rest
REST_CYCLES = 60


@pytest.fixture
def scene(kube: Kube, replica: Replica, namespace: str) -> Iterator[scenes.Scene]:
    with scenes.cleared(kube, replica, namespace, "replicasets.apps", "poddisruptionbudgets.policy") as made:
        yield made


@pytest.fixture
def queues(kube: Kube, namespace: str) -> Iterator[Queues]:
    made = Queues(kube, namespace)
    yield made
    made.delete()


def gpus(number: int) -> dict[str, int]:
    return {objects.GPU: number}


def owned(scene: scenes.Scene, name: str, replicas: int, *, gpus: int = 1, **options: Any) -> Object:
    """Pods that a ReplicaSet replaces; options as for objects.pod."""
    pod = objects.pod("any", scene.namespace, gpus, labels={"app": name}, **options)
    template = {"metadata": {key: pod["metadata"][key] for key in ("labels", "annotations")}, "spec": pod["spec"]}
    return scene.kube.create(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": scene.namespace},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
        }
    )


def of(scene: scenes.Scene, name: str) -> list[Object]:
    """The pods of a ReplicaSet that are there."""
    return scene.kube.list("pods", scene.namespace, labels=f"app={name}")


def running(scene: scenes.Scene, name: str) -> set[str]:
    """The uids of its pods that are bound and stay."""
    return {
        pod["metadata"]["uid"]
        for pod in of(scene, name)
        if objects.is_bound(pod) and "deletionTimestamp" not in pod["metadata"]
    }


def wait_running(scene: scenes.Scene, name: str, number: int) -> set[str]:
    """Wait until so many are ready: only a pod that is counts in its budget."""

    def ready() -> set[str]:
        return {
            pod["metadata"]["uid"]
            for pod in of(scene, name)
            if any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))
        }

    waiting.wait_for(ready, 2 * SOON, f"{number} of {name} are ready", until=lambda uids: len(uids) == number)
    return running(scene, name)


def evictions(scene: scenes.Scene) -> list[Any]:
    """The evictions that the extender asked for in this namespace."""
    through = scene.replica.options.proxies["extender"]
    return through.writes_of("POST", f"/namespaces/{scene.namespace}/pods/[^/]*/eviction$")


def wait_cycles(scene: scenes.Scene, number: int = REST_CYCLES) -> None:
    """Wait until the engine has looked at everything so many times more."""

    def cycles() -> float:
        return scene.replica.metric("extender", "muster_extender_cycle_seconds_count")

    before = cycles()
    waiting.wait_for(cycles, 60, f"{number} more cycles", until=lambda now: now >= before + number)


def assert_at_rest(scene: scenes.Scene) -> None:
    """Nobody is bound or evicted any more while nothing else happens."""
    before, asked = scene.bound(), len(evictions(scene))
    wait_cycles(scene)
    assert (scene.bound(), len(evictions(scene))) == (before, asked)


def start(scene: scenes.Scene, name: str, size: int, queue: str, **options: Any) -> None:
    """Create a group and its members in a queue."""
    scene.group(name, size, queue=queue)
    scene.gang(name, size, queue=queue, **options)


def assert_told(scene: scenes.Scene, seen: history.History, rule: str, victims: set[str], claimant: str) -> None:
    """Each victim bore its record, for this claimant, before the API server marked it, and an Event says the same."""
    records = seen.records(scene.kube)
    assert set(records) == victims
    for found in records.values():
        (record,) = found
        assert record is not None
        assert record["rule"] == rule
        assert claimant in str(record["for"])
        assert {"at", "queue"} <= set(record)
    stages: dict[str, list[str]] = {}
    for name, stage in seen.story(scene.kube):
        stages.setdefault(name, []).append(stage)
    told = [found for found in stages.values() if "recorded" in found]
    assert told == [["bound", "recorded", "target", "leaving", "gone"]] * len(victims)
    events = waiting.wait_for(
        lambda: [event for event in scene.events("Pod") if event["reason"] == rule],
        SOON,
        "an Event for each victim",
        until=lambda found: len(found) >= len(victims),
    )
    assert {event["involvedObject"]["uid"] for event in events} == victims
    assert all(claimant in event["message"] for event in events)


def test_a_queue_takes_back_what_it_deserves_and_no_more(
    scene: scenes.Scene, queues: Queues, seen: history.History, make_nodes: MakeNodes
) -> None:
    make_nodes(2, GPUS)
    owed, borrower = (queues.make(name, deserved=gpus(GPUS)) for name in ("owed", "borrower"))
    owned(scene, "lent", 2 * GPUS, queue=borrower)
    before = wait_running(scene, "lent", 2 * GPUS)
    start(scene, "gang", GPUS, owed)
    scene.wait_bound("gang", GPUS, EVICTED_WITHIN)
    after = wait_running(scene, "lent", GPUS)
    assert after < before  # those that stayed were left alone
    assert len(evictions(scene)) == GPUS
    assert_told(scene, seen, "Reclaimed", before - after, "gang")
    assert_at_rest(scene)
    assert len(of(scene, "lent")) == 2 * GPUS  # the replacements wait
    assert seen.twice(scene.kube) == {}


#: what stays on the group's object: by source, where
LAST: dict[str, Callable[[Object], str]] = {
    "muster": lambda group: group["status"]["lastEviction"]["rule"],
    "native": lambda group: next(
        (one["reason"] for one in group["status"]["conditions"] if one["type"] == "muster.dev/Evicted"), ""
    ),
    "scheduler-plugins": lambda group: group["metadata"].get("annotations", {}).get("muster.dev/last-eviction", ""),
    "volcano": lambda group: group["metadata"].get("annotations", {}).get("muster.dev/last-eviction", ""),
}


@pytest.mark.parametrize("source", LAST)
def test_a_gang_is_preempted_whole_and_its_replacements_wait_whole(
    scene: scenes.Scene, queues: Queues, seen: history.History, make_nodes: MakeNodes, source: str
) -> None:
    make_nodes(1, GPUS)
    queue = queues.make("q")
    classes = {f"{scene.namespace}-{name}": value for name, value in (("low", 10), ("high", 20))}
    low, high = ({"priorityClassName": name} for name in classes)
    with scenes.priority_classes(scene.kube, **classes):
        scene.group("low", 6, source)
        owned(scene, "low", 6, group="low", source=source, queue=queue, spec=low)
        before = wait_running(scene, "low", 6)
        start(scene, "high", 4, queue, spec=high)
        scene.wait_bound("high", 4, EVICTED_WITHIN)
        waiting.wait_for(lambda: running(scene, "low"), SOON, "all of the gang went", until=lambda left: not left)
        assert_told(scene, seen, "Preempted", before, "high")
        waiting.wait_for(
            lambda: LAST[source](scene.get_group("low", source)),
            SOON,
            "it is on record",
            until=lambda said: "Preempted" in said,
        )
        if source != "native":  # its condition, once true, stays true
            scene.wait_says("low", "InsufficientResources", source)
        assert_at_rest(scene)
        assert len(of(scene, "low")) == 6
        assert running(scene, "low") == set()
        scene.kube.delete_all("pods", scene.namespace, labels="muster.dev/pod-group=high", grace=0)
        wait_running(scene, "low", 6)


def test_equal_priority_in_one_queue_takes_nothing(scene: scenes.Scene, queues: Queues, make_nodes: MakeNodes) -> None:
    make_nodes(1, GPUS)
    queue = queues.make("q")
    owned(scene, "first", GPUS, queue=queue)
    wait_running(scene, "first", GPUS)
    start(scene, "late", 4, queue)
    scene.wait_says("late", "InsufficientResources")
    assert_at_rest(scene)
    assert evictions(scene) == []


def test_a_budget_that_lets_too_few_go_keeps_all_and_one_that_lets_enough_go_is_kept(
    scene: scenes.Scene, queues: Queues, make_nodes: MakeNodes
) -> None:
    make_nodes(2, GPUS)
    owed, borrower = (queues.make(name, deserved=gpus(GPUS)) for name in ("owed", "borrower"))
    scene.kube.create(objects.budget("most", scene.namespace, {"app": "lent"}, minAvailable=12))
    owned(scene, "lent", 2 * GPUS, queue=borrower)
    before = wait_running(scene, "lent", 2 * GPUS)
    waiting.wait_for(
        lambda: scene.kube.get("poddisruptionbudgets.policy", "most", scene.namespace)["status"]["disruptionsAllowed"],
        SOON,
        "the budget lets four go",
        until=lambda allowed: allowed == 4,
    )
    start(scene, "eight", 8, owed)
    scene.wait_says("eight", "NoEligibleVictims")
    assert_at_rest(scene)
    assert (running(scene, "lent"), evictions(scene)) == (before, [])
    start(scene, "four", 4, owed)
    scene.wait_bound("four", 4, EVICTED_WITHIN)
    assert_at_rest(scene)
    assert [written.status for written in evictions(scene)] == [201] * 4
    assert len(running(scene, "lent")) == 12
    assert scene.bound("eight") == {}


def test_nobody_starts_before_the_victims_have_had_their_grace(
    scene: scenes.Scene, queues: Queues, seen: history.History, make_nodes: MakeNodes
) -> None:
    make_nodes(1, GPUS)
    owed, borrower = queues.make("owed", deserved=gpus(GPUS)), queues.make("borrower", deserved=gpus(0))
    owned(scene, "lent", GPUS, queue=borrower, spec={"terminationGracePeriodSeconds": 3})
    wait_running(scene, "lent", GPUS)
    start(scene, "gang", GPUS, owed)
    leaving = waiting.wait_for(
        lambda: [pod for pod in of(scene, "lent") if objects.is_bound(pod) and "deletionTimestamp" in pod["metadata"]],
        SOON,
        "the victims leave",
        until=lambda found: len(found) == GPUS,
    )
    assert {pod["metadata"]["deletionGracePeriodSeconds"] for pod in leaving} == {3}
    scene.wait_says("gang", "WaitingForVictims")
    scene.wait_bound("gang", GPUS, EVICTED_WITHIN)
    story = seen.story(scene.kube)
    started = min(story.index((f"gang-{number}", "bound")) for number in range(GPUS))
    assert all(story.index((pod["metadata"]["name"], "gone")) < started for pod in leaving)
    assert_at_rest(scene)


def test_what_has_not_run_for_long_enough_stays(scene: scenes.Scene, queues: Queues, make_nodes: MakeNodes) -> None:
    make_nodes(1, GPUS)
    owed = queues.make("owed", deserved=gpus(GPUS))
    borrower = queues.make("borrower", deserved=gpus(0), minRuntimeSeconds=3600)
    owned(scene, "lent", GPUS, queue=borrower)
    before = wait_running(scene, "lent", GPUS)
    start(scene, "gang", GPUS, owed)
    scene.wait_says("gang", "NoEligibleVictims")
    assert_at_rest(scene)
    assert (running(scene, "lent"), evictions(scene)) == (before, [])
    queues.patch("borrower", minRuntimeSeconds=0)
    scene.wait_bound("gang", GPUS, EVICTED_WITHIN)


def test_a_restart_in_the_middle_evicts_nobody_twice(
    scene: scenes.Scene, queues: Queues, make_nodes: MakeNodes
) -> None:
    make_nodes(2, GPUS)
    owed, borrower = (queues.make(name, deserved=gpus(GPUS)) for name in ("owed", "borrower"))
    owned(scene, "lent", 2 * GPUS, queue=borrower, spec={"terminationGracePeriodSeconds": 5})
    before = wait_running(scene, "lent", 2 * GPUS)
    start(scene, "gang", GPUS, owed)
    waiting.wait_for(lambda: before - running(scene, "lent"), SOON, "victims leave")
    scene.replica.extender.kill9()
    scene.replica.heal()
    scene.wait_bound("gang", GPUS, 2 * EVICTED_WITHIN)
    assert_at_rest(scene)
    assert running(scene, "lent") <= before
    assert len(running(scene, "lent")) == GPUS
