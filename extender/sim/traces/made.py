"""What is made up where a trace does not say it, by rules that can be named, out of a seed.

Takes a seed and what is known of a job, gives the rest; must not read files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from extender.sim.traces import chance
from extender.sim.traces.common import QUEUES, Ask, Host, Job

#: seconds that jobs of Microsoft's Philly cluster ran: shares of 83,154 runtimes (philly_runtime.csv)
RUNTIMES = ((0.0, 1.0), (0.25, 131.0), (0.5, 1186.0), (0.75, 3342.0), (0.9, 12860.0), (0.99, 287333.0))
RUNTIMES_RULE = (
    "runtime: drawn from the quantiles of Philly's runtimes (p25 131 s, p50 1186 s, p75 3342 s, p90 12860 s)"
)
#: pods of a gang with the weight of each size: on average 2, as Philly's jobs have GPUs (1.93)
SIZES = ((1, 81.0), (2, 5.0), (4, 6.0), (8, 6.5), (16, 1.0), (32, 0.4), (64, 0.08), (128, 0.02))
SIZES_RULE = "pods: 1 to 128 of one GPU, on average 2, by fixed weights"
#: how openb's pods are joined: of a hundred gangs so many have that many pods
JOINED = ((1, 85.0), (2, 4.0), (4, 4.0), (8, 4.0), (16, 1.5), (32, 0.8), (64, 0.7))
JOINED_RULE = (
    "gangs: pods of equal request that ask for whole GPUs are joined in order of submission, a gang has 1 (85 %), 2, 4,"
    " 8 (4 % each), 16 (1.5 %), 32 (0.8 %) or 64 pods (0.7 %), is submitted with its first pod and runs as long as it"
)
QUEUES_RULE = "queue: drawn, " + ", ".join(f"{name} {share} %" for name, share in QUEUES)
#: CPU and memory that go with a GPU, and those of a host that nobody describes
CPU_OF_GPU, MEMORY_OF_GPU = 8_000, 65_536
ASK_RULE = "request: 8 cores and 64 GiB with each GPU"
HOST_GPUS = 8
HOST = Host("host", 192_000, 2048 * 1024, HOST_GPUS)
#: hosts of one kind, next to each other, stand in one rack
RACK_HOSTS = 16
RACKS_RULE = f"racks: {RACK_HOSTS} hosts of one GPU model each, in order"


def queue(seed: int, job: str) -> str:
    """The queue of a job."""
    return chance.weighted(QUEUES, seed, "queue", job)


def runtime(seed: int, job: str) -> float:
    """How long a job runs, in seconds."""
    return round(chance.quantile(RUNTIMES, seed, "runtime", job), 3)


def size(seed: int, job: str) -> int:
    """How many pods a job has."""
    return chance.weighted(SIZES, seed, "size", job)


def with_gpus(gpus: int) -> Ask:
    """A pod with so many GPUs."""
    return Ask(CPU_OF_GPU * max(gpus, 1), MEMORY_OF_GPU * max(gpus, 1), gpus)


def joined(jobs: Iterable[Job], seed: int) -> list[Job]:
    """Single pods as gangs; those that nothing joins, and those without GPUs, stay single."""
    done: list[Job] = []
    #: by request and priority: the gang that is being joined, how many pods it lacks
    growing: dict[tuple[Ask, int], tuple[Job, int]] = {}
    for job in sorted(jobs, key=lambda job: (job.submitted, job.name)):
        if not job.ask.gpus:
            done.append(job)
            continue
        key = (job.ask, job.priority)
        gang, lacks = growing.pop(key, (None, 0))
        if gang is None:
            gang, lacks = job, chance.weighted(JOINED, seed, "gang", job.name) - 1
        else:
            gang, lacks = dataclasses.replace(gang, pods=gang.pods + 1), lacks - 1
        if lacks:
            growing[key] = (gang, lacks)
        else:
            done.append(gang)
    return done + [gang for gang, _ in growing.values()]


def hosts(number: int) -> list[Host]:
    """So many equal hosts."""
    return [dataclasses.replace(HOST, name=f"host-{row:04}") for row in range(number)]


def in_racks(found: Sequence[Host]) -> tuple[Host, ...]:
    """Each host in a rack with others of its model."""
    count: dict[str, int] = {}
    placed = []
    for host in found:
        place = count.get(host.model, 0)
        count[host.model] = place + 1
        kind = f"{host.model.lower()}-" if host.model else ""
        placed.append(dataclasses.replace(host, rack=f"rack-{kind}{place // RACK_HOSTS:03}"))
    return tuple(placed)
