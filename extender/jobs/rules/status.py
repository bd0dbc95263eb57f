"""A job's status as JSON and back.

Takes a status, gives the object that is written under `status` (Volcano's fields); takes that object, gives a status.
Must not raise for what it reads: what is not sound counts as absent.
"""

from __future__ import annotations

from typing import Any

from extender.jobs.rules.durations import format_duration, parse_duration
from extender.jobs.rules.model import Counts, JobStatus, Object, Phase
from extender.jobs.rules.record import KEY, decode_record, encode_record
from extender.wire.answers import time_text
from extender.wire.fields import Reader, seconds_of

#: phases that are remembered; Volcano's list has no end and has filled objects (its issue 5422)
MAX_HISTORY = 32
_COUNTS = ("pending", "running", "succeeded", "failed", "terminating", "unknown")
_MAX_COUNT = 2**31 - 1
_PHASES = {phase.value: phase for phase in Phase}


def encode_status(status: JobStatus) -> Object:
    """The whole object under `status`; write it whole: a field that is left out is zero."""
    state: dict[str, Any] = {
        "phase": status.phase.value if status.phase else "",
        "lastTransitionTime": time_text(status.since),
    }
    state |= {name: text for name, text in (("reason", status.reason), ("message", status.message)) if text}
    record = encode_record(status.record)
    controlled = dict(status.controlled) | ({KEY: record} if record else {})
    found: dict[str, Any] = {"state": state, "minAvailable": status.min_available}
    found |= {name: number for name in _COUNTS if (number := getattr(status.counts, name))}
    found |= {"version": status.version} if status.version else {}
    found |= {"retryCount": status.retries} if status.retries else {}
    if status.task_counts:
        found["taskStatusCount"] = {task: {"phase": dict(phases)} for task, phases in status.task_counts.items()}
    if status.history:
        found["conditions"] = [
            {"status": phase.value, "lastTransitionTime": time_text(at)} for phase, at in status.history
        ]
    if status.running_seconds is not None:
        found["runningDuration"] = format_duration(status.running_seconds)
    if controlled:
        found["controlledResources"] = controlled
    return found


def decode_status(found: object) -> JobStatus:
    """The status that was last written."""
    if not isinstance(found, dict):
        return JobStatus()
    reader = Reader()
    state = reader.mapping(found, "state", "state")
    controlled = _texts(reader.mapping(found, "controlledResources", "controlledResources"))
    duration = reader.text(found, "runningDuration", "runningDuration")
    return JobStatus(
        phase=_PHASES.get(reader.text(state, "phase", "phase")),
        reason=reader.text(state, "reason", "reason"),
        message=reader.text(state, "message", "message"),
        since=_seconds(state.get("lastTransitionTime")),
        counts=Counts(*(_count(found, name) for name in _COUNTS)),
        task_counts=_task_counts(reader, found),
        min_available=_count(found, "minAvailable"),
        version=_count(found, "version"),
        retries=_count(found, "retryCount"),
        history=tuple(
            (phase, _seconds(one.get("lastTransitionTime")))
            for one in reader.objects(found, "conditions", "conditions")
            if (phase := _PHASES.get(reader.text(one, "status", "status"))) is not None
        )[-MAX_HISTORY:],
        running_seconds=parse_duration(duration) if duration else None,
        controlled={key: text for key, text in controlled.items() if key != KEY},
        record=decode_record(controlled.get(KEY, "")),
    )


def _count(found: Object, name: str) -> int:
    return Reader().integer(found, name, name, 0, _MAX_COUNT) or 0


def _texts(found: Object) -> dict[str, str]:
    return {key: text for key, text in found.items() if isinstance(text, str)}


def _task_counts(reader: Reader, found: Object) -> dict[str, dict[str, int]]:
    read = {}
    tasks = reader.mapping(found, "taskStatusCount", "taskStatusCount")
    for task in tasks:
        phases = reader.mapping(reader.mapping(tasks, task, "taskStatusCount"), "phase", "phase")
        read[task] = {phase: number for phase in phases if (number := _count(phases, phase))}
    return read


def _seconds(found: object) -> float:
    return (seconds_of(found) if isinstance(found, str) else None) or 0.0
