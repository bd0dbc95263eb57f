"""Releases that got stuck half way: waited for, completed, rolled back, recognised after a restart."""

from __future__ import annotations

from dataclasses import replace

from extender.core import gate_messages as gm
from extender.core import messages
from extender.core.gate_messages import Why
from extender.core.model import Owner, Pod
from extender.core.reasons import Ground
from tests.builders import bound, gpu_node, group_key, make_group, make_pod, make_pods
from tests.core.gate_driver import START, Driver, answers, binds

KEY = group_key()
JOB = Owner("Job", "train", "uid-job")


def half_bound(owner: Owner | None = JOB) -> tuple[Driver, list[Pod]]:
    """A gang of 3 of which one is bound and two bindings have failed."""
    pods = make_pods(3, group=KEY, owner=owner)
    group = make_group(min_member=3)
    driver = Driver(gpu_node(), group, *pods)
    driver.calls(pods)
    driver.read(group)
    driver.let_go(KEY, pods)
    driver.done(pods[0])
    assert driver.done(pods[1], "refused") == answers("refused", 2)
    assert driver.done(pods[2], "refused") == answers("refused", 3)
    return driver, pods


def evict(pod: Pod) -> messages.Evict:
    group = ("group", "muster/team/train")
    return messages.Evict(pod.uid, pod.namespace, pod.name, Ground.PARTIAL_RELEASE, (group,))


def test_a_stuck_release_is_rolled_back_after_thirty_seconds():
    driver, pods = half_bound()
    assert driver.wait(29.9) == []
    assert driver.wait(0.1) == [evict(pods[0])]


def test_a_stuck_release_is_completed_by_what_is_held_then():
    driver, pods = half_bound()
    assert driver.call(pods[1]) == []
    assert driver.call(pods[2]) == [gm.ReadGroup(KEY, 3)]
    driver.read(make_group(min_member=3), ask=3)
    assert driver.let_go(KEY, pods[1:], ask=4) == binds(pods[1:])
    driver.done(pods[1])
    driver.done(pods[2])
    assert driver.wait(60) == []


def test_a_bind_whose_reply_was_lost_for_good_but_which_the_watch_shows_completes_the_release():
    driver, pods = half_bound()
    driver.see(bound(pods[1], "gpu-0"), bound(pods[2], "gpu-0"))
    assert driver.wait(60) == []


def test_pods_without_a_controller_are_never_evicted_and_get_their_condition_once():
    driver, pods = half_bound(owner=None)
    assert driver.wait(30) == [gm.StateCondition(pods[0].uid, "team", "pod-0", gm.PARTIAL_GROUP, gm.PARTIAL_TEXT)]
    assert driver.wait(60) == []


def test_an_eviction_that_is_refused_is_tried_again_after_five_seconds():
    driver, pods = half_bound()
    driver.wait(30)
    assert driver.send(gm.EvictDone(pods[0].uid, "budget")) == []
    assert driver.wait(4.9) == []
    assert driver.wait(0.1) == [evict(pods[0])]
    driver.send(gm.EvictDone(pods[0].uid))
    driver.gone(pods[0])
    assert driver.wait(60) == []


def test_members_that_are_being_evicted_do_not_count_for_those_that_are_held():
    driver, pods = half_bound()
    driver.call(pods[1])
    driver.wait(30)
    assert driver.call(pods[2]) == []
    driver.gone(pods[0])
    again = make_pod("pod-0", group=KEY, owner=JOB, uid="uid-again")
    driver.see(again)
    assert driver.call(again) == [gm.ReadGroup(KEY, 3)]


def test_a_release_of_which_nothing_was_bound_leaves_nothing_to_roll_back():
    pods = make_pods(2, group=KEY, owner=JOB)
    group = make_group(min_member=2)
    driver = Driver(gpu_node(), group, *pods)
    driver.calls(pods)
    driver.read(group)
    driver.let_go(KEY, pods)
    driver.done(pods[0], "refused")
    driver.done(pods[1], "refused")
    assert driver.wait(60) == []


def test_a_gang_that_was_hurt_while_running_is_not_rolled_back_when_its_replacement_fails():
    pods = make_pods(3, group=KEY, owner=JOB)
    group = make_group(min_member=3)
    old = [bound(pod, "gpu-0", at=START - 1000) for pod in pods[:2]]
    driver = Driver(gpu_node(), group, *old, pods[2])
    driver.call(pods[2])
    driver.read(group)
    driver.let_go(KEY, pods[2:])
    driver.done(pods[2], "refused")
    assert driver.wait(60) == []


def test_a_failed_late_member_does_not_hurt_a_gang_that_has_its_minimum():
    pods = make_pods(3, group=KEY, owner=JOB)
    there = [bound(pod, "gpu-0") for pod in pods[:2]]
    driver = Driver(gpu_node(), make_group(min_member=2), *there, pods[2])
    driver.call(pods[2])
    driver.done(pods[2], "refused")
    assert driver.wait(60) == []


def test_a_replica_that_has_ceased_to_act_rolls_nothing_back():
    driver, pods = half_bound()
    driver.send(messages.ActivityChanged(False))
    assert driver.wait(60) == []
    assert driver.send(messages.ActivityChanged(True)) == []
    assert driver.wait(0) == [evict(pods[0])]


def test_nothing_is_evicted_while_the_last_member_is_being_bound():
    driver, pods = half_bound()
    driver.calls(pods[1:])
    driver.read(make_group(min_member=3), ask=3)
    driver.let_go(KEY, pods[1:], ask=4)
    assert driver.wait(31) == []
    driver.done(pods[1])
    assert driver.done(pods[2], "refused") == answers("refused", 5)
    assert driver.wait(0) == [evict(pods[0]), evict(pods[1])]


# --- after a restart -------------------------------------------------------------------------------


def restarted(*members: Pod, **group) -> Driver:
    return Driver(gpu_node(), make_group(min_member=3, **group), *members)


def test_a_release_that_got_stuck_before_a_restart_is_rolled_back_thirty_seconds_after_its_last_binding():
    pods = make_pods(3, group=KEY, owner=JOB)
    driver = restarted(bound(pods[0], "gpu-0", at=START - 10), *pods[1:])
    assert driver.wait(19.9) == []
    assert driver.wait(0.1) == [evict(pods[0])]


def test_a_release_that_got_stuck_before_a_restart_is_completed_by_what_is_called_again():
    pods = make_pods(3, group=KEY, owner=JOB)
    driver = restarted(bound(pods[0], "gpu-0", at=START - 1), *pods[1:])
    assert driver.calls(pods[1:]) == [gm.ReadGroup(KEY, 1)]


def test_a_gang_hurt_long_after_its_start_is_left_alone_after_a_restart():
    pods = make_pods(3, group=KEY, owner=JOB)
    driver = restarted(bound(pods[0], "gpu-0", at=START - 61), *pods[1:])
    assert driver.wait(60) == []


def test_a_gang_of_which_as_many_as_the_minimum_were_on_nodes_has_run_and_is_left_alone():
    pods = make_pods(3, group=KEY, owner=JOB)
    on_nodes = [bound(pod, "gpu-0", at=START - 5) for pod in pods]
    driver = restarted(*on_nodes[:2], replace(on_nodes[2], phase="Failed"))
    assert driver.wait(60) == []


def test_members_that_succeeded_and_are_gone_were_on_nodes_too():
    pods = make_pods(3, group=KEY, owner=JOB)
    on_nodes = [bound(pod, "gpu-0", at=START - 5) for pod in pods]
    driver = Driver(gpu_node(), make_group(min_member=3), *on_nodes[:2], acting=False)
    driver.see(replace(on_nodes[2], phase="Succeeded"))
    driver.gone(on_nodes[2])
    driver.see(replace(on_nodes[1], phase="Failed"))
    driver.send(messages.ActivityChanged(True))
    assert driver.wait(60) == [], "it ran and was hurt"


def test_a_stuck_task_minimum_is_recognised_though_members_are_enough():
    pods = make_pods(3, group=KEY, owner=JOB, task="worker")
    launcher = make_pod("launcher", group=KEY, owner=JOB, task="launcher")
    on_nodes = [bound(pod, "gpu-0", at=START) for pod in pods]
    driver = restarted(*on_nodes, launcher, tasks={"launcher": 1})
    assert driver.wait(30) == [evict(pod) for pod in pods]


def test_a_replica_that_takes_over_recognises_a_release_that_it_has_only_watched():
    pods = make_pods(3, group=KEY, owner=JOB)
    driver = Driver(gpu_node(), make_group(min_member=3), *pods, acting=False)
    driver.see(bound(pods[0], "gpu-0", at=START))
    assert driver.wait(10) == []
    driver.send(messages.ActivityChanged(True))
    assert driver.wait(20) == [evict(pods[0])]


def test_too_few_members_fail_the_held_ones_of_a_stuck_release_too():
    driver, pods = half_bound()
    driver.call(pods[1])
    driver.gone(pods[2])
    assert driver.wait(10) == answers(Why.TOO_FEW, 4)
