"""How kube-scheduler is led to a plan by nominations, how a revoked plan is undone, and which queues are open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core import messages
from extender.core.ids import NodeName, QueueName
from extender.core.model import Pod
from extender.core.opening import REOPEN_SECONDS, RETRY_SECONDS
from extender.core.reasons import Reason
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_pod, make_pods, make_queue
from tests.core.engine_driver import (
    BY_NOMINATION,
    Driver,
    gated,
    nominate,
    ungates,
    wakes,
    withdraw,
)

ONE = {GPU: 1}
NOTHING: frozenset[QueueName] = frozenset()
CLOSE = messages.SetOpenQueues(NOTHING)
OPEN = messages.SetOpenQueues(frozenset({QueueName("default")}))


def gang(name: str, count: int = 4, **fields: object) -> list[Pod]:
    """Gated members of a group of this name."""
    return gated(make_pods(count, name, request={GPU: 2}, group=name, **fields))


def nominating(*things: object) -> Driver:
    """An engine that nominates, with one node of eight GPUs."""
    return Driver(gpu_node(), *things, above=BY_NOMINATION, opened=NOTHING)  # type: ignore[arg-type]


def led(pods: list[Pod], node: str = "gpu-0") -> list[messages.Effect]:
    """Each pod is nominated before its gate is removed."""
    return [effect for pod in pods for effect in (nominate(pod, node), *ungates([pod]))]


def seen_nominated(engine: Driver, pods: list[Pod]) -> list[Pod]:
    """The watch shows the nominations; the gates are still on."""
    news = [replace(pod, nominated=NodeName("gpu-0")) for pod in pods]
    engine.see(*news)
    return news


# --- nominations -------------------------------------------------------------------------------------


def test_each_member_is_nominated_before_its_gate_is_removed() -> None:
    pods = gang("a")
    engine = nominating(make_group("a", 4), *pods)
    assert engine.tick() == led(pods)
    assert engine.done(*engine.effects) == []
    seen_nominated(engine, pods)
    assert engine.ticks(5) == []


def test_an_ungated_member_is_not_nominated_since_the_full_list_leads_it() -> None:
    pods = make_pods(2, request=ONE, group="a")
    engine = nominating(make_group("a", 2), *pods)
    assert engine.tick() == []
    assert engine.reserved == 2


@pytest.mark.parametrize("shown", [True, False], ids=["and shown by the watch", "and not shown yet"])
def test_the_second_gang_gets_the_room_of_a_revoked_one_once_its_nominations_are_cleared_written(
    shown: bool,
) -> None:
    pods, others = gang("a"), gang("b", created=5.0)
    group = make_group("a", 4)
    engine = nominating(group, make_group("b", 4), *pods, *others)
    assert engine.tick() == led(pods)
    if shown:
        seen_nominated(engine, pods)
    engine.gone(group)
    clearings = [nominate(pod, None) for pod in pods]
    assert engine.tick() == clearings
    assert engine.reason(pods[0]) is Reason.GROUP_NOT_FOUND
    assert engine.reserved == 4  # a nomination that stands keeps the room from everybody else
    assert engine.done(*clearings[:3]) == []
    assert engine.tick() == []
    engine.done(clearings[3])
    assert engine.tick() == led(others)
    assert engine.reserved == 4


def test_a_clearing_that_fails_is_tried_again_and_its_room_counted_meanwhile() -> None:
    pods = gang("a", 1)
    group = make_group("a", 1)
    engine = nominating(group, *pods)
    engine.tick()
    engine.gone(group)
    assert engine.tick() == [nominate(pods[0], None)]
    assert engine.done(nominate(pods[0], None), error="connection refused") == []
    assert engine.tick(0.5) == []
    assert engine.reserved == 1
    assert engine.tick(0.5) == [nominate(pods[0], None)]
    engine.done(nominate(pods[0], None))
    assert engine.reserved == 0
    assert engine.ticks(5) == []


def test_a_clearing_that_fails_since_the_pod_is_gone_ends_there() -> None:
    pods = gang("a", 1)
    group = make_group("a", 1)
    engine = nominating(group, *pods)
    engine.tick()
    engine.gone(group)
    engine.tick()
    engine.gone(*pods)
    assert engine.reserved == 0
    assert engine.done(nominate(pods[0], None), error="not found") == []
    assert engine.ticks(5) == []


def test_a_member_that_lost_its_node_is_nominated_anew_and_not_ungated_twice() -> None:
    pods = gang("a", 2)
    engine = nominating(gpu_node("gpu-1"), make_group("a", 2), *pods)
    engine.tick()
    (node,) = set(engine.nodes(pods))
    other = ({"gpu-0", "gpu-1"} - {node}).pop()
    ungated = [replace(pod, gates=(), nominated=NodeName(node or "")) for pod in pods]
    engine.see(*ungated)
    engine.see(gpu_node(node or "", unschedulable=True))
    assert engine.tick() == [nominate(pod, other) for pod in pods]


def test_a_member_that_lost_its_node_and_finds_no_other_is_not_left_nominated() -> None:
    pods = [replace(pod, created=float(n)) for n, pod in enumerate(gang("a", 3))]
    engine = Driver(
        gpu_node("gpu-0", 4), gpu_node("gpu-1", 2), make_group("a", 2), *pods, above=BY_NOMINATION, opened=NOTHING
    )
    engine.tick()
    lost = next(pod for pod in pods if engine.node(pod) == "gpu-1")
    engine.gone(gpu_node("gpu-1"))
    effects = engine.tick()
    assert nominate(lost, None) in effects
    assert engine.reserved == 2


def test_held_and_nominated_members_of_a_revoked_plan_are_counted_until_both_are_undone() -> None:
    pods = gang("a", 2)
    group = make_group("a", 2)
    engine = nominating(group, *pods)
    engine.tick()
    engine.see(*(replace(pod, gates=(), nominated=NodeName("gpu-0")) for pod in pods))
    engine.hold(*pods)
    engine.gone(group)
    clearings = [nominate(pod, None) for pod in pods]
    assert engine.tick() == [*clearings, withdraw(*pods)]
    engine.done(*clearings)
    assert engine.reserved == 2
    engine.held({})
    assert engine.reserved == 0


def test_with_few_nodes_an_older_nomination_is_cleared_for_the_full_list() -> None:
    pod = replace(gated([make_pod("one", ONE)])[0], nominated=NodeName("gpu-7"))
    engine = Driver(gpu_node(), pod)
    engine.tick()
    assert engine.effects == [nominate(pod, None), *ungates([pod])]


# --- holds -------------------------------------------------------------------------------------------


def test_a_withdrawal_that_fails_is_tried_again_while_the_calls_are_held() -> None:
    pods = make_pods(2, request=ONE, group="a")
    group = make_group("a", 2)
    engine = Driver(gpu_node(), group, *pods)
    engine.tick()
    engine.hold(*pods)
    engine.gone(group)
    assert engine.tick() == [withdraw(*pods)]
    engine.done(withdraw(*pods), error="gate unreachable")
    engine.held({pods[1]: "gpu-0"})
    assert engine.tick(1.0) == [withdraw(pods[1])]
    engine.held({})
    engine.done(withdraw(pods[1]), error="gate unreachable")
    assert engine.tick(1.0) == []
    assert engine.reserved == 0


def test_a_call_held_for_a_group_that_waits_is_withdrawn() -> None:
    pod = make_pod("a-0", ONE, group="a")
    engine = Driver(gpu_node(), pod)
    engine.tick()
    assert engine.held({pod: "gpu-0"}) == [withdraw(pod)]
    assert engine.held({pod: "gpu-0"}) == []
    assert engine.reserved == 0


def test_a_call_held_on_another_node_than_planned_is_taken_over_when_it_fits_there() -> None:
    pod = make_pod("a-0", ONE, group="a")
    engine = Driver(gpu_node("gpu-0"), gpu_node("gpu-1"), make_group("a", 1), pod)
    engine.tick()
    other = ({"gpu-0", "gpu-1"} - {engine.node(pod)}).pop()
    assert engine.held({pod: other or ""}) == []
    engine.tick()
    assert engine.node(pod) == other
    assert engine.reserved == 1


@pytest.mark.parametrize(
    ("required", "cordoned"),
    [
        pytest.param("rack", False, id="the group wants one rack"),
        pytest.param(None, True, id="that node is cordoned"),
    ],
)
def test_a_call_held_on_another_node_is_withdrawn_when(required: str | None, cordoned: bool) -> None:
    nodes = [gpu_node(f"gpu-{n}", labels={"rack": f"r{n}"}) for n in range(2)]
    pod = make_pod("a-0", ONE, group="a")
    engine = Driver(*nodes, make_group("a", 1, topology_required=required), pod)
    engine.tick()
    planned = engine.node(pod)
    other = nodes[planned == "gpu-0"]
    engine.see(replace(other, unschedulable=cordoned))
    engine.tick()
    effects = engine.held({pod: other.name}) + engine.tick()
    assert effects == [withdraw(pod)]
    assert engine.node(pod) == planned


def test_a_call_that_comes_again_for_another_node_is_looked_at_again() -> None:
    nodes = [gpu_node(f"gpu-{n}", labels={"rack": f"r{n}"}) for n in range(2)]
    pod = make_pod("a-0", ONE, group="a")
    engine = Driver(*nodes, make_group("a", 1, topology_required="rack"), pod)
    engine.tick()
    planned = engine.node(pod) or ""
    other = ({"gpu-0", "gpu-1"} - {planned}).pop()
    assert engine.held({pod: planned}) == []
    assert engine.held({pod: other}) == [withdraw(pod)]
    assert engine.node(pod) == planned


def test_calls_of_lone_pods_and_of_pods_unknown_are_the_gates_matter() -> None:
    engine = Driver(gpu_node())
    assert engine.held({make_pod("one", ONE): "gpu-0", make_pod("a-0", ONE, group="a"): "gpu-0"}) == []


# --- effects that fail -------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["Nominate", "Ungate"])
def test_a_member_whose_leading_failed_is_led_again_after_a_second(lost: str) -> None:
    pods = gang("a", 1)
    engine = nominating(make_group("a", 1), *pods)
    effects = engine.tick()
    failed = next(e for e in effects if type(e).__name__ == lost)
    assert engine.done(failed, error="timeout") == []
    assert engine.tick(0.9) == []
    assert engine.tick(0.1) == led(pods)


def test_a_wake_that_failed_is_sent_again_though_no_rejection_is_seen() -> None:
    pod = make_pod("one", ONE)
    foreign = builders.bound(make_pod("foreign", {GPU: 8}, scheduler="default-scheduler"), "gpu-0")
    engine = Driver(gpu_node(), foreign, pod)
    engine.call(pod, ["gpu-0"])
    engine.gone(foreign)
    (wake,) = [e for e in engine.tick() if isinstance(e, messages.Wake)]
    engine.done(wake, error="timeout")
    effects = [e for e in engine.tick(1.0) if isinstance(e, messages.Wake)]
    assert effects == wakes([pod], engine.now)


def test_a_statement_that_failed_is_made_again_later() -> None:
    group = make_group("a", 4)
    engine = Driver(gpu_node(gpus=1), group, *gang("a"))
    statements = [e for e in engine.ticks(3) if isinstance(e, messages.StateGroup)]
    assert len(statements) == 1
    engine.done(statements[0], error="not found")
    again = [e for e in engine.ticks(9) if isinstance(e, messages.StateGroup)]
    assert again == []
    assert [e for e in engine.ticks(2) if isinstance(e, messages.StateGroup)] == statements


def test_a_statement_is_made_for_a_group_object_that_was_created_again() -> None:
    group = make_group("a", 4)
    engine = Driver(gpu_node(gpus=1), group, *gang("a"))
    assert len([e for e in engine.ticks(3) if isinstance(e, messages.StateGroup)]) == 1
    engine.see(replace(group, uid="uid-new"))
    assert [e.uid for e in engine.ticks(3) if isinstance(e, messages.StateGroup)] == ["uid-new"]


def test_what_was_said_last_counts_and_not_what_the_object_still_shows() -> None:
    group = make_group("a", 1, phase="Pending", stated_reason="InsufficientResources")
    pod = make_pod("a-0", {GPU: 8}, group="a")
    engine = Driver(gpu_node(), group, pod)
    engine.tick()
    engine.bind(pod)
    engine.tick()
    engine.gone(pod)
    again = make_pod("a-1", {GPU: 16}, group="a")
    engine.see(again)
    engine.ticks(3)
    phases = [e.phase for e in engine.effects if isinstance(e, messages.StateGroup)]
    assert phases == ["Running", "Pending"]


# --- the list of open queues -------------------------------------------------------------------------


def test_with_nominations_no_queue_is_open() -> None:
    engine = Driver(gpu_node(), above=BY_NOMINATION)
    assert engine.tick() == [CLOSE]
    assert engine.done(CLOSE) == engine.ticks(5) == []


def test_a_missing_list_is_written() -> None:
    engine = Driver(gpu_node(), opened=None)
    assert engine.tick() == [OPEN]
    engine.send(messages.OpenQueuesSeen(OPEN.names))
    assert engine.ticks(5) == []
    engine.send(messages.OpenQueuesSeen(None))
    assert engine.tick() == [OPEN]


def test_a_list_that_somebody_else_has_changed_is_written_again() -> None:
    engine = Driver(gpu_node())
    engine.send(messages.OpenQueuesSeen(frozenset({QueueName("theirs")})))
    assert engine.tick() == [OPEN]


def test_a_write_of_the_list_that_fails_is_tried_again_after_a_second_and_not_at_once() -> None:
    engine = Driver(gpu_node(), opened=None)
    assert engine.tick() == [OPEN]
    assert engine.done(OPEN, error="forbidden") == []
    assert engine.tick(RETRY_SECONDS / 2) == []
    assert engine.tick(RETRY_SECONDS / 2) == [OPEN]


def test_a_queue_closes_before_32_strays_and_opens_again_when_they_are_gone() -> None:
    engine = Driver(gpu_node(), make_queue("default"))
    pods = make_pods(20, request=ONE, group="ghost")
    closed_at = None
    for number, pod in enumerate(pods, 1):
        engine.see(pod)
        if CLOSE in engine.tick(0.01):
            closed_at = number
            break
    assert closed_at is not None
    assert closed_at < 32
    engine.done(CLOSE)
    engine.send(messages.OpenQueuesSeen(NOTHING))
    engine.gone(*pods[:closed_at])
    assert engine.tick(REOPEN_SECONDS / 2) == []
    assert engine.tick(REOPEN_SECONDS / 2) == [OPEN]


def test_one_pod_that_waits_for_room_closes_its_queue_and_no_other() -> None:
    engine = Driver(gpu_node(), make_queue("red"), make_queue("blue"))
    engine.tick(REOPEN_SECONDS)
    engine.see(make_pod("one", {GPU: 9}, queue=QueueName("red")))
    assert engine.tick() == [messages.SetOpenQueues(frozenset({QueueName("blue"), QueueName("default")}))]


def test_a_closed_queue_is_not_open_even_if_it_is_the_default_one() -> None:
    engine = Driver(gpu_node(), make_queue("red", closed=True), make_queue("default", closed=True))
    assert engine.tick() == [CLOSE]


def test_gates_that_are_removed_by_hand_make_strays() -> None:
    pods = gated(make_pods(20, request=ONE, group="ghost"))
    engine = Driver(gpu_node(), *pods)
    assert engine.tick() == []
    assert engine.engine.backlog.strays.total() == 0
    engine.see(*(replace(pod, gates=()) for pod in pods))
    assert engine.tick() == [CLOSE]
    assert engine.engine.backlog.strays.total() == 20
    engine.gone(*pods[:5])
    engine.tick()
    assert engine.engine.backlog.strays.total() == 15


def test_strays_of_a_group_whose_plan_is_being_undone_are_counted() -> None:
    pods = [replace(pod, gates=()) for pod in gang("a")]
    group = make_group("a", 4)
    engine = nominating(group, *pods)
    engine.tick()
    engine.hold(*pods)
    engine.gone(group)
    engine.tick()
    more = make_pods(3, "more", request=ONE, group="a")
    engine.see(*more)
    engine.tick()
    assert engine.engine.backlog.strays.total() == 7


def test_names_of_queues_that_nothing_waits_in_are_not_kept() -> None:
    engine = Driver(gpu_node())
    for number in range(50):
        pod = make_pod(f"p-{number}", {GPU: 99}, queue=QueueName(f"q-{number}"))
        engine.see(pod)
        engine.tick()
        engine.gone(pod)
        engine.tick()
    assert len(engine.engine.backlog.strays) + len(engine.engine.backlog.for_room) == 0


def test_equal_lone_pods_are_judged_each_by_what_is_wrong_with_it() -> None:
    bad = make_pod("bad", ONE, problems=("spec.x is negative",))
    good = make_pod("good", ONE, created=1.0)
    engine = Driver(gpu_node(), bad, good)
    engine.tick()
    assert engine.reason(bad) is Reason.INVALID
    assert engine.node(good) == "gpu-0"
