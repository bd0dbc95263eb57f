"""`python -m extender.sim scenario FILE...`: run reports and say which checks held; `read FILE...`: say what is read;
`replay FILE...`: decide again what is on record in a decision log; `day FILE...`: decide anew with other queues;
`trace ...`: workloads that were recorded elsewhere, described or replayed.

Takes arguments, gives lines and an exit status: 0 when all held or was understood, 1 when not, 2 when a file or an
argument cannot be read, or a cluster cannot be played on; on a real cluster 3 when nothing fell short, but something
could not be played or read there. Must not decide what a check means.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import pathlib
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

import yaml

from extender.sim import day_report, logbook, manifests, reading, replay, runner
from extender.sim.fields import Fault
from extender.sim.report import Report
from extender.sim.traces import console as traces
from extender.sim.trial import beside_real
from extender.sim.trial import console as trial
from extender.sim.watching import Result

if TYPE_CHECKING:
    from extender.sim.real import command

#: scenario seconds in a real one: checks leave room for reactions of 5 of them, and real ones take up to a second
SCALE, MOST_SCALE = 4.0, 1000.0
HELD, FELL_SHORT, UNREADABLE, INCOMPLETE, STOPPED = 0, 1, 2, 3, 130


def main(argv: Sequence[str], out: TextIO = sys.stdout, errors: TextIO = sys.stderr) -> int:
    """Do what the arguments say; the exit status."""
    told = _parser().parse_args(argv)
    if told.command == "read":
        return _read(told.files, out, errors)
    if told.command == "replay":
        return _replay(told.files, out, errors)
    if told.command == "day":
        return _day(told.files, told.queues, out, errors)
    if told.command == "trace":
        return _trace(told, out, errors)
    try:
        reports = _chosen(reading.read_files(told.files), told.id, told.area)
    except Fault as fault:
        print(f"cannot read {fault}", file=errors)
        return UNREADABLE
    if told.list:
        for report in reports:
            print(f"{report.id}  {report.area}  {len(report.want)} checks", file=out)
        return HELD
    if told.real:
        return _real(reports, told, out, errors)
    return _run(reports, told.quiet, out, errors)


def _parser() -> argparse.ArgumentParser:
    about = "Muster in scenarios: under a virtual clock, or on a real cluster."
    parser = argparse.ArgumentParser(prog="python -m extender.sim", description=about)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    read = commands.add_parser("read", help="say what Muster reads from manifests: groups, tasks, requests, wishes")
    read.add_argument("files", nargs="+", metavar="FILE", help="manifests; what they name of each other is looked up")
    log = commands.add_parser("replay", help="decide again what a decision log has on record, and compare")
    log.add_argument("files", nargs="+", metavar="FILE", help="files of a decision log, or its folder")
    anew = commands.add_parser("day", help="play what a decision log has on record with other queues, and compare")
    anew.add_argument("files", nargs="+", metavar="FILE", help="files of a decision log, or its folder")
    anew.add_argument("--queues", required=True, metavar="FILE", help="Queue objects as they would be")
    actions = traces.add(commands)
    trial.add(actions)
    beside_real.add(actions)
    scenario = commands.add_parser("scenario", help="run scenario files and check what they want")
    scenario.add_argument("files", nargs="+", metavar="FILE", help="a YAML list of reports")
    scenario.add_argument("--id", action="append", default=[], help="only the report of this id; may be repeated")
    scenario.add_argument("--area", action="append", default=[], help="only reports of this area; may be repeated")
    shown = scenario.add_mutually_exclusive_group()
    shown.add_argument("--quiet", action="store_true", help="one line for each report, and checks that fell short")
    shown.add_argument("--list", action="store_true", help="list the reports and run none")
    real = scenario.add_argument_group("on a real cluster, where Muster and KWOK run")
    real.add_argument("--real", action="store_true", help="play there, and remove everything at the end")
    real.add_argument("--kubeconfig", metavar="FILE", default=os.environ.get("KUBECONFIG"), help="or KUBECONFIG")
    real.add_argument("--context", metavar="NAME", help="of the kubeconfig; its current one if none is named")
    real.add_argument("--scale", type=_scale, default=SCALE, help="scenario seconds in a real one (%(default)g)")
    real.add_argument("--at-once", type=_number, default=1, metavar="N", help="so many reports at the same time")
    return parser


def _read(files: Sequence[str], out: TextIO, errors: TextIO) -> int:
    """What Muster reads from manifests, as YAML by file. The pods are made as their controllers make them."""
    try:
        found = manifests.read_files(files)
    except Fault as fault:
        print(f"cannot read {fault}", file=errors)
        return UNREADABLE
    for path, results in found.items():
        yaml.safe_dump({path: results}, out, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
    return HELD if all(manifests.sound(results) for results in found.values()) else FELL_SHORT


def _replay(paths: Sequence[str], out: TextIO, errors: TextIO) -> int:
    """Whether the same is decided again, file by file; what cannot be read ends only the file that it is in."""
    try:
        files = logbook.files(paths)
    except Fault as fault:
        print(f"cannot read {fault}", file=errors)
        return UNREADABLE
    status = HELD
    for path in files:
        try:
            found = replay.replay(path, functools.partial(_replaying, path, errors))
        except Fault as fault:
            _progress("", errors)
            print(f"cannot read {fault}", file=errors, flush=True)
            status = max(status, UNREADABLE)
            continue
        _progress("", errors)
        status = max(status, HELD if found.difference is None else FELL_SHORT)
        print(f"{path}: {_replayed(found)}", file=out, flush=True)
    return status


def _day(paths: Sequence[str], queues: str, out: TextIO, errors: TextIO) -> int:
    try:
        day_report.report(paths, queues, out, functools.partial(_progress, errors=errors))
    except Fault as fault:
        _progress("", errors)
        print(f"cannot read {fault}", file=errors)
        return UNREADABLE
    return HELD


def _trace(told: argparse.Namespace, out: TextIO, errors: TextIO) -> int:
    held = True
    try:
        if told.action == "agree":
            held = beside_real.run(told, out)
        else:
            (trial if told.action == "replay" else traces).run(told, out, errors)
    except Fault as fault:
        print(f"cannot read {fault}", file=errors)
        return UNREADABLE
    return HELD if held else FELL_SHORT


def _replaying(path: pathlib.Path, errors: TextIO, so_far: replay.Outcome) -> None:
    _progress(f"{path}: {so_far.events} events", errors)


def _replayed(found: replay.Outcome) -> str:
    span = "" if found.first is None else f" from {replay.time(found.first)} to {replay.time(found.last)}"
    lost = f"; {found.lost} events are missing at its end" if found.lost else ""
    if found.difference is not None:
        return f"something else is decided, {found.difference}"
    return f"the same is decided, {found.decisions} decisions and effects after {found.events} events{span}{lost}"


def _scale(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and 0 < value <= MOST_SCALE):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0, at most {MOST_SCALE:g}")
    return value


def _number(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return value


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
        _show(report, results, quiet, out)
    print(_total(every), file=out)
    return FELL_SHORT if any(result.short for results in every for result in results) else HELD


def _show(report: Report, results: Sequence[Result], quiet: bool, out: TextIO) -> None:
    print(f"{report.id}  {report.area}  {_summary(results)}", file=out, flush=True)
    for result in results:
        if not (quiet and result.held):
            print(_line(result), file=out, flush=True)


def _real(reports: Sequence[Report], told: argparse.Namespace, out: TextIO, errors: TextIO) -> int:
    """Play on the cluster that was named; what is not there for the virtual clock is imported only now."""
    from extender.sim.real import command

    if told.kubeconfig is None:
        print("cannot play for real: name a cluster with --kubeconfig or KUBECONFIG", file=errors)
        return UNREADABLE
    every: list[command.Outcome] = []

    def tell(outcome: command.Outcome) -> None:
        _progress("", errors)
        every.append(outcome)
        if outcome.obstacles:
            print(f"{outcome.report.id}  {outcome.report.area}  cannot be played for real", file=out, flush=True)
        else:
            _show(outcome.report, outcome.results, told.quiet, out)
        for line in (*outcome.obstacles, *outcome.concessions):
            print(f"  {'not played' if outcome.obstacles else 'otherwise '}  {line}", file=out, flush=True)

    where = command.Where(told.kubeconfig, told.context, told.scale, told.at_once)
    try:
        command.run(reports, where, tell, errors)
    except command.CANNOT as fault:
        print(f"cannot play for real: {fault}", file=errors)
        return UNREADABLE
    except command.Stopped:
        return STOPPED
    print(_total([outcome.results for outcome in every if not outcome.obstacles]), file=out)
    return _status(every)


def _status(every: Sequence[command.Outcome]) -> int:
    results = [result for outcome in every for result in outcome.results]
    if any(result.short for result in results):
        return FELL_SHORT
    whole = all(result.held for result in results) and not any(outcome.obstacles for outcome in every)
    return HELD if whole else INCOMPLETE


def _progress(text: str, errors: TextIO) -> None:
    """Show a person which report runs; the line is written over by the next."""
    if errors.isatty():
        print(f"\r\033[K{text}", end="", file=errors, flush=True)


def _total(every: Sequence[Sequence[Result]]) -> str:
    checks = [result for results in every for result in results]
    short = sum(any(result.short for result in results) for results in every)
    unread = sum(not result.read for result in checks)
    what = "1 report" if len(every) == 1 else f"{len(every)} reports"
    beside = f", and {unread} cannot be read" if unread else ""
    if short:
        number = sum(result.short for result in checks)
        return f"{what}: {short} fell short, with {number} of {len(checks)} checks{beside}"
    return f"{what}: all {len(checks) - unread} checks held{beside}"


def _results(report: Report, errors: TextIO) -> list[Result]:
    """What the checks came to; in a run that broke all have fallen short, and the others still run."""
    try:
        return runner.run(report)
    except Exception as fault:
        traceback.print_exception(fault, file=errors)
        text = f"the run broke: {type(fault).__name__}: {fault}"
        return [Result(check, False, text) for check in report.want]


def _summary(results: Sequence[Result]) -> str:
    short, unread = sum(result.short for result in results), sum(not result.read for result in results)
    beside = f", {unread} cannot be read" if unread else ""
    if short:
        return f"{short} of {len(results)} checks fell short{beside}"
    return f"{len(results) - unread} checks held{beside}"


def _line(result: Result) -> str:
    came_to = "held      " if result.held else "fell short" if result.read else "not read  "
    return f"  {came_to}  {result.check}  ({result.seen})"
