"""The command line of `kubectl muster`.

Takes arguments, gives an exit status: 0 done, 1 there is no answer, 2 the command line or the kubeconfig cannot be
used. Must not import what reads a cluster before it is to be read.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import TextIO

from extender.cli import arguments, completion, problems, tables
from extender.cli.problems import Problem

STOPPED = 130
#: a recorded day is played by what plays scenarios: the plugin itself decides nothing
_DAY = ("-m", "extender.sim", "day")


def main(argv: Sequence[str] | None = None, out: TextIO | None = None, said: TextIO | None = None) -> int:
    """Do what the arguments say; the exit status."""
    out, said = out or sys.stdout, said or sys.stderr
    told = arguments.parser(os.environ).parse_args(sys.argv[1:] if argv is None else argv)
    if told.command == arguments.COMPLETION:
        lines = completion.candidates(told.words) if told.shell == arguments.ASK else [completion.SCRIPTS[told.shell]]
        print(*lines, sep="\n", file=out)
        return problems.DONE
    if getattr(told, "log", None):
        argv = [sys.executable, *_DAY, told.log, "--queues", told.filename]
        return subprocess.call(argv, stdout=out, stderr=said)  # noqa: S603 - ourselves, with a user's own arguments
    from extender.cli import running

    try:
        asyncio.run(running.run(told, out, said))
    except Problem as problem:
        print(f"{tables.Paint(tables.coloured(said))(tables.BAD, 'error')}: {tables.plain(problem)}", file=said)
        return problem.status
    except BrokenPipeError:  # whoever reads has read enough; nothing more may be flushed there
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
    except KeyboardInterrupt:
        return STOPPED
    return problems.DONE


def complete(argv: Sequence[str] | None = None, out: TextIO | None = None) -> int:
    """What kubectl's own completion asks (`kubectl_complete-muster WORD...`): a candidate a line, then a directive."""
    words = sys.argv[1:] if argv is None else argv
    print(*completion.candidates(words), completion.NO_FILES, sep="\n", file=out or sys.stdout)
    return problems.DONE
