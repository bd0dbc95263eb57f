"""When a gang is planned, when it waits and for what: whole or not at all, from its first member on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core import messages
from extender.core.ids import QUEUE_GATE, QueueName
from extender.core.model import Owner, Pod
from extender.core.planning import EXPECT_SECONDS
from extender.core.reasons import Reason
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_pod, make_pods, make_queue
from tests.core import engine_driver
from tests.core.engine_driver import Driver, gated, ungates, withdraw

ONE = {GPU: 1}
TRAIN = builders.group_key("train")


def eight_nodes() -> list[builders.Node]:
    return [gpu_node(f"gpu-{n}") for n in range(8)]


def workers(count: int, **fields: object) -> list[Pod]:
    """Members of `train`, one GPU each."""
    return make_pods(count, "worker", request=ONE, group="train", **fields)


# --- whole or not at all -----------------------------------------------------------------------------


def test_a_gang_of_64_is_planned_whole_from_its_first_member() -> None:
    engine = Driver(*eight_nodes(), make_group("train", 64))
    first, *rest = gated(workers(64))
    engine.see(first)
    assert engine.tick() == ungates([first])
    assert engine.reserved == 64
    lone = make_pod("lone", ONE)
    engine.see(lone)
    engine.tick()
    assert engine.reason(lone) is Reason.RESOURCES
    # each further member takes the room that was kept for it, without a cycle
    assert engine.see(*rest) == ungates(rest)
    assert engine.reserved == 64
    assert sorted(engine.nodes([first, *rest])) == sorted(8 * [f"gpu-{n}" for n in range(8)])
    assert engine.reason(TRAIN) is None


def test_with_room_for_63_nothing_is_reserved_and_others_may_use_the_room() -> None:
    foreign = builders.bound(make_pod("foreign", ONE, scheduler="default-scheduler"), "gpu-3")
    engine = Driver(*eight_nodes(), foreign, make_group("train", 64), *gated(workers(64)))
    assert engine.tick() == [messages.SetOpenQueues(frozenset())]
    assert engine.reserved == 0
    assert engine.reason(TRAIN) is Reason.RESOURCES
    assert engine.detail(TRAIN) == {"resource": GPU, "asked": 64, "free": 63}
    others = gated(make_pods(63, "other", request=ONE))
    engine.see(*others)
    assert set(engine.tick()) == set(ungates(others))
    assert engine.reserved == 63


@pytest.mark.parametrize(
    "event",
    [
        pytest.param("foreign pod deleted", id="a foreign pod is deleted"),
        pytest.param("foreign pod ends", id="a foreign pod ends"),
        pytest.param("foreign pod shrinks", id="a foreign pod is resized in place"),
        pytest.param("node added", id="a node is added"),
        pytest.param("node grows", id="a node grows"),
        pytest.param("minimum lowered", id="the minimum is lowered"),
    ],
)
def test_it_is_planned_at_once_when(event: str) -> None:
    foreign = builders.bound(make_pod("foreign", {GPU: 2}, scheduler="default-scheduler"), "gpu-0")
    members = gated(workers(8))
    engine = Driver(gpu_node("gpu-0"), foreign, make_group("train", 8), *members)
    engine.tick()
    assert (engine.reserved, engine.reason(TRAIN)) == (0, Reason.RESOURCES)
    match event:
        case "foreign pod deleted":
            engine.gone(foreign)
        case "foreign pod ends":
            engine.see(replace(foreign, phase="Succeeded"))
        case "foreign pod shrinks":
            engine.see(replace(foreign, shape=builders.make_shape({})))
        case "node added":
            engine.see(gpu_node("gpu-1"))
        case "node grows":
            engine.see(gpu_node("gpu-0", 10))
        case "minimum lowered":
            engine.see(make_group("train", 6))
    placed = 6 if event == "minimum lowered" else 8
    effects = [e for e in engine.tick() if not isinstance(e, messages.SetOpenQueues)]
    assert effects == ungates(members[:placed])
    assert engine.reserved == placed


def test_two_gangs_interleaved_with_room_for_one_one_is_planned_and_the_other_holds_nothing() -> None:
    engine = Driver(gpu_node(), make_group("a", 8), make_group("b", 8))
    ours, theirs = (gated(make_pods(8, name, request=ONE, group=name, created=5.0)) for name in "ab")
    for one, other in zip(ours, theirs, strict=True):
        engine.see(one, other)
    effects = engine.tick()
    assert effects == [*ungates(ours), messages.SetOpenQueues(frozenset())]
    assert engine.nodes(theirs) == 8 * [None]


@pytest.mark.parametrize("wanting", ["priority", "age"])
def test_the_first_in_order_gets_the_room_by(wanting: str) -> None:
    engine = Driver(gpu_node(gpus=4), make_group("a", 4), make_group("b", 4))
    late = {"created": 9.0, "priority": 5} if wanting == "priority" else {"created": 1.0}
    first = gated(make_pods(4, "a", request=ONE, group="a", created=5.0))
    second = gated(make_pods(4, "b", request=ONE, group="b", **late))
    engine.see(*first, *second)
    assert engine.tick() == [*ungates(second), messages.SetOpenQueues(frozenset())]


def test_of_members_with_other_priorities_the_lowest_counts() -> None:
    engine = Driver(gpu_node(gpus=2), make_group("a", 2), make_group("b", 2))
    mixed = [make_pod("a-0", ONE, group="a", priority=9), make_pod("a-1", ONE, group="a", priority=1)]
    even = make_pods(2, "b", request=ONE, group="b", priority=5, created=7.0)
    engine.see(*mixed, *even)
    engine.tick()
    assert engine.nodes(even) == ["gpu-0", "gpu-0"]
    assert engine.reason(mixed[0]) is Reason.RESOURCES


def test_a_group_object_may_lower_the_priority_and_not_raise_it() -> None:
    engine = Driver(gpu_node(gpus=1), make_group("a", 1, priority=9), make_group("b", 1, priority=0))
    low = make_pod("a-0", ONE, group="a", priority=1, created=1.0)
    lowered = make_pod("b-0", ONE, group="b", priority=5)
    engine.see(low, lowered)
    engine.tick()
    assert engine.nodes([low, lowered]) == ["gpu-0", None]


# --- gangs that were hurt ----------------------------------------------------------------------------


def hurt_gang(count: int, left: int, **fields: object) -> list[Pod]:
    """What is left of `train`, running, and replacements of the rest."""
    pods = workers(count, owner=Owner("Job", "train", "u"), **fields)
    return [builders.bound(pod, "gpu-0") for pod in pods[:left]] + pods[left:]


@pytest.mark.parametrize(
    ("priority", "repaired"), [(0, True), (5, False)], ids=["of equal priority", "of higher priority"]
)
def test_a_hurt_gang_and_an_older_group(priority: int, repaired: bool) -> None:
    gang = hurt_gang(4, 2, created=9.0)
    old = make_pods(2, "old", request=ONE, group="old", created=1.0, priority=priority)
    engine = Driver(gpu_node(gpus=4), make_group("train", 4), make_group("old", 2), *gang, *old)
    engine.tick()
    assert [node is not None for node in engine.nodes([gang[-1], old[0]])] == [repaired, not repaired]


@pytest.mark.parametrize(("priority", "kept"), [(0, True), (5, False)], ids=["of equal priority", "of higher priority"])
def test_room_is_kept_for_a_replacement_before_an_older_group(priority: int, kept: bool) -> None:
    gang = hurt_gang(4, 4, created=9.0)
    old = make_pod("old", ONE, created=1.0, priority=priority)
    engine = Driver(gpu_node(gpus=4), make_group("train", 4, preemptible=False), *gang, old)
    engine.tick()
    assert engine.reason(old) is (Reason.RESOURCES if kept else Reason.NO_VICTIMS)
    engine.gone(gang[0])
    engine.tick()
    assert (engine.node(old) is None) == kept
    engine.ticks(EXPECT_SECONDS + 1)
    assert engine.node(old) == "gpu-0", "nobody came"
    assert engine.reason(TRAIN) is Reason.MEMBERS


def test_of_equal_groups_one_of_which_has_finished_members_needs_less() -> None:
    job = Owner("Job", "train", "u")
    done = make_pod("done", ONE, group="train", owner=job, node="gpu-0", phase="Succeeded", created=9.0)
    rest = workers(2, owner=job, created=9.0)
    first = make_pods(2, "first", request=ONE, group="first", created=1.0)
    engine = Driver(gpu_node(gpus=1), make_group("train", 2), make_group("first", 2), done, *rest, *first)
    engine.gone(done)
    engine.tick()
    assert [node is not None for node in engine.nodes([*first, *rest])] == [False, False, True, False]


# --- members that do not exist yet -------------------------------------------------------------------


def test_without_its_launcher_a_gang_waits_for_members_though_its_minimum_is_there() -> None:
    engine = Driver(*eight_nodes(), make_group("train", 4, {"launcher": 1, "worker": 3}))
    engine.see(*gated(workers(4, task="worker")))
    assert engine.tick() == []
    assert engine.reserved == 0
    assert engine.reason(TRAIN) is Reason.MEMBERS
    assert engine.detail(TRAIN) == {"have": 0, "minimum": 1, "task": "launcher"}
    launcher = make_pod("launcher", {"cpu": 500}, group="train", task="launcher", gates=(QUEUE_GATE,))
    engine.see(launcher)
    assert {e.uid for e in engine.tick()} == {launcher.uid, *(f"uid-worker-{n}" for n in range(4))}


def test_room_for_expected_members_is_given_up_10_s_after_the_newest_appeared() -> None:
    engine = Driver(gpu_node(gpus=4), make_group("train", 4))
    first, second = gated(workers(2))
    engine.see(first)
    engine.tick()
    engine.now += EXPECT_SECONDS - 1
    engine.see(second)
    assert engine.tick() == []
    assert engine.reserved == 4
    assert engine.tick(EXPECT_SECONDS - 0.1) == []
    assert engine.reserved == 4
    engine.tick(0.1)
    assert (engine.reserved, engine.reason(TRAIN)) == (0, Reason.MEMBERS)
    lone = make_pods(4, "lone", request=ONE)
    engine.see(*lone)
    engine.tick()
    assert engine.nodes(lone) == 4 * ["gpu-0"]


def test_a_group_that_waits_is_looked_at_when_expected_room_is_given_up() -> None:
    engine = Driver(gpu_node(gpus=4), make_group("train", 4), gated(workers(1))[0])
    engine.tick()
    lone = make_pod("lone", {GPU: 4})
    engine.see(lone)
    engine.tick()
    assert engine.reason(lone) is Reason.RESOURCES
    engine.tick(EXPECT_SECONDS)
    engine.tick()
    assert engine.node(lone) == "gpu-0"


def test_a_gang_that_lacks_room_and_members_waits_for_members_and_for_a_while_closes_its_queue() -> None:
    engine = Driver(gpu_node(gpus=1), make_group("train", 4), *gated(workers(2)))
    engine.tick()
    assert engine.reason(TRAIN) is Reason.MEMBERS
    assert not engine.engine.backlog.is_open(QueueName("default"))
    engine.tick(EXPECT_SECONDS)
    assert engine.reason(TRAIN) is Reason.MEMBERS
    assert engine.engine.backlog.is_open(QueueName("default"))
    engine.see(*gated(workers(4))[2:])
    engine.tick()
    assert engine.reason(TRAIN) is Reason.RESOURCES


@pytest.mark.parametrize("owner", [None, Owner("Job", "train", "u")], ids=["nobody's", "a controller's"])
def test_room_is_kept_for_a_lost_member_only_if_a_controller_makes_another_one(owner: Owner | None) -> None:
    pods = [replace(pod, owner=owner) for pod in workers(3)]
    engine = Driver(gpu_node(gpus=3), make_group("train", 3), *pods)
    engine.tick()
    engine.now += EXPECT_SECONDS - 1
    engine.gone(pods[2])
    engine.tick()
    assert engine.reserved == 3
    engine.tick(1.0)
    assert engine.reserved == (0 if owner is None else 3)
    engine.tick(EXPECT_SECONDS - 1)
    assert engine.reserved == 0


def test_kept_room_goes_to_members_of_its_task_and_shape_only() -> None:
    engine = Driver(gpu_node(gpus=12), make_group("train", 5, {"ps": 1, "worker": 4}))
    server = make_pod("ps-0", {"cpu": 1000}, group="train", task="ps", gates=(QUEUE_GATE,))
    one, *others = gated(workers(4, task="worker"))
    engine.see(server, one)
    engine.tick()
    assert asked_of(engine) == 4
    # a worker of another shape: planned beside the others, and it is the pattern for those that are to come
    big = replace(others[0], shape=builders.make_shape({GPU: 3}), created=1.0)
    assert engine.see(big) == []
    assert engine.tick() == ungates([big])
    assert (engine.reserved, asked_of(engine)) == (5, 1 + 3 + 3 + 3)
    assert engine.see(*others[1:]) == []
    assert set(engine.tick()) == set(ungates(others[1:]))
    assert (engine.reserved, asked_of(engine)) == (5, 1 + 3 + 1 + 1)


def asked_of(engine: Driver) -> int:
    """GPUs in all reservations."""
    ledger = engine_driver.ledger_of(engine.engine)
    return sum(dict(r.shape.request).get(GPU, 0) for r in ledger.planned().values())


def test_unequal_members_that_come_one_by_one_are_planned_as_they_come() -> None:
    engine = Driver(gpu_node("gpu-0", 4), gpu_node("gpu-1", 4), make_group("train", 3))
    pods = gated([make_pod(f"m-{n}", {GPU: n + 1}, group="train", created=float(n)) for n in range(3)])
    for n, pod in enumerate(pods):
        engine.see(pod)
        engine.tick(1.0)
        assert engine.reserved == 3, f"after member {n}"
    assert engine.reason(TRAIN) is None
    assert all(engine.nodes(pods))
    assert [e for e in engine.effects if isinstance(e, messages.Ungate)] == ungates(pods)


def test_a_claimed_place_does_not_hide_that_the_new_member_contradicts_the_others() -> None:
    engine = Driver(gpu_node(), make_queue("a"), make_group("train", 4), workers(1, queue=QueueName("a"))[0])
    engine.tick()
    assert engine.reserved == 4
    engine.see(make_pod("other", ONE, group="train", queue=QueueName("b")))
    engine.tick()
    assert (engine.reserved, engine.reason(TRAIN)) == (0, Reason.INVALID)


def test_nothing_is_kept_for_a_group_of_which_no_member_waits_any_more() -> None:
    engine = Driver(gpu_node(gpus=4), make_group("train", 4))
    foreign = make_pod("foreign", ONE, group="train", scheduler="default-scheduler")
    one = workers(1)[0]
    engine.see(foreign, one)
    engine.tick()
    assert engine.reserved == 4
    engine.gone(one)
    engine.tick()
    assert engine.reserved == 0


def test_the_room_of_a_group_whose_only_member_is_deleted_goes_to_those_that_wait() -> None:
    one = workers(1)[0]
    engine = Driver(gpu_node(gpus=4), make_group("train", 4), one)
    engine.tick()
    lone = make_pod("lone", {GPU: 4}, created=5.0)
    engine.see(lone)
    engine.tick()
    assert engine.reason(lone) is Reason.RESOURCES
    engine.gone(one)
    engine.tick()
    engine.tick()
    assert (engine.node(lone), engine.reserved) == ("gpu-0", 1)


# --- more than the minimum ---------------------------------------------------------------------------


def test_of_more_replicas_than_the_minimum_the_minimum_is_placed_and_what_fits_of_the_rest() -> None:
    engine = Driver(gpu_node(gpus=6), make_group("train", 4))
    pods = [replace(pod, created=float(n)) for n, pod in enumerate(gated(workers(8)))]
    engine.see(*pods)
    assert engine.tick() == [*ungates(pods[:6]), messages.SetOpenQueues(frozenset())]
    assert engine.reserved == 6
    assert engine.reason(TRAIN) is Reason.RESOURCES
    assert engine.detail(TRAIN) == {"resource": GPU, "asked": 1, "free": 0}
    # and later the rest one by one, without a change for those that are planned
    engine.see(gpu_node("gpu-1", 1))
    assert engine.tick() == ungates(pods[6:7])


def test_surplus_that_does_not_fit_leaves_a_group_running() -> None:
    group = make_group("train", 2)
    pods = workers(3)
    engine = Driver(gpu_node(gpus=2), group, *pods)
    engine.tick()
    engine.bind(*pods[:2])
    effects = engine.tick(2.0)
    assert effects == [
        messages.StateGroup(group.key, group.uid, "Running", engine.entry(TRAIN).refusal, 0, True, (3, 2, 0, 0)),
    ]
    assert engine.entry(TRAIN).running
    assert engine.reason(TRAIN) is Reason.RESOURCES


def test_each_tasks_minimum_is_placed_before_the_rest() -> None:
    engine = Driver(gpu_node(gpus=3), make_group("train", 3, {"ps": 1}))
    old = [make_pod(f"w-{n}", ONE, group="train", task="worker", created=float(n)) for n in range(4)]
    server = make_pod("ps-0", ONE, group="train", task="ps", created=9.0)
    engine.see(*old, server)
    engine.tick()
    assert engine.nodes([*old, server]) == ["gpu-0", "gpu-0", None, None, "gpu-0"]


# --- changes while planned ---------------------------------------------------------------------------


def test_the_minimum_is_raised_while_planned_and_there_is_room_for_it_later() -> None:
    pods = workers(4)
    engine = Driver(gpu_node(gpus=4), make_group("train", 4), *pods)
    engine.tick()
    engine.hold(*pods)
    engine.see(make_group("train", 6))
    effects = engine.tick()
    assert effects == [withdraw(*pods), messages.SetOpenQueues(frozenset())]
    assert engine.reason(TRAIN) is Reason.MEMBERS
    assert engine.reserved == 4  # counted until the gate has answered
    engine.held({})
    assert engine.reserved == 0
    more = make_pods(2, "more", request=ONE, group="train")
    engine.see(gpu_node("gpu-1", 2), *more)
    engine.tick()
    assert engine.reason(TRAIN) is None
    assert engine.reserved == 6


def test_the_minimum_is_lowered_while_planned_and_kept_room_is_free_at_once() -> None:
    pods = workers(2)
    engine = Driver(gpu_node(gpus=4), make_group("train", 4), *pods)
    lone = make_pod("lone", {GPU: 2})
    engine.see(lone)
    engine.tick()
    assert (engine.reserved, engine.reason(lone)) == (4, Reason.RESOURCES)
    engine.see(make_group("train", 2))
    engine.tick()
    engine.tick()
    assert engine.node(lone) == "gpu-0"
    assert engine.reserved == 3


@pytest.mark.parametrize("how", ["gone", "leaving", "failed"])
def test_a_member_lost_while_held_keeps_its_siblings_places(how: str) -> None:
    pods = workers(4)
    engine = Driver(gpu_node("gpu-0", 2), gpu_node("gpu-1", 2), make_group("train", 4), *pods)
    engine.tick()
    engine.hold(*pods)
    before = engine.nodes(pods[1:])
    lost = pods[0]
    if how == "gone":
        engine.gone(lost)
    else:
        engine.see(replace(lost, **({"terminating": True} if how == "leaving" else {"phase": "Failed"})))
    engine.held({pod: node for pod, node in zip(pods[1:], before, strict=True)})
    assert engine.tick() == []
    assert engine.nodes(pods[1:]) == before
    assert engine.reserved == 4  # the replacement's room is kept
    again = replace(lost, uid="uid-again")
    assert engine.see(again) == []
    assert engine.node(again) is not None
    engine.tick()
    assert engine.reserved == 4


def test_a_pod_created_again_under_the_same_name_is_another_pod() -> None:
    old = make_pod("one", ONE)
    engine = Driver(gpu_node(gpus=1), old)
    engine.tick()
    engine.bind(old)
    new = make_pod("one", ONE, uid="uid-new")
    engine.see(new)
    engine.gone(old)
    engine.tick()
    assert (engine.node(old), engine.node(new)) == (None, "gpu-0")
    engine.see(builders.bound(old, "gpu-0"))  # late
    engine.tick()
    assert engine.node(new) == "gpu-0"


def test_a_replacement_stays_in_the_domain_where_the_others_run() -> None:
    nodes = [gpu_node(f"gpu-{n}", 2, {"rack": f"r{n // 2}"}) for n in range(4)]
    pods = workers(4)
    engine = Driver(*nodes, make_group("train", 4, topology_required="rack"), *pods)
    engine.tick()
    rack = {node[-1] in "01" for node in engine.nodes(pods) if node}
    assert len(rack) == 1
    home = ("gpu-0", "gpu-1") if rack == {True} else ("gpu-2", "gpu-3")
    for pod in pods:
        engine.bind(pod)
    engine.tick()
    filler = builders.bound(
        make_pod("filler", ONE, scheduler="default-scheduler"), engine.engine.world.pods[pods[0].uid].node or ""
    )
    engine.gone(pods[0])
    engine.see(filler)
    again = make_pod("again", ONE, group="train")
    engine.see(again)
    engine.tick()
    assert engine.reason(TRAIN) is Reason.TOPOLOGY
    assert engine.reserved == 0
    engine.gone(filler)
    engine.tick()
    assert engine.node(again) in home


def test_another_required_level_while_planned_undoes_the_plan() -> None:
    nodes = [gpu_node(f"gpu-{n}", 2, {"rack": f"r{n}"}) for n in range(2)]
    pods = workers(4)
    engine = Driver(*nodes, make_group("train", 4), *pods)
    engine.tick()
    assert engine.reserved == 4
    engine.see(make_group("train", 4, topology_required="rack"))
    engine.tick()
    assert (engine.reserved, engine.reason(TRAIN)) == (0, Reason.TOPOLOGY)
