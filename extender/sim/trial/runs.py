"""Replays of one trace under several policies and seeds, side by side in processes.

Takes what is to be replayed, gives results in order; must not print. What came of a run depends on its trace, policy
and seed alone, so the number of processes changes nothing.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from extender.sim.traces import formats
from extender.sim.trial import policies, scaling
from extender.sim.trial.measures import Figures, Measures
from extender.sim.trial.replay import Replay


@dataclass(frozen=True, slots=True)
class Run:
    """One replay that is to be made."""

    files: tuple[str, ...]
    hosts: int | None
    wishes: scaling.Wishes
    policy: str
    seed: int


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it."""

    policy: str
    seed: int
    #: what was done to the trace, in words
    said: tuple[str, ...]
    gpus: int
    figures: Figures


def one(run: Run) -> Result:
    """Make a replay."""
    trace = formats.load(run.files, run.seed, run.hosts)
    jobs, said = scaling.prepared(trace, run.wishes)
    entry = policies.EVERY[run.policy]
    replay = Replay(jobs, trace.hosts, lambda stage, all_jobs: entry.make(stage, all_jobs, run.seed))
    measures = Measures(replay.cluster, jobs)
    replay.watcher = measures
    replay.run()
    return Result(run.policy, run.seed, said, trace.gpus, measures.figures(replay.works, replay.now))


def every(runs: Sequence[Run], at_once: int, tell: Callable[[int, Run], None]) -> list[Result]:
    """All replays, in the order in which they were given; `tell` hears of each that is done, and how many are."""
    results: dict[int, Result] = {}
    for number, result in _done(runs, at_once):
        results[number] = result
        tell(len(results), runs[number])
    return [results[number] for number in range(len(runs))]


def _done(runs: Sequence[Run], at_once: int) -> Iterator[tuple[int, Result]]:
    if at_once == 1:
        for number, run in enumerate(runs):
            yield number, one(run)
        return
    with concurrent.futures.ProcessPoolExecutor(at_once) as pool:
        running = {pool.submit(one, run): number for number, run in enumerate(runs)}
        for ended in concurrent.futures.as_completed(running):
            yield running[ended], ended.result()
