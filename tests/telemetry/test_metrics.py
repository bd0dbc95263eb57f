"""Metrics: what is told shows up under its name, labels stay few, and the client's Observer is satisfied."""

import inspect
import logging

import prometheus_client
import pytest

from extender.core import reasons
from extender.kube import observing
from extender.telemetry import api_metrics, labels, metrics


@pytest.fixture
def extender() -> metrics.ExtenderMetrics:
    return metrics.ExtenderMetrics()


@pytest.fixture
def gate() -> metrics.GateMetrics:
    return metrics.GateMetrics()


def series(told) -> dict[str, float]:
    """The exposition as `name{labels}` -> value."""
    text = prometheus_client.generate_latest(told.registry).decode()
    pairs = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def test_the_observer_of_the_client_is_implemented_with_the_same_parameters():
    for name, method in inspect.getmembers(observing.Observer, inspect.isfunction):
        if not name.startswith("_"):
            ours = getattr(api_metrics.ApiMetrics, name)
            assert inspect.signature(ours) == inspect.signature(method), name


def test_each_process_has_a_registry_of_its_own():
    first, second = metrics.ExtenderMetrics(), metrics.ExtenderMetrics()
    first.strays(7)
    assert series(first)["muster_extender_strays"] == 7
    assert series(second)["muster_extender_strays"] == 0


def test_verbs_are_told_apart_by_outcome_in_buckets_from_a_tenth_of_a_millisecond(extender):
    extender.verb("filter", "placed", 0.00005)
    extender.verb("filter", "placed", 0.0018)
    extender.verb("filter", "refused", 9.0)
    told = series(extender)
    bucket = 'muster_extender_verb_seconds_bucket{{le="{}",outcome="placed",verb="filter"}}'
    assert told[bucket.format("0.0001")] == 1
    assert told[bucket.format("0.0015")] == 1
    assert told[bucket.format("0.002")] == 2
    assert told['muster_extender_verb_seconds_count{outcome="refused",verb="filter"}'] == 1


def test_answers_are_counted_by_what_was_asked_for_and_the_code_and_nothing_that_readers_send(extender):
    extender.answer("workloads", 200, 0.001)
    extender.answer("workloads", 403, 0.001)
    extender.answer("../etc", 418, 0.001)
    told = series(extender)
    count = 'muster_extender_answer_seconds_count{{code="{}",resource="{}"}}'
    assert told[count.format(200, "workloads")] == told[count.format(403, "workloads")] == 1
    assert told[count.format("other", "other")] == 1


def test_filter_calls_that_awaited_a_cycle_are_a_histogram_of_their_own(extender):
    extender.filter_awaited(0.02)
    told = series(extender)
    assert told['muster_extender_filter_awaited_seconds_bucket{le="0.05"}'] == 1
    assert not [name for name in told if name.startswith("muster_extender_verb_seconds_count")]


def test_cycles_plans_and_single_gauges_appear(extender):
    extender.cycle(0.003)
    extender.plan(0.04)
    extender.ledger_difference(2)
    extender.usage_difference(3)
    extender.unreadable(4)
    extender.fragmented(2.5)
    extender.active(True)
    told = series(extender)
    assert told["muster_extender_cycle_seconds_count"] == 1
    assert told["muster_extender_plan_seconds_sum"] == 0.04
    assert told["muster_extender_ledger_difference"] == 2
    assert told["muster_extender_usage_difference"] == 3
    assert told["muster_extender_unreadable_nodes"] == 4
    assert told["muster_extender_fragmented_gpus"] == 2.5
    assert told["muster_extender_active"] == 1


def test_groups_that_leave_a_phase_leave_its_number(extender):
    extender.groups({"Waiting": 3, "Running": 1}, {reasons.Reason.FRAGMENTED: 3})
    extender.groups({"Running": 4}, {})
    told = series(extender)
    assert told['muster_extender_groups{phase="Waiting"}'] == 0
    assert told['muster_extender_groups{phase="Running"}'] == 4
    assert told['muster_extender_waiting_groups{reason="Fragmented"}'] == 0


def test_all_reasons_stand_from_the_start_under_their_own_words(extender):
    want = {f'muster_extender_waiting_groups{{reason="{reason}"}}' for reason in reasons.Reason}
    assert {name for name in series(extender) if name.startswith("muster_extender_waiting")} == want


def test_the_gate_tells_holds_rounds_binds_and_releases(gate):
    gate.held(64)
    gate.active(True)
    gate.round_ended("released")
    gate.bind_answered("bound", 40.0)
    gate.released(0.2)
    told = series(gate)
    assert told["muster_gate_held_binds"] == 64
    assert told["muster_gate_active"] == 1
    assert told['muster_gate_rounds_total{outcome="released"}'] == 1
    assert told['muster_gate_binds_total{outcome="bound"}'] == 1
    assert told['muster_gate_bind_seconds_bucket{le="60.0",outcome="bound"}'] == 1
    assert told['muster_gate_bind_seconds_bucket{le="30.0",outcome="bound"}'] == 0
    assert told["muster_gate_release_seconds_count"] == 1


def test_levels_of_the_network_with_domains_and_nodes_that_lack_them(extender):
    extender.levels({"rack": 12}, {"rack": 3}, 2)
    told = series(extender)
    assert told['muster_extender_topology_domains{level="rack"}'] == 12
    assert told['muster_extender_topology_unlabelled_nodes{level="rack"}'] == 3
    assert told["muster_extender_topology_problems"] == 2
    extender.levels({}, {}, 0)
    assert series(extender)['muster_extender_topology_domains{level="rack"}'] == 0


@pytest.mark.parametrize("made", [metrics.ExtenderMetrics, metrics.GateMetrics])
def test_both_tell_of_the_process_and_of_calls(made):
    told = made()
    told.api.request_done("POST", "pods/binding", "201", 0.004)
    told.api.request_done("POST", "pods/binding", "409", 0.004)
    told.api.request_done("GET", "leases", "unreachable", 5.0)
    told.api.request_done("WATCH", "pods", "200", 300.0)
    told.api.loop_lag(0.003)
    values = series(told)
    assert values["process_resident_memory_bytes"] > 2**20
    assert values['muster_api_requests_total{code="201",resource="pods/binding",verb="POST"}'] == 1
    assert values['muster_api_errors_total{code="409",resource="pods/binding",verb="POST"}'] == 1
    assert values['muster_api_errors_total{code="unreachable",resource="leases",verb="GET"}'] == 1
    assert not [name for name in values if name.startswith("muster_api_errors_total") and '"201"' in name]
    assert values['muster_api_request_seconds_count{resource="pods/binding",verb="POST"}'] == 2
    assert not [name for name in values if "request_seconds" in name and "WATCH" in name]
    assert values["muster_event_loop_lag_seconds_count"] == 1


def test_a_watch_tells_its_lag_and_the_age_of_its_newest_event(gate, monkeypatch):
    now = 100.0
    monkeypatch.setattr(api_metrics.time, "monotonic", lambda: now)
    gate.api.watch_event("pods", 0.5)
    gate.api.watch_event("pods", 0.25)
    now = 130.0
    gate.api.watch_event("nodes", 0.1)
    now = 140.0
    told = series(gate)
    assert told['muster_watch_lag_seconds{resource="pods"}'] == 0.25
    assert told['muster_watch_last_event_age_seconds{resource="pods"}'] == 40
    assert told['muster_watch_last_event_age_seconds{resource="nodes"}'] == 10


def test_disorderly_ends_of_a_watch_are_logged_and_orderly_ones_only_counted(gate, caplog):
    with caplog.at_level(logging.DEBUG):
        gate.api.watch_restarted("pods", "closed")
        assert not caplog.records
        gate.api.watch_restarted("pods", "gone")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    told = series(gate)
    assert told['muster_watch_restarts_total{reason="closed",resource="pods"}'] == 1
    assert told['muster_watch_restarts_total{reason="gone",resource="pods"}'] == 1


def test_an_object_set_aside_is_named_in_the_log_and_not_in_a_label(gate, caplog):
    gate.api.object_set_aside("pods", "team-a/pod-7", ValueError("minMember: -1"))
    assert caplog.records[0].muster_fields["name"] == "team-a/pod-7"
    told = series(gate)
    assert told['muster_objects_set_aside_total{resource="pods"}'] == 1
    assert not [name for name in told if "pod-7" in name]


def test_words_that_are_not_of_the_set_share_one_label(extender, gate):
    for number in range(1000):
        extender.verb(f"verb-{number}", f"outcome-{number}", 0.001)
        extender.groups({f"phase-{number}": 1}, {})
        gate.round_ended(f"outcome-{number}")
        gate.bind_answered(f"outcome-{number}", 0.1)
    told = series(extender) | series(gate)
    assert told['muster_extender_verb_seconds_count{outcome="other",verb="other"}'] == 1000
    assert told['muster_gate_rounds_total{outcome="other"}'] == 1000
    assert told['muster_gate_binds_total{outcome="other"}'] == 1000
    assert len([name for name in told if name.startswith("muster_extender_groups")]) == labels.WORDS_KEPT + 1


def test_overcommitted_nodes_are_told_by_what_becomes_of_them(extender):
    for counts in ({"Seen": 1}, {"Settling": 1, "NothingMayGo": 2}):
        extender.overcommitted(counts)
    told = {name: value for name, value in series(extender).items() if name.startswith("muster_extender_overcommitted")}
    assert {name: value for name, value in told.items() if value} == {
        'muster_extender_overcommitted_nodes{outlook="Settling"}': 1,
        'muster_extender_overcommitted_nodes{outlook="NothingMayGo"}': 2,
    }
    assert 'muster_extender_overcommitted_nodes{outlook="NotByBinding"}' in told


def test_a_census_beyond_its_words_still_counts_everyone(extender):
    extender.groups({f"phase-{number}": 2 for number in range(100)}, {})
    told = series(extender)
    assert sum(value for name, value in told.items() if name.startswith("muster_extender_groups{")) == 200


@pytest.mark.parametrize("made", [metrics.ExtenderMetrics, metrics.GateMetrics])
def test_no_metric_has_a_label_for_single_objects(made):
    names = set()
    for collector in made().registry._collector_to_names:
        names |= set(getattr(collector, "_labelnames", ()))
    assert names <= {
        *("verb", "outcome", "resource", "code", "reason", "phase", "outlook", "level", "rule"),
        *("queue", "pool", "state", "size"),
    }
