"""A trace as it is replayed: with a load that is chosen, and without jobs that outlast everything.

Takes a Trace and wishes, gives jobs and what was done to them; must not draw anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from extender.sim.traces.common import Job, Trace


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a trace is changed. None leaves it as it is."""

    #: GPU seconds that are submitted, by what the hosts have in the span of submissions
    load: float | None = None
    #: longer jobs are cut there, in seconds
    longest: float | None = None


def prepared(trace: Trace, wishes: Wishes) -> tuple[tuple[Job, ...], tuple[str, ...]]:
    """The jobs from time 0 on, and in words what was changed."""
    jobs, said = list(trace.jobs), []
    if wishes.longest is not None:
        cut = sum(job.duration > wishes.longest for job in jobs)
        jobs = [replace(job, duration=min(job.duration, wishes.longest)) for job in jobs]
        said.append(f"{cut} jobs that run longer than {wishes.longest:g} s are cut there")
    factor, begin, work = 1.0, jobs[0].submitted, sum(job.work for job in jobs)
    if wishes.load is not None and work and trace.span and trace.gpus:
        factor = work / (wishes.load * trace.gpus) / trace.span
        said.append(f"times between submissions are multiplied by {factor:.4g}")
    jobs = [replace(job, submitted=(job.submitted - begin) * factor) for job in jobs]
    span = jobs[-1].submitted
    offered = work / (trace.gpus * span) if span and trace.gpus else 0.0
    said.append(f"{len(jobs)} jobs over {span:.0f} s, which ask for {100 * offered:.1f} % of all GPUs")
    return tuple(jobs), tuple(said)
