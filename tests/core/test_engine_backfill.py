"""Who may pass a group that waits, and how long a group may be passed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.backfill import AGING_SECONDS
from extender.core.departures import OVERDUE_SECONDS, overdue
from extender.core.model import Declared, Node, Pod, Queue
from extender.core.reasons import Reason
from tests import builders
from tests.builders import GPU, gpu_node, make_pod, make_pods, make_queue
from tests.core.engine_driver import START, Driver
from tests.core.lifetimes import Cluster, Job


def job(name: str, gpus: int = 1, seconds: int | None = None, size: int = 1, **fields: Any) -> list[Pod]:
    """A gang of equal pods that declare how long it runs."""
    says = Declared(min_member=size, expected_duration=seconds)
    request = fields.pop("request", {GPU: gpus})
    return make_pods(size, name, request=request, group=name, declared=says, created=START, **fields)


def busy(*things: Node | Queue, seconds: int | None = 120, size: int = 4, **fields: Any) -> tuple[Driver, list[Pod]]:
    """Four of the six GPUs of a node are taken for two minutes, and a gang of five waits for them."""
    engine = Driver(*(things or (gpu_node("n1", 6),)))
    runs = job("runs", 1, seconds, size, priority=9)  # nobody evicts them
    engine.see(*runs)
    engine.tick()
    engine.see(*(builders.bound(pod, str(engine.node(pod)), engine.now) for pod in runs))
    engine.tick()
    engine.see(*job("head", 1, 100, 5, **fields))
    engine.tick()
    return engine, [builders.bound(pod, "n1", START) for pod in runs]


def put(engine: Driver, *pods: Pod) -> str | None:
    """These come after all others, and where the first one goes."""
    pods = tuple(replace(pod, created=START + 1) for pod in pods)
    engine.see(*pods)
    engine.tick()
    node = engine.node(pods[0])
    if node is not None:
        engine.see(*(builders.bound(pod, str(engine.node(pod)), engine.now) for pod in pods))
        engine.tick()
    return node


def end(engine: Driver, pods: list[Pod]) -> None:
    """These end well."""
    engine.see(*(replace(pod, phase="Succeeded") for pod in pods))
    engine.tick()


def promised(engine: Driver, name: str = "head") -> float | None:
    """In how many seconds from the start the group is promised to start."""
    promise = engine.engine.view.promise(builders.group_key(name))
    return None if promise is None else promise.at - START


# --- a start that is foreseen -------------------------------------------------------------------------


def test_the_head_is_promised_the_time_at_which_what_it_needs_has_ended() -> None:
    engine, _ = busy()
    assert promised(engine) == 120
    promise = engine.engine.view.promise(builders.group_key("head"))
    assert promise is not None
    assert promise.since == START
    assert engine.engine.view.promise(builders.group_key("runs")) is None


@pytest.mark.parametrize(
    ("seconds", "passes"),
    [(120, True), (1, True), (121, False), (None, False), (0, False), (-5, False)],
)
def test_who_takes_what_the_head_needs_must_end_in_time(seconds: int | None, passes: bool) -> None:
    """One of two GPUs is over at the time; the other is the head's."""
    engine, _ = busy()
    assert put(engine, *job("slack", 1, 600)) == "n1"
    assert (put(engine, *job("next", 1, seconds)) == "n1") == passes
    assert (engine.reason(builders.group_key("next")) is Reason.RESERVED_FOR_HEAD) != passes


def test_the_refusal_names_the_head_its_time_and_what_is_declared() -> None:
    engine, _ = busy()
    put(engine, *job("slack", 1, 600))
    put(engine, *job("next", 1, 600), *job("silent", 1))
    told = {"head": "head", "namespace": "team", "expected_at": int(START) + 120}
    assert engine.detail(builders.group_key("next")) == {**told, "declared_seconds": 600}
    assert engine.detail(builders.group_key("silent")) == told


def test_what_does_not_fit_at_all_is_not_said_to_be_kept_for_the_head() -> None:
    engine, _ = busy()
    put(engine, *job("large", 3, 10), *job("none", 1, 600, request={"example.com/none": 1}))
    assert engine.reason(builders.group_key("large")) is Reason.RESOURCES
    assert engine.reason(builders.group_key("none")) is not Reason.RESERVED_FOR_HEAD


def test_a_place_that_was_lent_for_a_time_is_lent_again() -> None:
    engine, _ = busy()
    put(engine, *job("slack", 1, 600))
    first = job("first", 1, 30)
    assert put(engine, *first) == "n1"
    engine.now += 30
    end(engine, [builders.bound(pod, "n1", START) for pod in first])
    assert promised(engine) == 120
    assert put(engine, *job("late", 1, 91)) is None
    assert put(engine, *job("second", 1, 90)) == "n1"


def test_room_that_the_head_cannot_use_is_open() -> None:
    zone = {"selector": (("zone", "a"),)}
    engine, _ = busy(gpu_node("n1", 6, {"zone": "a"}), constraints=zone)
    engine.see(gpu_node("n2", 3))
    assert put(engine, *job("any", 3)) == "n2"


def test_the_rest_of_a_node_that_the_head_needs_in_part_is_open_in_other_resources() -> None:
    engine, _ = busy()
    assert put(engine, *job("cpus", request={"cpu": 80_000})) == "n1"


def test_the_head_starts_as_soon_as_there_is_room_if_that_is_earlier() -> None:
    engine, runs = busy()
    engine.now += 50
    end(engine, runs[:3])
    assert engine.node(job("head")[0]) == "n1"
    assert promised(engine) is None


def test_with_several_nodes_the_head_needs_those_that_are_free_first() -> None:
    """Six GPUs on each of two nodes: four are in use on one for long, and two of the other for a short time."""
    engine = Driver(gpu_node("n1", 6), gpu_node("n2", 6))
    for name, node, seconds in (("long", "n1", 500), ("short", "n2", 100)):
        engine.see(*(builders.bound(pod, node, START) for pod in job(name, 2, seconds, 2)))
    engine.see(*job("head", 6, 50))
    engine.tick()
    assert promised(engine) == 100
    assert put(engine, *job("a", 2, 900)) == "n1"  # it packs where less is free, and that is not the head's
    assert put(engine, *job("b", 2, 900)) is None
    assert put(engine, *job("c", 2, 100)) == "n2"


def test_members_of_a_domain_wait_for_one_domain() -> None:
    racks = [gpu_node(f"n{n}", 4, {"rack": f"r{n // 2}"}) for n in range(4)]
    engine = Driver(builders.make_topology("rack"), *racks)
    engine.see(*(builders.bound(pod, f"n{n}", START) for n, pod in enumerate(job("runs", 1, 70, 4))))
    says = Declared(min_member=2, expected_duration=9, topology_required="rack")
    engine.see(*(replace(pod, declared=says) for pod in job("head", 4, 9, 2)))
    engine.tick()
    assert promised(engine) == 70
    places = [put(engine, *job(f"long-{n}", 3, 999)) for n in range(4)]
    assert len([place for place in places if place]) == 2
    assert len({place and dict(racks[int(place[1])].labels)["rack"] for place in places if place}) == 1


def test_one_of_higher_priority_passes() -> None:
    engine, _ = busy()
    assert put(engine, *job("urgent", 2, 600, priority=1)) == "n1"
    assert promised(engine) == 600


def test_a_head_of_higher_priority_takes_the_place_of_the_first() -> None:
    engine, _ = busy()
    engine.see(*job("urgent", 1, 30, 6, priority=1))
    engine.tick()
    engine.tick()
    assert (promised(engine, "urgent"), promised(engine)) == (120, None)


def test_what_is_leaving_is_kept_for_the_one_that_waits_for_it() -> None:
    """Whoever evicted it: it goes at once, and nobody else may have its room."""
    engine, runs = busy(seconds=None)
    assert promised(engine) is None
    engine.see(*(replace(pod, terminating=True) for pod in runs))
    engine.tick()
    engine.tick()
    assert put(engine, *job("slack", 1)) == "n1"
    assert put(engine, *job("next", 1, 5)) is None
    assert engine.reason(builders.group_key("next")) is Reason.RESERVED_FOR_HEAD
    engine.gone(*runs)
    engine.tick()
    assert engine.node(job("head")[0]) == "n1"


def test_the_queue_s_own_limit_is_kept_for_its_head_too() -> None:
    queue = make_queue("q", capability=((GPU, 6),))
    engine, runs = busy(gpu_node("n1", 20), queue)
    for pod in (*runs, *job("head", 1, 100, 5)):
        engine.see(replace(pod, queue=queue.name))
    engine.tick()
    engine.tick()
    assert engine.reason(builders.group_key("head")) is Reason.QUOTA
    assert promised(engine) == 120
    assert put(engine, *job("slack", 1, 600, queue=queue.name)) == "n1"
    assert put(engine, *job("next", 1, 600, queue=queue.name)) is None
    assert engine.reason(builders.group_key("next")) is Reason.RESERVED_FOR_HEAD
    assert put(engine, *job("short", 1, 60, queue=queue.name)) == "n1"
    assert put(engine, *job("elsewhere", 1, 600)) == "n1"


@pytest.mark.parametrize(
    "hopeless",
    [
        pytest.param({"request": {GPU: 7}}, id="a member larger than any node"),
        pytest.param({"constraints": {"selector": (("zone", "nowhere"),)}}, id="no node that it accepts"),
    ],
)
def test_who_could_not_start_in_an_empty_cluster_is_no_head(hopeless: dict[str, Any]) -> None:
    engine, _ = busy(**hopeless)
    assert promised(engine) is None
    assert put(engine, *job("a", 1, 600, 2)) == "n1"
    engine.tick(2 * AGING_SECONDS)
    engine.tick()
    assert not engine.engine._cycle.plans.headrooms


def test_two_queues_have_a_head_each_and_the_second_leaves_the_first_one_s_places() -> None:
    a, b = make_queue("a"), make_queue("b")
    engine = Driver(gpu_node("n1", 4), a, b)
    engine.see(*(builders.bound(pod, "n1", START) for pod in job("runs", 1, 100, 4)))
    engine.see(*job("head", 4, 50, queue=a.name))
    engine.tick()
    engine.see(*job("second", 4, 50, queue=b.name))
    engine.tick()
    assert (promised(engine), promised(engine, "second")) == (100, 150)


def test_a_queue_that_stays_inside_what_it_owns_passes_a_borrower() -> None:
    a, b = make_queue("a"), make_queue("b", deserved=((GPU, 2),))
    engine = Driver(gpu_node("n1", 6), a, b)
    engine.see(*(builders.bound(pod, "n1", START) for pod in job("runs", 1, 100, 4, queue=a.name)))
    engine.see(*job("head", 1, 50, 5, queue=a.name))
    engine.tick()
    assert promised(engine) == 100
    assert put(engine, *job("owner", 2, 600, queue=b.name)) == "n1"


# --- past the declared end ----------------------------------------------------------------------------


def test_what_is_past_its_end_may_end_at_any_moment_for_a_while_only() -> None:
    engine, runs = busy()
    put(engine, *job("slack", 1, 600))
    engine.tick(121)
    assert promised(engine) == 120
    assert put(engine, *job("next", 1, 1)) is None
    engine.tick(OVERDUE_SECONDS)
    engine.tick()
    assert promised(engine) is None
    assert engine.node(job("next")[0]) == "n1"
    assert runs


@pytest.mark.parametrize(
    ("seconds", "after", "want"),
    [(100, 99, 0.0), (100, 100, 0.0), (100, 130, 30.0), (None, 999, 0.0), (0, 999, 0.0), (-1, 999, 0.0)],
)
def test_how_long_a_group_is_past_its_declared_end(seconds: int | None, after: float, want: float) -> None:
    pods = [builders.bound(pod, "n1", START) for pod in job("runs", 1, seconds, 2)]
    world = builders.make_world(gpu_node("n1"), *pods)
    assert overdue(world, pods[0].group, START + after) == want


def test_a_member_that_was_bound_later_ends_later() -> None:
    pods = [builders.bound(pod, "n1", START + 50 * n) for n, pod in enumerate(job("runs", 1, 100, 2))]
    world = builders.make_world(gpu_node("n1"), *pods)
    assert (overdue(world, pods[0].group, START + 120), overdue(world, pods[0].group, START + 151)) == (0.0, 1.0)
    assert overdue(world, builders.group_key("unknown"), START) == 0.0


# --- a start that is not foreseen ---------------------------------------------------------------------


def stream(cluster_gpus: int, runs: int, until: int, **first: Any) -> Cluster:
    """Every second a small job comes that runs for so long, and at 10 a large one that fills the cluster."""
    cluster = Cluster([gpu_node("n1", cluster_gpus // 2), gpu_node("n2", cluster_gpus // 2)], step=25)
    small = [Job(f"s{n:05}", n, 1, 1, runs, None) for n in range(0, until, max(1, runs // cluster_gpus))]
    cluster.play([Job("large", 10, cluster_gpus, 1, 30, None), *small], until)
    return cluster


@pytest.mark.parametrize(
    ("runs", "by"),
    [
        pytest.param(60, 10 + AGING_SECONDS + 60, id="short ones: while it is drained for the first time"),
        pytest.param(290, 10 + AGING_SECONDS + 290, id="as long as the first window"),
        pytest.param(550, 10 + 3 * AGING_SECONDS + 550, id="longer than the first window: in the second"),
    ],
)
def test_a_large_gang_is_passed_for_a_bounded_time(runs: int, by: float) -> None:
    cluster = stream(4, runs, 2000)
    assert AGING_SECONDS < cluster.started["large"] <= by + 25


def test_nobody_passes_forever_nor_waits_forever_behind_a_head_that_never_starts() -> None:
    """A service holds one of two nodes for ever, and the large gang needs both."""
    service = Job("service", 0, 1, 2, None, None)
    cluster = Cluster([gpu_node("n1", 2), gpu_node("n2", 2)], step=25)
    small = [Job(f"s{n:05}", 20 + n, 1, 1, 50, None) for n in range(0, 6000, 100)]
    cluster.play([service, Job("large", 10, 4, 1, 30, None), *small], 6000)
    assert "large" not in cluster.started
    waits = [cluster.started.get(one.name, 6000) - one.at for one in small]
    assert all(wait <= max(one.at, AGING_SECONDS) for one, wait in zip(small, waits, strict=True))  # as long as it has
    assert len([wait for wait in waits if wait <= 25]) == len(waits) / 3


def test_room_beside_the_drained_nodes_is_open() -> None:
    engine = Driver(gpu_node("n1", 4), gpu_node("n2", 4), gpu_node("n3", 4))
    for node, size in (("n1", 1), ("n2", 2), ("n3", 3)):
        engine.see(*(builders.bound(pod, node, START) for pod in job(node, 1, None, size)))
    engine.see(*job("head", 4))
    engine.tick()
    engine.tick(AGING_SECONDS)
    engine.tick()
    assert put(engine, *job("beside", 1, None, 3)) in ("n2", "n3")
    assert put(engine, *job("next", 1, 1)) is None  # n1 has three GPUs free
    assert engine.reason(builders.group_key("next")) is Reason.RESERVED_FOR_HEAD
    assert engine.detail(builders.group_key("next")) == {"head": "head", "namespace": "team", "declared_seconds": 1}


def test_one_of_another_queue_is_held_back_too() -> None:
    other = make_queue("other")
    engine, _ = busy(gpu_node("n1", 6), other, seconds=None)
    engine.tick(AGING_SECONDS - 1)
    assert put(engine, *job("there", 1, 5, queue=other.name)) == "n1"
    engine.tick(1)
    engine.tick()
    assert put(engine, *job("more", 1, 5, queue=other.name)) is None
    assert put(engine, *job("urgent", 1, 5, priority=1)) == "n1"


def test_a_lone_pod_is_named_by_its_name() -> None:
    engine = Driver(gpu_node("n1", 2))
    runs = builders.bound(replace(make_pod("runs", {GPU: 1}), declared=Declared(expected_duration=60)), "n1", START)
    engine.see(runs, make_pod("waits", {GPU: 2}, created=START))
    engine.tick()
    late = make_pod("late", {GPU: 1}, created=START + 1)
    put(engine, late)
    assert engine.detail(late)["head"] == "waits"
