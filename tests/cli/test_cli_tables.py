"""The commands that list: what each shows, by tree and by table, with live answers and without them."""

from __future__ import annotations

import json
from typing import Any

import cli_world as world
import pytest
from cli_world import GPU, World, run
from hypothesis import given
from hypothesis import strategies as st

from extender.cli.problems import Problem

RACK = "topology.kubernetes.io/rack"


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_767_226_200.0)  # cli_world.NOW


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def told(there: World, *words: str) -> Any:
    return json.loads(run(there, *words, "-o", "json")[0])


# --- gangs -------------------------------------------------------------------------------------------


def test_gangs_are_listed_over_all_pages_and_pods_alone_only_when_asked_for():
    running = {"phase": "Running", "reason": "", "members": {"minimum": None, "bound": 3, "succeeded": 1}}
    there = World(
        world.workload("muster:b"),
        world.workload("volcano:a", **running),
        world.workload("pod:web"),
        world.workload("muster:c", namespace="other"),
    )
    out, said = run(there, "gangs")
    assert said == ""
    assert out == (
        "NAMESPACE   NAME        PHASE     BOUND   QUEUE      POSITION   FOR   REASON\n"
        "team        muster:b    Pending   0/8     research   2          2m    InsufficientResources\n"
        "team        volcano:a   Running   4/?     research   2          2m\n"
    )
    assert [row[:2] for row in lines(run(there, "gangs", "-A", "--pods")[0])[1:]] == [
        ["other", "muster:c"],
        ["team", "muster:b"],
        ["team", "pod:web"],
        ["team", "volcano:a"],
    ]


def test_without_live_answers_gangs_are_read_from_their_objects_and_a_bad_one_is_left_out():
    status = {"phase": "Pending", "reason": "QuotaExceeded", "message": "over", "scheduled": 1}
    bad = world.group("bad")
    del bad["metadata"]["uid"]
    volcano = world.make("scheduling.volcano.sh/v1beta1", "PodGroup", "v", namespace="team", spec={"minMember": 2})
    there = World(world.group("train", status=status), bad, volcano, without=("visibility",))
    out, said = run(there, "gangs")
    assert [row[1:] for row in lines(out)[1:]] == [
        ["muster:train", "Pending", "1/4", "QuotaExceeded"],
        ["volcano:v", "Pending", "0/2"],
    ]
    assert said.startswith("note: the live answers are not installed")


def test_where_there_is_nothing_that_is_said_and_programs_get_an_empty_list():
    assert run(World(), "gangs") == ("", "there are no groups in namespace team\n")
    assert run(World(), "events", "-A") == ("", "there are no Events of Muster in any namespace\n")
    assert told(World(), "gangs") == {"live": True, "items": []}


# --- queues ------------------------------------------------------------------------------------------


def test_queues_are_a_tree_with_what_each_may_use_and_what_is_wrong():
    broken = {"type": "Valid", "status": "False", "reason": "ParentMissing", "message": "no such queue"}
    there = World(
        world.queue("dept", spec={"capability": {GPU: "16"}, "weight": 3}),
        world.queue("team", spec={"parent": "dept", "deserved": {GPU: 8}, "guarantee": {"resource": {GPU: "2"}}}),
        world.queue("lost", spec={"parent": "nowhere"}, status={"conditions": [broken]}),
        world.live_queue("dept"),
        world.live_queue("team", waiting=[{"namespace": "ns", "name": "muster:first"}], pending=3),
        world.live_queue("default", allocated={"cpu": "2"}, fairShare={}),
    )
    out, last = run(there, "queues")[0].rstrip().rsplit("\n", 1)
    assert out == (
        "nvidia.com/gpu:\n"
        "QUEUE     STATE   WEIGHT   ALLOCATED   FAIR   GUARANTEE   DESERVED   CAPABILITY   SHARE   PENDING   "
        "NEXT              WRONG\n"
        "default   Open             0           0      -           -          -            0.66    0\n"
        "dept      Open    3        4           6      -           -          16           0.66    0\n"
        "  team    Open    1        4           6      2           8          -            0.66    3         "
        "ns/muster:first"
    )
    assert last.split() == [*("lost", "1", "-", "-", "-", "-", "-"), "Valid:", "ParentMissing", "(no", "such", "queue)"]
    assert last.index("Valid") == out.splitlines()[1].index("WRONG")
    of_memory = lines(run(there, "queues", "--resource", "memory")[0])
    assert of_memory[4] == ["team", "Open", "1", "0", "0", "-", "-", "-", "0.66", "3", "ns/muster:first"]


def test_without_live_answers_queues_say_what_their_objects_do_and_of_two_of_a_name_ours():
    status = {"state": "Closing", "allocated": {GPU: "3"}, "share": "0.1", "pending": 5}
    volcano = world.make("scheduling.volcano.sh/v1beta1", "Queue", "q", spec={"capability": {GPU: 9}})
    root = world.make("scheduling.volcano.sh/v1beta1", "Queue", "root", spec={})
    there = World(volcano, root, world.queue("q", spec={"capability": {GPU: 4}}, status=status), without=("visib",))
    assert [row for row in lines(run(there, "queues")[0])[2:]] == [
        ["q", "Closing", "1", "3", "-", "-", "-", "4", "0.1", "5"],
        ["root", "1", "-", "-", "-", "-", "-"],
    ]


names = st.sampled_from("abcdef")


@given(st.dictionaries(names, names | st.none(), max_size=6))
def test_every_queue_is_in_the_tree_once_whatever_its_parents_are(parents):
    there = World(*(world.queue(name, spec={"parent": above} if above else {}) for name, above in parents.items()))
    items = told(there, "queues")["items"]
    assert sorted(one["name"] for one in items) == sorted(parents)
    depth = {one["name"]: one["depth"] for one in items}
    for number, one in enumerate(items):
        if one["depth"]:
            above = next(other for other in reversed(items[:number]) if other["depth"] < one["depth"])
            assert (above["name"], above["depth"]) == (parents[one["name"]], depth[one["name"]] - 1)


# --- nodes and top -----------------------------------------------------------------------------------


def racks() -> World:
    held = [{"name": "n2", "members": 1, "requests": {GPU: "2"}}]
    return World(
        world.make("muster.dev/v1alpha1", "Topology", "net", spec={"levels": ["block", RACK]}),
        world.make("muster.dev/v1alpha1", "Topology", "bad", spec={"levels": "block"}),
        world.node("n1", labels={"block": "b", RACK: "r1", "pool": "a"}),
        world.node("n2", labels={"block": "b", RACK: "r2", "pool": "b"}),
        world.node("n3", labels={"block": "b", RACK: "r2", "pool": "b"}, spec={"unschedulable": True}),
        world.node("n4", labels={"pool": "b"}),
        world.node("cpu", 0, labels={"block": "b", RACK: "r1"}),
        world.pod("p1", 3, node="n1"),
        world.pod("p2", 1, node="n3"),
        world.pod("p3", 5, node="n2", spec={"schedulerName": "other"}),
        world.pod("p4", 7, node="n2", status={"phase": "Failed"}),
        world.pod("p5", 7),
        world.workload("muster:train", plannedNodes=held),
        world.live_queue("default", pending=2),
    )


def test_nodes_are_a_tree_of_the_declared_levels_with_what_is_free():
    assert run(racks(), "nodes")[0] == (
        "nvidia.com/gpu, by block > topology.kubernetes.io/rack > node:\n"
        "WHERE          NODES   HAS   USED   HELD   FREE   LARGEST   STATE\n"
        "cluster        5       32    9      2      14     8\n"
        "  b            4       24    9      2      6      5\n"
        "    r1         2       8     3      0      5      5\n"
        "      cpu              0     0      0      0      0\n"
        "      n1               8     3      0      5      5\n"
        "    r2         2       16    6      2      1      1\n"
        "      n2               8     5      2      1      1\n"
        "      n3               8     1      0      0      0         Cordoned\n"
        "  (no label)   1       8     0      0      8      8\n"
        "    n4                 8     0      0      8      8\n"
    )


def test_nodes_to_a_depth_and_by_another_level():
    assert [row[0] for row in lines(run(racks(), "nodes", "--depth", "1")[0])[2:]] == ["cluster", "b", "(no"]
    assert [row[0] for row in lines(run(racks(), "nodes", "--level", "pool", "--depth", "1")[0])[2:]] == [
        *("cluster", "a", "b", "(no"),
    ]
    assert told(racks(), "nodes", "--depth", "0") == {
        **{"resource": GPU, "levels": ["block", RACK], "live": True, "name": "", "nodes": 5},
        **{"has": 32, "used": 9, "held": 2, "free": 14, "largest": 8},
    }


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (("nodes", "--level", "zone"), f"no node bears the label zone; nodes bear block, pool, {RACK}"),
        (("nodes", "--resource", "x/y"), f"no node offers x/y; nodes offer cpu, {GPU}, pods"),
        (("top", "--pool", "zone"), f"no node bears the label zone; nodes bear block, pool, {RACK}"),
    ],
)
def test_labels_and_resources_that_no_node_has_are_refused_with_those_there_are(words, want):
    with pytest.raises(Problem) as refused:
        run(racks(), *words)
    assert (str(refused.value), refused.value.status) == (want, 2)


def test_other_gpus_are_looked_at_where_there_are_no_usual_ones_and_else_cpu():
    amd = world.node("n", 0)
    assert told(World(amd), "nodes")["resource"] == "cpu"
    amd["status"]["allocatable"] |= {"amd.com/gpu": "8", "example.com/nic": "2"}
    assert told(World(amd), "nodes")["resource"] == "amd.com/gpu"


def test_top_adds_up_pools_and_queues():
    assert run(racks(), "top", "--pool", "pool")[0] == (
        "nvidia.com/gpu, by pool:\n"
        "POOL   NODES   HAS   USED   HELD   IDLE   OUT OF USE   USED %\n"
        "a      1       8     3      0      5      0            37 %\n"
        "b      3       24    6      2      9      7            25 %\n"
        "\n"
        "QUEUE     ALLOCATED   FAIR   DESERVED   CAPABILITY   PENDING\n"
        "default   4           6      -          -            2\n"
    )
    assert [pool["name"] for pool in told(racks(), "top")["pools"]] == ["all nodes"]


# --- events ------------------------------------------------------------------------------------------


def test_events_are_those_of_muster_in_order():
    there = World(
        world.event("b", "Preempted", "second", "2026-01-01T00:09:00Z"),
        world.event("a", "Scheduled", "first", "2026-01-01T00:05:00Z", type="Normal"),
        world.event("a", "FailedScheduling", "of kube-scheduler", "2026-01-01T00:05:00Z", reportingInstance="host"),
    )
    assert run(there, "events")[0] == (
        "LAST   NAMESPACE   OBJECT       TYPE      REASON      MESSAGE\n"
        "5m     team        podgroup/a   Normal    Scheduled   first\n"
        "1m     team        podgroup/b   Warning   Preempted   second\n"
    )
