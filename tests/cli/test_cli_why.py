"""`why` and `history`: one answer out of live answers or objects, the same words, and none that is made up."""

from __future__ import annotations

import json

import cli_world as world
import pytest
from cli_world import World, run

from extender.cli import history
from extender.cli.problems import Problem
from extender.core.ids import Source

STARTS = "so many more of its pods find room at the same time (pods 2, resource nvidia.com/gpu, each 8)"
EVICTED = {
    "rule": "Preempted",
    "at": "2026-01-01T00:05:00Z",
    "message": "a group of higher priority in the same queue takes its room (for urgent, namespace team)",
}


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_767_226_200.0)  # cli_world.NOW


def test_a_group_of_which_there_is_no_object_is_found_by_its_live_answer():
    there = World(world.workload("kueue:train"))
    for words in (("train",), ("kueue/train",)):
        out, said = run(there, "why", *words)
        assert said == ""
        assert out.startswith("kueue:train in namespace team: Pending\n")


def test_a_group_is_found_by_the_job_that_it_belongs_to():
    there = World(world.group("train-0a1b2c3d", meta={"ownerReferences": ["?", {"name": "train"}]}))
    out, _ = run(there, "why", "train")
    assert out.startswith("muster:train-0a1b2c3d in namespace team: ")


@pytest.mark.parametrize("owners", [[], None, "train", [{"name": "other"}], [{"name": 7}]])
def test_a_group_that_does_not_say_so_is_none_of_the_job(owners):
    with pytest.raises(Problem, match='no group or pod "train"'):
        run(World(world.group("train-0a1b2c3d", meta={"ownerReferences": owners})), "why", "train")


def test_all_that_is_known_of_a_group_that_waits_is_said():
    there = World(
        world.group("train", status={"lastEviction": EVICTED}),
        world.workload(
            "muster:train",
            startsWhen=[{"reason": "InsufficientResources", "message": STARTS, "detail": []}],
            expectedStart="2026-01-01T01:10:00Z",
            history=[
                {"since": "2026-01-01T00:06:00Z", "reason": "Queued", "message": "waiting in its queue"},
                {"since": "2026-01-01T00:08:00Z", "reason": "InsufficientResources", "message": "not enough"},
            ],
        ),
        world.event("train", "InsufficientResources", "not enough (asked 8, free 3)", "2026-01-01T00:08:02Z"),
        world.event("train", "Preempted", EVICTED["message"], "2026-01-01T00:05:00Z"),
    )
    out, said = run(there, "why", "train")
    assert said == ""
    assert out == (
        "muster:train in namespace team: Pending\n"
        "  Queue        research, position 2\n"
        "  Members      0 bound or succeeded of at least 8, 8 exist\n"
        "  Waits        InsufficientResources for 2m: not enough free resources for the whole group "
        "(resource nvidia.com/gpu, asked 8, free 3)\n"
        f"  Starts when  {STARTS}\n"
        "  Expected     2026-01-01T01:10:00Z (in 1h)\n"
        f"  Evicted      5m ago, Preempted: {EVICTED['message']}\n"
        "\n"
        "SINCE   REASON                  MESSAGE\n"
        f"5m      Preempted               {EVICTED['message']}\n"
        "4m      Queued                  waiting in its queue\n"
        "2m      InsufficientResources   not enough (asked 8, free 3)\n"
    )


def test_programs_get_the_same():
    there = World(world.group("train", status={"lastEviction": EVICTED}), world.workload("muster:train"))
    told = json.loads(run(there, "why", "train", "-o", "json")[0])
    assert (told["name"], told["namespace"], told["live"], told["reason"]) == (
        *("muster:train", "team", True, "InsufficientResources"),
    )
    assert told["evicted"] == EVICTED
    assert run(there, "why", "train", "-o", "yaml")[0].startswith("---\nname: muster:train\n")


@pytest.mark.parametrize("name", ["pod/w-0", "pod:w-0", "po/w-0", "w-0"])
def test_a_pod_of_a_group_is_told_of_its_group_and_of_itself(name):
    blocked = [{"name": "task", "value": "leader"}, {"name": "member", "value": "l-0"}]
    member = world.pod("w-0", meta={"labels": {"muster.dev/pod-group": "train", "muster.dev/task": "worker"}})
    there = World(member, world.group("train"), world.workload("muster:train", detail=blocked))
    told = json.loads(run(there, "why", name, "-o", "json")[0])
    assert told["name"] == "muster:train"
    assert told["pod"] == {
        "name": "w-0",
        "task": "worker",
        "reason": "GangWaiting",
        "message": "waiting for a member of its group that no node can take (member l-0, reason InsufficientResources)",
    }
    assert "  Pod  " in run(there, "why", name)[0]


def test_a_pod_that_is_evicted_bears_its_record_in_words():
    record = {"rule": "Preempted", "at": EVICTED["at"], "for": "urgent", "namespace": "team"}
    notes = {"annotations": {"muster.dev/evicted": json.dumps(record)}}
    leaving = world.pod("solo", node="n", meta=notes | {"deletionTimestamp": world.NOW})
    told = json.loads(run(World(leaving), "why", "pod/solo", "-o", "json")[0])
    assert told["evicted"] == EVICTED
    stays = world.pod("solo", node="n", meta=notes)
    assert json.loads(run(World(stays), "why", "pod/solo", "-o", "json")[0])["evicted"] == EVICTED | {"pending": True}
    assert "is asked to leave, Preempted" in run(World(stays), "why", "pod/solo")[0]


BY_OTHERS = {
    "PreemptionByScheduler": "a scheduler preempted it for a pod of higher priority (said by whom)",
    "DeletionByTaintManager": "its node got a taint that it does not tolerate (said by whom)",
    "EvictionByEvictionAPI": "somebody evicted it, as a drain of its node does (said by whom)",
    "TerminationByKubelet": "its kubelet ended it: the node was short of something, or was shut down (said by whom)",
    "SomethingNew": "it leaves before its end (reason SomethingNew, said by whom)",
}


@pytest.mark.parametrize(("reason", "want"), BY_OTHERS.items())
def test_a_pod_that_others_evicted_says_who(reason, want):
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "by whom"}
    status = {"phase": "Running", "conditions": [condition | {"lastTransitionTime": EVICTED["at"]}]}
    there = World(world.pod("solo", node="n", status=status))
    told = json.loads(run(there, "why", "pod/solo", "-o", "json")[0])
    rule = "DisruptedByOthers" if reason == "SomethingNew" else reason
    assert told["evicted"] == {"rule": rule, "at": EVICTED["at"], "message": f"not by Muster: {want}"}
    condition["status"] = "False"
    status["conditions"] = [condition]
    assert "evicted" not in json.loads(run(there, "why", "pod/solo", "-o", "json")[0])


TAINTED = {
    "rule": "DeletionByTaintManager",
    "at": "2026-01-01T00:07:00Z",
    "message": "not by Muster: its node got a taint that it does not tolerate (node n, evicted 2)",
}


def test_the_newest_eviction_is_told_wherever_it_stands():
    older = {"lastEviction": EVICTED}
    live = world.workload("muster:train", evictions=[TAINTED | {"pods": 2}])
    told = json.loads(run(World(world.group("train", status=older), live), "why", "train", "-o", "json")[0])
    assert told["evicted"] == TAINTED
    newer = {"lastEviction": EVICTED | {"at": "2026-01-01T00:09:00Z"}}
    told = json.loads(run(World(world.group("train", status=newer), live), "why", "train", "-o", "json")[0])
    assert told["evicted"] == newer["lastEviction"]


@pytest.mark.parametrize("name", ["solo", "pod/solo"])
def test_a_pod_that_others_evicted_is_told_of_when_it_is_gone(name):
    gone = world.workload("pod:solo", phase="Gone", evictions=[TAINTED | {"pods": 1}])
    for there in (World(gone), World(gone, world.event("solo", TAINTED["rule"], "less", TAINTED["at"], kind="Pod"))):
        told = json.loads(run(there, "why", name, "-o", "json")[0])
        assert (told["name"], told["phase"], told["evicted"]) == ("pod:solo", "Gone", TAINTED)
        at, rule, message = TAINTED["at"], TAINTED["rule"], TAINTED["message"]
        assert told["history"] == [{"at": at, "reason": rule, "message": message}]


def test_a_pod_that_is_gone_does_not_hide_a_group_of_its_name():
    gone = world.workload("pod:train", phase="Gone", evictions=[TAINTED])
    there = World(gone, world.group("train"), world.workload("muster:train"))
    assert "muster:train in" in run(there, "why", "train")[0]


# --- without live answers ----------------------------------------------------------------------------

SAID = "not enough free resources for the whole group (asked 4)"
CONDITION = {"lastTransitionTime": "2026-01-01T00:05:00Z"}
SOURCES = {
    "muster": (
        "muster.dev/v1alpha1",
        {"minMember": 4, "queue": "research"},
        {"phase": "Pending", "reason": "InsufficientResources", "message": SAID, "lastEviction": EVICTED},
        {},
    ),
    "native": (
        "scheduling.k8s.io/v1beta1",
        {"schedulingPolicy": {"gang": {"minCount": 4}}, "queue": "research"},
        {
            "conditions": [
                CONDITION
                | {
                    "type": "PodGroupInitiallyScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": f"InsufficientResources: {SAID}",
                },
                CONDITION
                | {"type": "muster.dev/Evicted", "status": "True", "reason": "Preempted"}
                | {"message": EVICTED["message"]},
            ]
        },
        {},
    ),
    "scheduler-plugins": (
        "scheduling.x-k8s.io/v1alpha1",
        {"minMember": 4, "queue": "research"},
        {"phase": "Pending"},
        {"muster.dev/why": f"InsufficientResources: {SAID}"},
    ),
    "volcano": (
        "scheduling.volcano.sh/v1beta1",
        {"minMember": 4, "queue": "research"},
        {
            "phase": "Pending",
            "conditions": [
                {"type": "Unschedulable", "status": "True", "reason": "InsufficientResources", "message": SAID}
            ],
        },
        {},
    ),
}
RECORD = json.dumps({"rule": "Preempted", "at": EVICTED["at"], "for": "urgent", "namespace": "team"})


@pytest.mark.parametrize("source", SOURCES)
def test_what_stands_in_the_object_of_every_kind_is_read_and_a_note_says_what_is_missing(source):
    version, spec, status, notes = SOURCES[source]
    if source in ("scheduler-plugins", "volcano"):
        notes = notes | {"muster.dev/last-eviction": RECORD}
    made = world.make(
        version, "PodGroup", "train", namespace="team", spec=spec, status=status, meta={"annotations": notes}
    )
    out, said = run(World(made, without=("visibility",)), "why", "train", "-o", "json")
    told = json.loads(out)
    assert (told["name"], told["live"], told["phase"]) == (f"{source}:train", False, "Pending")
    assert (told["reason"], told["message"], told["queue"]) == ("InsufficientResources", SAID, "research")
    assert told["members"]["minimum"] == 4
    assert told["evicted"] == EVICTED
    assert said == (
        "note: the live answers are not installed: the API server serves no visibility.muster.dev; "
        "manifests/answers/install.sh adds them\n"
    )


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"node": "n"}, ("Running", None)),
        ({"status": {"phase": "Succeeded"}}, ("Ended", None)),
        ({"spec": {"schedulingGates": [{"name": "muster.dev/queue"}]}}, ("Pending", "Queued")),
        ({"spec": {"schedulingGates": [{"name": "other"}]}}, ("Pending", "SchedulingGated")),
        ({"rejects": "0/5 nodes are available: 5 waiting in its queue."}, ("Pending", "Queued")),
        ({"rejects": "0/5 nodes are available: 5 had volume conflicts"}, ("Pending", "RefusedByScheduler")),
        ({}, ("Pending", None)),
    ],
)
def test_a_lone_pod_is_told_by_its_own_state(fields, want):
    message = fields.pop("rejects", "")
    if message:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        fields["status"] = {"phase": "Pending", "conditions": [condition]}
    told = json.loads(run(World(world.pod("web", **fields), without=("visibility",)), "why", "web", "-o", "json")[0])
    assert (told["phase"], told.get("reason")) == want


# --- names -------------------------------------------------------------------------------------------


def test_a_name_that_several_have_is_refused_until_it_says_which():
    there = World(world.group("same"), world.pod("same"), world.workload("muster:same"))
    with pytest.raises(Problem, match="muster:same, pod:same; say which one") as refused:
        run(there, "why", "same")
    assert refused.value.status == 2
    assert "pod:same in namespace" in run(there, "why", "pod/same")[0]
    assert "muster:same in namespace" in run(there, "why", "podgroup/same")[0]


def test_a_pod_that_bears_the_name_of_its_group_is_no_second_one():
    member = world.pod("train", meta={"labels": {"muster.dev/pod-group": "train"}})
    told = json.loads(run(World(member, world.group("train")), "why", "train", "-o", "json")[0])
    assert told["name"] == "muster:train"


@pytest.mark.parametrize("source", [source.value for source in Source if source is not Source.POD])
def test_a_group_that_is_marks_on_pods_alone_is_found_by_its_live_answer(source):
    there = World(world.workload(f"{source}:marks"))
    assert f"{source}:marks in" in run(there, "why", "marks")[0]
    assert f"{source}:marks in" in run(there, "why", f"{source}/marks")[0]


@pytest.mark.parametrize(
    ("words", "without", "want", "status"),
    [
        (("why", "none"), (), 'no group or pod "none" in namespace team, nor Events about one', 1),
        (("why", "none"), ("muster.dev",), "Muster is not installed in this cluster", 1),
        (("why", "bad/none"), (), "'bad/none' names no group; kinds are native, ", 2),
        (("why", "pod/"), (), "'pod/' names no group", 2),
        (("why", "theirs"), (), 'pod "theirs" in namespace team is none of Muster\'s; kube-x schedules it', 1),
        (("history", "none"), (), 'no group or pod "none" in namespace team, nor Events about one', 1),
        (("gangs",), ("muster.dev",), "Muster is not installed in this cluster", 1),
    ],
)
def test_what_cannot_be_answered_names_its_object_and_the_mend(words, without, want, status):
    there = World(world.pod("theirs", spec={"schedulerName": "kube-x"}), without=without)
    with pytest.raises(Problem) as refused:
        run(there, *words)
    assert str(refused.value).startswith(want)
    assert refused.value.status == status


# --- history -----------------------------------------------------------------------------------------


def test_history_is_in_order_and_says_nothing_twice():
    live = [{"since": "2026-01-01T00:00:00Z", "reason": "Queued", "message": "waiting in its queue"}]
    told = [
        {"at": "2026-01-01T00:00:01.5Z", "reason": "Queued", "message": "with numbers"},
        {"at": "2026-01-01T00:00:01.5Z", "reason": "Other", "message": "beside it"},
        {"at": "2026-01-01T00:01:00Z", "reason": "Queued", "message": "again"},
        {"at": "", "reason": "Old", "message": "no time"},
    ]
    found = history.merged(live, told)
    assert [(one["reason"], one["message"]) for one in found] == [
        ("Old", "no time"),
        ("Queued", "with numbers"),
        ("Other", "beside it"),
        ("Queued", "again"),
    ]


def test_evictions_of_the_live_answer_are_history_and_take_in_the_events_of_them():
    def event(at: str, reason: str, message: str) -> dict[str, str]:
        return {"at": at, "reason": reason, "message": message}

    told = [
        event("2026-01-01T00:06:58Z", TAINTED["rule"], "as much as was known then"),
        event("2026-01-01T00:30:00Z", TAINTED["rule"], TAINTED["message"]),  # written late
        event("2026-01-01T00:07:01Z", "Queued", "beside it"),
        event("2026-01-01T00:03:00Z", TAINTED["rule"], "an earlier one"),
    ]
    found = history.merged([], told, [TAINTED])
    assert [one["message"] for one in found] == ["an earlier one", TAINTED["message"], "beside it"]


def test_a_pod_that_is_gone_is_remembered_by_events():
    there = World(
        world.event("solo", "Preempted", EVICTED["message"], EVICTED["at"], kind="Pod"),
        world.event("solo", "Scheduled", "of the scheduler", EVICTED["at"], kind="Pod", reportingInstance="host"),
        world.event("solo-2", "Other", "of another", EVICTED["at"], kind="Pod"),
    )
    for name in ("solo", "pod/solo"):
        assert (
            run(there, "history", name)[0] == f"SINCE   REASON      MESSAGE\n5m      Preempted   {EVICTED['message']}\n"
        )
    assert run(there, "why", "solo")[0].startswith(
        f"solo in namespace team: Gone\n  Evicted  5m ago, Preempted: {EVICTED['message']}\n\nSINCE"
    )
    for command in ("why", "history"):
        with pytest.raises(Problem, match="no group or pod"):
            run(there, command, "podgroup/solo")


def test_a_group_that_has_not_waited_has_no_history():
    out, said = run(World(world.group("train")), "history", "train")
    assert (out, said.startswith("nothing is remembered")) == ("", True)


OF_TRAIN = {"apiVersion": "batch/v1", "kind": "Job", "name": "train-w-0", "uid": "j", "controller": True}


@pytest.mark.parametrize(
    ("word", "live"),
    [
        ("pytorchjob/train", "owner:pytorchjob:train"),
        ("pytorchjobs.kubeflow.org/train", "owner:pytorchjob:train"),
        ("Job:train", "owner:job:train"),
        ("owner:jobset:train:w", "owner:jobset:train:w"),
        ("train", "owner:jobset:train"),
        ("pod/train-w-0-x", "owner:jobset:train"),
        ("pod/train-w-0-x", "owner:jobset:train:w"),
    ],
)
def test_a_group_of_what_made_its_pods_is_found_by_that_and_by_its_members(word, live):
    labels = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": "w"}
    member = world.pod("train-w-0-x", meta={"labels": labels, "ownerReferences": [OF_TRAIN]})
    told = json.loads(run(World(member, world.workload(live)), "why", word, "-o", "json")[0])
    assert told["name"] == live
    assert ("pod" in told) is word.startswith("pod/")


def test_a_member_of_one_of_several_wholes_is_told_of_its_own():
    labels = {"leaderworkerset.sigs.k8s.io/name": "llm", "leaderworkerset.sigs.k8s.io/group-index": "1"}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "llm-1", "uid": "s", "controller": True}
    member = world.pod("llm-1-1", meta={"labels": labels, "ownerReferences": [owner]})
    there = World(member, world.workload("owner:leaderworkerset:llm:0"), world.workload("owner:leaderworkerset:llm:1"))
    assert json.loads(run(there, "why", "pod/llm-1-1", "-o", "json")[0])["name"] == "owner:leaderworkerset:llm:1"


def test_a_pod_that_stands_alone_though_something_made_it_is_told_as_that():
    member = world.pod("train-x", meta={"ownerReferences": [OF_TRAIN]})
    for there in (World(member), World(member, world.workload("pod:train-x"))):
        assert json.loads(run(there, "why", "pod/train-x", "-o", "json")[0])["name"] == "pod:train-x"
