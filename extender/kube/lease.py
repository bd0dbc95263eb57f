"""The Lease by which our kube-scheduler's replicas elect one: watched, and read when a call comes too early.

Takes the Lease's namespace and name; gives its newest state. Must not judge it: who acts is decided in
core.activity, with a clock of its own.
"""

from __future__ import annotations

from extender.core.activity import Lease
from extender.kube import client, errors, feeds, resources
from extender.wire import objects

READ_SECONDS = 2.0


def feed(namespace: str, name: str) -> feeds.Feed:
    """The watch of the Lease; None stands for its deletion."""
    return feeds.Feed(resources.lease(namespace, name), objects.decode_lease, lambda _: None)


async def read_lease(api: client.Api, namespace: str, name: str) -> Lease | None:
    """The Lease as the API server has it now; None when there is none or it cannot be read."""
    served = resources.Served(resources.lease(namespace, name), "v1")
    try:
        return objects.decode_lease(await api.read(served.path(namespace, name), timeout=READ_SECONDS))
    except (errors.KubeError, objects.DecodeError):
        return None
