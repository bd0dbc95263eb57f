"""The choice of victims beside an oracle that tries every set of pods."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from extender.core import victims
from extender.core.ids import NodeName
from extender.core.membership import Need, satisfied
from extender.core.model import Group, Owner, Pod
from extender.core.world import World
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_pod

JOB = Owner("Job", "train", "uid-of-train")
HERE, THERE = NodeName("here"), NodeName("there")


@st.composite
def some_pods(draw: st.DrawFn, grouped: bool) -> list[Pod]:
    """Up to eight bound pods, most of them here, some without a controller."""
    pods = []
    for number in range(draw(st.integers(1, 8))):
        pod = make_pod(
            f"p{number}",
            {GPU: draw(st.integers(0, 4)), "cpu": draw(st.sampled_from((1, 1, 1000)))},
            group=draw(st.sampled_from((None, None, "a", "a", "b"))) if grouped else None,
            task=draw(st.sampled_from(("", "ps"))),
            priority=draw(st.integers(0, 1)),
            owner=draw(st.sampled_from((JOB, JOB, JOB, None))),
        )
        bound = builders.bound(pod, draw(st.sampled_from((HERE, HERE, HERE, THERE))), float(draw(st.integers(0, 9))))
        pods.append(replace(bound, phase=draw(st.sampled_from(("Running", "Running", "Running", "Succeeded")))))
    return pods


@st.composite
def some_groups(draw: st.DrawFn) -> list[Group]:
    """Objects of the groups, or not."""
    names = draw(st.sampled_from(((), ("a",), ("a", "b"))))
    return [make_group(n, draw(st.integers(1, 4)), {"ps": 1} if draw(st.booleans()) else {}) for n in names]


def may_go(pod: Pod) -> bool:
    """The only condition of these cases."""
    return pod.owner is not None


def case_of(world: World, gpus: int, cpu: int) -> victims.Case:
    excess = np.zeros(world.nodes.used.shape[1], dtype=np.int64)
    excess[world.columns.of(GPU)], excess[world.columns.of("cpu")] = gpus, cpu
    return victims.Case(world, HERE, excess, frozenset(), may_go, lambda _: False)


def fits_without(case: victims.Case, gone: Sequence[Pod]) -> bool:
    """True when these take all that is in excess with them."""
    left = case.excess.copy()
    for pod in gone:
        if pod.node == HERE:
            row = case.world.request_row(pod)
            left[: len(row)] -= row
    return bool((left <= 0).all())


def allowed(case: victims.Case, gone: Sequence[Pod]) -> bool:
    """True when each of these may go and no group is left with some but too few."""
    if not all(may_go(pod) for pod in gone):
        return False
    after = World()
    for group in case.world.groups.values():
        after.apply(builders.seen(group))
    for pod in case.world.pods.values():
        if pod not in gone:
            after.apply(builders.seen(pod))
    return all(_none_or_enough(after, pod) for pod in gone)


def _none_or_enough(after: World, lost: Pod) -> bool:
    if not any(pod.bound for pod in after.members.get(lost.group, {}).values()):
        return True
    need = after.need(lost.group)
    return isinstance(need, Need) and satisfied(need, after.tallies[lost.group])


def every_choice(case: victims.Case) -> Iterator[Sequence[Pod]]:
    """All sets that would do, smallest first."""
    bound = [pod for pod in case.world.pods.values() if pod.bound]
    for size in range(1, len(bound) + 1):
        for gone in itertools.combinations(bound, size):
            if fits_without(case, gone) and allowed(case, gone):
                yield gone


@given(pods=some_pods(grouped=True), groups=some_groups(), gpus=st.integers(1, 8), cpu=st.sampled_from((0, 0, 900)))
def test_a_choice_does_and_breaks_no_group(pods: list[Pod], groups: list[Group], gpus: int, cpu: int) -> None:
    case = case_of(builders.make_world(gpu_node(HERE), gpu_node(THERE), *groups, *pods), gpus, cpu)
    chosen = victims.choose(case)
    if chosen:
        assert fits_without(case, chosen)
        assert allowed(case, chosen)
        assert len(set(chosen)) == len(chosen)
        fewer = (part for size in range(len(chosen)) for part in itertools.combinations(chosen, size))
        assert not any(fits_without(case, part) and allowed(case, part) for part in fewer), "somebody goes for nothing"
    else:
        assert next(every_choice(case), None) is None


@given(pods=some_pods(grouped=False), gpus=st.integers(1, 8))
def test_of_lone_pods_the_fewest_go(pods: list[Pod], gpus: int) -> None:
    case = case_of(builders.make_world(gpu_node(HERE), gpu_node(THERE), *pods), gpus, 0)
    best = next(every_choice(case), ())
    assert len(victims.choose(case)) == len(best)
