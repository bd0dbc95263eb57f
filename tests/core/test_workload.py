"""The shapes of pods that ask for GPUs: counted as pods come, end and go, the most frequent first."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from extender.core import messages
from extender.core.model import Pod
from extender.core.workload import MOST, Workload
from extender.core.world import World
from tests.builders import GPU, make_pod, make_shape


def asking(name: str, cpu: int, gpus: int = 1, phase: str = "Pending") -> Pod:
    request = {"cpu": cpu} | ({GPU: gpus} if gpus else {})
    return replace(make_pod(name), shape=make_shape(request), phase=phase)


def test_the_most_frequent_shapes_come_first_and_pods_without_gpus_and_ended_ones_are_none() -> None:
    workload = Workload()
    for pod in (
        asking("a", 1000),
        asking("b", 2000),
        asking("c", 2000),
        asking("d", 3000, gpus=0),
        asking("e", 4000, phase="Failed"),
    ):
        workload.add(pod)
    assert workload.typical() == ((asking("", 2000).shape, 2), (asking("", 1000).shape, 1))
    assert workload.others == (("cpu", 3000),)


def test_no_more_shapes_are_told_than_are_typical() -> None:
    workload = Workload()
    for number in range(3 * MOST):
        workload.add(asking(f"p{number}", 1000 + number))
    workload.add(asking("cpu", 9000, gpus=0))
    assert len(workload.typical()) == MOST
    # a third of those that ask for GPUs is told of, and a third of what others ask for
    assert workload.others == (("cpu", 3000),)


def test_what_was_told_holds_while_little_changes() -> None:
    workload = Workload()
    for number in range(1000):
        workload.add(asking(f"p{number}", 1000))
        workload.add(asking(f"q{number}", 2000))
    told = workload.typical()
    workload.add(asking("one more", 1000))
    assert workload.typical() is told
    for number in range(100):
        workload.remove(asking(f"p{number}", 1000))
    assert workload.typical() == ((asking("", 2000).shape, 1000), (asking("", 1000).shape, 901))


EVENTS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["pending", "runs", "ends", "gone", "other"])), max_size=30
)


@given(EVENTS)
def test_a_world_counts_each_pod_that_waits_or_runs_once(events: list[tuple[int, str]]) -> None:
    world, there = World(), dict[str, Pod]()
    for number, what in events:
        name = f"p{number}"
        if what == "gone":
            if name in there:
                world.apply(messages.PodGone(there.pop(name).uid))
            continue
        pod = asking(name, 9000 if what == "other" else 1000 * (number % 2 + 1))
        phase = {"runs": "Running", "ends": "Succeeded"}.get(what, "Pending")
        # a pod that is gone does not come back under its uid
        if name not in there and any(uid == pod.uid for uid in world._gone):
            continue
        there[name] = replace(pod, phase=phase)
        world.apply(messages.PodSeen(there[name]))
    wanted: dict[object, int] = {}
    for pod in there.values():
        if not pod.ended:
            wanted[pod.shape] = wanted.get(pod.shape, 0) + 1
    world.workload._until = 0
    assert dict(world.workload.typical()) == wanted
