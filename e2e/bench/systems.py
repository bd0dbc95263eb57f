"""The systems under test, each started fresh for its run on the one control plane, with the same client limits.

Takes the cluster; gives running processes that end with the block. Must not measure.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence

import yaml

from e2e import waiting
from e2e.bench import observe, shapes
from e2e.cluster import local, manifests, muster, process

QPS, BURST = 5000, 10000
NATIVE_GATES = "--feature-gates=GenericWorkload=true"
#: printed in the results: what all of them were started with
FLAGS = {
    "qps": QPS,
    "burst": BURST,
    "api_priority_and_fairness": True,
    "fsync": False,
    "nodes": "bare Node objects of 8 GPUs, Ready, no kubelet, no KWOK, no controller-manager",
    "pods": "1 GPU, 4 CPU, 16 GiB each; launchers 8 CPU, no GPU",
    "kube-scheduler": "default profile, default percentageOfNodesToScore",
    "native-gang": f"the same with {NATIVE_GATES}",
    "muster": "the manifests' scheduler configuration, extender and permit gate under their ServiceAccount",
    "kubernetes": "1.37",
}


@contextlib.contextmanager
def running(cluster: local.LocalCluster, rendered: manifests.Manifests, system: str) -> Iterator[observe.Watched]:
    """Run one system inside the block; ready to schedule when it is entered."""
    if system == shapes.MUSTER:
        with replica(cluster, rendered) as ours:
            yield watched(cluster, ours)
    else:
        with scheduler(cluster, system) as theirs:
            yield watched(cluster, theirs)


@contextlib.contextmanager
def replica(
    cluster: local.LocalCluster, rendered: manifests.Manifests, profiles: Sequence[str] = ()
) -> Iterator[muster.Replica]:
    """Muster, its scheduler serving further stock profiles as well."""
    options = muster.ReplicaOptions(qps=QPS, burst=BURST, profiles=profiles)
    with muster.Replica(cluster, rendered, options) as started:
        started.wait_active()
        # the API server compiles an admission policy when it is first met: seconds of its CPU, once
        rendered.wait_gating(cluster)
        yield started


@contextlib.contextmanager
def scheduler(cluster: local.LocalCluster, system: str = shapes.PLAIN, *extra_flags: str) -> Iterator[process.Process]:
    """A kube-scheduler of its own with the default profile, with or without native gangs."""
    flags = [*([NATIVE_GATES] if system == shapes.NATIVE else []), *extra_flags]
    started = cluster.start_kube_scheduler(_config(cluster), extra_flags=flags, name=system)
    try:
        waiting.wait_for(lambda: _leads(cluster), 60, f"{system} leads")
        yield started
    finally:
        started.term()


def watched(cluster: local.LocalCluster, *started: process.Process | muster.Replica) -> observe.Watched:
    """All that work in a run. Beside another scheduler, that of Muster bears the role `muster-scheduler`."""
    pids: dict[str, int] = {}
    metrics = None
    for one in started:
        if isinstance(one, muster.Replica):
            own = "muster-scheduler" if "scheduler" in pids else "scheduler"
            pids |= {own: one.scheduler.pid, "extender": one.extender.pid, "gate": one.gate.pid}
            metrics = functools.partial(one.metrics, "extender")
        else:
            pids["scheduler"] = one.pid
    return observe.Watched(pids | {"apiserver": cluster.apiserver.pid, "etcd": cluster.etcd.pid}, metrics)


def _leads(cluster: local.LocalCluster) -> bool:
    lease = cluster.kube.find("leases.coordination.k8s.io", "kube-scheduler", "kube-system")
    return bool(lease and lease["spec"].get("holderIdentity"))


def _config(cluster: local.LocalCluster) -> str:
    path = cluster.work / "bench-scheduler.yaml"
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(cluster.work / "kube-scheduler.kubeconfig"),
            "qps": QPS,
            "burst": BURST,
        },
        "leaderElection": {"leaderElect": True, "resourceNamespace": "kube-system"},
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)
