"""`python -m extender.sim trace describe`: what was read, what was made up, which rows are bad, and how it is spread.

Takes a Trace, gives lines; must not read files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from extender.sim.traces.common import Job, Trace

#: bad rows that are named; the rest is counted
_NAMED = 10
_SHARES = (0.1, 0.5, 0.9, 0.99, 1.0)


def lines(trace: Trace) -> Iterator[str]:
    """The description."""
    for source in trace.sources:
        yield f"{source.path}: {source.format}, {source.rows} rows"
        yield f"  taken from it  {source.takes}"
        yield f"  made up        {source.makes}"
    for rule in trace.made:
        yield f"made up, {rule}"
    yield f"seed of what is made up: {trace.seed}"
    yield from _bad(trace)
    pods = sum(job.pods for job in trace.jobs)
    hours = sum(job.work for job in trace.jobs) / 3600
    yield f"{len(trace.jobs)} jobs of {pods} pods over {trace.span:.0f} s, {hours:.1f} GPU hours"
    yield f"{len(trace.hosts)} hosts, {trace.gpus} GPUs, {len({host.rack for host in trace.hosts})} racks"
    yield "  runs, s        " + _spread([job.duration for job in trace.jobs])
    yield "  GPUs           " + _counted([job.gpus for job in trace.jobs])
    yield "  pods           " + _counted([job.pods for job in trace.jobs])
    yield "  queue          " + _work(trace.jobs)
    yield "  priority       " + _counted([job.priority for job in trace.jobs])


def _bad(trace: Trace) -> Iterator[str]:
    if trace.bad:
        yield f"{len(trace.bad)} bad rows are left out:"
    for bad in trace.bad[:_NAMED]:
        where = f"{bad.path}:{bad.line}: " if bad.path else ""
        yield f"  {where}{bad.what}"
    if len(trace.bad) > _NAMED:
        yield f"  and {len(trace.bad) - _NAMED} more"


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of all does not exceed; 0 of none. `values` are in order."""
    if not values:
        return 0.0
    return values[min(len(values) - 1, max(0, -int(-share * len(values) // 1) - 1))]


def _spread(values: Sequence[float]) -> str:
    ordered = sorted(values)
    named = (f"p{share * 100:.0f} {percentile(ordered, share):.0f}" for share in _SHARES[:-1])
    return "  ".join((*named, f"max {ordered[-1]:.0f}"))


def _counted(values: Sequence[int]) -> str:
    count = Counter(values)
    return "  ".join(f"{value}: {count[value]}" for value in sorted(count)[:24])


def _work(jobs: Sequence[Job]) -> str:
    work: dict[str, float] = {}
    for job in jobs:
        work[job.queue] = work.get(job.queue, 0.0) + job.work
    total = sum(work.values()) or 1.0
    return "  ".join(f"{name}: {100 * work[name] / total:.0f} % of all work" for name in sorted(work))
