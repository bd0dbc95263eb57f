"""Alibaba's openb trace (cluster-trace-gpu-v2023): pods and nodes of a GPU-sharing cluster, and its variants.

Takes rows, gives jobs or hosts; must not read files. Priorities are kube-scheduler's: higher goes first.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.sim.traces import made, table
from extender.sim.traces.common import Ask, Host, Job
from extender.sim.traces.table import BadRow, Row

PODS = frozenset({"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"})
NODES = frozenset({"sn", "cpu_milli", "memory_mib", "gpu", "model"})
TAKES = "request, GPU models, submission and lifetime of each pod; priority by QoS (BE 0, Burstable 50, else 100)"
MAKES = (
    "a part of a GPU counts as a whole one, as the stock scheduler knows no parts; where a variant has no times: a pod"
    " each minute, " + made.RUNTIMES_RULE + "; " + made.JOINED_RULE + "; " + made.QUEUES_RULE
)
NODES_TAKES = "CPU, memory, GPUs and model of each node"
_PRIORITIES = {"BE": 0, "Burstable": 50}
_OTHER_PRIORITY = 100
#: seconds between pods of variants without times
_APART = 60.0


def pod(row: Row, place: int, seed: int) -> Job:
    """A pod, alone so far."""
    name = table.name(row, "name")
    models = tuple(sorted(filter(None, (row.get("gpu_spec") or "").split("|"))))
    gpus = table.whole(row, "num_gpu", most=1024)
    ask = Ask(table.whole(row, "cpu_milli"), table.whole(row, "memory_mib"), gpus, models if gpus else ())
    if "creation_time" in row:
        submitted, ends = table.number(row, "creation_time"), table.number(row, "deletion_time")
        if ends < submitted:
            raise BadRow("deletion_time is before creation_time")
        duration = ends - max(submitted, table.number(row, "scheduled_time", default=submitted))
    else:
        submitted, duration = _APART * place, made.runtime(seed, name)
    priority = _PRIORITIES.get(row.get("qos", ""), _OTHER_PRIORITY)
    return Job(name, submitted, max(duration, 1.0), 1, ask, made.queue(seed, name), priority)


def gangs(jobs: Iterable[Job], seed: int) -> list[Job]:
    """The pods, joined."""
    return made.joined(jobs, seed)


def node(row: Row, place: int, seed: int) -> Host:
    """A node."""
    gpus = table.whole(row, "gpu", most=1024)
    model = row.get("model", "").strip()
    return Host(table.name(row, "sn"), table.whole(row, "cpu_milli"), table.whole(row, "memory_mib"), gpus, model)
