"""The node agent on a real API server: it publishes its own node's matrix, and can change nothing else."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import yaml

from e2e import kube as kube_module
from e2e import kubeconfig, waiting
from e2e.cluster import base

COMPONENT = pathlib.Path(__file__).resolve().parent.parent / "manifests" / "components" / "node-agent"
NAMESPACE, ACCOUNT = "muster-system", "muster-node-agent"
ANNOTATION = "muster.dev/gpu-topology"
MATRIX = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"
AccessOf = Callable[[str], pathlib.Path]


@pytest.fixture
def access_of(cluster: base.Cluster, kube: kube_module.Kube, installed: object) -> Iterator[AccessOf]:
    """A function: a kubeconfig as the agent has it on a node, by a token that is bound to a pod there."""
    found = list(yaml.safe_load_all((COMPONENT / "node-agent.yaml").read_text()))
    (daemons,) = [one for one in found if one["kind"] == "DaemonSet"]
    made = [one for one in found if one is not daemons]
    for one in made:
        kube.apply(one)
    pods: list[str] = []

    def give(node: str) -> pathlib.Path:
        name = f"node-agent-{node}"
        spec = daemons["spec"]["template"]["spec"] | {"nodeName": node, "nodeSelector": {}}
        meta = {"name": name, "namespace": NAMESPACE}
        pod = kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        pods.append(name)
        bound = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": pod["metadata"]["uid"]}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
        token = kube.request("POST", path, body)["status"]["token"]
        access = dataclasses.replace(kube.access, token=token, client_certificate="", client_key="")
        return kubeconfig.write(cluster.work / f"{cluster.unique('node-agent')}.kubeconfig", access)

    yield give
    for name in pods:
        kube.delete("pods", name, NAMESPACE, grace=0)
    for one in reversed(made):
        resource = kube.resource_of(one)
        kube.request("DELETE", resource.path(one["metadata"].get("namespace"), one["metadata"]["name"]))


def annotation(kube: kube_module.Kube, node: str) -> str | None:
    found = kube.get("nodes", node)["metadata"].get("annotations", {}).get(ANNOTATION)
    return None if found is None else str(found)


def test_it_publishes_its_own_node_and_may_change_nothing_else(
    kube: kube_module.Kube, make_nodes: Callable[..., list[str]], access_of: AccessOf, tmp_path: pathlib.Path
) -> None:
    own, other = make_nodes(2)
    access, matrix = access_of(own), tmp_path / "matrix"
    matrix.write_text(MATRIX)
    command = [
        sys.executable,
        "-m",
        "extender.node_agent",
        "--from-file",
        matrix,
        "--node",
        own,
        "--kubeconfig",
        access,
    ]
    agent = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        found = waiting.wait_for(lambda: annotation(kube, own), 30, "the matrix stands on the node")
    finally:
        agent.terminate()
        assert agent.wait(20) == 0
    assert json.loads(found)["links"] == [["X", "NV4"], ["NV4", "X"]]

    limited = kube_module.Kube(access)
    try:
        for node, change in (
            (other, {"metadata": {"annotations": {ANNOTATION: "mine"}}}),
            (own, {"metadata": {"labels": {"mine": "yes"}}}),
            (own, {"metadata": {"annotations": {"mine": "yes"}}}),
            (own, {"spec": {"unschedulable": True}}),
        ):
            with pytest.raises(kube_module.ApiError, match="node agent may change"):
                limited.patch("nodes", node, change)
    finally:
        limited.close()
    assert annotation(kube, other) is None
