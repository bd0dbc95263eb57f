"""Pod groups of all sources, and bad fields of custom resources."""

from __future__ import annotations

from typing import Any

import pytest
from wire_objects import group, table

from extender.core.ids import GroupKey, Source
from extender.core.model import Group
from extender.wire.objects import DecodeError, decode_group

DECLARED = [source for source in Source if source not in (Source.KUEUE, Source.POD)]
GANG = {"schedulingPolicy": {"gang": {"minCount": 4}}}


def made(source: Source, **fields: Any) -> Group:
    return Group(**({"key": GroupKey(source, "team", "g"), "uid": "g-1", "min_member": 1} | fields))


@table(
    "source, obj, want",
    {
        "native gang": (Source.NATIVE, group(spec=GANG), {"min_member": 4}),
        "native basic": (Source.NATIVE, group(spec={"schedulingPolicy": {"basic": {}}}), {}),
        "native with a level and a priority": (
            Source.NATIVE,
            group(spec=GANG | {"schedulingConstraints": {"topology": [{"key": "rack"}]}, "priority": -5}),
            {"min_member": 4, "topology_required": "rack", "priority": -5},
        ),
        "native that was scheduled once": (
            Source.NATIVE,
            group(
                spec=GANG,
                status={
                    "conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}]
                },
            ),
            {"min_member": 4, "initially_scheduled": True},
        ),
        "native that waits": (
            Source.NATIVE,
            group(
                spec=GANG,
                status={"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Queued"}]},
            ),
            {"min_member": 4, "stated_reason": "Queued"},
        ),
        "native that waits, in the words of our status": (
            Source.NATIVE,
            group(
                spec=GANG,
                status={
                    "conditions": [
                        {
                            "type": "PodGroupInitiallyScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "Fragmented: enough is free in sum",
                        }
                    ]
                },
            ),
            {"min_member": 4, "stated_reason": "Fragmented"},
        ),
        "native whose priority was filled in": (
            Source.NATIVE,
            group(spec=GANG | {"priorityClassName": "high", "priority": 7}),
            {"min_member": 4, "priority": 7},
        ),
        "native with a class alone": (
            Source.NATIVE,
            group(spec=GANG | {"priorityClassName": "high"}),
            {"min_member": 4, "priority_class": "high"},
        ),
        "ours with a class": (
            Source.MUSTER,
            group(spec={"minMember": 2, "priorityClassName": "low"}),
            {"min_member": 2, "priority_class": "low"},
        ),
        "ours with no class": (
            Source.MUSTER,
            group(spec={"minMember": 2, "priorityClassName": ""}),
            {"min_member": 2},
        ),
        "native that kube-scheduler refused": (
            Source.NATIVE,
            group(
                spec=GANG,
                status={
                    "conditions": [
                        {
                            "type": "PodGroupInitiallyScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "minCount (4): cannot be satisfied",
                        }
                    ]
                },
            ),
            {"min_member": 4, "stated_reason": "Unschedulable"},
        ),
        "ours with a task that may be empty": (
            Source.MUSTER,
            group(spec={"minMember": 2, "tasks": [{"name": "a", "minMember": 0}, {"name": "b", "minMember": 1}]}),
            {"min_member": 2, "tasks": (("b", 1),)},
        ),
        "an annotation that begins with no reason of ours": (
            Source.VOLCANO,
            group(spec={"minMember": 2}, meta={"annotations": {"muster.dev/why": "because: of you"}}),
            {"min_member": 2},
        ),
        "scheduler-plugins": (
            Source.SCHEDULER_PLUGINS,
            group(spec={"minMember": 3, "scheduleTimeoutSeconds": 60}, status={"phase": "Running"}),
            {"min_member": 3, "schedule_timeout": 60},
        ),
        "scheduler-plugins with a timeout that is left to the scheduler": (
            Source.SCHEDULER_PLUGINS,
            group(spec={"minMember": 3, "scheduleTimeoutSeconds": 0}),
            {"min_member": 3},
        ),
        "Volcano, whose minimum is below those of the tasks: then it looks at none of them": (
            Source.VOLCANO,
            group(spec={"minMember": 3, "minTaskMember": {"worker": 6}}),
            {"min_member": 3},
        ),
        "the reason in our annotation": (
            Source.SCHEDULER_PLUGINS,
            group(spec={"minMember": 3}, meta={"annotations": {"muster.dev/why": "Queued: 3 before it"}}),
            {"min_member": 3, "stated_reason": "Queued"},
        ),
        "Volcano": (
            Source.VOLCANO,
            group(
                spec={
                    "minMember": 3,
                    "minTaskMember": {"worker": 2, "launcher": 1, "evaluator": 0},
                    "queue": "team-a",
                    "priorityClassName": "high",
                    "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
                },
                status={"conditions": [{"type": "Unschedulable", "status": "True", "reason": "Fragmented"}]},
            ),
            {
                "min_member": 3,
                "tasks": (("launcher", 1), ("worker", 2)),
                "queue": "team-a",
                "priority_class": "high",
                "stated_reason": "Fragmented",
                "topology_required": "topology.volcano.sh/tier-2",
                "topology_preferred": "topology.volcano.sh/lowest-tier",
            },
        ),
        "ours": (
            Source.MUSTER,
            group(
                meta={"generation": 7, "creationTimestamp": "1970-01-01T00:00:10Z"},
                spec={
                    "minMember": 5,
                    "tasks": [{"name": "worker", "minMember": 4}, {"name": "launcher", "minMember": 1}],
                    "queue": "team-a",
                    "topology": {"required": "rack", "preferred": "switch"},
                    "preemptible": False,
                    "expectedDurationSeconds": 3600,
                    "scheduleTimeoutSeconds": 120,
                },
                status={"phase": "Running", "reason": "Queued"},
            ),
            {
                "min_member": 5,
                "tasks": (("worker", 4), ("launcher", 1)),
                "queue": "team-a",
                "topology_required": "rack",
                "topology_preferred": "switch",
                "preemptible": False,
                "expected_duration": 3600,
                "schedule_timeout": 120,
                "created": 10.0,
                "generation": 7,
                "phase": "Running",
                "stated_reason": "Queued",
                "initially_scheduled": True,
            },
        ),
        "without a minimum of its own the sum of its tasks'": (
            Source.MUSTER,
            group(spec={"tasks": [{"name": "a", "minMember": 2}, {"name": "b", "minMember": 3}]}),
            {"min_member": 5, "tasks": (("a", 2), ("b", 3))},
        ),
        "the queue as a label, where no field says it": (
            Source.SCHEDULER_PLUGINS,
            group(spec={"minMember": 2}, meta={"labels": {"muster.dev/queue": "team-b"}}),
            {"min_member": 2, "queue": "team-b"},
        ),
    },
)
def test_group(source: Source, obj: dict, want: dict) -> None:
    assert decode_group(source, obj) == made(source, **want)


@table(
    "source, spec, problem",
    {
        "no policy": (Source.NATIVE, {}, "spec.schedulingPolicy: None"),
        "a minimum of 0": (
            Source.NATIVE,
            {"schedulingPolicy": {"gang": {"minCount": 0}}},
            "spec.schedulingPolicy.gang.minCount: 0 is not an integer from 1 to 100000",
        ),
        "two levels": (
            Source.NATIVE,
            GANG | {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            "spec.schedulingConstraints.topology: [{'key': 'a'}, {'key': 'b'}]",
        ),
        "a minimum in words": (Source.SCHEDULER_PLUGINS, {"minMember": "3"}, "spec.minMember: '3'"),
        "a minimum with a fraction": (Source.SCHEDULER_PLUGINS, {"minMember": 3.0}, "spec.minMember: 3.0"),
        "a minimum below 0": (Source.VOLCANO, {"minMember": -1}, "spec.minMember: -1"),
        "a minimum beyond reason": (Source.MUSTER, {"minMember": 100_001}, "spec.minMember: 100001"),
        "a minimum of 2^63": (Source.VOLCANO, {"minMember": 2**63}, "spec.minMember: 9223372036854775808"),
        "a timeout of 0": (
            Source.MUSTER,
            {"minMember": 1, "scheduleTimeoutSeconds": 0},
            "spec.scheduleTimeoutSeconds: 0",
        ),
        "a timeout below 0": (
            Source.SCHEDULER_PLUGINS,
            {"minMember": 1, "scheduleTimeoutSeconds": -1},
            "spec.scheduleTimeoutSeconds: -1",
        ),
        "a task's minimum below 0": (
            Source.VOLCANO,
            {"minTaskMember": {"worker": -2}},
            "spec.minTaskMember[worker]: -2",
        ),
        "tasks that are a list": (
            Source.VOLCANO,
            {"minTaskMember": ["worker"]},
            "spec.minTaskMember: ['worker']",
        ),
        "a task named twice": (
            Source.MUSTER,
            {"minMember": 2, "tasks": [{"name": "a", "minMember": 1}, {"name": "a", "minMember": 1}]},
            "spec.tasks.name: 'a' is not a name of its own",
        ),
        "a task without a name": (
            Source.MUSTER,
            {"minMember": 2, "tasks": [{"minMember": 1}]},
            "spec.tasks.name: ''",
        ),
        "a task's minimum beyond reason": (
            Source.MUSTER,
            {"minMember": 2, "tasks": [{"name": "a", "minMember": 10**6}]},
            "spec.tasks[a].minMember: 1000000",
        ),
        "a task without a minimum": (
            Source.MUSTER,
            {"minMember": 2, "tasks": [{"name": "a"}]},
            "spec.tasks[a].minMember: is missing",
        ),
        "preemptible in words": (
            Source.MUSTER,
            {"minMember": 1, "preemptible": "no"},
            "spec.preemptible: 'no'",
        ),
        "a level that is a number": (
            Source.MUSTER,
            {"minMember": 1, "topology": {"required": 3}},
            "spec.topology.required: 3",
        ),
        "a queue that is a list": (Source.VOLCANO, {"minMember": 1, "queue": ["q"]}, "spec.queue: ['q']"),
        "no spec": (Source.MUSTER, "none", "spec: 'none'"),
    },
)
def test_bad_fields_are_stated_and_the_minimum_stays_sound(source: Source, spec: Any, problem: str) -> None:
    obj = group() | {"spec": spec}
    got = decode_group(source, obj)
    assert [text.startswith(problem) for text in got.problems] == [True]
    assert got.min_member >= 1


@pytest.mark.parametrize("source", DECLARED)
@pytest.mark.parametrize("obj", [None, {}, {"metadata": {"name": "g"}}, {"metadata": {"uid": "u"}}])
def test_a_group_without_identity_is_refused(source: Source, obj: object) -> None:
    with pytest.raises(DecodeError):
        decode_group(source, obj)
