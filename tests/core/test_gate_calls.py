"""What becomes of one bind call: whole effect lists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core import gate_messages as gm
from extender.core import messages
from extender.core.gate_messages import Why
from extender.core.holds import Hold, InvalidMove, State
from extender.core.ids import QUEUE_GATE
from extender.core.model import MIG_STATE_LABEL
from extender.core.model import Hold as ShownHold
from tests.builders import GPU, bound, gpu_node, group_key, make_group, make_pod, make_pods
from tests.core.gate_driver import Driver, answers, asked, binds

KEY = group_key()
LONE = make_pod()
FOREIGN = make_pod("theirs", scheduler="default-scheduler")

AT_ONCE = {
    "a lone pod is bound at once": (LONE, binds([LONE])),
    "a pod of another scheduler is bound at once": (FOREIGN, binds([FOREIGN])),
    "a pod of another scheduler is bound though we see no room": (
        pod := make_pod("huge", {GPU: 99}, scheduler="default-scheduler"),
        binds([pod]),
    ),
    "a marked pod of another scheduler is bound at once": (
        pod := make_pod("marked", group=KEY, scheduler="default-scheduler"),
        binds([pod]),
    ),
    "a pod that is bound to that node already is a success": (bound(LONE, "gpu-0"), answers("", 1)),
    "a pod that is bound elsewhere is an error that names the node": (
        bound(LONE, "gpu-7"),
        answers("muster: the pod is already bound to gpu-7", 1),
    ),
    "a pod that is being deleted is refused": (replace(LONE, terminating=True), answers(Why.POD_LEAVING, 1)),
    "a pod that has ended is refused": (replace(LONE, phase="Failed"), answers(Why.POD_ENDED, 1)),
    "a lone pod with contradictions is refused": (
        replace(LONE, problems=("spec: odd",)),
        answers(Why.INVALID, 1),
    ),
}


@pytest.mark.parametrize(("pod", "want"), AT_ONCE.values(), ids=AT_ONCE.keys())
def test_answered_at_once(pod, want):
    assert Driver(gpu_node(), pod).call(pod) == want


WATCH_MAY_BE_BEHIND = {
    "no room": (gpu_node(gpus=0), Why.NO_ROOM),
    "a cordoned node": (gpu_node(unschedulable=True), Why.NODE_CLOSED),
    "a node that is not ready": (gpu_node(ready=False), Why.NODE_CLOSED),
    "a node whose GPUs are being cut anew": (gpu_node(labels={MIG_STATE_LABEL: "rebooting"}), Why.NODE_CLOSED),
    "an unknown node": (gpu_node("gpu-1"), Why.NODE_GONE),
}


@pytest.mark.parametrize(("node", "why"), WATCH_MAY_BE_BEHIND.values(), ids=WATCH_MAY_BE_BEHIND.keys())
def test_what_speaks_against_a_node_is_believed_after_a_moment(node, why):
    pod = make_pod(request={"cpu": 97_000} if why is Why.NO_ROOM else None)
    driver = Driver(node, pod)
    assert driver.call(pod) == []
    assert driver.wait(0.25) == []
    assert driver.wait(0.25) == answers(why, 1)


def test_a_node_that_the_watch_shows_late_costs_no_error():
    driver = Driver(LONE)
    assert driver.call(LONE) == []
    driver.see(gpu_node())
    assert driver.wait(0.25) == binds([LONE])


# --- pods that our watch does not show, or shows too old -------------------------------------------


def test_an_unknown_pod_is_read_live_and_bound():
    driver = Driver(gpu_node())
    assert driver.call(LONE) == [gm.ReadPod(LONE.uid, "team", "pod-0")]
    assert driver.send(gm.PodRead(LONE.uid, LONE)) == binds([LONE])


def test_an_unknown_pod_that_the_watch_shows_before_the_reading_is_bound_once():
    driver = Driver(gpu_node())
    driver.call(LONE)
    assert driver.see(LONE) == binds([LONE])
    assert driver.send(gm.PodRead(LONE.uid, LONE)) == []


READINGS = {
    "there is none": (gm.PodRead(LONE.uid, None), Why.POD_GONE),
    "another pod has its name": (gm.PodRead(LONE.uid, replace(LONE, uid="uid-new")), Why.POD_GONE),
    "it could not be read": (gm.PodRead(LONE.uid, None, failed=True), Why.POD_UNREAD),
    "it is being deleted": (gm.PodRead(LONE.uid, replace(LONE, terminating=True)), Why.POD_LEAVING),
    "it has a scheduling gate": (gm.PodRead(LONE.uid, replace(LONE, gates=("x",))), Why.POD_GATED),
}


@pytest.mark.parametrize(("answer", "why"), READINGS.values(), ids=READINGS.keys())
def test_an_unknown_pod_that_is_unfit_is_refused(answer, why):
    driver = Driver(gpu_node())
    driver.call(LONE)
    assert driver.send(answer) == answers(why, 1)


def test_a_pod_that_is_known_to_be_gone_is_refused_without_reading():
    driver = Driver(gpu_node(), LONE)
    driver.gone(LONE)
    assert driver.call(LONE) == answers(Why.POD_GONE, 1)


def test_a_call_whose_uid_is_of_a_pod_of_another_name_is_refused():
    driver = Driver(gpu_node(), LONE)
    assert driver.call(replace(LONE, name="else")) == answers(Why.POD_OTHER, 1)


def test_a_gate_that_the_watch_still_shows_is_waited_for():
    gated = replace(LONE, gates=(QUEUE_GATE,))
    driver = Driver(gpu_node(), gated)
    assert driver.call(gated) == []
    assert driver.see(LONE) == binds([LONE])


def test_a_gate_that_stays_is_read_live_and_then_refused():
    gated = replace(LONE, gates=(QUEUE_GATE,))
    driver = Driver(gpu_node(), gated)
    driver.call(gated)
    assert driver.wait(0.3) == [gm.ReadPod(LONE.uid, "team", "pod-0")]
    assert driver.send(gm.PodRead(LONE.uid, gated)) == answers(Why.POD_GATED, 1)


def test_a_reading_that_never_ends_does_not_hold_the_call_for_ever():
    driver = Driver(gpu_node())
    driver.call(LONE)
    assert driver.wait(570) == answers(Why.POD_UNREAD, 1)


# --- several calls for one pod ---------------------------------------------------------------------


def test_the_newest_call_of_a_held_pod_wins():
    pods = make_pods(2, group=KEY)
    driver = Driver(gpu_node(), gpu_node("gpu-1"), make_group(min_member=2), *pods)
    driver.call(pods[0])
    assert driver.call(pods[0], "gpu-1") == answers(Why.SUPERSEDED, 1)
    assert [hold.node for hold in driver.gate.shown()] == ["gpu-1"]


def test_a_second_call_for_the_node_that_a_pod_is_being_bound_to_gets_the_same_result():
    driver = Driver(gpu_node(), LONE)
    driver.call(LONE)
    assert driver.call(LONE) == []
    assert driver.done(LONE) == answers("", 1, 2)


def test_a_second_call_for_another_node_while_a_pod_is_being_bound_is_refused():
    driver = Driver(gpu_node(), gpu_node("gpu-1"), LONE)
    driver.call(LONE)
    assert driver.call(LONE, "gpu-1") == answers("muster: the pod is being bound to gpu-0", 2)


def test_a_call_after_the_lost_answer_of_a_success_needs_no_second_binding():
    driver = Driver(gpu_node(), LONE)
    driver.call(LONE)
    driver.close(1)
    assert driver.done(LONE) == []
    assert driver.call(LONE) == answers("", 2)


def test_a_proved_binding_outlives_an_older_state_from_the_watch():
    driver = Driver(gpu_node(), LONE)
    driver.call(LONE)
    driver.done(LONE)
    driver.see(replace(LONE, nominated="gpu-0"))
    assert driver.world.pods[LONE.uid].node == "gpu-0"
    assert driver.call(LONE) == answers("", 2)


def test_the_watch_may_prove_a_binding_before_its_reply_comes():
    driver = Driver(gpu_node(), LONE)
    driver.call(LONE)
    assert driver.see(bound(LONE, "gpu-0")) == answers("", 1)
    assert driver.done(LONE) == []


FAILURES = {
    "the API server refuses": (gm.BindDone(LONE.uid, "forbidden"), answers("forbidden", 1)),
    "the pod is gone": (gm.BindDone(LONE.uid, "not found", gone=True), answers("not found", 1)),
}


@pytest.mark.parametrize(("event", "want"), FAILURES.values(), ids=FAILURES.keys())
def test_a_binding_that_fails_is_an_error_and_frees_its_room(event, want):
    driver = Driver(gpu_node(), LONE, other := make_pod("other", {"cpu": 96_000}))
    driver.call(LONE)
    assert driver.send(event) == want
    assert driver.call(other) == binds([other])


# --- hung up ---------------------------------------------------------------------------------------


def test_a_closed_call_does_not_count():
    pods = make_pods(2, group=KEY)
    driver = Driver(gpu_node(), make_group(min_member=2), *pods)
    driver.call(pods[0])
    assert driver.close(1) == []
    assert driver.call(pods[1]) == []
    assert driver.call(pods[0]) == [gm.ReadGroup(KEY, 1)]


def test_a_call_closed_while_the_extender_is_asked_is_not_bound():
    pods = make_pods(3, group=KEY)
    group = make_group(min_member=2)
    driver = Driver(gpu_node(), make_group(min_member=3), *pods)
    driver.calls(pods)
    driver.read(replace(group, generation=1))
    driver.close(2)
    assert driver.let_go(KEY, pods) == binds([pods[0], pods[2]])


def test_a_closed_call_while_its_pod_is_read_is_forgotten():
    driver = Driver(gpu_node())
    driver.call(LONE)
    driver.close(1)
    assert driver.send(gm.PodRead(LONE.uid, LONE)) == []


# --- lone pods on HAMi nodes -----------------------------------------------------------------------


def test_a_lone_pod_on_a_hami_node_is_bound_with_the_extenders_annotations():
    driver = Driver(gpu_node(hami=True), LONE)
    assert driver.call(LONE) == [asked(LONE.group, [LONE], ask=1)]
    assert driver.release(LONE.group, {LONE.uid: {"vgpu": "x"}}, ask=1) == [
        gm.Bind(LONE.uid, "team", "pod-0", "gpu-0", (("vgpu", "x"),))
    ]


def test_a_lone_pod_on_a_hami_node_waits_until_its_deadline_for_an_extender_that_is_away():
    driver = Driver(gpu_node(hami=True), LONE)
    driver.call(LONE)
    assert driver.release(LONE.group, None, ask=1) == []
    assert driver.wait(1) == [asked(LONE.group, [LONE], ask=2)]
    assert driver.wait(569) == answers(Why.INCOMPLETE, 1)
    assert driver.gate.shown() == ()


# --- the whole gate --------------------------------------------------------------------------------


def test_before_everything_is_listed_nothing_is_bound():
    assert Driver(gpu_node(), LONE, synced=False).call(LONE) == answers(Why.NOT_READY, 1)


def test_a_replica_that_does_not_act_binds_nothing():
    assert Driver(gpu_node(), LONE, acting=False).call(LONE) == answers(Why.NOT_ACTIVE, 1)


ENDS = {
    "activity is lost": (messages.ActivityChanged(False), Why.NOT_ACTIVE),
    "the process stops": (gm.Stopping(), Why.STOPPING),
}


@pytest.mark.parametrize(("event", "why"), ENDS.values(), ids=ENDS.keys())
def test_what_is_held_is_refused_and_what_is_being_bound_is_finished_when(event, why):
    pods = make_pods(2, "member", group=KEY)
    unknown = make_pod("unknown")
    driver = Driver(gpu_node(), make_group(min_member=3), LONE, *pods)
    driver.call(LONE)
    driver.calls(pods)
    driver.call(unknown)
    assert driver.send(event) == answers(why, 2, 3, 4)
    assert driver.call(pods[0]) == answers(why, 5)
    assert driver.done(LONE) == answers("", 1)
    assert driver.gate.shown() == ()


def test_members_of_a_running_group_are_not_bound_while_the_held_are_refused():
    pods = make_pods(3, group=KEY)
    driver = Driver(gpu_node(), make_group(min_member=1), bound(pods[0], "gpu-0"), *pods[1:])
    driver.see(gpu_node(hami=True))
    driver.calls(pods[1:])
    assert driver.send(gm.Stopping()) == answers(Why.STOPPING, 1, 2)


def test_withdrawal_spares_what_is_being_bound():
    driver = Driver(gpu_node(), LONE)
    driver.call(LONE)
    assert driver.send(gm.Withdrawn((LONE.uid,))) == []
    assert driver.gate.binding == 1


def test_the_list_of_holds_shows_node_group_round_and_what_is_being_bound():
    pod = make_pod("member", group=KEY)
    driver = Driver(gpu_node(), make_group(min_member=2), pod, LONE)
    before = driver.gate.version
    driver.calls([pod, LONE])
    assert driver.gate.shown() == (
        ShownHold(pod.uid, "gpu-0", KEY, 1, False),
        ShownHold(LONE.uid, "gpu-0", LONE.group, 0, True),
    )
    assert driver.gate.version > before


def test_a_move_that_is_not_in_the_table_is_told_with_the_holds_story():
    hold = Hold(LONE.uid, "team", "pod-0", "gpu-0", 0.0, [])
    hold.move(State.COMMITTING, 1.0)
    with pytest.raises(InvalidMove, match=r"committing -> held is no edge; story \[\(1.0, 'committing'\)"):
        hold.move(State.HELD, 2.0)
