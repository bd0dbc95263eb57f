"""Histograms of /metrics: what is read, what lies between two readings, and percentiles against a slow oracle."""

import bisect
import math

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.bench import histogram, observe
from extender.telemetry import metrics

BOUNDS = (0.001, 0.01, 0.1, 1.0)
TEXT = """\
# TYPE h histogram
h_bucket{le="0.1",verb="filter",outcome="placed"} 2.0
h_bucket{le="+Inf",verb="filter",outcome="placed"} 3.0
h_bucket{le="0.1",verb="filter",outcome="refused"} 1.0
h_bucket{le="+Inf",verb="filter",outcome="refused"} 1.0
h_bucket{le="0.1",verb="preempt",outcome="refused"} 7.0
h_bucket{le="+Inf",verb="preempt",outcome="refused"} 7.0
other_h_bucket{le="0.1",verb="filter"} 9.0
h_bucket{verb="filter",outcome="a \\"quoted\\", one",le="+Inf"} 1.0
h_count{verb="filter",outcome="placed"} 3.0
"""


@pytest.mark.parametrize(
    ("name", "labels", "wanted"),
    [
        pytest.param("h", {"verb": "filter"}, {0.1: 3.0, math.inf: 5.0}, id="children are added"),
        pytest.param("h", {"verb": "filter", "outcome": "placed"}, {0.1: 2.0, math.inf: 3.0}, id="all labels count"),
        pytest.param("h", {}, {0.1: 10.0, math.inf: 12.0}, id="no label chooses all"),
        pytest.param("h", {"verb": "bind"}, {}, id="no child bears the label"),
        pytest.param("missing", {}, {}, id="no such histogram"),
    ],
)
def test_reading_adds_the_children_that_bear_the_labels(name, labels, wanted):
    assert histogram.read(TEXT, name, **labels) == wanted


def test_bounds_are_in_order_whatever_the_order_of_the_text():
    text = 'h_bucket{le="+Inf"} 3\nh_bucket{le="10"} 2\nh_bucket{le="2"} 1\n'
    assert list(histogram.read(text, "h")) == [2, 10, math.inf]


def test_a_child_that_is_new_counts_from_nothing():
    assert histogram.difference({0.1: 2.0, math.inf: 3.0}, {}) == {0.1: 2.0, math.inf: 3.0}
    assert histogram.difference({0.1: 2.0, math.inf: 3.0}, {0.1: 2.0, math.inf: 2.0}) == {0.1: 0.0, math.inf: 1.0}


@pytest.mark.parametrize("after", [{0.1: 1.0, math.inf: 9.0}, {}], ids=["less", "gone"])
def test_a_count_that_went_down_is_refused(after):
    with pytest.raises(ValueError, match="started anew"):
        histogram.difference(after, {0.1: 2.0, math.inf: 2.0})


@pytest.mark.parametrize("empty", [{}, {0.1: 0.0, math.inf: 0.0}])
def test_nothing_observed_has_no_percentile(empty):
    assert histogram.count(empty) == 0
    with pytest.raises(ValueError, match="of nothing"):
        histogram.percentile(empty, 0.5)


def observed(seconds) -> histogram.Histogram:
    registry = prometheus_client.CollectorRegistry()
    told = prometheus_client.Histogram("h", "h", ("l",), buckets=BOUNDS, registry=registry)
    told.labels("x")
    for some in seconds:
        told.labels("x").observe(some)
    return histogram.read(prometheus_client.generate_latest(registry).decode(), "h", l="x")


SECONDS = st.lists(st.one_of(st.sampled_from([*BOUNDS, 2.0]), st.floats(0, 2)), max_size=40)


@given(SECONDS, SECONDS.filter(bool), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_percentile_of_a_difference_is_the_bucket_of_the_value_of_that_rank(before, between, fraction):
    found = histogram.difference(observed(before + between), observed(before))
    assert histogram.count(found) == len(between)
    value = sorted(between)[math.ceil(fraction * len(between)) - 1]
    assert histogram.percentile(found, fraction) == (*BOUNDS, math.inf)[bisect.bisect_left(BOUNDS, value)]


def test_the_extender_has_the_histograms_that_are_looked_for():
    """Calls answered at once, of every outcome, and those that awaited a cycle; other verbs are left out."""
    extender = metrics.ExtenderMetrics()
    extender.verb("filter", "placed", 0.001)
    extender.verb("filter", "foreign", 0.001)
    extender.verb("prioritize", "placed", 0.001)
    extender.filter_awaited(0.02)
    text = prometheus_client.generate_latest(extender.registry).decode()
    found = observe.Watched({}, lambda: text).filters()
    assert {way: histogram.count(calls) for way, calls in found.items()} == {"at_once": 2, "awaited": 1}
    assert histogram.percentile(found["awaited"], 0.5) == 0.025


def test_without_an_extender_there_are_no_filter_calls():
    assert observe.Watched({}).filters() == {}
