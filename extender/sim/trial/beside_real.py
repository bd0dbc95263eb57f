"""`python -m extender.sim trace agree FILE... --decisions FILE`: the model of kube-scheduler against a real one.

Takes a trace and a CSV of what a real kube-scheduler did with it, gives how far the model agrees, and what share of
GPUs and CPU both had allocated in the end; Fault when a file cannot be read. Must not reach a cluster.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, TextIO

from extender.sim.fields import Fault
from extender.sim.traces import console as traces
from extender.sim.traces import table
from extender.sim.traces.common import Trace
from extender.sim.traces.table import BadRow
from extender.sim.trial.agreement import Agreement, Decision, Judge, Kind
from extender.sim.trial.cluster import CPU, GPUS, Broken, Cluster
from extender.sim.trial.measures import Measures
from extender.sim.trial.pod_by_pod import PodByPod
from extender.sim.trial.replay import Replay
from extender.sim.trial.scoring import Scores, least_allocated, most_allocated

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

COLUMNS = ("what", "job", "host")
#: by how many points of all that there is the real one's allocation may lie outside of what the model comes to, by
#: chance among equals, over so many seeds
MOST_POINTS, SEEDS = 1.0, 25
#: disagreements that are told
_TOLD = 10


def add(actions: Commands) -> None:
    """The action and its arguments."""
    told = actions.add_parser("agree", help="compare the model of kube-scheduler with what a real one did")
    traces.add_files(told)
    told.add_argument(
        "--decisions",
        required=True,
        metavar="FILE",
        help="CSV of what (placed, refused, made room, left), job and host, in order",
    )
    told.add_argument("--packing", action="store_true", help="it scored with MostAllocated over CPU, memory and GPUs")


def run(told: argparse.Namespace, out: TextIO) -> bool:
    """Compare; False when they are too far apart."""
    trace = traces.load(told)
    scores = most_allocated if told.packing else least_allocated
    judge = Judge(trace.jobs, trace.hosts, scores)
    try:
        found = judge.judge(_decisions(told.decisions))
    except Broken as error:
        raise Fault(told.decisions, str(error), "give the trace that these decisions are about") from error
    for line in _lines(found):
        print(line, file=out)
    near = True
    played = [_played(trace, scores, seed) for seed in range(told.seed, told.seed + SEEDS)]
    for name, column in (("GPUs", GPUS), ("CPU", CPU)):
        real, each = _allocated(judge.cluster, column), [_allocated(cluster, column) for cluster in played]
        least, most = min(each), max(each)
        near = near and least - MOST_POINTS <= real <= most + MOST_POINTS
        print(
            f"{name} allocated in the end: {real:.2f} % by the real one, {least:.2f} to {most:.2f} % by the model"
            f" ({SEEDS} seeds)",
            file=out,
        )
    return near and found.enough


def _lines(found: Agreement) -> list[str]:
    lines = []
    for kind in (Kind.PLACED, Kind.REFUSED, Kind.MADE_ROOM):
        share = 100 * found.share(kind)
        lines.append(f"{kind.value}: the model agrees with {found.agreed[kind]} of {found.made[kind]}, {share:.1f} %")
    chance = 100 * found.by_chance / max(found.made[Kind.PLACED], 1)
    lines[0] += f"; with hosts drawn by chance among those that fit it would with {chance:.1f} %"
    more = len(found.apart) - _TOLD
    return [*lines, *found.apart[:_TOLD], *([f"and {more} more"] if more > 0 else [])]


def _decisions(path: str) -> list[Decision]:
    read, found = table.read(path), []
    if read.columns != COLUMNS:
        raise Fault(path, f"its columns are {', '.join(read.columns)}", f"give {', '.join(COLUMNS)}")
    for line, row in read.rows():
        try:
            kind = Kind(row.get("what", ""))
            host = "" if kind is Kind.REFUSED else table.name(row, "host")
            found.append(Decision(kind, table.name(row, "job"), host))
        except (BadRow, ValueError) as error:
            raise Fault(path, f"line {line}: {error}", "mend it: each decision counts") from error
    return found


def _played(trace: Trace, scores: Scores, seed: int) -> Cluster:
    """What the model makes of the same trace, left to itself."""
    replay = Replay(trace.jobs, trace.hosts, lambda stage, jobs: PodByPod(stage, scores, seed))
    replay.watcher = Measures(replay.cluster, trace.jobs)
    replay.run()
    return replay.cluster


def _allocated(cluster: Cluster, column: int) -> float:
    total = int(cluster.total[:, column].sum())
    free = int(cluster.free[:, column].sum())
    return 100 * (total - free) / total if total else 0.0
