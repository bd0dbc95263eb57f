"""Whole runs on a cluster behind the port: time, kubelets, owners, what is judged, and that nothing is left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.sim.real import play
from extender.sim.real.play import NotReady, Play
from extender.sim.real.translation import Translation
from tests.sim import scenes
from tests.sim.fake_port import FakePort

#: scenario seconds in a real one: a turn of the event loop takes far less than one
SCALE = 50.0
PAIR = """
settings: {end: 20}
nodes: [{name: n1, labels: {rack: a}, allocatable: {cpu: 8}}]
queues: [{name: q, capability: {cpu: 8}}]
groups:
  - {name: g, queue: q, minMember: 2, runtime: 8, tasks: [{name: w, at: 2, replicas: 2, requests: {cpu: 1}}]}
"""
OWNED = """
settings: {end: 20}
nodes: [{name: n1, allocatable: {cpu: 8}}]
groups:
  - {name: g, minMember: 1, recreate: true, grace: 4,
     tasks: [{name: w, replicas: 1, requests: {cpu: 1}, placed: {n1: 1}}]}
"""


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "POLL_SECONDS", 0.005)


def make(port: FakePort, scenario: str, *checks: str) -> Play:
    return Play(scenes.report(scenario, *checks), port, Translation("sim-x", SCALE))


async def short(port: FakePort, scenario: str, *checks: str) -> list[str]:
    results = await make(port, scenario, *checks).results()
    return [f"{result.check} ({result.seen})" for result in results if not result.held]


async def test_pods_are_made_run_and_end_at_their_times() -> None:
    port = FakePort()
    assert await short(
        port,
        PAIR,
        "{check: bound, group: g, count: 0, until: 2}",
        "{check: bound, group: g, count: 2, at: 6}",
        "{check: queue_used, queue: q, resources: {cpu: 2}, at: 6}",
        "{check: bound, group: g, count: 0, at: 15}",
        "{check: finished, groups: [g], by: 15}",
        "{check: nodes, group: g, in: [n1]}",
        "{check: same_domain, group: g, key: rack, value: a}",
        "{check: binding_posts, pod: g-w-0, max: 1}",
        "{check: bound, group: g, count: 1, at: 6}",
    ) == ["bound group g count 1 at 6 (2 at 6)"]
    assert (port.cleaned, port.things) == (1, {})


async def test_a_deleted_pod_takes_its_grace_and_its_owner_makes_another() -> None:
    scenario = OWNED + "events: [{at: 5, kind: delete_pod, pods: [g-w-0]}]"
    assert (
        await short(
            FakePort(),
            scenario,
            "{check: bound, pod: g-w-0 (first UID), count: 1, until: 9}",
            "{check: bound, pod: g-w-0 (first UID), count: 0, by: 15}",
            "{check: bound, pod: g-w-0 (second UID), count: 0, until: 10}",
            "{check: bound, pod: g-w-0 (second UID), count: 1, by: 16}",
            "{check: evicted_total, max: 0}",
        )
        == []
    )


@pytest.mark.parametrize(
    ("event", "ends"),
    [
        ("{at: 5, kind: finish_pods, pods: [g-w-0], phase: Failed}", ["1 at 16", "Failed"]),
        ("{at: 5, kind: finish_pods, pods: [g-w-0], phase: Succeeded}", ["0 at 16", "Succeeded"]),
        ("{at: 5, kind: recreate_pod, pod: g-w-0}", ["1 at 16", ""]),
        ("{at: 5, kind: delete_group, group: g}", ["0 at 16", ""]),
        ("{at: 5, kind: drain, node: n1}", ["1 at 16", ""]),
    ],
)
async def test_owners_replace_what_is_lost(event: str, ends: list[str]) -> None:
    port = FakePort()
    playing = make(port, OWNED + f"events: [{event}]", "{check: bound, group: g, count: 1, at: 16}")
    [result] = await playing.results()
    finished = [write.body["status"]["phase"] for write in port.writes if _ends(write.body)]
    assert [result.seen, "".join(finished)] == ends


def _ends(body: Any) -> bool:
    return bool(body) and body.get("status", {}).get("phase") in ("Succeeded", "Failed")


async def test_evictions_are_counted_and_deletions_are_not() -> None:
    port = FakePort()
    checks = ["{check: evicted, group: g, min: 1, max: 1}", "{check: bound, group: g, count: 1, by: 18}"]
    playing = asyncio.create_task(short(port, OWNED + "pods: [{name: late, at: 3, requests: {}}]", *checks))
    await port.created("late")
    port.evict("g-w-0")
    assert await playing == []


async def test_a_kubelet_that_rejects_ends_what_is_bound_there() -> None:
    scenario = PAIR + "events: [{at: 0, kind: kubelet_reject, node: n1, until: 10}]"
    checks = ["{check: bound, group: g, count: 0, by: 6}", "{check: failed, group: g, max: 1}"]
    assert await short(FakePort(), scenario, *checks) == ["failed group g max 1 (2 at 20)"]


async def test_what_the_api_server_refuses_is_noted_and_all_else_goes_on() -> None:
    scenario = PAIR + "events: [{at: 3, kind: add_queue, queue: {name: bad}}]"
    checks = ["{check: rejected, object: queue bad, code: QueueInvalid}", "{check: finished, groups: [g], by: 15}"]
    assert await short(FakePort(refused=frozenset({"sim-x-bad"})), scenario, *checks) == []


async def test_reasons_are_read_from_the_group_and_names_are_the_scenarios() -> None:
    port = FakePort()
    port.binds = False
    assert await short(port, PAIR, "{check: reason, group: g, code: NotEnoughMembers, mentions: [0, 2], at: 5}") == []


async def test_what_no_object_shows_is_not_read() -> None:
    port = FakePort()
    checks = ["{check: held, group: g, max: 0}", "{check: answers, max_seconds: 1}"]
    results = await make(port, PAIR, *checks).results()
    assert [(result.held, result.read) for result in results] == [(False, False)] * 2


async def test_live_answers_come_before_what_stands_in_objects() -> None:
    port = FakePort()
    port.binds = False
    status = {
        "reason": "QuotaExceeded",
        "message": "the queue sim-x-q is full",
        "detail": [{"name": "resource", "value": "cpu"}, {"name": "asked", "value": 2000}],
        "members": {"planned": 1},
    }
    port.told = [{"metadata": {"name": "muster:g"}, "status": status}]
    assert await short(
        port,
        PAIR,
        "{check: reason, group: g, code: QuotaExceeded, mentions: [q, cpu, 2], at: 5}",
        "{check: reason, pod: g-w-1, code: QuotaExceeded, at: 5}",
        "{check: held, group: g, max: 0, at: 15}",
        "{check: held, group: g, max: 1, at: 15}",
    ) == ["held group g max 0 at 15 (1 at 15)"]


@pytest.mark.parametrize(("silent", "missing"), [("Node", "KWOK"), ("Queue", "Muster")])
async def test_a_cluster_that_is_not_ready_is_told_and_cleaned(
    silent: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(play, "READY_SECONDS", 0.1)
    port = FakePort(silent=frozenset({silent}))
    with pytest.raises(NotReady, match=missing):
        await short(port, PAIR, "{check: evicted_total, max: 0}")
    assert (port.cleaned, port.things) == (1, {})


async def test_a_run_that_is_cancelled_leaves_nothing() -> None:
    port = FakePort()
    playing = asyncio.create_task(short(port, PAIR, "{check: evicted_total, max: 0}"))
    await port.created("g-w-1")
    playing.cancel()
    await asyncio.wait([playing])
    assert playing.cancelled()
    assert (port.cleaned, port.things) == (1, {})


async def test_what_could_not_be_removed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "CLEAN_SECONDS", 0.1)
    port = FakePort()
    never = asyncio.Event()
    monkeypatch.setattr(port, "clean", never.wait)
    playing = make(port, PAIR, "{check: evicted_total, max: 0}")
    assert [result.held for result in await playing.results()] == [True]
    assert "scenario.muster.dev/run=sim-x" in playing.left


def test_time_goes_faster_only_while_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    real = [100.0]
    monkeypatch.setattr(play, "_loop_time", lambda: real[0])
    clock = play.Clock(4.0)
    assert (clock.now, clock.until(8.0)) == (0.0, 2.0)
    clock.start()
    seen = []
    for hurried in (False, True, True, False):
        clock.hurry(hurried)
        real[0] += 1.0
        seen.append(clock.now)
    assert seen == [4.0, 24.0, 44.0, 48.0]
    assert (clock.until(56.0), clock.until(40.0)) == (2.0, 0.0)
