"""Many random clusters come to rest, and stay at rest: nobody is evicted once nothing is submitted any more."""

from __future__ import annotations

import random
from typing import Any

import pytest

from extender.sim import reading
from extender.sim.runner import Run
from extender.sim.sidecar import TICK_SECONDS

#: all is submitted by then; some time later the cluster is at rest, and stays there for more than 200 cycles
SUBMITTED, STILL, END, CYCLES = 30, 75, 126, 200
#: in some of the runs it is also waited until what is held back for a head is open to others again, minutes later
LONG, OPEN, LONG_END = 4, 450, 650


def scenario(chance: random.Random) -> dict[str, Any]:
    """Twenty nodes, six queues in two levels, and forty groups with priorities, minimums, grace and owners."""
    queues: list[dict[str, Any]] = [{"name": "org"}]
    for name in ("a", "b", "c", "d", "e"):
        queue: dict[str, Any] = {"name": name, "weight": chance.randint(0, 3), "priority": chance.randint(0, 1)}
        if chance.random() < 0.4:
            queue["parent"] = "org"
        if chance.random() < 0.7:
            queue["deserved"] = {"nvidia.com/gpu": chance.randint(0, 40)}
        if chance.random() < 0.2:
            queue["capability"] = {"nvidia.com/gpu": chance.randint(20, 80)}
        if chance.random() < 0.2:
            queue["guarantee"] = {"nvidia.com/gpu": chance.randint(0, 16)}
        if chance.random() < 0.1:
            queue["reclaimable"] = False
        queues.append(queue)
    groups = []
    for number in range(40):
        replicas = chance.choice((1, 2, 4, 8, 12))
        groups.append(
            {
                "name": f"g{number}",
                "queue": chance.choice("abcde"),
                "minMember": chance.randint(1, replicas),
                "priority": chance.choice((0, 0, 5, 9)),
                "at": chance.randint(0, SUBMITTED),
                "grace": chance.choice((0, 5, 10)),
                "recreate": chance.random() < 0.8,
                "preemptible": chance.random() < 0.9,
                "tasks": [
                    {"name": "w", "replicas": replicas, "requests": {"nvidia.com/gpu": chance.choice((1, 1, 2, 4, 8))}}
                ],
            }
        )
    nodes = [{"name": f"n{number}", "allocatable": {"nvidia.com/gpu": 8}} for number in range(20)]
    return {"nodes": nodes, "queues": queues, "groups": groups}


def run(seed: int, end: int) -> Run:
    """The random cluster of this seed, until then."""
    told = {
        "id": "T-1",
        "area": "test",
        "scenario": scenario(random.Random(seed)) | {"settings": {"end": end}},
        "want": [{"check": "evicted_total", "max": 999}],
    }
    found = Run(reading.read_report(told))
    assert [result.held for result in found.results()] == [True]
    return found


def moves(found: Run, since: float) -> list[object]:
    """Writes to pods, and evictions, that came later."""
    requests = found.scheduler.sidecar.writes.requests
    return [request for request in requests if request.at > since and request.kind == "Pod"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(100))
def test_a_random_cluster_comes_to_rest_and_stays_there(seed: int) -> None:
    found = run(seed, END)
    assert moves(found, 0.0)
    assert moves(found, STILL) == [], "pods are moved though nothing happens"


def test_the_rest_lasts_for_so_many_cycles() -> None:
    assert (END - STILL) / TICK_SECONDS >= CYCLES


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(LONG))
def test_what_is_held_back_for_a_time_moves_nobody_either(seed: int) -> None:
    assert moves(run(seed, LONG_END), OPEN) == []
