"""Results as tables: rows of texts, for CSV files and for the page alike.

Takes results, gives rows; must not write files. Numbers have as many places as are told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from extender.sim.trial.measures import Figures, Waits
from extender.sim.trial.policies import OURS
from extender.sim.trial.runs import Result

Rows = list[list[str]]
WAITS = ("jobs", "never", "p50 s", "p95 s", "max s")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: its name, how it is found, and whether more of it is better."""

    name: str
    of: Callable[[Figures], float]
    more_is_better: bool
    places: int = 1


FIGURES = (
    Figure("GPUs usefully allocated, %", lambda f: 100 * f.useful, True),
    Figure("GPUs allocated, %", lambda f: 100 * f.allocated, True),
    Figure("free GPUs of no use, %", lambda f: 100 * f.fragments, False),
    Figure("wait of gangs, p50 s", lambda f: f.gangs.p50, False, 0),
    Figure("wait of gangs, p95 s", lambda f: f.gangs.p95, False, 0),
    Figure("wait of 64 GPUs and more, p95 s", lambda f: f.by_size["64+"].p95, False, 0),
    Figure("wait of single GPUs, p95 s", lambda f: f.by_size["1"].p95, False, 0),
    Figure("fairness between queues, Jain", lambda f: f.jain, True, 3),
    Figure("evictions", lambda f: float(f.evictions), False, 0),
    Figure("work lost, GPU hours", lambda f: f.lost / 3600, False),
    Figure("jobs not done at the end", lambda f: float(f.unfinished), False, 0),
    Figure("ring traffic off NVLink, %", lambda f: 100 * f.off_nvlink, False),
    Figure("ring traffic across racks, %", lambda f: 100 * f.across_racks, False),
    Figure("throughput of gangs, %", lambda f: 100 * f.throughput, True),
)


def names(results: Sequence[Result]) -> list[str]:
    """The policies, in the order in which they were asked for."""
    return list(dict.fromkeys(result.policy for result in results))


def mean(results: Sequence[Result], policy: str, figure: Figure) -> float:
    """Over the seeds."""
    found = [figure.of(result.figures) for result in results if result.policy == policy]
    return sum(found) / len(found)


def means(results: Sequence[Result]) -> Rows:
    """A row for each figure, a column for each policy."""
    policies = names(results)
    rows = ([f"{mean(results, policy, one):.{one.places}f}" for policy in policies] for one in FIGURES)
    return [["figure", *policies], *([one.name, *row] for one, row in zip(FIGURES, rows, strict=True))]


def behind(results: Sequence[Result]) -> Iterator[str]:
    """Each figure in which ours is not the best, and by how much; no sentence for one in which it is."""
    policies = names(results)
    for figure in FIGURES:
        found = {policy: round(mean(results, policy, figure), figure.places) for policy in policies}
        best = (max if figure.more_is_better else min)(found.values())
        if OURS in found and found[OURS] != best:
            who = ", ".join(policy for policy in policies if found[policy] == best)
            ours, short = f"{found[OURS]:.{figure.places}f}", f"{abs(found[OURS] - best):.{figure.places}f}"
            yield f"{figure.name}: {OURS} {ours}, {who} {best:.{figure.places}f}; {short} apart"


def figures(results: Sequence[Result]) -> Rows:
    """A row for each replay."""
    rows = [["policy", "seed", *(figure.name for figure in FIGURES), "makespan s"]]
    for result in results:
        cells = [f"{figure.of(result.figures):.6g}" for figure in FIGURES]
        makespan = result.figures.makespan
        rows.append([result.policy, str(result.seed), *cells, "" if makespan is None else f"{makespan:.0f}"])
    return rows


def waits(results: Sequence[Result]) -> Rows:
    """A row for each replay and class of jobs."""
    rows = [["policy", "seed", "of", "class", *WAITS]]
    for result in results:
        groups: tuple[tuple[str, dict[str, Waits]], ...] = (
            ("gangs", {"all": result.figures.gangs}),
            ("GPUs", result.figures.by_size),
            ("queue", result.figures.by_queue),
        )
        for of, classes in groups:
            rows += [[result.policy, str(result.seed), of, name, *_waited(one)] for name, one in classes.items()]
    return rows


def _waited(one: Waits) -> list[str]:
    return [str(one.number), str(one.never), *(f"{value:.0f}" for value in (one.p50, one.p95, one.most))]


def queues(results: Sequence[Result]) -> Rows:
    """What each queue had, and what was fair."""
    rows = [["policy", "seed", "queue", "mean GPUs", "fair GPUs"]]
    for result in results:
        found = result.figures
        rows += [[result.policy, str(result.seed), q, f"{found.had[q]:.2f}", f"{found.fair[q]:.2f}"] for q in found.had]
    return rows


def series(results: Sequence[Result]) -> Rows:
    """The state over time."""
    rows = [["policy", "seed", "at s", "allocated GPUs", "useful GPUs", "free GPUs of no use"]]
    for result in results:
        for one in result.figures.samples:
            state = (f"{one.at:.0f}", str(one.allocated), str(one.useful), f"{one.fragments:.1f}")
            rows.append([result.policy, str(result.seed), *state])
    return rows
