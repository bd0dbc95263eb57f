"""Results as tables: rows of texts, for CSV files and for the page alike.

Takes results, gives rows; must not write files. Numbers have as many places as are told apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from extender.sim.trial import network
from extender.sim.trial.measures import Figures, Waits
from extender.sim.trial.policies import ABLATIONS, OURS, POLICIES
from extender.sim.trial.runs import Result

Rows = list[list[str]]
WAITS = ("jobs", "never", "p50 s", "p95 s", "max s")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: its name, how it is found (NaN when there is nothing to measure), whether more of it is better, and
    what of Muster's rules it may be given up for."""

    name: str
    of: Callable[[Figures], float]
    more_is_better: bool
    places: int = 1
    given_up_for: str = ""


def _p95(of: Callable[[Figures], Waits]) -> Callable[[Figures], float]:
    return lambda found: of(found).p95 if of(found).number else math.nan


_SHARES = "queues get what they deserve before those before them in time, and take it back from running work"
_ORDER = "a gang that must wait keeps the room that it will need from those behind it, and queues go by share"
FIGURES = (
    Figure("GPUs usefully allocated, %", lambda f: 100 * f.useful, True, given_up_for=_ORDER),
    Figure(
        "GPUs allocated, %", lambda f: 100 * f.allocated, True, given_up_for="members of gangs hold GPUs once all do"
    ),
    Figure("free GPUs of no use, %", lambda f: 100 * f.fragments, False, given_up_for="gangs stand in one rack"),
    Figure("wait of gangs, p50 s", lambda f: f.gangs.p50 if f.gangs.number else math.nan, False, 0, _SHARES),
    Figure("wait of gangs, p95 s", _p95(lambda f: f.gangs), False, 0, _SHARES),
    Figure("wait of 64 GPUs and more, p95 s", _p95(lambda f: f.by_size["64+"]), False, 0, _SHARES),
    Figure("wait of single GPUs, p95 s", _p95(lambda f: f.by_size["1"]), False, 0, _ORDER),
    Figure("fairness between queues, Jain", lambda f: f.jain, True, 3, "gangs start whole or not at all"),
    Figure("evictions", lambda f: float(f.evictions), False, 0, _SHARES),
    Figure("work lost, GPU hours", lambda f: f.lost / 3600, False, given_up_for=_SHARES),
    Figure("jobs not done at the end", lambda f: float(f.unfinished), False, 0, _ORDER),
    Figure(
        "ring traffic off NVLink, %", lambda f: 100 * f.off_nvlink, False, given_up_for="gangs need not wait for room"
    ),
    Figure(
        "ring traffic across racks, %", lambda f: 100 * f.across_racks, False, given_up_for="a rack is only preferred"
    ),
    Figure(
        f"throughput lost to placement ({network.NAME}), %",
        lambda f: 100 * (1 - f.throughput),
        False,
        given_up_for="a rack is only preferred, and hosts are packed, so that more rings share a host's network",
    ),
)


def names(results: Sequence[Result]) -> list[str]:
    """The policies, in the order in which they were asked for."""
    return list(dict.fromkeys(result.policy for result in results))


def mean(results: Sequence[Result], policy: str, figure: Figure) -> float:
    """Over the seeds; NaN when there is nothing to measure."""
    found = [figure.of(result.figures) for result in results if result.policy == policy]
    return sum(found) / len(found)


def text(value: float, figure: Figure) -> str:
    """A figure with its places."""
    return "none" if math.isnan(value) else f"{value:.{figure.places}f}"


def means(results: Sequence[Result]) -> Rows:
    """A row for each figure, a column for each policy."""
    policies = names(results)
    rows = ([text(mean(results, policy, one), one) for policy in policies] for one in FIGURES)
    return [["figure", *policies], *([one.name, *row] for one, row in zip(FIGURES, rows, strict=True))]


def behind(results: Sequence[Result]) -> Iterator[str]:
    """Each figure in which ours is not the best of what is compared: by how much, what it is given up for, and which
    part of ours costs it most, where ablations were made; no sentence for one in which it is."""
    there = names(results)
    for figure in FIGURES:
        found = {policy: round(mean(results, policy, figure), figure.places) for policy in there}
        others = {policy: value for policy, value in found.items() if policy in POLICIES and not math.isnan(value)}
        best = (max if figure.more_is_better else min)(others.values(), default=0.0)
        if OURS not in others or others[OURS] == best:
            continue
        who = ", ".join(policy for policy, value in others.items() if value == best)
        ours, short = text(found[OURS], figure), text(abs(found[OURS] - best), figure)
        yield (
            f"{figure.name}: {OURS} {ours}, {who} {text(best, figure)}; {short} apart."
            f" {OURS} gives it up for this: {figure.given_up_for}. {_cost(found, figure)}"
        )


def _cost(found: Mapping[str, float], figure: Figure) -> str:
    """Which part of ours is in the way, as far as ablations show it."""
    parts = {name: found[name] for name in ABLATIONS if name in found}
    if not parts:
        return "--ablations shows which part costs it."
    sign = 1 if figure.more_is_better else -1
    name = max(parts, key=lambda part: sign * parts[part])
    if sign * (parts[name] - found[OURS]) <= 0:
        return "No part of ours that can be off costs it."
    return f"It is {text(parts[name], figure)} {name}."


def figures(results: Sequence[Result]) -> Rows:
    """A row for each replay."""
    rows = [["policy", "seed", *(figure.name for figure in FIGURES), "makespan s"]]
    for result in results:
        values = (figure.of(result.figures) for figure in FIGURES)
        cells = ["" if math.isnan(value) else f"{value:.6g}" for value in values]
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


def shares(results: Sequence[Result]) -> Rows:
    """A row for each queue: what it should have had, and what it had under each policy; mean GPUs over the seeds."""
    there = names(results)
    rows = [["queue", "fair share", *there]]
    for queue in results[0].figures.fair:
        fair = _over(result.figures.fair.get(queue, 0.0) for result in results)
        had = (_over(one.figures.had.get(queue, 0.0) for one in results if one.policy == policy) for policy in there)
        rows.append([queue, f"{fair:.1f}", *(f"{value:.1f}" for value in had)])
    return rows


def _over(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def series(results: Sequence[Result]) -> Rows:
    """The state over time."""
    rows = [["policy", "seed", "at s", "allocated GPUs", "useful GPUs", "free GPUs of no use"]]
    for result in results:
        for one in result.figures.samples:
            state = (f"{one.at:.0f}", str(one.allocated), str(one.useful), f"{one.fragments:.1f}")
            rows.append([result.policy, str(result.seed), *state])
    return rows
