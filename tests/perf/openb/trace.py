"""The Alibaba openb trace: its nodes and pods as arrays, and pods in an order of arrival.

Takes the folder of the trace (CSV files, plain or gzip), a workload's name and a seed; must not place anything.

Arrivals are as in kubernetes-scheduler-simulator of HKUST, with which the paper's figures were made ("Beware of
Fragmentation", USENIX ATC'23): all pods of the workload in random order, then pods drawn from it with replacement
until they ask for 130 % of the cluster's GPUs; of a workload that asks for more, random ones are left out. Nodes are
in random order too, which decides between equals. Its generator of random numbers is another, so seeds are not its.
"""

from __future__ import annotations

import csv
import gzip
import io
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NODES = "openb_node_list_gpu_node.csv"
PODS = "openb_pod_list_"
MILLI = 1000
#: a node has no more GPUs
MOST_GPUS = 8


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pod asks for: CPU in millicores, memory in MiB, so many GPUs with so many thousandths of each.
    `models` are those that it accepts; () takes any."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...] = ()

    @property
    def shared(self) -> bool:
        """True when it takes a part of one GPU."""
        return 0 < self.milli < MILLI

    @property
    def demand(self) -> int:
        """Thousandths of GPUs, all together."""
        return self.gpus * self.milli


@dataclass(frozen=True, slots=True)
class Hosts:
    """The nodes, by row."""

    names: tuple[str, ...]
    models: tuple[str, ...]
    cpu: Ints
    memory: Ints
    gpus: Ints

    @property
    def total(self) -> int:
        """Thousandths of GPUs of all nodes."""
        return int(self.gpus.sum()) * MILLI

    def accepted(self, shape: Shape) -> Mask:
        """Rows of the models that a shape takes; one without GPUs goes anywhere."""
        if not shape.models or not shape.gpus:
            return np.ones(len(self.names), dtype=bool)
        return np.array([model in shape.models for model in self.models], dtype=bool)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """One run: the nodes in the order that decides between equals, and the pods one after the other."""

    hosts: Hosts
    pods: tuple[Shape, ...]
    #: all pods of the workload, of which those that arrive were drawn
    workload: tuple[Shape, ...]


def workloads(folder: pathlib.Path) -> list[str]:
    """Names of the workloads that are there, the default one first."""
    found = {path.name.removeprefix(PODS).split(".")[0] for path in folder.glob(f"{PODS}*.csv*")}
    return sorted(found, key=lambda name: (name != "default", name))


def read_hosts(folder: pathlib.Path) -> Hosts:
    """The nodes that have GPUs."""
    rows = list(_rows(folder / NODES))
    return Hosts(
        tuple(row["sn"] for row in rows),
        tuple(row["model"] for row in rows),
        *(np.array([int(row[name]) for row in rows], dtype=np.int64) for name in ("cpu_milli", "memory_mib", "gpu")),
    )


def read_pods(folder: pathlib.Path, workload: str) -> tuple[Shape, ...]:
    """The pods of a workload, in the order of the file."""
    path = next(path for path in folder.glob(f"{PODS}{workload}.csv*"))
    return tuple(map(_shape, _rows(path)))


def _shape(row: dict[str, str]) -> Shape:
    gpus = int(row["num_gpu"])
    models = tuple(filter(None, (row.get("gpu_spec") or "").split("|")))
    milli = min(int(row["gpu_milli"]), MILLI) if gpus else 0
    return Shape(int(row["cpu_milli"]), int(row["memory_mib"]), gpus, milli, models if gpus else ())


def _rows(path: pathlib.Path) -> Iterator[dict[str, str]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    yield from csv.DictReader(io.StringIO(text))


def arrivals(hosts: Hosts, workload: tuple[Shape, ...], seed: int, ratio: float) -> Arrivals:
    """The run of a seed, in which pods arrive that ask for so many times the GPUs that there are."""
    chance = np.random.default_rng(seed)
    pods = [workload[place] for place in chance.permutation(len(workload))]
    asked, wanted = sum(pod.demand for pod in pods), ratio * hosts.total
    while asked > wanted:
        asked -= pods.pop(int(chance.integers(len(pods)))).demand
    while True:
        pod = workload[int(chance.integers(len(workload)))]
        if asked + pod.milli > wanted:
            break
        asked += pod.demand
        pods.append(pod)
    order = chance.permutation(len(hosts.names))
    shuffled = Hosts(
        tuple(hosts.names[row] for row in order),
        tuple(hosts.models[row] for row in order),
        hosts.cpu[order],
        hosts.memory[order],
        hosts.gpus[order],
    )
    return Arrivals(shuffled, tuple(pods), workload)
