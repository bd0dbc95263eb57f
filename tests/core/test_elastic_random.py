"""Minimums first, then what is above them: the engine's cycle against the rule said slowly."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_pods
from tests.core.engine_driver import Driver

#: running members, minimum, members in all, priority
Elastic = tuple[int, int, int, int]


def rule(room: int, groups: list[Elastic]) -> list[int]:
    """How many of each group get a place: by priority; then who is hurt, who waits for its minimum, who for more."""
    placed = [0] * len(groups)

    def give(number: int, wanted: int) -> None:
        nonlocal room
        placed[number] += wanted
        room -= wanted

    for priority in sorted({group[3] for group in groups}, reverse=True):
        ours = [number for number, group in enumerate(groups) if group[3] == priority]
        below = [number for number in ours if groups[number][0] < groups[number][1]]
        for number in sorted(below, key=lambda number: (groups[number][0] == 0, number)):
            missing = groups[number][1] - groups[number][0]
            if missing <= room:
                give(number, missing)
        for number in ours:
            run, least, size, _ = groups[number]
            if run + placed[number] >= least:
                give(number, min(room, size - run - placed[number]))
    return placed


@st.composite
def elastic(draw: st.DrawFn) -> Elastic:
    size = draw(st.integers(1, 5))
    return draw(st.integers(0, size)), draw(st.integers(1, size)), size, draw(st.sampled_from((0, 0, 5)))


@settings(deadline=None, max_examples=60)
@given(st.lists(elastic(), min_size=1, max_size=5), st.integers(0, 12))
def test_room_is_given_to_minimums_first(groups: list[Elastic], room: int) -> None:
    running = sum(run for run, *_ in groups)
    engine = Driver(*(gpu_node(f"n{n}", 1) for n in range(running + room)))
    waiting = []
    taken = 0
    for number, (run, least, size, priority) in enumerate(groups):
        name = f"g{number}"
        pods = make_pods(size, name, request={GPU: 1}, group=name, created=float(number), priority=priority)
        engine.see(make_group(name, least, preemptible=False))  # nobody makes room
        for pod in pods[:run]:
            engine.see(builders.bound(pod, f"n{taken}"))
            taken += 1
        engine.see(*pods[run:])
        waiting.append(pods[run:])
    engine.tick()
    assert [sum(node is not None for node in engine.nodes(pods)) for pods in waiting] == rule(room, groups)
