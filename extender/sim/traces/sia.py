"""A workload of Sia (SOSP'23): adaptive training jobs, here with the replicas that they name.

Takes rows, gives jobs; must not read files.
"""

from __future__ import annotations

from extender.sim.traces import made, table
from extender.sim.traces.common import Job
from extender.sim.traces.table import Row

COLUMNS = frozenset({"name", "time", "application", "num_replicas", "batch_size"})
TAKES = "submission and replicas of each job: a pod of one GPU for each"
MAKES = made.RUNTIMES_RULE + "; " + made.ASK_RULE + "; " + made.QUEUES_RULE + "; jobs keep their size"


def job(row: Row, place: int, seed: int) -> Job:
    """A job."""
    name = table.name(row, "name")
    pods = table.whole(row, "num_replicas", least=1, most=4096)
    submitted = table.number(row, "time")
    return Job(name, submitted, made.runtime(seed, name), pods, made.with_gpus(1), made.queue(seed, name))
