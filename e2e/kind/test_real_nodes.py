"""What only real nodes can show: gangs of real processes on GPUs that the kubelet gave."""

from __future__ import annotations

import re
from typing import Any

from e2e import waiting
from e2e.kind import cluster, gangs, gpus, state
from e2e.kube import Kube

#: a pod starts, is given its devices and runs, on a loaded machine
START = 120


def pods(kube: Kube, namespace: str) -> list[dict[str, Any]]:
    return kube.list("pods", namespace)


def finished(kube: Kube, name: str, namespace: str) -> bool:
    status = kube.get("jobs.batch", name, namespace).get("status", {})
    return any(one["type"] == "Complete" and one["status"] == "True" for one in status.get("conditions", []))


def said(made: state.Made, namespace: str, name: str) -> list[str]:
    """What the workers of a Job printed."""
    lines = cluster.kubectl(made, "-n", namespace, "logs", "-l", f"job={name}", "--tail=-1").splitlines()
    return sorted(line for line in lines if line.startswith("rank "))


def devices(line: str) -> list[int]:
    return sorted(int(number) for number in re.findall(r"gpu-(\d+)", line))


def test_a_gang_of_real_processes_finishes_an_all_reduce(made: state.Made, kube: Kube, namespace: str) -> None:
    gangs.create(kube, "ring", namespace, 4)
    waiting.wait_for(lambda: finished(kube, "ring", namespace), START, "the ring has finished")
    lines = said(made, namespace, "ring")
    assert [line.split(",")[0] for line in lines] == [f"rank {rank} of 4: sum 30" for rank in range(4)]
    assert [devices(line) for line in lines] == [list(range(8))] * 4
    nodes = {pod["spec"]["nodeName"] for pod in pods(kube, namespace)}
    assert nodes == set(gpus.allocatable(made)), "four workers of eight GPUs fill the four nodes"


def test_two_gangs_on_one_node_get_devices_that_are_joined_and_differ(
    made: state.Made, kube: Kube, namespace: str
) -> None:
    for name in ("left", "right"):
        gangs.create(kube, name, namespace, 4, count=4)
    for name in ("left", "right"):
        waiting.wait_for(lambda name=name: finished(kube, name, namespace), START, f"{name} has finished")
        for line in said(made, namespace, name):
            assert devices(line) in ([0, 1, 2, 3], [4, 5, 6, 7]), "a quad under NVLink"


def test_a_worker_that_dies_is_replaced_and_the_ring_is_closed(made: state.Made, kube: Kube, namespace: str) -> None:
    # it waits for the file, so that the worker dies before the ring is closed
    hold = "import os, time\nwhile not os.path.exists('/dev/shm/go'): time.sleep(0.1)\n"
    gangs.create(kube, "ring", namespace, 4, command=["python", "-c", hold + gangs.RING.read_text()])
    first = waiting.wait_for(lambda: running(kube, namespace), START, "four run", until=lambda seen: len(seen) == 4)
    victim = sorted(first)[0]
    kube.delete("pods", victim, namespace)
    replaced = waiting.wait_for(
        lambda: running(kube, namespace), START, "four run again",
        until=lambda seen: len(seen) == 4 and victim not in seen,
    )  # fmt: skip
    assert len(set(first) & set(replaced)) == 3, "the others were left alone"
    for name in replaced:
        cluster.kubectl(made, "-n", namespace, "exec", name, "--", "touch", "/dev/shm/go")
    waiting.wait_for(lambda: finished(kube, "ring", namespace), START, "the ring has finished")
    assert len(said(made, namespace, "ring")) == 4


def test_what_the_kubelet_does_not_admit_is_replaced(
    made: state.Made, kube: Kube, namespace: str, broken: list[str]
) -> None:
    """Devices break: for some seconds the kubelet knows and the node's status does not."""
    worker = sorted(gpus.allocatable(made))[0]
    broken.append(worker)
    gangs.create(kube, "idle", namespace, 3)  # the other three nodes, or any three
    waiting.wait_for(lambda: finished(kube, "idle", namespace), START, "nothing runs here yet")
    gpus.break_devices(made, worker, "gpu-0", "gpu-1")
    waiting.wait_for(
        lambda: gpus.allocatable(made)[worker], START, "the node has lost two", until=lambda left: left == 6
    )
    gangs.create(kube, "six", namespace, 4, count=6)
    waiting.wait_for(lambda: finished(kube, "six", namespace), START, "four of six GPUs each have finished")
    on_it = [line for line in said(made, namespace, "six") if not {0, 1} & set(devices(line))]
    assert on_it, "the devices that are broken were given to nobody"


def running(kube: Kube, namespace: str) -> set[str]:
    return {
        pod["metadata"]["name"]
        for pod in pods(kube, namespace)
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    }
