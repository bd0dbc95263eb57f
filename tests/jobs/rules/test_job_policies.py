"""The table of policies: one case for every event and action, which of several counts, and when."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from job_world import JobWorld, a_job, a_task, running

from extender.jobs.rules import reading
from extender.jobs.rules.model import Action, Event
from extender.jobs.rules.refusals import Reason

W0, W1, W2 = "train-worker-0", "train-worker-1", "train-worker-2"


def _fail(world: JobWorld) -> None:
    world.end(W1, code=7)


def _evict(world: JobWorld) -> None:
    world.mark_deleting(W1)


def _complete(world: JobWorld) -> None:
    for name in (W0, W1, W2):
        world.end(name)


def _try_again(world: JobWorld) -> None:
    world.restart_containers(W1, 4)


def _unknown(world: JobWorld) -> None:
    world.vanish(W1)
    for _ in range(2):  # so long its room is kept
        world.settle()
        assert (world.phase, world.status["running"]) == ("Running", 3)
        world.now += 5


#: event -> what brings it about in a job of three workers that run, and the members that it is about
CAUSES: dict[Event, tuple[Callable[[JobWorld], None], set[str]]] = {
    Event.POD_FAILED: (_fail, {W1}),
    Event.POD_EVICTED: (_evict, {W1}),
    Event.TASK_COMPLETED: (_complete, {W0, W1, W2}),
    Event.TASK_FAILED: (_try_again, {W1}),
    Event.UNKNOWN: (_unknown, {W0, W1, W2}),
    Event.ANY: (_fail, {W1}),
}
ENDS = {
    Action.ABORT_JOB: ("Aborting", "Aborted"),
    Action.TERMINATE_JOB: ("Terminating", "Terminated"),
    Action.COMPLETE_JOB: ("Completing", "Completed"),
}
RESTARTS = (Action.RESTART_JOB, Action.RESTART_TASK, Action.RESTART_POD)


def job_with(event: str, action: str, **fields: Any) -> dict[str, Any]:
    event, action, ps = str(event), str(action), a_task("ps", 1)
    if event == Event.UNKNOWN:  # it is about the job: policies of a task never meet it
        return a_job(ps, a_task("worker", 3), policies=[{"event": event, "action": action}])
    return a_job(ps, a_task("worker", 3, policies=[{"event": event, "action": action, **fields}]))


@pytest.mark.parametrize(("event", "action"), list(itertools.product(CAUSES, Action)))
def test_each_event_and_action(event: Event, action: Action) -> None:
    world = running(job_with(event, action))
    before = world.uids()
    cause, about = CAUSES[event]
    cause(world)
    world.turn()
    if action is Action.RESUME_JOB:
        assert world.phase == "Running"
        assert world.retries == 0
    elif action in ENDS:
        assert world.phase in ENDS[action]
        world.finish_deleting()
        world.settle()
        assert world.phase == ENDS[action][1]
        assert all(pod["status"]["phase"] in ("Succeeded", "Failed") for pod in world.pods.values())
    else:
        assert (world.phase, world.retries) == ("Restarting", 1)
        wanted = {
            Action.RESTART_JOB: {"train-ps-0", W0, W1, W2},
            Action.RESTART_TASK: {W0, W1, W2},
            Action.RESTART_POD: about,
        }[action]
        if event is Event.UNKNOWN:  # no task or pod in particular: the whole job
            wanted = {"train-ps-0", W0, W1, W2}
        for _ in range(3):
            world.finish_deleting()
            world.settle()
            world.run()
        world.settle()
        anew = {name for name, uid in world.uids().items() if uid != before[name]}
        assert anew == wanted
        assert world.phase == "Running"
        assert world.retries == 1


@pytest.mark.parametrize("action", list(Action))
def test_a_pod_that_is_pending_too_long(action: Action) -> None:
    world = JobWorld(job_with(Event.POD_PENDING, action, timeout="10m"))
    world.settle()
    world.now += 599
    world.settle()
    assert world.phase == "Pending"
    assert world.wake_at == world.now + 1
    world.now += 1
    world.turn()
    wanted = {**{one: ENDS[one][0] for one in ENDS}, **dict.fromkeys(RESTARTS, "Restarting")}
    assert world.phase == wanted.get(action, "Pending")


@pytest.mark.parametrize("action", list(Action))
def test_a_pod_that_runs(action: Action) -> None:
    world = JobWorld(job_with(Event.POD_RUNNING, action))
    world.settle()
    world.run(W0)
    world.turn()
    wanted = {**{one: ENDS[one][0] for one in ENDS}, **dict.fromkeys(RESTARTS, "Restarting")}
    assert world.phase == wanted.get(action, "Pending")


@pytest.mark.parametrize(
    ("event", "action"), list(itertools.product((Event.OUT_OF_SYNC, Event.COMMAND_ISSUED, "PodExploded"), Action))
)
def test_what_no_policy_may_wait_for_is_refused(event: str, action: Action) -> None:
    found = reading.decode_job(job_with(event, action))
    assert isinstance(found, reading.Refusal)
    assert found.reason is Reason.INVALID_POLICY


def test_a_policy_of_the_task_goes_before_that_of_the_job() -> None:
    world = running(
        a_job(
            a_task("ps", 1),
            a_task("worker", 3, policies=[{"event": "PodFailed", "action": "RestartPod"}]),
            policies=[{"event": "PodFailed", "action": "AbortJob"}],
        )
    )
    world.end(W2, code=1)
    world.turn()
    assert world.phase == "Restarting"
    world.end("train-ps-0", code=1)
    world.turn()
    assert world.phase == "Aborting"


def test_an_exit_code_is_one_of_any_container_and_the_first_policy_counts() -> None:
    policies = [{"exitCode": 137, "action": "RestartJob"}, {"event": "PodFailed", "action": "TerminateJob"}]
    for code, phase in ((137, "Restarting"), (1, "Terminating")):
        world = running(a_job(a_task("worker", 3), policies=policies))
        world.end(W0, code=code)
        world.turn()
        assert world.phase == phase, code


def test_a_policy_of_several_events() -> None:
    policies = [{"events": ["PodEvicted", "TaskCompleted"], "action": "CompleteJob"}]
    world = running(a_job(a_task("master", 1, policies=policies), a_task("worker", 2)))
    world.end("train-master-0")
    world.turn()
    assert world.phase == "Completing"
    assert world.status["taskStatusCount"]["worker"] == {"phase": {"Running": 2}}
    world.finish_deleting()
    world.settle()
    assert world.phase == "Completed"
    assert world.status["succeeded"] == 1
    assert world.names() == ["train-master-0"]


def test_any_event_means_no_pod_that_has_done_nothing() -> None:
    world = running(a_job(policies=[{"event": "*", "action": "AbortJob"}]))
    assert world.phase == "Running"


def test_an_eviction_that_is_made_good_in_time_is_none() -> None:
    policies = [{"event": "PodEvicted", "action": "RestartJob", "timeout": "1m"}]
    for delay, phase in ((59.0, "Running"), (60.0, "Restarting")):
        world = running(a_job(a_task("worker", 3), policies=policies))
        world.mark_deleting(W1)
        world.settle()
        world.finish_deleting()
        world.settle()
        world.now += delay
        if delay < 60:
            world.run()
        world.turn()
        assert world.phase == phase
        if delay < 60:
            world.end(W1, code=1)  # it has come back, and this is another matter
        world.now += 60
        world.turn()
        assert world.retries == (phase == "Restarting")


def test_a_failure_with_a_timeout_waits_and_the_job_does_not_end_before() -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob", "timeout": "30s"}]
    world = running(a_job(a_task("worker", 1), policies=policies))
    world.end(W0, code=1)
    world.settle()
    assert (world.phase, world.wake_at) == ("Running", world.now + 30)
    world.now += 30
    world.turn()
    assert world.phase == "Restarting"


def test_what_kubelet_evicts_is_evicted_and_has_failed() -> None:
    for event in ("PodEvicted", "PodFailed"):
        world = running(a_job(a_task("worker", 3), policies=[{"event": event, "action": "RestartJob"}]))
        world.end(W0, code=137, reason="Evicted")
        world.turn()
        assert world.phase == "Restarting", event


def test_the_oldest_event_counts_where_two_are_about_the_whole_job() -> None:
    """A master that ends makes its workers fail: that is no failure of the job."""
    world = running(
        a_job(
            a_task("master", 1, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}]),
            a_task("worker", 2),
            policies=[{"event": "PodFailed", "action": "RestartJob"}],
        )
    )
    world.end("train-master-0")
    world.now += 1
    world.end(W0, code=255)
    world.turn()
    assert world.phase == "Completing"
