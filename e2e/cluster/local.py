"""A whole control plane on this machine: etcd, kube-apiserver, controller-manager, default scheduler, KWOK.

Takes `Options`; gives a `LocalCluster` in about six seconds. RBAC is on, every port is chosen free, every program logs
into a file of its own. Nodes bearing the label type=kwok become Ready and their pods Running by KWOK; other nodes are
bare objects. Must not outlive its runner unless `stay` says so.
"""

from __future__ import annotations

import dataclasses
import pathlib
import secrets
import subprocess
import time

import yaml

from e2e import kubeconfig, waiting
from e2e.cluster import base, build, process, versions

# name: (user, group) of the static tokens; the bootstrap RBAC roles of Kubernetes go by these.
USERS = {
    "admin": ("admin", "system:masters"),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kwok": ("kwok", "system:masters"),
}
# Names in certificates of the front proxy's authority: the one that counts, and one that it signed for somebody else.
PROXIES = ("front-proxy", "somebody-else")


@dataclasses.dataclass(frozen=True)
class Options:
    """What to start. qps and burst: client limits of the default scheduler, 0 for its own defaults (50, 100)."""

    minor: str = ""
    qps: float = 0
    burst: int = 0
    priority_and_fairness: bool = True
    controller_manager: bool = True
    kwok: bool = True
    default_scheduler: bool = True
    # Native gang scheduling in the default scheduler; the API server knows the objects in any case (from 1.37).
    native_gang: bool = False
    # Serve MutatingAdmissionPolicy also in minors where it is beta and off.
    mutating_policy_beta: bool = False
    apiserver_flags: tuple[str, ...] = ()
    stay: bool = False


class LocalCluster(base.Cluster):
    """The local control plane; starts on entering the context (or by `start`)."""

    def __init__(self, options: Options | None = None, work: pathlib.Path | None = None) -> None:
        self.options = options or Options()
        programs = build.binaries(self.options.minor or None)
        super().__init__("local", "admin.kubeconfig", work)
        self.kubeconfig = self.work / "admin.kubeconfig"
        self._binaries = programs
        self.server = f"https://127.0.0.1:{process.free_port()}"
        self._controllers = f"https://127.0.0.1:{process.free_port()}"
        self._etcd = f"http://127.0.0.1:{process.free_port()}"
        self.cert: pathlib.Path
        self.key: pathlib.Path
        self.seconds_to_start = 0.0
        self.etcd: process.Process
        self.apiserver: process.Process
        self.controller_manager: process.Process | None = None
        self.kwok: process.Process | None = None
        self.scheduler: base.Scheduler | None = None

    def __enter__(self) -> LocalCluster:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def start(self) -> None:
        """Start everything and wait until pods can be created and scheduled."""
        started = time.monotonic()
        self._write_credentials()
        self.etcd = self._start_etcd()
        self.apiserver = self.start_process(self._apiserver_argv(), "kube-apiserver", stay=self.options.stay)
        self.wait_apiserver()
        if self.options.controller_manager:
            self.controller_manager = self._start_controller_manager()
        if self.options.kwok:
            self.kwok = self.start_kwok(self.work / "kwok.kubeconfig", stay=self.options.stay)
        if self.options.default_scheduler:
            gates = self._gates_flag(self.options.native_gang)
            self.scheduler = self.start_kube_scheduler(
                self._scheduler_config(), extra_flags=gates, wait=False, stay=self.options.stay
            )
        self._wait_usable()
        self.seconds_to_start = time.monotonic() - started

    def restart_apiserver(self) -> None:
        """Kill the API server and start it again on the same port, with the same data."""
        self.apiserver.restart()
        self.wait_apiserver()

    def wait_apiserver(self) -> None:
        """Wait until the API server is ready."""
        self.apiserver.wait_http(f"{self.server}/readyz", 60)

    # -- credentials

    def _write_credentials(self) -> None:
        self.cert, self.key = self.key_pair()
        certificate = self.cert.read_text()
        lines = []
        for name, (user, group) in USERS.items():
            token = secrets.token_hex(16)
            lines.append(f'{token},{user},{user},"{group}"\n')
            access = kubeconfig.Access(self.server, certificate, token)
            kubeconfig.write(self.work / f"{name}.kubeconfig", access)
        (self.work / "tokens.csv").write_text("".join(lines))

    # -- programs

    def _start_etcd(self) -> process.Process:
        peer = f"http://127.0.0.1:{process.free_port()}"
        argv = [
            self.binaries.path("etcd"),
            f"--data-dir={self.work / 'etcd'}",
            f"--listen-client-urls={self._etcd}",
            f"--advertise-client-urls={self._etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        etcd = self.start_process(argv, "etcd", stay=self.options.stay)
        etcd.wait_http(f"{self._etcd}/health")
        return etcd

    def _apiserver_argv(self) -> list[str]:
        options = self.options
        return [
            self.binaries.path("kube-apiserver"),
            f"--etcd-servers={self._etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.server.rpartition(':')[2]}",
            f"--tls-cert-file={self.cert}",
            f"--tls-private-key-file={self.key}",
            # Nobody logs in with one; but schedulers look for its ConfigMap, and fill their logs when it is not there.
            f"--client-ca-file={self.cert}",
            *self._front_proxy(),
            f"--token-auth-file={self.work / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.cert}",
            f"--service-account-signing-key-file={self.key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
            f"--enable-priority-and-fairness={str(options.priority_and_fairness).lower()}",
            # Without the controller-manager no namespace gets its default service account.
            *([] if options.controller_manager else ["--disable-admission-plugins=ServiceAccount"]),
            *self._runtime_config(),
            *self._gates_flag(native=True, apiserver=True),
            *options.apiserver_flags,
        ]

    def _front_proxy(self) -> list[str]:
        """How it passes requests on to aggregated APIs, straight to a Service's endpoints: there is no kube-proxy."""
        subprocess.run([self.binaries.path("frontproxy"), *PROXIES], cwd=self.work, check=True, capture_output=True)
        return [
            f"--requestheader-client-ca-file={self.work / 'front-proxy-ca.pem'}",
            f"--requestheader-allowed-names={PROXIES[0]}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self.work / PROXIES[0]}.pem",
            f"--proxy-client-key-file={self.work / PROXIES[0]}-key.pem",
            "--enable-aggregator-routing=true",
        ]

    def _runtime_config(self) -> list[str]:
        served = []
        if self.binaries.minor in versions.NATIVE_POD_GROUPS:
            served.append("scheduling.k8s.io/v1beta1=true")
        if self._mutating_beta():
            served.append("admissionregistration.k8s.io/v1beta1=true")
        return [f"--runtime-config={','.join(served)}"] if served else []

    def _gates_flag(self, native: bool, apiserver: bool = False) -> list[str]:
        gates = []
        if native and self.binaries.minor in versions.NATIVE_POD_GROUPS:
            gates.append("GenericWorkload=true")
        if apiserver and self._mutating_beta():
            gates.append("MutatingAdmissionPolicy=true")
        return [f"--feature-gates={','.join(gates)}"] if gates else []

    def _mutating_beta(self) -> bool:
        return self.options.mutating_policy_beta and self.binaries.minor in versions.MUTATING_POLICY_BETA

    def _start_controller_manager(self) -> process.Process:
        credentials = self.work / "kube-controller-manager.kubeconfig"
        argv = [
            self.binaries.path("kube-controller-manager"),
            f"--kubeconfig={credentials}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._controllers.rpartition(':')[2]}",
            f"--cert-dir={self.work / 'controller-manager-certs'}",
            f"--service-account-private-key-file={self.key}",
            f"--root-ca-file={self.cert}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            # Bare nodes have no heartbeat, and KWOK's may be late on a busy machine: neither says that a node is lost.
            "--node-monitor-grace-period=24h",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            # It removes the finalizer of native pod groups: without the gate they could never be deleted.
            *self._gates_flag(native=True),
        ]
        return self.start_process(argv, "kube-controller-manager", stay=self.options.stay)

    def _scheduler_config(self) -> pathlib.Path:
        connection: dict[str, object] = {"kubeconfig": str(self.work / "kube-scheduler.kubeconfig")}
        if self.options.qps:
            connection |= {"qps": self.options.qps, "burst": self.options.burst or int(2 * self.options.qps)}
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": connection,
            "leaderElection": {"leaderElect": True, "resourceNamespace": "kube-system"},
        }
        path = self.work / "kube-scheduler.yaml"
        path.write_text(yaml.safe_dump(config))
        return path

    def _wait_usable(self) -> None:
        if self.controller_manager is not None:
            self.controller_manager.wait_http(f"{self._controllers}/healthz")
            waiting.wait_for(
                lambda: self.kube.find("serviceaccounts", "default", "default"),
                30,
                "service account of namespace default",
            )
        if self.scheduler is not None:
            self.scheduler.wait_healthy()
            waiting.wait_for(
                lambda: self.kube.find("leases.coordination.k8s.io", "kube-scheduler", "kube-system"),
                30,
                "the default scheduler leads",
                until=lambda lease: bool(lease and lease["spec"].get("holderIdentity")),
            )
