"""What is written about a group, in the words of its own object: status patches and the annotation of why.

Takes a statement of the engine and a time, gives patch bodies; must not decide when to write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from extender.core import explain
from extender.core.ids import Source
from extender.core.messages import StateGroup
from extender.core.stating import RUNNING
from extender.wire.groups import WHY_ANNOTATION
from extender.wire.network import span_object

#: our condition in objects of ours; the native one has the same name as kube-scheduler's
SCHEDULED = "Scheduled"
NATIVE_SCHEDULED = "PodGroupInitiallyScheduled"


@dataclass(frozen=True, slots=True)
class Patches:
    """Bodies to send; None where the source has no place for it. `strategic`: conditions merge by type."""

    status: dict[str, Any] | None
    annotations: dict[str, str | None] | None
    strategic: bool = False


def reason_and_text(statement: StateGroup) -> tuple[str, str]:
    """Reason and sentence of a statement, as conditions and Events have them."""
    members, scheduled, succeeded, _ = statement.counts
    if statement.refusal is None:
        return "Scheduled", f"{scheduled} of {members} members are bound, {succeeded} have succeeded"
    return statement.refusal.reason.value, explain.sentence(statement.refusal)


def patches(statement: StateGroup, time: str) -> Patches:
    """The patches that bring this statement into the group's object; `time` is RFC 3339 in UTC."""
    match statement.key.source:
        case Source.MUSTER:
            return Patches({"status": _muster(statement, time)}, None)
        case Source.NATIVE:
            return Patches({"status": _native(statement, time)}, None, strategic=True)
        case Source.VOLCANO:
            return Patches({"status": _volcano(statement, time)}, None)
    status: dict[str, Any] = {"phase": statement.phase, "running": statement.counts[1]}
    return Patches({"status": status}, {WHY_ANNOTATION: _why(statement)})


def _why(statement: StateGroup) -> str | None:
    if statement.refusal is None:
        return None
    reason, text = reason_and_text(statement)
    return f"{reason}: {text}"


def _muster(statement: StateGroup, time: str) -> dict[str, Any]:
    members, scheduled, succeeded, failed = statement.counts
    reason, text = reason_and_text(statement)
    waiting = statement.refusal is not None
    return {
        "phase": statement.phase,
        "members": members,
        "scheduled": scheduled,
        "succeeded": succeeded,
        "failed": failed,
        "reason": reason if waiting else None,
        "message": text,
        "topology": span_object(statement.span) if statement.span is not None else None,
        "observedAt": time,
        "observedGeneration": statement.generation,
        "conditions": [_condition(SCHEDULED, statement, time) | {"observedGeneration": statement.generation}],
    }


def _native(statement: StateGroup, time: str) -> dict[str, Any]:
    condition = _condition(NATIVE_SCHEDULED, statement, time)
    if statement.initially_scheduled:  # once true it stays true, as with kube-scheduler
        condition |= {"status": "True", "reason": "Scheduled"}
    else:
        condition["reason"] = "Unschedulable"
        condition["message"] = _why(statement) or ""
    return {"conditions": [condition]}


def _volcano(statement: StateGroup, time: str) -> dict[str, Any]:
    _, scheduled, succeeded, failed = statement.counts
    condition = _condition("Scheduled" if statement.refusal is None else "Unschedulable", statement, time)
    return {
        "phase": statement.phase,
        "running": scheduled,
        "succeeded": succeeded,
        "failed": failed,
        "conditions": [condition | {"status": "True"}],
    }


def _condition(kind: str, statement: StateGroup, time: str) -> dict[str, Any]:
    reason, text = reason_and_text(statement)
    return {
        "type": kind,
        "status": "True" if statement.phase == RUNNING else "False",
        "reason": reason,
        "message": text,
        "lastTransitionTime": time,
    }
