"""What every kind of cluster offers to the tests, and the one for clusters that exist already.

Takes an admin kubeconfig; gives API access, kubeconfigs of service accounts, and programs started on this machine
with their logs in one temporary folder. Must not assume how the API server was started.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

from e2e import kube, kubeconfig
from e2e.cluster import build, process, versions


class Cluster:
    """A cluster with its admin access and a folder of the programs started against it. Use as a context manager."""

    def __init__(self, name: str, admin_kubeconfig: str | os.PathLike[str], work: pathlib.Path | None = None) -> None:
        self.name = name
        self.work = work or pathlib.Path(tempfile.mkdtemp(prefix="muster-e2e-"))
        self.kubeconfig = pathlib.Path(admin_kubeconfig)
        self.processes: list[process.Process] = []
        self._kube: kube.Kube | None = None
        self._binaries: build.Binaries | None = None
        self._names: dict[str, int] = {}
        self._keep_files = False

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def kube(self) -> kube.Kube:
        """API access as admin."""
        if self._kube is None:
            self._kube = kube.Kube(self.kubeconfig)
        return self._kube

    @property
    def server_minor(self) -> str:
        """The API server's minor version, as `1.37`."""
        version = self.kube.request("GET", "/version")
        return f"{version['major']}.{re.sub(r'[^0-9].*', '', version['minor'])}"

    @property
    def binaries(self) -> build.Binaries:
        """Programs that fit this server: the newest that we can build and that is not newer than it."""
        if self._binaries is None:
            served = ordinal(self.server_minor)
            fitting = [minor for minor in versions.KUBERNETES if ordinal(minor) <= served]
            if not fitting:
                raise build.BuildError(f"the API server is {self.server_minor}; the oldest supported is 1.34")
            self._binaries = build.binaries(max(fitting, key=ordinal))
        return self._binaries

    def stop(self, *, keep_files: bool = False) -> None:
        """End every program started here, newest first, and remove the folder, unless it was ever asked to be kept."""
        self._keep_files = self._keep_files or keep_files
        for started in reversed(self.processes):
            started.kill9()
        self.processes.clear()
        if self._kube is not None:
            self._kube.close()
        if not self._keep_files:
            shutil.rmtree(self.work, ignore_errors=True)

    # -- access

    def kubeconfig_for_service_account(self, namespace: str, name: str, seconds: int = 24 * 3600) -> pathlib.Path:
        """A new kubeconfig file with a fresh token of a service account (TokenRequest)."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        answer = self.kube.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", body)
        access = dataclasses.replace(
            self.kube.access, token=answer["status"]["token"], client_certificate="", client_key=""
        )
        return kubeconfig.write(self.work / f"{self.unique(f'{namespace}-{name}')}.kubeconfig", access)

    @functools.cached_property
    def admin_with_token(self) -> pathlib.Path:
        """An admin kubeconfig that holds a token: the given one, or one of a service account made for it."""
        if self.kube.access.token:
            return self.kubeconfig
        name, namespace = "muster-e2e-admin", "kube-system"
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        self.kube.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
        )
        self.kube.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": role,
                "subjects": [subject],
            }
        )
        return self.kubeconfig_for_service_account(namespace, name)

    def key_pair(self, hosts: str = "127.0.0.1,localhost,kubernetes.default.svc") -> tuple[pathlib.Path, pathlib.Path]:
        """Certificate and key of a server of these names, by default on 127.0.0.1, made once for this cluster."""
        folder = self.work / "certs" / hosts.partition(",")[0]
        folder.mkdir(parents=True, exist_ok=True)
        cert, key = folder / "cert.pem", folder / "key.pem"
        if not cert.exists():
            argv = [self.binaries.path("gencert"), f"--host={hosts}", "--ca"]
            subprocess.run(argv, cwd=folder, check=True, capture_output=True)
        return cert, key

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl as admin; gives stdout and, when it fails and is not checked, stderr after it."""
        argv = [self.binaries.path("kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=120)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + (done.stderr if done.returncode else "")

    # -- programs

    def unique(self, name: str) -> str:
        """`name`, or `name-2`, ... : a file name not used before in this cluster's folder."""
        self._names[name] = self._names.get(name, 0) + 1
        return name if self._names[name] == 1 else f"{name}-{self._names[name]}"

    def start_process(
        self,
        argv: Sequence[str],
        name: str,
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | pathlib.Path | None = None,
        uts_hostname: str | None = None,
        stay: bool = False,
    ) -> process.Process:
        """Start any program; its log is `<work>/<name>.log`, it ends with the cluster."""
        log_path = self.work / f"{self.unique(name)}.log"
        started = process.Process(argv, name, log_path, env=env, cwd=cwd, uts_hostname=uts_hostname, stay=stay)
        self.processes.append(started)
        return started

    def start_kwok(
        self, kwok_kubeconfig: str | os.PathLike[str] | None = None, *, stay: bool = False
    ) -> process.Process:
        """Start KWOK: nodes with the label type=kwok become Ready, their pods Running."""
        argv = [
            self.binaries.path("kwok"),
            f"--kubeconfig={kwok_kubeconfig or self.kubeconfig}",
            f"--config={build.MODULES / 'kwok-stages.yaml'}",
            "--manage-all-nodes=false",
            "--manage-nodes-with-label-selector=type=kwok",
            "--node-lease-duration-seconds=40",
        ]
        return self.start_process(argv, "kwok", stay=stay)

    def start_kube_scheduler(
        self,
        config_path: str | os.PathLike[str],
        scheduler_kubeconfig: str | os.PathLike[str] | None = None,
        extra_flags: Sequence[str] = (),
        *,
        name: str = "kube-scheduler",
        uts_hostname: str | None = None,
        port: int = 0,
        wait: bool = True,
        stay: bool = False,
    ) -> Scheduler:
        """Start a kube-scheduler with a KubeSchedulerConfiguration file; returns when /healthz answers.

        Which API credentials it uses stands in that file (clientConnection.kubeconfig); `scheduler_kubeconfig` only
        serves those who ask it for metrics: by default the admin's.
        """
        port = port or process.free_port()
        asked = scheduler_kubeconfig or self.kubeconfig
        argv = [
            self.binaries.path("kube-scheduler"),
            f"--config={config_path}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.work / 'scheduler-certs'}",
            f"--authentication-kubeconfig={asked}",
            f"--authorization-kubeconfig={asked}",
            "--authentication-tolerate-lookup-failure=true",
            *extra_flags,
        ]
        log_path = self.work / f"{self.unique(name)}.log"
        scheduler = Scheduler(argv, name, log_path, uts_hostname=uts_hostname, stay=stay)
        scheduler.url, scheduler.token = f"https://127.0.0.1:{port}", kubeconfig.read(self.admin_with_token).token
        self.processes.append(scheduler)
        if wait:
            scheduler.wait_healthy()
        return scheduler


class Scheduler(process.Process):
    """A kube-scheduler: `url` is where it answers, `token` the admin's, for its metrics."""

    url: str
    token: str

    def wait_healthy(self, deadline: float = 60) -> None:
        """Wait until /healthz answers (also true for one that is not the leader)."""
        self.wait_http(f"{self.url}/healthz", deadline)

    def metrics(self) -> str:
        """Its Prometheus text."""
        return process.http_text(f"{self.url}/metrics", {"Authorization": f"Bearer {self.token}"})


def ordinal(minor: str) -> tuple[int, int]:
    """A minor such as `1.37` as numbers, to compare."""
    major, _, rest = minor.partition(".")
    return int(major), int(rest)
