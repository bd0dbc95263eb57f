"""The model of kube-scheduler that traces are replayed with, against a real kube-scheduler on 500 pods.

Each case makes heterogeneous nodes and pods, lets a kube-scheduler of its own place them, lets some end so that others
are tried again after their back-off, and lets pods of high priority make room. What it decided stands in its log;
`python -m extender.sim trace agree` says how far the model agrees, by the rule at the top of
extender/sim/trial/agreement.py. At least 95 % of all decisions, and allocations within a point, must.
"""

from __future__ import annotations

import csv
import dataclasses
import pathlib
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from e2e import decisions, objects, scenes, waiting
from e2e.cluster import base
from e2e.kube import Kube

ROOT = pathlib.Path(__file__).resolve().parents[1]
PODS = 500
MODEL = "gpu-model"
RUN = "model-run"
SCHEDULER = "as-it-is"
PACKING = {
    "type": "MostAllocated",
    "resources": [{"name": name, "weight": 1} for name in ("cpu", "memory", objects.GPU)],
}
#: model of the GPUs: their number, cores and GiB of a node
KINDS = {"A100": (8, 96, 768), "V100": (4, 48, 256), "T4": (2, 32, 128), "none": (0, 64, 128)}
#: seconds of the trace; there they only order what happens
ENDS, LATE, FOR_EVER = 50, 100, 100_000_000
URGENT = 1000
#: the log is quiet for so long when all has been tried: a first back-off is a second
QUIET_SECONDS = 1.5


@dataclasses.dataclass(frozen=True)
class Job:
    """A pod of the common input."""

    name: str
    submitted: float
    duration: int
    gpus: int
    cpu: int  # millicores
    memory: int  # MiB
    priority: int
    models: str


@dataclasses.dataclass(frozen=True)
class Case:
    """One kube-scheduler, on so many nodes of each kind."""

    nodes: Mapping[str, int]
    strategy: Mapping[str, Any] | None = None
    #: pods that come late, with high priority
    urgent: int = 0
    #: percent of the usual CPU that pods ask for
    size: int = 100
    seed: int = 1


FEW = {"A100": 15, "V100": 15, "T4": 15, "none": 15}
MANY = {"A100": 3, "V100": 10, "T4": 75, "none": 17}
CASES = {
    "LeastAllocated, its default": Case(FEW),
    "MostAllocated over CPU, memory and GPUs": Case(FEW, PACKING),
    "priority preemption": Case(FEW, urgent=24, seed=2),
    "of 105 nodes a part is scored": Case(MANY, size=120, seed=3),
}


def jobs(case: Case) -> list[Job]:
    """The same for the same seed; names are in the order of submission."""
    draw = random.Random(case.seed)
    found = []
    for number in range(PODS):
        urgent = number >= PODS - case.urgent
        gpus = draw.choice([1, 1, 2, 4] if urgent else [0] * 10 + [1] * 4 + [2])
        found.append(
            Job(
                name=f"j{number:04}",
                submitted=(LATE if urgent else 0) + number / 100,
                # there is room for the first ones, so none that ends is still waiting then
                duration=ENDS if number < PODS / 2 and draw.random() < 0.2 else FOR_EVER,
                gpus=gpus,
                cpu=draw.choice([1000, 1500, 4000, 8000, 12000, 15000]) * case.size // 100,
                memory=draw.choice([1000, 8192, 16384, 30000, 65536]),
                priority=URGENT if urgent else 0,
                models=draw.choice(["", "", "", "A100", "A100|V100", "T4"]) if 0 < gpus <= 2 else "",
            )
        )
    return found


def pod(job: Job, namespace: str, generation: int) -> objects.Object:
    """A job's pod; one that is evicted has an heir of the next generation."""
    wanted = [{"key": RUN, "operator": "In", "values": [namespace]}]
    if job.models:
        wanted.append({"key": MODEL, "operator": "In", "values": job.models.split("|")})
    terms = {"nodeSelectorTerms": [{"matchExpressions": wanted}]}
    spec: dict[str, Any] = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        **({"priorityClassName": namespace} if job.priority else {}),
    }
    return objects.pod(
        f"{job.name}-{generation}", namespace, job.gpus, scheduler=SCHEDULER, cpu=f"{job.cpu}m",
        memory=f"{job.memory}Mi", spec=spec,
    )  # fmt: skip


class Play:
    """The common input on the real cluster."""

    def __init__(self, cluster: base.Cluster, namespace: str, case: Case) -> None:
        self._cluster, self._kube, self._namespace, self._case = cluster, cluster.kube, namespace, case
        self._jobs = {job.name: job for job in jobs(case)}
        self._generations = Counter[str]()
        self._scheduler: base.Scheduler
        self._heirs = 0
        self._size, self._since = 0, 0.0

    def play(self) -> list[decisions.Row]:
        """All of it; what was decided, by job."""
        self._scheduler = self._start()
        early = [job for job in self._jobs.values() if job.submitted < LATE]
        try:
            self._create(early)
            self._settle(len(early))
            for job in early:
                if job.duration < FOR_EVER:
                    self._kube.delete("pods", f"{job.name}-0", self._namespace, grace=0)
            self._settle(len(early))
            self._create([job for job in self._jobs.values() if job.submitted >= LATE])
            self._settle(PODS)
        finally:
            self._scheduler.term()
        return [(what, name.rpartition("-")[0], node) for what, name, node in decisions.rows(self._log())]

    def _create(self, found: list[Job]) -> None:
        """One after another, as their order counts."""
        for job in found:
            self._kube.create(pod(job, self._namespace, self._generations[job.name]))

    def _start(self) -> base.Scheduler:
        profile: dict[str, Any] = {"schedulerName": SCHEDULER}
        if self._case.strategy:
            args = {"scoringStrategy": dict(self._case.strategy)}
            profile["pluginConfig"] = [{"name": "NodeResourcesFit", "args": args}]
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self._cluster.kubeconfig), "qps": 5000, "burst": 10000},
            "leaderElection": {"leaderElect": False},
            "profiles": [profile],
        }
        name = self._cluster.unique(SCHEDULER)
        path = self._cluster.work / f"{name}.yaml"
        path.write_text(yaml.safe_dump(config))
        return self._cluster.start_kube_scheduler(path, extra_flags=["-v=3"], name=name)

    def _log(self) -> str:
        return self._scheduler.log_path.read_text()

    def _settle(self, tried: int) -> None:
        """Wait until so many have been tried, victims have their heirs, and nothing follows."""
        self._since = time.monotonic()
        waiting.wait_for(lambda: self._quiet(tried), 40, f"{tried} pods were tried, and nothing follows")

    def _quiet(self, tried: int) -> bool:
        size = self._scheduler.log_path.stat().st_size
        if size != self._size:
            self._size, self._since = size, time.monotonic()
        if time.monotonic() - self._since < QUIET_SECONDS:
            return False
        log = self._log()
        victims = [name.rpartition("-")[0] for name in decisions.victims(log)[self._heirs :]]
        self._heirs += len(victims)
        self._generations.update(victims)
        self._create([self._jobs[name] for name in victims])
        self._since = time.monotonic()
        return not victims and len({name.rpartition("-")[0] for name in decisions.tries(log)}) >= tried


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_model_decides_as_the_real_one(
    case: Case,
    cluster: base.Cluster,
    kube: Kube,
    namespace: str,
    make_nodes: Callable[..., list[str]],
    tmp_path: pathlib.Path,
) -> None:
    hosts = [("host", "gpus", "cpu", "memory", "model")]
    for model, count in case.nodes.items():
        gpus, cpu, gib = KINDS[model]
        labels = {MODEL: model, RUN: namespace}
        names = make_nodes(count, gpus, cpu=str(cpu), memory=f"{gib}Gi", labels=labels, kwok=False)
        hosts += [(name, str(gpus), str(1000 * cpu), str(1024 * gib), model) for name in names]
    with scenes.priority_classes(kube, **{namespace: URGENT}):
        found = Play(cluster, namespace, case).play()
    columns = ("job", *(field.name for field in dataclasses.fields(Job)[1:]), "pods", "queue")
    trace = [columns, *((*map(str, dataclasses.astuple(job)), "1", "q") for job in jobs(case))]
    paths = [tmp_path / name for name in ("jobs.csv", "hosts.csv", "decisions.csv")]
    for path, rows in zip(paths, (trace, hosts, [("what", "job", "host"), *found]), strict=True):
        with path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
    argv = [sys.executable, "-m", "extender.sim", "trace", "agree", *map(str, paths[:2]), "--decisions", str(paths[2])]
    argv += ["--packing"] if case.strategy else []
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    print(done.stdout, done.stderr)
    counted = Counter(what for what, *_ in found)
    assert counted[decisions.PLACED] > 0.6 * PODS  # there is something to agree with
    assert counted[decisions.REFUSED] > 0
    assert counted[decisions.LEFT] > 0
    assert counted[decisions.MADE_ROOM] >= case.urgent / 8
    assert done.returncode == 0, done.stdout + done.stderr
