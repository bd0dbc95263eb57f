"""kill -9 of each process at each stage of a gang's start: the gang ends whole, nothing twice, nothing left reserved.

The stages: gated and without room; half of the gates removed; before the first filter call; some members held; all
held and the release about to come; the bindings under way; some of them done. kube-scheduler's Lease is deleted after
its end, but for one test which waits until it has run out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from e2e import history, starts, waiting
from e2e.cluster import manifests
from e2e.cluster.muster import ROLES, Replica
from e2e.cluster.proxy import Proxy
from e2e.kube import Kube
from e2e.starts import Start

SIZE = 8
# The nodes have room for the gang and for another one as large.
NODES, GPUS = 4, 4
ROOM = NODES * GPUS - SIZE


@dataclasses.dataclass(frozen=True)
class Scene:
    """What a stage is made of."""

    kube: Kube
    replica: Replica
    start: Start
    make_nodes: Callable[..., list[str]]

    @property
    def gate_proxy(self) -> Proxy:
        """In front of the API server for the gate."""
        return self.replica.options.proxies["gate"]


def kill(replica: Replica, role: str) -> None:
    """kill -9; the Lease of a killed scheduler is deleted, so that nobody has to wait for its end."""
    getattr(replica, role).kill9()
    if role == "scheduler":
        manifests.release_lease(replica.cluster.kube)


def start_again(replica: Replica, role: str) -> None:
    """Start what was killed; it need not be ready yet."""
    getattr(replica, role).start()


# Each stage: brings the start to the point where the process is killed, kills it, starts it, and goes on.


def gated_without_room(scene: Scene, role: str) -> None:
    """Gated pods know nothing of a restart, and start when room appears."""
    scene.make_nodes(1, GPUS)
    _create_gated(scene)
    kill(scene.replica, role)
    assert scene.start.bound() == []
    start_again(scene.replica, role)
    scene.make_nodes(NODES - 1, GPUS)


def half_ungated(scene: Scene, role: str) -> None:
    """Room has appeared; half of the gates are removed, the other half is on its way."""
    scene.make_nodes(1, GPUS)
    _create_gated(scene)
    path = rf"/namespaces/{scene.start.namespace}/pods/{scene.start.name}-[4-7]$"
    ungating = scene.replica.options.proxies["extender"].hold_before(path, "PATCH", times=starts.ALWAYS)
    scene.make_nodes(NODES - 1, GPUS)
    ungating.wait_hit(4)
    kill(scene.replica, role)
    assert scene.start.bound() == []
    assert len(scene.start.gated()) >= 4
    start_again(scene.replica, role)
    ungating.release()


def before_the_first_filter(scene: Scene, role: str) -> None:
    """The pods are created while the process is dead."""
    scene.make_nodes(NODES, GPUS)
    kill(scene.replica, role)
    scene.start.create()
    start_again(scene.replica, role)


def some_members_held(scene: Scene, role: str) -> None:
    """All but one are held, the last one is created after the restart."""
    scene.make_nodes(NODES, GPUS)
    scene.start.create(SIZE - 1).wait_held(scene.replica, SIZE - 1)
    kill(scene.replica, role)
    assert scene.start.bound() == []
    start_again(scene.replica, role)
    scene.start.create()


def all_held(scene: Scene, role: str) -> None:
    """The gate has just asked whether the group is still as it was."""
    scene.make_nodes(NODES, GPUS)
    asked = starts.hold_release(scene.gate_proxy, scene.start)
    scene.start.create().wait_held(scene.replica, SIZE)
    asked.wait_hit()
    kill(scene.replica, role)
    assert scene.start.bound() == []
    start_again(scene.replica, role)
    asked.release()


def during_the_release(scene: Scene, role: str) -> None:
    """Bindings are sent, none is carried out; they arrive when the process is dead."""
    scene.make_nodes(NODES, GPUS)
    bindings = starts.hold_bindings(scene.gate_proxy, scene.start.namespace)
    scene.start.create()
    bindings.wait_hit(SIZE)
    kill(scene.replica, role)
    assert scene.start.bound() == []
    bindings.release()
    start_again(scene.replica, role)


def some_are_bound(scene: Scene, role: str) -> None:
    """Half of the bindings are done, the other half get lost with the process."""
    scene.make_nodes(NODES, GPUS)
    through = scene.gate_proxy
    late = starts.hold_bindings(through, scene.start.namespace, f"{scene.start.name}-[4-7]")
    scene.start.create()
    late.wait_hit(4)
    scene.start.wait_bound(4, 20)
    kill(scene.replica, role)
    start_again(scene.replica, role)
    if role == "gate":
        # The new gate has to bind the other half without the old one's writes, which come too late.
        late.times = 0
        scene.start.wait_whole()
    late.release()


GATED_STAGES = (gated_without_room, half_ungated)
STAGES = (
    *GATED_STAGES,
    before_the_first_filter,
    some_members_held,
    all_held,
    during_the_release,
    some_are_bound,
)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(stage, id=stage.__name__, marks=pytest.mark.gates if stage in GATED_STAGES else ())
        for stage in STAGES
    ],
)
def test_a_gang_ends_whole_after_kill_and_restart(
    stage: Callable[[Scene, str], None],
    role: str,
    kube: Kube,
    replica: Replica,
    namespace: str,
    make_nodes: Callable[..., list[str]],
    seen: history.History,
    queue: str,
) -> None:
    start = Start(kube, namespace, "gang", SIZE, queue=queue if stage in GATED_STAGES else "default")
    stage(Scene(kube, replica, start, make_nodes), role)
    starts.ended_well(start, replica, seen, ROOM)
    _no_binding_was_done_twice(replica, start)


def test_a_scheduler_that_was_killed_waits_for_the_end_of_its_own_lease_and_the_gang_starts(
    kube: Kube,
    replica: Replica,
    namespace: str,
    make_nodes: Callable[..., list[str]],
    seen: history.History,
) -> None:
    make_nodes(NODES, GPUS)
    start = Start(kube, namespace, "gang", SIZE).create(SIZE - 1)
    start.wait_held(replica, SIZE - 1)
    replica.scheduler.restart()
    # Calls of a scheduler that is gone are not held any more, though the Lease still names our host.
    waiting.wait_for(lambda: start.held(replica), 5, "no call is held", until=lambda held: not held)
    start.create()
    starts.ended_well(start, replica, seen, ROOM)


def test_all_three_killed_at_once_while_some_are_bound(
    kube: Kube,
    replica: Replica,
    namespace: str,
    make_nodes: Callable[..., list[str]],
    seen: history.History,
) -> None:
    make_nodes(NODES, GPUS)
    late = starts.hold_bindings(replica.options.proxies["gate"], namespace, "gang-[4-7]")
    start = Start(kube, namespace, "gang", SIZE).create()
    late.wait_hit(4)
    start.wait_bound(4, 20)
    replica.kill9()
    late.release()
    replica.heal()
    starts.ended_well(start, replica, seen, ROOM)


def test_a_gate_that_is_asked_to_stop_answers_every_held_call(
    kube: Kube,
    replica: Replica,
    namespace: str,
    make_nodes: Callable[..., list[str]],
    seen: history.History,
) -> None:
    make_nodes(NODES, GPUS)
    start = Start(kube, namespace, "gang", SIZE).create(SIZE - 1)
    start.wait_held(replica, SIZE - 1)
    replica.gate.term()
    assert replica.gate.returncode == 0
    waiting.wait_for(
        lambda: _told(kube, namespace, "the permit gate is stopping"),
        10,
        "kube-scheduler was told why each call was refused",
        until=lambda pods: len(pods) == SIZE - 1,
    )
    assert start.bound() == []
    replica.gate.start()
    start.create()
    starts.ended_well(start, replica, seen, ROOM)


def _create_gated(scene: Scene) -> None:
    """The gang's queue has a backlog, so the gang is gated, and there is not enough room for it."""
    starts.close_queue(scene.kube, scene.start.namespace, scene.start.queue)
    scene.start.create().wait_phase("InsufficientResources")
    assert len(scene.start.gated()) == SIZE


def _told(kube: Kube, namespace: str, text: str) -> set[str]:
    """Pods of which kube-scheduler wrote an event with this text."""
    events = kube.list("events", namespace)
    return {event["involvedObject"]["name"] for event in events if text in (event.get("message") or "")}


def _no_binding_was_done_twice(replica: Replica, start: Start) -> None:
    """The API server said yes to one Binding of each pod at most."""
    through = replica.options.proxies["gate"]
    done = [write.path for write in through.writes_of("POST", f"/namespaces/{start.namespace}/.*/binding$")
            if write.status == 201]  # fmt: skip
    assert len(done) == len(set(done))
