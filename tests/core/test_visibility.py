"""Who is shown to a cluster autoscaler: whole groups that wait for room within quota, of each queue only so many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core import messages
from extender.core.ids import QueueName
from extender.core.messages import Ungate
from extender.core.model import Node, Pod, Queue
from extender.core.reasons import Reason
from extender.core.visibility import LOOK_SECONDS, SHOWN_AFTER_SECONDS, SHOWN_PODS
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_node, make_pod, make_queue
from tests.core.engine_driver import Driver, gated, ungates, wakes

AFTER = SHOWN_AFTER_SECONDS + LOOK_SECONDS


def queue(name: str = "a", gpus: int | None = None, **fields: Any) -> Queue:
    """A queue that shows what waits."""
    return make_queue(name, capability=() if gpus is None else ((GPU, gpus),), **({"visible": True} | fields))


def gang(name: str, size: int, queue: str = "a", gpus: int = 1, **fields: Any) -> list[Pod]:
    fields = {"group": name, "queue": QueueName(queue)} | fields
    return gated([make_pod(f"{name}-{n:04}", {GPU: gpus}, **fields) for n in range(size)])


def shown(engine: Driver, seconds: float = AFTER) -> list[str]:
    """Time passes; names of the pods whose gates are removed though they have no place, in order. The watch follows."""
    found: list[str] = []
    for _ in range(round(2 * seconds)):
        for effect in engine.tick(0.5):
            if isinstance(effect, Ungate) and engine.engine.view.planned(effect.uid) is None:
                found.append(effect.name)
                engine.see(replace(engine.engine.world.pods[effect.uid], gates=()))
    return found


def groups_of(names: list[str]) -> dict[str, int]:
    """How many of each group are among these pods."""
    found: dict[str, int] = {}
    for name in names:
        group = name.rpartition("-")[0]
        found[group] = found.get(group, 0) + 1
    return found


def test_a_gang_that_waits_for_room_is_shown_whole_and_once() -> None:
    pods = gang("train", 4)
    engine = Driver(gpu_node(gpus=2), queue(), make_group("train", 4), *pods)
    assert shown(engine, SHOWN_AFTER_SECONDS - 1) == []
    assert shown(engine) == [pod.name for pod in pods]
    assert [e for e in engine.effects if isinstance(e, Ungate)] == ungates(pods)
    assert shown(engine, 60) == []


def test_who_is_in_sight_starts_when_nodes_appear() -> None:
    pods = gang("train", 4)
    engine = Driver(gpu_node(gpus=2), queue(), make_group("train", 4), *pods)
    assert len(shown(engine)) == 4
    engine.send(*(messages.FilterRejected(pod.uid) for pod in pods))
    engine.see(gpu_node("new", 8))
    effects = engine.tick()
    assert None not in engine.nodes(pods)
    assert [e for e in effects if isinstance(e, messages.Wake)] == wakes(pods, engine.now)


#: what waits beside a node of two GPUs, and why it is none of an autoscaler's business
HIDDEN: dict[str, tuple[list[Any], Reason]] = {
    "its queue does not ask for it": ([queue(visible=False), make_group("g", 3), *gang("g", 3)], Reason.RESOURCES),
    "it waits for quota": ([queue(gpus=2), make_group("g", 3), *gang("g", 3)], Reason.QUOTA),
    "it waits for quota of the queue above": (
        [queue("top", 2, visible=False), queue(parent=QueueName("top")), make_group("g", 3), *gang("g", 3)],
        Reason.QUOTA,
    ),
    "it waits for members": ([queue(), make_group("g", 4), *gang("g", 3)], Reason.MEMBERS),
    "its group is unknown": ([queue(), *gang("g", 3)], Reason.GROUP_NOT_FOUND),
    "its queue is closed": ([queue(closed=True), make_group("g", 3), *gang("g", 3)], Reason.QUEUE_CLOSED),
    "its pods are not sound": ([queue(), make_group("g", 3), *gang("g", 3, problems=("x",))], Reason.INVALID),
    "the room is promised to others": (
        [queue(), make_queue("kept", guarantee=((GPU, 2),)), make_group("g", 2), *gang("g", 2)],
        Reason.RESERVED,
    ),
}


@pytest.mark.parametrize(("things", "reason"), HIDDEN.values(), ids=HIDDEN)
def test_nothing_else_is_shown(things: list[Any], reason: Reason) -> None:
    engine = Driver(gpu_node(gpus=2), *things)
    assert shown(engine, 3 * AFTER) == []
    assert engine.reason(builders.group_key("g")) is reason


#: nodes, pods, and the reason that more nodes would end
WAITS: dict[str, tuple[list[Node], list[Pod], Reason]] = {
    "for any room": ([gpu_node(gpus=2)], gang("g", 3), Reason.RESOURCES),
    "for a resource that no node has": ([make_node()], gang("g", 3), Reason.RESOURCES),
    "without any node": ([], gang("g", 3), Reason.CONSTRAINTS),
    "for room in one piece": ([gpu_node("x", 3), gpu_node("y", 3)], gang("g", 3, gpus=2), Reason.FRAGMENTED),
    "for nodes of a kind that are not there": (
        [gpu_node()],
        gang("g", 3, constraints={"selector": (("pool", "large"),)}),
        Reason.CONSTRAINTS,
    ),
}


@pytest.mark.parametrize(("nodes", "pods", "reason"), WAITS.values(), ids=WAITS)
def test_whatever_more_nodes_would_end_is_shown(nodes: list[Node], pods: list[Pod], reason: Reason) -> None:
    engine = Driver(*nodes, queue(gpus=9), make_group("g", 3), *pods)
    assert groups_of(shown(engine)) == {"g": 3}
    assert engine.reason(builders.group_key("g")) is reason


def test_room_in_one_domain_is_waited_for_in_sight() -> None:
    nodes = [gpu_node(f"n{n}", 2, {"rack": f"r{n}"}) for n in range(2)]
    engine = Driver(*nodes, queue(), make_group("g", 3, topology_required="rack"), *gang("g", 3))
    assert groups_of(shown(engine)) == {"g": 3}
    assert engine.reason(builders.group_key("g")) is Reason.TOPOLOGY


def test_what_is_in_sight_fits_into_the_quota_together_at_every_level() -> None:
    top = QueueName("top")
    engine = Driver(
        make_node(),
        *(make_queue("top", capability=((GPU, 8),)), queue("a", 5, parent=top), queue("b", parent=top)),
        *(make_group("first", 4), make_group("second", 4), make_group("third", 5), make_group("fourth", 4)),
        *(*gang("first", 4), *gang("second", 4, created=1.0)),
        *(*gang("third", 5, "b"), *gang("fourth", 4, "b", created=1.0)),
    )
    assert groups_of(shown(engine, 3 * AFTER)) == {"first": 4}  # `fourth` would fit, and does not pass `third`
    engine.see(make_queue("top", capability=((GPU, 9),)))
    assert groups_of(shown(engine)) == {"third": 5}


def test_of_each_queue_so_many_pods_are_in_sight_in_its_order() -> None:
    half = SHOWN_PODS // 2
    early = gang("early", half, created=1.0)
    engine = Driver(
        *(make_node(), queue("a"), queue("b")),
        *(make_group("late", half), make_group("early", half), make_group("urgent", half), make_group("other", 3)),
        *(*gang("late", half, created=2.0), *early, *gang("urgent", half, created=3.0, priority=5)),
        *gang("other", 3, "b"),
    )
    found = shown(engine)
    assert groups_of(found) == {"early": half, "urgent": half, "other": 3}
    assert found[0].startswith("urgent")
    assert shown(engine, 3 * AFTER) == []
    engine.gone(*early)
    assert groups_of(shown(engine)) == {"late": half}


def test_a_gang_of_any_size_is_shown_if_nothing_else_is_in_sight() -> None:
    size = 2 * SHOWN_PODS
    engine = Driver(make_node(), queue(), make_group("large", size), *gang("large", size), *gang("one", 1, group=None))
    assert groups_of(shown(engine, 3 * AFTER)) == {"large": size}
    engine = Driver(make_node(), queue(), *gang("one", 1, group=None))
    assert groups_of(shown(engine)) == {"one": 1}
    engine.see(make_group("large", size), *gang("large", size), *gang("two", 1, group=None, created=1.0))
    assert groups_of(shown(engine, 3 * AFTER)) == {}


def test_the_rest_of_a_group_follows_what_is_in_sight_whatever_its_size() -> None:
    size = 2 * SHOWN_PODS
    pods = gang("large", size)
    ungated = [replace(pod, gates=()) for pod in pods[:200]]  # an earlier life of ours was interrupted
    engine = Driver(make_node(), queue(), make_group("large", size), *ungated, *pods[200:])
    assert groups_of(shown(engine, 3 * AFTER)) == {"large": size - 200}
    engine.see(*gang("large", size + 1)[size:])
    assert groups_of(shown(engine)) == {"large": 1}


def test_a_gate_that_could_not_be_removed_is_tried_again_but_not_at_once() -> None:
    engine = Driver(make_node(), queue(), make_group("g", 1), *gang("g", 1))
    engine.ticks(AFTER)
    (effect,) = [e for e in engine.effects if isinstance(e, Ungate)]
    engine.done(effect, error="timeout")
    assert engine.ticks(LOOK_SECONDS) == []
    assert engine.ticks(SHOWN_AFTER_SECONDS) == [effect]


def test_what_is_wanted_beside_a_running_gang_is_not_shown() -> None:
    pods = gang("g", 4)
    engine = Driver(gpu_node(gpus=2), queue(), make_group("g", 2), *pods)
    engine.tick()
    engine.bind(*(pod for pod in pods if engine.node(pod)))
    assert shown(engine, 3 * AFTER) == []
    assert engine.reason(builders.group_key("g")) is Reason.RESOURCES


def test_the_replacement_of_a_lost_member_is_shown_while_its_gang_is_below_the_minimum() -> None:
    pods = gang("g", 3)
    engine = Driver(gpu_node(gpus=3), queue(), make_group("g", 3), *pods)
    engine.tick()
    engine.bind(*pods)
    engine.tick()
    engine.see(*gang("rival", 1, "b", scheduler="other", node="gpu-0"))
    engine.gone(pods[0])
    engine.see(*gang("again", 1, group="g"))
    assert groups_of(shown(engine)) == {"again": 1}


def test_the_setting_of_a_queue_acts_from_when_it_is_changed() -> None:
    engine = Driver(make_node(), queue(visible=False), make_group("g", 3), *gang("g", 3))
    assert shown(engine) == []
    engine.see(queue())
    assert groups_of(shown(engine, LOOK_SECONDS)) == {"g": 3}
    engine.see(queue(visible=False), make_group("h", 3), *gang("h", 3))
    assert shown(engine, 3 * AFTER) == []


def test_an_engine_that_does_not_act_shows_nothing_and_a_new_life_goes_on() -> None:
    engine = Driver(make_node(), queue(), make_group("g", 3), *gang("g", 3))
    engine.send(messages.ActivityChanged(False))
    assert shown(engine, 3 * AFTER) == []
    engine.send(messages.ActivityChanged(True))
    assert groups_of(shown(engine)) == {"g": 3}
