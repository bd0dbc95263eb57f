"""Waiting costs nothing: who is gated, who is not, and the one list of open queues behind it.

A stray is a pod of ours that is neither gated nor admitted: kube-scheduler looks at it again and again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e import objects, scenes, waiting
from e2e.cluster import base, manifests
from e2e.cluster import muster as muster_module
from e2e.cluster.muster import Replica
from e2e.kube import AsyncKube, Kube

pytestmark = pytest.mark.gates

Object = dict[str, Any]
CROWD = 10_000
#: what the issue allows of them
STRAYS = 300
ADMISSION = "muster-admission"
CREATORS = 64
#: pods of a crowd are deleted in parts, by this label: one request for all would take longer than the server allows
PARTS = 40
DELETERS = 8
PART = "part"


@pytest.fixture
def scene(kube: Kube, muster: Replica, namespace: str) -> scenes.Scene:
    return scenes.Scene(kube, muster, namespace)


@pytest.fixture
def make_queues(kube: Kube) -> Iterator[Callable[..., list[str]]]:
    """A function that creates queues named <prefix>-0, -1, ... and waits until all are open; deleted with the test."""
    made: list[str] = []

    def make(prefix: str, count: int) -> list[str]:
        names = [f"{prefix}-{number}" for number in range(count)]
        made.extend(names)
        create(kube, [objects.queue(name) for name in names])
        waiting.wait_for(
            lambda: listed(kube), 15, "the new queues are open", until=lambda found: set(names) <= set(found)
        )
        return names

    yield make
    for name in made:
        kube.delete("queues.muster.dev", name)


def listed(kube: Kube) -> list[str]:
    """The open queues as the ConfigMap lists them."""
    data = kube.get("configmaps", ADMISSION, manifests.NAMESPACE).get("data") or {}
    return str(data.get("open", "")).split("\n")


def create(kube: Kube, wanted: list[Object]) -> list[Object]:
    """Create many objects at once."""

    async def all_of_them() -> list[Object]:
        async with AsyncKube(kube, CREATORS) as client:
            return await client.create_all(wanted)

    return asyncio.run(all_of_them())


def delete(kube: Kube, namespace: str) -> None:
    """Delete many pods at once: the API server works through one collection one by one, so it gets several."""

    async def all_of_them() -> None:
        path = kube.resource("pods").path(namespace)
        async with AsyncKube(kube, DELETERS) as client:
            queries = [{"labelSelector": f"{PART}={part}", "gracePeriodSeconds": 0} for part in range(PARTS)]
            await asyncio.gather(*[client.request("DELETE", path, query=query) for query in queries])

    asyncio.run(all_of_them())


def crowd(name: str, namespace: str, count: int, gpus: int = 1, **options: Any) -> list[Object]:
    """Pods <name>-0, ... that `delete` finds; without a token's volume they cost the API server much less."""
    spec = {"automountServiceAccountToken": False}
    return [
        objects.pod(f"{name}-{number}", namespace, gpus, labels={PART: str(number % PARTS)}, spec=spec, **options)
        for number in range(count)
    ]


def gates_of(kube: Kube, pod: Object) -> list[str]:
    """The gates that this pod would be created with."""
    path = kube.resource_of(pod).path(pod["metadata"]["namespace"])
    made = kube.request("POST", path, pod, query={"dryRun": "All"})
    return [gate["name"] for gate in made["spec"].get("schedulingGates", [])]


def wait_gating(kube: Kube, pod: Object, *, gated: bool) -> None:
    """Wait until the API server's own watch has followed the list."""
    waiting.wait_for(
        lambda: gates_of(kube, pod), 15, f"gated: {gated}", until=lambda found: (manifests.GATE in found) is gated
    )


def is_gated(pod: Object) -> bool:
    return bool(pod["spec"].get("schedulingGates"))


# --- a crowd -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(290, func_only=True)
def test_ten_thousand_pods_at_once_leave_few_strays(
    kube: Kube,
    scene: scenes.Scene,
    namespace: str,
    make_nodes: Callable[..., list[str]],
    make_queues: Callable[..., list[str]],
) -> None:
    make_nodes(4)
    (queue,) = make_queues(namespace, 1)
    wait_gating(kube, objects.pod("probe", namespace, queue=queue), gated=False)
    made = create(kube, crowd("p", namespace, CROWD, queue=queue))
    try:
        ungated = [pod["metadata"]["uid"] for pod in made if not is_gated(pod)]
        # all that fit run: the extender has seen the whole crowd and let in whom there is room for
        running = waiting.wait_for(
            lambda: kube.list("pods", namespace, fields="spec.nodeName!="),
            60,
            "the cluster is full",
            until=lambda found: len(found) == 4 * 8,
        )
        strays = set(ungated) - scenes.uids(running)
        assert len(strays) <= STRAYS
        assert queue not in listed(kube)
        waiting.wait_for(
            lambda: scene.replica.metric("extender", "muster_extender_strays"),
            20,
            "the extender counts the same",
            until=lambda counted: counted == len(strays),
        )
    finally:
        delete(kube, namespace)


# --- one by one --------------------------------------------------------------------------------------


def test_a_gated_pod_starts_when_room_appears(
    kube: Kube,
    scene: scenes.Scene,
    namespace: str,
    make_nodes: Callable[..., list[str]],
    make_queues: Callable[..., list[str]],
) -> None:
    (node,) = make_nodes(1)
    (queue,) = make_queues(namespace, 1)
    wait_gating(kube, objects.pod("probe", namespace, queue=queue), gated=False)
    scene.fill(node, 8)
    first = scene.pod("first-0", queue=queue)
    assert not is_gated(first)
    waiting.wait_for(lambda: listed(kube), 10, "the queue is closed", until=lambda found: queue not in found)
    wait_gating(kube, objects.pod("probe", namespace, queue=queue), gated=True)
    second = scene.pod("second-0", queue=queue)
    assert is_gated(second)
    scene.wait_text("first-0", "Insufficient")
    waiting.wait_for(
        lambda: scene.replica.metric("extender", "muster_extender_waiting_groups", reason="InsufficientResources"),
        10,
        "both wait for room",
        until=lambda found: found == 2,
    )
    assert scene.bound() == {"filler": node}
    scene.delete("filler")
    scene.wait_started("second", 1)
    scene.wait_started("first", 1)
    waiting.wait_for(lambda: listed(kube), 10, "the queue is open again", until=lambda found: queue in found)


# --- others in our kube-scheduler process ------------------------------------------------------------


@pytest.fixture
def scoring(cluster: base.Cluster, muster: Replica) -> Iterator[Replica]:
    """A replica that also serves the example profile `muster-score`, in place of that of the run."""
    rendered = manifests.Manifests.render(cluster, manifests.ROOT / "manifests" / "examples" / "muster-score")
    muster.stop()
    with muster_module.Replica(cluster, rendered) as replica:
        replica.wait_active()
        yield replica


def test_two_thousand_gated_pods_stop_nobody_else(
    kube: Kube, scoring: Replica, namespace: str, make_nodes: Callable[..., list[str]]
) -> None:
    make_nodes(4)
    # no queue has this name, so it is never open
    made = create(kube, crowd("b", namespace, 2000, 9, queue=namespace))
    try:
        assert all(is_gated(pod) for pod in made)
        others = [objects.pod(f"o-{number}", namespace, gpus=0, scheduler="muster-score") for number in range(200)]
        create(kube, others)
        waiting.wait_for(
            lambda: kube.list("pods", namespace, fields="spec.nodeName!="),
            30,
            "all of the others are bound",
            until=lambda found: len(found) == len(others),
        )
        waiting.wait_for(lambda: scoring.metric("extender", "muster_extender_groups", phase="waiting"), 30,
                         "the backlog is known", until=lambda found: found >= len(made))  # fmt: skip
        assert scoring.metric("extender", "muster_extender_strays") == 0
        left = kube.list("pods", namespace, fields="spec.nodeName=")
        assert len(left) == len(made)
        assert all(is_gated(pod) for pod in left)
    finally:
        delete(kube, namespace)


# --- the list ----------------------------------------------------------------------------------------


@pytest.fixture
def labelled(kube: Kube, namespace: str) -> Iterator[Callable[[str, str], str]]:
    """A function that creates a namespace whose pods are in a queue."""
    made: list[str] = []

    def make(suffix: str, queue: str) -> str:
        name = f"{namespace}-{suffix}"
        labels = {manifests.GATE: queue}
        kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        made.append(name)
        waiting.wait_for(lambda: kube.find("serviceaccounts", "default", name), 20, f"service account of {name}")
        return name

    yield make
    for name in made:
        kube.delete("namespaces", name)


def test_the_list_of_200_queues_names_those_without_a_backlog(
    kube: Kube,
    scene: scenes.Scene,
    namespace: str,
    make_nodes: Callable[..., list[str]],
    make_queues: Callable[..., list[str]],
    labelled: Callable[[str, str], str],
) -> None:
    (node,) = make_nodes(1)
    scene.fill(node, 8)
    queues = make_queues(namespace, 200)
    busy, idle = queues[::2], queues[1::2]
    create(kube, [objects.pod(f"p-{number}", namespace, queue=queue) for number, queue in enumerate(busy)])

    def ours() -> set[str]:
        return set(listed(kube)) & set(queues)

    waiting.wait_for(ours, 20, "the busy ones are closed", until=lambda found: found == set(idle))
    in_busy, in_idle = labelled("busy", busy[0]), labelled("idle", idle[0])
    wait_gating(kube, objects.pod("probe", in_busy), gated=True)
    wait_gating(kube, objects.pod("probe", in_idle), gated=False)
    kube.patch("queues.muster.dev", idle[0], {"spec": {"state": "Closed"}})
    kube.delete("queues.muster.dev", idle[1])
    waiting.wait_for(
        ours, 10, "neither closed nor deleted queues are listed", until=lambda found: found == set(idle[2:])
    )
    scene.delete(*[f"p-{number}" for number in range(len(busy))])
    want = set(queues) - set(idle[:2])
    waiting.wait_for(ours, 20, "all others are open again", until=lambda found: found == want)


@pytest.mark.parametrize("edit", ["deleted", "emptied", "a closed queue is added", "its key is removed"])
def test_the_list_is_mended_when_somebody_meddles(
    edit: str, kube: Kube, muster: Replica, namespace: str, make_queues: Callable[..., list[str]]
) -> None:
    (queue,) = make_queues(namespace, 1)
    want = sorted(listed(kube))
    if edit == "deleted":
        kube.delete("configmaps", ADMISSION, manifests.NAMESPACE)
    else:
        data = {"emptied": "", "a closed queue is added": "\n".join([*want, "nobody"]), "its key is removed": None}
        kube.patch("configmaps", ADMISSION, {"data": {"open": data[edit]}}, manifests.NAMESPACE)
    with contextlib.suppress(waiting.NotReached):
        # it may be mended before we look
        waiting.wait_for(lambda: sorted(listed(kube)) != want, 0.5, "the edit stands")
    waiting.wait_for(lambda: sorted(listed(kube)), 10, "the list is as before", until=lambda found: found == want)
    wait_gating(kube, objects.pod("probe", namespace, queue=queue), gated=False)
    wait_gating(kube, objects.pod("probe", namespace, queue="nobody"), gated=True)
