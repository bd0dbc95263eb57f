"""What an object says of its group, in the form of the live answers: where there are none, it is all there is.

Takes decoded JSON of group objects and pods as we write them (wire.status, wire.evictions), gives a status and the
record of the newest eviction; must not guess what is not written: what a field does not say is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from extender.core import explain
from extender.core.explain import TEXT
from extender.core.ids import QUEUE_GATE, Source
from extender.core.model import Group, Pod
from extender.core.reasons import Detail, Ground, Reason
from extender.core.stating import PENDING, RUNNING
from extender.wire import evictions, objects, status
from extender.wire.groups import WHY_ANNOTATION

Object = dict[str, Any]
#: reasons of the condition DisruptionTarget
_BY_OTHERS = {
    "PreemptionByScheduler": "a scheduler preempted it for a pod of higher priority",
    "DeletionByTaintManager": "its node got a taint that it does not tolerate",
    "EvictionByEvictionAPI": "somebody evicted it, as a drain of its node does",
    "DeletionByPodGC": "its node is gone",
    "TerminationByKubelet": "its kubelet ended it: the node was short of something, or was shut down",
}
_GROUNDS = {ground.value: ground for ground in Ground}


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
    if source is Source.MUSTER:
        last = _mapping(_mapping(content, "status"), "lastEviction")
        return _record(last.get("rule"), last.get("at"), last.get("message")) if last else None
    if source is Source.NATIVE:
        found = _condition(_mapping(content, "status"), evictions.EVICTED_CONDITION)
        return _record(found.get("reason"), found.get("lastTransitionTime"), found.get("message")) if found else None
    return _written(_annotation(content, evictions.LAST_EVICTION_ANNOTATION))


def evicted_pod(content: Object) -> Object | None:
    """The same of a pod, which leaves for it, whoever evicted it; a record of ours without that is no fact yet."""
    found = _written(_annotation(content, evictions.EVICTED_ANNOTATION))
    if found is None:
        return _evicted_by_others(_condition(_mapping(content, "status"), "DisruptionTarget"))
    leaving = _mapping(content, "metadata").get("deletionTimestamp") is not None
    return found if leaving else found | {"pending": True}


def _evicted_by_others(condition: Object) -> Object | None:
    """What Kubernetes itself notes of a pod that leaves before its end."""
    if condition.get("status") != "True":
        return None
    reason, said = str(condition.get("reason") or ""), str(condition.get("message") or "")
    words = _BY_OTHERS.get(reason, "it leaves before its end")
    message = f"not by Muster: {words}{f' ({said})' if said else ''}"
    return _record(reason, condition.get("lastTransitionTime"), message)


def _why(source: Source, content: Object, stated: Mapping[str, Any]) -> tuple[str, str]:
    """Reason and sentence, where each source has them."""
    if source is Source.MUSTER:
        return str(stated.get("reason") or ""), str(stated.get("message") or "")
    if source is Source.NATIVE:
        found = _condition(stated, status.NATIVE_SCHEDULED)
        return _split(str(found.get("message") or "")) if found.get("status") == "False" else ("", "")
    if source is Source.VOLCANO:
        found = _condition(stated, "Unschedulable")
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


def _written(text: str) -> Object | None:
    """A record in JSON, in words: as the Event of the eviction has them."""
    try:
        facts = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None
    if not isinstance(facts, dict):
        return None
    rule, at = facts.pop("rule", None), facts.pop("at", None)
    detail: Detail = tuple((name, value) for name, value in facts.items() if isinstance(value, str | int))
    ground = _GROUNDS.get(rule) if isinstance(rule, str) else None
    return _record(rule, at, explain.why_evicted(ground, detail) if ground is not None else "")


def _record(rule: object, at: object, message: object) -> Object:
    told = {"rule": rule, "at": at, "message": message}
    return {name: value if isinstance(value, str) else "" for name, value in told.items()}


def _condition(stated: Mapping[str, Any], kind: str) -> Object:
    conditions = stated.get("conditions")
    found = [one for one in conditions if isinstance(one, dict)] if isinstance(conditions, list) else []
    return next((one for one in found if one.get("type") == kind), {})


def _annotation(content: Object, name: str) -> str:
    text = _mapping(_mapping(content, "metadata"), "annotations").get(name)
    return text if isinstance(text, str) else ""


def _mapping(content: Mapping[str, Any], name: str) -> Object:
    found = content.get(name)
    return found if isinstance(found, dict) else {}
