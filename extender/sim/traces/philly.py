"""Microsoft's Philly cluster: runtimes of its jobs, or arrivals and sizes of one virtual cluster's (as Gavel has them).

Takes rows, gives jobs; must not read files.
"""

from __future__ import annotations

from extender.sim.traces import chance, made, table
from extender.sim.traces.common import Job
from extender.sim.traces.table import Row

RUNTIMES = frozenset({"runtime"})
RUNTIMES_TAKE = "the runtime of each job"
RUNTIMES_MAKE = (
    "submission: one job each 60 s on average, between 0 and 120 s apart; "
    + made.SIZES_RULE
    + "; "
    + made.ASK_RULE
    + "; "
    + made.QUEUES_RULE
)
ARRIVALS = frozenset({"job_type", "total_steps", "arrival_s", "num_gpus"})
ARRIVALS_TAKE = "submission and GPUs of each job: a pod for each GPU"
ARRIVALS_MAKE = made.RUNTIMES_RULE + "; " + made.ASK_RULE + "; " + made.QUEUES_RULE
_APART = 60.0


def runtime(row: Row, place: int, seed: int) -> Job:
    """A job of which only the runtime is known."""
    name = f"philly-{place}"
    submitted = _APART * (place + chance.unit(seed, "arrival", name))
    duration = max(table.number(row, "runtime"), 1.0)
    return Job(name, submitted, duration, made.size(seed, name), made.with_gpus(1), made.queue(seed, name))


def arrival(row: Row, place: int, seed: int) -> Job:
    """A job of which the runtime is not known."""
    name = f"philly-vc-{place}"
    pods = table.whole(row, "num_gpus", least=1, most=4096)
    submitted = table.number(row, "arrival_s")
    return Job(name, submitted, made.runtime(seed, name), pods, made.with_gpus(1), made.queue(seed, name))
