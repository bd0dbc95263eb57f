"""What happens while a part of Muster, or all of it, is not there: ours wait, everybody else's run as before.

Gate away: nothing binds. Extender away: nothing passes filter, and what is complete at the gate binds only where no
held node hands out devices by annotation. CRDs, the list of open queues or everything away: others do not notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e import history, objects, starts, waiting
from e2e.cluster import base, manifests
from e2e.cluster.muster import Replica
from e2e.kube import Kube
from e2e.starts import Start

SIZE = 8
NODES, GPUS = 4, 4
ROOM = NODES * GPUS - SIZE
# As HAMi's device plugin writes it.
HAMI_REGISTER = "hami.io/node-nvidia-register"
CARD = '[{"id":"GPU-0","count":10,"devmem":81920,"devcore":100,"type":"NVIDIA-A100","numa":0,"health":true}]'
QUEUES = 200
OTHERS = 40
# Of the default scheduler with its stock client limits, on a busy machine.
OTHERS_SECONDS = 30


def test_while_the_gate_is_away_nothing_binds_and_the_gang_starts_when_it_is_back(
    kube: Kube, replica: Replica, namespace: str, make_nodes: Callable[..., list[str]], seen: history.History
) -> None:
    make_nodes(NODES, GPUS)
    replica.gate.kill9()
    start = Start(kube, namespace, "gang", SIZE).create()
    _wait_refused(kube, namespace, f"{replica.gate_url}/bind", SIZE)
    assert seen.ever_bound(kube) == []
    replica.gate.start()
    starts.ended_well(start, replica, seen, ROOM)


def test_while_the_extender_is_away_nothing_passes_filter_and_the_gang_starts_when_it_is_back(
    kube: Kube, replica: Replica, namespace: str, make_nodes: Callable[..., list[str]], seen: history.History
) -> None:
    make_nodes(NODES, GPUS)
    replica.extender.kill9()
    start = Start(kube, namespace, "gang", SIZE).create()
    kube.create(objects.pod("lone", namespace))
    _wait_refused(kube, namespace, f"{replica.extender_url}/filter", SIZE + 1)
    assert replica.holds()["holds"] == []
    assert seen.ever_bound(kube) == []
    replica.extender.start()
    start.wait_whole()
    starts.ended_well(start, replica, seen, ROOM - 1)


def test_a_complete_gang_binds_without_the_extender(
    kube: Kube, replica: Replica, namespace: str, make_nodes: Callable[..., list[str]], seen: history.History
) -> None:
    make_nodes(NODES, GPUS)
    start = Start(kube, namespace, "gang", SIZE)
    _complete_then_extender_away(start, replica)
    start.wait_whole(10)
    assert not replica.extender.alive
    replica.extender.start()
    starts.ended_well(start, replica, seen, ROOM)


def test_a_complete_gang_that_needs_annotations_is_held_until_its_deadline_and_rolled_back(
    kube: Kube, replica: Replica, namespace: str, make_nodes: Callable[..., list[str]], seen: history.History
) -> None:
    for node in make_nodes(SIZE + 1, 1):  # one card each: nobody is there who would give a node's lock back
        kube.patch("nodes", node, {"metadata": {"annotations": {HAMI_REGISTER: CARD}}})
    expired = replica.metric("gate", "muster_gate_binds_total", outcome="expired")
    start = Start(kube, namespace, "gang", SIZE, timeout=15)
    _complete_then_extender_away(start, replica)
    assert len(start.held(replica)) == SIZE
    waiting.wait_for(
        lambda: replica.metric("gate", "muster_gate_binds_total", outcome="expired") - expired,
        20,
        "every call is answered at the deadline",
        until=lambda answered: answered == SIZE,
    )
    assert replica.holds()["holds"] == []
    _wait_refused(kube, namespace, "not complete in time", SIZE)
    assert seen.ever_bound(kube) == []
    replica.extender.start()
    starts.ended_well(start, replica, seen, 1)


@pytest.fixture
def backlog(kube: Kube, replica: Replica, namespace: str, make_nodes: Callable[..., list[str]]) -> Iterator[list[str]]:
    """200 queues that each have a gated pod for which there is no room."""
    make_nodes(NODES, GPUS)
    names = [f"{namespace}-{index}" for index in range(QUEUES)]
    for name in names:
        kube.create(objects.queue(name))
        kube.create(objects.pod(f"waits-{name}", namespace, 1000, queue=name, labels={"waits": "yes"}))
    waiting.wait_for(
        lambda: set(names) & set(starts.open_queues(kube)),
        30,
        "all 200 queues are closed",
        until=lambda open_: not open_,
    )
    yield names
    for name in names:
        kube.delete("queues.muster.dev", name)


def test_others_are_created_and_scheduled_as_before_whatever_of_muster_is_missing(
    installed: manifests.Manifests, kube: Kube, replica: Replica, namespace: str, backlog: list[str],
) -> None:  # fmt: skip
    _others_run(kube, namespace, "beside")
    waiting_pods = kube.list("pods", namespace, labels="waits=yes")
    assert len(waiting_pods) == QUEUES
    assert not any(objects.is_bound(pod) for pod in waiting_pods)

    replica.stop()
    _others_run(kube, namespace, "stopped")
    if installed.gates_pods:
        _a_pod_of_ours_is_gated(kube, namespace, backlog[0])

    kube.delete("configmaps", "muster-admission", manifests.NAMESPACE)
    _others_run(kube, namespace, "no-list")
    assert not any(objects.is_bound(pod) for pod in kube.list("pods", namespace, labels="waits=yes"))

    replica.heal()
    waiting.wait_for(
        lambda: kube.find("configmaps", "muster-admission", manifests.NAMESPACE), 20, "the list is written again"
    )
    Start(kube, namespace, "gang", SIZE).create().wait_whole()


def test_others_are_created_and_scheduled_as_before_without_our_crds(
    cluster: base.Cluster, installed: manifests.Manifests, kube: Kube, replica: Replica, namespace: str,
    make_nodes: Callable[..., list[str]],
) -> None:  # fmt: skip
    make_nodes(NODES, GPUS)
    # As the one who deletes them first: whatever is left of other tests goes with them.
    ours = [crd["metadata"]["name"] for crd in kube.list("customresourcedefinitions.apiextensions.k8s.io")
            if crd["spec"]["group"] == "muster.dev"]  # fmt: skip
    assert "queues.muster.dev" in ours
    try:
        for name in ours:
            kube.delete("customresourcedefinitions.apiextensions.k8s.io", name)
        waiting.wait_for(
            lambda: kube.serves("muster.dev/v1alpha1"), 30, "the CRDs are gone", until=lambda served: not served
        )
        _others_run(kube, namespace, "no-crds")
        # Groups that need no object of ours start, also under processes that have never seen the CRDs.
        for role in ("gate", "extender"):
            getattr(replica, role).restart()
        replica.wait_ready()
        for pod in objects.gang("labels", namespace, 4, source="label", annotations={"muster.dev/min-member": "4"}):
            kube.create(pod)
        _wait_all_bound(kube, namespace, "muster.dev/pod-group=labels", 4)
    finally:
        installed.install(cluster)
        for role in ("gate", "extender"):
            getattr(replica, role).restart()
    replica.heal()
    Start(kube, namespace, "gang", SIZE).create().wait_whole()


def _complete_then_extender_away(start: Start, replica: Replica) -> None:
    """All members are held, the gate is about to ask the extender, and that one is killed first."""
    asked = starts.hold_release(replica.options.proxies["gate"], start)
    start.create().wait_held(replica, start.size)
    asked.wait_hit()
    replica.extender.kill9()
    assert start.bound() == []
    asked.release()


def _others_run(kube: Kube, namespace: str, name: str) -> None:
    """Pods of the default scheduler are created ungated and scheduled within the deadline; they leave again."""
    for index in range(OTHERS):
        made = kube.create(
            objects.pod(f"{name}-{index}", namespace, 0, scheduler="default-scheduler", cpu="100m", labels={"of": name})
        )
        assert not made["spec"].get("schedulingGates")
    _wait_all_bound(kube, namespace, f"of={name}", OTHERS)
    kube.delete_all("pods", namespace, labels=f"of={name}", grace=0)


def _wait_all_bound(kube: Kube, namespace: str, labels: str, number: int) -> None:
    waiting.wait_for(
        lambda: [pod["metadata"]["name"] for pod in kube.list("pods", namespace, labels=labels)
                 if objects.is_bound(pod)],
        OTHERS_SECONDS,
        f"{number} pods with {labels} are bound",
        until=lambda bound: len(bound) == number,
    )  # fmt: skip


def _a_pod_of_ours_is_gated(kube: Kube, namespace: str, queue: str) -> None:
    made = kube.create(objects.pod("late", namespace, queue=queue))
    assert made["spec"]["schedulingGates"] == [{"name": manifests.GATE}]


def _wait_refused(kube: Kube, namespace: str, text: str, number: int) -> None:
    """Wait until kube-scheduler's events say this of so many pods: it has tried."""

    def told() -> set[str]:
        events = kube.list("events", namespace)
        return {event["involvedObject"]["name"] for event in events if text in (event.get("message") or "")}

    waiting.wait_for(
        lambda: sorted(told()), 20, f"events of {number} pods say {text}", until=lambda pods: len(pods) == number
    )
