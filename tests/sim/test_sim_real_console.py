"""The command with `--real`: lines, exit status, and what it says when there is no cluster to play on."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from extender.sim import console
from extender.sim.real import command
from extender.sim.real.command import Outcome, Where
from extender.sim.report import Report
from extender.sim.watching import Result

REPORTS = """
- id: A-1
  area: gang
  scenario: {nodes: []}
  want: [{check: evicted_total, max: 0}, {check: answers, max_seconds: 1}]
- id: A-2
  area: queue
  scenario: {nodes: [], events: [{at: 1, kind: start_sidecar}]}
  want: [{check: evicted_total, max: 0}]
"""
Outcomes = Callable[[Report], Outcome]


@pytest.fixture
def file(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "reports.yaml"
    path.write_text(REPORTS)
    return str(path)


def run(*arguments: str) -> tuple[int, list[str], str]:
    out, errors = io.StringIO(), io.StringIO()
    status = console.main(["scenario", "--real", *arguments], out, errors)
    return status, out.getvalue().splitlines(), errors.getvalue()


def playing(monkeypatch: pytest.MonkeyPatch, outcome: Outcomes) -> list[Where]:
    """Have reports come to these outcomes; where they were played."""
    places: list[Where] = []

    def played(reports: Sequence[Report], where: Where, tell: Callable[[Outcome], None], err: Any) -> None:
        places.append(where)
        for report in reports:
            tell(outcome(report))

    monkeypatch.setattr(command, "run", played)
    return places


def came_to(*marks: str) -> Outcomes:
    """Each report's first checks held, fell short or were not read."""
    return lambda report: Outcome(
        report,
        [
            Result(one, mark == "held", mark, read=mark != "unread")
            for one, mark in zip(report.want, marks, strict=True)
        ],
    )


@pytest.mark.parametrize(
    ("marks", "status", "summary", "total"),
    [
        (("held", "held"), 0, "2 checks held", "all 2 checks held"),
        (("held", "unread"), 3, "1 checks held, 1 cannot be read", "all 1 checks held, and 1 cannot be read"),
        (
            ("short", "unread"),
            1,
            "1 of 2 checks fell short, 1 cannot be read",
            "1 fell short, with 1 of 2 checks, and 1 cannot be read",
        ),
    ],
)
def test_what_cannot_be_read_is_neither_held_nor_short(
    file: str, monkeypatch: pytest.MonkeyPatch, marks: tuple[str, ...], status: int, summary: str, total: str
) -> None:
    playing(monkeypatch, came_to(*marks))
    found, lines, _ = run(file, "--id", "A-1", "--quiet", "--kubeconfig", "k")
    assert (found, lines[0], lines[-1]) == (status, f"A-1  gang  {summary}", f"1 report: {total}")
    if "unread" in marks:
        assert "  not read    answers max_seconds 1  (unread)" in lines


def test_what_cannot_be_played_is_named_and_all_else_is_played(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome(report: Report) -> Outcome:
        if report.id == "A-2":
            return Outcome(report, obstacles=["start_sidecar at 1: no"])
        return Outcome(report, came_to("held", "held")(report).results, concessions=["recreate_pod at 1: as well"])

    playing(monkeypatch, outcome)
    assert run(file, "--quiet", "--kubeconfig", "k") == (
        3,
        [
            "A-1  gang  2 checks held",
            "  otherwise   recreate_pod at 1: as well",
            "A-2  queue  cannot be played for real",
            "  not played  start_sidecar at 1: no",
            "1 report: all 2 checks held",
        ],
        "",
    )


def test_the_cluster_is_the_one_that_is_named(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "of-the-environment")
    places = playing(monkeypatch, lambda report: Outcome(report))
    run(file)
    run(file, "--kubeconfig", "named", "--context", "c", "--scale", "2.5", "--at-once", "3")
    assert places == [
        Where("of-the-environment", None, 4.0, 1),
        Where("named", "c", 2.5, 3),
    ]


def test_without_a_cluster_nothing_is_played(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    expected = "cannot play for real: name a cluster with --kubeconfig or KUBECONFIG\n"
    assert run(file) == (2, [], expected)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no: [yaml", "kubeconfig"),
        (
            "{apiVersion: v1, kind: Config, current-context: c, users: [{name: u, user: {}}],"
            " clusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}],"
            " contexts: [{name: c, context: {cluster: k, user: u}}]}",
            "Cannot connect",
        ),
    ],
)
def test_a_cluster_that_cannot_be_reached_is_told(file: str, tmp_path: pathlib.Path, text: str, said: str) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(text)
    status, lines, errors = run(file, "--id", "A-1", "--kubeconfig", str(kubeconfig))
    assert (status, lines) == (2, [])
    assert "cannot play for real: " in errors
    assert said in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    "arguments", [("--scale", "0"), ("--scale", "nan"), ("--scale", "x"), ("--scale", "1e9"), ("--at-once", "0")]
)
def test_arguments_that_mean_nothing_are_refused(file: str, arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(file, *arguments)
    assert ended.value.code == 2
