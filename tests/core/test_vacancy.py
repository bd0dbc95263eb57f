"""Group objects without members: the reason that is given for them, and when it is written."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from extender.core import messages, vacancy
from extender.core.ids import QueueName, Source
from extender.core.messages import StateGroup
from extender.core.model import Group
from extender.core.planning import EXPECT_SECONDS
from extender.core.reasons import Reason
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_pods, make_queue
from tests.core.engine_driver import Driver

TRAIN = builders.group_key("train")


def statements(effects: Iterable[object]) -> list[StateGroup]:
    """Those among these effects."""
    return [effect for effect in effects if isinstance(effect, StateGroup)]


def why(engine: Driver, key: builders.GroupKey = TRAIN) -> tuple[Reason, dict[str, object]] | None:
    """The answer to why the group waits."""
    refusal = engine.engine.view.why(key)
    return None if refusal is None else (refusal.reason, dict(refusal.detail))


REASONS = {
    "members": (make_group("train", 4), (Reason.MEMBERS, {"have": 0, "minimum": 4})),
    "members of a task": (
        make_group("train", 4, {"ps": 1}),
        (Reason.MEMBERS, {"have": 0, "minimum": 1, "task": "ps"}),
    ),
    "a queue": (make_group("train", 4, queue="none"), (Reason.QUEUE_NOT_FOUND, {"queue": "none"})),
    "a person": (make_group("train", 4, problems=("spec: wrong",)), (Reason.INVALID, {"problem": "spec: wrong"})),
}


@pytest.mark.parametrize(("group", "want"), REASONS.values(), ids=REASONS.keys())
def test_without_members_it_waits_for(group: Group, want: tuple[Reason, dict[str, object]]) -> None:
    engine = Driver(group)
    assert why(engine) == want
    assert engine.engine.entries == {}, "it costs nothing"
    engine.gone(group)
    assert why(engine) is None


def test_what_is_unknown_waits_for_nothing() -> None:
    assert why(Driver()) is None


def test_one_that_is_new_is_given_time_for_its_members_before_it_is_written_to() -> None:
    engine = Driver(make_group("train", 4))
    assert statements(engine.ticks(EXPECT_SECONDS - 1)) == []
    [said] = statements(engine.ticks(3))
    assert (said.phase, said.refusal, said.counts) == ("Pending", engine.engine.view.why(TRAIN), (0, 0, 0, 0))
    assert statements(engine.ticks(60)) == [], "it is said once"


def test_one_whose_members_come_is_not_written_to() -> None:
    engine = Driver(gpu_node(), make_group("train", 2))
    engine.ticks(5)
    engine.see(*make_pods(2, request={GPU: 1}, group="train"))
    assert statements(engine.ticks(60)) == []


def test_one_that_ran_and_lost_all_its_members_says_so_soon() -> None:
    pods = make_pods(2, request={GPU: 1}, group="train")
    engine = Driver(gpu_node(), make_group("train", 2), *pods)
    engine.tick()
    engine.bind(*pods)
    assert [said.phase for said in statements(engine.tick())] == ["Running"]
    engine.gone(*pods)
    assert [(said.phase, said.refusal.reason) for said in statements(engine.ticks(3)) if said.refusal] == [
        ("Pending", Reason.MEMBERS)
    ]
    back = make_pods(2, "back", request={GPU: 1}, group="train")
    engine.see(*back)
    engine.tick()
    engine.bind(*back)
    # the object may still say what it said first: what was written since counts
    engine.see(make_group("train", 2, phase="Running"))
    assert [said.phase for said in statements(engine.ticks(3))] == ["Running"]


def test_what_stands_in_the_object_already_is_not_written_again() -> None:
    engine = Driver(make_group("train", 4, phase="Pending", stated_reason="WaitingForMembers"))
    assert statements(engine.ticks(60)) == []


def test_a_write_that_failed_is_made_again() -> None:
    engine = Driver(make_group("train", 4, phase="Running"))
    [said] = statements(engine.ticks(3))
    engine.done(said, error="no route")
    assert statements(engine.ticks(8)) == []
    assert statements(engine.ticks(4)) == [said]


def test_another_object_of_the_same_name_is_written_to_as_well() -> None:
    engine = Driver(make_group("train", 4))
    assert len(statements(engine.ticks(12))) == 1
    engine.gone(make_group("train", 4))
    engine.ticks(5)
    engine.see(make_group("train", 4))
    assert len(statements(engine.ticks(12))) == 1


def test_another_reason_is_said_when_the_queues_change() -> None:
    engine = Driver(make_group("train", 4, queue="late"))
    assert [s.refusal.reason for s in statements(engine.ticks(12)) if s.refusal] == [Reason.QUEUE_NOT_FOUND]
    engine.see(make_queue("late"))
    assert [s.refusal.reason for s in statements(engine.ticks(3)) if s.refusal] == [Reason.MEMBERS]


def test_another_reason_is_said_when_the_namespace_names_another_queue() -> None:
    said = make_group("train", 4, phase="Pending", stated_reason="WaitingForMembers")
    engine = Driver(said)
    assert statements(engine.ticks(12)) == []
    engine.send(messages.NamespaceSeen("team", QueueName("none")))
    assert [s.refusal.reason for s in statements(engine.ticks(3)) if s.refusal] == [Reason.QUEUE_NOT_FOUND]


def test_objects_of_other_sources_are_their_controllers_to_write() -> None:
    engine = Driver(
        *(make_group("train", 4, source=source) for source in Source if source not in ("pod", "muster", "kueue"))
    )
    assert statements(engine.ticks(60)) == []


def test_of_very_many_a_few_are_written_at_a_time() -> None:
    engine = Driver(*(make_group(f"g{n}", 4) for n in range(100)))
    written = [len(statements(engine.tick(1.0))) for _ in range(30)]
    assert sum(written) == 100
    assert max(written) == vacancy.STATEMENTS


def test_an_engine_that_does_not_act_writes_nothing_and_catches_up() -> None:
    engine = Driver(make_group("train", 4, phase="Running"), active=False)
    assert statements(engine.ticks(60)) == []
    engine.send(messages.ActivityChanged(True), messages.OpenQueuesSeen(frozenset({QueueName("default")})))
    assert len(statements(engine.ticks(5))) == 1
