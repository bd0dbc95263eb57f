"""Whole runs: the order of things, the sidecar's restarts, late news, and runs that come to no rest."""

from __future__ import annotations

import pathlib

import pytest

from extender.sim import reading, runner, sidecar
from extender.sim.runner import Run
from tests.sim import scenes

PAIR = """
settings: {end: 100}
nodes: [{name: n1, allocatable: {cpu: 2}}, {name: n2, allocatable: {cpu: 2}}]
groups: [{name: g, minMember: 2, recreate: true, tasks: [{name: w, at: 5, replicas: 2, requests: {cpu: 1}}]}]
"""

#: reports of the shared file that hold with what the engine can do today
HOLD = {
    "gang": {"TR-001", "TR-002", "TR-004", "TR-005"},
    "api": {"TR-032"},
    "malformed": {"TR-035"},
    "elastic": {"TR-007"},
    "queue": {"TR-008", "TR-009", "TR-011", "TR-012", "TR-013"},
    "drf": {"TR-015", "TR-020"},
    "preemption": {"TR-017", "TR-018"},
    "backfill": {"TR-022"},
    "topology": {"TR-023", "TR-025", "TR-026"},
    "mig": {"TR-030"},
    "explain": {"TR-034"},
    "vgpu": {"TR-027", "TR-029"},
}


@pytest.mark.timeout(60)
def test_the_reports_that_hold_do_hold(shared: pathlib.Path) -> None:
    reports = reading.read_files([str(shared / "cases" / "trouble_reports.yaml")])
    held: dict[str, set[str]] = {area: set() for area in HOLD}
    for report in reports:
        short = [f"{report.id} {result.check} ({result.seen})" for result in runner.run(report) if not result.held]
        if report.id in set().union(*HOLD.values()):
            assert short == []
        if not short:
            held.setdefault(report.area, set()).add(report.id)
    assert held == HOLD, "these hold today; add a report that holds now, and mend what fell short"


def test_two_runs_are_the_same() -> None:
    checks = ["{check: bound, group: g, count: 2, by: 5}", "{check: writes, object: podgroup/g status, max: 9}"]
    assert scenes.play(PAIR, *checks) == scenes.play(PAIR, *checks)


def test_what_is_needed_happens_at_the_instant_at_which_it_can() -> None:
    checks = ["{check: bound, group: g, count: 0, until: 5}", "{check: bound, group: g, count: 2, by: 5}"]
    assert scenes.short(PAIR, *checks) == []


def test_a_sidecar_that_died_half_way_finishes_the_gang_when_it_is_back() -> None:
    scenario = PAIR + "events: [{at: 0, kind: crash_during_bind, group: g, posted: 1}, {at: 7, kind: start_sidecar}]\n"
    assert (
        scenes.short(
            scenario,
            "{check: bound_always, group: g, allowed: [0, 2]}",
            "{check: bound, group: g, count: 1, by: 5, until: 7}",
            "{check: bound, group: g, count: 2, by: 7}",
            "{check: binding_posts, pod: g-w-0, max: 1}",
            "{check: binding_posts, pod: g-w-1, max: 1}",
        )
        == []
    )


def test_one_that_stays_away_too_long_is_seen_between_the_instants_too() -> None:
    scenario = PAIR + "events: [{at: 0, kind: crash_during_bind, group: g, posted: 1}, {at: 30, kind: start_sidecar}]\n"
    assert scenes.short(scenario, "{check: bound_always, group: g, allowed: [0, 2]}") == [
        "bound_always group g allowed [0, 2] (1 at 5)"
    ]


def test_a_sidecar_that_is_back_rolls_a_stuck_gang_back() -> None:
    """Half of a gang is bound, and the room of the other half is gone: evicted after 30 s, and made again."""
    scenario = """
settings: {end: 100}
nodes: [{name: n1, allocatable: {cpu: 2}}]
groups: [{name: g, minMember: 2, recreate: true, tasks: [{name: w, at: 5, replicas: 2, requests: {cpu: 1}}]}]
pods: [{name: other, at: 6, requests: {cpu: 1}}]
events: [{at: 0, kind: crash_during_bind, group: g, posted: 1}, {at: 7, kind: start_sidecar}]
"""
    assert (
        scenes.short(
            scenario,
            "{check: bound, pod: other, count: 1, by: 6}",
            "{check: bound, group: g, count: 1, at: 30}",
            "{check: bound, group: g, count: 0, by: 40}",
            "{check: evicted, group: g, min: 1, max: 1}",
        )
        == []
    )


def test_calls_to_a_sidecar_that_is_away_fail_and_are_made_again() -> None:
    scenario = """
settings: {end: 60}
nodes: [{name: n1, allocatable: {cpu: 4}}]
groups:
  - {name: g, minMember: 1, tasks: [{name: w, replicas: 1, requests: {cpu: 1}}]}
  - {name: h, minMember: 1, at: 5, tasks: [{name: w, replicas: 1, requests: {cpu: 1}}]}
events: [{at: 0, kind: crash_during_bind, group: g, posted: 1}, {at: 20, kind: start_sidecar}]
"""
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: g, count: 1}",
            "{check: bound, group: h, count: 0, until: 20}",
            "{check: bound, group: h, count: 1, by: 20}",
        )
        == []
    )


def test_an_answer_that_comes_after_the_timeout_changes_nothing() -> None:
    scenario = PAIR.replace("end: 100", "end: 100, http_timeout: 20") + (
        "events: [{at: 0, kind: delay_bind_reply, pod: g-w-0, seconds: 30},"
        " {at: 60, kind: repeat_bind, pod: g-w-0, node: same}]\n"
    )
    run = Run(scenes.report(scenario, "{check: binding_posts, pod: g-w-0, max: 1}"))
    assert all(result.held for result in run.results())
    assert run.scheduler.calls == {}
    assert run.scheduler.answers == {"repeat_bind g-w-0": ""}


def test_extender_and_gate_give_a_lost_member_up_at_the_same_time() -> None:
    """Nobody makes it again: ten seconds after the newest member appeared both stop to wait, and all comes to rest."""
    scenario = """
settings: {end: 60}
nodes: [{name: n1, allocatable: {cpu: 3}}]
groups:
  - {name: filler, minMember: 1, tasks: [{name: w, replicas: 1, requests: {cpu: 1}}]}
  - {name: g, minMember: 3, tasks: [{name: w, replicas: 3, requests: {cpu: 1}}]}
events: [{at: 1, kind: delete_pod, pods: [filler-w-0, g-w-0]}]
"""
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: g, count: 0}",
            "{check: held, group: g, max: 2}",
            "{check: held, group: g, max: 0, by: 10}",
            "{check: reason, group: g, code: NotEnoughMembers, mentions: [2, 3], at: 10}",
        )
        == []
    )


def test_large_clusters_are_led_by_nomination_to_the_same_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar, "NOMINATE_ABOVE", 0)
    checks = ["{check: bound, group: g, count: 2, by: 5}", "{check: bound_always, group: g, allowed: [0, 2]}"]
    assert scenes.short(PAIR, *checks) == []


def test_in_a_run_that_comes_to_no_rest_nothing_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "TURNS", 1)
    assert scenes.short(PAIR, "{check: evicted_total, max: 0}") == [
        "evicted_total max 0 (no rest at 0: turn after turn something changes)"
    ]


def test_a_check_after_the_end_was_never_read() -> None:
    assert scenes.short(PAIR, "{check: evicted_total, max: 0, at: 101}") == [
        "evicted_total max 0 at 101 (was never read)"
    ]


def test_a_binding_that_meets_conflicts_is_sent_again_until_it_is_done() -> None:
    scenario = PAIR + "events: [{at: 0, kind: api_conflict, object: pod/g-w-0 binding, times: 4}]\n"
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: g, count: 1, at: 5}",
            "{check: bound, group: g, count: 2, by: 6}",
            "{check: binding_posts, pod: g-w-0, max: 5}",
            "{check: bound_always, group: g, allowed: [0, 2]}",
        )
        == []
    )
    assert scenes.short(scenario, "{check: binding_posts, pod: g-w-0, max: 4}") != []


def test_conflicts_are_met_by_trying_again_and_then_by_deciding_again() -> None:
    scenario = PAIR + "events: [{at: 0, kind: api_conflict, object: podgroup/g status, times: 7}]\n"
    assert (
        scenes.short(
            scenario,
            "{check: group_phase, group: g, not: Running, at: 9}",
            "{check: group_phase, group: g, is: Running, by: 30}",
            "{check: writes, object: podgroup/g status, max: 8}",
        )
        == []
    )
