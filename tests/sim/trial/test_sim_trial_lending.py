"""Room is not lent to who loses it at once, as far as that can be known (simulated)."""

from __future__ import annotations

import pytest

from extender.sim.trial import policies
from extender.sim.trial.replay import Replay
from tests.perf.bench_evictions import Evictions, jobs_of
from tests.sim.trial.plays import hosts, job, replay, starts


def watched(made: Replay) -> Evictions:
    made.watcher = seen = Evictions()
    made.run()
    return seen


def test_what_another_queue_takes_back_at_once_is_not_lent() -> None:
    """When "first" ends, "owned" may take back what "long" borrows: so that one is not lent it. "large" stands before
    both in what its queue may borrow."""
    jobs = [
        job("first", 400, 221, pods=3, gpus=5, queue="b", priority=10),
        job("long", 411, 818, pods=5, gpus=4, queue="a"),
        job("large", 493, 460, pods=5, gpus=3, queue="b", priority=10),
        job("owned", 497, 514, pods=3, gpus=4, queue="b", priority=10),
    ]
    made = replay(policies.OURS, jobs, hosts(3))
    seen = watched(made)
    assert starts(made) == {"first": 400, "large": 621, "owned": 1081, "long": 1595}
    assert seen.stops == {}


def test_two_gangs_that_fit_only_into_each_others_room_do_not_take_it_in_turns() -> None:
    """Each queue has a gang of high priority that is all of what it deserves, and a small one that borrows."""
    jobs = [
        job("a-high", 0, 5000, pods=4, gpus=3, queue="a", priority=5),
        job("a-low", 1, 5000, pods=2, gpus=1, queue="a"),
        job("b-first", 2, 5000, pods=5, gpus=2, queue="b", priority=5),
        job("b-high", 100, 5000, pods=3, gpus=4, queue="b", priority=10),
        job("b-low", 101, 5000, pods=1, gpus=4, queue="b"),
    ]
    made = replay(policies.OURS, jobs, hosts(3))
    seen = watched(made)
    assert max(seen.stops.values(), default=0) <= 1, seen.story


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_nobody_is_stopped_again_and_again(seed: int) -> None:
    seen = watched(replay(policies.OURS, jobs_of(seed, 20), hosts(3)))
    assert max(seen.stops.values(), default=0) <= 4, seen.story
