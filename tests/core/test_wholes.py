"""Evictions under way, and gangs that go as wholes: who counts as leaving, and who is asked again."""

from __future__ import annotations

from dataclasses import replace

from extender.core import messages
from extender.core.messages import Evict
from extender.core.model import Pod
from extender.core.reasons import Ground
from extender.core.wholes import AGAIN_SECONDS, TRIES, Wholes, pause
from extender.core.world import World
from tests import builders
from tests.builders import make_group, make_pods

TRAIN = builders.group_key("train")
DETAIL = (("why", "test"),)


def stage(minimum: int = 3) -> tuple[World, Wholes, list[Pod]]:
    """A gang of three that runs."""
    pods = make_pods(3, "train", group="train", node="gpu-0")
    world = builders.make_world(make_group("train", minimum), *pods)
    return world, Wholes(world, lambda _: False), pods


def names(evictions: list[Evict]) -> list[str]:
    return [eviction.name for eviction in evictions]


def test_an_eviction_is_under_way_until_the_pod_leaves_or_it_is_refused() -> None:
    world, wholes, pods = stage()
    asked = wholes.ask(pods, Ground.STALE, DETAIL)
    assert (names(asked), asked[0].ground, asked[0].detail) == ([p.name for p in pods], Ground.STALE, DETAIL)
    assert wholes.asked == {pod.uid for pod in pods}
    assert wholes.refused(asked[0], 0.0)
    assert not wholes.refused(asked[0], 0.0), "it was refused already"
    world.apply(messages.PodSeen(replace(pods[1], terminating=True)))
    wholes.look(0.0)
    assert wholes.asked == {pods[2].uid}
    assert wholes.evicting(TRAIN)


def test_a_gang_of_which_some_stay_does_not_go_as_a_whole() -> None:
    _, wholes, pods = stage(1)
    wholes.ask(pods[:2], Ground.OVERCOMMIT, DETAIL)
    assert not wholes.going(TRAIN)
    wholes.ask(pods[2:], Ground.STALE, DETAIL)
    assert wholes.going(TRAIN), "now nobody stays"


def test_who_is_refused_is_asked_again_when_the_others_have_gone_and_less_often_each_time() -> None:
    world, wholes, pods = stage()
    [first, *others] = wholes.ask(pods, Ground.STALE, DETAIL)
    wholes.refused(first, 0.0)
    assert wholes.look(100.0) == [], "others are still leaving"
    for other in others:
        world.apply(messages.PodGone(other.uid))
    now, asked = 100.0, 1
    while wholes.going(TRAIN):
        again = wholes.look(now)
        if again:
            assert (names(again), again[0].ground, again[0].detail) == ([first.name], Ground.STALE, DETAIL)
            asked += 1
            wholes.refused(again[0], now)
            assert not wholes.look(now + pause(asked) - 1)
            now += pause(asked)
        else:
            now += 1
    assert asked == TRIES
    assert [pause(n) for n in range(1, 4)] == [AGAIN_SECONDS, 2 * AGAIN_SECONDS, 4 * AGAIN_SECONDS]


def test_nobody_is_asked_again_while_a_member_may_be_bound_at_any_moment() -> None:
    world, _, pods = stage()
    wholes = Wholes(world, lambda key: key == TRAIN)
    for eviction in wholes.ask(pods, Ground.STALE, DETAIL):
        wholes.refused(eviction, 0.0)
    world.apply(messages.PodGone(pods[0].uid))
    assert wholes.look(1000.0) == []
    assert wholes.going(TRAIN)


def test_a_lone_pod_is_asked_once() -> None:
    pod = replace(make_pods(1, node="gpu-0")[0])
    world = builders.make_world(pod)
    wholes = Wholes(world, lambda _: False)
    [eviction] = wholes.ask([pod], Ground.OVERCOMMIT, DETAIL)
    assert not wholes.going(pod.group)
    wholes.refused(eviction, 0.0)
    assert wholes.look(1000.0) == []
