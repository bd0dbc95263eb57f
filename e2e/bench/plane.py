"""A control plane with bare Ready nodes; nothing but the system under test works on it.

Takes a number of nodes; gives the cluster, ended with the block. Must not start systems.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from e2e import kube, objects
from e2e.bench import crowd, shapes
from e2e.cluster import local


@contextlib.contextmanager
def running(nodes: int, *apiserver_flags: str, controllers: bool = False) -> Iterator[local.LocalCluster]:
    """The control plane with its nodes and the namespaces of the benchmark, with or without a controller-manager."""
    options = local.Options(
        controller_manager=controllers, kwok=False, default_scheduler=False, apiserver_flags=apiserver_flags
    )
    with local.LocalCluster(options) as cluster:
        asyncio.run(_populate(cluster.kube, nodes))
        yield cluster


async def _populate(api: kube.Kube, count: int) -> None:
    for name in (shapes.NAMESPACE, crowd.NAMESPACE):
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    made = [
        objects.node(
            f"n{i:05}", rack=f"r{i % 20}", block=f"b{i % 20 // 4}", cpu="128", memory="2Ti", pods=250, kwok=False
        )
        for i in range(count)
    ]
    async with kube.AsyncKube(api) as many:
        await many.create_all(made)
        # admission taints every new node as not ready, and no controller runs that would see that it is
        await asyncio.gather(
            *(many.patch("nodes", node["metadata"]["name"], {"spec": {"taints": None}}) for node in made)
        )
