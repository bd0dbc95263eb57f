"""What only real nodes can show: gangs of real processes on GPUs that the kubelet gave."""

from __future__ import annotations

import re
from typing import Any

from e2e import waiting
from e2e.kind import cluster, gangs, gpus, muster, state
from e2e.kube import Kube

#: a pod starts, is given its devices and runs, on a loaded machine
START = 120
SYSTEM = "muster-system"


def pods(kube: Kube, namespace: str) -> list[dict[str, Any]]:
    return kube.list("pods", namespace)


def finished(kube: Kube, name: str, namespace: str) -> bool:
    status = kube.get("jobs.batch", name, namespace).get("status", {})
    return any(one["type"] == "Complete" and one["status"] == "True" for one in status.get("conditions", []))


def said(made: state.Made, kube: Kube, namespace: str, name: str) -> list[str]:
    """What the workers of a Job printed who finished it."""
    done = [
        pod["metadata"]["name"]
        for pod in pods(kube, namespace)
        if pod["metadata"]["labels"]["job"] == name and pod["status"]["phase"] == "Succeeded"
    ]
    return sorted(cluster.kubectl(made, "-n", namespace, "logs", pod) for pod in done)


def devices(line: str) -> list[int]:
    return sorted(int(number) for number in re.findall(r"gpu-(\d+)", line))


def test_a_gang_of_real_processes_finishes_an_all_reduce(made: state.Made, kube: Kube, namespace: str) -> None:
    gangs.create(kube, "ring", namespace, 4)
    waiting.wait_for(lambda: finished(kube, "ring", namespace), START, "the ring has finished")
    lines = said(made, kube, namespace, "ring")
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
        for line in said(made, kube, namespace, name):
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
    assert len(said(made, kube, namespace, "ring")) == 4


def test_devices_that_break_are_given_to_nobody(
    made: state.Made, kube: Kube, namespace: str, broken: list[str]
) -> None:
    worker = sorted(gpus.allocatable(made))[0]
    broken.append(worker)
    gpus.break_devices(made, worker, "gpu-0", "gpu-1")
    waiting.wait_for(lambda: gpus.allocatable(made)[worker] == 6, START, "the node has lost two")
    gangs.create(kube, "six", namespace, 4, count=6)
    waiting.wait_for(lambda: finished(kube, "six", namespace), START, "four of six GPUs each have finished")
    given = {line.split()[1]: devices(line) for line in said(made, kube, namespace, "six")}
    ranks = {rank(pod): pod["spec"]["nodeName"] for pod in pods(kube, namespace)}
    assert sorted(ranks.values()) == sorted(gpus.allocatable(made))
    assert [given[one] for one, node in ranks.items() if node == worker] == [[2, 3, 4, 5, 6, 7]]


def test_a_member_that_the_kubelet_does_not_admit_is_replaced(
    made: state.Made, kube: Kube, namespace: str, broken: list[str]
) -> None:
    worker = sorted(gpus.allocatable(made))[1]
    broken.append(worker)
    gpus.refuse(made, worker)
    gangs.create(kube, "ring", namespace, 4)
    refused = waiting.wait_for(
        lambda: [pod for pod in pods(kube, namespace) if pod["status"].get("reason") == "UnexpectedAdmissionError"],
        START, "the kubelet refuses a member",
    )  # fmt: skip
    assert {pod["spec"]["nodeName"] for pod in refused} == {worker}
    gpus.mend(made, worker)
    waiting.wait_for(lambda: finished(kube, "ring", namespace), START, "the ring has finished")
    assert len(said(made, kube, namespace, "ring")) == 4


def test_a_gang_outlives_the_leader_that_places_it(made: state.Made, kube: Kube, namespace: str) -> None:
    leader = kube.get("leases.coordination.k8s.io", "muster-scheduler", SYSTEM)["spec"]["holderIdentity"].split("_")[0]
    gangs.create(kube, "ring", namespace, 4)
    kube.delete("pods", leader, SYSTEM, grace=0)
    waiting.wait_for(lambda: finished(kube, "ring", namespace), START, "the ring has finished")
    lost = [pod["metadata"]["name"] for pod in pods(kube, namespace) if pod["status"]["phase"] != "Succeeded"]
    assert lost == []
    muster.wait_ready(made)


def test_a_rolling_update_of_muster_loses_no_gang(made: state.Made, kube: Kube, namespace: str) -> None:
    cluster.kubectl(made, "-n", SYSTEM, "rollout", "restart", "deployment/muster")
    names = []
    while not names or not muster.rolled_out(made):
        names.append(f"ring-{len(names)}")
        gangs.create(kube, names[-1], namespace, 4, count=2)
        waiting.wait_for(lambda: finished(kube, names[-1], namespace), START, f"{names[-1]} has finished")
    assert {pod["status"]["phase"] for pod in pods(kube, namespace)} == {"Succeeded"}


def rank(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])


def running(kube: Kube, namespace: str) -> set[str]:
    return {
        pod["metadata"]["name"]
        for pod in pods(kube, namespace)
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    }
