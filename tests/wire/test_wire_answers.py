"""Answers as objects of the API group: names that tell groups apart, tables, pages."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core import answers as core
from extender.core.ids import GroupKey, NodeName, QueueName, Source
from extender.core.mending import Mend
from extender.core.model import QueueStatus, Span
from extender.core.reasons import Reason, Refusal
from extender.wire import answers

NOW = 1_767_225_600.25  # 2026-01-01T00:00:00.25Z
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def workload(**fields) -> core.Workload:
    given = {
        "key": GroupKey(Source.MUSTER, "team", "train"),
        "name": "train",
        "uid": "u",
        "created": NOW - 60,
        "phase": "Pending",
        "refusal": Refusal(Reason.RESOURCES, (("resource", "nvidia.com/gpu"), ("asked", 8), ("free", 3))),
        "since": NOW - 30,
        "queue": QueueName("research"),
        "position": 2,
        "members": core.Members(8, 8, 0, 0, 0, 0),
        "nodes": (),
    }
    return core.Workload(**given | fields)


def queue(**fields) -> core.QueueState:
    waiter = core.Waiter("team", Source.POD, "web", 1, Refusal(Reason.QUOTA), NOW - 5)
    given = {
        "name": QueueName("research"),
        "parent": QueueName("dept"),
        "status": QueueStatus(allocated=(("cpu", 1500),), share="0.50", pending=1, state="Open"),
        "share": (("cpu", 3000),),
        "waiting": (waiter,),
    }
    return core.QueueState(**given | fields)


def test_a_waiting_group_says_why_with_its_numbers():
    assert answers.workload(workload(), NOW) == {
        "apiVersion": "visibility.muster.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {
            "name": "muster:train",
            "namespace": "team",
            "uid": "u",
            "creationTimestamp": "2025-12-31T23:59:00Z",
        },
        "status": {
            "phase": "Pending",
            "reason": "InsufficientResources",
            "reasonKind": "wait",
            "message": "not enough free resources for the whole group (resource nvidia.com/gpu, asked 8, free 3)",
            "detail": [
                {"name": "resource", "value": "nvidia.com/gpu"},
                {"name": "asked", "value": 8},
                {"name": "free", "value": 3},
            ],
            "queue": "research",
            "members": {"have": 8, "minimum": 8, "planned": 0, "bound": 0, "succeeded": 0, "failed": 0},
            "plannedNodes": [],
            "observedAt": "2026-01-01T00:00:00.250000Z",
            "since": "2025-12-31T23:59:30Z",
            "position": 2,
        },
    }


def test_a_running_group_has_no_reason_and_no_position():
    status = answers.workload(workload(phase="Running", refusal=None, since=None, position=None), NOW)["status"]
    assert status["phase"] == "Running"
    assert not {"reason", "message", "detail", "since", "position"} & set(status)


def test_planned_nodes_that_are_not_named_are_counted():
    placed = workload(nodes=(core.Places(NodeName("n0"), 3, (("cpu", 1500),)),), members=core.Members(8, 8, 8, 0, 0, 0))
    status = answers.workload(placed, NOW)["status"]
    assert status["plannedNodes"] == [{"name": "n0", "members": 3, "requests": {"cpu": "1500m"}}]
    assert status["plannedElsewhere"] == 5


def test_what_would_end_the_wait_and_what_was_before_have_the_words_of_their_reasons():
    changes = (Mend(Reason.QUOTA, (("queue", "q"), ("more", 4))), Mend(Reason.QUEUED))
    past = ((NOW - 60, Reason.QUEUED), (NOW - 30, None))
    status = answers.workload(workload(), NOW, core.Closer(changes, NOW + 60, past))["status"]
    assert status["startsWhen"] == [
        {
            "reason": "QuotaExceeded",
            "message": "the queue uses so much less, or may use so much more (queue q, more 4)",
            "detail": [{"name": "queue", "value": "q"}, {"name": "more", "value": 4}],
        },
        {"reason": "Queued", "message": "its turn comes: those before it are looked at first", "detail": []},
    ]
    assert status["expectedStart"] == "2026-01-01T00:01:00Z"
    assert status["history"] == [
        {"since": "2025-12-31T23:59:00Z", "reason": "Queued", "message": "waiting in its queue"},
        {
            "since": "2025-12-31T23:59:30Z",
            "reason": "StartingUp",
            "message": "has its places, and its members are on their way to them",
        },
    ]
    status = answers.workload(workload(), NOW, core.Closer((), None, ()))["status"]
    assert (status["startsWhen"], status["history"], "expectedStart" in status) == ([], [], False)


def test_one_group_says_what_it_has_of_the_network():
    span = Span(None, "rack", (("block", 1), ("rack", 2)), "block", ("b0",))
    status = answers.workload(workload(), NOW, core.Closer((), None, (), span))["status"]
    levels = [{"level": "block", "domains": 1}, {"level": "rack", "domains": 2}]
    assert status["topology"] == {"preferred": "rack", "level": "block", "domain": "b0", "levels": levels}
    scattered = core.Closer((), None, (), Span(None, None, (("rack", 3),), None, ()))
    told = answers.workload(workload(), NOW, scattered)["status"]["topology"]
    assert told == {"levels": [{"level": "rack", "domains": 3}]}


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_words_for_a_person(reason):
    status = answers.workload(workload(refusal=Refusal(reason)), NOW)["status"]
    assert status["reason"] == reason.value
    assert len(status["message"]) > 10
    assert status["reasonKind"] in ("wait", "never", "fault")


def test_a_group_that_is_starting_is_not_told_what_kube_scheduler_is_told():
    status = answers.workload(workload(refusal=Refusal(Reason.HELD_ELSEWHERE)), NOW)["status"]
    assert status["reason"] == "StartingUp"
    assert "another node" not in status["message"]


def test_a_queue_says_what_it_has_and_who_waits():
    assert answers.queue(queue(), NOW)["status"] == {
        "state": "Open",
        "allocated": {"cpu": "1500m"},
        "fairShare": {"cpu": "3"},
        "share": "0.50",
        "pending": 1,
        "waiting": [
            {
                "position": 1,
                "namespace": "team",
                "name": "pod:web",
                "reason": "QuotaExceeded",
                "since": "2025-12-31T23:59:55Z",
            }
        ],
        "observedAt": "2026-01-01T00:00:00.250000Z",
        "parent": "dept",
    }


# --- names and pages ---------------------------------------------------------------------------------


@given(st.sampled_from(list(Source)), names)
def test_a_name_is_read_as_it_was_written(source, name):
    assert answers.parse_name(answers.name_of(source, name)) == (source, name)


@pytest.mark.parametrize("text", ["", "train", ":train", "muster:", "Muster:train", "ghost:train", "muster", "pod"])
def test_what_names_no_group_is_no_name(text):
    assert answers.parse_name(text) is None


@given(names, names)
def test_a_token_goes_on_where_it_was_given(namespace, name):
    token = answers.encode_continue(namespace, name)
    assert token.isascii()
    assert answers.decode_continue(token) == (namespace, name)


@pytest.mark.parametrize("token", ["", "x", "e30=", "W10=", "WzEsMl0=", "WyJhIl0=", "é", "=" * 9, "bnVsbA==", "W" * 9])
def test_a_token_that_is_none_of_ours_is_none(token):
    assert answers.decode_continue(token) is None


@given(st.text(max_size=40))
def test_no_token_breaks_the_reader(token):
    answers.decode_continue(token)


# --- tables ------------------------------------------------------------------------------------------


def test_a_table_has_a_cell_for_each_column_and_names_its_objects():
    for resource, item in (
        (answers.WORKLOADS, answers.workload(workload(), NOW)),
        (answers.QUEUES, answers.queue(queue(), NOW)),
    ):
        table = answers.table(resource, [item], {}, "Metadata", NOW)
        assert (table["apiVersion"], table["kind"]) == ("meta.k8s.io/v1", "Table")
        (row,) = table["rows"]
        assert len(row["cells"]) == len(table["columnDefinitions"])
        assert row["cells"][0] == item["metadata"]["name"]
        assert row["object"]["kind"] == "PartialObjectMetadata"
        assert row["object"]["metadata"] == item["metadata"]
        orjson.dumps(table)


@pytest.mark.parametrize(("include", "want"), [("None", None), ("Object", "Workload")])
def test_what_goes_along_is_as_asked_for(include, want):
    item = answers.workload(workload(), NOW)
    (row,) = answers.table(answers.WORKLOADS, [item], {}, include, NOW)["rows"]
    assert (row["object"] and row["object"]["kind"]) == want


CELLS = {
    "waits": ({}, ["muster:train", "Pending", "InsufficientResources", "research", "2", "0/8", "30s"]),
    "runs": (
        {
            "phase": "Running",
            "refusal": None,
            "since": None,
            "position": None,
            "members": core.Members(8, 4, 0, 6, 2, 0),
        },
        ["muster:train", "Running", "", "research", "", "8/4", ""],
    ),
    "cannot be judged": (
        {"refusal": Refusal(Reason.INVALID), "members": core.Members(1, None, 0, 0, 0, 0)},
        ["muster:train", "Pending", "InvalidRequest", "research", "2", "0/?", "30s"],
    ),
}


@pytest.mark.parametrize(("fields", "want"), CELLS.values(), ids=CELLS.keys())
def test_cells_of_a_group(fields, want):
    item = answers.workload(workload(**fields), NOW)
    assert answers.table(answers.WORKLOADS, [item], {}, "None", NOW)["rows"][0]["cells"] == want


@pytest.mark.parametrize(
    ("seconds", "want"),
    [(0, "0s"), (59.9, "59s"), (60, "1m"), (200, "3m20s"), (3600, "1h"), (90_061, "1d1h"), (86_460, "1d"), (-5, "0s")],
)
def test_the_wait_is_shown_in_two_units(seconds, want):
    item = answers.workload(workload(since=NOW - 0.25), NOW)
    assert answers.table(answers.WORKLOADS, [item], {}, "None", NOW - 0.25 + seconds)["rows"][0]["cells"][-1] == want


def test_cells_of_a_queue_in_which_nobody_waits():
    item = answers.queue(queue(waiting=()), NOW)
    cells = answers.table(answers.QUEUES, [item], {}, "None", NOW)["rows"][0]["cells"]
    assert cells == ["research", "Open", "0.50", 1, "", ""]


@given(names, names, names)
def test_hostile_texts_stay_texts(name, namespace, message):
    refusal = Refusal(Reason.SCHEDULER_REFUSED, (("message", message),))
    item = answers.workload(workload(key=GroupKey(Source.MUSTER, namespace, name), name=name, refusal=refusal), NOW)
    read = json.loads(orjson.dumps(answers.listed(answers.WORKLOADS, [item], {})))
    assert read["items"][0]["metadata"]["name"] == f"muster:{name}"
    assert read["items"][0]["status"]["detail"] == [{"name": "message", "value": message}]


def test_discovery_names_what_is_served_and_nothing_that_changes_anything():
    listed = answers.resource_list()
    assert {one["name"]: (one["kind"], one["namespaced"], *one["verbs"]) for one in listed["resources"]} == {
        "workloads": ("Workload", True, "get", "list"),
        "queues": ("Queue", False, "get", "list"),
        "usages": ("Usage", False, "get"),
        # answered, and kept nowhere
        "plans": ("Plan", True, "create"),
        "drainplans": ("DrainPlan", False, "create"),
        "queueplans": ("QueuePlan", False, "create"),
    }
    assert answers.group()["preferredVersion"]["groupVersion"] == listed["groupVersion"]
    assert answers.group_list()["groups"][0]["name"] == "visibility.muster.dev"
