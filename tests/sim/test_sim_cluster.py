"""The virtual cluster by itself: the API server's answers, evictions, budgets, cards, and the time."""

from __future__ import annotations

import re
from typing import Any

import pytest

from extender.core.ids import QUEUE_GATE
from extender.sim import admission, cards, objects, report, resources
from extender.sim.agenda import Agenda, Phase
from extender.sim.api import Api, Change, Refused, merged
from extender.sim.cluster import Cluster
from extender.sim.lives import Life
from extender.sim.runner import Run
from extender.wire import small
from tests.sim import scenes
from tests.test_repository import ROOT

ONE = {"cpu": "1"}


def make(*, grace: float = 0.0, replicas: int = 3, least: int = 2) -> tuple[Cluster, list[Life]]:
    """A cluster with a running gang and a budget over it."""
    task = report.Task("w", replicas, ONE)
    group = report.Group("g", 1, (task,), recreate=True, grace=grace)
    cluster = Cluster(report.Scenario(()), Agenda())
    cluster.add_node(report.Node("n1", {"cpu": "8"}))
    cluster.api.create("PodDisruptionBudget", objects.budget(report.Budget("keep", "g", least)))
    for index in range(replicas):
        cluster.make_running(objects.of_group(group, task, index), "n1")
    return cluster, list(cluster.lives.by_uid.values())


def allowed(cluster: Cluster) -> int:
    found = cluster.api.get("PodDisruptionBudget", "keep")
    assert found is not None
    return int(found["status"]["disruptionsAllowed"])


# --- evictions -------------------------------------------------------------------------------------


def test_an_eviction_takes_the_grace_and_counts_until_then() -> None:
    cluster, (one, *_) = make(grace=4.0)
    cluster.evict("g-w-0", one.uid)
    pod = cluster.object_of(one)
    assert pod is not None
    assert "DisruptionTarget" in [condition["type"] for condition in pod["status"]["conditions"]]
    assert pod["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:04Z"
    assert (one.evicted, one.takes, cluster.agenda.next()) == (True, True, 4.0)
    cluster.agenda.run(4.0)
    assert (one.gone, one.takes) == (True, False)
    cluster.agenda.run(5.0)
    again = cluster.lives.newest("g-w-0")
    assert again is not None
    assert (again.ordinal, again.waits) == (1, True)


def test_a_budget_lets_go_what_it_allows_and_no_more() -> None:
    cluster, (one, two, _) = make()
    assert allowed(cluster) == 1
    cluster.evict("g-w-0", one.uid)
    assert allowed(cluster) == 0
    with pytest.raises(Refused, match="keep") as caught:
        cluster.evict("g-w-1", two.uid)
    assert (caught.value.code, two.evicted) == (429, False)
    cluster.delete(two)  # a user asks no budget
    assert two.gone


def test_a_frozen_budget_says_the_same_for_ever() -> None:
    cluster, lives = make()
    cluster.budgets.frozen = True
    for life in lives:
        cluster.evict(life.making.name, life.uid)
    assert allowed(cluster) == 1
    assert [life.gone for life in lives] == [True, True, True]


def test_an_eviction_of_another_uid_finds_nothing() -> None:
    cluster, _ = make()
    with pytest.raises(Refused) as caught:
        cluster.evict("g-w-0", "other")
    assert caught.value.code == 404


def test_nobody_makes_pods_of_a_deleted_group_anew() -> None:
    cluster, lives = make()
    cluster.delete_group("g", lives)
    cluster.agenda.run(10.0)
    assert list(cluster.api.list("Pod")) == []


# --- bindings --------------------------------------------------------------------------------------


def a_new_pod(cluster: Cluster, **asked: str) -> Life:
    task = report.Task("w", 1, asked or ONE)
    cluster.make(objects.of_group(report.Group("new", 1, (task,)), task, 0))
    life = cluster.lives.newest("new-w-0")
    assert life is not None
    return life


def test_a_binding_starts_the_pod() -> None:
    cluster, _ = make()
    life = a_new_pod(cluster)
    cluster.bind("new-w-0", life.uid, "n1", {"a": "b"})
    pod = cluster.object_of(life)
    assert pod is not None
    assert (pod["spec"]["nodeName"], pod["status"]["phase"], pod["metadata"]["annotations"]) == (
        "n1",
        "Running",
        {"a": "b"},
    )
    with pytest.raises(Refused, match="already assigned to node n1"):
        cluster.bind("new-w-0", life.uid, "n2", {})


@pytest.mark.parametrize(
    ("asked", "failed"),
    [({"cpu": "5"}, ""), ({"cpu": "5100m"}, "OutOfcpu"), ({"memory": "1"}, "OutOfmemory")],
)
def test_a_kubelet_takes_no_more_than_the_node_has(asked: dict[str, str], failed: str) -> None:
    cluster, _ = make()
    life = a_new_pod(cluster, **asked)
    cluster.bind("new-w-0", life.uid, "n1", {})
    pod = cluster.object_of(life)
    assert pod is not None
    assert (pod["status"]["phase"], pod["status"].get("reason", "")) == ("Failed" if failed else "Running", failed)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda cluster, life: cluster.api.remove("Pod", "new-w-0"), "not found"),
        (
            lambda cluster, life: cluster.api.patch("Pod", "new-w-0", {"metadata": {"deletionTimestamp": "t"}}),
            "deleted",
        ),
        (
            lambda cluster, life: cluster.api.patch("Pod", "new-w-0", {"spec": {"schedulingGates": [{"name": "x"}]}}),
            "gates",
        ),
        (lambda cluster, life: setattr(life, "uid", "other"), "uid"),
    ],
)
def test_a_binding_is_refused(change: Any, text: str) -> None:
    cluster, _ = make()
    life = a_new_pod(cluster)
    change(cluster, life)
    with pytest.raises(Refused, match=text):
        cluster.bind("new-w-0", life.uid, "n1", {})


# --- the API server --------------------------------------------------------------------------------


def test_each_change_is_told_with_a_new_version_and_old_states_stay() -> None:
    told: list[Change] = []
    api = Api(lambda: 0.0, lambda kind, thing: thing)
    api.watch(told.append)
    first = api.create("Queue", {"metadata": {"name": "q"}, "spec": {"weight": 1}})
    api.patch("Queue", "q", {"spec": {"weight": 2}})
    api.patch("Queue", "q", {"spec": {"weight": 2}})  # no change, no event
    api.patch("Queue", "q", {"status": {"state": "Open"}, "spec": {"weight": 9}}, subresource="status")
    api.remove("Queue", "q")
    assert [(change.type, change.object["spec"]["weight"]) for change in told] == [
        ("ADDED", 1),
        ("MODIFIED", 2),
        ("MODIFIED", 2),
        ("DELETED", 2),
    ]
    assert [change.object["metadata"]["generation"] for change in told] == [1, 2, 2, 2]
    assert [int(change.object["metadata"]["resourceVersion"]) for change in told] == [1, 2, 3, 3]
    assert first["spec"] == {"weight": 1}


@pytest.mark.parametrize(
    ("thing", "patch", "wanted"),
    [
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": {"b": 1}}, {"a": {"b": None}}, {"a": {}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        (
            {"conditions": [{"type": "A", "status": "False"}, {"type": "B", "status": "True"}]},
            {"conditions": [{"type": "A", "status": "True"}]},
            {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]},
        ),
        (
            {"schedulingGates": [{"name": "x"}, {"name": "y"}]},
            {"schedulingGates": [{"$patch": "delete", "name": "x"}]},
            {"schedulingGates": [{"name": "y"}]},
        ),
        ({"schedulingGates": []}, {"schedulingGates": [{"$patch": "delete", "name": "x"}]}, {"schedulingGates": []}),
    ],
)
def test_a_patch_is_merged(thing: Any, patch: Any, wanted: Any) -> None:
    assert merged(thing, patch) == wanted


def test_names_and_uids_are_used_once_at_a_time() -> None:
    api = Api(lambda: 0.0, lambda kind, thing: thing)
    first = api.create("Pod", {"metadata": {"name": "p"}})
    with pytest.raises(Refused, match="already exists"):
        api.create("Pod", {"metadata": {"name": "p"}})
    with pytest.raises(Refused, match="uid"):
        api.patch("Pod", "p", {"spec": {}}, uid="other")
    api.remove("Pod", "p")
    with pytest.raises(Refused, match="not found"):
        api.patch("Pod", "p", {"spec": {}})
    assert api.create("Pod", {"metadata": {"name": "p"}})["metadata"]["uid"] != first["metadata"]["uid"]


# --- admission -------------------------------------------------------------------------------------


def test_the_rules_of_the_crds_are_known() -> None:
    for file, kind in (("podgroups", "PodGroup"), ("queues", "Queue")):
        text = (ROOT / "manifests" / "base" / "crds" / f"{file}.yaml").read_text()
        told = set(re.findall(r'^ *message: "(.*)"$', text, re.MULTILINE))
        # what a report can say of names and amounts is checked when it is read
        told = {message for message in told if "each key is" not in message and "amounts end at" not in message}
        assert told == admission.RULES[kind].keys()


@pytest.mark.parametrize(
    ("queue", "refused"),
    [
        (report.Queue("q", parent="other", weight=0), ""),
        (report.Queue("q", parent="q"), "names the queue itself"),
        (report.Queue("q", weight=-1), "spec.weight"),
        (report.Queue("q" * 64), "at most 63"),
        (report.Queue("q", guarantee={"cpu": "4"}, capability={"cpu": "1"}), "guarantee <= capability"),
        (report.Queue("q", guarantee={"cpu": "1500m"}, deserved={"cpu": "1"}), "guarantee <= deserved"),
        (report.Queue("q", guarantee={"cpu": "4"}, deserved={"memory": "1"}), ""),
        (report.Queue("q", deserved={"cpu": "4"}, capability={"cpu": "3.5"}), "deserved <= capability"),
    ],
)
def test_queues_are_refused_as_their_crd_says(queue: report.Queue, refused: str) -> None:
    cluster = Cluster(report.Scenario(()), Agenda())
    cluster.attempt("queue q", "Queue", objects.queue(queue, report.Settings()))
    assert (cluster.api.get("Queue", "q") is None) is bool(refused)
    assert [what for what, text in cluster.refusals if refused in text] == (["queue q"] if refused else [])


@pytest.mark.parametrize(
    ("open_queues", "making", "gated"),
    [
        (None, objects.of_loose(report.Pod("p", ONE, "q")), False),
        ("", objects.of_loose(report.Pod("p", ONE, "q")), True),
        ("a\nq", objects.of_loose(report.Pod("p", ONE, "q")), False),
        ("default", objects.of_loose(report.Pod("p", ONE)), False),
        ("", objects.of_loose(report.Pod("p", ONE)), False),
        ("q", objects.of_group(report.Group("g", 1, (), "q"), report.Task("w", 1, ONE), 0), True),
    ],
)
def test_new_pods_are_gated_unless_their_queue_is_open(
    open_queues: str | None, making: objects.Making, gated: bool
) -> None:
    cluster = Cluster(report.Scenario(()), Agenda())
    if open_queues is not None:
        cluster.api.create(
            "ConfigMap", {"metadata": {"name": small.OPEN_QUEUES}, "data": {small.OPEN_KEY: open_queues}}
        )
    cluster.make(making)
    pod = cluster.api.get("Pod", making.name)
    assert pod is not None
    assert pod["spec"].get("schedulingGates", []) == ([{"name": QUEUE_GATE}] if gated else [])


# --- queues that close -----------------------------------------------------------------------------


def test_a_queue_is_closed_and_deleted() -> None:
    told = scenes.report(
        "{settings: {end: 9}, nodes: [], queues: [{name: q, state: Open}], events: "
        "[{at: 2, kind: close_queue, queue: q}, {at: 4, kind: delete_queue, queue: q}]}",
        "{check: evicted_total, max: 0}",
    )
    run = Run(told)
    run.agenda.run(2.0)
    assert run.cluster.api.get("Queue", "q")["spec"]["state"] == "Closed"  # type: ignore[index]
    run.agenda.run(4.0)
    assert run.cluster.api.get("Queue", "q") is None


# --- cards and requests ----------------------------------------------------------------------------


CARD = report.Card("c0", 1000, 100, 2)


@pytest.mark.parametrize(
    ("asked", "taken", "wanted"),
    [
        ({}, (), ()),
        ({"nvidia.com/gpu": "1"}, (), (cards.Share("c0", 1000, 0),)),
        ({"nvidia.com/gpu": "2"}, (), None),
        (
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "600"},
            (cards.Share("c0", 400, 50),),
            (cards.Share("c0", 600, 0),),
        ),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "601"}, (cards.Share("c0", 400, 50),), None),
        (
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "25", "nvidia.com/gpucores": "60"},
            (cards.Share("c0", 400, 40),),
            (cards.Share("c0", 250, 60),),
        ),
        (
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1", "nvidia.com/gpucores": "61"},
            (cards.Share("c0", 1, 40),),
            None,
        ),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1"}, (cards.Share("c0", 1, 0), cards.Share("c0", 1, 0)), None),
    ],
)
def test_a_device_plugin_hands_out_cards(asked: dict[str, str], taken: tuple[cards.Share, ...], wanted: Any) -> None:
    assert cards.hand_out([CARD], cards.loads(taken), asked) == wanted
    ill = report.Card("c0", 1000, 100, 2, healthy=False)
    assert cards.hand_out([ill], {}, asked) == (() if not asked else None)


def test_shares_are_read_as_they_are_written() -> None:
    shares = (cards.Share("c0", 400, 30), cards.Share("c1", 1, 0))
    assert cards.encode(shares) == "c0,NVIDIA,400,30:c1,NVIDIA,1,0:;"
    assert cards.decode(cards.encode(shares)) == shares
    assert cards.decode(";") == ()


def test_a_pod_asks_for_all_its_containers_and_overhead() -> None:
    task = report.Task(
        "w", 1, {"cpu": "2"}, init_requests={"cpu": "4"}, sidecar_requests={"cpu": "1"}, overhead={"cpu": "500m"}
    )
    making = objects.of_group(report.Group("g", 1, (task,)), task, 0)
    assert resources.request_of(making) == {"cpu": 5500, "pods": 1}


def test_a_share_of_a_gpu_is_charged_by_its_memory_where_the_queue_says_so() -> None:
    task = report.Task("w", 1, {"nvidia.com/gpu": "2", "nvidia.com/gpumem-percentage": "30"})
    making = objects.of_group(report.Group("g", 1, (task,)), task, 0)
    assert [float(resources.charge(making, "nvidia.com/gpu", by_share)) for by_share in (True, False)] == [0.6, 2.0]


# --- objects ---------------------------------------------------------------------------------------


def test_levels_stand_in_topologies_from_broad_to_narrow() -> None:
    groups = [
        report.Group("a", 1, (), topology={"preferred": "rack", "required": "zone"}),
        report.Group("b", 1, (), topology={"required": "rack"}),
        report.Group("c", 1, (), topology={"required": "block"}),
        report.Group("d", 1, ()),
    ]
    assert [found["spec"]["levels"] for found in objects.topologies(groups)] == [["zone", "rack"], ["block"]]


def test_every_field_of_a_queue_is_in_its_object() -> None:
    fields = {
        "parent": "p",
        "weight": 2,
        "capability": ONE,
        "deserved": ONE,
        "reclaimable": False,
        "priority": 3,
        "state": "Closed",
    }
    told = report.Queue("q", guarantee=ONE, **fields)  # type: ignore[arg-type]
    settings = report.Settings(stale_gang_seconds=30, gpu_charge="share")
    assert objects.queue(told, settings)["spec"] == {
        **fields,
        "guarantee": {"resource": ONE},
        "staleSeconds": 30,
        "gpuCharge": "share",
    }
    assert objects.queue(report.Queue("q"), report.Settings())["spec"] == {}


def test_every_field_of_a_group_is_in_its_object() -> None:
    tasks = (report.Task("ps", 1, ONE, min=1), report.Task("w", 3, ONE))
    told = report.Group("g", 2, tasks, "q", topology={"required": "rack"}, preemptible=False, declared_runtime=60)
    assert objects.pod_group(told, report.Settings(hold_seconds=20.0))["spec"] == {
        "minMember": 2,
        "tasks": [{"name": "ps", "minMember": 1}],
        "queue": "q",
        "topology": {"required": "rack"},
        "preemptible": False,
        "expectedDurationSeconds": 60,
        "scheduleTimeoutSeconds": 20,
    }


# --- time ------------------------------------------------------------------------------------------


def test_what_is_due_at_one_instant_is_done_by_phase_and_then_in_order() -> None:
    agenda, done = Agenda(), []
    for name, at, phase in (
        ("b", 2.0, Phase.EVENTS),
        ("c", 2.0, Phase.EVENTS),
        ("d", 2.0, Phase.OWNERS),
        ("a", 2.0, Phase.ENDS),
        ("e", 3.0, Phase.ENDS),
    ):
        agenda.at(at, phase, lambda name=name: done.append(name))
    agenda.run(2.0)
    assert (done, agenda.next()) == (["a", "b", "c", "d"], 3.0)
    agenda.at(1.0, Phase.LATE, lambda: done.append("f"))
    agenda.run(2.5)
    assert (done[-1], agenda.now) == ("f", 2.5)
