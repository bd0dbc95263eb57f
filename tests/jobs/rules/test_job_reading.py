"""Jobs, pods and Commands as they are read: defaults, what is refused and why, and objects that make no sense."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from job_world import a_job, a_task, a_template, read_job

from extender.jobs.rules import reading
from extender.jobs.rules.durations import format_duration, parse_duration
from extender.jobs.rules.lifecycle import reconcile
from extender.jobs.rules.model import Action, Job, Loss, Phase, PodPhase, Record, Trouble
from extender.jobs.rules.record import decode_record, encode_record, indexes, ranges
from extender.jobs.rules.refusals import Reason
from extender.jobs.rules.status import decode_status, encode_status
from extender.wire.fields import DecodeError


def test_defaults_are_those_of_the_webhook() -> None:
    job = read_job(a_job({"replicas": 2, "template": a_template()}, a_task("b", 3, minAvailable=1)))
    assert [task.name for task in job.spec.tasks] == ["default0", "b"]
    assert (job.spec.min_available, job.spec.max_retry, job.spec.queue, job.spec.ttl) == (3, 3, "default", None)
    assert [task.max_retry for task in job.spec.tasks] == [3, 3]
    assert read_job(a_job(minAvailable=0, maxRetry=0)).spec.min_available == 2


def test_a_name_with_dots_is_no_fault_where_it_names_no_host() -> None:
    assert read_job(a_job(name="train.2027")).name == "train.2027"


def policy(**fields: Any) -> dict[str, Any]:
    return {"policies": [{"event": "PodFailed", "action": "RestartJob"} | fields]}


TWO = [{"event": "PodFailed", "action": "RestartJob"}, {"events": ["PodFailed"], "action": "AbortJob"}]
WITH_ANY = [{"event": "*", "action": "RestartJob"}, {"event": "PodFailed", "action": "AbortJob"}]
CODES = [{"exitCode": 3, "action": "RestartJob"}, {"exitCode": 3, "action": "AbortJob"}]
#: what is wrong -> the reason and a word of the message
REFUSED: dict[str, tuple[dict[str, Any], Reason, str]] = {
    "no tasks": (a_job() | {"spec": {"tasks": []}}, Reason.NO_TASKS, "tasks"),
    "no spec": (a_job() | {"spec": 7}, Reason.NO_TASKS, "spec"),
    "tasks are no list": (a_job() | {"spec": {"tasks": {}}}, Reason.INVALID_FIELD, "tasks"),
    "name of the job": (a_job(name="a_b"), Reason.INVALID_NAME, "a_b"),
    "name of the job in names of hosts": (a_job(name="a.b", plugins={"svc": []}), Reason.INVALID_NAME, "a.b"),
    "priority class": (a_job(priorityClassName="High!"), Reason.INVALID_FIELD, "High!"),
    "tier": (a_job(networkTopology={"highestTierName": "a b"}), Reason.INVALID_FIELD, "a b"),
    "name of pods": (a_job(a_task("worker", 1000), name="a" * 54), Reason.INVALID_NAME, "63"),
    "name of a task": (a_job(a_task("Worker")), Reason.INVALID_TASK_NAME, "Worker"),
    "name of a task that is not ASCII": (a_job(a_task("wörker")), Reason.INVALID_TASK_NAME, "wörker"),
    "two tasks of a name": (a_job(a_task(), a_task()), Reason.DUPLICATE_TASK_NAME, "worker"),
    "replicas below zero": (a_job(a_task(replicas=-1)), Reason.INVALID_FIELD, "replicas"),
    "replicas that are no number": (a_job(a_task() | {"replicas": "2"}), Reason.INVALID_FIELD, "replicas"),
    "replicas in parts": (a_job(a_task() | {"replicas": 1.5}), Reason.INVALID_FIELD, "replicas"),
    "replicas that are huge": (a_job(a_task() | {"replicas": 2**40}), Reason.INVALID_FIELD, "replicas"),
    "too many replicas": (a_job(a_task("w", 60_000), a_task("v", 60_000)), Reason.TOO_MANY_PODS, "120000"),
    "minimum above all": (a_job(minAvailable=3), Reason.INVALID_MIN_AVAILABLE, "3"),
    "minimum below zero": (a_job(minAvailable=-1), Reason.INVALID_MIN_AVAILABLE, "-1"),
    "minimum of a task": (a_job(a_task(minAvailable=3)), Reason.INVALID_MIN_AVAILABLE, "worker"),
    "minimum of a task below zero": (a_job(a_task(minAvailable=-3)), Reason.INVALID_MIN_AVAILABLE, "-3"),
    "retries": (a_job(maxRetry=-1), Reason.INVALID_FIELD, "maxRetry"),
    "time to live": (a_job(ttlSecondsAfterFinished=-1), Reason.INVALID_FIELD, "ttl"),
    "successes": (a_job(minSuccess=0), Reason.INVALID_FIELD, "minSuccess"),
    "queue": (a_job(queue="../../x"), Reason.INVALID_FIELD, "queue"),
    "estimate": (a_job(runningEstimate="soon"), Reason.INVALID_FIELD, "soon"),
    "two policies of an event": (a_job(policies=TWO), Reason.DUPLICATE_POLICY, "PodFailed"),
    "two policies of a task": (a_job(a_task(policies=TWO)), Reason.DUPLICATE_POLICY, "worker"),
    "any event and another": (a_job(policies=WITH_ANY), Reason.DUPLICATE_POLICY, "*"),
    "two policies of a code": (a_job(policies=CODES), Reason.DUPLICATE_POLICY, "3"),
    "event and code": (a_job(**policy(exitCode=3)), Reason.INVALID_POLICY, "exitCode"),
    "neither event nor code": (a_job(policies=[{"action": "AbortJob"}]), Reason.INVALID_POLICY, "event"),
    "exit code 0": (a_job(policies=[{"exitCode": 0, "action": "AbortJob"}]), Reason.INVALID_POLICY, "0"),
    "action": (a_job(**policy(action="SyncJob")), Reason.INVALID_POLICY, "SyncJob"),
    "no action": (a_job(**policy(action=None)), Reason.INVALID_POLICY, "action"),
    "timeout": (a_job(**policy(timeout="-5s")), Reason.INVALID_FIELD, "timeout"),
    "timeout as a number": (a_job(**policy(timeout=5)), Reason.INVALID_FIELD, "timeout"),
    "unknown task": (a_job(a_task(dependsOn={"name": ["x"]})), Reason.INVALID_DEPENDENCY, "x"),
    "itself": (a_job(a_task(dependsOn={"name": ["worker"]})), Reason.INVALID_DEPENDENCY, "circle"),
    "a circle": (
        a_job(a_task("a", dependsOn={"name": ["b"]}), a_task("b", dependsOn={"name": ["a"]})),
        Reason.INVALID_DEPENDENCY,
        "a, b",
    ),
    "iteration": (a_job(a_task(dependsOn={"name": ["x"], "iteration": "some"})), Reason.INVALID_DEPENDENCY, "some"),
    "no containers": (a_job(a_task(template={"spec": {}})), Reason.INVALID_TEMPLATE, "containers"),
    "no template": (a_job({"name": "a", "replicas": 1}), Reason.INVALID_TEMPLATE, "a"),
    "odd containers": (a_job(a_task(template={"spec": {"containers": [1]}})), Reason.INVALID_TEMPLATE, "objects"),
    "odd env": (
        a_job(a_task(template={"spec": {"containers": [{"env": {}} | {"env": 1}]}})),
        Reason.INVALID_TEMPLATE,
        "env",
    ),
    "volume": (a_job(volumes=[{"mountPath": "/a"}]), Reason.INVALID_VOLUME, "volumeClaim"),
    "volume without a place": (a_job(volumes=[{"volumeClaimName": "a"}]), Reason.INVALID_VOLUME, "mountPath"),
    "two volumes in a place": (
        a_job(volumes=[{"mountPath": "/a", "volumeClaimName": "a"}, {"mountPath": "/a", "volumeClaimName": "b"}]),
        Reason.INVALID_VOLUME,
        "/a",
    ),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_refused(name: str) -> None:
    obj, reason, word = REFUSED[name]
    found = reading.decode_job(obj)
    assert isinstance(found, reading.Refusal), found
    assert found.reason is reason
    assert word in found.message
    step = reading.refuse(found, 1_800_000_000.0)
    assert step.status is not None
    assert (step.status.phase, step.status.reason, step.status.message) == (Phase.FAILED, reason.value, found.message)
    assert [(one.warning, one.reason) for one in step.events] == [(True, reason.value)]
    again = reading.decode_job(obj | {"status": encode_status(step.status)})
    assert isinstance(again, reading.Refusal)
    assert reading.refuse(again, 1_800_000_001.0) == type(step)()


@pytest.mark.parametrize("obj", [None, [], {}, {"metadata": {}}, {"metadata": {"name": "a", "uid": "u"}}])
def test_objects_without_an_identity(obj: object) -> None:
    with pytest.raises(DecodeError):
        reading.decode_job(obj)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PLACES = [
    ("spec",),
    ("status",),
    *[("spec", name) for name in ("tasks", "policies", "plugins", "volumes", "queue", "networkTopology", "minSuccess")],
    *[
        ("spec", "tasks", 0, name)
        for name in ("name", "replicas", "template", "policies", "dependsOn", "partitionPolicy")
    ],
    ("spec", "tasks", 0, "template", "spec"),
    ("spec", "tasks", 0, "template", "metadata"),
    *[("status", name) for name in ("state", "conditions", "controlledResources", "version", "taskStatusCount")],
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("metadata", "creationTimestamp"),
]


@hypothesis.given(st.sampled_from(PLACES), ANYTHING)
def test_anything_anywhere_is_a_job_or_a_refusal(place: tuple[Any, ...], thing: object) -> None:
    obj = a_job(plugins={"svc": [], "env": []}) | {"status": {}}
    parent: Any = obj
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = thing
    found = reading.decode_job(obj)
    if isinstance(found, Job):
        reconcile(found, (), (), 1_800_000_000.0)
    else:
        reading.refuse(found, 1_800_000_000.0)


def test_a_pod() -> None:
    pod = reading.decode_pod(
        {
            "metadata": {
                "name": "train-worker-1",
                "uid": "p",
                "creationTimestamp": "2027-01-15T08:00:00Z",
                "deletionTimestamp": "2027-01-15T08:02:00Z",
                "annotations": {
                    "volcano.sh/task-spec": "worker",
                    "volcano.sh/task-index": "1",
                    "volcano.sh/job-version": "3",
                },
                "ownerReferences": [
                    {"kind": "Other", "uid": "x", "controller": False},
                    {"kind": "Job", "uid": "j", "controller": True},
                ],
            },
            "spec": {"nodeName": "node-a"},
            "status": {
                "phase": "Failed",
                "conditions": [{"type": "DisruptionTarget", "status": "True"}],
                "containerStatuses": [
                    {
                        "restartCount": 2,
                        "state": {"terminated": {"exitCode": 137, "finishedAt": "2027-01-15T08:01:00Z"}},
                    },
                    {"restartCount": 1, "state": {"terminated": {"exitCode": 0, "finishedAt": "2027-01-15T08:00:30Z"}}},
                ],
            },
        }
    )
    assert (pod.task, pod.index, pod.version, pod.owner_uid, pod.node) == ("worker", 1, 3, "j", "node-a")
    assert (pod.phase, pod.deleting, pod.disrupted, pod.exit_codes) == (PodPhase.FAILED, True, True, (137,))
    assert (pod.since - pod.created, pod.restarts) == (60.0, 3)


@hypothesis.given(st.sampled_from(["metadata", "spec", "status"]), st.text(max_size=8), ANYTHING)
def test_anything_in_a_pod(part: str, key: str, thing: object) -> None:
    pod: dict[str, Any] = {"metadata": {}, "spec": {}, "status": {"phase": "Running"}}
    for name in (key, "annotations", "ownerReferences", "containerStatuses", "conditions", "reason"):
        pod[part][name] = thing
    pod["metadata"] |= {"name": "p", "uid": "u"}
    reading.decode_pod(pod)


def test_commands() -> None:
    meta = {"name": "c", "uid": "u"}
    target = {"kind": "Job", "name": "train", "uid": "j"}
    job, command = reading.decode_command({"metadata": meta, "action": "ResumeJob", "target": target})
    assert (job, command.name, command.action, command.target_uid) == ("train", "c", Action.RESUME_JOB, "j")
    for odd in ({"target": {"kind": "Queue", "name": "q"}}, {"target": 1}, {"target": None, "action": {}}):
        job, command = reading.decode_command({"metadata": meta, "action": "OpenQueue"} | odd)
        assert (job, command.action) == ("", None)


TASKS = st.sampled_from(["ps", "worker"])
COUNTS = st.integers(0, 2**31 - 1)
TIMES = st.floats(0, 2e9)
RECORDS = st.builds(
    Record,
    floors=st.dictionaries(TASKS, COUNTS),
    seen=st.dictionaries(TASKS, st.frozensets(st.integers(0, 99_999), min_size=1, max_size=9)),
    done=st.dictionaries(TASKS, st.frozensets(st.integers(0, 99_999), min_size=1, max_size=9)),
    losses=st.dictionaries(
        st.tuples(TASKS, COUNTS), st.builds(Loss, COUNTS, COUNTS, TIMES, st.text(max_size=9), st.booleans())
    ),
    nodes=st.dictionaries(st.text(max_size=9), st.builds(Trouble, COUNTS, TIMES)),
    answered=st.frozensets(TASKS),
    commands=st.lists(st.text(max_size=9), max_size=16).map(tuple),
    restarted_at=TIMES,
    run=COUNTS,
)


@hypothesis.given(RECORDS)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    assert decode_record(encode_record(record)) == record


@hypothesis.given(st.text() | st.sampled_from(["[]", '{"floors":[]}', '{"losses":[[1]]}', '{"seen":{"a":"9-1"}}', "{"]))
def test_a_record_that_makes_no_sense_is_forgotten(text: str) -> None:
    decode_record(text)
    assert encode_record(decode_record("")) == ""


@hypothesis.given(ANYTHING)
def test_a_status_that_makes_no_sense_is_none(found: object) -> None:
    status = decode_status(found)
    assert decode_status(encode_status(status)).phase == status.phase


def test_a_history_that_has_grown_too_long_is_cut() -> None:
    found = decode_status({"conditions": [{"status": "Running"}] * 500 + [{"status": "Failed"}]})
    assert len(found.history) == 32
    assert found.history[-1][0] is Phase.FAILED


@hypothesis.given(st.frozensets(st.integers(0, 99_999), max_size=30))
def test_ranges(numbers: frozenset[int]) -> None:
    assert indexes(ranges(numbers)) == numbers


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1h30m", 5400.0), ("300ms", 0.3), ("1.5s", 1.5), ("0", 0.0), ("10m0s", 600.0), ("1us", 1e-6)]
    + [(text, None) for text in ("", "5", "-1s", "1h ", "h", "1d", "1e3s", "९s", "99999999999h", "1m" * 99)],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == (pytest.approx(seconds) if seconds is not None else None)


@hypothesis.given(st.integers(0, 10**8))
def test_durations_are_read_as_they_were_written(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds
