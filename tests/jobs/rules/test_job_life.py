"""How a job starts, grows, shrinks, and ends: phases, dependencies, minimums, time to live, and what users read."""

from __future__ import annotations

from typing import Any

import pytest
from job_world import JobWorld, a_job, a_task, running

W = [f"train-worker-{index}" for index in range(8)]


def test_a_new_job_makes_its_group_and_its_pods_in_one_step() -> None:
    world = JobWorld(a_job(a_task("ps", 1), a_task("worker", 2), minAvailable=2, queue="research"))
    step = world.turn()
    assert [one.name for one in step.creates] == ["train-ps-0", "train-worker-0", "train-worker-1"]
    assert [(one.kind, one.name) for one in step.objects] == [("PodGroup", "train-0f1e2d3c")]
    assert not step.urgent
    assert world.status == {
        "state": {"phase": "Pending", "lastTransitionTime": "2027-01-15T08:00:00Z"},
        "minAvailable": 2,
        "conditions": [{"status": "Pending", "lastTransitionTime": "2027-01-15T08:00:00Z"}],
    }


def test_a_job_runs_when_its_minimum_does_and_says_how_many() -> None:
    world = JobWorld(a_job(a_task("worker", 3), minAvailable=2))
    world.settle()
    world.run(W[0])
    world.settle()
    assert world.phase == "Pending"
    world.run(W[1])
    world.settle()
    assert world.phase == "Running"
    assert (world.status["running"], world.status["pending"]) == (2, 1)
    assert world.status["taskStatusCount"] == {"worker": {"phase": {"Pending": 1, "Running": 2}}}


#: what is asked of a job of a ps (1) and workers (3), how they end, and how it does
ENDINGS: dict[str, tuple[dict[str, Any], dict[str, Any], int, str]] = {
    "all succeed": ({}, {}, 4, "Completed"),
    "one fails, all are needed": ({}, {}, 3, "Failed"),
    "one fails, three are needed": ({"minAvailable": 3}, {}, 3, "Completed"),
    "two fail, three are needed": ({"minAvailable": 3}, {}, 2, "Failed"),
    "three must succeed and do": ({"minSuccess": 3, "minAvailable": 1}, {}, 3, "Completed"),
    "three must succeed and two do": ({"minSuccess": 3, "minAvailable": 1}, {}, 2, "Failed"),
    "a task's minimum fails, the job's does not": ({"minAvailable": 3}, {"minAvailable": 2}, 2, "Failed"),
}


@pytest.mark.parametrize("name", list(ENDINGS))
def test_how_a_job_ends(name: str) -> None:
    asked, of_workers, good, phase = ENDINGS[name]
    world = running(a_job(a_task("ps", 1), a_task("worker", 3, **of_workers), **asked))
    world.now += 65
    for place, pod in enumerate(world.names()):
        world.end(pod, code=0 if place < good else 1)
    world.settle()
    assert world.phase == phase
    assert world.status["runningDuration"] == "1m5s"
    assert (world.status.get("succeeded", 0), world.status.get("failed", 0)) == (good, 4 - good)
    assert [one["status"] for one in world.status["conditions"]] == ["Pending", "Running", phase]
    assert {one.kind for one in world.step.removals} == {"PodGroup"}


def test_min_success_ends_a_job_whose_others_run_on() -> None:
    world = running(a_job(a_task("worker", 3), minSuccess=1))
    world.end(W[2])
    world.settle()
    assert world.phase == "Completed"
    world.finish_deleting()
    world.settle()
    assert world.names() == [W[2]]


def test_a_finished_job_is_deleted_after_its_time() -> None:
    world = running(a_job(a_task("worker", 1), ttlSecondsAfterFinished=100))
    world.end(W[0])
    world.settle()
    assert (world.deleted, world.wake_at) == (False, world.now + 100)
    world.now += 99
    world.settle()
    assert not world.deleted
    world.now += 1
    world.turn()
    assert world.deleted
    assert world.step.delete_job


def test_an_aborted_job_has_no_time_to_live() -> None:
    world = running(a_job(a_task("worker", 1), ttlSecondsAfterFinished=0))
    world.command("AbortJob")
    world.settle()
    world.finish_deleting()
    world.now += 10_000
    world.settle()
    assert (world.phase, world.deleted) == ("Aborted", False)


@pytest.mark.parametrize(("iteration", "starts"), [("any", True), ("all", False), (None, False)])
def test_a_task_starts_when_those_that_it_waits_for_run(iteration: str | None, starts: bool) -> None:
    waits = {"name": ["a", "b"]} | ({"iteration": iteration} if iteration else {})
    world = JobWorld(a_job(a_task("c", 1, dependsOn=waits), a_task("a", 2), a_task("b", 1), minAvailable=4))
    world.settle()
    assert world.names() == ["train-a-0", "train-a-1", "train-b-0"]
    world.run("train-a-0")
    world.settle()
    assert "train-c-0" not in world.pods  # only one of two of a
    world.run("train-a-1")
    world.settle()
    assert ("train-c-0" in world.pods) == starts
    world.run("train-b-0")
    world.settle()
    assert "train-c-0" in world.pods


def test_a_task_starts_when_the_minimum_of_the_other_runs_and_is_not_held_back_again() -> None:
    world = JobWorld(a_job(a_task("b", 2, dependsOn={"name": ["a"]}), a_task("a", 3, minAvailable=1)))
    world.settle()
    world.run("train-a-0")
    world.settle()
    assert world.names() == ["train-a-0", "train-a-1", "train-a-2", "train-b-0", "train-b-1"]
    world.end("train-a-0", code=1)
    world.run("train-b-0")
    world.settle()
    world.vanish("train-b-0")
    world.settle()
    assert "train-b-0" in world.pods


def test_a_gang_does_not_wait_for_a_task_that_waits_for_it() -> None:
    world = JobWorld(a_job(a_task("master", 1, dependsOn={"name": ["worker"]}), a_task("worker", 3), minAvailable=4))
    group = world.turn().objects[0].body
    assert group["spec"] == {"minMember": 3, "queue": "default"}


def test_a_job_whose_next_task_can_never_start_has_failed() -> None:
    world = JobWorld(a_job(a_task("worker", 1), a_task("report", 1, dependsOn={"name": ["worker"]}), minAvailable=2))
    world.settle()
    world.end(W[0], code=1)
    world.settle()
    assert world.phase == "Failed"


def test_growing_and_shrinking_leave_the_others_alone_and_the_highest_go_first() -> None:
    world = running(a_job(a_task("worker", 4), minAvailable=2, plugins={"svc": [], "pytorch": []}))
    before = world.uids()
    world.job["spec"]["tasks"][0]["replicas"] = 6
    world.turn()
    assert [one.name for one in world.step.creates] == [W[4], W[5]]
    hosts = next(one for one in world.step.objects if one.kind == "ConfigMap").body["data"]
    assert hosts["VC_WORKER_NUM"] == "6"
    world.run()
    world.job["spec"]["tasks"][0]["replicas"] = 2
    world.settle()
    assert {name for name, pod in world.pods.items() if "deletionTimestamp" in pod["metadata"]} == set(W[2:6])
    world.finish_deleting()
    world.settle()
    assert world.uids() == {name: before[name] for name in W[:2]}
    assert (world.phase, world.retries) == ("Running", 0)


def test_members_that_we_took_away_were_not_evicted_though_they_are_wanted_again() -> None:
    policies = [{"event": "PodEvicted", "action": "AbortJob"}]
    world = running(a_job(a_task("worker", 4), minAvailable=2, policies=policies))
    world.job["spec"]["tasks"][0]["replicas"] = 2
    world.settle()
    world.job["spec"]["tasks"][0]["replicas"] = 4  # while they are still being deleted
    world.settle()
    assert world.phase == "Running"
    world.finish_deleting()
    world.settle()
    assert world.names() == W[:4]
    world.run()
    world.settle()
    assert world.phase == "Running"
    world.mark_deleting(W[3])
    world.settle()
    assert world.phase == "Aborting"


def test_a_job_that_is_scaled_to_nothing_keeps_its_phase() -> None:
    world = running(a_job(a_task("worker", 2), minAvailable=1))
    world.job["spec"]["tasks"][0]["replicas"] = 0
    world.job["spec"]["minAvailable"] = 0
    world.settle()
    world.finish_deleting()
    world.settle()
    assert (world.phase, world.pods) == ("Running", {})


def test_the_history_of_phases_is_bounded() -> None:
    world = running(a_job(a_task("worker", 1), policies=[{"event": "PodFailed", "action": "RestartJob"}], maxRetry=99))
    for _ in range(30):
        world.end(W[0], code=1)
        for _ in range(3):
            world.settle()
            world.finish_deleting()
            world.now += 301
            world.settle()
            world.run()
    world.settle()
    assert len(world.status["conditions"]) == 32
    assert world.phase == "Running"
