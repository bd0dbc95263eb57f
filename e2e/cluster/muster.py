"""One replica of Muster as processes of this machine: kube-scheduler, extender and permit gate.

Takes a cluster and its rendered manifests; gives the running processes and their addresses, each with a token of its
own of the manifest's service account. Knows the product by its command lines and HTTP only.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import pathlib
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from e2e import kube, waiting
from e2e.cluster import base, manifests, process, proxy

ROLES = ("gate", "extender", "scheduler")


@dataclasses.dataclass(frozen=True)
class ReplicaOptions:
    """How to run a replica.

    hostname: a host name of its own (needed by a second replica). proxies: role -> proxy that its API traffic goes
    through. arguments, environment: role -> additions. qps, burst: limits of the scheduler's client, 0 for the
    manifest's. profiles: names of stock profiles that its scheduler serves beside ours. extenders: entries of others
    behind ours.
    """

    hostname: str = ""
    proxies: Mapping[str, proxy.Proxy] = dataclasses.field(default_factory=dict)
    arguments: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    qps: float = 0
    burst: int = 0
    profiles: Sequence[str] = ()
    extenders: Sequence[Mapping[str, Any]] = ()
    stay: bool = False


class Replica:
    """The three processes. `gate` and `extender` are Processes, `scheduler` a base.Scheduler."""

    def __init__(
        self, cluster: base.Cluster, rendered: manifests.Manifests, options: ReplicaOptions | None = None
    ) -> None:
        self.cluster = cluster
        self.options = options or ReplicaOptions()
        self.host = self.options.hostname or socket.gethostname()
        self.extender_url = f"http://127.0.0.1:{process.free_port()}"
        self.gate_url = f"http://127.0.0.1:{process.free_port()}"
        self.page_url = f"http://127.0.0.1:{process.free_port()}"
        self.scheduler_port = process.free_port()
        self._rendered = rendered
        self.kubeconfigs = {role: self._kubeconfig(role) for role in ROLES}
        self.config_path = self._write_config()
        self.gate: process.Process
        self.extender: process.Process
        self.scheduler: base.Scheduler

    def __enter__(self) -> Replica:
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start all three at once, as the kubelet would; see `wait_ready`."""
        self.gate = self._start("gate", "permit_gate", self.gate_url, "--extender", self.extender_url,
                                "--http-timeout", str(self._bind_timeout()))  # fmt: skip
        self.extender = self._start("extender", "extender", self.extender_url, "--gate", self.gate_url,
                                    "--scheduler", f"https://127.0.0.1:{self.scheduler_port}",
                                    "--page-listen", self.page_url.removeprefix("http://"))  # fmt: skip
        self.scheduler = self.cluster.start_kube_scheduler(
            self.config_path,
            # as in a pod: who may read its metrics it asks as itself
            self.kubeconfigs["scheduler"],
            extra_flags=self.options.arguments.get("scheduler", ()),
            name=f"scheduler-{self.host}",
            uts_hostname=self.options.hostname or None,
            port=self.scheduler_port,
            wait=False,
            stay=self.options.stay,
        )

    def wait_ready(self, deadline: float = 60) -> None:
        """Wait until the scheduler is healthy, extender and gate are ready."""
        self.gate.wait_http(f"{self.gate_url}/readyz", deadline)
        self.extender.wait_http(f"{self.extender_url}/readyz", deadline)
        self.scheduler.wait_healthy(deadline)

    def wait_active(self, deadline: float = 30) -> None:
        """Wait until the scheduler process that runs now holds the Lease (not one before it on the same host)."""
        waiting.wait_for(
            lambda: lease(self.cluster.kube), deadline, f"the scheduler of {self.host} leads", until=self._leads
        )

    def _leads(self, spec: dict[str, Any]) -> bool:
        if host_of(spec) != self.host:
            return False
        # The time was written by our own process, so it is of the clock of this machine.
        return datetime.datetime.fromisoformat(spec["acquireTime"]).timestamp() >= self.scheduler.started_at

    def heal(self) -> None:
        """Bring it back to all running and ready, whatever a test did to it; no other replica may run."""
        for started in self.processes():
            # One that was stopped for long is about to end by itself: its Lease has run out.
            if started.paused:
                started.kill9()
        if not self.scheduler.alive or host_of(lease(self.cluster.kube)) != self.host:
            manifests.release_lease(self.cluster.kube)
        for started in self.processes():
            if not started.alive:
                started.start()
        self.wait_ready()
        self.wait_active()

    def processes(self) -> list[process.Process]:
        """The processes started so far."""
        return [getattr(self, role) for role in ROLES if hasattr(self, role)]

    def kill9(self) -> None:
        """Kill all three at once, as when the machine is lost; the Lease stays held until it runs out."""
        for started in self.processes():
            started.kill9()

    def stop(self) -> None:
        """End all three in good order: the scheduler gives its Lease back."""
        for started in reversed(self.processes()):
            started.term()

    # -- what it answers

    def metrics(self, role: str) -> str:
        """The Prometheus text of `extender`, `gate` or `scheduler`."""
        if role == "scheduler":
            return self.scheduler.metrics()
        return process.http_text(f"{self.url(role)}/metrics")

    def metric(self, role: str, name: str, **labels: str) -> float:
        """Sum of the samples of one metric that bear these labels."""
        return kube.metric(self.metrics(role), name, **labels)

    def get(self, role: str, path: str) -> Any:
        """GET a JSON document of the extender or the gate."""
        return json.loads(process.http_text(self.url(role) + path))

    def holds(self) -> Any:
        """What the gate says it holds (GET /holds)."""
        return self.get("gate", "/holds")

    def url(self, role: str) -> str:
        """The address of `extender` or `gate`."""
        return {"extender": self.extender_url, "gate": self.gate_url}[role]

    # -- how it is started

    def _start(self, role: str, module: str, url: str, *arguments: str) -> process.Process:
        argv = [
            sys.executable, "-m", module,
            "--kubeconfig", str(self.kubeconfigs[role]),
            "--listen", url.removeprefix("http://"),
            "--namespace", manifests.NAMESPACE,
            *arguments,
            *self.options.arguments.get(role, ()),
        ]  # fmt: skip
        return self.cluster.start_process(
            argv,
            f"{role}-{self.host}",
            env=self.options.environment.get(role),
            cwd=manifests.ROOT,
            uts_hostname=self.options.hostname or None,
            stay=self.options.stay,
        )

    def _kubeconfig(self, role: str) -> pathlib.Path:
        account = self._rendered.service_account()
        path = self.cluster.kubeconfig_for_service_account(manifests.NAMESPACE, account)
        through = self.options.proxies.get(role)
        return through.kubeconfig_for(path) if through else path

    def _write_config(self) -> pathlib.Path:
        config = manifests.rewritten(
            self._rendered.scheduler_config(),
            kubeconfig=self.kubeconfigs["scheduler"],
            extender=self.extender_url,
            gate=self.gate_url,
            qps=self.options.qps,
            burst=self.options.burst,
            profiles=self.options.profiles,
            extenders=self.options.extenders,
        )
        path = self.cluster.work / f"{self.cluster.unique(f'scheduler-{self.host}')}.yaml"
        path.write_text(yaml.safe_dump(config))
        return path

    def _bind_timeout(self) -> int:
        """httpTimeout of the entry with bindVerb, in seconds, as the manifest has it."""
        for entry in self._rendered.scheduler_config()["extenders"]:
            if entry.get("bindVerb"):
                return go_seconds(entry["httpTimeout"])
        raise AssertionError("no extender entry has a bindVerb")


def go_seconds(text: str) -> int:
    """Seconds of a Go duration such as `600s`, `10m` or `1m30s`."""
    units = {"h": 3600, "m": 60, "s": 1}
    total, digits = 0, ""
    for character in text:
        if character.isdigit():
            digits += character
        else:
            total += int(digits) * units[character]
            digits = ""
    return total


def lease(api: kube.Kube) -> dict[str, Any]:
    """The spec of our scheduler's Lease, {} when there is none."""
    found = api.find("leases.coordination.k8s.io", manifests.LEASE, manifests.NAMESPACE)
    return dict((found or {}).get("spec") or {})


def host_of(spec: dict[str, Any]) -> str:
    """The host that holds a Lease: what stands before the last underscore of holderIdentity."""
    return str(spec.get("holderIdentity") or "").rpartition("_")[0]
