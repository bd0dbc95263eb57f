"""`python -m extender.sim trace ...`: workloads that were recorded elsewhere.

Takes arguments, gives lines and an exit status: 0 when it was read, 2 when a file cannot be. Must not decide anything.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, TextIO

from extender.sim.traces import describe, formats
from extender.sim.traces.common import Trace

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add(commands: Commands) -> Commands:
    """The subcommand and its actions; what others may add to."""
    trace = commands.add_parser("trace", help="recorded workloads of GPU clusters: describe or replay them")
    doing = trace.add_subparsers(required=True, metavar="ACTION", dest="action")
    doing.add_parser("formats", help="list the formats, what is taken from each, and what is made up")
    told = doing.add_parser("describe", help="say what is read of a trace, what is made up, and which rows are bad")
    add_files(told)
    return doing


def add_files(parser: argparse.ArgumentParser) -> None:
    """Which trace."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of jobs and of hosts, plain or gzip")
    parser.add_argument("--seed", type=int, default=1, help="of all that is made up (%(default)s)")
    parser.add_argument("--hosts", type=_some, metavar="N", help="so many hosts: made up, or of those in the files")


def load(told: argparse.Namespace) -> Trace:
    """The trace that the arguments name; Fault when it cannot be read."""
    return formats.load(told.files, told.seed, told.hosts)


def run(told: argparse.Namespace, out: TextIO, errors: TextIO) -> None:
    """Do what the arguments say; Fault when a file cannot be read."""
    if told.action == "formats":
        for format in formats.FORMATS:
            print(f"{format.name}: {', '.join(sorted(format.columns))}", file=out)
            print(f"  taken from it  {format.takes}\n  made up        {format.makes}", file=out)
        return
    for line in describe.lines(load(told)):
        print(line, file=out)


def _some(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 100_000:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to 100000")
    return value
