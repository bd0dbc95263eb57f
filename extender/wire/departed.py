"""What stands in objects of evictions, read: by which rule a pod goes, and of a group which members went last.

Takes decoded JSON as we write it (`evictions`) and as Kubernetes does (the condition DisruptionTarget), gives records;
must not raise: what is no record says nothing, and is no fault of the object. Anybody who may write a pod may write a
record, so what is read of it is bounded.
"""

from __future__ import annotations

from typing import Any

import orjson

from extender.core import explain
from extender.core.ids import Source
from extender.core.reasons import NOT_OURS, Detail, Evicted, Ground
from extender.wire.fields import Object, seconds_of

#: on a pod: it is evicted, or about to be; taken back when the eviction is refused
EVICTED_ANNOTATION = "muster.dev/evicted"
#: on a group: the newest eviction of members
LAST_EVICTION_ANNOTATION = "muster.dev/last-eviction"
#: condition of a native group; DisruptionTarget there says that the whole group is about to end
EVICTED_CONDITION = "muster.dev/Evicted"
#: condition of a pod that leaves before its end, as Kubernetes sets it
DISRUPTED = "DisruptionTarget"
#: more than that is no record but a burden for every watcher of pods
MAX_FACTS = 16
#: fits the longest namespace with the longest name
MAX_TEXT = 320
_MAX_RECORD = 16 * 1024
_GROUNDS = {ground.value: ground for ground in Ground}
_OURS = {name: ground for name, ground in _GROUNDS.items() if ground not in NOT_OURS}
_EMPTY: Object = {}


def of_pod(notes: Object, condition: Object | None) -> Evicted | None:
    """By which rule a pod goes, by its annotations and its condition DisruptionTarget (None: it has none).

    Our own evictions go through the Eviction API: a record of ours beside another reason is of one that did not happen.
    """
    reason = condition.get("reason") if condition is not None and condition.get("status") == "True" else None
    record = notes.get(EVICTED_ANNOTATION)
    if record is not None and reason in (None, Ground.API):
        found = _read(record, _OURS)
        if found is not None:
            return found
    return None if condition is None or reason is None else _by_others(str(reason), condition)


def last_of(source: Source, content: Object) -> tuple[str, str, str] | None:
    """Rule, time and sentence of the newest eviction of members that a group's object knows of."""
    if source is Source.MUSTER:
        last = _mapping(_mapping(content, "status"), "lastEviction")
        return _texts(last, "rule", "at", "message") if last else None
    if source is Source.NATIVE:
        condition = condition_of(_mapping(content, "status"), EVICTED_CONDITION)
        return None if condition is None else _texts(condition, "reason", "lastTransitionTime", "message")
    facts = _facts(_mapping(_mapping(content, "metadata"), "annotations").get(LAST_EVICTION_ANNOTATION))
    if not facts:
        return None
    found = _made(facts, _GROUNDS)
    rule, at, _ = _texts(facts, "rule", "at", "rule")
    return (rule, at, "" if found is None else explain.why_evicted(found.ground, found.detail))


def evicted_at(source: Source, content: Object) -> float:
    """When that was, as seconds since the epoch; 0 when nothing says it."""
    found = last_of(source, content)
    return 0.0 if found is None else seconds_of(found[1]) or 0.0


def condition_of(status: Object, kind: str) -> Object | None:
    """The condition of this type."""
    conditions = status.get("conditions")
    found = conditions if isinstance(conditions, list) else []
    return next((one for one in found if isinstance(one, dict) and one.get("type") == kind), None)


def _by_others(reason: str, condition: Object) -> Evicted:
    ground = _GROUNDS.get(reason)
    known = ground if ground in NOT_OURS else None
    said = condition.get("message")
    detail: Detail = () if known is not None else (("reason", short(reason)),)
    if isinstance(said, str) and said:
        detail = (*detail, ("said", short(said)))
    _, at, _ = _texts(condition, "type", "lastTransitionTime", "type")
    return Evicted(known or Ground.OTHERS, seconds_of(at) or 0.0, detail)


def _read(text: object, grounds: dict[str, Ground]) -> Evicted | None:
    facts = _facts(text)
    return _made(facts, grounds) if facts else None


def _facts(text: object) -> dict[str, Any]:
    if not isinstance(text, str) or len(text) > _MAX_RECORD:
        return {}
    try:
        facts = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _made(facts: dict[str, Any], grounds: dict[str, Ground]) -> Evicted | None:
    rule, at, _ = _texts(facts, "rule", "at", "rule")
    ground = grounds.get(rule)
    if ground is None:
        return None
    told = [(name, value) for name, value in facts.items() if name not in ("rule", "at")][:MAX_FACTS]
    detail = tuple((short(name), _fact(value)) for name, value in told if value.__class__ in (str, int))
    return Evicted(ground, seconds_of(at) or 0.0, detail)


def _fact(value: str | int) -> str | int:
    return value if isinstance(value, int) else short(value)


def short(text: str) -> str:
    """The text, cut where it is too long for a record."""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."


def _texts(content: Object, *names: str) -> tuple[str, str, str]:
    one, two, three = (found if isinstance(found := content.get(name), str) else "" for name in names)
    return one, two, three


def _mapping(content: Object, name: str) -> Object:
    found = content.get(name)
    return found if isinstance(found, dict) else _EMPTY
