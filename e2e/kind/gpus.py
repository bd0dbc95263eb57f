"""Fake GPUs on the workers, offered over the kubelet's device plugin socket.

Takes the cluster of the record; gives workers with eight GPUs each. Which are broken is told by a file on the node.
"""

from __future__ import annotations

import json
import pathlib

from e2e import waiting
from e2e.kind import cluster, engine, muster, node, programs, state, store

OBJECTS = pathlib.Path(__file__).with_name("objects") / "fakegpus.yaml"
RESOURCE = "nvidia.com/gpu"
COUNT = 8
#: on the node, see modules/fakegpus
FOLDER = "/var/run/fakegpus"


def deploy(made: state.Made) -> None:
    """Build and load the device plugin, start it on each worker, wait until the API server knows the GPUs."""
    program = programs.path("fakegpus")
    image = f"muster/fakegpus:{store.digest([program])}"
    if not engine.docker(made, "images", "-q", image):
        node.import_program(made, program, "fakegpus", image)
    muster.load(made, image)
    cluster.kubectl(made, "apply", "-f", "-", stdin=OBJECTS.read_text().replace("IMAGE", image))
    cluster.kubectl(made, "-n", "kube-system", "rollout", "status", "daemonset/fakegpus", "--timeout=120s")
    waiting.wait_for(lambda: set(allocatable(made).values()) == {COUNT}, 60, "every worker has its GPUs")


def allocatable(made: state.Made) -> dict[str, int]:
    """GPUs that may be given out, of each worker."""
    nodes = json.loads(cluster.kubectl(made, "get", "nodes", "-o", "json"))["items"]
    workers = [one for one in nodes if "node-role.kubernetes.io/control-plane" not in one["metadata"]["labels"]]
    return {one["metadata"]["name"]: int(one["status"]["allocatable"].get(RESOURCE, 0)) for one in workers}


def break_devices(made: state.Made, worker: str, *ids: str) -> None:
    """From now on exactly these devices of the node are unhealthy."""
    _on(made, worker, f"echo {' '.join(ids)} > {FOLDER}/unhealthy")


def refuse(made: state.Made, worker: str) -> None:
    """From now on the node's plugin gives out nothing: the kubelet admits no pod that asks for a GPU."""
    _on(made, worker, f"touch {FOLDER}/refuse")


def mend(made: state.Made, worker: str) -> None:
    """All is well again on this node."""
    _on(made, worker, f"rm -f {FOLDER}/refuse; echo > {FOLDER}/unhealthy")


def _on(made: state.Made, worker: str, script: str) -> None:
    engine.docker(made, "exec", worker, "sh", "-c", script)
