"""The table of what will be gone agrees with the plain list of what stands there, whatever has happened to it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core import messages
from extender.core.departures import OVERDUE_SECONDS, Departures, Runs, duration
from extender.core.ids import GroupKey, NodeName, QueueName
from extender.core.membership import Need
from extender.core.model import Declared, Pod
from extender.core.world import World
from tests import builders
from tests.builders import GPU, bound, gpu_node, make_pod

NOW = 1000.0
NODES = ("n0", "n1", "n2")
#: one departure as plain values: when, where, what it gives back there and in its queue
Plain = tuple[float, str, tuple[tuple[str, int], ...], tuple[str, tuple[tuple[str, int], ...]]]


def plain(world: World, departures: Departures) -> list[Plain]:
    """What is in the table."""
    found = []
    for number in range(len(departures.when)):
        row = departures.requests[number].tolist()
        request = tuple((name, amount) for name, amount in zip(world.columns.names, row, strict=False) if amount)
        where = world.nodes.names[int(departures.rows[number])]
        queue, amounts = departures.sorts[int(departures.of[number])]
        found.append((float(departures.when[number]), str(where), request, (str(queue), amounts)))
    assert [one[0] for one in found] == sorted(one[0] for one in found)
    return sorted(found)


def listed(world: World, now: float) -> list[Plain]:
    """What is to be in it."""
    found = []
    for pod in world.pods.values():
        if pod.node is None or pod.node not in world.nodes.row_of or pod.ended:
            continue
        end, need = math.inf, world.need(pod.group)
        seconds = need.expected_duration if isinstance(need, Need) else None
        if pod.ours and seconds is not None and seconds > 0 and pod.bound_at is not None:
            end = pod.bound_at + seconds
            end = end if end > now else now if now < end + OVERDUE_SECONDS else math.inf
        if pod.terminating:
            end = now
        if end < math.inf:
            request = tuple((name, amount) for name, amount in pod.shape.request if world.columns.of(name) is not None)
            row = sorted(request, key=lambda one: world.columns.names.index(one[0]))
            queue = str(pod.queue or world.queue_of(pod.group))
            found.append((end, str(pod.node), tuple(row), (queue, pod.shape.request if pod.ours else ())))
    return sorted(found)


PODS = st.builds(
    lambda number, node, group, seconds, at, phase, request, ours, terminating: replace(
        make_pod(
            f"p{number}",
            {request: 1},
            group=group,
            node=node,
            queue=QueueName(f"q{number % 2}"),
            scheduler="muster" if ours else "other",
            declared=Declared(min_member=1, expected_duration=seconds),
        ),
        bound_at=at,
        phase=phase,
        terminating=terminating,
    ),
    number=st.integers(0, 5),
    node=st.sampled_from((None, *NODES)),
    group=st.sampled_from([None, "g"]),
    seconds=st.sampled_from([None, -1, 0, 10, 100, 500]),
    at=st.sampled_from([None, NOW - 100, NOW - 50, NOW, NOW + 3]),
    phase=st.sampled_from(["Running", "Running", "Succeeded", "Failed"]),
    request=st.sampled_from([GPU, "cpu", "example.com/new"]),
    ours=st.booleans(),
    terminating=st.booleans(),
)
EVENTS = st.one_of(
    PODS,
    st.integers(0, 5).map(lambda number: f"p{number}"),
    st.sampled_from(NODES),
    st.sampled_from([gpu_node(name) for name in NODES]),
    st.just(builders.make_node("n0", {GPU: 4, "example.com/new": 4})),
    st.none(),
)


def hear(world: World, runs: Runs, event: object) -> None:
    """As the engine does it."""
    if isinstance(event, Pod):
        before = world.pods.get(event.uid)
        world.apply(messages.PodSeen(event))
        runs.seen(before, world.pods.get(event.uid))
    elif isinstance(event, str) and event in NODES:
        world.apply(messages.NodeGone(NodeName(event)))
        runs.doubt_node(NodeName(event))
    elif isinstance(event, str):
        uid = make_pod(event).uid
        before = world.pods.get(uid)
        world.apply(messages.PodGone(uid))
        runs.seen(before, None)
        world._gone.clear()  # the same pods come again
    elif isinstance(event, builders.Node):
        world.apply(messages.NodeSeen(event))
        runs.doubt_node(event.name)


@given(st.lists(EVENTS, max_size=40))
def test_the_table_follows_the_world(events: list[object]) -> None:
    world = builders.make_world(*(gpu_node(name) for name in NODES))
    runs = Runs(world)
    for event in events:
        if event is None:
            assert plain(world, runs.foreseen(NOW)) == listed(world, NOW)
        else:
            hear(world, runs, event)
    assert plain(world, runs.foreseen(NOW)) == listed(world, NOW)
    assert plain(world, runs.foreseen(NOW + 70)) == listed(world, NOW + 70)


def test_groups_that_come_and_go_unread_leave_nothing_behind() -> None:
    world = builders.make_world(gpu_node("n0"))
    runs = Runs(world)
    for number in range(10):
        hear(world, runs, bound(make_pod(f"p{number}"), "n0"))
        hear(world, runs, f"p{number}")
    assert not runs.doubted


@pytest.mark.parametrize(("declared", "want"), [(None, None), (-1, None), (0, None), (1, 1)])
def test_a_duration_of_nothing_or_less_is_none(declared: int | None, want: int | None) -> None:
    world = builders.make_world(replace(make_pod(), declared=Declared(expected_duration=declared)))
    assert duration(world.need(next(iter(world.members)))) == want
    assert duration(world.need(GroupKey(builders.Source.MUSTER, "team", "missing"))) is None


def test_the_first_ones_are_given_back_to_nodes_and_queues() -> None:
    pods = [
        bound(replace(make_pod(f"p{n}", {GPU: 1}), declared=Declared(expected_duration=10 * n)), "n0") for n in (1, 2)
    ]
    world = builders.make_world(gpu_node("n0"), *pods)
    runs = Runs(world)
    for pod in pods:
        runs.seen(None, pod)
    departures = runs.foreseen(0.0)
    assert (departures.times, departures.until(10), departures.until(9.9), departures.until(20)) == ([10, 20], 1, 0, 2)
    free = builders.make_room(gpu_node("n0")).free * 0
    departures.give_back(free, 1)
    assert free[0, world.columns.of(GPU)] == 1
    assert list(departures.freed(2)) == [("default", pods[0].shape.request, 2)]
