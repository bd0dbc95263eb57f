"""Plays the openb trace under each policy: `make bench-placement`, or `python -m tests.perf.openb --help`.

Takes the folder of the trace; writes the result of each run as soon as it is done to results/latest.json, draws them to
results/latest.svg, and prints a table. All workloads are played with one seed before the next one: what is interrupted
has as many of each, and goes on with --resume. Exit status 1 when a wanted figure is missed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import pathlib
import sys
import time

from tests.perf.openb import drawing, report, trace
from tests.perf.openb.fgd import Fgd
from tests.perf.openb.ours import Ours
from tests.perf.openb.play import RATIO, play
from tests.perf.openb.policies import BestFit, Clustering, DotProd, Packing, PolicyMaker, Random

HERE = pathlib.Path(__file__).parent
TRACE = HERE.parents[3] / "shared" / "data" / "traces" / "alibaba-openb-2023"
RESULTS = HERE / "results" / "latest.json"
POLICIES: dict[str, PolicyMaker] = {
    "Random": Random,
    "DotProd": DotProd,
    "Clustering": Clustering,
    "Packing": Packing,
    "BestFit": BestFit,
    "FGD": Fgd,
    "Muster": Ours,
}
#: the seeds of the published figures begin here
FIRST_SEED = 42


def one(folder: pathlib.Path, workload: str, policy: str, seed: int) -> list[float]:
    """The curve of one run."""
    hosts, pods = trace.read_hosts(folder), trace.read_pods(folder, workload)
    run = trace.arrivals(hosts, pods, seed, RATIO)
    return [round(float(share), 3) for share in play(run, POLICIES[policy](run, seed))]


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=pathlib.Path, default=TRACE, help="folder of the CSV files")
    parser.add_argument("--workloads", nargs="+", help="by name, as default or cpu050; all that are there")
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--seeds", type=int, default=10, help="how many runs of each")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="JSON; the drawing stands beside it")
    parser.add_argument("--resume", action="store_true", help="leave out the runs that the results have already")
    told = parser.parse_args()
    if not told.trace.is_dir():
        parser.error(f"there is no trace in {told.trace}: name its folder with --trace")
    names = told.workloads or trace.workloads(told.trace)
    results = report.read(told.results)
    runs = [
        (name, policy, seed)
        for seed in range(FIRST_SEED, FIRST_SEED + told.seeds)
        for name in names
        for policy in told.policies
        if not (told.resume and report.has(results, name, policy, seed))
    ]
    begun = time.monotonic()
    with concurrent.futures.ProcessPoolExecutor(told.jobs) as pool:
        running = {pool.submit(one, told.trace, *run): run for run in runs}
        for done, ended in enumerate(concurrent.futures.as_completed(running), 1):
            report.put(results, *running[ended], ended.result())
            report.write(told.results, results)
            left = (time.monotonic() - begun) / done * (len(runs) - done) / 60
            print(f"[{done}/{len(runs)}, {left:.0f} min left] {running[ended]}", file=sys.stderr, flush=True)
    for name in names:
        print(report.row(results, name, list(POLICIES)))
    told.results.with_suffix(".svg").write_text(drawing.draw(results, list(POLICIES)))
    missed = report.missed(results)
    print("\n".join(missed or ["all wanted figures are reached"]))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
