"""Who was evicted, as pods tell it: what counts, what is one go, and what is written of it, within its budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core import evictions, messages
from extender.core.evictions import Eviction
from extender.core.ids import PodUid, Source
from extender.core.messages import NoteEviction, StateGroup
from extender.core.model import Owner, Pod
from extender.core.reasons import NOT_OURS, Evicted, Ground, Reason
from extender.wire import frozen
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_pod
from tests.core.engine_driver import START, Driver

JOB = Owner("Job", "train", "uid-of-train")
TRAIN = builders.group_key("train")
DRAINED = Evicted(Ground.API, 0.0, (("said", "Eviction API: evicting"),))


def member(number: int, life: int = 0, **fields: Any) -> Pod:
    """A member of `train` that has run for 600 s."""
    name = f"train-{number}"
    pod = make_pod(name, {GPU: 1}, **({"group": "train", "owner": JOB, "uid": f"{name}.{life}"} | fields))
    return builders.bound(pod, "gpu-0", START - 600)


def leave(engine: Driver, *pods: Pod, evicted: Evicted | None = DRAINED) -> list[messages.Effect]:
    """They are marked, leave and are gone, as the watch shows it."""
    effects: list[messages.Effect] = []
    for pod in pods:
        effects += engine.see(replace(pod, evicted=evicted))
        effects += engine.see(replace(pod, evicted=evicted, terminating=True))
    return effects + engine.gone(*pods)


def notes(effects: Iterable[object]) -> list[NoteEviction]:
    return [effect for effect in effects if isinstance(effect, NoteEviction)]


def records(engine: Driver) -> list[Eviction]:
    return list(engine.engine.evictions)


# --- what counts -------------------------------------------------------------------------------------


@dataclass
class Case:
    """The states of one pod, one after the other (None: gone), and the rules of the records that come of it."""

    states: list[dict[str, Any] | None]
    pod: Pod = field(default_factory=lambda: member(0))
    want: list[Ground] = field(default_factory=list)


MARKED: dict[str, Any] = {"evicted": DRAINED}
LEAVING: dict[str, Any] = {"terminating": True}
CASES = {
    "its owner deletes it": Case([{}, LEAVING, None]),
    "its owner deletes it at once": Case([{}, None]),
    "it is marked, leaves and is gone": Case([{}, MARKED, MARKED | LEAVING, None], want=[Ground.API]),
    "it is marked and gone at once": Case([{}, MARKED, None], want=[Ground.API]),
    "it is seen when it leaves already": Case([MARKED | LEAVING, None], want=[Ground.API]),
    "it is marked, and stays after all": Case([{}, MARKED, {}, LEAVING, None]),
    "it is said to leave, to stay, and to be gone": Case([{}, MARKED | LEAVING, MARKED, None], want=[Ground.API]),
    "its owner had deleted it before": Case([{}, LEAVING, MARKED | LEAVING, None]),
    "its kubelet ends it, and its object stays": Case(
        [{}, {"evicted": Evicted(Ground.KUBELET, 0.0), "phase": "Failed"}, {"phase": "Failed"}, None],
        want=[Ground.KUBELET],
    ),
    "it had ended well": Case([{}, {"phase": "Succeeded"}, MARKED | {"phase": "Succeeded"}, None]),
    "it had failed by itself": Case([{}, {"phase": "Failed"}, MARKED | {"phase": "Failed"} | LEAVING, None]),
    "it was on no node": Case([{"node": None}, MARKED | {"node": None}, MARKED | LEAVING | {"node": None}, None]),
    "we evict it": Case(
        [{}, {"evicted": Evicted(Ground.PREEMPTED, 0.0)}, {"evicted": Evicted(Ground.PREEMPTED, 0.0)} | LEAVING, None],
        want=[Ground.PREEMPTED],
    ),
    "the permit gate evicts it": Case(
        [{}, {"evicted": Evicted(Ground.PARTIAL_RELEASE, 0.0)} | LEAVING, None], want=[Ground.PARTIAL_RELEASE]
    ),
    "it is another scheduler's": Case([{}, MARKED | LEAVING, None], member(0, scheduler="default-scheduler")),
    "it is another scheduler's, in a managed namespace": Case(
        [{}, MARKED | LEAVING, None], member(0, scheduler="other", namespace="managed"), [Ground.API]
    ),
    "it stands alone": Case([{}, MARKED | LEAVING, None], member(0, group=None), [Ground.API]),
}


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_an_eviction(case: Case, active: bool) -> None:
    engine = Driver(gpu_node(), make_group("train", 1), active=active)
    engine.send(messages.NamespaceSeen("managed", None, True))
    for state in case.states:
        if state is None:
            engine.gone(case.pod)
        else:
            engine.see(replace(case.pod, **state))
            engine.see(replace(case.pod, **state))  # a watch that began anew
    assert [record.ground for record in records(engine)] == case.want
    assert [record.pods for record in records(engine)] == [1] * len(case.want)


def test_a_record_says_when_where_what_was_lost_and_what_was_said() -> None:
    engine = Driver(gpu_node(), gpu_node("gpu-1"), make_group("train", 3), *(member(n) for n in range(3)))
    saved = replace(member(2), checkpoint=START - 100, node=builders.NodeName("gpu-1"))
    engine.see(saved)
    engine.now += 10
    leave(engine, member(0), evicted=replace(DRAINED, at=START + 5))
    leave(engine, saved, evicted=replace(DRAINED, at=START + 7))
    (record,) = records(engine)
    assert (record.at, record.last, record.pods, record.queue) == (START + 5, START + 7, 2, "default")
    assert record.detail == (
        *(("node", "gpu-0"), ("node", "gpu-1")),
        *(("evicted", 2), ("lost-seconds", 105 + 107), ("checkpoint", "105 s old")),
        ("said", "Eviction API: evicting"),
    )
    assert engine.engine.evictions.of_pod("team", "train-0") == record
    assert engine.engine.evictions.of(TRAIN, "train") == (record,)


@pytest.mark.parametrize(("at", "want"), [(0.0, START), (START + 99, START), (START - 3, START - 3), (-5.0, START)])
def test_a_time_that_cannot_be_is_now(at: float, want: float) -> None:
    engine = Driver(gpu_node(), member(0))
    leave(engine, member(0), evicted=replace(DRAINED, at=at))
    assert [record.at for record in records(engine)] == [want]


def test_another_ground_or_a_later_time_is_another_go() -> None:
    pods = [member(n) for n in range(4)]
    engine = Driver(gpu_node(), make_group("train", 4), *pods)
    leave(engine, pods[0])
    leave(engine, pods[1], evicted=Evicted(Ground.TAINT, 0.0))
    engine.now += evictions.SAME_SECONDS
    leave(engine, pods[2], evicted=Evicted(Ground.TAINT, 0.0, (("said", "of another pod"),)))
    engine.now += evictions.SAME_SECONDS + 1
    leave(engine, pods[3], evicted=Evicted(Ground.TAINT, 0.0))
    assert [(one.ground, one.pods) for one in records(engine)] == [
        (Ground.API, 1),
        (Ground.TAINT, 2),
        (Ground.TAINT, 1),
    ]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evictions, "KEPT", 5)
    monkeypatch.setattr(evictions, "PODS_KEPT", 7)
    engine = Driver(gpu_node())
    for number in range(20):
        pod = member(number, group=f"g-{number}")
        engine.see(make_group(f"g-{number}", 1), pod)
        leave(engine, pod)
    assert [record.name for record in records(engine)] == [f"g-{n}" for n in range(15, 20)]
    kept = engine.engine.evictions
    assert {len(kept._newest), len(kept._untold)} == {5}
    assert len(kept._of_pod) == 7
    assert kept.of_pod("team", "train-13") is None  # its record went
    assert {note.key.name for note in notes(engine.ticks(5))} == {f"g-{n}" for n in range(15, 20)}


# --- what is written ---------------------------------------------------------------------------------


def test_many_members_of_one_moment_are_one_note_on_their_group() -> None:
    pods = [member(n) for n in range(8)]
    engine = Driver(gpu_node(), make_group("train", 8), *pods)
    engine.tick()
    effects = leave(engine, *pods[:4]) + engine.tick(1.0) + leave(engine, *pods[4:]) + engine.ticks(10)
    (note,) = notes(effects)
    assert (note.key, note.uid, note.ground, note.name) == (TRAIN, "uid-of-train", Ground.API, "")
    assert dict(note.detail)["evicted"] == 8
    assert note.at == START + 1


def test_a_pod_that_stands_alone_is_told_of_too() -> None:
    engine = Driver(gpu_node(), member(0, group=None))
    effects = leave(engine, member(0, group=None)) + engine.ticks(5)
    (note,) = notes(effects)
    assert (note.key.lone, note.uid, note.name) == (True, "train-0.0", "train-0")


def test_the_object_that_made_the_pods_is_left_as_it_is() -> None:
    made = builders.group_key("job:train", Source.OWNER)
    engine = Driver(gpu_node(), make_group("job:train", 1, source=Source.OWNER), member(0, group=made))
    assert notes(leave(engine, member(0, group=made)) + engine.ticks(5)) == []
    assert [record.group for record in records(engine)] == [made]


@pytest.mark.parametrize("ground", Ground)
def test_who_decides_an_eviction_of_ours_writes_it_down_and_all_others_are_written_here(ground: Ground) -> None:
    engine = Driver(gpu_node(), make_group("train", 1), member(0))
    engine.tick()
    found = notes(leave(engine, member(0), evicted=Evicted(ground, 0.0)) + engine.ticks(5))
    assert len(found) == (ground not in (Ground.RECLAIMED, Ground.PREEMPTED, Ground.STALE))
    assert ground not in NOT_OURS or found


def test_a_group_that_others_evict_for_ever_costs_ten_writes_an_hour_at_most() -> None:
    """A note is two writes, as a reason is: while the group waits they are counted together."""
    engine = Driver(gpu_node(), make_group("train", 3), *(member(n) for n in range(3)))
    engine.tick()
    written: list[float] = []
    for life in range(90):  # each minute one goes, and another one comes that is bound elsewhere
        pod, heir = member(0, life), member(0, life + 1)
        effects = leave(engine, pod) + engine.ticks(30, 15) + engine.see(heir) + engine.tick(30)
        written += [engine.now] * len(notes(effects))
    assert written
    for at in written:
        assert 2 * len([other for other in written if at <= other < at + 3600]) <= 10
    assert len(records(engine)[-1:]) == 1


def test_reasons_and_notes_of_a_group_that_waits_are_one_budget() -> None:
    engine = Driver(gpu_node(), make_group("train", 4), member(1), member(2))
    written: list[tuple[float, int]] = []
    engine.ticks(20)  # it waits for two members, of which one comes and goes
    began = engine.now
    for life in range(1, 90):
        lost = member(0, life)
        effects = engine.see(lost, builders.make_queue("default", closed=bool(life % 2))) + engine.tick(20)
        effects += leave(engine, lost) + engine.ticks(40, 20)
        written += [(engine.now, 2) for one in effects if isinstance(one, NoteEviction | StateGroup)]
    assert engine.reason(TRAIN) in (Reason.MEMBERS, Reason.QUEUE_CLOSED)
    for at, _ in written:
        assert sum(calls for other, calls in written if at <= other < at + 3600) <= 10
    assert written[-1][0] > began + 600


def test_what_stands_on_the_object_is_not_written_again_after_a_restart_and_what_does_not_is() -> None:
    failed = replace(member(0), phase="Failed", evicted=Evicted(Ground.KUBELET, START - 50))
    for stated, want in ((0.0, 1), (START - 90, 1), (START - 50, 0), (START, 0)):
        engine = Driver(gpu_node(), make_group("train", 2, evicted_at=stated), failed, member(1), active=False)
        engine.send(messages.ActivityChanged(True))
        assert len(notes(engine.ticks(5))) == want, stated
        assert [record.at for record in records(engine)] == [START - 50]


def test_a_replica_that_takes_over_tells_nothing_again_of_pods_alone() -> None:
    engine = Driver(gpu_node(), member(0, group=None), active=False)
    leave(engine, member(0, group=None))
    engine.send(messages.ActivityChanged(True))
    assert notes(engine.ticks(5)) == []
    assert len(records(engine)) == 1


def test_the_records_are_part_of_the_state_that_a_log_begins_with() -> None:
    engine = Driver(gpu_node(), make_group("train", 2), member(0), member(1))
    leave(engine, member(0))
    again = frozen.thaw(frozen.freeze(engine.engine))
    assert list(again.evictions) == records(engine)
    for one in (engine.engine, again):
        assert len(notes(one.handle(messages.Tick(), START + 1) + one.handle(messages.Tick(), START + 9))) == 1


# --- any order of events -----------------------------------------------------------------------------

_states = st.fixed_dictionaries(
    {
        "terminating": st.booleans(),
        "phase": st.sampled_from(("Pending", "Running", "Failed", "Succeeded")),
        "evicted": st.none() | st.builds(Evicted, st.sampled_from(Ground), st.just(0.0)),
    }
)


@given(st.lists(st.tuples(st.integers(0, 3), _states | st.none(), st.sampled_from((0.0, 3.0, 70.0))), max_size=30))
def test_each_pod_is_counted_once_at_most_and_never_without_a_mark(
    steps: list[tuple[int, dict[str, Any] | None, float]],
) -> None:
    world = builders.make_world(make_group("train", 2))
    kept, now = evictions.Evictions(world, {}), START
    marked: set[PodUid] = set()
    for number, state, seconds in steps:
        pod = member(number)
        before = world.pods.get(pod.uid)
        world.apply(messages.PodGone(pod.uid) if state is None else messages.PodSeen(replace(pod, **state)))
        kept.seen(before, world.pods.get(pod.uid), now)
        if state is not None and state["evicted"] is not None:
            marked.add(pod.uid)
        now += seconds
    assert sum(record.pods for record in kept) <= len(marked)
    assert all(record.number == number for number, record in kept._records.items())
