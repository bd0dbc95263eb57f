"""Figures by queue and node pool: true to what is told, and never more series than may be."""

from __future__ import annotations

import prometheus_client
import pytest

from extender.core.series import OF_QUEUE, POOLS, QUEUES, SIZE_CLASSES, STATES, Start
from extender.telemetry import metrics, tables

POOL, QUEUE = "muster_extender_pool_gpus", "muster_extender_queue"


@pytest.fixture
def told() -> metrics.ExtenderMetrics:
    return metrics.ExtenderMetrics()


def value(told: metrics.ExtenderMetrics, name: str, **labels: str) -> float | None:
    return told.registry.get_sample_value(name, labels)


def test_every_state_of_a_pool_and_every_figure_of_a_queue_has_its_series(told: metrics.ExtenderMetrics) -> None:
    told.gpus.show({"a": [1, 2, 3, 4, 5, 6]}, {"research": [1, 2, 3, 4, 5, 6]})
    found = [value(told, POOL, pool="a", state=state) for state in tables.POOL_STATES]
    assert found == [1, 2, 3, 4, 5, 6]
    assert len(tables.POOL_STATES) == len(STATES)
    assert [value(told, f"{QUEUE}_gpus", queue="research", state=state) for state in OF_QUEUE[:3]] == [1, 2, 3]
    assert [value(told, f"{QUEUE}_{field}_gpus", queue="research") for field in OF_QUEUE[3:]] == [4, 5, 6]
    told.gpus.oldest({"research": 7.5, "other queue": 1})
    assert value(told, f"{QUEUE}_oldest_wait_seconds", queue="research") == 7.5


def test_what_has_vanished_is_zero(told: metrics.ExtenderMetrics) -> None:
    told.gpus.show({"a": [1] * 6}, {"q": [1] * 6})
    told.gpus.oldest({"q": 3.0})
    told.gpus.show({}, {})
    told.gpus.oldest({})
    assert value(told, POOL, pool="a", state="idle") == value(told, f"{QUEUE}_fair_gpus", queue="q") == 0
    assert value(told, f"{QUEUE}_oldest_wait_seconds", queue="q") == 0


def test_starts_are_counted_by_queue_and_size(told: metrics.ExtenderMetrics) -> None:
    told.gpus.started([Start("q", 8, 40.0, 0.4), Start("q", 8, 4000.0, 20.0)])
    labels = {"queue": "q", "size": "2-8"}
    assert value(told, "muster_extender_group_wait_seconds_bucket", le="60.0", **labels) == 1
    assert value(told, "muster_extender_group_wait_seconds_count", **labels) == 2
    assert value(told, "muster_extender_group_start_seconds_sum", **labels) == pytest.approx(20.4)


def test_names_beyond_the_bound_count_as_other_and_nobody_is_lost(told: metrics.ExtenderMetrics) -> None:
    told.gpus.show({f"p{n:03}": [1] * 6 for n in range(300)}, {f"q{n:03}": [1] * 6 for n in range(300)})
    told.gpus.oldest({f"r{n}": n for n in range(300)})
    told.gpus.started([Start(f"s{n}", n, 1.0, 1.0) for n in range(1000)])
    text = prometheus_client.generate_latest(told.registry).decode().splitlines()
    pools = [line for line in text if line.startswith(f"{POOL}{{") and 'state="idle"' in line]
    assert (len(pools), sum(float(line.split()[-1]) for line in pools)) == (POOLS, 300)
    queues = [line for line in text if line.startswith(f"{QUEUE}_fair_gpus")]
    assert (len(queues), sum(float(line.split()[-1]) for line in queues)) == (QUEUES, 300)
    assert value(told, f"{QUEUE}_oldest_wait_seconds", queue="other") == 299
    counts = [line for line in text if line.startswith("muster_extender_group_wait_seconds_count")]
    assert len(counts) <= len(SIZE_CLASSES)
    assert sum(float(line.split()[-1]) for line in counts) == 1000


def test_evictions_are_counted_by_rule_and_all_rules_stand_from_the_start(told: metrics.ExtenderMetrics) -> None:
    told.evicted("Reclaimed", False)
    told.evicted("Reclaimed", True)
    told.evicted("Invented", False)
    assert value(told, "muster_extender_evictions_total", rule="Reclaimed") == 2
    assert value(told, "muster_extender_evictions_total", rule="other") == 1
    assert value(told, "muster_extender_evictions_total", rule="Preempted") == 0
    assert value(told, "muster_extender_repeated_evictions_total") == 1
