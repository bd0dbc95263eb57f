"""The Lease by which our kube-scheduler's replicas elect one.

Takes: the Lease's name. Gives: its three fields as they stand. Must not: judge them; who is active is
decided in the core, with a clock of its own, since `renew_time` is of another machine's clock.
"""

import dataclasses
from typing import Any

from extender.kube import client, errors, resources


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """What the Lease says; empty and 0 for what it does not say."""

    holder: str
    renew_time: str
    duration_seconds: int


async def read_lease(api: client.Api, namespace: str, name: str, timeout: float = 2.0) -> Record | None:  # noqa: ASYNC109
    """The Lease as the API server has it now; None if there is none."""
    served = resources.Served(resources.lease(namespace, name), "v1")
    try:
        return record_of(await api.read(served.path(namespace, name), timeout=timeout))
    except errors.NotFound:
        return None


def record_of(content: dict[str, Any]) -> Record:
    """The record in a raw Lease object, of a read or of a watch."""
    raw = content.get("spec")
    spec = raw if isinstance(raw, dict) else {}
    holder, renewed, duration = (
        spec.get("holderIdentity"),
        spec.get("renewTime"),
        spec.get("leaseDurationSeconds"),
    )
    return Record(
        holder if isinstance(holder, str) else "",
        renewed if isinstance(renewed, str) else "",
        duration if isinstance(duration, int) and not isinstance(duration, bool) else 0,
    )
