"""Whatever happens, and in whatever order: the ledger adds up, every wait has a reason, and the system rests.

The machine drives an engine in a model of the cluster (`cluster_model`) with everything that users, nodes,
other schedulers and faults do, and looks at the invariants of design section 9 after each step.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from extender.core import messages
from extender.core.ids import QUEUE_GATE, NodeName
from extender.core.model import Owner, Pod
from tests import builders
from tests.core import engine_driver
from tests.core.cluster_model import Cluster
from tests.core.resting import at_rest, one_reason_each

GROUPS = ("a", "b", "c")
#: the queue that members of each group name
QUEUES = {"a": "left", "b": "right", "c": None}
JOB = Owner("Job", "job", "uid-of-job")
NODES = ("n0", "n1", "n2", "n3")


class Machine(RuleBasedStateMachine):
    """Steps on a cluster of at most four nodes and three groups, with lone pods and foreign ones."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    @initialize(
        nominating=st.booleans(),
        sizes=st.lists(st.integers(1, 4), min_size=2, max_size=4),
        rack=st.booleans(),
        owned=st.sampled_from((0, 3, 6)),
        stale=st.sampled_from((None, 0, 5)),
        visible=st.booleans(),
    )
    def begin(
        self, nominating: bool, sizes: list[int], rack: bool, owned: int, stale: int | None, visible: bool
    ) -> None:
        above = engine_driver.BY_NOMINATION if nominating else engine_driver.BY_LIST
        self.cluster = Cluster(above)
        deserved = ((builders.GPU, owned),) if owned else ()
        self.cluster.show(builders.make_queue("left", deserved=deserved, stale=stale, visible=visible))
        self.cluster.show(builders.make_queue("right", visible=visible))
        for name, gpus in zip(NODES, sizes, strict=False):
            labels = {"rack": f"r{int(name[1:]) % 2}"} if rack else {}
            self.cluster.show(builders.gpu_node(name, gpus, labels))
        self.cluster.settle()

    # --- users ----------------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(GROUPS),
        count=st.integers(1, 4),
        gated=st.booleans(),
        gpus=st.sampled_from((1, 1, 2)),
        task=st.sampled_from(("", "", "ps")),
        priority=st.sampled_from((0, 0, 5)),
        kind=st.sampled_from(("", "", "", "", "alone", "default", "blocked")),
    )
    def members(self, name: str, count: int, gated: bool, gpus: int, task: str, priority: int, kind: str) -> None:
        for _ in range(count):
            self._pod(name, gated, gpus, task, priority, kind, QUEUES[name])

    @rule(
        count=st.integers(1, 6),
        gated=st.booleans(),
        gpus=st.integers(1, 2),
        kind=st.sampled_from(("", "alone")),
        queue=st.sampled_from((None, "right", "right", "left")),
    )
    def lone(self, count: int, gated: bool, gpus: int, kind: str, queue: str | None) -> None:
        for _ in range(count):
            self._pod(None, gated, gpus, "", 0, kind, queue)

    @rule(
        name=st.sampled_from(GROUPS),
        count=st.integers(1, 4),
        gpus=st.sampled_from((1, 1, 2)),
        priority=st.sampled_from((0, 5, 9)),
        borrower=st.sampled_from(GROUPS),
    )
    def somebody_is_owed(self, name: str, count: int, gpus: int, priority: int, borrower: str) -> None:
        """The cluster is full of work that began earlier, and a group comes that may take from it."""
        for _ in range(4):
            self._pod(borrower, False, 1, "", 0, "", QUEUES[borrower])
            self._pod(None, False, 1, "", 0, "alone", QUEUES[borrower])
        self.cluster.settle()
        for _ in range(count):
            self._pod(name, False, gpus, "", priority, "", QUEUES[name])
        self.cluster.settle()

    def _pod(
        self, group: str | None, gated: bool, gpus: int, task: str, priority: int, kind: str, queue: str | None
    ) -> None:
        """`kind`: without a controller, of another scheduler, or kept by somebody else's gate."""
        self.number += 1
        gates = (QUEUE_GATE,) if gated else ()
        pod = builders.make_pod(
            f"p{self.number:03}",
            {builders.GPU: gpus},
            group=group,
            task=task,
            priority=priority,
            created=self.cluster.now,
            queue=queue,
            gates=(*gates, "example.com/other") if kind == "blocked" else gates,
            scheduler="default" if kind == "default" else "muster",
            owner=None if kind == "alone" else JOB,
        )
        self.cluster.show(pod)

    @rule(
        name=st.sampled_from(GROUPS),
        least=st.integers(1, 5),
        servers=st.sampled_from((0, 0, 1)),
        required=st.sampled_from((None, None, "rack")),
        preemptible=st.sampled_from((None, None, None, False)),
    )
    def group_object(
        self, name: str, least: int, servers: int, required: str | None, preemptible: bool | None = None
    ) -> None:
        tasks = {"ps": servers} if servers else {}
        group = builders.make_group(
            name, least, tasks, topology_required=required, preemptible=preemptible, generation=1
        )
        before = self.cluster.truth.groups.get(group.key)
        if before is not None:  # its status is not the user's to write
            said = {"phase": before.phase, "stated_reason": before.stated_reason}
            group = replace(group, generation=before.generation, **said)
            group = replace(group, generation=before.generation + (group != before))
        self.cluster.show(group)

    @rule(
        name=st.sampled_from(("left", "right", "top", "default")),
        parent=st.sampled_from((None, "top", "top", "left")),
        cap=st.sampled_from((None, None, 0, 1, 2, 4)),
        kept=st.sampled_from((0, 0, 0, 1, 2)),
        owned=st.sampled_from((0, 0, 1, 2, 4)),
        closed=st.sampled_from((False, False, False, True)),
        gives=st.sampled_from((True, True, False)),
        visible=st.booleans(),
    )
    def queue_object(
        self,
        name: str,
        parent: str | None,
        cap: int | None,
        kept: int,
        owned: int,
        closed: bool,
        gives: bool,
        visible: bool,
    ) -> None:
        queue = builders.make_queue(
            name,
            parent=parent,
            capability=() if cap is None else ((builders.GPU, cap),),
            guarantee=((builders.GPU, kept),) if kept else (),
            deserved=((builders.GPU, owned),) if owned else (),
            closed=closed,
            reclaimable=gives,
            visible=visible,
            generation=1,
        )
        before = self.cluster.truth.queues.get(queue.name)
        self.number += 1
        queue = replace(queue, uid=f"uid-{self.number}")
        if before is not None:  # its status is not the user's to write
            queue = replace(queue, uid=before.uid, status=before.status, generation=before.generation)
            queue = replace(queue, generation=before.generation + (queue != before))
        self.cluster.show(queue)

    @rule(name=st.sampled_from((None, "left", "right", "top")), managed=st.booleans())
    def namespace_labels(self, name: str | None, managed: bool) -> None:
        self.cluster.label("team", name, managed)

    @rule(data=st.data())
    def queue_object_gone(self, data: st.DataObject) -> None:
        queues = list(self.cluster.truth.queues.values())
        if queues:
            self.cluster.delete(data.draw(st.sampled_from(queues)))

    @rule(name=st.sampled_from(GROUPS))
    def group_object_gone(self, name: str) -> None:
        group = self.cluster.truth.groups.get(builders.group_key(name))
        if group is not None:
            self.cluster.delete(group)

    def _pick(self, data: st.DataObject, **flags: bool) -> Pod | None:
        pods = [p for p in self.cluster.truth.pods.values() if all(getattr(p, k) == v for k, v in flags.items())]
        return data.draw(st.sampled_from(pods)) if pods else None

    @rule(data=st.data(), names=st.sampled_from((NODES[:1], NODES[:2], NODES)))
    def volume_stands_elsewhere(self, data: st.DataObject, names: tuple[str, ...]) -> None:
        pod = self._pick(data, waiting=True)
        if pod is not None:
            self.cluster.conflicts[pod.uid] = frozenset(map(NodeName, names))

    @rule(data=st.data())
    def pod_deleted(self, data: st.DataObject) -> None:
        pod = self._pick(data)
        if pod is not None:
            self.cluster.delete(pod)

    @rule(data=st.data(), phase=st.sampled_from(("Succeeded", "Failed")))
    def pod_ends(self, data: st.DataObject, phase: str) -> None:
        pod = self._pick(data, bound=True)
        if pod is not None:
            self.cluster.show(replace(pod, phase=phase))
            self.cluster._retry_aside()

    @rule(data=st.data())
    def pod_leaves(self, data: st.DataObject) -> None:
        pod = self._pick(data, terminating=False)
        if pod is not None:
            if pod.uid in self.cluster.holds:
                self.cluster.fail_hold(pod.uid)
            self.cluster.show(replace(self.cluster.truth.pods[pod.uid], terminating=True))

    @rule(data=st.data())
    def gates_removed_by_hand(self, data: st.DataObject) -> None:
        pod = self._pick(data, waiting=True)
        if pod is not None:
            self.cluster.show(replace(pod, gates=()))

    @rule(data=st.data())
    def foreign_pod_bound(self, data: st.DataObject) -> None:
        pod = self._pick(data, waiting=True, ours=False)
        if pod is None:
            self.number += 1
            pod = builders.make_pod(f"f{self.number}", {builders.GPU: 1}, scheduler="default")
        nodes = [n for n in self.cluster.truth.nodes.row_of if self.cluster.fits(pod, n, foreign=True)]
        if nodes:
            self.cluster.show(builders.bound(pod, data.draw(st.sampled_from(nodes)), self.cluster.now))

    @rule(
        data=st.data(),
        name=st.sampled_from((None, None, *GROUPS)),
        least=st.integers(1, 3),
        count=st.integers(1, 4),
        kind=st.sampled_from(("", "", "", "alone")),
        gpus=st.integers(1, 3),
    )
    def foreign_scheduler_races(
        self, data: st.DataObject, name: str | None, least: int, count: int, kind: str, gpus: int
    ) -> None:
        """Pods of ours are bound, and another scheduler binds beside them what it believes to fit."""
        if name is not None:
            self.group_object(name, least, 0, None)
        for _ in range(count):
            self._pod(name, False, 1, "", data.draw(st.integers(0, 1)), kind, QUEUES[name] if name else None)
        self.cluster.settle()
        nodes = [node for node in self.cluster.truth.nodes.row_of if self.cluster.unseen(node)]
        if nodes:
            self.number += 1
            pod = builders.make_pod(f"f{self.number}", {builders.GPU: gpus}, scheduler="default")
            self.cluster.race(pod, data.draw(st.sampled_from(nodes)))

    # --- nodes ----------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NODES), gpus=st.integers(0, 4), cordon=st.booleans(), ready=st.booleans())
    def node_changes(self, name: str, gpus: int, cordon: bool, ready: bool) -> None:
        before = self.cluster.truth.node(NodeName(name))
        labels = before.labels if before is not None else {"rack": f"r{int(name[1:]) % 2}"}
        node = builders.gpu_node(name, gpus, labels)
        self.cluster.show(replace(node, unschedulable=cordon and not ready, ready=ready or cordon))

    @rule(name=st.sampled_from(NODES))
    def node_deleted(self, name: str) -> None:
        node = self.cluster.truth.node(NodeName(name))
        if node is not None:
            self.cluster.delete(node)

    # --- processes ------------------------------------------------------------------------------

    @rule(number=st.integers(1, 5))
    def watch_shows(self, number: int) -> None:
        self.cluster.deliver(number)

    @rule(number=st.integers(1, 5), outcome=st.sampled_from(("", "", "", "lost", "reply lost")))
    def effects_done(self, number: int, outcome: str) -> None:
        self.cluster.carry_out(number, outcome, lost=outcome == "lost")

    @rule(number=st.integers(1, 5), late=st.booleans())
    def scheduler_works(self, number: int, late: bool) -> None:
        self.cluster.late = late
        self.cluster.schedule(number)
        self.cluster.late = False

    @rule()
    def gate_releases(self) -> None:
        self.cluster.release()

    @rule()
    def everybody_works(self) -> None:
        self.cluster.settle()

    @rule(data=st.data())
    def call_fails(self, data: st.DataObject) -> None:
        if self.cluster.holds:
            self.cluster.fail_hold(data.draw(st.sampled_from(list(self.cluster.holds))))

    @rule(seconds=st.sampled_from((0.0, 0.1, 1.0, 3.0, 11.0)))
    def time_passes(self, seconds: float) -> None:
        self.cluster.tick(seconds)
        assert engine_driver.overfull(self.cluster.engine) == []
        if self.cluster.engine.active:
            one_reason_each(self.cluster)

    @rule()
    def engine_restarts(self) -> None:
        self.cluster.restart()

    @rule()
    def activity_changes(self) -> None:
        self.cluster.tell(messages.ActivityChanged(not self.cluster.engine.active))

    @precondition(lambda self: self.number > 3)
    @rule()
    def rests(self) -> None:
        if not self.cluster.engine.active:
            self.cluster.tell(messages.ActivityChanged(True))
        self.cluster.rest()
        at_rest(self.cluster)

    @invariant()
    def sums_of_the_backlog(self) -> None:
        if hasattr(self, "cluster"):
            assert min(self.cluster.engine.backlog.strays.values(), default=0) >= 0

    def teardown(self) -> None:
        if hasattr(self, "cluster") and sys.exc_info()[0] is None:
            self.rests()


TestMachine = pytest.mark.timeout(120)(Machine.TestCase)
TestMachine.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def test_a_member_that_is_planned_again_where_it_was_before_it_was_rejected_is_woken() -> None:
    cluster = Cluster(engine_driver.BY_LIST)
    for name, gpus in (("n0", 3), ("n1", 1), ("n2", 1)):
        cluster.show(builders.gpu_node(name, gpus, {}))
    cluster.settle()
    cluster.tell(messages.ActivityChanged(False))
    for group, least, count in (("a", 3, 2), ("b", 1, 3)):
        cluster.show(builders.make_group(group, least, generation=1))
        for number in range(count):
            cluster.show(builders.make_pod(f"{group}{number}", {builders.GPU: 1}, group=group, created=cluster.now))
        cluster.settle()
    [stands_elsewhere] = [pod.uid for pod in cluster.truth.pods.values() if pod.name == "b1"]
    cluster.conflicts[stands_elsewhere] = frozenset({NodeName("n0")})
    cluster.tell(messages.ActivityChanged(True))
    cluster.rest()
    at_rest(cluster)
