"""Members that succeeded and whose pods are gone: for how long they count, and beside whom no longer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from extender.core import finished, messages
from extender.core.ids import PodUid, Source, TaskName
from extender.core.membership import Standing, Tally
from extender.core.model import Owner, Pod
from extender.core.world import World
from tests import builders
from tests.builders import make_group, make_pod

JOB = Owner("Job", "train", "uid-of-job")
JOB_AGAIN = Owner("Job", "train", "uid-of-job-again")
OTHER_JOB = Owner("Job", "launcher", "uid-of-launcher")
SET = Owner("ReplicaSet", "train", "uid-of-set")
INDEX = "batch.kubernetes.io/job-completion-index"
TRAIN = builders.group_key("train")


def member(name: str, **fields: Any) -> Pod:
    """A running member of `train`, of its Job unless told."""
    fields = {"owner": JOB, "node": "gpu-0", "phase": "Running"} | fields
    return make_pod(name, group=fields.pop("group", "train"), **fields)


def ended(pod: Pod, **fields: Any) -> Pod:
    """The same pod when it has succeeded."""
    return replace(pod, phase="Succeeded", **fields)


def again(pod: Pod, **fields: Any) -> Pod:
    """A new pod of the same name."""
    return replace(pod, uid=PodUid(f"{pod.uid}-again"), node=None, phase="Pending", **fields)


def world_of(*pods: Pod) -> World:
    """A world with the group's object and these pods."""
    return builders.make_world(make_group("train", 4), *pods)


def gone(world: World, *pods: Pod) -> None:
    """These are shown gone."""
    for pod in pods:
        world.apply(messages.PodGone(pod.uid))


def show(world: World, *pods: Pod) -> None:
    """These are shown."""
    builders.show(world, pods)


def succeeded(world: World, task: str | None = None) -> int:
    """How many members count as having succeeded."""
    tally = world.tallies.get(TRAIN) or Tally()
    return tally.count(Standing.SUCCEEDED, task=None if task is None else TaskName(task))


STAYS = member("train-9")


@dataclass
class Case:
    """A pod as it was seen, state by state, before it was gone; does it count?"""

    states: list[Pod]
    counts: bool


ONE = member("train-0")
OF_SET = member("train-0", owner=SET)
BARE = member("train-0", owner=None)
WHO_COUNTS = {
    "one that succeeded": Case([ONE, ended(ONE)], True),
    "one that had succeeded when it was first seen": Case([ended(ONE)], True),
    "one without an owner": Case([BARE, ended(BARE)], True),
    "one that succeeded and was then deleted with a finalizer on it": Case(
        [OF_SET, ended(OF_SET), ended(OF_SET, terminating=True)], True
    ),
    "none that failed": Case([ONE, replace(ONE, phase="Failed")], False),
    "none that ran to the end": Case([ONE], False),
    "none that never ran": Case([again(ONE)], False),
    "none that said so only when it was told to end": Case(
        [OF_SET, replace(OF_SET, terminating=True), ended(OF_SET, terminating=True)], False
    ),
    "but of a Job, which counts it too": Case([ONE, ended(ONE, terminating=True)], True),
}


@pytest.mark.parametrize("case", WHO_COUNTS.values(), ids=WHO_COUNTS.keys())
def test_of_those_that_are_gone_counts(case: Case) -> None:
    world = world_of(STAYS)
    for state in case.states:
        show(world, state)
    gone(world, case.states[-1])
    assert succeeded(world) == case.counts
    assert world.tallies[TRAIN].done.total() == case.counts
    show(world, case.states[-1])  # a late message brings nobody back
    assert succeeded(world) == case.counts


FIRST = member("train-0", labels=((INDEX, "0"),))
AFTERWARDS: dict[str, tuple[Callable[[World], None], int]] = {
    "another member of its owner": (lambda w: show(w, member("train-1")), 1),
    "another index": (lambda w: show(w, member("train-1", labels=((INDEX, "1"),))), 1),
    "a member of another owner": (lambda w: show(w, member("launcher", owner=OTHER_JOB)), 1),
    "a bare member": (lambda w: show(w, member("bare", owner=None)), 1),
    "its replacement by name": (lambda w: show(w, again(FIRST)), 0),
    "its replacement by index": (lambda w: show(w, member("train-0-x", labels=((INDEX, "0"),))), 0),
    "a pod of its name in another group": (lambda w: show(w, again(replace(FIRST, group=builders.group_key("b")))), 1),
    "a member of its owner made anew": (lambda w: show(w, member("train-1", owner=JOB_AGAIN)), 0),
    "the object changed": (lambda w: builders.show(w, [make_group("train", 5, generation=2)]), 1),
    "the object made anew": (lambda w: w.apply(messages.GroupSeen(replace(make_group("train", 4), uid="new"))), 0),
    "the object gone": (lambda w: w.apply(messages.GroupGone(TRAIN)), 0),
    "everybody gone, and one of its owner back": (lambda w: (gone(w, STAYS), show(w, member("train-1")))[-1], 1),
    "everybody gone, and one of another owner there": (
        lambda w: (gone(w, STAYS), show(w, member("train-1", owner=OTHER_JOB)))[-1],
        0,
    ),
    "everybody gone, and a bare one there": (lambda w: (gone(w, STAYS), show(w, member("b", owner=None)))[-1], 0),
    "everybody and the object gone, and one back": (
        lambda w: (gone(w, STAYS), w.apply(messages.GroupGone(TRAIN)), show(w, member("train-1")))[-1],
        0,
    ),
}


@pytest.mark.parametrize(("then", "want"), AFTERWARDS.values(), ids=AFTERWARDS.keys())
def test_one_that_is_gone_counts_beside(then: Callable[[World], None], want: int) -> None:
    world = world_of(STAYS, ended(FIRST))
    gone(world, FIRST)
    assert succeeded(world) == 1
    then(world)
    assert succeeded(world) == want


RUN = "muster.dev/run"
RUNS = {
    "the same run": ("1.1", "1.1", {"ps": 1, "worker": 1}),
    "a newer run of its task": ("1.1", "1.2", {"ps": 1, "worker": 0}),
    "a newer run of the job": ("1.1", "2.2", {"ps": 0, "worker": 0}),
    "an older run": ("2.2", "1.1", {"ps": 1, "worker": 1}),
    "the first that says its run": ("", "1.1", {"ps": 0, "worker": 0}),
    "what is no run": ("1.1", "9.x", {"ps": 1, "worker": 1}),
    "what is no run either": ("1.1", "-2.3", {"ps": 1, "worker": 1}),
    "a huge one": ("1.1", f"{10**20}.1", {"ps": 1, "worker": 1}),
}


@pytest.mark.parametrize(("was", "now", "want"), RUNS.values(), ids=RUNS.keys())
def test_who_is_gone_counts_beside_a_worker_of(was: str, now: str, want: dict[str, int]) -> None:
    """Of each task one has succeeded and is gone; then a new worker comes."""
    old = [member(task, task=task, labels=((RUN, was),)) for task in want]
    world = world_of(STAYS, *old, *map(ended, old))
    gone(world, *old)
    assert {task: succeeded(world, task) for task in want} == {"ps": 1, "worker": 1}
    show(world, member("worker-new", task="worker", labels=((RUN, now),)))
    assert {task: succeeded(world, task) for task in want} == want


def test_each_counts_for_its_task() -> None:
    world = world_of(STAYS, *(ended(member(f"w-{n}", task="worker")) for n in range(3)), ended(member("l", task="ps")))
    gone(world, *(member(f"w-{n}") for n in range(2)), member("l"))
    assert (succeeded(world, "worker"), succeeded(world, "ps"), succeeded(world)) == (3, 1, 4)


def test_one_that_moves_to_another_group_is_not_gone() -> None:
    world = world_of(STAYS, ended(ONE))
    show(world, ended(replace(ONE, group=builders.group_key("other"))))
    assert succeeded(world) == 0
    gone(world, ONE)
    assert succeeded(world) == 0


def test_a_group_without_an_object_leaves_nothing_behind() -> None:
    world = builders.make_world(STAYS, ended(ONE))
    gone(world, ONE)
    assert succeeded(world) == 1
    gone(world, STAYS)
    show(world, member("train-1"))
    assert succeeded(world) == 0


def test_a_lone_pod_is_nobody_s_past() -> None:
    world = World()
    pod = make_pod("lone", owner=JOB, node="gpu-0")
    assert pod.group.source is Source.POD
    show(world, ended(pod))
    gone(world, pod)
    assert world.tallies == {}


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finished, "REMEMBERED", 3)
    world = world_of(STAYS, *(ended(member(f"w-{n}")) for n in range(5)))
    gone(world, *(member(f"w-{n}") for n in range(5)))
    assert succeeded(world) == 3
    show(world, again(member("w-0")))
    assert succeeded(world) == 3, "the oldest was forgotten"
    show(world, again(member("w-4")))
    assert succeeded(world) == 2
