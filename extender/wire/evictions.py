"""What is written of an eviction: the record on the pod just before it, and what stays on its group.

Takes a ground with its numbers and a time, gives texts and patch bodies; must not decide when to write.
The record is JSON for programs; people read the sentence of it in Events and conditions. `departed` reads all that.

A group's record goes where its source has a place that no later statement of ours overwrites:
  ours     `status.lastEviction`
  native   condition `muster.dev/Evicted`; DisruptionTarget there says that the whole group is about to end
  others   annotation `muster.dev/last-eviction`: one's status has no conditions, the other's are replaced as a whole
"""

from __future__ import annotations

from typing import Any

import orjson

from extender.core import explain
from extender.core.ids import Source
from extender.core.messages import NoteEviction
from extender.core.reasons import Detail, Ground
from extender.wire.answers import time_text
from extender.wire.departed import EVICTED_CONDITION, LAST_EVICTION_ANNOTATION, MAX_FACTS, short
from extender.wire.status import Patches

#: as our PodGroup's definition has it
_MAX_MESSAGE = 4096


def record(ground: Ground, detail: Detail, time: str) -> str:
    """By which rule, when, and for whom at what cost, as JSON of bounded size; `time` is RFC 3339 in UTC."""
    facts = {name: value if isinstance(value, int) else short(value) for name, value in detail[:MAX_FACTS]}
    return orjson.dumps({"rule": ground.value, "at": time, **facts}).decode()


def patches(note: NoteEviction) -> Patches:
    """The patches that bring the record into the group's object; none for a pod alone."""
    if note.key.lone:
        return Patches(None, None)
    time = time_text(note.at)
    why = explain.why_evicted(note.ground, note.detail)[:_MAX_MESSAGE]
    match note.key.source:
        case Source.MUSTER:
            return Patches({"status": {"lastEviction": {"rule": note.ground.value, "message": why, "at": time}}}, None)
        case Source.NATIVE:
            return Patches({"status": {"conditions": [_condition(note, why, time)]}}, None, strategic=True)
    return Patches(None, {LAST_EVICTION_ANNOTATION: record(note.ground, note.detail, time)})


def _condition(note: NoteEviction, why: str, time: str) -> dict[str, Any]:
    return {
        "type": EVICTED_CONDITION,
        "status": "True",
        "reason": note.ground.value,
        "message": why,
        "lastTransitionTime": time,
    }
