"""A user's own CSV of jobs, and of hosts, as `kubectl muster record` writes them too.

Takes rows, gives jobs or hosts; must not read files.
"""

from __future__ import annotations

from extender.sim.traces import made, table
from extender.sim.traces.common import Ask, Host, Job
from extender.sim.traces.table import Row

JOBS = frozenset({"job", "submitted", "duration", "pods", "gpus"})
TAKES = "job, submitted (s), duration (s), pods, gpus of each pod; and cpu (millicores), memory (MiB), queue, priority"
MAKES = "where such a column or cell is missing: priority 0; " + "; ".join(
    (made.RUNTIMES_RULE, made.ASK_RULE, made.QUEUES_RULE)
)
_LOWEST = -(2**31)
HOSTS = frozenset({"host", "gpus"})
HOSTS_TAKE = "host, gpus; and cpu (millicores), memory (MiB), model, where they are given"
HOSTS_MAKE = "where they are not: 12 cores and 128 GiB with each GPU"
_HOST_CPU, _HOST_MEMORY = 12_000, 128 * 1024


def job(row: Row, place: int, seed: int) -> Job:
    """A job."""
    name = table.name(row, "job")
    gpus = table.whole(row, "gpus", most=1024)
    usual = made.with_gpus(gpus)
    ask = Ask(
        table.whole(row, "cpu", default=usual.cpu),
        table.whole(row, "memory", default=usual.memory),
        gpus,
        tuple(sorted(filter(None, row.get("models", "").split("|")))),
    )
    queue = table.name(row, "queue") if row.get("queue", "").strip() else made.queue(seed, name)
    return Job(
        name,
        table.number(row, "submitted"),
        max(table.number(row, "duration"), 1.0) if row.get("duration", "").strip() else made.runtime(seed, name),
        table.whole(row, "pods", least=1, most=4096),
        ask,
        queue,
        table.whole(row, "priority", least=_LOWEST, default=0),
    )


def host(row: Row, place: int, seed: int) -> Host:
    """A host."""
    gpus = table.whole(row, "gpus", most=1024)
    cpu = table.whole(row, "cpu", default=_HOST_CPU * max(gpus, 1))
    memory = table.whole(row, "memory", default=_HOST_MEMORY * max(gpus, 1))
    return Host(table.name(row, "host"), cpu, memory, gpus, row.get("model", "").strip())
