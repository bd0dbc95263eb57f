"""Gangs start whole or not at all, and what they wait for is everybody else's meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from e2e import objects, waiting
from e2e.scenes import SOON, Scene

MakeNodes = Callable[..., list[str]]
# A member without a queue of its own comes gated, as its group may name any; one that names an open queue does not.
ways = pytest.mark.parametrize(
    "queue",
    [
        pytest.param("", id="gated", marks=pytest.mark.gates),
        pytest.param("default", id="ungated"),
    ],
)


def gated(scene: Scene, group: str) -> int:
    return sum(bool(pod["spec"].get("schedulingGates")) for pod in scene.pods(group))


@ways
def test_a_gang_of_64_binds_whole_over_8_nodes(scene: Scene, make_nodes: MakeNodes, queue: str) -> None:
    nodes = make_nodes(8)
    scene.group("g", 64)
    scene.gang("g", 64, queue=queue)
    placed = scene.wait_whole("g", 64)
    assert Counter(placed.values()) == dict.fromkeys(nodes, 8)
    assert scene.wait_running("g")["scheduled"] == 64
    scene.wait_sound()


@ways
def test_with_room_for_63_of_64_nothing_binds_others_get_the_room_and_it_starts_when_room_appears(
    scene: Scene, make_nodes: MakeNodes, queue: str
) -> None:
    nodes = make_nodes(8)
    scene.fill(nodes[0], 1)
    scene.group("big", 64)
    scene.gang("big", 64, queue=queue)
    scene.wait_says("big", "InsufficientResources")
    assert gated(scene, "big") == 64 if not queue else gated(scene, "big") < 64
    assert scene.bound("big") == {}
    # All that is free is for whoever can use it: 63 of 63 go to a smaller gang that came later.
    scene.group("small", 63)
    scene.gang("small", 63)
    scene.wait_whole("small", 63)
    assert scene.bound("big") == {}
    scene.kube.delete_all("pods", scene.namespace, labels="muster.dev/pod-group=small", grace=0)
    waiting.wait_for(lambda: scene.pods("small"), SOON, "small is gone", until=lambda left: not left)
    scene.wait_says("big", "InsufficientResources")
    assert scene.bound("big") == {}
    scene.delete("filler")
    scene.wait_started("big", 64)
    scene.wait_sound()


@ways
def test_a_gang_starts_within_two_seconds_of_a_new_node(scene: Scene, make_nodes: MakeNodes, queue: str) -> None:
    make_nodes(1, gpus=3)
    scene.group("g", 4)
    scene.gang("g", 4, queue=queue)
    scene.wait_says("g", "InsufficientResources")
    assert scene.bound("g") == {}
    make_nodes(1, gpus=1)
    scene.wait_started("g", 4)


@ways
def test_without_its_launcher_a_gang_does_not_start_though_enough_workers_exist(
    scene: Scene, make_nodes: MakeNodes, queue: str
) -> None:
    make_nodes(2)
    scene.group("job", 4, tasks={"launcher": 1, "worker": 3})
    scene.gang("job", 5, task="worker", queue=queue)
    scene.wait_says("job", "WaitingForMembers")
    assert "task launcher, have 0, minimum 1" in scene.message("job")
    assert scene.bound("job") == {}
    assert scene.held("job") == {}
    scene.gang("job", 1, gpus=0, first=5, task="launcher", queue=queue)
    scene.wait_started("job", 6)


def test_of_two_gangs_interleaved_pod_by_pod_one_runs_and_the_other_has_nothing_bound(
    scene: Scene, make_nodes: MakeNodes
) -> None:
    make_nodes(2, gpus=4)
    for name in ("a", "b"):
        scene.group(name, 8)
    for number in range(8):
        for name in ("a", "b"):
            scene.gang(name, 1, first=number, queue="default")
    waiting.wait_for(
        lambda: sorted((len(scene.bound(name)), scene.said(name)) for name in ("a", "b")),
        SOON,
        "one has all, the other waits for room",
        until=lambda found: found == [(0, "InsufficientResources"), (8, "")],
    )
    scene.wait_sound()


def test_ten_gangs_on_half_the_room_all_finish_in_turn_with_no_timeout_to_break_a_deadlock(
    scene: Scene, make_nodes: MakeNodes
) -> None:
    make_nodes(5, gpus=4)
    names = [f"g{number}" for number in range(10)]
    before = _rounds_called_off(scene)
    for name in names:
        scene.group(name, 4)
    for number in range(4):
        for name in names:
            scene.gang(name, 1, first=number, queue="default")
    done: set[str] = set()

    def finish_what_runs() -> set[str]:
        pods = scene.pods()
        running = Counter(pod["metadata"]["name"].partition("-")[0] for pod in pods if objects.is_bound(pod))
        for name, count in running.items():
            if count < 4:  # its release is being written at this moment
                scene.wait_started(name, 4)
        for pod in pods:
            if pod["status"]["phase"] == "Running":
                finished = {"status": {"phase": "Succeeded"}}
                scene.kube.patch("pods", pod["metadata"]["name"], finished, scene.namespace, subresource="status")
        done.update(pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Succeeded")
        return done

    waiting.wait_for(finish_what_runs, 2 * SOON, "all have finished", until=lambda found: len(found) == 40)
    assert _rounds_called_off(scene) == before
    scene.wait_sound()


def _rounds_called_off(scene: Scene) -> float:
    """Rounds at the gate that ended otherwise than by a release."""
    outcomes = ("failed", "expired", "partial", "rolled-back")
    return sum(scene.replica.metric("gate", "muster_gate_rounds_total", outcome=outcome) for outcome in outcomes)


def test_more_replicas_than_the_minimum_start_with_the_minimum_and_the_rest_when_there_is_room(
    scene: Scene, make_nodes: MakeNodes
) -> None:
    make_nodes(1, gpus=3)
    scene.group("g", 3)
    scene.gang("g", 5)
    scene.wait_bound("g", 3)
    waiting.wait_for(
        lambda: (scene.phase("g"), scene.said("g")),
        SOON,
        "it runs, and the rest waits for room",
        until=lambda said: said == ("Running", "InsufficientResources"),
    )
    make_nodes(1, gpus=1)
    scene.wait_started("g", 4)
    make_nodes(1, gpus=1)
    scene.wait_started("g", 5)
    scene.wait_sound()


def test_a_replacement_of_a_member_that_ran_is_bound_alone(scene: Scene, make_nodes: MakeNodes) -> None:
    make_nodes(1, gpus=3)
    scene.group("g", 3)
    scene.gang("g", 3)
    scene.wait_bound("g", 3)
    scene.delete("g-1")
    scene.gang("g", 1, first=7)
    placed = scene.wait_started("g", 3)
    assert sorted(placed) == ["g-0", "g-2", "g-7"]
