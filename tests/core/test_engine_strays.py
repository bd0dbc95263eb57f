"""Strays close the queue through which they came, whatever they wait for (design 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from extender.core import messages
from extender.core.backlog import STRAY_LIMIT
from extender.core.ids import QueueName
from extender.core.model import Pod
from extender.core.opening import REOPEN_SECONDS
from extender.core.reasons import Reason
from tests.builders import gpu_node, make_group, make_pod, make_pods, make_queue
from tests.core.engine_driver import Driver

BLUE = QueueName("blue")
GHOST = {"group": "ghost"}


def blue_pods(number: int, **fields: Any) -> list[Pod]:
    return make_pods(number, queue=BLUE, **fields)


#: pods that came through queue blue, and why they wait
THROUGH_BLUE: dict[str, tuple[Callable[[int], list[Any]], Reason]] = {
    "no node matches them": (
        lambda number: blue_pods(number, constraints={"selector": (("zone", "nowhere"),)}),
        Reason.CONSTRAINTS,
    ),
    "their group does not exist": (lambda number: blue_pods(number, **GHOST), Reason.GROUP_NOT_FOUND),
    "their group has too few members": (
        lambda number: [make_group("ghost", 99), *blue_pods(number, **GHOST)],
        Reason.MEMBERS,
    ),
    "they are not sound": (lambda number: blue_pods(number, problems=("x is negative",)), Reason.INVALID),
    "one of their group names another queue": (
        lambda number: [make_pod("a-first", group="ghost", queue=QueueName("red")), *blue_pods(number, **GHOST)],
        Reason.INVALID,
    ),
    "they are not sound, and it is their namespace that names the queue": (
        lambda number: make_pods(number, namespace="blues", problems=("x is negative",)),
        Reason.INVALID,
    ),
}


@pytest.mark.parametrize(("number", "open_"), [(STRAY_LIMIT - 1, True), (STRAY_LIMIT, False)])
@pytest.mark.parametrize(("things", "reason"), THROUGH_BLUE.values(), ids=THROUGH_BLUE.keys())
def test_strays_close_the_queue_through_which_they_came_whatever_they_wait_for(
    things: Callable[[int], list[Any]], reason: Reason, number: int, open_: bool
) -> None:
    engine = Driver(gpu_node(), make_queue("red"), make_queue("blue"))
    engine.send(messages.NamespaceSeen("blues", BLUE))
    engine.see(*things(number))
    engine.tick(REOPEN_SECONDS)
    engine.ticks(20)
    last = [e for e in engine.effects if isinstance(e, messages.SetOpenQueues)][-1]
    assert {entry.refusal.reason for entry in engine.engine.entries.values() if entry.refusal} == {reason}
    assert last.names >= {"red", "default"}
    assert (BLUE in last.names) is open_
