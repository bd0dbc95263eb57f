"""What happens to plans when their nodes change under them, and when kube-scheduler's own checks refuse them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.core import explain, messages, verbs
from extender.core.model import MIG_STATE_LABEL, Node, Pod, Taint
from extender.core.reasons import Reason
from extender.core.records import OFFERED_SECONDS, PUT_ASIDE_SECONDS, REFUSED_RETRY_SECONDS
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_pod, make_pods
from tests.core import engine_driver
from tests.core.engine_driver import Driver, gated, ungates, wakes, withdraw

ONE = {GPU: 1}
TRAIN = builders.group_key("train")
ALL = ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
CLOSE = messages.SetOpenQueues(frozenset())
OWN_CHECKS = "0/4 nodes are available: 4 node(s) had volume node affinity conflict."


def gang(count: int = 3) -> list[Pod]:
    """Members of `train`, one node each."""
    return make_pods(count, "worker", request={GPU: 8}, group="train")


def planned(count: int = 3, nodes: int = 4) -> tuple[Driver, list[Pod]]:
    """A gang of three that is planned, one whole node each, and a node to spare."""
    pods = gang(count)
    engine = Driver(*(gpu_node(name) for name in ALL[:nodes]), make_group("train", count), *pods)
    engine.tick()
    assert engine.reserved == count
    return engine, pods


def filled(node: Node) -> Pod:
    return builders.bound(make_pod("foreign", ONE, scheduler="default-scheduler"), str(node.name))


LOSSES: list[object] = [
    pytest.param(lambda e, n: e.gone(n), id="deleted"),
    pytest.param(lambda e, n: e.see(replace(n, unschedulable=True)), id="cordoned"),
    pytest.param(lambda e, n: e.see(replace(n, ready=False)), id="not ready"),
    pytest.param(lambda e, n: e.see(replace(n, taints=(Taint("bad", "", "NoSchedule"),))), id="tainted"),
    pytest.param(lambda e, n: e.see(replace(n, labels={MIG_STATE_LABEL: "pending"})), id="cut anew"),
    pytest.param(lambda e, n: e.see(gpu_node(str(n.name), 7)), id="shrunk"),
    pytest.param(lambda e, n: e.see(filled(n)), id="filled by a foreign pod"),
]


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("held", [False, True], ids=["", "while held"])
def test_a_planned_node_is(lose: Callable[[Driver, Node], object], held: bool) -> None:
    engine, pods = planned()
    before = engine.nodes(pods)
    if held:
        engine.hold(*pods)
    effects = lose(engine, gpu_node(before[0] or ""))
    effects += engine.tick()  # type: ignore[operator]
    spare = ({*ALL} - {*before}).pop()
    assert engine.nodes(pods) == [spare, *before[1:]]
    assert effects == ([withdraw(pods[0])] if held else [])
    assert engine_driver.overfull(engine.engine) == []


@pytest.mark.parametrize("lose", LOSSES)
def test_with_no_other_node_everything_is_given_up_when_one_is(lose: Callable[[Driver, Node], object]) -> None:
    engine, pods = planned(nodes=3)
    engine.hold(*pods)
    held_elsewhere = pods[1:]
    effects = lose(engine, gpu_node(engine.node(pods[0]) or ""))
    effects += engine.tick()  # type: ignore[operator]
    assert effects == [withdraw(pods[0]), withdraw(*held_elsewhere), CLOSE]
    engine.held({})
    assert engine.reserved == 0
    assert engine.reason(TRAIN) in (Reason.RESOURCES, Reason.FRAGMENTED, Reason.NODE_UNAVAILABLE)


def test_a_node_that_grows_columns_does_not_confuse_the_room_of_plans() -> None:
    engine, pods = planned()
    node = engine.node(pods[0]) or ""
    many = {f"example.com/r{n}": 1 for n in range(20)}
    engine.see(builders.make_node(node, {"cpu": 96_000, "memory": 1024 * builders.GI, GPU: 7, **many}))
    engine.tick()
    assert engine.reserved == 3
    assert engine.node(pods[0]) != node


def test_a_reservation_of_a_pod_that_was_bound_elsewhere_is_free_room() -> None:
    engine, pods = planned(count=1, nodes=2)
    waiting = make_pod("waiting", {GPU: 8})
    theirs = engine.node(pods[0]) or ""
    other = ({"gpu-0", "gpu-1"} - {theirs}).pop()
    engine.see(builders.bound(make_pod("foreign", ONE, scheduler="default-scheduler"), other), waiting)
    engine.tick()
    assert engine.reason(waiting) is Reason.RESOURCES
    engine.see(builders.bound(pods[0], other))
    engine.tick()
    assert engine.node(waiting) == theirs


# --- filter ------------------------------------------------------------------------------------------


def test_a_planned_node_that_is_not_offered_is_changed_for_an_offered_one_twice() -> None:
    engine, pods = planned()
    pod, kept = pods[0], engine.nodes(pods[1:])
    first = engine.node(pod)
    offered = [name for name in ALL if name not in (first, *kept)]
    assert engine.call(pod, offered) == []
    assert engine.nodes(pods) == [*offered, *kept]
    engine.see(gpu_node("gpu-4"))
    assert engine.call(pod, ["gpu-4"]) == []
    assert engine.nodes(pods) == ["gpu-4", *kept]
    assert engine.reserved == 3


def test_a_member_takes_a_siblings_node_when_that_is_all_it_is_offered() -> None:
    engine, pods = planned()
    wanted = engine.node(pods[1]) or ""
    assert engine.call(pods[0], [wanted]) == []
    assert engine.node(pods[0]) == wanted
    assert len(set(engine.nodes(pods))) == 3
    assert engine.reserved == 3


def test_a_plan_that_no_offered_node_can_carry_is_revoked_and_tried_again() -> None:
    engine, pods = planned()
    taken = filled(gpu_node("gpu-9"))
    engine.see(gpu_node("gpu-9"), taken)
    engine.tick()
    assert engine.call(pods[0], ["gpu-9"]) == []
    assert (engine.reserved, engine.reason(TRAIN)) == (0, Reason.SCHEDULER_REFUSED)
    assert engine.entry(TRAIN).rejected == {pods[0].uid}
    assert verbs.filter_judged(engine.engine.view, pods[0].uid, ["gpu-9"]) == verbs.Reject(
        explain.TEXT[Reason.SCHEDULER_REFUSED]
    )
    (statement,) = engine.tick(REFUSED_RETRY_SECONDS / 2)
    assert isinstance(statement, messages.StateGroup)
    assert engine.reserved == 0
    engine.gone(taken)
    effects = [e for e in engine.tick(REFUSED_RETRY_SECONDS / 2) if not isinstance(e, messages.StateGroup)]
    assert effects == wakes(pods[:1], engine.now)
    assert engine.node(pods[0]) == "gpu-9"
    assert engine.reserved == 3


def test_held_siblings_of_a_refused_member_are_withdrawn() -> None:
    engine, pods = planned()
    engine.hold(*pods[1:])
    engine.see(gpu_node("gpu-9"), filled(gpu_node("gpu-9")))
    engine.tick()
    assert engine.call(pods[0], ["gpu-9"]) == [withdraw(*pods[1:])]
    assert engine.reserved == 2
    engine.held({})
    assert engine.reserved == 0


def test_an_offered_list_is_believed_for_some_seconds_only() -> None:
    engine, pods = planned(count=1, nodes=2)
    engine.see(gpu_node("gpu-9"), filled(gpu_node("gpu-9")))
    engine.tick()
    engine.call(pods[0], ["gpu-9"])
    engine.ticks(OFFERED_SECONDS - 1)
    assert engine.reserved == 0
    engine.ticks(1)
    assert engine.node(pods[0]) in ("gpu-0", "gpu-1")


def test_a_refused_member_that_is_called_again_is_planned_at_once_on_what_it_is_offered() -> None:
    engine, pods = planned()
    engine.see(gpu_node("gpu-9"), filled(gpu_node("gpu-9")))
    engine.tick()
    engine.call(pods[0], ["gpu-9"])
    assert engine.reserved == 0
    engine.call(pods[0], ALL)
    assert engine.reserved == 3
    assert engine.node(pods[0]) in ALL


def test_the_pass_for_an_older_nomination_alone_changes_nothing() -> None:
    pod = replace(make_pod("one", {GPU: 8}), nominated=None)
    engine = Driver(gpu_node("gpu-0"), gpu_node("gpu-1"), pod)
    engine.tick()
    where = engine.node(pod) or ""
    other = ({"gpu-0", "gpu-1"} - {where}).pop()
    nominated = replace(pod, nominated=other)  # as the call has it; our watch may lag
    assert engine.call(nominated, [other]) == []
    assert engine.node(pod) == where
    assert engine.entry(pod).rejected == set()
    # the same call twice: the full list is that one node too
    engine.call(nominated, [other])
    assert engine.node(pod) == other


def test_a_call_ahead_of_the_watch_is_judged_with_the_pod_that_it_brings() -> None:
    engine = Driver(gpu_node())
    pod = make_pod("early", ONE)
    assert engine.call(pod, ["gpu-0"]) == []
    assert engine.node(pod) == "gpu-0"
    assert engine.see(pod) == []
    assert engine.reserved == 1


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(lambda pod: messages.FilterCalled(pod, ("gpu-0",)), id="a filter call"),  # type: ignore[arg-type]
        pytest.param(lambda pod: messages.FilterRejected(pod.uid), id="a rejection"),
        pytest.param(lambda pod: messages.PodSeen(pod), id="an older state"),
        pytest.param(lambda pod: messages.PodGone(pod.uid), id="its deletion once more"),
        pytest.param(lambda pod: messages.EffectDone(*ungates([pod])), id="an effect's success"),
        pytest.param(lambda pod: messages.EffectDone(*ungates([pod]), "late"), id="an effect's failure"),
        pytest.param(
            lambda pod: messages.EffectDone(engine_driver.nominate(pod, None), "late"), id="a failed clearing"
        ),
    ],
)
def test_nothing_comes_of_late_news_about_a_pod_that_is_gone(event: Callable[[Pod], messages.EngineEvent]) -> None:
    pod = make_pod("one", ONE)
    engine = Driver(gpu_node(), pod)
    engine.tick()
    engine.gone(pod)
    engine.tick()
    assert engine.send(event(pod)) == []
    assert engine.ticks(5) == []
    assert (engine.engine.world.pods, engine.engine.entries, engine.reserved) == ({}, {}, 0)


def test_a_lone_pod_that_runs_is_not_planned_by_a_late_call() -> None:
    pod = make_pod("one", ONE)
    engine = Driver(gpu_node(), builders.bound(pod, "gpu-0"))
    engine.tick()
    assert engine.call(pod, ["gpu-0"]) == []
    assert engine.reserved == 0


# --- rejected pods are woken once --------------------------------------------------------------------


def test_rejected_members_are_woken_once_when_their_group_is_admitted() -> None:
    foreign = builders.bound(make_pod("foreign", {GPU: 8}, scheduler="default-scheduler"), "gpu-0")
    pods = make_pods(4, request={GPU: 2}, group="train")
    engine = Driver(gpu_node(), foreign, make_group("train", 4), *pods)
    for pod in pods[:2]:
        engine.call(pod, ["gpu-0"])
    engine.send(messages.FilterRejected(pods[2].uid))
    text = f"0/1 nodes are available: 1 {explain.TEXT[Reason.RESOURCES]}."
    engine.see(*(replace(pod, rejection=text) for pod in pods[:2]))
    engine.gone(foreign)
    assert engine.tick() == wakes(pods[:3], engine.now)
    engine.see(replace(pods[2], rejection=text))  # shown late
    assert engine.ticks(10) == [messages.SetOpenQueues(engine_driver.OPEN)]


def test_a_pod_that_was_rejected_while_it_was_being_planned_is_woken() -> None:
    pod = make_pod("one", ONE)
    engine = Driver(gpu_node(), pod)
    engine.tick()
    assert engine.send(messages.FilterRejected(pod.uid)) == wakes([pod], engine.now)
    assert engine.ticks(5) == []


def test_a_planned_pod_whose_rejection_with_our_words_shows_up_late_is_woken_once() -> None:
    pod = make_pod("one", ONE)
    engine = Driver(gpu_node(), pod)
    engine.tick()
    rejected = replace(pod, rejection=f"0/1 nodes are available: 1 {explain.TEXT[Reason.QUEUED]}.")
    assert engine.see(rejected) == wakes([pod], engine.now)
    assert engine.see(replace(rejected, rejection=rejected.rejection + " ")) == []


def test_a_gate_that_our_watch_still_shows_does_not_keep_a_rejected_pod_from_being_woken() -> None:
    pod = gated([make_pod("one", {GPU: 8})])[0]
    foreign = builders.bound(make_pod("foreign", ONE, scheduler="default-scheduler"), "gpu-0")
    engine = Driver(gpu_node(), foreign, pod)
    engine.tick()
    engine.send(messages.FilterRejected(pod.uid))  # so its gate was removed by somebody
    engine.gone(foreign)
    assert engine.tick() == wakes([pod], engine.now)


# --- kube-scheduler's own rejection ------------------------------------------------------------------


def test_a_rejection_by_kube_schedulers_own_checks_revokes_the_plan_with_its_words() -> None:
    engine, pods = planned()
    engine.hold(*pods[1:])
    assert engine.see(replace(pods[0], rejection=OWN_CHECKS)) == [withdraw(*pods[1:])]
    assert engine.reason(TRAIN) is Reason.SCHEDULER_REFUSED
    assert engine.detail(TRAIN) == {"members": 1, "message": OWN_CHECKS}
    engine.held({})
    assert engine.reserved == 0


def test_room_is_not_blocked_for_ever_by_a_pod_that_kube_scheduler_does_not_take_up_again() -> None:
    engine, pods = planned(count=1, nodes=1)
    other = make_pod("other", {GPU: 8}, created=9.0)
    engine.see(other, replace(pods[0], rejection=OWN_CHECKS))
    engine.tick()
    assert engine.node(other) == "gpu-0"
    engine.gone(other)
    # that no node would do is believed until kube-scheduler offers one
    engine.ticks(OFFERED_SECONDS + 4 * REFUSED_RETRY_SECONDS)
    assert engine.reserved == 0
    engine.call(pods[0], ["gpu-0"])
    # planned again, and rejected once more in the same words: nothing is written, so nothing is seen
    assert engine.node(pods[0]) == "gpu-0"
    last = make_pod("last", {GPU: 8}, created=10.0)
    engine.see(last)
    engine.tick()
    assert engine.reason(last) is Reason.RESOURCES
    engine.ticks(PUT_ASIDE_SECONDS + 1)
    assert engine.nodes([pods[0], last]) == [None, "gpu-0"]


def test_a_new_node_lets_a_refused_group_try_again_at_once() -> None:
    engine, pods = planned(count=2, nodes=2)
    engine.see(replace(pods[0], rejection=OWN_CHECKS))
    engine.tick()
    assert engine.reserved == 0
    engine.see(gpu_node("gpu-2"))
    engine.tick()
    assert engine.reserved == 2


def test_a_gang_refused_twice_is_tried_when_it_is_time_and_not_for_each_call() -> None:
    """Members that keep each other away are accepted one by one, and refused when all of them are tried."""
    engine, pods = planned(count=2, nodes=2)
    for number in range(4):
        engine.see(replace(pods[0], rejection=f"{OWN_CHECKS} {number}"))
        engine.tick()
        assert engine.reserved == 0
        engine.call(pods[0], ["gpu-0", "gpu-1"])
        if number > 0:
            assert engine.reserved == 0
            assert engine.reason(TRAIN) is Reason.SCHEDULER_REFUSED
            engine.ticks(REFUSED_RETRY_SECONDS * 2**number)
        assert engine.reserved == 2


def test_room_that_only_the_offered_lists_forbid_is_not_called_insufficient() -> None:
    engine, pods = planned(count=2, nodes=2)
    engine.see(gpu_node("gpu-9"), filled(gpu_node("gpu-9")))
    engine.tick()
    engine.call(pods[0], ["gpu-9"])
    engine.ticks(2 * REFUSED_RETRY_SECONDS)
    assert engine.reason(TRAIN) is Reason.SCHEDULER_REFUSED
    assert engine.reserved == 0


def test_retries_of_a_refused_plan_become_rare() -> None:
    engine, pods = planned(count=1, nodes=1)
    engine.see(replace(pods[0], rejection=OWN_CHECKS))
    engine.ticks(3600, step=1.0)
    assert len([e for e in engine.effects if isinstance(e, messages.Wake)]) < 40


def test_offered_lists_are_kept_of_some_members_only() -> None:
    engine, pods = planned(count=1, nodes=1)
    more = make_pods(200, "more", request={GPU: 9}, group="train")
    engine.see(*more, replace(pods[0], rejection=OWN_CHECKS))
    for pod in more:
        engine.call(pod, ["gpu-0"])
    assert len(engine.entry(TRAIN).offered) <= 64


def test_a_woken_pod_that_is_turned_away_once_more_is_woken_once_more() -> None:
    foreign = builders.bound(make_pod("foreign", ONE, scheduler="default-scheduler"), "gpu-0")
    pod = make_pod("one", {GPU: 8})
    engine = Driver(gpu_node("gpu-0"), foreign, pod)
    engine.call(pod, ["gpu-0"])
    engine.see(gpu_node("gpu-1"))
    assert wakes([pod], engine.now)[0] in engine.tick()
    nominated = replace(pod, nominated=gpu_node("gpu-0").name)
    engine.call(nominated, ["gpu-0"])  # taken for the pass of its nomination, but no full list followed
    rejected = replace(pod, rejection=f"0/2 nodes are available: 2 {explain.TEXT[Reason.HELD_ELSEWHERE]}.")
    assert engine.see(rejected) == wakes([pod], engine.now)
