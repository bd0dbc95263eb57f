"""Requests of pods against Kubernetes' own code, and bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wire_objects import table

from extender.core.resources import MAX_AMOUNT, MAX_ON_NODE
from extender.wire import requests
from extender.wire.fields import Reader

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "requests.json").read_text())["pods"]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_agrees_with_kubernetes(case: dict) -> None:
    reader = Reader()
    got = requests.pod_request(reader, case["pod"]["spec"], case["pod"]["status"])
    assert dict(got) == case["want"]
    assert got == tuple(sorted(got))
    assert reader.problems == []


def test_there_are_enough_golden_pods() -> None:
    assert len(GOLDEN) > 100


def container(**amounts: object) -> dict:
    return {"name": "c", "resources": {"requests": amounts}}


@table(
    "spec, want, problem",
    {
        "a negative amount counts as nothing": (
            {"containers": [container(cpu="-1", memory="1Ki")]},
            {"memory": 1024, "pods": 1},
            "requests of container c[cpu]: '-1' is negative",
        ),
        "an absurd amount counts as nothing": (
            {"containers": [container(memory="8Ei")]},
            {"pods": 1},
            "requests of container c[memory]: '8Ei' is too large an amount",
        ),
        "amounts that are absurd together count as nothing": (
            {"containers": [container(memory=MAX_AMOUNT), container(memory=MAX_AMOUNT)]},
            {"pods": 1},
            f"request of memory: {2 * MAX_AMOUNT} is too large an amount",
        ),
        "more than any node may have counts as nothing": (
            {"containers": [container(memory=MAX_ON_NODE + 1, cpu="1")]},
            {"cpu": 1000, "pods": 1},
            f"request of memory: {MAX_ON_NODE + 1} is too large an amount",
        ),
        "requests that are no object": (
            {"containers": [{"name": "c", "resources": {"requests": ["cpu"]}}]},
            {"pods": 1},
            "container.resources.requests: ['cpu'] is not an object",
        ),
        "a container that is no object is left out": (
            {"containers": [7, container(cpu="1")]},
            {"cpu": 1000, "pods": 1},
            "spec.containers: 7 is not an object",
        ),
        "a bad overhead": (
            {"containers": [container(cpu="1")], "overhead": {"cpu": "lots"}},
            {"cpu": 1000, "pods": 1},
            "spec.overhead[cpu]: 'lots' is not a quantity",
        ),
        "bad pod-level requests leave the sum": (
            {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "x"}}},
            {"cpu": 1000, "pods": 1},
            "spec.resources.requests[cpu]: 'x' is not a quantity",
        ),
    },
)
def test_bad_requests_are_stated(spec: dict, want: dict, problem: str) -> None:
    reader = Reader()
    assert dict(requests.pod_request(reader, spec, {})) == want
    assert reader.problems == [problem]


def test_problems_are_bounded_in_number_and_length() -> None:
    reader = Reader()
    asked = {f"example.com/{'r' * 1000}{i}": "-1" for i in range(1000)}
    requests.pod_request(reader, {"containers": [{"name": "c", "resources": {"requests": asked}}]}, {})
    assert 0 < len(reader.problems) <= 8
    assert max(map(len, reader.problems)) <= 200


def test_a_status_that_repeats_the_request_changes_nothing_and_one_that_differs_does() -> None:
    spec = {"containers": [container(cpu="2")]}
    same = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "2"}, "resources": None}]}
    other = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]}
    assert dict(requests.pod_request(Reader(), spec, same))["cpu"] == 2000
    assert dict(requests.pod_request(Reader(), spec, other))["cpu"] == 3000
