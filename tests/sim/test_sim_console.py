"""The command: lines, exit status, choice of reports, and what it says of a file that it cannot read."""

from __future__ import annotations

import io
import pathlib
import re
import subprocess
import sys

import pytest

from extender.sim import console, runner
from extender.sim.report import Report
from tests.test_repository import ROOT

REPORTS = """
- id: A-1
  area: gang
  scenario:
    settings: {end: 5}
    nodes: [{name: n1, allocatable: {cpu: 1}}]
    groups: [{name: g, minMember: 1, tasks: [{name: w, replicas: 1, requests: {cpu: 1}}]}]
  want: [{check: bound, group: g, count: 1}, {check: evicted_total, max: 0}]
- id: A-2
  area: queue
  scenario: {settings: {end: 5}, nodes: []}
  want: [{check: evicted_total, min: 1}, {check: evicted_total, max: 1}]
"""


@pytest.fixture
def file(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "reports.yaml"
    path.write_text(REPORTS)
    return str(path)


def run(*arguments: str) -> tuple[int, list[str], str]:
    out, errors = io.StringIO(), io.StringIO()
    status = console.main(["scenario", *arguments], out, errors)
    return status, out.getvalue().splitlines(), errors.getvalue()


def test_every_check_has_a_line_with_what_was_seen(file: str) -> None:
    assert run(file) == (
        1,
        [
            "A-1  gang  2 checks held",
            "  held        bound group g count 1  (1 at 5)",
            "  held        evicted_total max 0  (0 at 5)",
            "A-2  queue  1 of 2 checks fell short",
            "  fell short  evicted_total min 1  (0 at 5)",
            "  held        evicted_total max 1  (0 at 5)",
            "2 reports: 1 fell short, with 1 of 4 checks",
        ],
        "",
    )


def test_quietly_only_what_fell_short_is_shown(file: str) -> None:
    assert run(file, "--quiet") == (
        1,
        [
            "A-1  gang  2 checks held",
            "A-2  queue  1 of 2 checks fell short",
            "  fell short  evicted_total min 1  (0 at 5)",
            "2 reports: 1 fell short, with 1 of 4 checks",
        ],
        "",
    )


@pytest.mark.parametrize(
    ("arguments", "status", "ids"),
    [
        (["--id", "A-1"], 0, ["A-1"]),
        (["--area", "queue"], 1, ["A-2"]),
        (["--area", "queue", "--area", "gang"], 1, ["A-1", "A-2"]),
        (["--id", "A-1", "--id", "A-2"], 1, ["A-1", "A-2"]),
        (["--id", "A-1", "--area", "queue"], 1, ["A-1", "A-2"]),
    ],
)
def test_reports_are_chosen(file: str, arguments: list[str], status: int, ids: list[str]) -> None:
    found, lines, _ = run(file, "--quiet", *arguments)
    assert (found, [line.split()[0] for line in lines if line.startswith("A-")]) == (status, ids)


def test_a_list_runs_nothing(file: str) -> None:
    assert run(file, "--list") == (0, ["A-1  gang  2 checks", "A-2  queue  2 checks"], "")


def test_reports_that_do_not_exist_are_named(file: str) -> None:
    assert run(file, "--id", "B") == (2, [], "cannot read --id B: no report is called so; there are A-1, A-2\n")
    assert run(file, "--area", "x") == (2, [], "cannot read --area x: no report is called so; there are gang, queue\n")


def test_a_file_that_cannot_be_read_is_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(REPORTS.replace("replicas: 1", "replica: 1"))
    where = f"{path}: A-1.scenario.groups[g].tasks[w].replica"
    status, lines, errors = run(str(path))
    assert (status, lines) == (2, [])
    assert errors == f"cannot read {where}: there is no such field; did you mean replicas?\n"


def test_a_run_that_breaks_falls_short_and_the_others_run(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = runner.run

    def broken(report: Report) -> object:
        if report.id == "A-1":
            raise TypeError("no write for Surprise")
        return whole(report)

    monkeypatch.setattr(runner, "run", broken)
    status, lines, errors = run(file)
    assert status == 1
    assert lines[1] == "  fell short  bound group g count 1  (the run broke: TypeError: no write for Surprise)"
    assert lines[-1] == "2 reports: 2 fell short, with 3 of 4 checks"
    assert "Traceback" in errors


def test_progress_is_told_to_a_terminal_only(file: str) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    errors = Terminal()
    console.main(["scenario", file], io.StringIO(), errors)
    assert "[1/2] A-1" in errors.getvalue()
    assert "[2/2] A-2" in errors.getvalue()
    assert errors.getvalue().endswith("\r\033[K")


def test_the_example_of_the_readme_holds(tmp_path: pathlib.Path) -> None:
    [example] = re.findall(r"```yaml\n(- id.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    path = tmp_path / "example.yaml"
    path.write_text(example)
    assert run(str(path), "--quiet") == (0, ["two-gangs  example  3 checks held", "1 report: all 3 checks held"], "")


def test_the_command_runs(file: str) -> None:
    command = [sys.executable, "-m", "extender.sim", "scenario", file, "--id", "A-1", "--quiet"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "A-1  gang  2 checks held\n1 report: all 2 checks held\n",
        "",
    )
