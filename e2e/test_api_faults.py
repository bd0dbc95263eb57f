"""Faults of the API server, by a proxy in front of it for gate and extender: the gang ends whole, nothing twice.

Lost replies and requests; 409, 429 with Retry-After and 500 on each kind of write that a start needs; watches closed or
told 410; an API server out of reach, and one that is restarted.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from e2e import history, objects, starts, waiting
from e2e.cluster import base, local
from e2e.cluster.muster import Replica
from e2e.cluster.proxy import Fault, Proxy
from e2e.kube import Kube
from e2e.starts import Start

SIZE = 8
NODES, GPUS = 4, 4
ROOM = NODES * GPUS - SIZE
# More than one pod, fewer than all: some go through at once, some only at the second or third attempt.
TIMES = 5

Strike = Callable[[Proxy, str, str], Fault]
# name: sets the fault on (a proxy, path, method)
FAULTS: dict[str, Strike] = {
    "the reply is lost": lambda through, path, method: through.lose_reply(path, method, times=TIMES),
    "the request is lost": lambda through, path, method: through.lose_request(path, method, times=TIMES),
    "409": lambda through, path, method: through.answer(409, path, method, times=TIMES),
    "429 with Retry-After": lambda through, path, method: through.answer(429, path, method, retry_after=1, times=TIMES),
    "500": lambda through, path, method: through.answer(500, path, method, times=TIMES),
}


@pytest.mark.parametrize("strike", FAULTS.values(), ids=FAULTS.keys())
def test_a_binding_meets_a_fault(
    strike: Strike, kube: Kube, replica: Replica, namespace: str, make_nodes: Callable[..., list[str]],
    seen: history.History,
) -> None:  # fmt: skip
    make_nodes(NODES, GPUS)
    through = replica.options.proxies["gate"]
    fault = strike(through, f"/namespaces/{namespace}/pods/gang-[^/]*/binding$", "POST")
    start = Start(kube, namespace, "gang", SIZE).create()
    starts.ended_well(start, replica, seen, ROOM)
    assert fault.hits == TIMES
    _each_bound_by_one_binding(through, namespace)


@pytest.mark.gates
@pytest.mark.parametrize("strike", FAULTS.values(), ids=FAULTS.keys())
def test_an_ungating_meets_a_fault(
    strike: Strike, kube: Kube, replica: Replica, namespace: str, make_nodes: Callable[..., list[str]],
    seen: history.History, queue: str,
) -> None:  # fmt: skip
    make_nodes(1, GPUS)
    starts.close_queue(kube, namespace, queue)
    start = Start(kube, namespace, "gang", SIZE, queue=queue).create()
    start.wait_phase("InsufficientResources")
    assert len(start.gated()) == SIZE
    fault = strike(replica.options.proxies["extender"], f"/namespaces/{namespace}/pods/gang-[^/]*$", "PATCH")
    make_nodes(NODES - 1, GPUS)
    starts.ended_well(start, replica, seen, ROOM)
    assert fault.hits == TIMES


@pytest.mark.parametrize("strike", FAULTS.values(), ids=FAULTS.keys())
def test_the_list_of_open_queues_meets_a_fault(
    strike: Strike, kube: Kube, replica: Replica, namespace: str, make_nodes: Callable[..., list[str]],
    seen: history.History, queue: str,
) -> None:  # fmt: skip
    make_nodes(NODES, GPUS)
    starts.wait_listed(kube, queue, True)
    fault = strike(replica.options.proxies["extender"], "/configmaps/", "")
    fault.times = 2
    # One that never fits closes its queue; while that cannot be written, the gang's pods come ungated.
    kube.create(objects.pod("giant", namespace, 1000, queue=queue))
    fault.wait_hit(2)
    start = Start(kube, namespace, "gang", SIZE, queue=queue).create()
    starts.ended_well(start, replica, seen, ROOM)
    starts.wait_listed(kube, queue, False)
    kube.delete("pods", "giant", namespace, grace=0)
    starts.wait_listed(kube, queue, True)


def test_every_watch_is_closed_while_some_members_are_held(
    kube: Kube, replica: Replica, namespace: str, make_nodes: Callable[..., list[str]], seen: history.History
) -> None:
    make_nodes(NODES, GPUS)
    start = Start(kube, namespace, "gang", SIZE).create(SIZE - 1)
    start.wait_held(replica, SIZE - 1)
    for through in replica.options.proxies.values():
        assert through.close_watches() >= 3
    assert len(start.held(replica)) == SIZE - 1
    start.create()
    starts.ended_well(start, replica, seen, ROOM)


def test_a_member_deleted_while_the_watch_was_gone_is_not_counted(
    kube: Kube, replica: Replica, namespace: str, make_nodes: Callable[..., list[str]], seen: history.History
) -> None:
    make_nodes(NODES, GPUS)
    start = Start(kube, namespace, "gang", SIZE).create(SIZE - 1)
    start.wait_held(replica, SIZE - 1)
    _outage(replica, lambda: kube.delete("pods", "gang-0", namespace, grace=0), gone=True)
    waiting.wait_for(
        lambda: replica.holds()["holds"], 20, "its call is not held any more", until=lambda held: len(held) == SIZE - 2
    )
    # The last one makes the number whole only if the deleted one is still counted.
    start.create()
    start.wait_held(replica, SIZE - 1)
    assert start.bound() == []
    kube.create(objects.pod("gang-0", namespace, group="gang", queue="default"))
    starts.ended_well(start, replica, seen, ROOM)


@pytest.mark.parametrize("kind", ["pods", "nodes", "podgroups"])
def test_a_watch_is_told_410_while_some_members_are_held(
    kind: str, kube: Kube, replica: Replica, namespace: str, make_nodes: Callable[..., list[str]],
    seen: history.History,
) -> None:  # fmt: skip
    make_nodes(NODES, GPUS)
    start = Start(kube, namespace, "gang", SIZE).create(SIZE - 1)
    start.wait_held(replica, SIZE - 1)
    faults = [through.gone(rf"/{kind}\?(.*&)?watch=", times=2) for through in replica.options.proxies.values()]
    for through in replica.options.proxies.values():
        assert through.close_watches(f"/{kind}\\?") >= 1
    for fault in faults:
        fault.wait_hit(2)
    start.create()
    starts.ended_well(start, replica, seen, ROOM)


def test_the_api_server_is_out_of_reach_for_both_while_bindings_are_under_way(
    kube: Kube, replica: Replica, namespace: str, make_nodes: Callable[..., list[str]], seen: history.History
) -> None:
    make_nodes(NODES, GPUS)
    through = replica.options.proxies["gate"]
    fault = through.lose_request(f"/namespaces/{namespace}/pods/gang-[4-7]/binding$", "POST", times=starts.ALWAYS)
    start = Start(kube, namespace, "gang", SIZE).create()
    fault.wait_hit(4)
    start.wait_bound(4, 20)
    before = fault.hits
    for each in replica.options.proxies.values():
        each.set_down(True)
    fault.wait_hit(before + 4)
    for each in replica.options.proxies.values():
        each.clear()
    starts.ended_well(start, replica, seen, ROOM)
    _each_bound_by_one_binding(through, namespace)


@pytest.mark.parametrize("stage", ["held", "releasing"])
def test_the_api_server_is_restarted(
    stage: str, cluster: base.Cluster, kube: Kube, replica: Replica, namespace: str,
    make_nodes: Callable[..., list[str]], seen: history.History,
) -> None:  # fmt: skip
    if not isinstance(cluster, local.LocalCluster):
        pytest.skip("only an API server that these tests started is theirs to restart; CI's is")
    make_nodes(NODES, GPUS)
    bindings = starts.hold_bindings(replica.options.proxies["gate"], namespace, "gang-[4-7]")
    start = Start(kube, namespace, "gang", SIZE)
    if stage == "held":
        start.create(SIZE - 1).wait_held(replica, SIZE - 1)
    else:
        start.create()
        bindings.wait_hit(4)
        start.wait_bound(4, 20)
    cluster.restart_apiserver()
    bindings.release()
    waiting.wait_for(lambda: start.create().pods(), 20, "the rest is created", until=lambda pods: len(pods) == SIZE)
    # kube-scheduler may have lost its Lease meanwhile: then it ends, as it should, and is started again.
    replica.heal()
    starts.ended_well(start, replica, seen, ROOM)


def _outage(replica: Replica, meanwhile: Callable[[], None], *, gone: bool) -> None:
    """Both lose the API server, something happens, and they find it again; with `gone` their versions are too old."""
    through = list(replica.options.proxies.values())
    for each in through:
        each.set_down(True)
    meanwhile()
    faults = [each.gone(r"/pods\?(.*&)?watch=") for each in through] if gone else []
    for each in through:
        each.set_down(False)
    for fault in faults:
        fault.wait_hit()


def _each_bound_by_one_binding(through: Proxy, namespace: str) -> None:
    """The API server said yes to exactly one Binding of each pod."""
    done = [write.path for write in through.writes_of("POST", f"/namespaces/{namespace}/pods/gang-[0-9]*/binding$")
            if write.status == 201]  # fmt: skip
    assert len(done) == len(set(done)) == SIZE
