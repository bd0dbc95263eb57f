"""`python -m extender.sim trace replay FILE...`: a trace under our engine and gate, and under models of others.

Takes arguments, gives a table, a report and progress; Fault when something cannot be read or written. Must not decide.
"""

from __future__ import annotations

import argparse
import math
import os
import pathlib
import shlex
import time
from typing import TYPE_CHECKING, TextIO

from extender.sim.fields import Fault
from extender.sim.traces import console as traces
from extender.sim.trial import page, photographs, policies, runs, scaling, tables

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_MOST_SEEDS = 1000


def add(actions: Commands) -> None:
    """The action and its arguments."""
    told = actions.add_parser("replay", help="replay a trace (simulated) under Muster and under models of others")
    traces.add_files(told)
    told.add_argument(
        "--load", type=_above_zero, help="GPU time asked for, by what there is, as 0.8; as it was recorded"
    )
    told.add_argument("--longest", type=_above_zero, metavar="SECONDS", help="cut jobs that run longer")
    told.add_argument("--seeds", type=_some, default=1, help="how many, from --seed on (%(default)s)")
    told.add_argument("--policies", nargs="+", choices=policies.EVERY, default=list(policies.POLICIES), metavar="NAME")
    told.add_argument("--ablations", action="store_true", help="Muster with each part off in turn, and set wrong, too")
    told.add_argument("--at-once", type=_some, default=os.cpu_count() or 1, metavar="N", help="replays at a time")
    told.add_argument("--out", type=pathlib.Path, metavar="FOLDER", help="write report.html and CSV tables there")
    told.add_argument(
        "--png", action="store_true", help="write charts as PNGs there too, by a Chromium if there is one"
    )


def run(told: argparse.Namespace, out: TextIO, errors: TextIO) -> None:
    """Replay what is asked for."""
    names = [*told.policies, *((*policies.ABLATIONS, *policies.WRONG) if told.ablations else ())]
    wishes = scaling.Wishes(told.load, told.longest)
    todo = [
        runs.Run(tuple(told.files), told.hosts, wishes, name, seed)
        for seed in range(told.seed, told.seed + told.seeds)
        for name in dict.fromkeys(names)
    ]
    trace = traces.load(told)  # what is wrong with it is said before anything is begun
    begun = time.monotonic()

    def tell(done: int, ended: runs.Run) -> None:
        left = (time.monotonic() - begun) / done * (len(todo) - done)
        print(f"[{done}/{len(todo)}, {left:.0f} s left] {ended.policy}, seed {ended.seed}", file=errors, flush=True)

    results = runs.every(todo, told.at_once, tell)
    for row in tables.means(results):
        print("  ".join(cell.ljust(34 if place == 0 else 20) for place, cell in enumerate(row)).rstrip(), file=out)
    for line in tables.behind(results):
        print(f"not the best in {line}", file=out)
    if told.out is not None:
        _write(told.out, page.files(trace, results, command(told, names)))
        missing = photographs.take(page.pictures(results), told.out) if told.png else ""
        if missing:
            print(missing, file=errors)


def command(told: argparse.Namespace, names: list[str]) -> str:
    """What gives the same again."""
    words = ["python", "-m", "extender.sim", "trace", "replay", *told.files]
    for option in ("hosts", "load", "longest", "seed", "seeds"):
        value = getattr(told, option)
        if value is not None:
            words += [f"--{option}", str(value)]
    return shlex.join([*words, "--policies", *dict.fromkeys(names)])


def _write(folder: pathlib.Path, files: dict[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Fault(str(folder), str(error), "name a folder that can be written to") from error


def _above_zero(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and 0 < value <= 1e9):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def _some(text: str) -> int:
    value = int(text)
    if not 1 <= value <= _MOST_SEEDS:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {_MOST_SEEDS}")
    return value
