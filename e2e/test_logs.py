"""What both processes log: JSON, one object a line, with one cause from an event to its effects."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from e2e import objects, scenes, waiting
from e2e.cluster.muster import Replica
from e2e.kube import Kube

pytestmark = pytest.mark.gates

Object = dict[str, Any]


def lines_of(text: str) -> list[Object]:
    """Every line of a log; each must be one JSON object with the fields that all have."""
    found = [json.loads(line) for line in text.splitlines()]
    for line in found:
        assert {"time", "level", "logger", "message"} <= line.keys(), line
    return found


def about(lines: list[Object], text: str) -> list[Object]:
    """The lines in which a text stands in any field."""
    return [line for line in lines if any(text in str(value) for value in line.values())]


def test_logs_are_json_and_follow_a_cause_to_its_effects(
    muster: Replica,
    start_replica: Callable[..., Replica],
    kube: Kube,
    namespace: str,
    make_nodes: Callable[..., list[str]],
) -> None:
    muster.stop()
    debug = ["--log-level", "debug"]
    replica = start_replica(arguments={"extender": debug, "gate": debug})
    replica.wait_active()
    make_nodes(1)
    scene = scenes.Scene(kube, replica, namespace)
    scene.group("g", 2)
    made = scene.gang("g", 2)
    assert all(one["spec"].get("schedulingGates") for one in made)
    waiting.wait_for(lambda: scene.bound("g"), 20, "both are bound", until=lambda found: len(found) == 2)

    def told() -> tuple[list[Object], list[Object]]:
        extender = lines_of(replica.extender.log_path.read_text())
        gate = lines_of(replica.gate.log_path.read_text())
        ungated = [line for line in extender if line.get("effect") == "Ungate"]
        return ungated, [line for line in gate if line["message"] == "a round ended"]

    ungated, rounds = waiting.wait_for(told, 10, "both logs tell of it", until=all)
    assert {line["of"] for line in ungated} >= {one["metadata"]["uid"] for one in made}
    assert all(line["cause"] for line in ungated)
    (ended,) = about(rounds, namespace)
    assert ended["cause"]
    assert ended["outcome"] == "released"
    assert objects.is_bound(kube.get("pods", "g-0", namespace))
