"""Two replicas on two host names: only the one whose scheduler leads acts, the other takes over and loses nothing.

The run's own replica is stopped for these tests. Each replica has a proxy of its own, whose record of writes shows what
it did.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from e2e import history, starts, waiting
from e2e.cluster import base
from e2e.cluster.muster import ROLES, Replica, host_of, lease
from e2e.cluster.proxy import Proxy, Write
from e2e.kube import Kube
from e2e.starts import Start

SIZE = 8
NODES, GPUS = 4, 4
ROOM = NODES * GPUS - SIZE
# Written by every scheduler while it waits to lead; and questions in the form of a POST, which write nothing.
NO_WRITES = re.compile("/leases|/tokenreviews|/subjectaccessreviews")
# A Lease lasts 15 s after its last renewal, and others look every 2 s; then their scheduler has to begin.
TAKE_OVER_SECONDS = 40


@pytest.fixture
def start_replicas(
    muster: Replica, start_replica: Callable[..., Replica], cluster: base.Cluster
) -> Iterator[Callable[[str], tuple[Replica, Proxy]]]:
    """A function that starts a replica with a host name and a proxy for all three of its processes."""
    muster.stop()
    started: list[tuple[Replica, Proxy]] = []

    def start(host: str) -> tuple[Replica, Proxy]:
        through = Proxy(cluster.kube.access, *cluster.key_pair())
        through.__enter__()
        replica = start_replica(hostname=host, proxies=dict.fromkeys(ROLES, through))
        started.append((replica, through))
        return replica, through

    yield start
    for replica, through in started:
        through.clear()
        replica.stop()
        through.__exit__()


def test_of_two_replicas_one_acts_and_the_other_writes_nothing(
    kube: Kube, namespace: str, make_nodes: Callable[..., list[str]],
    start_replicas: Callable[[str], tuple[Replica, Proxy]],
) -> None:  # fmt: skip
    make_nodes(NODES, GPUS)
    first, first_proxy = start_replicas("muster-a")
    first.wait_active()
    second, second_proxy = start_replicas("muster-b")
    whole = Start(kube, namespace, "whole", SIZE).create()
    waits = Start(kube, namespace, "waits", 2 * SIZE).create()
    whole.wait_whole()
    waits.wait_phase("InsufficientResources")
    assert host_of(lease(kube)) == "muster-a"
    assert len(_bindings(first_proxy, namespace)) == SIZE
    assert _writes_of_ours(second_proxy) == []
    for replica, acts in ((first, 1), (second, 0)):
        assert replica.metric("extender", "muster_extender_active") == acts
        assert replica.metric("gate", "muster_gate_active") == acts
    # It has seen all of it: it is ready to take over.
    assert second.holds()["holds"] == []


def test_a_second_replica_takes_over_while_a_gang_is_held(
    kube: Kube, namespace: str, make_nodes: Callable[..., list[str]], seen: history.History,
    start_replicas: Callable[[str], tuple[Replica, Proxy]],
) -> None:  # fmt: skip
    make_nodes(NODES, GPUS)
    first, first_proxy = start_replicas("muster-a")
    first.wait_active()
    second, second_proxy = start_replicas("muster-b")
    start = Start(kube, namespace, "gang", SIZE)
    asked = starts.hold_release(first_proxy, start)
    start.create().wait_held(first, SIZE)
    asked.wait_hit()
    assert _writes_of_ours(second_proxy) == []
    first.kill9()
    second.wait_active(TAKE_OVER_SECONDS)
    asked.release()
    starts.ended_well(start, second, seen, ROOM)
    assert _bindings(first_proxy, namespace) == []


def test_a_second_replica_takes_over_while_a_gang_is_being_released(
    kube: Kube, namespace: str, make_nodes: Callable[..., list[str]], seen: history.History,
    start_replicas: Callable[[str], tuple[Replica, Proxy]],
) -> None:  # fmt: skip
    make_nodes(NODES, GPUS)
    first, first_proxy = start_replicas("muster-a")
    first.wait_active()
    second, second_proxy = start_replicas("muster-b")
    late = starts.hold_bindings(first_proxy, namespace, "gang-[4-7]")
    start = Start(kube, namespace, "gang", SIZE).create()
    late.wait_hit(4)
    start.wait_bound(4, 20)
    assert _writes_of_ours(second_proxy) == []
    first.kill9()
    second.wait_active(TAKE_OVER_SECONDS)
    start.wait_whole()
    # What the dead one had sent comes now, much too late: it is refused, for each pod has its node.
    late.release()
    waiting.wait_for(
        lambda: [write.status for write in first_proxy.writes_of("POST", f"{namespace}/pods/gang-[4-7]/binding$")],
        20,
        "the late bindings are answered",
        until=lambda statuses: statuses == [409] * 4,
    )
    starts.ended_well(start, second, seen, ROOM)


@pytest.mark.gates
def test_a_rolling_upgrade_with_a_held_and_a_gated_gang(
    kube: Kube, namespace: str, make_nodes: Callable[..., list[str]], seen: history.History,
    start_replicas: Callable[[str], tuple[Replica, Proxy]], queue: str,
) -> None:  # fmt: skip
    make_nodes(NODES, GPUS)
    old, old_proxy = start_replicas("muster-old")
    old.wait_active()
    starts.close_queue(kube, namespace, queue)
    held = Start(kube, namespace, "held", SIZE)
    starts.hold_release(old_proxy, held)
    held.create().wait_held(old, SIZE)
    gated = Start(kube, namespace, "gated", NODES * GPUS, queue=queue).create()
    gated.wait_phase("InsufficientResources")
    assert gated.bound() == held.bound() == []

    new, new_proxy = start_replicas("muster-new")
    assert _writes_of_ours(new_proxy) == []
    assert len(gated.gated()) == NODES * GPUS
    for role in ("scheduler", "gate", "extender"):
        process = getattr(old, role)
        process.term(10)
        assert process.returncode == 0, f"{role} did not end by itself: it has {process.returncode}"
    new.wait_active()

    held.wait_whole()
    gated.wait_phase("InsufficientResources")
    assert len(gated.gated()) == NODES * GPUS
    held.delete()
    gated.wait_whole()
    assert seen.twice(kube) == {}


def _writes_of_ours(through: Proxy) -> list[Write]:
    """Writes that are not attempts for the scheduler's Lease, and no questions."""
    return [write for write in through.writes_of() if not NO_WRITES.search(write.path)]


def _bindings(through: Proxy, namespace: str) -> list[Write]:
    """Bindings of the test's pods that the API server has taken."""
    return [write for write in through.writes_of("POST", f"/{namespace}/pods/.*/binding$") if write.status == 201]
