"""What is written about a group that waits: soon at first, and however often its reason changes not often."""

from __future__ import annotations

from dataclasses import replace

import pytest
from engine_driver import Driver

from extender.core import messages, stating
from extender.core.ids import Source
from extender.core.reasons import Reason, Refusal
from extender.wire import status
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_pods

HOUR = 3600.0
#: what the group asks for while it waits: two pods of 6 GPUs; too little in sum, or in pieces too small
LITTLE, PIECES = (gpu_node("a", 8), gpu_node("b", 1)), (gpu_node("a", 8), gpu_node("b", 5))


def restless(seconds: float, step: float, source: Source = Source.MUSTER) -> tuple[Driver, list[tuple[float, str]]]:
    """A gang that waits for one reason and the other, in turn; when which one was written."""
    group = make_group("train", 2, source=source)
    pods = make_pods(2, request={GPU: 6}, group=group.key)
    driver, told = Driver(*LITTLE, group, *pods), []
    for number in range(round(seconds / step)):
        driver.see(*(PIECES if number % 2 else LITTLE))
        effects = driver.ticks(step, step=min(step / 2, 20.0))
        refusals = [one.refusal for one in effects if isinstance(one, messages.StateGroup) and one.refusal is not None]
        told += [(driver.now, refusal.reason.value) for refusal in refusals]
    return driver, told


@pytest.mark.parametrize(
    ("step", "source", "most"),
    [(20.0, Source.MUSTER, 5), (900.0, Source.VOLCANO, 5), (60.0, Source.SCHEDULER_PLUGINS, 3)],
)
def test_the_reason_of_a_wait_is_written_only_so_often_in_an_hour(step: float, source: Source, most: int) -> None:
    _, told = restless(1.2 * HOUR, step, source)
    assert len(told) > 2
    for begin, _ in told:
        assert len([at for at, _ in told if begin <= at < begin + HOUR]) <= most
    key = builders.group_key("train", source)
    bodies = status.patches(
        messages.StateGroup(key, "u", "Pending", Refusal(Reason.QUEUED), 1, False, (2, 0, 0, 0)), "now"
    )
    writes = 1 + (bodies.status is not None) + (bodies.annotations is not None)  # the Event is one
    assert writes * most <= 10
    assert {word for _, word in told} == {Reason.RESOURCES.value, Reason.FRAGMENTED.value}


def test_the_first_reasons_are_written_at_once_and_the_last_one_in_the_end() -> None:
    driver, told = restless(60, 3.0)
    (first, _), *_, (third, word) = told[:3]
    assert third - first < 10
    driver.see(*PIECES)
    driver.ticks(2)
    (late,) = [one for one in driver.ticks(HOUR, step=5.0) if isinstance(one, messages.StateGroup)]
    assert late.refusal is not None
    assert (late.refusal.reason, word) == (Reason.FRAGMENTED, Reason.RESOURCES.value)


def test_another_generation_and_another_phase_are_written_at_once() -> None:
    driver, _ = restless(600, 3.0)  # the next pause is long
    group = replace(driver.engine.world.groups[builders.group_key("train")], generation=7, min_member=1)
    driver.see(group)
    (said,) = [one for one in driver.ticks(3) if isinstance(one, messages.StateGroup)]
    assert said.generation == 7
    driver.bind(*driver.engine.world.members[group.key].values())
    assert [one.phase for one in driver.ticks(3) if isinstance(one, messages.StateGroup)] == ["Running"]


@pytest.mark.parametrize(("pauses", "most"), [(stating.PAUSES, 5), (stating.PAUSES_OF_THREE, 3)])
def test_pauses_keep_the_budget_whenever_the_hour_begins(pauses: tuple[float, ...], most: int) -> None:
    times = [sum(pauses[:number]) for number in range(len(pauses) + 1)]
    times += [times[-1] + pauses[-1] * number for number in range(1, 9)]
    assert max(sum(1 for one in times if begin <= one < begin + HOUR) for begin in times) == most
