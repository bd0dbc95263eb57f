"""`kubectl muster record` on the real control plane: gangs are recorded until Ctrl-C, and the file is replayed."""

from __future__ import annotations

import csv
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable

from e2e import waiting
from e2e.cluster import base
from e2e.kube import Kube
from e2e.scenes import Scene

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLUMNS = ["job", "submitted", "duration", "pods", "gpus", "cpu", "memory", "queue", "priority"]


class Recorder:
    """The plugin as it records a namespace into a file."""

    def __init__(self, kubeconfig: pathlib.Path, namespace: str, path: pathlib.Path) -> None:
        argv = [sys.executable, "-m", "extender.cli", "record", "-n", namespace, "--filename", str(path)]
        environment = os.environ | {"KUBECONFIG": str(kubeconfig)}
        self._running = subprocess.Popen(
            argv, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        waiting.wait_for(path.exists, 30, "the file is there")

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.kill()
        self._running.communicate()

    def end(self) -> tuple[str, str]:
        """Press Ctrl-C; what it says, and beside it."""
        self._running.send_signal(signal.SIGINT)
        out, said = self._running.communicate(timeout=20)
        assert self._running.returncode == 0, (out, said)
        return out, said


def rows(path: pathlib.Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_gangs_are_recorded_until_ctrl_c_and_replayed(
    cluster: base.Cluster, scene: Scene, make_nodes: Callable[..., list[str]], queue: str, tmp_path: pathlib.Path
) -> None:
    nodes = make_nodes(2, racks=2)
    path = tmp_path / "day.csv"
    recorder = Recorder(cluster.kubeconfig, scene.namespace, path)
    scene.group("short", 3, queue=queue)
    scene.gang("short", 3, gpus=4)
    scene.wait_bound("short", 3)
    scene.group("long", 2, queue=queue, spec={"expectedDurationSeconds": 600})
    scene.gang("long", 2, gpus=8)
    scene.wait_says("long", "InsufficientResources")
    scene.delete(*[f"short-{number}" for number in range(3)])
    scene.wait_bound("long", 2)
    scene.pod("alone-0", 0)
    scene.wait_bound("alone", 1)
    scene.group("never", 4, queue=queue, spec={"expectedDurationSeconds": 900})
    scene.gang("never", 4, gpus=8)
    scene.wait_says("never", "InsufficientResources")
    out, said = recorder.end()
    assert said == ""
    assert "4 jobs, of which 2 still run and 1 wait, and " in out
    found = {row["job"].removeprefix(f"{scene.namespace}-").partition("-")[0]: row for row in rows(path)}
    assert list(found) == ["short", "long", "alone", "never"]
    assert list(found["short"]) == COLUMNS
    shapes = {name: [row[key] for key in ("pods", "gpus", "cpu", "memory")] for name, row in found.items()}
    assert shapes == {
        "short": ["3", "4", "1000", "1024"],
        "long": ["2", "8", "1000", "1024"],
        "alone": ["1", "0", "1000", "1024"],
        "never": ["4", "8", "1000", "1024"],
    }
    assert [found[name]["queue"] for name in ("short", "long", "never")] == [queue] * 3
    assert found["never"]["duration"] == "900"
    assert 0 < float(found["short"]["duration"]) < 300
    hosts = tmp_path / "day.hosts.csv"
    assert set(nodes) <= {row["host"] for row in rows(hosts)}
    argv = [sys.executable, "-m", "extender.sim", "trace", "replay", str(path), str(hosts), "--at-once", "1"]
    done = subprocess.run(
        [*argv, "--policies", "Muster", "pod by pod"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "jobs not done at the end" in done.stdout


def test_who_may_view_a_namespace_records_it_without_hosts(
    cluster: base.Cluster, kube: Kube, scene: Scene, make_nodes: Callable[..., list[str]], tmp_path: pathlib.Path
) -> None:
    make_nodes(1)
    meta = {"name": "viewer", "namespace": scene.namespace}
    kube.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    kube.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", **meta}],
        }
    )
    path = tmp_path / "mine.csv"
    recorder = Recorder(cluster.kubeconfig_for_service_account(scene.namespace, "viewer"), scene.namespace, path)
    scene.group("g", 2)
    scene.gang("g", 2)
    scene.wait_bound("g", 2)
    out, said = recorder.end()
    assert "without hosts, a replay makes them up: nodes is forbidden" in said
    assert "1 jobs, of which 1 still run" in out
    assert [row["pods"] for row in rows(path)] == ["2"]
    assert not (tmp_path / "mine.hosts.csv").exists()
