"""Alibaba's DLRM trace (cluster-trace-gpu-v2025): instances of disaggregated recommendation services.

Takes rows, gives jobs; must not read files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from extender.sim.traces import made, table
from extender.sim.traces.common import Ask, Job
from extender.sim.traces.table import BadRow, Row

COLUMNS = frozenset({"instance_sn", "role", "app_name", "cpu_request", "gpu_request", "creation_time", "deletion_time"})
TAKES = (
    "request, service, submission and lifetime of each instance; instances of one service and role with one request"
    " and submission are a gang"
)
MAKES = (
    "an instance without a deletion runs to the end of the trace; a gang runs as long as its longest instance; the"
    " queue is drawn by service (" + made.QUEUES_RULE + "); RDMA, disks and anti-affinity are left out"
)
#: the newest time in the trace
_END = 2_676_636.0
_GIB = 1024


def instance(row: Row, place: int, seed: int) -> Job:
    """An instance; named by what makes it one gang with others."""
    service = table.name(row, "app_name")
    submitted = table.number(row, "creation_time")
    ends = table.number(row, "deletion_time", default=max(_END, submitted))
    begins = max(submitted, table.number(row, "scheduled_time", default=submitted))
    if ends < submitted:
        raise BadRow("deletion_time is before creation_time")
    cpu = int(1000 * table.number(row, "cpu_request"))
    memory = int(_GIB * table.number(row, "memory_request", default=0.0))
    ask = Ask(cpu, memory, table.whole(row, "gpu_request", most=1024))
    role = table.name(row, "role")
    name = f"{service}-{role}-{submitted:.0f}-{ask.cpu}-{ask.memory}-{ask.gpus}"
    return Job(name, submitted, max(ends - begins, 1.0), 1, ask, made.queue(seed, service))


def gangs(jobs: Iterable[Job], seed: int) -> list[Job]:
    """Instances that came together, as one."""
    found: dict[str, Job] = {}
    for job in jobs:
        before = found.get(job.name)
        if before is None:
            found[job.name] = job
        else:
            found[job.name] = replace(before, pods=before.pods + 1, duration=max(before.duration, job.duration))
    return list(found.values())
