"""Any few jobs under every policy: pods are conserved, gangs are whole where they must be, and chance is the seed's."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.sim.traces.common import Job
from extender.sim.trial import policies
from tests.sim.trial.plays import host, hosts, job, play, replay, starts

jobs_of = st.lists(
    st.builds(
        lambda at, runs, pods, gpus, queue, priority: (at, runs, pods, gpus, queue, priority),
        st.integers(0, 300),
        st.sampled_from([1, 30, 100]),
        st.sampled_from([1, 1, 2, 3, 5]),
        st.sampled_from([0, 1, 2, 4]),
        st.sampled_from(["a", "b"]),
        st.sampled_from([0, 0, 5]),
    ),
    min_size=1,
    max_size=10,
)
#: those that start a gang whole or not at all
WHOLE = ("Muster", "native gang", "FIFO gang")


def made_of(rows) -> list[Job]:
    return [
        job(f"j{n}", at, runs, pods=pods, gpus=gpus, queue=queue, priority=priority)
        for n, (at, runs, pods, gpus, queue, priority) in enumerate(rows)
    ]


@pytest.mark.parametrize("policy", policies.POLICIES)
@settings(max_examples=10)
@given(jobs_of)
def test_every_pod_is_accounted_for_and_gangs_are_whole(policy: str, rows) -> None:
    jobs = made_of(rows)
    made = replay(policy, jobs, [host("h0", 8), host("h1", 8, "rack-1"), host("h2", 4)])
    partial: set[str] = set()

    def look(now: float, end: float) -> None:
        for work in made.works:
            if policy in WHOLE and 0 < work.on_hosts < work.job.pods:
                partial.add(work.job.name)

    made.run(look)
    assert not partial
    if policy != "pod by pod" and policy != "pod by pod, packing":
        assert all(work.ended is not None for work in made.works)
    # nothing works shorter than it must
    for work in made.works:
        if work.ended is not None:
            assert work.ended - work.job.submitted >= work.job.duration


@pytest.mark.parametrize("policy", policies.EVERY)
def test_the_same_seed_gives_the_same_figures(policy: str) -> None:
    jobs = [
        job(f"j{n}", n * 7 % 50, 20 + n % 90, pods=1 + n % 5, gpus=1 + n % 3, queue="ab"[n % 2], priority=n % 3)
        for n in range(12)
    ]
    first, second = (dataclasses.asdict(play(policy, jobs, hosts(3))[1]) for _ in range(2))
    assert first == second


def test_of_equal_hosts_the_seed_chooses() -> None:
    jobs = [job(f"j{n}", n, 1000) for n in range(12)]

    def rows(seed: int) -> list[list[int]]:
        made, _ = play("pod by pod", jobs, hosts(12), seed)
        return [[pod.row for pod in work.pods] for work in made.works]

    assert rows(1) == rows(1)
    assert rows(1) != rows(2)


def test_borrowers_give_back_to_the_queue_that_deserves_it_unless_that_is_off() -> None:
    jobs = [
        *(job(f"a{n}", n, 50_000, pods=4, queue="a") for n in range(4)),
        job("owner", 100, 50, pods=8, queue="b"),
        job("end", 3000, 1, gpus=0, queue="b"),
    ]
    made, figures = play("Muster", jobs, hosts(2))
    assert starts(made)["owner"] <= 160.0
    assert figures.evictions == 8
    made, figures = play("without preemption", jobs, hosts(2))
    assert figures.evictions == 0
    # what cannot be taken back is not lent
    assert starts(made) == {"a0": 0.0, "a1": 1.0, "a2": None, "a3": None, "owner": 100.0, "end": 3000.0}


def test_time_alone_is_looked_at_while_something_waits() -> None:
    made = replay("Muster", [job("a", 0, 100, gpus=8), job("b", 10, 50, gpus=8)], hosts(1))
    looked: list[float] = []
    made.run(lambda now, end: looked.append(now))
    assert looked == [0.0, 10.0, 40.0, 70.0, 100.0, 150.0]
