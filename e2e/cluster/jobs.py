"""The job controller as a process of this machine, and what must be installed for it.

Takes a cluster on which Muster is installed; gives the running process, with a token of its own service account. Knows
the product by its manifests, command line and HTTP only.
"""

from __future__ import annotations

import sys
from typing import Any

import yaml

from e2e import kube, waiting
from e2e.cluster import base, manifests, process

FOLDER = manifests.ROOT / "manifests" / "jobs"
ACCOUNT, LEASE = "muster-jobs", "muster-jobs"


def definitions() -> list[dict[str, Any]]:
    """The definitions of Job, CronJob and Command, which `install.sh` creates where there are none."""
    return [yaml.safe_load(path.read_text()) for path in sorted((FOLDER / "crds").glob("*.yaml"))]


def install(cluster: base.Cluster) -> None:
    """Apply what `manifests/jobs` holds; the Deployment without replicas, for tests run the process themselves."""
    manifests.Manifests.render(cluster, FOLDER).install(cluster)


class Controller:
    """One replica of the job controller. Use as a context manager."""

    def __init__(self, cluster: base.Cluster, hostname: str = "") -> None:
        self._cluster = cluster
        self._hostname = hostname
        self.url = f"http://127.0.0.1:{process.free_port()}"
        self.process: process.Process

    def __enter__(self) -> Controller:
        access = self._cluster.kubeconfig_for_service_account(manifests.NAMESPACE, ACCOUNT)
        argv = [
            sys.executable, "-m", "extender.jobs",
            "--kubeconfig", str(access),
            "--listen", self.url.removeprefix("http://"),
            "--namespace", manifests.NAMESPACE,
        ]  # fmt: skip
        hostname = self._hostname or None
        self.process = self._cluster.start_process(argv, "jobs", cwd=manifests.ROOT, uts_hostname=hostname)
        self.wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.term()

    def wait_ready(self, deadline: float = 60) -> None:
        """Wait until it has read all lists."""
        self.process.wait_http(f"{self.url}/readyz", deadline)

    def wait_active(self, deadline: float = 40) -> None:
        """Wait until it holds the Lease."""
        waiting.wait_for(lambda: self.metric("muster_jobs_active"), deadline, "the job controller acts")

    def crash(self) -> None:
        """Kill it with no chance to write anything, and start it again."""
        self.process.kill9()
        self.process.start()

    def metric(self, name: str, **labels: str) -> float:
        """Sum of the samples of one metric that bear these labels."""
        return kube.metric(process.http_text(f"{self.url}/metrics"), name, **labels)
