"""Fake GPUs on the workers, offered over the kubelet's device plugin socket.

Takes the cluster of the record; gives workers with eight GPUs each. Which are broken is told by a file on the node.
"""

from __future__ import annotations

import json
import pathlib

from e2e import waiting
from e2e.kind import cluster, engine, muster, node, programs, state

IMAGE = "muster/fakegpus:1"
OBJECTS = pathlib.Path(__file__).with_name("objects") / "fakegpus.yaml"
RESOURCE = "nvidia.com/gpu"
COUNT = 8


def deploy(made: state.Made) -> None:
    """Build and load the device plugin, start it on each worker, wait until the API server knows the GPUs."""
    node.import_program(made, programs.path("fakegpus"), "fakegpus", IMAGE)
    muster.load(made, IMAGE)
    cluster.kubectl(made, "apply", "-f", str(OBJECTS))
    waiting.wait_for(lambda: set(allocatable(made).values()) == {COUNT}, 60, "every worker has its GPUs")


def allocatable(made: state.Made) -> dict[str, int]:
    """GPUs that may be given out, of each worker."""
    nodes = json.loads(cluster.kubectl(made, "get", "nodes", "-o", "json"))["items"]
    workers = [one for one in nodes if "node-role.kubernetes.io/control-plane" not in one["metadata"]["labels"]]
    return {one["metadata"]["name"]: int(one["status"]["allocatable"].get(RESOURCE, 0)) for one in workers}


def break_devices(made: state.Made, worker: str, *ids: str) -> None:
    """From now on exactly these devices of the node are unhealthy."""
    write = f"mkdir -p /var/run/fakegpus && echo {' '.join(ids)} > /var/run/fakegpus/unhealthy"
    engine.docker(made, "exec", worker, "sh", "-c", write)
