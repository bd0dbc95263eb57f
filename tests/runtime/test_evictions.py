"""Evictions are counted, and those that hit a group again after a while; many members in one go are once."""

from __future__ import annotations

from extender.core.model import Owner, Pod
from extender.core.reasons import Ground
from extender.runtime import evictions
from tests.builders import make_pod

JOB = Owner("Job", "job", "uid-of-job")


class Told:
    def __init__(self) -> None:
        self.again: list[bool] = []
        self.now = 1000.0
        self.counted = evictions.Evictions(self, lambda: self.now)

    def evicted(self, rule: str, again: bool) -> None:
        assert rule == Ground.PREEMPTED
        self.again.append(again)

    def at(self, seconds: float, *pods: Pod | None) -> list[bool]:
        """What is said of these, so long after the beginning."""
        self.now, self.again = 1000.0 + seconds, []
        for pod in pods:
            self.counted.done(Ground.PREEMPTED, pod)
        return self.again


def member(name: str) -> Pod:
    return make_pod(name, group="train")


def test_a_gang_that_goes_twice_within_an_hour_goes_again_with_each_of_its_members() -> None:
    told = Told()
    assert told.at(0, member("a"), member("b")) == [False, False]
    assert told.at(30, member("c")) == [False]  # the same go
    assert told.at(600, member("a"), member("b")) == [True, True]
    assert told.at(4300, member("a")) == [False]  # more than an hour later
    assert told.at(4400, make_pod("x", group="other")) == [False]


def test_lone_pods_are_known_by_their_owner_and_index_and_others_by_nothing() -> None:
    told = Told()
    first, second = (make_pod(f"job-{n}", owner=JOB, index=(0,)) for n in range(2))
    assert told.at(0, first, make_pod("job-x", owner=JOB, index=(1,))) == [False, False]
    assert told.at(100, second, make_pod("web", owner=JOB), None) == [True, False, False]
    assert told.at(200, make_pod("web", owner=JOB)) == [False]


def test_only_so_many_groups_are_remembered(monkeypatch) -> None:
    monkeypatch.setattr(evictions, "_REMEMBERED", 3)
    told = Told()
    told.at(0, *(make_pod(f"p{n}", group=f"g{n}") for n in range(5)))
    assert told.at(100, make_pod("p0", group="g0"), make_pod("p4", group="g4")) == [False, True]
