"""A plan for room that was freed a moment ago is not given up for what kube-scheduler said before it saw that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core import messages
from extender.core.ids import NodeName, QueueName
from extender.core.model import Owner, Pod
from extender.core.reasons import Reason
from extender.core.vacated import LATE_SECONDS, Vacated
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_pods, make_queue
from tests.core.engine_driver import Driver

N0, N1 = NodeName("n0"), NodeName("n1")
SAID = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
OWNER = Owner("ReplicaSet", "low", "uid-of-low")


def test_it_is_of_the_node_that_was_left_and_for_a_moment_only() -> None:
    vacated = Vacated()
    vacated.note(N0, 10.0)
    assert vacated.outdate(SAID, N0, 10.0 + LATE_SECONDS)
    assert vacated.outdate("1 Too many pods", N0, 10.0)
    assert not vacated.outdate(SAID, N0, 10.1 + LATE_SECONDS)
    assert not vacated.outdate(SAID, N1, 10.0)
    assert not vacated.outdate("1 node(s) had volume node affinity conflict", N0, 10.0)
    vacated.note(N1, 30.0)
    vacated.note(N0, 31.0)
    assert vacated.outdate(SAID, N1, 31.0)
    assert vacated.outdate(SAID, N0, 31.0)


@pytest.fixture
def preempted() -> tuple[Driver, list[Pod], list[Pod]]:
    """A gang that has its places since a gang of lower priority left; replacements of that one wait."""
    queue = make_queue("q")
    low, high = (
        make_pods(size, name, request={GPU: 1}, group=name, queue=QueueName("q"), priority=priority, owner=OWNER)
        for name, size, priority in (("low", 6, 10), ("high", 4, 20))
    )
    driver = Driver(queue, gpu_node("n0"), make_group("low", 6), make_group("high", 4))
    driver.see(*(builders.bound(pod, "n0", driver.now - 100) for pod in low))
    driver.see(*high)
    evictions = [effect for effect in driver.tick(1.0) if isinstance(effect, messages.Evict)]
    assert len(evictions) == 6
    driver.done(*evictions)
    driver.gone(*low)
    replacements = [replace(pod, uid=f"{pod.uid}-2", name=f"{pod.name}-2") for pod in low]
    driver.see(*replacements)
    driver.tick(0.2)
    assert driver.nodes(high) == ["n0"] * 4
    return driver, high, replacements


def test_a_rejection_that_was_on_its_way_does_not_give_freed_room_to_others(
    preempted: tuple[Driver, list[Pod], list[Pod]],
) -> None:
    driver, high, replacements = preempted
    effects = driver.see(replace(high[3], rejection=SAID))
    assert [effect.uid for effect in effects if isinstance(effect, messages.Wake)] == [high[3].uid]
    driver.tick(0.2)
    assert driver.nodes(high) == ["n0"] * 4
    assert driver.nodes(replacements) == [None] * 6


@pytest.mark.parametrize(
    ("said", "wait"),
    [(SAID, LATE_SECONDS + 0.1), ("0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.", 0.0)],
    ids=["room lacks still, long after", "something else"],
)
def test_what_kube_scheduler_says_otherwise_counts(
    preempted: tuple[Driver, list[Pod], list[Pod]], said: str, wait: float
) -> None:
    driver, high, _ = preempted
    driver.tick(wait)
    driver.see(replace(high[3], rejection=said))
    assert driver.nodes(high) == [None] * 4
    assert driver.reason(high[0]) is Reason.SCHEDULER_REFUSED
