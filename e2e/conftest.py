"""Fixtures of the e2e tests: a cluster for the whole run, Muster on it, a namespace and nodes for each test.

Every test here bears the marker `e2e`. Nothing is retried. When a test fails, the ends of the logs of Muster's
processes are in its report, and the folder of all logs is kept and named.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import secrets
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from e2e import answers, fake_hami_scheduler, history, objects, scenes, volcano_jobs, waiting
from e2e import kube as kube_module
from e2e.cluster import base, choose, jobs, local, manifests, muster, proxy

HERE = pathlib.Path(__file__).parent
# Names of one run: on a cluster that exists already, another run's may still be going away.
RUN = secrets.token_hex(2)
_numbers = itertools.count(1)
_replicas: list[muster.Replica] = []


def pytest_xdist_auto_num_workers() -> int:
    """As many control planes as there are processors, two at most: they wait for each other's moments. Else one after
    another, on the one cluster that there is."""
    return 0 if choose.is_shared() else min(2, os.cpu_count() or 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in this folder."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("e2e")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Attach the ends of the logs to a failure."""
    report: Any = yield
    if report.failed and HERE in item.path.parents:
        for replica in _replicas:
            for started in replica.processes():
                state = "running" if started.alive else f"ended with {started.returncode}"
                report.sections.append((f"{started.name} ({state}): {started.log_path}", started.tail(30)))
    return report


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[base.Cluster]:
    """The cluster of this run, with KWOK and CRDs of other projects on it."""
    with choose.choose() as chosen:
        if not isinstance(chosen, local.LocalCluster):
            chosen.start_kwok()
        _serve_foreign_crds(chosen.kube)
        yield chosen
        failed = request.session.testsfailed > 0
        if failed:
            print(f"\n[e2e] logs are kept in {chosen.work}", file=sys.stderr)
        chosen.stop(keep_files=failed)


@pytest.fixture(scope="session")
def kube(cluster: base.Cluster) -> kube_module.Kube:
    """API access as admin."""
    return cluster.kube


@pytest.fixture(scope="session")
def installed(cluster: base.Cluster) -> manifests.Manifests:
    """The product's manifests, applied (their Deployments without replicas)."""
    rendered = manifests.Manifests.render(cluster)
    rendered.install(cluster)
    return rendered


@pytest.fixture(autouse=True)
def _gates(request: pytest.FixtureRequest) -> None:
    """Tests marked `gates` run where the cluster's version has the admission policy that gates pods."""
    if request.node.get_closest_marker("gates") is None:
        return
    if not request.getfixturevalue("installed").gates_pods:
        pytest.skip("new pods are not gated on this Kubernetes version; the newest one is tested with gates")


@pytest.fixture(scope="session")
def _replica(cluster: base.Cluster, installed: manifests.Manifests) -> Iterator[muster.Replica]:
    manifests.release_lease(cluster.kube)
    with muster.Replica(cluster, installed) as replica:
        replica.wait_active()
        installed.wait_gating(cluster)
        _replicas.append(replica)
        yield replica
        _replicas.remove(replica)


@pytest.fixture(name="muster")
def muster_fixture(_replica: muster.Replica) -> muster.Replica:
    """The replica of the whole run; a test may kill parts of it, the next one gets it healed."""
    _replica.heal()
    return _replica


@pytest.fixture
def scene(kube: kube_module.Kube, muster: muster.Replica, namespace: str) -> scenes.Scene:
    """A namespace in which pods are let through at once; files that need something else have a scene of their own."""
    stage = scenes.Scene(kube, muster, namespace)
    stage.wait_open()
    return stage


@pytest.fixture(scope="module")
def proxied(
    cluster: base.Cluster, installed: manifests.Manifests, _replica: muster.Replica
) -> Iterator[muster.Replica]:
    """A replica for one file, instead of that of the run: gate and extender reach the API server by proxies.

    They are in `options.proxies`. Tests use it by the fixture `replica`.
    """
    _replica.stop()
    with contextlib.ExitStack() as stack:
        pair = cluster.key_pair()
        proxies = {role: stack.enter_context(proxy.Proxy(cluster.kube.access, *pair)) for role in ("gate", "extender")}
        replica = stack.enter_context(muster.Replica(cluster, installed, muster.ReplicaOptions(proxies=proxies)))
        replica.wait_active()
        _replicas.append(replica)
        yield replica
        _replicas.remove(replica)


@pytest.fixture(scope="module", name="server")
def answers_server(cluster: base.Cluster) -> answers.Server:
    """Where the live answers of a file's own replica are served."""
    return answers.Server(cluster)


@pytest.fixture(scope="module")
def answering(
    cluster: base.Cluster, installed: manifests.Manifests, _replica: muster.Replica, server: answers.Server
) -> Iterator[muster.Replica]:
    """A replica for one file, instead of that of the run, with its live answers registered."""
    _replica.stop()
    with answers.answering(cluster, installed, server) as replica:
        _replicas.append(replica)
        yield replica
        _replicas.remove(replica)


@pytest.fixture(scope="module")
def hami(cluster: base.Cluster) -> Iterator[fake_hami_scheduler.Extender]:
    """HAMi's extender, which knows no plugin yet."""
    extender = fake_hami_scheduler.Extender(cluster.kube)
    yield extender
    extender.stop()


@pytest.fixture(scope="module")
def beside(
    cluster: base.Cluster,
    installed: manifests.Manifests,
    _replica: muster.Replica,
    hami: fake_hami_scheduler.Extender,
) -> Iterator[muster.Replica]:
    """A replica for one file, instead of that of the run, with HAMi's extender behind ours."""
    _replica.stop()
    options = muster.ReplicaOptions(extenders=[hami.entry()], arguments={"gate": ["--hami", hami.url]})
    with muster.Replica(cluster, installed, options) as replica:
        replica.wait_active()
        _replicas.append(replica)
        yield replica
        _replicas.remove(replica)


@pytest.fixture
def replica(proxied: muster.Replica) -> Iterator[muster.Replica]:
    """The replica behind proxies, healed; its faults are cleared after the test."""
    proxied.heal()
    yield proxied
    for through in proxied.options.proxies.values():
        through.clear()


@pytest.fixture
def seen(kube: kube_module.Kube, namespace: str) -> Iterator[history.History]:
    """The record of where each pod of the test's namespace was ever bound."""
    with history.History(kube, namespace) as record:
        yield record


@pytest.fixture(scope="module", name="controller")
def job_controller(
    cluster: base.Cluster, installed: manifests.Manifests, _replica: muster.Replica
) -> Iterator[jobs.Controller]:
    """The job controller beside the replica of the run."""
    jobs.install(cluster)
    with jobs.Controller(cluster) as running:
        running.wait_active()
        yield running


@pytest.fixture
def stage(
    kube: kube_module.Kube,
    namespace: str,
    controller: jobs.Controller,
    muster: muster.Replica,
    make_nodes: Callable[..., list[str]],
) -> volcano_jobs.Stage:
    """A namespace for Jobs, and two nodes of 8 GPUs."""
    make_nodes(2)
    return volcano_jobs.Stage(kube, namespace)


@pytest.fixture
def queue(kube: kube_module.Kube, namespace: str) -> Iterator[str]:
    """A queue of this test alone."""
    kube.create(objects.queue(namespace))
    yield namespace
    kube.delete("queues.muster.dev", namespace)


@pytest.fixture
def start_replica(cluster: base.Cluster, installed: manifests.Manifests) -> Iterator[Callable[..., muster.Replica]]:
    """A function that starts another replica with ReplicaOptions and waits until it is ready; ended with the test."""
    with contextlib.ExitStack() as stack:

        def start(**options: Any) -> muster.Replica:
            replica = muster.Replica(cluster, installed, muster.ReplicaOptions(**options))
            _replicas.append(replica)
            stack.callback(_replicas.remove, replica)
            return stack.enter_context(replica)

        yield start


@pytest.fixture
def api_proxy(cluster: base.Cluster) -> Iterator[proxy.Proxy]:
    """A proxy in front of the API server, without faults; see cluster/proxy.py."""
    with proxy.Proxy(cluster.kube.access, *cluster.key_pair()) as running:
        yield running


@pytest.fixture
def namespace(kube: kube_module.Kube) -> Iterator[str]:
    """A namespace of this test alone; at the end its pods are removed at once."""
    name = f"e2e-{RUN}-{next(_numbers)}"
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    waiting.wait_for(lambda: kube.find("serviceaccounts", "default", name), 20, f"service account of {name}")
    yield name
    kube.delete("namespaces", name)
    kube.delete_all("pods", name, grace=0)
    waiting.wait_for(lambda: kube.list("pods", name), 30, f"no pod is left in {name}", until=lambda pods: not pods)


@pytest.fixture
def make_nodes(kube: kube_module.Kube) -> Iterator[Callable[..., list[str]]]:
    """A function that creates Ready nodes of this test alone: make_nodes(count, gpus=8, racks=0, **of objects.node).

    They are named <prefix of the test>-n0, -n1, ...; with racks, node i stands in rack r<i mod racks>.
    """
    made: list[str] = []
    prefix = f"e2e-{RUN}-{next(_numbers)}"

    def make(count: int, gpus: int = 8, *, racks: int = 0, **options: Any) -> list[str]:
        first = len(made)
        names = [f"{prefix}-n{index}" for index in range(first, first + count)]
        for index, name in enumerate(names):
            rack = {"rack": f"r{index % racks}"} if racks else {}
            kube.create(objects.node(name, gpus, **(rack | options)))
            made.append(name)
        waiting.wait_for(lambda: _not_ready(kube, names), 30, "the nodes are ready", until=lambda left: not left)
        return names

    yield make
    for name in made:
        kube.delete("nodes", name)


def _not_ready(kube: kube_module.Kube, names: list[str]) -> list[str]:
    ready = {node["metadata"]["name"] for node in kube.list("nodes") if objects.is_ready(node)}
    return [name for name in names if name not in ready]


def _serve_foreign_crds(kube: kube_module.Kube) -> None:
    crds = [*objects.foreign_crds(), *jobs.definitions()]
    for crd in crds:
        # One that an existing cluster has already is the real one: it stays.
        if kube.find("customresourcedefinitions.apiextensions.k8s.io", crd["metadata"]["name"]) is None:
            kube.create(crd)
    kinds = [
        (f"{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["kind"])
        for spec in (crd["spec"] for crd in crds)
    ]
    waiting.wait_for(
        lambda: [kind for kind in kinds if not kube.serves(*kind)],
        20,
        "all are served",
        until=lambda missing: not missing,
    )
