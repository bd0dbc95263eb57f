"""The series of figures: means and quantiles of a time, within bounds that nothing exceeds."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core import series
from extender.core.series import OF_QUEUE, OTHER, STATES, Series, Start

BEGAN = 1_000_200.0
WIDTH = len(STATES)


def row(first: float, width: int = WIDTH) -> list[float]:
    return [first, *[0.0] * (width - 1)]


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.floats(0, 4096, width=32)), min_size=1, max_size=30))
def test_means_are_those_of_the_points_of_that_time(points: list[dict[str, float]]) -> None:
    made = Series()
    for number, gpus in enumerate(points):
        made.note(BEGAN + 60 * number, {name: row(value) for name, value in gpus.items()}, {})
    middle = BEGAN + 60 * (len(points) // 2)
    for begin, end in ((BEGAN, middle), (middle, middle + 10_000), (0, BEGAN)):
        part = [one for n, one in enumerate(points) if begin <= BEGAN + 60 * n < end]
        window = made.between(begin, end)
        assert window.points == len(part)
        for name in {name for one in part for name in one}:
            assert window.pools[name][0] == pytest.approx(statistics.mean(one.get(name, 0.0) for one in part))
        assert window.pools.keys() == {name for one in part for name in one}


@given(st.lists(st.floats(0, 200_000), min_size=1, max_size=40))
def test_quantiles_are_upper_bounds_and_near(seconds: list[float]) -> None:
    made = Series()
    made.started(BEGAN, [Start("q", 8, one, 1.0) for one in seconds])
    (line,) = made.between(BEGAN, BEGAN + 1).lines
    assert (line.queue, line.size, line.count) == ("q", "2-8", len(seconds))
    ordered = sorted(seconds)
    for part, told in zip(series.QUANTILES, line.waited, strict=True):
        true = ordered[-int(-part * len(seconds) // 1) - 1]
        assert true <= told * (1 + 1e-9)
        assert told <= max(series._LEAST, true * 2**0.5 * (1 + 1e-9))


@pytest.mark.parametrize(
    ("gpus", "size"),
    [(0, "0"), (0.25, "1"), (1, "1"), (2, "2-8"), (9, "9-64"), (64, "9-64"), (512, "65-512"), (513, "over 512")],
)
def test_groups_are_in_classes_by_their_gpus(gpus: float, size: str) -> None:
    assert Start("q", gpus, 0, 0).size == size
    assert size in series.SIZE_CLASSES


def test_a_point_is_due_once_a_minute_whatever_the_pace_of_asking() -> None:
    made, noted = Series(), 0
    for second in range(0, 600, 7):
        if made.due(BEGAN + second):
            made.note(BEGAN + second, {}, {})
            noted += 1
    assert noted == 10
    assert made.began == BEGAN


def test_two_days_are_kept_and_no_more_names_than_may_be() -> None:
    made = Series()
    names = {f"p{n:03}": row(1.0) for n in range(200)}
    queues = {f"q{n:03}": row(1.0, len(OF_QUEUE)) for n in range(200)}
    for minute in range(series.POINTS + 100):
        made.note(
            BEGAN + 60 * minute, names if minute > series.POINTS else {}, queues if minute > series.POINTS else {}
        )
    window = made.between(0, 10**10)
    assert window.points == series.POINTS
    assert (len(window.pools), len(window.queues)) == (series.POOLS, series.QUEUES)
    assert sum(values[0] for values in window.pools.values()) == pytest.approx(200 * 99 / series.POINTS)
    assert OTHER in window.pools
    for hour in range(60):
        starts = [Start(f"q{n}", n % 600, 1.0, 1.0) for n in range(1000)]
        made.started(BEGAN + 3600 * hour, starts)
    assert len(made._slots) <= series.SLOTS
    lines = made.between(BEGAN + 59 * 3600, BEGAN + 60 * 3600).lines
    assert len(lines) <= series.LINES + len(series.SIZE_CLASSES)
    assert sum(line.count for line in lines) == 1000


def test_the_course_has_no_more_parts_than_are_asked_for_and_the_same_mean() -> None:
    made = Series()
    for minute in range(100):
        made.note(BEGAN + 60 * minute, {"a": row(minute), "b": row(1.0)}, {})
    course = list(made.course(BEGAN, BEGAN + 6000, 10))
    assert [at for at, _ in course] == [BEGAN + 600 * n for n in range(10)]
    assert [values[0] for _, values in course] == [10 * n + 4.5 + 1 for n in range(10)]
    assert list(made.course(0, 1, 10)) == []
