"""What became of the GPUs, as JSON: which time is asked about, and numbers under the names of the series."""

from __future__ import annotations

import pytest

from extender.core.series import OF_QUEUE, STATES, Series, Start
from extender.wire import usages

NOW = 1_767_226_200.0  # 2026-01-01T00:10:00Z
DAY = 86_400.0


@pytest.mark.parametrize(
    ("query", "want"),
    [
        ({}, (NOW - DAY, NOW, 0)),
        ({"since": "2026-01-01T00:00:00Z", "points": "60"}, (NOW - 600, NOW, 60)),
        ({"until": "2026-01-01T01:00:00+01:00"}, (NOW - 600 - DAY, NOW - 600, 0)),
        ({"points": "99999"}, (NOW - DAY, NOW, usages.COURSE)),
        ({"since": "", "until": ""}, (NOW - DAY, NOW, 0)),
    ],
)
def test_the_time_that_is_asked_about(query: dict[str, str], want: tuple[float, float, int]) -> None:
    asked = usages.asked(query, NOW)
    assert (asked.since, asked.until, asked.points) == want


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"since": "2026-01-01T00:00:00"}, "since"),
        ({"until": "tomorrow"}, "until"),
        ({"since": "99999999999999999999"}, "since"),
        ({"since": "2026-01-01T00:20:00Z"}, "since"),
        ({"points": "-1"}, "points"),
        ({"points": "１"}, "points"),
    ],
)
def test_what_cannot_be_read_is_named(query: dict[str, str], field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        usages.asked(query, NOW)


def test_an_empty_series_says_that_it_knows_nothing() -> None:
    told = usages.usage(Series(), usages.asked({}, NOW), NOW)["status"]
    assert (told["points"], told["pools"], told["queues"], told["starts"]) == (0, [], [], [])
    assert told["cluster"]["gpus"] == 0
    assert "knownSince" not in told


def test_numbers_stand_under_their_names_and_pools_add_up_to_the_cluster() -> None:
    series = Series()
    for minute in range(3):
        pools = {"a": [4.0, 1.0, 0.5, 0.25, 1.25, 1.0], "b": [2.0, 0.0, 0.0, 0.0, 6.0, 0.0]}
        series.note(NOW - 600 + 60 * minute, pools, {"research": [4.0, 1.0, 0.5, 7.0, 6.0, 0.0]})
    series.started(NOW - 500, [Start("research", 8, 40.0, 2.0)])
    told = usages.usage(series, usages.asked({"points": "1"}, NOW), NOW)
    assert (told["apiVersion"], told["kind"], told["metadata"]["name"]) == (
        *("visibility.muster.dev/v1alpha1", "Usage", "gpus"),
    )
    status = told["status"]
    assert (status["points"], status["knownSince"], status["lastPoint"]) == (
        *(3, "2026-01-01T00:00:00Z", "2026-01-01T00:02:00Z"),
    )
    a, b = status["pools"]
    assert (a["name"], a["gpus"], a["allocated"], a["outOfUse"]) == ("a", 8, 4, 1)
    assert status["cluster"] == {"gpus": 16} | {state: a[state] + b[state] for state in STATES}
    assert status["queues"] == [{"name": "research", **dict(zip(OF_QUEUE, (4, 1, 0.5, 7, 6, 0), strict=True))}]
    (line,) = status["starts"]
    assert (line["queue"], line["size"], line["count"]) == ("research", "2-8", 1)
    assert 40 <= line["waitedSeconds"]["p50"] == line["waitedSeconds"]["p90"] < 60
    assert [one["allocated"] for one in status["course"]] == [6]
