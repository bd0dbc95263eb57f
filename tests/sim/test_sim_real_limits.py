"""What cannot be played on a real cluster is named, and nothing else is."""

from __future__ import annotations

import pathlib

import pytest

from extender.sim import reading, vocabulary
from extender.sim.happenings import Happenings
from extender.sim.real import limits
from tests.sim import scenes

NONE = "{check: evicted_total, max: 0}"
PLAIN = """
nodes: [{name: n1, allocatable: {cpu: 1}}]
queues: [{name: q}]
groups: [{name: g, minMember: 1, tasks: [{name: w, replicas: 1, requests: {cpu: 1}}]}]
"""
CARD = "{id: c0, memory_mib: 1, cores: 1, slots: 1}"


@pytest.mark.parametrize(
    ("scenario", "named"),
    [
        (PLAIN, []),
        (PLAIN + "events: [{at: 3, kind: freeze_budget_status}]", ["freeze_budget_status at 3: "]),
        (PLAIN + "events: [{at: 3, kind: remove_node, node: n1}]", ["remove_node at 3: "]),
        (PLAIN + "events: [{at: 3, kind: start_sidecar}, {at: 4, kind: cordon, node: n1}]", ["start_sidecar at 3: "]),
        (PLAIN + "settings: {http_timeout: 30}", ["settings.http_timeout 30: "]),
        (PLAIN + "settings: {http_timeout: 600, hold_seconds: 9}", []),
        (PLAIN + "settings: {max_rejections_per_node: 3}", ["settings.max_rejections_per_node 3: "]),
        (f"nodes: [{{name: v, allocatable: {{}}, devices: [{CARD}]}}]", ["node v: "]),
        (
            PLAIN + f"events: [{{at: 1, kind: add_node, node: {{name: v, allocatable: {{}}, devices: [{CARD}]}}}}]",
            ["node v: "],
        ),
        (PLAIN.replace("name: q", "name: default"), ["queues: "]),
        (PLAIN + "events: [{at: 1, kind: set_queue, queue: default, set: {weight: 2}}]", ["set_queue at 1: "]),
        (PLAIN + "events: [{at: 1, kind: add_queue, queue: {name: default}}]", ["add_queue at 1: "]),
        (PLAIN + "events: [{at: 1, kind: set_queue, queue: q, set: {weight: 2}}]", []),
        (PLAIN + "settings: {stale_gang_seconds: 30}", ["settings.stale_gang_seconds and group g: "]),
        (PLAIN.replace("name: g,", "name: g, queue: q,") + "settings: {stale_gang_seconds: 30}", []),
    ],
)
def test_obstacles_are_named(scenario: str, named: list[str]) -> None:
    found = limits.obstacles(scenes.report(scenario, NONE))
    assert len(found) == len(named)
    assert all(text.startswith(name) and len(text) > len(name) for text, name in zip(found, named, strict=True))


def test_every_kind_of_event_is_played_or_named() -> None:
    """What stands in `limits` alone, and cards, need not be known to what plays on any cluster."""
    for kind in vocabulary.EVENTS:
        assert hasattr(Happenings, f"_{kind}") or kind in limits.EVENTS


def test_what_is_played_otherwise_is_named() -> None:
    event = "{at: 2, kind: recreate_pod, pod: g-w-0, deliver: %s}"
    first, then = (scenes.report(PLAIN + f"events: [{event % order}]", NONE) for order in ORDERS)
    assert [text.split(":")[0] for text in limits.concessions(first)] == ["recreate_pod at 2"]
    assert limits.concessions(then) == []


ORDERS = ("add_before_delete", "delete_before_add")


def test_the_shared_reports_that_cannot_be_played_are_known(shared: pathlib.Path) -> None:
    reports = reading.read_files([str(shared / "cases" / "trouble_reports.yaml")])
    assert {told.id for told in reports if limits.obstacles(told)} == {"TR-017", "TR-027", "TR-029", "TR-032"}
