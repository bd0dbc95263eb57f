"""`kubectl muster usage`: windows of time side by side, and times as people write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from cli_world import World, run

from extender.cli import usage
from extender.cli.problems import UNUSABLE, Problem
from extender.core.series import OF_QUEUE, STATES, Series, Start
from extender.kube import errors
from extender.wire import usages

NOW = 1_767_226_200.0  # 2026-01-01T00:10:00Z
Object = dict[str, Any]


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: NOW)


class Answering(World):
    """An API server whose live answers come of a series."""

    def __init__(self, series: Series) -> None:
        super().__init__()
        self.series = series

    async def read(self, path: str, *, query: Mapping[str, str] | None = None) -> Object:
        if not path.endswith("/usages/gpus") or self.fails:
            return await super().read(path, query=query)
        return usages.usage(self.series, usages.asked(query or {}, NOW), NOW)


def course() -> Series:
    """Half used for an hour, then three quarters; the last hour before NOW is the better one."""
    made = Series()
    for minute in range(120):
        used = 8.0 if minute < 60 else 12.0
        pools = {"a100": [used, 0, 0, 1, 15 - used, 0]}
        assert len(pools["a100"]) == len(STATES)
        queues = {"research": [used, 0, 0, 4.0, 16, 0]}
        assert len(queues["research"]) == len(OF_QUEUE)
        made.note(NOW - 7200 + 60 * minute, pools, queues)
    made.started(NOW - 5400, [Start("research", 8, 600.0, 2.0)])
    made.started(NOW - 600, [Start("research", 8, 50.0, 1.0)] * 3)
    return made


def test_before_and_after_a_moment_stand_side_by_side() -> None:
    out, said = run(Answering(course()), "usage", "--since", "2h", "--compare", "60m")
    assert said == ""
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:2] == ["before:", "2025-12-31T22:10:00Z"]
    assert lines[1][-2:] == ["60", "points"]
    rows = [[cell.strip() for cell in re.split(r" {3,}", line)] for line in out.splitlines()]
    everything, pool = (next(row for row in rows if row[0].strip() == name) for name in ("all", "a100"))
    assert everything[1:4] == ["16", "50 -> 75", "8 -> 12"]
    assert pool[-6:] == everything[-6:] == ["8 -> 12", "0", "0", "1", "7 -> 3", "0"]
    research, started = (row for row in rows if row[0] == "research")
    assert research[1:] == ["8 -> 12", "0", "0", "4", "16", "0"]
    assert started[1:] == ["2-8", "1 -> 3", "<= 12m5s -> <= 1m4s", "<= 12m5s -> <= 1m4s", *["<= 2.0s -> <= 1.0s"] * 2]


def test_programs_get_the_windows_as_data() -> None:
    out, _ = run(Answering(course()), "-o", "json", "usage", "--since", "2h", "--compare", "2025-12-31T23:10:00Z")
    before, after = json.loads(out)["windows"]
    assert (before["name"], before["cluster"]["allocated"]) == ("before", 8)
    assert (after["name"], after["cluster"]["allocated"]) == ("after", 12)
    assert before["until"] == after["since"] == "2025-12-31T23:10:00Z"


def test_where_less_is_known_than_was_asked_for_it_is_said() -> None:
    out, said = run(Answering(course()), "usage")
    assert "12.5" in out or "10" in out
    assert "known since 2025-12-31T22:10:00Z only" in said
    out, said = run(Answering(Series()), "usage", "--since", "1h")
    assert "0 points" in out
    assert "nothing is known yet" in said
    out, said = run(Answering(course()), "usage", "--since", "4h", "--compare", "3h")
    assert "nothing is known before 2025-12-31T22:10:00Z" in said
    assert "- -> 10" in next(line for line in out.splitlines() if line.startswith("all"))


@pytest.mark.parametrize(
    ("text", "want"),
    [("90m", NOW - 5400), ("2d", NOW - 172_800), ("30s", NOW - 30), ("2026-01-01T00:00:00Z", NOW - 600)],
)
def test_times_are_so_long_ago_or_rfc_3339(text: str, want: float) -> None:
    assert usage.moment(text, NOW) == want


@pytest.mark.parametrize(
    "words",
    [
        ("--since", "yesterday"),
        ("--since", "2026-01-01T00:00:00"),
        ("--since", "0s"),
        ("--since", "1h", "--compare", "2h"),
        ("--compare", "2027-01-01T00:00:00Z"),
        ("--since", "9999999d"),
    ],
)
def test_times_that_make_no_sense_are_refused_with_the_mend(words: tuple[str, ...]) -> None:
    with pytest.raises(Problem, match="as 90m, 24h or 2d") as caught:
        run(Answering(course()), "usage", *words)
    assert caught.value.status == UNUSABLE


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (errors.NotFound(404, "", "404 page not found"), "live answers are not installed"),
        (errors.Forbidden(403, "Forbidden", "usages is forbidden"), "usages is forbidden"),
        (errors.ServerError(500, "", "boom"), "do not answer"),
    ],
)
def test_without_an_answer_the_mend_is_named(error: errors.KubeError, text: str) -> None:
    there = Answering(course())
    there.fails["usages"] = error
    with pytest.raises(Problem, match=text):
        run(there, "usage")
