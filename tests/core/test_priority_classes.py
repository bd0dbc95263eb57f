"""Priority classes that group objects name: they lower the group's priority and never raise it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core import messages
from extender.core.ids import Source
from extender.core.membership import Need
from extender.core.model import Pod
from extender.core.reasons import Reason
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_pod, make_world
from tests.core.engine_driver import Driver

CLASSES = ("low", "high", "größe")


def seen(name: str, value: int) -> messages.PriorityClassSeen:
    return messages.PriorityClassSeen(name, value)


def member(group: str, number: int = 0, **fields: int) -> Pod:
    return make_pod(f"{group}-{number}", {GPU: 4}, group=group, **fields)


_steps = st.lists(
    st.tuples(st.sampled_from(CLASSES), st.none() | st.integers(-5, 5))
    | st.tuples(st.just("pod"), st.integers(-5, 5))
    | st.tuples(st.just("names"), st.none() | st.sampled_from(CLASSES)),
    max_size=20,
)


@given(_steps)
def test_it_is_the_lowest_of_the_pods_and_of_the_class_that_is_there(steps: list) -> None:
    key, world = builders.group_key("train"), make_world(member("train", 99, priority=3), make_group("train", 1))
    classes: dict[str, int] = {}
    pods, named = [3], None
    for number, (what, value) in enumerate(steps):
        if what == "pod":
            world.apply(messages.PodSeen(member("train", number, priority=value)))
            pods.append(value)
        elif what == "names":
            named = value
            world.apply(messages.GroupSeen(make_group("train", 1, priority_class=named)))
        elif value is None:
            classes.pop(what, None)
            world.apply(messages.PriorityClassGone(what))
        else:
            classes[what] = value
            world.apply(seen(what, value))
        want = min(*pods, classes.get(named or "", 5))
        need = world.need(key)
        assert isinstance(need, Need)
        assert (world.priority(key), need.priority) == (want, want)
        assert (world.no_class(key) is None) == (named is None or named in classes)


@pytest.mark.parametrize("source", [Source.MUSTER, Source.VOLCANO, Source.NATIVE])
def test_a_group_of_a_lower_class_lets_later_ones_of_its_queue_go_first(source: Source) -> None:
    filler = builders.bound(make_pod("filler", {GPU: 8}, scheduler="other"), "gpu-0")
    early = [make_pod("early-0", {GPU: 8}, group=builders.group_key("early", source), created=1.0)]
    late = make_pod("late", {GPU: 8}, created=2.0)
    group = make_group("early", 1, source=source, priority_class="low")
    driver = Driver(gpu_node(), filler)
    driver.send(seen("low", -1))
    driver.see(group, *early, late)
    driver.tick()
    driver.gone(filler)
    driver.tick()
    assert (driver.node(late), driver.node(early[0])) == ("gpu-0", None)


def test_a_class_that_is_raised_or_lowered_counts_at_once() -> None:
    filler = builders.bound(make_pod("filler", {GPU: 8}, scheduler="other"), "gpu-0")
    groups = [make_group(name, 1, priority_class=name) for name in ("a", "b")]
    pods = [make_pod(f"{name}-0", {GPU: 8}, group=name, priority=9) for name in ("a", "b")]
    driver = Driver(gpu_node(), filler)
    driver.send(seen("a", 5), seen("b", 6))
    driver.see(*groups, *pods)
    driver.tick()
    driver.send(seen("b", 4))
    driver.tick()
    driver.gone(filler)
    driver.tick()
    assert (driver.node(pods[0]), driver.node(pods[1])) == ("gpu-0", None)


def test_a_class_that_does_not_exist_is_refused_by_name_until_it_does() -> None:
    group, pod = make_group("train", 1, priority_class="low"), member("train")
    empty = make_group("empty", 1, priority_class="low")
    driver = Driver(gpu_node(), group, pod, empty)
    driver.tick()
    refusal = driver.engine.entries[group.key].refusal
    assert refusal is not None
    assert (refusal.reason, dict(refusal.detail)) == (
        *(Reason.INVALID, {"problem": "spec.priorityClassName: there is no PriorityClass low"}),
    )
    assert driver.engine.view.why(empty.key) == refusal
    driver.send(seen("low", 0))
    driver.tick()
    assert driver.node(pod) == "gpu-0"
    waiting = driver.engine.view.why(empty.key)
    assert waiting is not None
    assert waiting.reason is Reason.MEMBERS


def test_what_runs_runs_on_when_its_class_is_deleted_and_only_what_is_new_of_it_waits() -> None:
    group, pod = make_group("train", 1, priority_class="low"), builders.bound(member("train"), "gpu-0")
    driver = Driver(gpu_node())
    driver.send(seen("low", 0))
    driver.see(group, pod)
    driver.tick()
    effects = driver.send(messages.PriorityClassGone("low")) + driver.ticks(5)
    assert not [one for one in effects if isinstance(one, messages.Evict)]
    more = member("train", 1)
    driver.see(more)
    driver.tick()
    assert driver.node(more) is None
    assert driver.reason(group.key) is Reason.INVALID
