"""Who may go and who leaves is kept up from round to round: it is what an engine would find that knew nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from extender.core import messages
from extender.core.absence import Absence
from extender.core.engine import Engine
from extender.core.ids import NodeName, PodUid, QueueName
from extender.core.model import Budget, Declared, Hold, Pod
from extender.core.preemption import Preemption
from extender.core.reasons import Ground
from tests.builders import GPU, bound, gpu_node, make_pod, make_queue

QUEUES = ("a", "b")
#: groups of lower priority than this; and those that take GPUs
KINDS = (5, frozenset({GPU}))
RIGID = Declared(1, preemptible=False)


class KeptUp(RuleBasedStateMachine):
    """Pods of two queues, alone and in gangs, that come and go in every way."""

    def __init__(self) -> None:
        super().__init__()
        self.engine, self.now, self.number = Engine(10**6), 0.0, 0

    @initialize(least=st.sampled_from((0, 0, 30)))
    def begin(self, least: int) -> None:
        for number in range(3):
            self.send(messages.NodeSeen(gpu_node(f"n{number}", 8)))
        for name in QUEUES:
            self.send(messages.QueueSeen(make_queue(name, min_runtime=least if name == "a" else 0)))
        self.send(messages.ActivityChanged(True))

    def send(self, event: messages.EngineEvent) -> None:
        self.engine.handle(event, self.now)

    @property
    def preemption(self) -> Preemption:
        return self.engine._cycle.preemption

    @rule(
        queue=st.sampled_from(QUEUES),
        node=st.integers(0, 2),
        priority=st.sampled_from((0, 4, 9)),
        gang=st.sampled_from((None, None, None, "g0", "g1")),
        request=st.sampled_from(({GPU: 1}, {GPU: 2}, {"cpu": 1000})),
        many=st.integers(1, 3),
        declared=st.sampled_from((Declared(1), Declared(1), Declared(2), Declared(1, expected_duration=20), RIGID)),
    )
    def pods_run(
        self,
        queue: str,
        node: int,
        priority: int,
        gang: str | None,
        request: dict[str, int],
        many: int,
        declared: Declared,
    ) -> None:
        for _ in range(many):
            self.number += 1
            pod = make_pod(f"p{self.number}", request, group=gang, queue=QueueName(queue), priority=priority)
            self.send(messages.PodSeen(bound(replace(pod, declared=declared), f"n{node}", self.now)))

    def one(self, data: st.DataObject) -> Pod | None:
        pods = sorted(self.engine.world.pods.values(), key=lambda pod: pod.uid)
        return data.draw(st.sampled_from(pods)) if pods else None

    @rule(
        data=st.data(),
        what=st.sampled_from(
            ("leaves", "goes", "is asked", "is asked as a whole", "is let be", "is held", "ends", "moves")
        ),
    )
    def something_happens(self, data: st.DataObject, what: str) -> None:
        pod = self.one(data)
        if pod is None:
            return
        asked = messages.Evict(pod.uid, pod.namespace, pod.name, Ground.RECLAIMED)
        if what == "leaves":
            self.send(messages.PodSeen(replace(pod, terminating=True)))
        elif what == "goes":
            self.send(messages.PodGone(pod.uid))
        elif what == "is asked" and pod.bound:
            self.engine._cycle.wholes.ask([pod], Ground.RECLAIMED, ())
        elif what == "is asked as a whole":
            self.engine._cycle.wholes.ask(self.engine._cycle.wholes.bound(pod.group), Ground.RECLAIMED, ())
        elif what == "is let be":
            self.send(messages.EffectDone(asked, "a budget refuses it"))
        elif what == "is held":
            self.send(messages.HoldsSeen((Hold(pod.uid, NodeName("n0"), pod.group),)))
        elif what == "ends":
            self.send(messages.PodSeen(replace(pod, phase="Succeeded")))
        elif what == "moves":
            self.send(messages.PodSeen(replace(pod, queue=QueueName("a" if pod.queue == "b" else "b"))))

    @rule(seconds=st.sampled_from((1, 15, 1000)))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        self.send(messages.Tick())

    @rule(there=st.booleans(), allowed=st.integers(0, 1))
    def budget_changes(self, there: bool, allowed: int) -> None:
        budget = Budget("team", "pdb", "uid", (), allowed, 0, 9)
        self.send(messages.BudgetSeen(budget) if there else messages.BudgetGone(budget.namespace, budget.name))

    @rule(least=st.sampled_from((0, 30)))
    def queue_changes(self, least: int) -> None:
        self.send(messages.QueueSeen(make_queue("b", min_runtime=least)))

    @rule(name=st.sampled_from(("n0", "n3")), there=st.booleans())
    def node_changes(self, name: str, there: bool) -> None:
        self.send(messages.NodeSeen(gpu_node(name, 8)) if there else messages.NodeGone(NodeName(name)))

    @invariant()
    def is_as_found_anew(self) -> None:
        kept = self.look()
        state = (self.preemption._casting, self.preemption._coming)
        self.preemption.doubt_all()
        self.engine._plans.firm.doubt_all()
        anew = self.look()
        self.preemption._casting, self.preemption._coming = state
        assert kept == anew

    def look(self) -> dict[object, object]:
        """Everything that a round would find now."""
        self.engine._cycle.follow_queues()
        self.preemption.begin(self.now)
        scene = self.preemption._look(self.now)
        found: dict[object, object] = {
            "coming": of_absence(scene.coming.absence),
            "since": dict(self.preemption._since),
        }
        firm = self.engine._plans.firm
        firm.begin()
        for queue in map(QueueName, QUEUES):
            sums = {resource: amount for resource, amount in firm.sums().get(queue, {}).items() if amount}
            found[queue] = (sums, firm.lent(queue))
            for kind in KINDS:
                lot = scene.casting._lot(queue, kind)
                free = {key: (h.queue, h.priority, h.pods, h.spare, h.whole, h.overdue) for key, h in lot.free.items()}
                found[queue, kind] = (free, of_absence(lot.going), of_absence(lot.barred), lot.names, lot.until)
        return found


def of_absence(absence: Absence) -> tuple[dict[PodUid, Pod], dict[object, int], list[tuple[int, ...]], dict[str, int]]:
    """What an absence consists of."""
    there = {str(node): len(pods) for node, pods in absence._on.items()}
    rows = [tuple(int(amount) for amount in row) for row in np.asarray(absence._relief)]
    return dict(absence.pods), dict(absence._charges), rows, there


def test_a_gang_that_went_as_a_whole_and_stays_after_all_may_go_again() -> None:
    kept = KeptUp()
    kept.begin(0)
    kept.pods_run("a", 0, 0, "g0", {GPU: 1}, 2, Declared(2))
    pods = list(kept.engine.world.pods.values())
    kept.engine._cycle.wholes.ask(pods, Ground.RECLAIMED, ())
    for pod in pods:
        kept.send(messages.EffectDone(messages.Evict(pod.uid, pod.namespace, pod.name, Ground.RECLAIMED), "refused"))
    kept.now += 100  # nobody believes the refusals any more
    kept.preemption.begin(kept.now)
    kept.look()
    kept.send(messages.Tick())  # it is whole, so that it is not taken to be going
    assert kept.engine.world.members.keys() == {pods[0].group}
    assert not kept.engine._cycle.wholes.going(pods[0].group)
    kept.is_as_found_anew()


KeptUp.TestCase.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestKeptUp = pytest.mark.timeout(180)(KeptUp.TestCase)
