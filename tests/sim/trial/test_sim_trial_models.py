"""The models of others: what each does by its rules on a few jobs, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from extender.sim.traces.common import Ask
from extender.sim.trial.cluster import Cluster
from extender.sim.trial.hosts import Hosts
from extender.sim.trial.scoring import least_allocated, most_allocated
from extender.sim.trial.waiting import FLUSH_SECONDS, Waiting
from tests.sim.trial.plays import ends, host, hosts, job, play, starts


def rows(*values: tuple[int, int, int, int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


SCORES = {
    # (90 + 90) / 2, and 75 for no change of balance
    "empty, even": (least_allocated, (10_000, 10_000, 8, 110), (10_000, 10_000, 8, 110), (1000, 1000, 1, 1), 90 + 75),
    # evenness before 75, after 100: 50 + (50 + 25) / 2
    "evened out": (least_allocated, (10_000, 10_000, 8, 110), (5000, 10_000, 8, 110), (0, 5000, 1, 1), 50 + 87),
    # evenness before 100, after 75: 50 + (50 - 25) / 2
    "made uneven": (least_allocated, (10_000, 10_000, 8, 110), (10_000, 10_000, 8, 110), (0, 5000, 1, 1), 75 + 62),
    "rounded down": (least_allocated, (3000, 3000, 8, 110), (3000, 3000, 8, 110), (1000, 1000, 1, 1), 66 + 75),
    # (50 + 50 + 100) / 3
    "packed": (most_allocated, (10_000, 10_000, 8, 110), (10_000, 10_000, 8, 110), (5000, 5000, 8, 1), 66 + 75),
    # a host without GPUs: (50 + 50) / 2
    "packed without GPUs": (most_allocated, (10_000, 10_000, 0, 9), (10_000, 10_000, 0, 9), (5000, 5000, 0, 1), 125),
}


@pytest.mark.parametrize(("scores", "total", "free", "asks", "want"), SCORES.values(), ids=SCORES)
def test_a_host_scores_as_in_kube_schedulers_integers(scores, total, free, asks, want: int) -> None:
    assert scores(rows(total), rows(free), rows(asks)[0]).tolist() == [want]


def test_what_waits_goes_by_priority_then_time_and_back_off_counts_only_while_others_are_active() -> None:
    waiting: Waiting[str] = Waiting()
    waiting.add("late", 0, 2.0)
    waiting.add("early", 0, 1.0)
    waiting.add("high", 5, 3.0)
    assert [waiting.pop(3.0) for _ in range(4)] == ["high", "early", "late", None]
    waiting.put_aside("early", 0, 10.0)
    waiting.put_aside("late", 0, 10.0)
    assert waiting.pop(11.0) is None
    assert waiting.looks_at() == 10.0 + FLUSH_SECONDS
    waiting.freed(10.5)
    waiting.add("new", 0, 10.5)
    # both back off until 11, so who is active goes first; then nobody is
    assert [waiting.pop(10.5) for _ in range(4)] == ["new", "early", "late", None]
    waiting.put_aside("early", 0, 20.0)
    waiting.flush(20.0 + FLUSH_SECONDS - 1)
    assert waiting.pop(320.0) is None
    waiting.flush(20.0 + FLUSH_SECONDS)
    assert waiting.pop(320.0) == "early"


def test_of_many_hosts_only_a_part_is_scored_from_where_the_last_search_ended() -> None:
    cluster = Cluster(hosts(1000))
    search = Hosts(cluster, least_allocated, 1)
    # of 1000 hosts 42 % are looked at
    found = [search.choose(Ask(1000, 1024, 1), cluster.free) for _ in range(3)]
    assert 0 <= found[0] < 420 <= found[1] < 840
    assert found[2] >= 840 or found[2] < 260


def test_single_pods_leave_gangs_half_started_for_ever_and_whole_gangs_do_not() -> None:
    # two gangs of 3 come at once to 4 GPUs, one pod after the other
    jobs = [job("a", 0, 100, pods=3, gpus=2), job("b", 0, 100, pods=3, gpus=2), job("last", 1000, 1)]
    there = [host("h0", 4), host("h1", 4)]
    made, figures = play("pod by pod", jobs, there)
    assert ends(made)["a"] == 100.0
    assert ends(made)["b"] == 200.0
    assert figures.allocated > figures.useful
    for policy in ("native gang", "FIFO gang", "Muster"):
        made, figures = play(policy, jobs, there)
        assert starts(made) == {"a": 0.0, "b": 100.0, "last": 1000.0}, policy
        assert figures.allocated == figures.useful


def test_a_gang_that_holds_what_the_other_lacks_deadlocks_one_by_one() -> None:
    # members of both alternate by priority: each gets two of the four GPUs, and needs three
    jobs = [job(name, at, 100, pods=3) for name, at in (("a", 0.0), ("b", 1.0))]
    filler = [job("f", -1, 50, gpus=2), job("g", -1, 60, gpus=2)]
    made, figures = play("pod by pod", [*jobs, *filler], [host("h0", 4)])
    assert figures.unfinished in (0, 2)
    assert starts(made)["f"] == -1.0


def test_preemption_takes_the_host_with_the_least_important_victims() -> None:
    jobs = [
        job("middle", 0, 1000, gpus=8, priority=5),
        job("low", 0, 1000, gpus=8, priority=1),
        job("high", 10, 1000, gpus=8, priority=9),
        job("end", 2000, 1),
    ]
    made, figures = play("pod by pod", jobs, hosts(2))
    assert starts(made)["high"] == 10.0
    assert figures.evictions == 1
    # low worked 10 s for nothing, and does it all again when middle has ended
    assert ends(made) == {"middle": 1000.0, "low": 2000.0, "high": 1010.0, "end": 2001.0}
    assert figures.lost == 80.0


def test_a_native_gang_that_preempts_may_land_where_the_more_important_one_was() -> None:
    jobs = [
        job("middle", 0, 1000, gpus=8, priority=5),
        job("low", 0, 1000, gpus=8, priority=1),
        job("high", 10, 1000, gpus=8, priority=9),
        job("end", 2000, 1),
    ]
    found = {play("native gang", jobs, hosts(2), seed)[1].evictions for seed in range(8)}
    # middle is evicted then, and evicts low in turn
    assert found == {1, 2}


def test_work_since_the_newest_checkpoint_is_lost_and_no_more() -> None:
    jobs = [job("low", 0, 5000, gpus=8), job("high", 4000, 100, gpus=8, priority=9)]
    made, figures = play("pod by pod", jobs, hosts(1))
    # it had saved 3600 s, so 1400 s are left
    assert ends(made) == {"low": 4100.0 + 1400.0, "high": 4100.0}
    assert figures.lost == 400.0 * 8


def test_only_preemption_frees_enough_and_the_more_important_victims_stay() -> None:
    jobs = [
        *(job(f"p{rank}", 0, 1000, gpus=2, priority=rank) for rank in range(4)),
        job("high", 10, 10, gpus=4, priority=9),
        job("end", 2000, 1),
    ]
    made, figures = play("pod by pod", jobs, hosts(1))
    assert figures.evictions == 2
    assert ends(made)["p2"] == ends(made)["p3"] == 1000.0


def test_in_fifo_the_head_holds_up_all_others() -> None:
    jobs = [job("runs", 0, 100, gpus=6), job("large", 1, 10, gpus=8), job("small", 2, 10, gpus=1)]
    made, _ = play("FIFO gang", jobs, hosts(1))
    assert starts(made) == {"runs": 0.0, "large": 100.0, "small": 110.0}
    made, _ = play("native gang", jobs, hosts(1))
    assert starts(made)["small"] == 2.0


def test_quota_is_borrowed_and_taken_back_from_the_youngest() -> None:
    jobs = [
        job("old", 0, 3000, pods=4, queue="a"),
        job("young", 1, 3000, pods=4, queue="a"),
        job("owner", 100, 50, pods=4, queue="b"),
        job("end", 3000, 1, queue="b"),
    ]
    made, figures = play("quota first", jobs, hosts(1))
    assert starts(made) == {"old": 0.0, "young": 1.0, "owner": 100.0, "end": 3000.0}
    assert ends(made)["old"] == 3000.0
    assert figures.evictions == 4
    # it goes on when the owner has ended, from its beginning
    assert ends(made)["young"] == 3150.0


def test_who_has_quota_but_no_host_is_given_up_after_half_an_hour() -> None:
    # 8 GPUs are free in two halves, the pod wants 8 on one host: quota says yes
    jobs = [
        job("x", 0, 9000, gpus=4, queue="a"),
        job("y", 0, 9000, gpus=4, queue="b"),
        job("wide", 10, 50, gpus=8, queue="b"),
        job("end", 9000, 1, queue="a"),
    ]
    there = [host("h0"), host("h1")]
    made, figures = play("quota first", jobs, there)
    assert starts(made)["wide"] == 9000.0
    assert figures.by_queue["b"].most == 8990.0
    made, _ = play("Muster", jobs, there)
    assert starts(made)["wide"] == 10.0


def test_a_pod_goes_only_to_models_that_it_takes() -> None:
    there = [host("h0", model="A"), host("h1", model="B")]
    jobs = [job(f"j{n}", n, 100, gpus=4, models=("B",)) for n in range(3)]
    for policy in ("pod by pod", "native gang", "FIFO gang", "quota first", "Muster"):
        made, _ = play(policy, jobs, there)
        assert starts(made) == {"j0": 0.0, "j1": 1.0, "j2": 100.0}, policy
