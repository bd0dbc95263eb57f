"""Two hundred random histories: pods fail, succeed, hang, are evicted and vanish, the controller sees late and is
killed between any two writes, users scale and command. Every job ends, or runs; numbers add up; nothing is done twice.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from job_world import JobWorld, a_job, a_task, read_job

from extender.jobs.rules import reading
from extender.jobs.rules.lifecycle import reconcile
from extender.jobs.rules.model import Job
from extender.jobs.rules.sight import look
from extender.jobs.rules.status import decode_status, encode_status

HISTORIES = 200
EVENTS = ("PodFailed", "PodEvicted", "PodPending", "TaskCompleted", "TaskFailed", "Unknown", "*")
ACTIONS = ("AbortJob", "RestartJob", "RestartTask", "RestartPod", "TerminateJob", "CompleteJob", "ResumeJob")
COMMANDS = ("AbortJob", "ResumeJob", "RestartJob", "TerminateJob", "CompleteJob", "RestartPod", "Nonsense")
DEEDS = (
    *("run", "run", "run", "end", "fail", "evict", "kubelet", "vanish", "gone", "gone", "retry"),
    *("scale", "command", "time", "time"),
)
TERMINAL = ("Completed", "Failed", "Terminated", "Aborted")
COUNTS = ("pending", "running", "succeeded", "failed", "terminating", "unknown")


def some_policies(chance: random.Random) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for event in chance.sample(EVENTS, chance.randint(0, 2)):
        policy = {"event": event, "action": chance.choice(ACTIONS)}
        if chance.random() < 0.3:
            policy["timeout"] = chance.choice(("5s", "1m", "10m"))
        found.append(policy)
    if any(one["event"] == "*" for one in found):
        found = [one for one in found if one["event"] == "*"]
    if chance.random() < 0.2:
        found.append({"exitCode": 3, "action": chance.choice(ACTIONS)})
    return found


def some_job(chance: random.Random) -> dict[str, Any]:
    names = ("ps", "worker", "evaluator")[: chance.randint(1, 3)]
    tasks = []
    for place, name in enumerate(names):
        fields: dict[str, Any] = {"policies": some_policies(chance)}
        if place and chance.random() < 0.4:
            fields["dependsOn"] = {"name": list(names[:place]), "iteration": chance.choice(("any", "all"))}
        if chance.random() < 0.3:
            fields["minAvailable"] = 1
        tasks.append(a_task(name, chance.randint(1, 4), **fields))
    total = sum(task["replicas"] for task in tasks)
    spec: dict[str, Any] = {"policies": some_policies(chance), "maxRetry": chance.randint(1, 5)}
    spec["minAvailable"] = chance.randint(1, total)
    if chance.random() < 0.2:
        spec["minSuccess"] = chance.randint(1, total)
    return a_job(*tasks, **spec)


def happen(world: JobWorld, chance: random.Random) -> None:
    """One thing that the world does to the job."""
    names = world.names()
    what = chance.choice(DEEDS)
    name = chance.choice(names) if names else ""
    if what == "run" and names:
        world.run(*chance.sample(names, chance.randint(1, len(names))), node=chance.choice(("node-a", "node-b")))
    elif what in ("end", "fail", "kubelet", "retry") and names and world.pods[name]["status"]["phase"] == "Running":
        if what == "retry":
            world.restart_containers(name, chance.randint(1, 5))
        else:
            code = 0 if what == "end" else chance.choice((1, 3, 137))
            world.end(name, code, "Evicted" if what == "kubelet" else "")
    elif what == "evict" and names:
        world.mark_deleting(name)
    elif what == "vanish" and names and chance.random() < 0.5:
        world.vanish(name)
    elif what == "gone":
        world.finish_deleting()
    elif what == "scale" and chance.random() < 0.3:
        scale(world, chance)
    elif what == "command" and chance.random() < 0.15:
        world.command(chance.choice(COMMANDS))
    elif what == "time":
        world.now += chance.choice((0.5, 3, 20, 400))


def scale(world: JobWorld, chance: random.Random) -> None:
    task = chance.choice(world.job["spec"]["tasks"])
    task["replicas"] = chance.randint(task.get("minAvailable", 1), 4)
    total = sum(one["replicas"] for one in world.job["spec"]["tasks"])
    world.job["spec"]["minAvailable"] = min(world.job["spec"]["minAvailable"], total)
    world.version += 1


def check(world: JobWorld) -> None:
    """What holds after every step, and that the same state gives the same step, and once it is carried out no more."""
    if world.shown is None:
        return
    job, pods = read_job(world.job), world.shown
    own = look(job, pods, job.status.record).own
    again = reconcile(job, pods, (), world.now)
    assert again == reconcile(job, pods, (), world.now)
    status = again.status or job.status
    gone = sum(len(found) for found in status.record.done.values())
    names = {pod.name for pod in own}
    gone -= sum(f"train-{task}-{index}" in names for task, found in status.record.done.items() for index in found)
    assert sum(getattr(status.counts, name) for name in COUNTS) == len(own) + gone
    assert 0 <= status.retries <= job.spec.max_retry
    assert decode_status(encode_plain(status)) == status
    after = reconcile(with_status(job, status), pods, (), world.now)
    assert after.status is None, "a status that was just written is written again"
    assert (after.deletes, after.creates) == (again.deletes, again.creates)
    assert after.events == ()
    assert not {one.name for one in again.creates} & {pod.name for pod in pods}


def encode_plain(status: Any) -> Any:
    return orjson.loads(orjson.dumps(encode_status(status)))


def with_status(job: Job, status: Any) -> Job:
    return replace(job, status=status)


def calm(world: JobWorld, hang: bool, judge: Callable[[JobWorld], None] = check) -> None:
    """From now on nothing bad happens: what is to go goes, what is made runs, and ends well or hangs for ever."""
    world.kill = lambda: False
    for _ in range(60):
        before = (world.uids(), world.status, len(world.commands))
        world.finish_deleting()
        world.turn()
        judge(world)
        world.run()
        world.turn()
        if not hang:
            for name, pod in world.pods.items():
                if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]:
                    world.end(name)
        world.turn()
        if before == (world.uids(), world.status, len(world.commands)) and world.wake_at is None:
            return
        if world.wake_at is not None:
            world.now = max(world.now, world.wake_at)
    raise AssertionError(f"no rest: {world.status}, {world.wake_at}, {world.step}")


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_history(seed: int) -> None:
    chance = random.Random(seed)
    world = JobWorld(some_job(chance))
    deadly = chance.choice((0.0, 0.05, 0.3))
    world.kill = lambda: chance.random() < deadly
    for _ in range(chance.randint(5, 60)):
        happen(world, chance)
        if chance.random() < 0.7:
            world.turn(late=chance.random() < 0.3, conflict=chance.random() < 0.05)
            check(world)
        if chance.random() < 0.05:
            world.shown = None
    calm(world, hang := chance.random() < 0.3)
    phases = (*TERMINAL, "Running") if hang else TERMINAL
    assert world.phase in phases, world.status
    alive = [pod for pod in world.pods.values() if pod["status"]["phase"] in ("Pending", "Running")]
    assert world.phase == "Running" or not alive
    assert world.commands == []


def played(seed: int, killed_at: int) -> tuple[dict[str, Any], int]:
    """How a short history ends when the controller is killed before its n-th write, and is there again at once; and
    how many writes there were."""
    chance, writes = random.Random(seed), itertools.count()
    job = some_job(chance)
    for one in (job["spec"], *job["spec"]["tasks"]):
        for policy in one["policies"]:
            # one that answers a pod the moment it is made depends on how many are made at a time
            policy |= {"timeout": "10m"} if policy.get("event") == "PodPending" else {}
    world = JobWorld(job)
    world.kill = lambda: next(writes) == killed_at
    for _ in range(10):
        happen(world, chance)
        world.settle()
    pods = {name: (pod["status"]["phase"], pod["metadata"]) for name, pod in world.pods.items()}
    return {"status": world.status, "pods": pods, "commands": world.commands}, next(writes)


@pytest.mark.parametrize("seed", range(16))
def test_a_controller_killed_at_any_step_changes_nothing(seed: int) -> None:
    whole, writes = played(seed, -1)
    for step in range(writes):
        after, _ = played(seed, step)
        assert after == whole, f"killed before write {step} of {writes}"


def test_the_histories_reach_everything() -> None:
    """The random jobs are not all alike: every final phase is reached, and jobs were restarted more than once."""
    ends, retried = set(), 0
    for seed in range(80):
        chance = random.Random(seed)
        world = JobWorld(some_job(chance))
        for _ in range(chance.randint(5, 40)):
            happen(world, chance)
            world.turn()
        calm(world, hang=chance.random() < 0.3, judge=lambda world: None)
        ends.add(world.phase)
        retried += world.retries > 1
    assert ends >= {*TERMINAL, "Running"}
    assert retried > 5


def test_a_refused_history_keeps_its_pods() -> None:
    world = JobWorld(a_job(a_task("worker", 2)))
    world.settle()
    world.run()
    world.settle()
    world.job["spec"]["tasks"][0]["replicas"] = -1
    refusal = reading.decode_job(world.job)
    assert isinstance(refusal, reading.Refusal)
    step = reading.refuse(refusal, world.now)
    assert step.status is not None
    assert (step.status.phase, step.status.reason) == ("Running", "InvalidField")
    assert (step.deletes, step.creates) == ((), ())
    world.job["status"] = encode_plain(step.status)
    again = reading.decode_job(world.job)
    assert isinstance(again, reading.Refusal)
    assert reading.refuse(again, world.now).status is None
    world.job["spec"]["tasks"][0]["replicas"] = 2
    world.settle()
    assert "reason" not in world.status["state"]
    assert world.phase == "Running"


@pytest.mark.parametrize("seed", range(60))
def test_without_failures_nothing_is_lost_and_nothing_is_retried(seed: int) -> None:
    """Users scale and stop and resume, the controller sees late and dies: all that goes goes by our own doing."""
    chance = random.Random(seed)
    job = some_job(chance)
    for one in (job["spec"], *job["spec"]["tasks"]):
        one["policies"] = [
            {"events": ["PodEvicted", "PodFailed"], "action": chance.choice(("RestartJob", "RestartPod"))}
        ]
    job["spec"].pop("minSuccess", None)
    world = JobWorld(job)
    world.kill = lambda: chance.random() < 0.1
    for _ in range(60):
        what = chance.choice(("run", "gone", "scale", "command", "time"))
        if what == "run" and world.pods:
            world.run(*chance.sample(world.names(), chance.randint(1, len(world.pods))))
        elif what == "gone":
            world.finish_deleting()
        elif what == "scale":
            scale(world, chance)
        elif what == "command" and not world.commands and chance.random() < 0.5:
            world.command("AbortJob" if world.phase in ("Pending", "Running", "Restarting") else "ResumeJob")
        elif what == "time":
            world.now += chance.choice((1, 30))
        world.turn(late=chance.random() < 0.3)
        check(world)
    assert world.retries == 0
    assert "MemberLost" not in {reason for reason, _ in world.events}
