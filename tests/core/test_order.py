"""What is decided does not rest on the order of sets, which differs from process to process: logs replay anywhere."""

from __future__ import annotations

from dataclasses import replace

from extender.core import messages
from extender.core.model import Hold
from extender.core.reasons import Ground
from extender.core.wholes import Wholes
from tests import builders
from tests.builders import GPU
from tests.core.engine_driver import Driver

#: the chance that a set of so many names is in this order is nothing
MANY = 12


def test_evictions_under_way_are_in_the_order_in_which_they_were_asked_for() -> None:
    pods = builders.make_pods(MANY, "train", group="train", node="n0")
    wholes = Wholes(builders.make_world(builders.make_group("train", 1), *pods), lambda _: False)
    wholes.ask(pods[::-1], Ground.STALE, ())
    wholes.look(0.0)
    assert list(wholes.asked) == [pod.uid for pod in pods[::-1]]


def test_groups_whose_calls_are_held_no_more_are_looked_at_in_the_order_of_the_calls() -> None:
    pods = [builders.make_pod(f"p{n}", {GPU: 1}, group=f"g{n}") for n in range(MANY)]
    groups = [builders.make_group(f"g{n}", 1) for n in range(MANY)]
    driver = Driver(builders.gpu_node("n0", MANY), *groups, *pods)
    driver.tick()
    driver.send(messages.HoldsSeen(tuple(Hold(pod.uid, "n0", pod.group, 1) for pod in pods[::-1])))  # type: ignore[arg-type]
    driver.see(*(replace(group, min_member=2) for group in groups))  # their plans are given up, and linger
    driver.tick()
    assert [driver.node(pod) for pod in pods] == [None] * MANY
    driver.send(messages.HoldsSeen(()))
    assert list(driver.engine._cycle.dirty) == [pod.group for pod in pods[::-1]]
