"""Nothing lost, nothing twice: a new life of the engine, and one that begins and ceases to act."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core import messages
from extender.core.ids import NodeName, QueueName
from extender.core.model import Hold, Node, Pod
from extender.core.reasons import Reason
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_pod, make_pods
from tests.core.engine_driver import BY_NOMINATION, Driver, gated, nominate, ungates, wakes, withdraw

ONE = {GPU: 1}
TRAIN = builders.group_key("train")
NOTHING: frozenset[QueueName] = frozenset()


def waking_up(*things: object, held: dict[Pod, str] | None = None, above: int = 10_000) -> Driver:
    """An engine that has listed the cluster and the gate's holds, and does not act yet."""
    opened = NOTHING if above == BY_NOMINATION else frozenset({QueueName("default")})
    engine = Driver(*things, active=False, above=above, opened=opened)  # type: ignore[arg-type]
    engine.send(messages.HoldsSeen(tuple(Hold(p.uid, NodeName(n), p.group) for p, n in (held or {}).items())))
    return engine


def test_an_engine_that_does_not_act_writes_nothing_whatever_happens() -> None:
    pods = make_pods(4, request=ONE, group="train")
    engine = waking_up(gpu_node(), make_group("train", 4), *pods, held={pods[0]: "gpu-0"})
    engine.call(pods[0], ["gpu-0"])
    engine.send(messages.FilterRejected(pods[0].uid), messages.OpenQueuesSeen(None))
    engine.done(withdraw(pods[0]), nominate(pods[0], None), *ungates(pods), error="late")
    engine.gone(pods[3], gpu_node())
    engine.held({})
    engine.ticks(30)
    assert engine.effects == []
    assert (engine.reserved, engine.engine.entries) == (0, {})


def test_held_calls_are_taken_over_and_the_rest_is_planned_beside_them() -> None:
    nodes = [gpu_node(f"gpu-{n}", 4) for n in range(4)]
    pods = make_pods(8, request=ONE, group="train")
    held = {pods[0]: "gpu-2", pods[1]: "gpu-2", pods[2]: "gpu-3"}
    engine = waking_up(*nodes, make_group("train", 8), *pods, held=held)
    assert engine.send(messages.ActivityChanged(True), messages.Tick()) == []
    assert engine.nodes(pods[:3]) == ["gpu-2", "gpu-2", "gpu-3"]
    assert all(engine.nodes(pods))
    assert engine.reserved == 8


def test_nominations_are_taken_over_and_gates_that_were_left_on_are_removed() -> None:
    pods = gated(make_pods(3, request=ONE, group="train"))
    pods[:2] = [replace(pod, nominated=NodeName("gpu-1")) for pod in pods[:2]]
    nodes = [gpu_node("gpu-0"), gpu_node("gpu-1")]
    engine = waking_up(*nodes, make_group("train", 3), *pods, above=BY_NOMINATION)
    engine.send(messages.ActivityChanged(True))
    effects = engine.tick()
    assert engine.nodes(pods[:2]) == ["gpu-1", "gpu-1"]
    third = engine.node(pods[2])
    assert effects == [*ungates(pods[:2]), nominate(pods[2], third), *ungates(pods[2:])]


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(None, id="whose node is gone"),
        pytest.param(gpu_node("gpu-1", unschedulable=True), id="whose node is cordoned"),
        pytest.param(gpu_node("gpu-1", 0), id="whose node has no room"),
    ],
)
def test_a_nomination_is_cleared_or_changed(node: Node | None) -> None:
    stays, moves = gated(make_pods(2, request=ONE))
    stays = replace(stays, shape=builders.make_shape({GPU: 99}), nominated=NodeName("gpu-1"))
    moves = replace(moves, nominated=NodeName("gpu-1"))
    things = [gpu_node("gpu-0"), *([node] if node is not None else [])]
    engine = waking_up(*things, stays, moves, above=BY_NOMINATION)
    engine.send(messages.ActivityChanged(True))
    assert set(engine.tick()) == {nominate(stays, None), nominate(moves, "gpu-0"), *ungates([moves])}
    assert engine.reserved == 1


@pytest.mark.parametrize(
    ("node", "group"),
    [
        pytest.param(None, 2, id="on a node that is gone"),
        pytest.param(gpu_node("gpu-1", unschedulable=True), 2, id="on a node that is cordoned"),
        pytest.param(gpu_node("gpu-1", 0), 2, id="on a node without room"),
        pytest.param(gpu_node("gpu-1"), 99, id="of a group that does not fit any more"),
    ],
)
def test_a_held_call_is_withdrawn(node: Node | None, group: int) -> None:
    pods = make_pods(2, request=ONE, group="train")
    things = [gpu_node("gpu-0"), *([node] if node is not None else [])]
    engine = waking_up(*things, make_group("train", group), *pods, held={pods[0]: "gpu-1"})
    effects = [*engine.send(messages.ActivityChanged(True)), *engine.tick()]
    assert [e for e in effects if isinstance(e, messages.Withdraw)] == [withdraw(pods[0])]
    engine.held({})
    engine.tick()
    assert engine.nodes(pods) == (["gpu-0", "gpu-0"] if group == 2 else [None, None])


def test_a_held_call_of_a_pod_that_asks_for_what_no_node_offers_is_withdrawn() -> None:
    pod = make_pod(request={"example.com/fpga": 1}, group="train")
    engine = waking_up(gpu_node("gpu-0"), make_group("train", 1), pod, held={pod: "gpu-0"})
    effects = [*engine.send(messages.ActivityChanged(True)), *engine.tick()]
    assert [e for e in effects if isinstance(e, messages.Withdraw)] == [withdraw(pod)]
    assert engine.reserved == 0


def test_pods_that_an_earlier_life_rejected_are_woken() -> None:
    seen, unseen = make_pods(2, request=ONE)
    seen = replace(seen, rejection="0/1 nodes are available: 1 waiting in its queue.")
    engine = waking_up(gpu_node(), seen, unseen)
    engine.send(messages.ActivityChanged(True))
    assert engine.tick() == wakes([seen], engine.now)
    late = replace(unseen, rejection=seen.rejection)
    assert engine.see(late) == wakes([unseen], engine.now)


def test_acting_no_more_and_again_loses_nothing() -> None:
    pods = gated(make_pods(4, request=ONE, group="train"))
    lone = make_pod("lone", {GPU: 5}, created=5.0)
    engine = Driver(gpu_node(), make_group("train", 4), *pods, lone)
    engine.tick()
    assert (engine.reserved, engine.reason(lone)) == (4, Reason.RESOURCES)
    assert engine.send(messages.ActivityChanged(False)) == []
    assert engine.reserved == 0
    engine.see(*(replace(pod, gates=()) for pod in pods))
    engine.held({pod: "gpu-0" for pod in pods[:2]})
    assert engine.ticks(5) == []
    engine.send(messages.ActivityChanged(True))
    engine.tick()
    assert engine.nodes([*pods, lone]) == [*4 * ["gpu-0"], None]
    assert engine.send(messages.ActivityChanged(True)) == []
    assert engine.reserved == 4


def test_what_an_earlier_life_wrote_last_and_shows_up_late_is_undone() -> None:
    pod = gated([make_pod("one", {GPU: 99})])[0]
    engine = Driver(gpu_node(), pod, above=BY_NOMINATION, opened=NOTHING)
    assert engine.tick() == []
    engine.see(replace(pod, nominated=NodeName("gpu-0")))
    assert engine.tick() == [nominate(pod, None)]


def test_a_clearing_of_an_earlier_term_that_fails_is_tried_again_in_the_next() -> None:
    pod = gated([make_pod("a-0", ONE, group="train")])[0]
    group = make_group("train", 1)
    engine = Driver(gpu_node(), group, pod, above=BY_NOMINATION, opened=NOTHING)
    engine.tick()
    engine.gone(group)
    (clearing,) = engine.tick()
    engine.done(clearing, error="timeout")
    engine.send(messages.ActivityChanged(False), messages.ActivityChanged(True))
    engine.done(clearing, error="timeout")
    assert engine.ticks(5) == [clearing]
    engine.done(clearing)
    assert engine.ticks(5) == []
    assert engine.reserved == 0


def test_of_groups_of_one_second_the_one_that_was_let_go_before_keeps_its_room() -> None:
    let_go = make_pods(8, "z", request=ONE, group="z-let-go")
    behind = gated(make_pods(8, "a", request=ONE, group="a-gated"))
    groups = (make_group("z-let-go", 8), make_group("a-gated", 8))
    engine = waking_up(gpu_node(), *groups, *let_go, *behind)
    engine.send(messages.ActivityChanged(True), messages.Tick())
    assert all(engine.nodes(let_go))
    assert not any(engine.nodes(behind))
