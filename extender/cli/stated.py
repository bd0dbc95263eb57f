"""What an object says of its group, in the form of the live answers: where there are none, it is all there is.

Takes decoded JSON of group objects and pods as we write them (wire.status, wire.evictions), gives a status and the
record of the newest eviction; must not guess what is not written: what a field does not say is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extender.core import explain
from extender.core.explain import TEXT
from extender.core.ids import QUEUE_GATE, Source
from extender.core.model import Group, Pod
from extender.core.reasons import NOT_OURS, Reason
from extender.core.stating import PENDING, RUNNING
from extender.wire import answers, departed, objects, status
from extender.wire.groups import WHY_ANNOTATION

Object = dict[str, Any]


def of_group(source: Source, content: Object) -> Object:
    """Phase, reason, queue and members of a group, as far as its object says them."""
    group = objects.decode_group(source, content)
    stated = _mapping(content, "status")
    reason, message = _why(source, content, stated)
    reason = reason or group.stated_reason
    running = group.initially_scheduled or stated.get("phase") == RUNNING
    told: Object = {"phase": RUNNING if running else PENDING}
    if reason and reason != "Scheduled":
        told |= {"reason": reason, "message": message}
    if group.queue is not None:
        told["queue"] = group.queue
    told["members"] = _members(group, stated)
    if isinstance(stated.get("observedAt"), str):
        told["observedAt"] = stated["observedAt"]
    return told


def of_pod(pod: Pod) -> Object:
    """The same of a pod that is alone, as far as kube-scheduler's condition says it."""
    if pod.ended:
        return {"phase": "Ended", **_in_queue(pod)}
    if pod.bound:
        return {"phase": RUNNING, **_in_queue(pod)}
    told: Object = {"phase": PENDING, **_in_queue(pod)}
    found = [reason for reason in Reason if TEXT[reason] in pod.rejection]
    if found:
        return told | {"reason": found[0].value, "message": pod.rejection}
    if pod.rejection:
        return told | {"reason": Reason.SCHEDULER_REFUSED.value, "message": pod.rejection}
    if QUEUE_GATE in pod.gates:
        return told | {"reason": Reason.QUEUED.value, "message": TEXT[Reason.QUEUED]}
    if pod.gates:
        return told | {"reason": "SchedulingGated", "message": f"gated by {', '.join(pod.gates)}"}
    return told


def evicted_group(source: Source, content: Object) -> Object | None:
    """Rule, time and sentence of the newest eviction of members; None when there is none on record."""
    found = departed.last_of(source, content)
    return None if found is None else dict(zip(("rule", "at", "message"), found, strict=True))


def evicted_pod(pod: Pod) -> Object | None:
    """The same of a pod, which leaves for it, whoever evicted it; a record of ours without that is no fact yet."""
    if pod.evicted is None:
        return None
    ground, at = pod.evicted.ground, pod.evicted.at
    told: Object = {"rule": ground.value, "at": answers.time_text(at) if at else ""}
    told["message"] = explain.why_evicted(ground, pod.evicted.detail)
    return told if pod.terminating or pod.ended or ground in NOT_OURS else told | {"pending": True}


def _why(source: Source, content: Object, stated: Mapping[str, Any]) -> tuple[str, str]:
    """Reason and sentence, where each source has them."""
    if source is Source.MUSTER:
        return str(stated.get("reason") or ""), str(stated.get("message") or "")
    if source is Source.NATIVE:
        found = departed.condition_of(stated, status.NATIVE_SCHEDULED) or {}
        return _split(str(found.get("message") or "")) if found.get("status") == "False" else ("", "")
    if source is Source.VOLCANO:
        found = departed.condition_of(stated, "Unschedulable") or {}
        scheduled = stated.get("phase") == RUNNING
        return ("", "") if scheduled else (str(found.get("reason") or ""), str(found.get("message") or ""))
    return _split(_annotation(content, WHY_ANNOTATION))


def _split(text: str) -> tuple[str, str]:
    """Of "Reason: sentence" both; of anything else, of somebody else, the whole as the sentence."""
    word, colon, sentence = text.partition(": ")
    ours = word in {reason.value for reason in Reason}
    return (word, sentence) if colon and ours else ("", text)


def _members(group: Group, stated: Mapping[str, Any]) -> Object:
    found: Object = {"minimum": group.min_member}
    names = {"members": "have", "scheduled": "bound", "running": "bound", "succeeded": "succeeded", "failed": "failed"}
    for name, as_live in names.items():
        number = stated.get(name)
        if isinstance(number, int) and as_live not in found:
            found[as_live] = number
    return found


def _in_queue(pod: Pod) -> Object:
    return {} if pod.queue is None else {"queue": pod.queue}


def _annotation(content: Object, name: str) -> str:
    text = _mapping(_mapping(content, "metadata"), "annotations").get(name)
    return text if isinstance(text, str) else ""


def _mapping(content: Mapping[str, Any], name: str) -> Object:
    found = content.get(name)
    return found if isinstance(found, dict) else {}
