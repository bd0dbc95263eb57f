"""A second scheduler fills the nodes that Muster plans with: no node over its allocatable by our bindings.

The default scheduler of the cluster is the second one: a process of its own, which knows nothing of plans and holds.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e import objects, scenes, waiting
from e2e.cluster.muster import Replica
from e2e.kube import AsyncKube, Kube

Object = dict[str, Any]
GPUS = 8
#: a binding stored so shortly before ours excuses it: it was on its way through the watches, or ours to the server
RACE_SECONDS = 0.5
LAST = "marker-last"
#: reasons that are true while others hold the GPUs
FOR_ROOM = {"InsufficientResources", "Fragmented", "RefusedByScheduler", "Queued"}


@pytest.fixture
def scene(kube: Kube, muster: Replica, namespace: str) -> Iterator[scenes.Scene]:
    with scenes.cleared(kube, muster, namespace) as made:  # it is gone before the next one counts
        yield made


def create(kube: Kube, *rows: list[Object]) -> None:
    """Create several rows of pods, all rows side by side."""

    async def all_of_them() -> None:
        async with AsyncKube(kube, 16) as client:
            await asyncio.gather(*[client.create_all(row) for row in rows])

    asyncio.run(all_of_them())


def theirs(namespace: str, count: int, gpus: int = 1, name: str = "other") -> list[Object]:
    """Pods of the second scheduler."""
    return [objects.pod(f"{name}-{n}", namespace, gpus, scheduler="default-scheduler") for n in range(count)]


class Bindings:
    """Every binding in a namespace in the order in which the API server stored it, and what each one found there."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = Kube(kube.kubeconfig)
        self._namespace = namespace
        self._since = self._kube.request("GET", self._kube.resource("pods").path(namespace))["metadata"]
        self._thread = threading.Thread(target=self._read, name="bindings", daemon=True)
        self._on: dict[str, dict[str, int]] = {}
        self._theirs_at: dict[str, float] = {}
        self._newest = ""
        #: our bindings to a node without room, in words; and those of them that no race excuses
        self.over: list[str] = []
        self.guilty: list[str] = []

    def __enter__(self) -> Bindings:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._mark(self._kube, LAST)
        self._thread.join(20)
        self._kube.close()

    def check(self, kube: Kube, nodes: list[str]) -> None:
        """Fail if we bound a pod to a node that was full, as our watches had long shown."""
        name = self._mark(kube, f"marker-{time.monotonic_ns()}")
        waiting.wait_for(lambda: self._newest, 20, "the watch is up to date", until=lambda newest: newest == name)
        assert self.guilty == []
        assert set(self._on) <= set(nodes)

    def _mark(self, kube: Kube, name: str) -> str:
        """Create a pod that nobody schedules, to see how far the watch is."""
        kube.create(objects.pod(name, self._namespace, scheduler="nobody"))
        return name

    def _read(self) -> None:
        for event in self._kube.watch("pods", self._namespace, since=self._since["resourceVersion"], seconds=280):
            pod = event["object"]
            name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
            if name == LAST:
                return
            if name.startswith("marker-"):
                self._newest = name
            elif node and event["type"] == "DELETED":
                self._on[node].pop(name, None)
            elif node and name not in self._on.setdefault(node, {}):
                self._bound(pod, name, node)

    def _bound(self, pod: Object, name: str, node: str) -> None:
        requests = [container["resources"]["requests"] for container in pod["spec"]["containers"]]
        self._on[node][name] = sum(int(request.get(objects.GPU, 0)) for request in requests)
        now, total = time.monotonic(), sum(self._on[node].values())
        if pod["spec"]["schedulerName"] != "muster":
            self._theirs_at[node] = now
        elif total > GPUS:
            ago = now - self._theirs_at.get(node, 0.0)
            self.over.append(f"{name} on {node}: {total} of {GPUS}, {ago:.3f} s after the last of the others")
            if ago > RACE_SECONDS:
                self.guilty.append(self.over[-1])


@pytest.fixture
def bindings(kube: Kube, namespace: str) -> Iterator[Bindings]:
    """The record of this test's bindings."""
    with Bindings(kube, namespace) as reading:
        yield reading


def sizes(scene: scenes.Scene, groups: list[str]) -> dict[str, int]:
    """How many of each group are bound."""
    return {group: len(scene.bound(group)) for group in groups}


def test_held_members_give_way_when_their_nodes_fill(
    kube: Kube, scene: scenes.Scene, bindings: Bindings, namespace: str, make_nodes: Callable[..., list[str]]
) -> None:
    nodes = make_nodes(2, GPUS)
    scene.group("g", 16)
    scene.gang("g", 15)
    scene.wait_held("g", 15)
    create(kube, theirs(namespace, 4))
    waiting.wait_for(
        lambda: scene.bound("other"), 20, "the others took what was only held", until=lambda found: len(found) == 4
    )
    scene.gang("g", 1, first=15)
    scene.wait_says("g", "InsufficientResources")
    waiting.wait_for(scene.held_uids, 10, "no call stays held", until=lambda held: not held)
    assert scene.bound("g") == {}
    bindings.check(kube, nodes)
    scene.delete(*[f"other-{number}" for number in range(4)])
    scene.wait_whole("g", 16)
    bindings.check(kube, nodes)


def test_a_gang_ends_whole_elsewhere_when_one_planned_node_fills(
    kube: Kube, scene: scenes.Scene, bindings: Bindings, namespace: str, make_nodes: Callable[..., list[str]]
) -> None:
    nodes = make_nodes(3, GPUS)
    scene.group("g", 16)
    scene.gang("g", 15)
    held = set(scene.wait_held("g", 15).values())
    (spare,) = set(nodes) - held
    taken = sorted(held)[0]
    scene.pod("other-0", GPUS, scheduler="somebody-else", spec={"nodeName": taken})
    scene.gang("g", 1, first=15)
    placed = scene.wait_whole("g", 16, 40)
    assert set(placed.values()) == {spare, *held} - {taken}
    bindings.check(kube, nodes)


@pytest.mark.parametrize("turn", range(4))
def test_gangs_and_others_race_for_the_same_gpus(
    turn: int, kube: Kube, scene: scenes.Scene, bindings: Bindings, namespace: str, make_nodes: Callable[..., list[str]]
) -> None:
    nodes = make_nodes(6, GPUS)
    groups = [f"g{number}" for number in range(4)]
    for group in groups:
        scene.group(group, 10)
    # 40 GPUs for gangs, 24 for others, on 48
    others = theirs(namespace, 24)
    gangs = [member for group in groups for member in objects.gang(group, namespace, 10)]
    create(kube, gangs, others) if turn % 2 else create(kube, others, gangs)

    def settled() -> dict[str, int]:
        found = sizes(scene, groups)
        return found if all(found[g] == 10 or scene.said(g) in FOR_ROOM for g in groups) else {}

    waiting.wait_for(settled, 40, "each gang runs whole or says why not", until=lambda found: found and _whole(found))
    waiting.wait_for(scene.held_uids, 20, "nothing is held", until=lambda held: not held)
    found = sizes(scene, groups)
    assert _whole(found)
    bindings.check(kube, nodes)
    for group in groups:
        if not found[group]:
            assert scene.said(group) in FOR_ROOM
    scene.delete(*[pod["metadata"]["name"] for pod in others])
    for group in groups:
        scene.wait_bound(group, 10, 40)
    bindings.check(kube, nodes)


def _whole(found: dict[str, int]) -> bool:
    """All or none of each."""
    return set(found.values()) <= {0, 10}
