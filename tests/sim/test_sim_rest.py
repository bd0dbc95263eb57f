"""Many random clusters come to rest, and stay at rest: nobody is evicted once nothing is submitted any more."""

from __future__ import annotations

import random
from typing import Any

import pytest

from extender.sim import reading
from extender.sim.runner import Run

#: all is submitted by then; what is held back for a head is open to others when its time is over, some minutes later,
#: and the run ends much later
SUBMITTED, STILL, END = 60, 450, 650


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
    return {"settings": {"end": END}, "nodes": nodes, "queues": queues, "groups": groups}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(12))
def test_a_random_cluster_comes_to_rest_and_stays_there(seed: int) -> None:
    told = {
        "id": "T-1",
        "area": "test",
        "scenario": scenario(random.Random(seed)),
        "want": [{"check": "evicted_total", "max": 999}],
    }
    run = Run(reading.read_report(told))
    assert [result.held for result in run.results()] == [True]
    requests = run.scheduler.sidecar.writes.requests
    evictions = [request.at for request in requests if request.subresource == "eviction"]
    assert max(evictions, default=0.0) < STILL
    moved = [request for request in requests if request.at > STILL and request.kind == "Pod"]
    assert moved == [], "pods are moved though nothing happens"
