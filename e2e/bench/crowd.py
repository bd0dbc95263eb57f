"""Pods of ours that wait, behind their gate or in sight of the scheduler (strays), while others are measured.

Takes how many, in how many queues; gives them for the time of a block. Must not measure.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterator

from e2e import kube, objects, waiting
from e2e.bench import measure, shapes
from e2e.cluster import manifests, muster

NAMESPACE = "bench-waiting"
#: more than any node has: they wait for room, and never get it
GPUS = 9
KNOWN_SECONDS = 120


@dataclasses.dataclass(frozen=True)
class Crowd:
    """So many queues with so many lone pods each."""

    queues: int
    pods_each: int
    gated: bool = True

    def __str__(self) -> str:
        return f"{self.pods} {'gated' if self.gated else 'strays'}" if self.pods else "none waiting"

    @property
    def pods(self) -> int:
        """Number of pods."""
        return self.queues * self.pods_each

    def queue_names(self) -> list[str]:
        """The names of its queues."""
        return [f"waiting-{number}" for number in range(self.queues)]


def pod_objects(crowd: Crowd) -> list[shapes.Object]:
    """Its pods. They bring their gate, whether their queue is open or not."""
    gates = {"schedulingGates": [{"name": manifests.GATE}]}
    return [
        objects.pod(f"{queue}-{index}", NAMESPACE, GPUS, queue=queue, spec=gates)
        for queue in crowd.queue_names()
        for index in range(crowd.pods_each)
    ]


@contextlib.contextmanager
def present(api: kube.Kube, crowd: Crowd) -> Iterator[None]:
    """The crowd exists inside the block."""
    asyncio.run(_create(api, crowd))
    try:
        yield
    finally:
        asyncio.run(_delete(api, crowd))


def wait_known(api: kube.Kube, replica: muster.Replica, crowd: Crowd) -> None:
    """Wait until the extender knows that all of them wait, and has written what it had to say of them."""
    waiting.wait_for(
        lambda: replica.metric("extender", "muster_extender_groups", phase="waiting"),
        KNOWN_SECONDS,
        f"{crowd.pods} pods wait",
        until=lambda found: found >= crowd.pods,
    )
    measure.settle(api, KNOWN_SECONDS)


async def _create(api: kube.Kube, crowd: Crowd) -> None:
    async with kube.AsyncKube(api, measure.CONNECTIONS) as many:
        await many.create_all([objects.queue(name) for name in crowd.queue_names()])
        pods = await many.create_all(pod_objects(crowd))
        if not crowd.gated:
            ungated = {"spec": {"schedulingGates": None}}
            await asyncio.gather(*(many.patch("pods", pod["metadata"]["name"], ungated, NAMESPACE) for pod in pods))


async def _delete(api: kube.Kube, crowd: Crowd) -> None:
    async with kube.AsyncKube(api, measure.CONNECTIONS) as many:
        names = [pod["metadata"]["name"] for pod in pod_objects(crowd)]
        await asyncio.gather(*(many.delete("pods", name, NAMESPACE, grace=0) for name in names))
        await asyncio.gather(*(many.delete("queues.muster.dev", name) for name in crowd.queue_names()))
