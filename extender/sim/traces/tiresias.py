"""A workload of Tiresias (NSDI'19).

Takes rows, gives jobs; must not read files.
"""

from __future__ import annotations

from extender.sim.traces import made, table
from extender.sim.traces.common import Job
from extender.sim.traces.table import Row

COLUMNS = frozenset({"job_id", "num_gpu", "submit_time", "duration"})
TAKES = "submission, duration and GPUs of each job: a pod for each GPU"
MAKES = made.ASK_RULE + "; " + made.QUEUES_RULE


def job(row: Row, place: int, seed: int) -> Job:
    """A job."""
    name = "tiresias-" + table.name(row, "job_id")
    pods = table.whole(row, "num_gpu", least=1, most=4096)
    submitted, duration = table.number(row, "submit_time"), max(table.number(row, "duration"), 1.0)
    return Job(name, submitted, duration, pods, made.with_gpus(1), made.queue(seed, name))
