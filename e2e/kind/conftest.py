"""The kind cluster with Muster and fake GPUs, for what only real nodes can show. `make kind-test` runs these tests.

Gives the cluster of the record, made if it is missing. Without KIND_TESTS nothing here is collected: `make e2e` needs
no engine.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest

from e2e.kind import cluster, gpus, muster, state
from e2e.kube import Kube

collect_ignore_glob = [] if os.environ.get("KIND_TESTS") else ["test_*.py"]


@pytest.fixture(scope="session")
def made() -> state.Made:
    """What there is, with Muster on it as a user installs it."""
    record = state.read()
    cluster.up(record)
    muster.deploy(record)
    gpus.deploy(record)
    return record


@pytest.fixture
def kube(made: state.Made) -> Iterator[Kube]:
    """API access as admin."""
    access = Kube(cluster.kubeconfig())
    yield access
    access.close()


@pytest.fixture
def namespace(kube: Kube) -> Iterator[str]:
    """A namespace of the test's own; it is deleted without waiting."""
    name = f"real-{secrets.token_hex(3)}"
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    kube.delete("namespaces", name)


@pytest.fixture
def broken(made: state.Made) -> Iterator[list[str]]:
    """Workers on which a test breaks devices: all is well again after it."""
    workers: list[str] = []
    yield workers
    for worker in workers:
        gpus.mend(made, worker)
