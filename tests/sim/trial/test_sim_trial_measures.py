"""What is measured, on replays that can be worked out by hand."""

from __future__ import annotations

import pytest

from extender.sim.trial.cluster import Broken, Cluster, State, Work
from extender.sim.trial.measures import fair_shares, jain, size_of
from extender.sim.trial.network import Ring
from tests.sim.trial.plays import host, hosts, job, play


def test_allocation_is_the_mean_over_the_window_of_arrivals() -> None:
    jobs = [job("a", 0, 50, gpus=4), job("end", 100, 100, gpus=8)]
    _, figures = play("FIFO gang", jobs, hosts(1))
    assert figures.allocated == figures.useful == pytest.approx(0.25)
    assert figures.makespan == 200.0
    assert figures.had == {"q0": pytest.approx(2.0)}


def test_gpus_of_a_gang_that_is_not_whole_are_allocated_and_of_no_use() -> None:
    jobs = [job("a", 0, 60, gpus=4), job("gang", 0, 10, pods=2, gpus=4), job("end", 100, 1)]
    _, figures = play("pod by pod", jobs, hosts(1))
    # 4 GPUs for 60 s and 8 for 10, and of the gang 4 more for 60 s in vain
    assert figures.useful == pytest.approx((4 * 60 + 8 * 10) / 800)
    assert figures.allocated == pytest.approx((4 * 60 + 8 * 10 + 4 * 60) / 800)
    assert (figures.gangs.number, figures.gangs.p50) == (1, 60.0)


def test_who_never_starts_counts_with_its_wait_until_the_end() -> None:
    jobs = [job("a", 0, 1e6, gpus=8, queue="x"), job("b", 10, 5, gpus=2, queue="y")]
    made, figures = play("FIFO gang", jobs, hosts(1))
    assert figures.makespan is None
    assert figures.unfinished == 2
    assert (figures.by_queue["y"].never, figures.by_queue["y"].most) == (1, made.horizon - 10)
    assert figures.by_size["2-7"] == figures.by_queue["y"]


def test_fragments_are_free_gpus_of_no_use_to_pods_like_those_of_the_workload() -> None:
    # 6 of 8 are taken: a pod of 4, half of all, has no use for the 2 that are left
    jobs = [job("a", 0, 1000, gpus=4), job("b", 0, 1000, gpus=2), job("c", 0, 1000, gpus=2), job("d", 100, 1, gpus=4)]
    there = [host("h0", 10)]
    _, figures = play("FIFO gang", jobs, there)
    assert figures.fragments == pytest.approx(0.5 * 2 / 10)


@pytest.mark.parametrize(
    ("asked", "there", "want"),
    [
        ({"a": 10.0, "b": 10.0}, 10.0, {"a": 5.0, "b": 5.0}),
        ({"a": 2.0, "b": 10.0}, 10.0, {"a": 2.0, "b": 8.0}),
        ({"a": 2.0, "b": 3.0, "c": 9.0}, 9.0, {"a": 2.0, "b": 3.0, "c": 4.0}),
        ({"a": 0.0, "b": 1.0}, 10.0, {"a": 0.0, "b": 1.0}),
    ],
)
def test_what_is_fair_is_shared_from_the_smallest_wish_up(asked, there: float, want) -> None:
    assert fair_shares(asked, there) == want


def test_jain_is_one_among_equals_and_one_in_n_where_one_has_all() -> None:
    assert jain([3.0, 3.0, 3.0]) == 1.0
    assert jain([5.0, 0.0, 0.0, 0.0]) == 0.25
    assert jain([]) == 1.0


@pytest.mark.parametrize(
    ("ring", "off", "across", "throughput"),
    [
        (Ring(8, 1, 1), 0.0, 0.0, 1.0),
        (Ring(16, 2, 1), 2 / 16, 0.0, 1.0),  # 0.15 s are hidden
        (Ring(16, 2, 2), 2 / 16, 2 / 16, 0.5 / (0.5 + 0.3 - 0.25)),
        (Ring(16, 16, 1, 4), 1.0, 0.0, 0.5 / (0.5 + 0.6 - 0.25)),
    ],
)
def test_a_ring_costs_what_its_slowest_link_does(ring: Ring, off: float, across: float, throughput: float) -> None:
    assert (ring.off_nvlink, ring.across_racks) == (off, across)
    assert ring.throughput == pytest.approx(throughput)


def test_placing_close_together_is_seen_in_traffic_and_throughput() -> None:
    jobs = [job(f"gang-{n}", 0, 100, pods=8) for n in range(4)] + [job("end", 50, 1)]
    _, scattered = play("pod by pod", jobs, hosts(8))
    _, ours = play("Muster", jobs, hosts(8))
    assert (ours.off_nvlink, ours.across_racks, ours.throughput) == (0.0, 0.0, 1.0)
    assert scattered.off_nvlink > 0.5
    assert scattered.throughput < 0.8


@pytest.mark.parametrize(("gpus", "want"), [(0, "0"), (1, "1"), (2, "2-7"), (7, "2-7"), (8, "8-63"), (64, "64+")])
def test_sizes_have_these_borders(gpus: int, want: str) -> None:
    assert size_of(job("a", 0, 1, gpus=gpus)) == want


def test_what_no_cluster_allows_breaks_the_replay() -> None:
    cluster = Cluster([host("h0", 2)])
    work = Work(job("a", 0, 1, pods=2, gpus=2))
    first, second = (cluster.submit(work, number, f"a-{number}", 0.0) for number in range(2))
    cluster.bind(first, 0, 0.0)
    for breaks in (lambda: cluster.bind(first, 0, 0.0), lambda: cluster.leave(second, State.ENDED)):
        with pytest.raises(Broken):
            breaks()
    with pytest.raises(Broken, match="no room"):
        cluster.bind(second, 0, 0.0)
    cluster = Cluster([host("h0", 2)])
    cluster.submit(work, 0, "a-0", 0.0)
    cluster.check(1)
    with pytest.raises(Broken, match="2 pods were submitted"):
        cluster.check(2)
    cluster.free[0, 2] -= 1
    with pytest.raises(Broken, match="what is free"):
        cluster.check_room()
