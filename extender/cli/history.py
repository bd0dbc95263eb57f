"""`kubectl muster history`: for what a group has waited, and what was done about it.

Takes the live history, which is complete since the extender was started and ends with it, and Events, which the API
server keeps for an hour unless it is told otherwise; gives one list in order. Must not tell the same twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from extender.cli import events, naming, tables
from extender.cli.cluster import Cluster
from extender.core.ids import Source
from extender.wire.answers import age
from extender.wire.fields import seconds_of

Object = dict[str, Any]
#: an Event of a reason is written so long after it begins at most, when nothing else is due
_SAME_SECONDS = 5.0
#: pods that are evicted in one go leave within this time
_ONE_GO_SECONDS = 60.0


async def gather(cluster: Cluster, namespace: str, text: str) -> Object:
    """Times, reasons and sentences, the oldest first; of a pod that is gone what Events remember."""
    subject, items = await together(cluster, namespace, text)
    return {"name": text if subject is None else subject.title, "namespace": namespace, "items": items}


async def together(cluster: Cluster, namespace: str, text: str) -> tuple[naming.Subject | None, list[Object]]:
    """A subject with its history; none where there is only that, as it is gone."""
    told = (await events.gather(cluster))["items"]
    try:
        subject = await naming.find(cluster, namespace, text)
    except naming.Missing:
        source, name = naming.parse(text)
        kinds = {"Pod"} if source is Source.POD else {"PodGroup"} if source is not None else {"Pod", "PodGroup"}
        about = [one for one in told if one["object"] == name and one["kind"] in kinds]
        if not about:
            raise
        return None, merged([], about)
    return subject, of(subject, told)


def of(subject: naming.Subject, told: list[Object]) -> list[Object]:
    """The history of a subject, out of its status and these Events."""
    live = [one for one in subject.status.get("history", []) if isinstance(one, dict)]
    evictions = naming.evictions(subject.status)
    return merged(live, [one for one in told if (one["kind"], one["object"]) in subject.named], evictions)


def merged(live: list[Object], told: list[Object], evictions: Sequence[Object] = ()) -> list[Object]:
    """All in order; an Event that says what the live history says at that time adds its numbers to it, and one of an
    eviction that the live answer tells is left out."""
    found = [
        {"at": one.get("since", ""), "reason": one.get("reason", ""), "message": one.get("message", "")} for one in live
    ]
    for event in told:
        same = next((one for one in found if _same(one, event)), None)
        if same is not None:
            same["message"] = event["message"]
        elif not any(_of(event, one) for one in evictions):
            found.append({name: event[name] for name in ("at", "reason", "message")})
    found += [{"at": one["at"], "reason": one["rule"], "message": one["message"]} for one in evictions]
    return sorted(found, key=lambda one: seconds_of(one["at"]) or 0.0)


def _of(event: Object, eviction: Object) -> bool:
    """Whether an Event tells of this eviction: as much as was known of it then."""
    at, said = seconds_of(eviction["at"]), seconds_of(event["at"])
    near = at is not None and said is not None and abs(said - at) <= _ONE_GO_SECONDS
    return event["reason"] == eviction["rule"] and (near or event["message"] == eviction["message"])


def _same(one: Object, event: Object) -> bool:
    began, said = seconds_of(one["at"]), seconds_of(event["at"])
    near = began is not None and said is not None and -1.0 <= said - began <= _SAME_SECONDS
    return near and one["reason"] == event["reason"]


def show(found: Object, now: float, paint: tables.Paint) -> Iterator[str]:
    """A table."""
    return tables.table(("SINCE", "REASON", "MESSAGE"), rows(found["items"], now), paint)


def rows(items: list[Object], now: float) -> Iterator[tuple[str, str, str]]:
    """The cells of a history."""
    for one in items:
        at = seconds_of(one["at"])
        yield ("" if at is None else age(now - at), one["reason"], one["message"])
