"""Random jobs under a virtual clock: nobody who passes delays the head, and nobody starves (invariant 5)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from extender.core.backfill import AGING_SECONDS
from tests.builders import GPU, gpu_node, make_queue
from tests.core.lifetimes import Cluster, Job

pytestmark = pytest.mark.timeout(120)
MOST = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def jobs(
    draw: st.DrawFn, queues: int = 1, declared: bool = True, zones: bool = False, priorities: int = 0
) -> list[Job]:
    """Jobs that end when they say, or earlier, and some that say nothing."""
    made = []
    for number in range(draw(st.integers(3, 14))):
        declares = draw(st.integers(1, 40)) if declared or draw(st.booleans()) else None
        runs = draw(st.integers(1, declares)) if declares is not None else draw(st.none() | st.integers(1, 60))
        job = Job(
            f"j{number:02}",
            at=draw(st.integers(0, 60)),
            pods=draw(st.sampled_from([1, 1, 1, 2, 3, 5])),
            gpus=draw(st.sampled_from([1, 1, 2, 4])),
            runs=runs,
            declares=declares,
            queue=f"q{draw(st.integers(0, queues - 1))}",
            priority=draw(st.integers(0, priorities)),
            zone=draw(st.sampled_from(["", "a", "b"])) if zones else "",
        )
        made.append(job)
    return made


NODES = st.lists(st.tuples(st.integers(1, 6), st.sampled_from("ab")), min_size=1, max_size=3)


def nodes_of(sizes: list[tuple[int, str]]) -> list:  # type: ignore[type-arg]
    return [gpu_node(f"n{number}", gpus, {"zone": zone}) for number, (gpus, zone) in enumerate(sizes)]


# --- the slow oracle ---------------------------------------------------------------------------------


def fits(job: Job, free: dict[str, int], zones: dict[str, str]) -> bool:
    """Pods of one size fit when the nodes' capacities sum up."""
    open_to = [gpus for node, gpus in free.items() if job.zone in ("", zones[node])]
    return sum(max(0, gpus) // job.gpus for gpus in open_to) >= job.pods


def expected(cluster: Cluster, job: Job) -> float | None:
    """When all that must end for the job will have ended, tried end after end."""
    free = {name: dict(node.allocatable)["nvidia.com/gpu"] for name, node in cluster.nodes.items()}
    zones = {name: node.labels["zone"] for name, node in cluster.nodes.items()}
    ends: list[tuple[float, dict[str, int]]] = []
    for other, taken in cluster.running():
        for node, gpus in taken.items():
            free[node] -= gpus
        if other.declares is not None:
            ends.append((cluster.started[other.name] + other.declares, taken))
    for at, taken in sorted(ends, key=lambda end: end[0]):
        for node, gpus in taken.items():
            free[node] += gpus
        if fits(job, free, zones):
            return at
    return None


def able(cluster: Cluster, job: Job) -> bool:
    """True when the job would start in an empty cluster."""
    zones = {name: node.labels["zone"] for name, node in cluster.nodes.items()}
    return fits(job, {name: dict(node.allocatable)["nvidia.com/gpu"] for name, node in cluster.nodes.items()}, zones)


@MOST
@given(NODES, jobs(zones=True))
def test_the_head_of_a_queue_is_promised_what_the_slow_oracle_finds_and_starts_by_then(
    sizes: list[tuple[int, str]], made: list[Job]
) -> None:
    promised: dict[str, float] = {}

    def look(cluster: Cluster) -> None:
        heads = [job for job in cluster.waiting() if able(cluster, job)][:1]
        for job in heads:
            found = cluster.promised(job)
            assert found == expected(cluster, job), f"{job.name} at {cluster.now}"
            assert found is not None, "everything that runs ends"
            assert found <= promised.get(job.name, found), f"{job.name} was promised an earlier start"
            promised[job.name] = found

    cluster = Cluster(nodes_of(sizes), [make_queue("q0")])
    cluster.play(made, 10_000, look)
    late = {name: (cluster.started[name], at) for name, at in promised.items() if cluster.started[name] > at}
    assert late == {}
    assert [job.name for job in cluster.waiting() if able(cluster, job)] == []


@MOST
@given(NODES, jobs(queues=3, declared=False, zones=True), st.lists(st.integers(2, 9), min_size=3, max_size=3))
def test_no_promise_to_any_queue_is_broken(sizes: list[tuple[int, str]], made: list[Job], caps: list[int]) -> None:
    """A cap of nine is none; the last two queues stand below another one."""
    promised: dict[str, float] = {}

    def look(cluster: Cluster) -> None:
        for job in cluster.waiting():
            found = cluster.promised(job)
            if found is not None:
                promised[job.name] = min(found, promised.get(job.name, found))
            assert cluster.now <= promised.get(job.name, cluster.now), f"{job.name} was to start"

    limits = [((GPU, cap),) if cap < 9 else () for cap in caps]
    queues = [make_queue(f"q{n}", parent="top" if n else None, capability=limit) for n, limit in enumerate(limits)]
    queues.append(make_queue("top", capability=((GPU, 8),)))
    cluster = Cluster(nodes_of(sizes), queues)
    cluster.play(made, 250, look)


@MOST
@given(NODES, jobs(queues=2, declared=False, zones=True, priorities=2))
def test_only_what_is_of_higher_order_and_comes_later_breaks_a_promise(
    sizes: list[tuple[int, str]], made: list[Job]
) -> None:
    promised: dict[str, float] = {}

    def look(cluster: Cluster) -> None:
        new = [job for job in cluster.jobs.values() if job.at == cluster.now]
        for job in cluster.waiting():
            if any(other.queue == job.queue and other.priority > job.priority for other in new):
                promised.pop(job.name, None)
                continue  # what that one takes from others in this cycle is known to promises in the next
            found = cluster.promised(job)
            if found is not None:
                promised[job.name] = min(found, promised.get(job.name, found))
            assert cluster.now <= promised.get(job.name, cluster.now), f"{job.name} was to start"

    cluster = Cluster(nodes_of(sizes), [make_queue("q0"), make_queue("q1")])
    cluster.play(made, 250, look)


@MOST
@given(NODES, jobs(zones=True))
def test_who_ends_in_time_passes(sizes: list[tuple[int, str]], made: list[Job]) -> None:
    def look(cluster: Cluster) -> None:
        able_ones = [job for job in cluster.waiting() if able(cluster, job)]
        if not able_ones:
            return
        until = cluster.promised(able_ones[0])
        free = {name: dict(node.allocatable)["nvidia.com/gpu"] for name, node in cluster.nodes.items()}
        zones = {name: node.labels["zone"] for name, node in cluster.nodes.items()}
        for _, taken in cluster.running():
            for node, gpus in taken.items():
                free[node] -= gpus
        for job in able_ones[1:]:
            ends = cluster.now + (job.declares or 0)
            assert not (fits(job, free, zones) and until is not None and ends <= until), f"{job.name} might run"

    Cluster(nodes_of(sizes), [make_queue("q0")]).play(made, 10_000, look)


@settings(MOST, max_examples=25)
@given(
    NODES,
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(1, 2), st.integers(20, 700)), min_size=4, max_size=8),
    st.integers(0, 1),
)
# small heads of the other queue, drained for one after the other, took the windows of the large one
@example([(4, "a"), (5, "a"), (4, "a")], 1, [(2, 293), (2, 394), (1, 395), (2, 170)], 0)
def test_what_fits_an_empty_cluster_starts_under_any_stream_of_small_jobs(
    sizes: list[tuple[int, str]], gpus: int, small: list[tuple[int, int]], queue: int
) -> None:
    """Nobody says how long he runs. The stream refills the cluster as fast as it empties, in two queues."""
    room = sum(size // gpus for size, _ in sizes)
    if not room:
        return
    large = Job("large", 30, room, gpus, 10, None, queue=f"q{queue}")
    longest, total = max(runs for _, runs in small), sum(size for size, _ in sizes)
    bound = large.at + AGING_SECONDS
    window = AGING_SECONDS
    while window < longest:
        bound, window = bound + 2 * window, 2 * window
    bound += longest
    stream = [
        Job(
            f"s{number:05}", at, 1, small[number % len(small)][0], small[number % len(small)][1], None, f"q{number % 2}"
        )
        for number, at in enumerate(range(0, int(bound), max(20, longest // total)))
    ]
    step = 50
    cluster = Cluster(nodes_of(sizes), [make_queue("q0"), make_queue("q1")], step=step)
    cluster.play([large, *stream], bound + 3 * step)
    # the clock is looked at once a step, when the window begins and again when the room is there
    assert cluster.started["large"] <= bound + 2 * step
