"""Answers to kube-scheduler out of the view, and to the gate's question before a release."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core import explain, verbs
from extender.core.ids import NodeName, PodUid
from extender.core.model import Pod
from extender.core.reasons import KIND_OF, Kind, Reason, Refusal
from extender.core.verbs import Accept, Ask, Fail, Reject
from extender.core.view import Member
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_node, make_pod, make_pods, make_world
from tests.core.engine_driver import Driver

ONE = {GPU: 1}
HERE, THERE = [NodeName("gpu-0")], [NodeName("gpu-1")]


def planned() -> tuple[Driver, Pod]:
    pod = make_pod("one", ONE)
    engine = Driver(gpu_node(), pod)
    engine.tick()
    return engine, pod


def refused(reason: Reason) -> tuple[Driver, Pod]:
    """A pod whose group waits for this reason."""
    pod = make_pod("one", {GPU: 99})
    engine = Driver(gpu_node(), pod)
    engine.tick()
    engine.entry(pod).refusal = Refusal(reason)
    return engine, pod


def test_a_planned_pod_may_go_to_its_node_only() -> None:
    engine, pod = planned()
    view = engine.engine.view
    assert verbs.filter_known(view, pod.uid, [*THERE, *HERE]) == Accept(HERE[0])
    assert verbs.filter_judged(view, pod.uid, [*THERE, *HERE]) == Accept(HERE[0])


def test_a_planned_pod_that_is_not_offered_its_node_is_looked_at_and_then_rejected() -> None:
    engine, pod = planned()
    view = engine.engine.view
    assert verbs.filter_known(view, pod.uid, THERE) == Ask()
    assert verbs.filter_judged(view, pod.uid, THERE) == Reject(explain.TEXT[Reason.HELD_ELSEWHERE])
    assert verbs.filter_known(view, pod.uid, []) == Ask()


def test_a_pod_that_nobody_knows_is_looked_at_and_then_waits_in_its_queue() -> None:
    view = Driver(gpu_node()).engine.view
    assert verbs.filter_known(view, PodUid("uid-x"), HERE) == Ask()
    assert verbs.filter_judged(view, PodUid("uid-x"), HERE) == Reject(explain.TEXT[Reason.QUEUED])


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.SCHEDULER_REFUSED])
def test_a_refused_pod_is_rejected_from_the_view_with_the_constant_text_of(reason: Reason) -> None:
    engine, pod = refused(reason)
    assert verbs.filter_known(engine.engine.view, pod.uid, HERE) == Reject(explain.TEXT[reason])
    answer = Fail if KIND_OF[reason] is Kind.FAULT else Reject
    assert verbs.filter_judged(engine.engine.view, pod.uid, HERE) == answer(explain.TEXT[reason])


def test_a_pod_that_kube_scheduler_refused_is_looked_at_with_each_new_list() -> None:
    engine, pod = refused(Reason.SCHEDULER_REFUSED)
    assert verbs.filter_known(engine.engine.view, pod.uid, HERE) == Ask()


def test_each_reason_has_one_text_without_numbers_that_is_told_apart_from_the_schedulers_own() -> None:
    assert set(explain.TEXT) == set(KIND_OF) == set(Reason)
    assert len(set(explain.TEXT.values())) == len(Reason)
    for text in explain.TEXT.values():
        assert text.isascii()
        assert not any(letter.isdigit() for letter in text)
        assert explain.is_ours(f"0/5 nodes are available: 2 Insufficient cpu, 3 {text}.")
    assert not explain.is_ours("0/5 nodes are available: 5 Insufficient cpu.")
    assert not explain.is_ours("")


def test_a_sentence_has_the_numbers() -> None:
    refusal = Refusal(Reason.RESOURCES, (("asked", 64), ("free", 63)))
    assert explain.sentence(refusal) == f"{explain.TEXT[Reason.RESOURCES]} (asked 64, free 63)"
    assert explain.sentence(Refusal(Reason.QUEUED)) == explain.TEXT[Reason.QUEUED]


# --- vetoes ------------------------------------------------------------------------------------------


def test_a_release_may_bind_what_is_planned_where_it_is_held_and_has_room() -> None:
    pods = make_pods(3, request=ONE, group="train")
    engine = Driver(gpu_node(), make_group("train", 3), *pods)
    engine.tick()
    stranger = make_pod("stranger", ONE, group="train")
    asked = [Member(pods[0].uid, HERE[0]), Member(pods[1].uid, THERE[0]), Member(stranger.uid, HERE[0])]
    assert engine.engine.view.vetoes(asked) == {
        pods[1].uid: "it is planned on another node",
        stranger.uid: "its plan was revoked",
    }


def test_a_release_is_vetoed_where_a_foreign_pod_has_taken_the_room_before_a_cycle_has_seen_it() -> None:
    engine, pod = planned()
    foreign = builders.bound(make_pod("foreign", {GPU: 8}, scheduler="default-scheduler"), "gpu-0")
    engine.see(foreign)
    assert engine.engine.view.vetoes([Member(pod.uid, HERE[0])]) == {pod.uid: "its node has no room"}


def test_a_shortage_of_what_a_member_does_not_ask_for_is_not_its_matter() -> None:
    engine, pod = planned()
    foreign = builders.bound(make_pod("foreign", {"cpu": 10**6}, scheduler="default-scheduler"), "gpu-0")
    engine.see(foreign)
    assert engine.engine.view.vetoes([Member(pod.uid, HERE[0])]) == {}


def test_columns_that_are_new_since_the_plan_do_not_disturb_a_release() -> None:
    engine, pod = planned()
    engine.see(make_node("wide", {f"example.com/r{n}": 1 for n in range(40)}))
    assert engine.engine.view.vetoes([Member(pod.uid, HERE[0])]) == {}


# --- scores ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param({"cpu": 4000}, [5, 10, 0, 0], id="fuller is better"),
        pytest.param({"cpu": 400_000}, [10, 10, 10, 0], id="no more than ten"),
        pytest.param({"cpu": 1, GPU: 1}, [10, 10, 5, 0], id="the fullest column decides, also one that a node lacks"),
        pytest.param({f"example.com/r{n}": 1 for n in range(20)}, None, id="resources that no node has"),
    ],
)
def test_scores(request_: dict[str, int], expected: list[int] | None) -> None:
    foreign = builders.bound(make_pod("foreign", {"cpu": 4000}, scheduler="default-scheduler"), "half")
    world = make_world(make_node("empty"), make_node("half"), gpu_node("gpu", 2), foreign)
    offered = [NodeName(name) for name in ("empty", "half", "gpu", "unknown")]
    found = verbs.scores(world, make_pod("one", request_), offered)
    assert all(type(score) is int and 0 <= score <= verbs.MAX_SCORE for score in found)
    assert len(found) == len(offered)
    if expected is not None:
        assert found == expected


def test_scores_of_no_nodes_are_none() -> None:
    assert verbs.scores(make_world(make_node()), replace(make_pod("one")), []) == []
