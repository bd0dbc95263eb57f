"""Restarts: our own deletions are no events, replacements in place, back-off, bad nodes, and the limit of retries."""

from __future__ import annotations

from typing import Any

import pytest
from job_world import JobWorld, a_job, a_task, running

from extender.jobs.rules import places
from extender.jobs.rules.model import Record, Trouble
from extender.jobs.rules.restarts import backoff

W0, W1, W7 = "train-worker-0", "train-worker-1", "train-worker-7"


def policy(event: str, action: str) -> list[dict[str, Any]]:
    return [{"event": event, "action": action}]


def come_back(world: JobWorld, node: str = "node-a") -> None:
    """What was deleted is gone, what waits for its back-off is made, and all run."""
    for _ in range(4):
        world.finish_deleting()
        world.settle()
        if world.wake_at is not None and world.wake_at < world.now + 301:
            world.now = world.wake_at
            world.settle()
        world.run(node=node)
    world.settle()


def affinity_of(world: JobWorld, name: str) -> dict[str, Any]:
    found: dict[str, Any] = world.pods[name]["spec"].get("affinity", {}).get("nodeAffinity", {})
    return found


@pytest.mark.parametrize("action", ["RestartTask", "RestartJob", "RestartPod"])
@pytest.mark.parametrize("slowly", [False, True])
def test_pods_that_a_restart_deletes_do_not_restart_it_again(action: str, slowly: bool) -> None:
    """Volcano's issue 4814: PodEvicted -> RestartTask went round until maxRetry."""
    world = running(a_job(a_task("worker", 4, policies=policy("PodEvicted", action)), maxRetry=3))
    world.mark_deleting(W1)
    world.settle()
    assert world.retries == 1
    while any("deletionTimestamp" in pod["metadata"] for pod in world.pods.values()):
        if slowly:  # one after the other, each seen
            name = next(name for name, pod in world.pods.items() if "deletionTimestamp" in pod["metadata"])
            world.vanish(name)
        else:
            world.finish_deleting()
        world.settle()
    come_back(world)
    assert (world.phase, world.retries) == ("Running", 1)
    world.now += 10_000
    world.settle()
    assert (world.phase, world.retries) == ("Running", 1)


def test_an_aborted_job_is_not_evicted_and_a_resumed_one_is_not_retried() -> None:
    world = running(a_job(a_task("worker", 3), policies=policy("PodEvicted", "RestartJob")))
    world.end(W0)
    world.command("AbortJob")
    world.settle()
    assert (world.phase, world.retries) == ("Aborting", 0)
    world.command("ResumeJob")
    world.settle()
    assert world.phase == "Restarting"
    come_back(world)
    assert (world.phase, world.retries) == ("Running", 0)
    assert world.pods[W0]["status"]["phase"] == "Succeeded"


def test_a_job_that_was_stopped_whole_comes_back_without_a_loss() -> None:
    world = running(a_job(a_task("worker", 3), policies=policy("PodEvicted", "RestartJob")))
    world.command("AbortJob")
    world.settle()
    world.finish_deleting()
    world.settle()
    assert (world.phase, world.pods) == ("Aborted", {})
    world.command("ResumeJob")
    world.settle()
    come_back(world)
    assert (world.phase, world.retries) == ("Running", 0)


def test_a_completion_that_stopped_a_job_does_not_stop_it_again() -> None:
    data = a_task("data", 1, policies=policy("TaskCompleted", "AbortJob"))
    world = running(a_job(data, a_task("worker", 1)))
    world.end("train-data-0")
    world.settle()
    world.finish_deleting()
    world.settle()
    assert world.phase == "Aborted"
    world.command("ResumeJob")
    world.settle()
    come_back(world)
    assert world.phase == "Running"
    assert world.pods["train-data-0"]["status"]["phase"] == "Succeeded"


def test_a_failure_that_stopped_a_job_does_not_stop_it_again() -> None:
    world = running(a_job(a_task("worker", 2), policies=policy("PodFailed", "AbortJob")))
    world.end(W0, code=1)
    world.settle()
    come_back(world)
    assert world.phase == "Aborted"
    world.command("ResumeJob")
    world.settle()
    come_back(world)
    assert world.phase == "Running"


def test_a_command_is_carried_out_once_though_the_controller_dies_before_it_is_deleted() -> None:
    world = running(a_job(a_task("worker", 2), maxRetry=9))
    world.command("RestartJob")
    writes = iter([False, True])
    world.kill = lambda: next(writes, False)
    world.turn()
    assert (world.retries, len(world.commands)) == (1, 1)
    world.turn()
    assert (world.retries, len(world.commands)) == (1, 0)
    come_back(world)
    assert (world.phase, world.retries) == ("Running", 1)


def test_a_command_for_an_earlier_job_of_that_name_does_nothing_and_goes() -> None:
    world = running(a_job(a_task("worker", 2)))
    world.command("AbortJob")
    world.commands[0]["target"]["uid"] = "earlier"
    world.settle()
    assert (world.phase, world.commands) == ("Running", [])


def test_a_failed_worker_of_eight_comes_back_alone_on_its_node() -> None:
    world = running(a_job(a_task("worker", 8, policies=policy("PodFailed", "RestartPod")), plugins={"pytorch": []}))
    before = world.uids()
    world.end(W7, code=1)
    world.now += 1
    world.turn()
    assert [one.name for one in world.step.deletes] == [W7]
    world.finish_deleting()
    world.turn()
    assert [one.name for one in world.step.creates] == [W7]  # at once: its room is kept for ten seconds
    wish = affinity_of(world, W7)["preferredDuringSchedulingIgnoredDuringExecution"]
    assert wish[0]["preference"] == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}
    assert world.pods[W7]["metadata"]["labels"]["volcano.sh/task-index"] == "7"
    world.run()
    world.settle()
    assert {name for name, uid in world.uids().items() if uid != before[name]} == {W7}
    assert world.phase == "Running"


def test_an_evicted_member_without_a_policy_is_replaced_and_that_is_no_retry() -> None:
    world = running(a_job(a_task("worker", 8)))
    before = world.uids()
    world.mark_deleting(W1)
    world.settle()
    assert world.phase == "Running"
    assert [reason for reason, _ in world.events].count("MemberLost") == 1
    come_back(world)
    assert {name for name, uid in world.uids().items() if uid != before[name]} == {W1}
    assert (world.phase, world.retries) == ("Running", 0)
    assert affinity_of(world, W1)["preferredDuringSchedulingIgnoredDuringExecution"]


@pytest.mark.parametrize("reason", ["Evicted", "OutOfcpu", "UnexpectedAdmissionError", "NodeAffinity"])
def test_what_a_node_throws_out_is_replaced_and_is_not_asked_to_go_back_there(reason: str) -> None:
    world = running(a_job(a_task("worker", 2)))
    before = world.uids()
    world.end(W1, code=137, reason=reason)
    world.settle()
    come_back(world)
    assert {name for name, uid in world.uids().items() if uid != before[name]} == {W1}
    assert (world.phase, world.retries, affinity_of(world, W1)) == ("Running", 0, {})


def test_an_eviction_is_no_fault_of_the_node() -> None:
    world = running(a_job(a_task("worker", 2, policies=policy("PodFailed", "RestartPod")), maxRetry=9))
    for _ in range(4):
        world.end(W1, code=137, reason="Evicted")
        world.settle()
        come_back(world)
    assert world.retries == 4
    assert affinity_of(world, W1) == {}


def test_a_failed_member_without_a_policy_stays_failed() -> None:
    world = running(a_job(a_task("worker", 2)))
    world.end(W0, code=1)
    world.now += 10_000
    world.settle()
    assert world.status["failed"] == 1
    world.end(W1)
    world.settle()
    assert world.phase == "Failed"  # one of two, both needed


@pytest.mark.parametrize(("times", "seconds"), [(0, 0), (1, 0), (2, 10), (3, 20), (6, 160), (7, 300), (10**6, 300)])
def test_back_off(times: int, seconds: float) -> None:
    assert backoff(times) == seconds


def test_a_member_that_is_lost_again_and_again_comes_back_later_each_time() -> None:
    world = running(a_job(a_task("worker", 2)))
    waits = []
    for _ in range(5):
        world.vanish(W1)
        world.settle()
        at = world.now
        if W1 not in world.pods:
            assert world.wake_at is not None
            world.now = world.wake_at
            world.settle()
        waits.append(world.now - at)
        world.run()
        world.settle()
    assert waits == [0, 10, 20, 40, 80]
    world.now += 601  # it ran: forgotten
    world.settle()
    world.vanish(W1)
    world.settle()
    assert W1 in world.pods


def test_a_clock_that_is_set_back_holds_nobody_up() -> None:
    policies = policy("PodFailed", "RestartPod")
    world = running(a_job(a_task("worker", 2, policies=policies), maxRetry=9))
    world.mark_deleting(W0)
    world.settle()
    world.now -= 5000
    world.finish_deleting()
    world.settle()
    assert W0 in world.pods
    world.run()
    world.now += 100
    world.end(W1, code=1)  # by the clock of a node that is ahead
    world.now -= 100
    world.turn()
    assert (world.phase, world.retries) == ("Restarting", 1)


def test_a_node_on_which_the_job_fails_again_and_again_is_avoided_and_told() -> None:
    world = running(a_job(a_task("worker", 3, policies=policy("PodFailed", "RestartPod")), maxRetry=20))
    for times in range(1, 4):
        assert not affinity_of(world, W1).get("requiredDuringSchedulingIgnoredDuringExecution")
        world.end(W1, code=1)
        world.settle()
        assert any(reason == "BadNode" for reason, _ in world.events) == (times == 3)
        come_back(world)
    without = {"key": "metadata.name", "operator": "NotIn", "values": ["node-a"]}
    terms = affinity_of(world, W1)["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchFields": [without]}]
    assert "preferredDuringSchedulingIgnoredDuringExecution" not in affinity_of(world, W1)
    world.now += places.BAD_SECONDS + 1
    world.settle()
    world.vanish(W0)
    world.settle()
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in affinity_of(world, W0)


def test_a_bad_node_is_kept_out_of_each_alternative_that_the_author_gave() -> None:
    term = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
    required = {"nodeSelectorTerms": [term, {"matchFields": [{"key": "metadata.name"}]}]}
    spec: dict[str, Any] = {"affinity": {"nodeAffinity": {places._REQUIRED: required}, "podAffinity": {"a": 1}}}
    record = Record(nodes={"bad": Trouble(3, 5.0), "ok": Trouble(2, 5.0)})
    places.place(record, ("worker", 0), spec, now=10.0)
    without = {"key": "metadata.name", "operator": "NotIn", "values": ["bad"]}
    assert spec["affinity"]["nodeAffinity"][places._REQUIRED]["nodeSelectorTerms"] == [
        {**term, "matchFields": [without]},
        {"matchFields": [{"key": "metadata.name"}, without]},
    ]
    assert spec["affinity"]["podAffinity"] == {"a": 1}
    assert required["nodeSelectorTerms"][0] == {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}


def test_a_program_that_fails_everywhere_does_not_rule_out_the_cluster() -> None:
    record = Record(nodes={f"node-{number:02}": Trouble(9, float(number)) for number in range(30)})
    assert places.avoided(record, 40.0) == tuple(f"node-{number:02}" for number in range(22, 30))


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_a_job_is_restarted_fewer_times_than_maxretry_and_then_failed(most: int) -> None:
    world = running(a_job(a_task("worker", 2), policies=policy("PodFailed", "RestartJob"), maxRetry=most))
    for times in range(1, most + 1):
        assert world.phase == "Running"
        world.end(W0, code=1)
        world.settle()
        assert world.retries == times
        if times < most:
            come_back(world)
    assert (world.phase, world.status["state"]["reason"]) == ("Failed", "MaxRetryReached")
    world.finish_deleting()
    world.settle()
    assert world.names() == [W0]  # what failed is kept for whoever asks why
    assert world.status["failed"] == 1


def test_a_restart_waits_until_all_old_pods_are_gone() -> None:
    world = running(a_job(a_task("worker", 3), policies=policy("PodFailed", "RestartJob")))
    world.end(W0, code=1)
    world.settle()
    world.vanish(W0)
    world.settle()
    assert world.step.creates == ()
    assert world.phase == "Restarting"
    world.finish_deleting()
    world.turn()
    assert len(world.step.creates) == 3
    assert {pod["metadata"]["annotations"]["volcano.sh/job-version"] for pod in world.pods.values()} == {"1"}


def test_pods_of_an_earlier_job_of_that_name_hold_their_names_and_are_nobodys() -> None:
    world = running(a_job(a_task("worker", 2), policies=policy("PodEvicted", "AbortJob")))
    world.job = a_job(a_task("worker", 2), policies=policy("PodEvicted", "AbortJob"))
    world.job["metadata"]["uid"] = "99999999-another"
    world.turn()
    assert (world.step.creates, world.step.deletes) == ((), ())
    assert world.wake_at == world.now + 5
    assert world.status["state"]["reason"] == "NameTaken"
    assert W0 in world.status["state"]["message"]
    world.vanish(W0, W1)
    world.turn()
    assert "reason" not in world.status["state"]
    assert [one.name for one in world.step.creates] == [W0, W1]
    assert world.phase == "Pending"


def test_a_member_that_succeeded_counts_when_its_pod_is_gone() -> None:
    world = running(a_job(a_task("worker", 2)))
    world.end(W0)
    world.settle()
    world.vanish(W0)
    world.settle()
    assert world.names() == [W1]
    assert world.status["succeeded"] == 1
    assert world.status["taskStatusCount"]["worker"]["phase"] == {"Running": 1, "Succeeded": 1}
    world.end(W1)
    world.settle()
    assert world.phase == "Completed"


def test_a_job_that_is_being_deleted_is_left_alone() -> None:
    world = running(a_job(a_task("worker", 2)))
    world.job["metadata"]["deletionTimestamp"] = "2027-01-15T09:00:00Z"
    world.vanish(W0)
    world.turn()
    assert (world.step.creates, world.step.deletes, world.step.status, world.step.objects) == ((), (), None, ())


def run_of(world: JobWorld, name: str) -> str:
    return str(world.pods[name]["metadata"]["labels"]["muster.dev/run"])


@pytest.mark.parametrize(
    ("action", "restarted", "others"),
    [("RestartJob", "1.1", "1.1"), ("RestartTask", "0.1", "0.0"), ("RestartPod", "0.0", "0.0")],
)
def test_pods_say_of_which_restart_they_are(action: str, restarted: str, others: str) -> None:
    world = running(a_job(a_task("ps", 1), a_task("worker", 2, policies=policy("PodFailed", action))))
    assert {run_of(world, name) for name in world.names()} == {"0.0"}
    world.end(W1, code=1)
    for _ in range(3):
        world.settle()
        world.finish_deleting()
        world.settle()
        world.run()
    assert (run_of(world, W1), run_of(world, "train-ps-0")) == (restarted, others)
