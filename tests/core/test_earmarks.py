"""What is kept for the one for whom others went: until it starts, gives up, or asks for something else."""

from __future__ import annotations

from dataclasses import replace

from extender.core import messages
from extender.core.ids import NodeName, QueueName
from extender.core.model import Hold
from extender.core.preemption import STUCK_SECONDS, Decision
from extender.core.reasons import Reason, Refusal
from tests import builders
from tests.builders import GPU
from tests.core.engine_driver import Driver
from tests.core.victim_cases import Played, Work, queue, waits

LOW = Work("low", "q", ("n",) * 4)
HIGH = waits("high", "q", 2, priority=100)


def kept(played: Played) -> int:
    """How many places are kept."""
    return len(list(played.engine.engine._plans.earmarks))


def late(played: Played, name: str = "late", priority: int = 0, **fields: object) -> None:
    """A pod alone comes while victims leave."""
    pod = builders.make_pod(name, {GPU: 1}, queue=QueueName("q"), priority=priority, created=played.engine.now)
    played.pods[pod.uid] = replace(pod, **fields)
    played.engine.see(played.pods[pod.uid])
    played.tick()


def test_nobody_else_takes_what_is_freed_nor_what_was_free_beside_it() -> None:
    played = Played({"n": 5}, [queue("q")], LOW, HIGH)
    assert (played.evicted, kept(played)) == ({"low": 1}, 2)
    late(played)
    assert played.engine.reason(next(p for p in played.pods.values() if p.name == "late")) is Reason.RESOURCES
    played.leave()
    played.start()
    assert (played.bound("high"), played.bound("low"), kept(played)) == (2, 3, 0)


def test_victims_made_anew_wait_behind_the_one_for_whom_they_went() -> None:
    """The borrower's share is smaller then, so its queue has the first turn."""
    works = [Work("low", "p", ("n",) * 4), waits("high", "q", 2)]
    played = Played({"n": 4}, [queue("q", 2), queue("p")], *works)
    for _ in range(3):
        played.leave()
    assert played.engine.nodes([pod for pod in played.pods.values() if pod.group.name == "high"]) == ["n", "n"]
    played.start()
    assert (played.bound("high"), played.bound("low")) == (2, 2)


def test_a_second_one_is_not_served_with_the_same_room() -> None:
    played = Played({"n": 4}, [queue("q")], LOW, HIGH, waits("next", "q", 2, priority=100))
    assert (played.evicted, kept(played)) == ({"low": 4}, 4)
    played.leave()
    played.start()
    assert (played.bound("high"), played.bound("next")) == (2, 2)


def test_who_leaves_anyhow_makes_room_enough() -> None:
    played = Played({"n": 4}, [queue("q")], LOW)
    drained = [pod for pod in played.pods.values()][:2]
    for pod in drained:
        played.pods[pod.uid] = replace(pod, terminating=True)
        played.engine.see(played.pods[pod.uid])
    high = waits("high", "q", 2, priority=100)
    played.engine.see(builders.make_group("high", 2))
    for pod in high.pods():
        played.pods[pod.uid] = pod
        played.engine.see(pod)
    played.tick()
    assert (played.evicted, played.reason("high"), kept(played)) == ({}, Reason.VICTIMS, 2)
    played.tick(STUCK_SECONDS + 1)  # they do not leave
    assert played.evicted == {"low": 2}


def test_the_room_is_open_again_when_the_one_is_gone() -> None:
    played = Played({"n": 4}, [queue("q")], LOW, HIGH)
    played.engine.gone(*(pod for pod in played.pods.values() if pod.group.name == "high"))
    for uid in [uid for uid, pod in played.pods.items() if pod.group.name == "high"]:
        del played.pods[uid]
    played.tick()
    assert kept(played) == 0
    played.leave()
    played.start()
    assert played.bound("low") == 4


def test_who_asks_for_more_meanwhile_is_planned_anew() -> None:
    played = Played({"n": 4}, [queue("q")], LOW, HIGH)
    played.engine.see(builders.make_group("high", 3))
    pod = builders.make_pod("high-2", {GPU: 1}, group="high", queue=QueueName("q"), priority=100)
    played.pods[pod.uid] = pod
    played.engine.see(pod)
    played.tick()
    assert (played.evicted, kept(played)) == ({"low": 3}, 3)


def test_a_node_that_goes_away_takes_the_earmark_with_it() -> None:
    played = Played({"n": 4, "m": 4}, [queue("q")], LOW, Work("mid", "q", ("m",) * 4, priority=1), HIGH)
    assert played.evicted == {"low": 2}
    played.engine.gone(builders.gpu_node("n", 4))
    played.tick()
    assert (played.evicted, kept(played)) == ({"low": 2, "mid": 2}, 2)


def test_a_node_that_takes_no_pods_any_more_does_too() -> None:
    played = Played({"n": 4, "m": 4}, [queue("q")], LOW, Work("mid", "q", ("m",) * 4, priority=1), HIGH)
    played.engine.see(replace(builders.gpu_node("n", 4), unschedulable=True))
    played.tick()
    assert (played.evicted, kept(played)) == ({"low": 2, "mid": 2}, 2)


def test_after_a_refused_eviction_nobody_more_goes_until_it_is_planned_again() -> None:
    works = [Work("a", "q", ("n",) * 2), Work("b", "q", ("m",) * 2), HIGH]
    pods = [pod for work in works for pod in work.pods()]
    nodes = [builders.gpu_node(name, 2) for name in "nm"]
    groups = [builders.make_group(work.name, work.least) for work in works]
    engine = Driver(*nodes, queue("q"), *groups, *pods)
    stays, goes = evicts(engine.tick())
    engine.done(stays, error="the disruption budget does not allow it")
    engine.done(goes)
    engine.see(*(replace(pod, terminating=True) for pod in pods if pod.uid == goes.uid))
    assert evicts(engine.ticks(9.0)) == []
    assert engine.reason(builders.group_key("high")) is Reason.NO_VICTIMS
    [again] = evicts(engine.ticks(4.0))
    assert again.uid not in (stays.uid, goes.uid), "others are asked first"


def evicts(effects: list[messages.Effect]) -> list[messages.Evict]:
    """The evictions among these."""
    return [effect for effect in effects if isinstance(effect, messages.Evict)]


def test_real_pods_never_exceed_a_capability_while_victims_leave() -> None:
    capped = queue("q", capability=((GPU, 4),))
    played = Played({"n": 8}, [capped], LOW, HIGH)
    assert played.evicted == {"low": 2}
    assert played.engine.nodes([pod for pod in played.pods.values() if pod.group.name == "high"]) == [None, None]
    assert played.engine.engine.usage.of(QueueName("q"))[GPU] == 6  # four that run or leave, and two that are kept
    played.leave()
    assert played.engine.engine.usage.of(QueueName("q"))[GPU] == 4


def test_a_call_that_is_held_on_a_node_with_an_earmark_is_not_adopted() -> None:
    played = Played({"n": 5}, [queue("q")], LOW, HIGH)
    pod = builders.make_pod("g-0", {GPU: 1}, group="g", queue=QueueName("q"), created=played.engine.now)
    played.engine.see(builders.make_group("g", 1), pod)
    effects = played.engine.send(messages.HoldsSeen((Hold(pod.uid, NodeName("n"), pod.group),)))
    assert effects == [messages.Withdraw((pod.uid,))]


# --- the dry run ------------------------------------------------------------------------------------


def test_a_dry_run_says_who_would_go_and_changes_nothing() -> None:
    played = Played({"n": 4}, [queue("q")], LOW, HIGH)
    engine, key = played.engine.engine, builders.group_key("high")
    assert engine.would_evict(engine.entries[builders.group_key("low")], played.engine.now) is None
    before = len(played.evictions), kept(played)
    decision = engine.would_evict(engine.entries[key], played.engine.now)
    assert isinstance(decision, Decision)
    assert decision.losses == ()  # those that leave already are enough
    assert [node for _, node in decision.plan.places] == ["n", "n"]
    played.tick()
    assert (len(played.evictions), kept(played)) == before


def test_a_dry_run_says_why_nobody_would() -> None:
    played = Played({"n": 4}, [queue("q", 2), queue("p", 4)], Work("low", "p", ("n",) * 4), waits("next", "q", 2))
    engine = played.engine.engine
    found = engine.would_evict(engine.entries[builders.group_key("next")], played.engine.now)
    assert found == Refusal(Reason.NO_VICTIMS, (("queue", "p"),))
