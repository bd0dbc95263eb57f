"""`python -m extender.sim scenario FILE...`: run reports and say which checks held.

Takes arguments, gives lines and an exit status: 0 when all held, 1 when a check fell short, 2 when a file or an
argument cannot be read. Must not decide what a check means.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from typing import TextIO

from extender.sim import reading, runner
from extender.sim.fields import Fault
from extender.sim.report import Report
from extender.sim.watching import Result

HELD, FELL_SHORT, UNREADABLE = 0, 1, 2


def main(argv: Sequence[str], out: TextIO = sys.stdout, errors: TextIO = sys.stderr) -> int:
    """Do what the arguments say; the exit status."""
    told = _parser().parse_args(argv)
    try:
        reports = _chosen(reading.read_files(told.files), told.id, told.area)
    except Fault as fault:
        print(f"cannot read {fault}", file=errors)
        return UNREADABLE
    if told.list:
        for report in reports:
            print(f"{report.id}  {report.area}  {len(report.want)} checks", file=out)
        return HELD
    return _run(reports, told.quiet, out, errors)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m extender.sim", description="Muster under a virtual clock.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    scenario = commands.add_parser("scenario", help="run scenario files and check what they want")
    scenario.add_argument("files", nargs="+", metavar="FILE", help="a YAML list of reports")
    scenario.add_argument("--id", action="append", default=[], help="only the report of this id; may be repeated")
    scenario.add_argument("--area", action="append", default=[], help="only reports of this area; may be repeated")
    shown = scenario.add_mutually_exclusive_group()
    shown.add_argument("--quiet", action="store_true", help="one line for each report, and checks that fell short")
    shown.add_argument("--list", action="store_true", help="list the reports and run none")
    return parser


def _chosen(reports: list[Report], ids: list[str], areas: list[str]) -> list[Report]:
    """The reports that were asked for, all when none was."""
    for what, wanted, there in (
        ("--id", ids, {report.id for report in reports}),
        ("--area", areas, {report.area for report in reports}),
    ):
        for name in wanted:
            if name not in there:
                raise Fault(f"{what} {name}", "no report is called so", f"there are {', '.join(sorted(there))}")
    return [report for report in reports if not (ids or areas) or report.id in ids or report.area in areas]


def _run(reports: Sequence[Report], quiet: bool, out: TextIO, errors: TextIO) -> int:
    every: list[list[Result]] = []
    for number, report in enumerate(reports, start=1):
        _progress(f"[{number}/{len(reports)}] {report.id}", errors)
        results = _results(report, errors)
        _progress("", errors)
        every.append(results)
        print(f"{report.id}  {report.area}  {_summary(results)}", file=out)
        for result in results:
            if not (quiet and result.held):
                print(_line(result), file=out)
    print(_total(every), file=out)
    return HELD if all(result.held for results in every for result in results) else FELL_SHORT


def _progress(text: str, errors: TextIO) -> None:
    """Show a person which report runs; the line is written over by the next."""
    if errors.isatty():
        print(f"\r\033[K{text}", end="", file=errors, flush=True)


def _total(every: Sequence[Sequence[Result]]) -> str:
    checks = [result.held for results in every for result in results]
    short = sum(not all(result.held for result in results) for results in every)
    what = "1 report" if len(every) == 1 else f"{len(every)} reports"
    if all(checks):
        return f"{what}: all {len(checks)} checks held"
    return f"{what}: {short} fell short, with {checks.count(False)} of {len(checks)} checks"


def _results(report: Report, errors: TextIO) -> list[Result]:
    """What the checks came to; in a run that broke all have fallen short, and the others still run."""
    try:
        return runner.run(report)
    except Exception as fault:
        traceback.print_exception(fault, file=errors)
        text = f"the run broke: {type(fault).__name__}: {fault}"
        return [Result(check, False, text) for check in report.want]


def _summary(results: Sequence[Result]) -> str:
    short = sum(not result.held for result in results)
    return f"{short} of {len(results)} checks fell short" if short else f"{len(results)} checks held"


def _line(result: Result) -> str:
    return f"  {'held      ' if result.held else 'fell short'}  {result.check}  ({result.seen})"
