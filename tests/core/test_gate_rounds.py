"""How a group is assembled and released: whole effect lists, event by event."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core import gate_messages as gm
from extender.core import messages
from extender.core.gate_messages import Why
from extender.core.ids import Source
from extender.core.model import Owner, Toleration
from tests.builders import bound, gpu_node, group_key, make_group, make_node, make_pod, make_pods
from tests.core.gate_driver import Driver, answers, asked, binds

KEY = group_key()
JOB = Owner("Job", "train", "uid-job")


def gang(count: int, minimum: int | None = None, **fields):
    """A node, a group and its members, at a gate that has seen them; and the members."""
    pods = make_pods(count, group=KEY, **fields)
    group = make_group(min_member=minimum or count)
    return Driver(gpu_node(), group, *pods), group, pods


def test_a_group_is_read_live_then_the_extender_is_asked_then_all_are_bound_and_answered_when_proved():
    driver, group, pods = gang(3)
    assert driver.calls(pods[:2]) == []
    assert driver.call(pods[2]) == [gm.ReadGroup(KEY, 1)]
    assert driver.read(group) == [asked(KEY, pods)]
    assert driver.let_go(KEY, pods) == binds(pods)
    assert driver.done(pods[1]) == answers("", 2)
    assert driver.done(pods[0]) == answers("", 1)
    assert driver.done(pods[2]) == answers("", 3)
    assert driver.unanswered == set()


def test_annotations_of_the_extender_go_into_the_binding():
    driver, group, pods = gang(1)
    driver.call(pods[0])
    driver.read(group)
    assert driver.release(KEY, {pods[0].uid: {"b": "2", "a": "1"}}) == [
        gm.Bind(pods[0].uid, "team", "pod-0", "gpu-0", (("a", "1"), ("b", "2")))
    ]


def test_enough_workers_without_the_launcher_do_not_start():
    workers = make_pods(3, "worker", group=KEY, task="worker")
    launcher = make_pod("launcher", group=KEY, task="launcher")
    group = make_group(min_member=3, tasks={"launcher": 1, "worker": 2})
    driver = Driver(gpu_node(), group, launcher, *workers)
    assert driver.calls(workers) == []
    assert driver.call(launcher) == [gm.ReadGroup(KEY, 1)]
    assert driver.read(group) == [asked(KEY, [*workers, launcher])]


def test_a_member_that_succeeded_and_is_gone_counts_for_what_is_released_and_for_what_comes_late():
    driver, group, pods = gang(4)
    driver.see(*(bound(pod, "gpu-0") for pod in pods[:2]), replace(bound(pods[2], "gpu-0"), phase="Succeeded"))
    driver.gone(pods[2])
    driver.call(pods[3])
    assert driver.read(group) == [asked(KEY, pods[3:])], "two run, one has finished, and this one makes four"


def test_a_minimum_that_was_raised_meanwhile_keeps_the_round_shut():
    driver, group, pods = gang(3, minimum=2)
    driver.calls(pods[:2])
    assert driver.read(replace(group, min_member=3, generation=2)) == []
    assert driver.call(pods[2]) == [gm.ReadGroup(KEY, 2)]


def test_an_older_live_read_does_not_undo_what_the_watch_shows():
    driver, group, pods = gang(3, minimum=2)
    driver.calls(pods[:2])
    driver.see(replace(group, min_member=3, generation=2))
    assert driver.read(group) == []
    assert driver.world.groups[KEY].min_member == 3


def test_a_group_whose_object_cannot_be_read_is_read_again_each_second():
    driver, _group, pods = gang(1)
    driver.call(pods[0])
    assert driver.send(gm.GroupRead(KEY, 1, None, failed=True)) == []
    assert driver.wait(0.9) == []
    assert driver.wait(0.1) == [gm.ReadGroup(KEY, 2)]


def test_a_mark_without_its_object_is_held_until_the_object_comes():
    pods = make_pods(2, group=KEY)
    driver = Driver(gpu_node(), *pods)
    assert driver.calls(pods) == []
    assert driver.wait(60) == []
    assert driver.see(make_group(min_member=2)) == [gm.ReadGroup(KEY, 1)]


def test_a_mark_whose_object_never_comes_is_refused_before_the_scheduler_gives_up():
    pod = make_pod(group=KEY)
    driver = Driver(gpu_node(), pod)
    driver.call(pod)
    assert driver.wait(569.9) == []
    assert driver.wait(0.1) == answers(Why.INCOMPLETE, 1)


def test_members_that_contradict_each_other_are_refused():
    one = make_pod("one", group=KEY, queue="red")
    two = make_pod("two", group=KEY, queue="blue")
    driver = Driver(gpu_node(), make_group(min_member=2), one, two)
    assert driver.call(one) == answers(Why.INVALID, 1)


def test_later_members_of_a_group_that_runs_are_bound_at_once():
    driver, group, pods = gang(5, minimum=3)
    driver.calls(pods[:3])
    driver.read(group)
    driver.let_go(KEY, pods[:3])
    assert driver.call(pods[3]) == binds([pods[3]])
    for pod in pods[:3]:
        driver.done(pod)
    assert driver.call(pods[4]) == binds([pods[4]])


def test_bound_and_succeeded_members_count_after_a_restart():
    pods = make_pods(4, group=KEY)
    there = [
        bound(pods[0], "gpu-0"),
        replace(bound(pods[1], "gpu-0"), phase="Succeeded"),
    ]
    group = make_group(min_member=4)
    driver = Driver(gpu_node(), group, *there, *pods[2:])
    assert driver.call(pods[2]) == []
    assert driver.call(pods[3]) == [gm.ReadGroup(KEY, 1)]


def test_a_foreign_member_counts_only_once_it_is_bound():
    foreign = make_pod("other", group=KEY, scheduler="default-scheduler")
    pod = make_pod(group=KEY)
    driver = Driver(gpu_node(), make_group(min_member=2), foreign, pod)
    assert driver.call(pod) == []
    assert driver.see(bound(foreign, "gpu-0")) == [gm.ReadGroup(KEY, 1)]


def test_members_that_arrive_while_the_extender_is_asked_follow_the_release():
    driver, group, pods = gang(3, minimum=2)
    driver.calls(pods[:2])
    driver.read(group)
    assert driver.call(pods[2]) == []
    assert driver.let_go(KEY, pods[:2]) == binds(pods)


def test_gangs_of_two_sources_with_one_name_do_not_mix():
    ours = make_pod("ours", group=group_key(source=Source.MUSTER))
    theirs = make_pod("theirs", group=group_key(source=Source.VOLCANO))
    driver = Driver(gpu_node(), make_group(min_member=2), make_group(min_member=2, source=Source.VOLCANO), ours, theirs)
    assert driver.calls([ours, theirs]) == []


# --- vetoes and silence ----------------------------------------------------------------------------


def test_a_vetoed_member_stays_held_and_is_asked_for_again_each_second():
    driver, group, pods = gang(2)
    driver.calls(pods)
    driver.read(group)
    assert driver.release(KEY, {pods[0].uid: {}, pods[1].uid: None}) == []
    assert driver.wait(0.5) == []
    assert driver.wait(0.5) == [gm.ReadGroup(KEY, 3)]
    assert driver.read(group, ask=3) == [asked(KEY, pods, ask=4)]
    assert driver.let_go(KEY, pods, ask=4) == binds(pods)


def test_a_veto_does_not_stop_those_who_are_enough_without_it_and_is_not_passed_by():
    driver, group, pods = gang(3, minimum=2)
    driver.call(pods[0])
    driver.send(messages.GroupSeen(replace(group, min_member=3, generation=1)))
    driver.calls(pods[1:])
    driver.read(replace(group, generation=2))
    assert driver.release(KEY, {pods[0].uid: {}, pods[1].uid: {}, pods[2].uid: None}) == binds(pods[:2])
    assert driver.wait(1) == [asked(KEY, pods[2:], ask=3)]
    assert driver.release(KEY, {pods[2].uid: None}, ask=3) == []
    assert driver.wait(1) == [asked(KEY, pods[2:], ask=4)]
    assert driver.let_go(KEY, pods[2:], ask=4) == binds(pods[2:])


def test_a_member_that_the_extender_does_not_name_is_not_granted():
    driver, group, pods = gang(2)
    driver.calls(pods)
    driver.read(group)
    assert driver.release(KEY, {pods[0].uid: {}}) == []


def test_without_an_answer_a_group_that_needs_no_annotations_is_released():
    driver, group, pods = gang(2)
    driver.calls(pods)
    driver.read(group)
    assert driver.release(KEY, None) == binds(pods)


def test_without_an_answer_a_group_with_one_member_on_a_hami_node_is_refused_at_its_deadline():
    pods = make_pods(2, group=KEY)
    group = make_group(min_member=2, schedule_timeout=5)
    driver = Driver(gpu_node(), gpu_node("hami", hami=True), group, *pods)
    driver.call(pods[0])
    driver.call(pods[1], "hami")
    driver.read(group)
    assert driver.release(KEY, None) == []
    assert driver.wait(1) == [gm.ReadGroup(KEY, 3)]
    driver.read(group, ask=3)
    assert driver.release(KEY, None, ask=4) == []
    assert driver.wait(4) == answers(Why.INCOMPLETE, 1, 2)


def test_a_late_member_on_a_hami_node_is_asked_for():
    driver, group, pods = gang(3, minimum=2)
    driver.see(gpu_node("hami", hami=True))
    driver.calls(pods[:2])
    driver.read(group)
    driver.let_go(KEY, pods[:2])
    assert driver.call(pods[2], "hami") == [asked(KEY, pods[2:], ask=3, node="hami")]


# --- losses ----------------------------------------------------------------------------------------

LOSSES = {
    "the pod is deleted": (lambda pod: messages.PodGone(pod.uid), Why.POD_GONE),
    "the pod is being deleted": (
        lambda pod: messages.PodSeen(replace(pod, terminating=True)),
        Why.POD_LEAVING,
    ),
    "the pod has failed": (lambda pod: messages.PodSeen(replace(pod, phase="Failed")), Why.POD_ENDED),
    "the node is deleted": (lambda pod: messages.NodeGone("gpu-1"), Why.NODE_GONE),
    "the node is cordoned": (
        lambda pod: messages.NodeSeen(gpu_node("gpu-1", unschedulable=True)),
        Why.NODE_CLOSED,
    ),
    "the node is not ready": (
        lambda pod: messages.NodeSeen(gpu_node("gpu-1", ready=False)),
        Why.NODE_CLOSED,
    ),
    "the node has shrunk": (lambda pod: messages.NodeSeen(gpu_node("gpu-1", gpus=0)), Why.NO_ROOM),
    "a foreign pod took the room": (
        lambda pod: messages.PodSeen(
            make_pod("thief", {"nvidia.com/gpu": 7}, scheduler="default-scheduler", node="gpu-1")
        ),
        Why.NO_ROOM,
    ),
    "the pod has grown": (
        lambda pod: messages.PodSeen(make_pod("lost", {"nvidia.com/gpu": 9}, group=KEY)),
        Why.NO_ROOM,
    ),
    "the plan is withdrawn": (lambda pod: gm.Withdrawn((pod.uid,)), Why.WITHDRAWN),
}


@pytest.mark.parametrize(("event", "why"), LOSSES.values(), ids=LOSSES.keys())
def test_one_loss_costs_only_its_own_call(event, why):
    pods = make_pods(2, group=KEY)
    lost = make_pod("lost", {"nvidia.com/gpu": 2}, group=KEY, owner=JOB)
    driver = Driver(gpu_node(), gpu_node("gpu-1"), make_group(min_member=4), *pods, lost)
    driver.calls(pods)
    driver.call(lost, "gpu-1")
    assert driver.send(event(lost)) == answers(why, 3)
    assert driver.unanswered == {1, 2}


def test_a_member_lost_while_the_extender_is_asked_is_not_bound():
    driver, group, pods = gang(3, minimum=2)
    driver.see(make_group(min_member=3))
    driver.calls(pods)
    driver.read(replace(group, generation=1))
    assert driver.gone(pods[0]) == answers(Why.POD_GONE, 1)
    assert driver.let_go(KEY, pods) == binds(pods[1:])


@pytest.mark.parametrize("leaves", ["gone", "terminating"])
def test_a_member_that_leaves_while_it_is_being_bound_does_not_count(leaves):
    driver, group, pods = gang(3, minimum=2)
    driver.calls(pods[:2])
    driver.read(group)
    driver.let_go(KEY, pods[:2])
    if leaves == "gone":
        driver.gone(pods[0])
    else:
        driver.see(replace(pods[0], terminating=True))
    assert driver.call(pods[2]) == [gm.ReadGroup(KEY, 3)]


def test_too_few_left_after_a_loss_while_asked_binds_nothing():
    driver, group, pods = gang(2)
    driver.calls(pods)
    driver.read(group)
    driver.gone(pods[0])
    assert driver.let_go(KEY, pods) == []


def test_a_loss_with_a_controller_is_made_good_by_its_replacement():
    driver, _group, pods = gang(2, owner=JOB)
    driver.call(pods[1])
    driver.now += 100
    driver.gone(pods[0])
    assert driver.wait(9.9) == []
    replacement = make_pod("pod-0", group=KEY, owner=JOB, uid="uid-again")
    driver.see(replacement)
    assert driver.call(replacement) == [gm.ReadGroup(KEY, 1)]


def test_a_loss_whose_replacement_does_not_come_fails_the_round_after_ten_seconds():
    driver, _group, pods = gang(2, owner=JOB)
    driver.call(pods[1])
    driver.now += 100
    driver.gone(pods[0])
    assert driver.wait(9.9) == []
    assert driver.wait(0.1) == answers(Why.TOO_FEW, 1)


def test_one_that_takes_its_time_to_leave_is_expected_anew_when_it_has_gone():
    """Its owner may make another one only then; the engine plans for that one as well."""
    driver, _group, pods = gang(2, owner=JOB)
    driver.call(pods[1])
    driver.see(replace(pods[0], terminating=True))
    driver.wait(9.0)
    driver.gone(pods[0])
    assert driver.wait(9.9) == []
    assert driver.wait(0.1) == answers(Why.TOO_FEW, 1)


def test_a_loss_that_nobody_replaces_fails_the_round_at_once():
    driver, _group, pods = gang(2)
    driver.call(pods[1])
    driver.now += 100
    assert driver.gone(pods[0]) == answers(Why.TOO_FEW, 1)


def test_members_that_are_not_created_yet_are_expected_for_ten_seconds_after_the_newest():
    pods = make_pods(3, group=KEY)
    driver = Driver(gpu_node(), make_group(min_member=3), pods[0])
    driver.call(pods[0])
    assert driver.wait(9.9) == []
    driver.see(pods[1])
    assert driver.wait(9.9) == []
    assert driver.wait(0.1) == answers(Why.TOO_FEW, 1)


def test_too_few_of_one_task_fail_the_round_though_members_are_enough():
    pods = make_pods(3, group=KEY, task="worker")
    driver = Driver(gpu_node(), make_group(min_member=3, tasks={"launcher": 1}), *pods)
    driver.calls(pods)
    assert driver.wait(10) == answers(Why.TOO_FEW, 1, 2, 3)


def test_the_groups_own_timeout_ends_the_round_for_all():
    driver, group, pods = gang(3)
    driver.see(replace(group, schedule_timeout=30))
    driver.call(pods[0])
    driver.now += 20
    driver.call(pods[1])
    assert driver.wait(9.9) == []
    assert driver.wait(0.1) == answers(Why.INCOMPLETE, 1, 2)


def test_an_answer_that_comes_after_the_round_failed_binds_nothing():
    driver, group, pods = gang(1)
    driver.see(replace(group, schedule_timeout=5))
    driver.call(pods[0])
    driver.read(replace(group, schedule_timeout=5))
    assert driver.wait(5) == answers(Why.INCOMPLETE, 1)
    assert driver.let_go(KEY, pods) == []


# --- room ------------------------------------------------------------------------------------------


def test_members_of_one_group_do_not_share_room():
    pods = make_pods(3, request={"nvidia.com/gpu": 4}, group=KEY)
    driver = Driver(gpu_node(), make_group(min_member=3), *pods)
    assert driver.calls(pods) == []
    assert driver.wait(0.3) == answers(Why.NO_ROOM, 3)


def test_the_group_that_is_released_first_has_the_room():
    red, blue = group_key("red"), group_key("blue")
    first = make_pods(2, "red", request={"nvidia.com/gpu": 4}, group=red)
    second = make_pods(2, "blue", request={"nvidia.com/gpu": 4}, group=blue)
    group = make_group("red", min_member=2)
    driver = Driver(gpu_node(), group, make_group("blue", min_member=2), *first, *second)
    driver.call(first[0])
    driver.call(second[0])
    driver.call(first[1])
    driver.read(group)
    assert driver.let_go(red, first) == [*binds(first), *answers(Why.NO_ROOM, 2)]


def test_room_that_a_pod_leaves_just_now_is_waited_for():
    leaving = make_pod("leaving", {"nvidia.com/gpu": 8}, node="gpu-0", terminating=True)
    pod = make_pod(request={"nvidia.com/gpu": 8})
    driver = Driver(gpu_node(), leaving, pod)
    assert driver.call(pod) == []
    driver.gone(leaving)
    assert driver.wait(0.25) == binds([pod])


def test_a_resource_that_a_device_class_serves_is_not_judged():
    pod = make_pod(request={"example.com/dra": 1})
    driver = Driver(gpu_node(), pod)
    assert driver.call(pod) == binds([pod])


def test_a_binding_under_way_takes_room_until_the_watch_shows_it():
    one, two = make_pods(2, request={"nvidia.com/gpu": 8})
    driver = Driver(gpu_node(), one, two)
    driver.call(one)
    driver.call(two)
    driver.done(one)
    assert driver.wait(0.3) == answers(Why.NO_ROOM, 2)
    driver.see(bound(one, "gpu-0"))
    driver.see(replace(bound(one, "gpu-0"), phase="Succeeded"))
    assert driver.call(two) == binds([two])


def test_a_pod_that_tolerates_a_cordon_is_bound_behind_it():
    tolerant = make_pod(
        constraints={"tolerations": (Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"),)}
    )
    driver = Driver(make_node(unschedulable=True), tolerant)
    assert driver.call(tolerant, "node-0") == binds([tolerant], "node-0")
