"""A workload of Shockwave (NSDI'23), as its own trace (tabs, no header) or as CSV.

Takes rows, gives jobs; must not read files.
"""

from __future__ import annotations

from extender.sim.traces import made, table
from extender.sim.traces.common import Job
from extender.sim.traces.table import Row

COLUMNS = frozenset({"job_id", "num_gpus", "duration_s", "arrival_s"})
#: those of the file that names none
UNNAMED = (
    *("type", "command", "directory", "steps_argument", "needs_data", "total_steps", "num_gpus", "mode"),
    *("priority", "slo", "duration_s", "arrival_s"),
)
TAKES = "submission, duration and GPUs of each job: a pod for each GPU"
MAKES = made.ASK_RULE + "; " + made.QUEUES_RULE + "; changes of batch size are left out"


def job(row: Row, place: int, seed: int) -> Job:
    """A job."""
    name = f"shockwave-{place}"
    pods = table.whole(row, "num_gpus", least=1, most=4096)
    submitted, duration = table.number(row, "arrival_s"), max(table.number(row, "duration_s"), 1.0)
    return Job(name, submitted, duration, pods, made.with_gpus(1), made.queue(seed, name))
