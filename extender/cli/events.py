"""`kubectl muster events`: the decisions that Muster wrote Events about, also as they are made (-w).

Takes core/v1 Events, gives rows; must not show those of kube-scheduler, whose profile has our name too.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import replace
from typing import Any

from extender.cli import tables
from extender.cli.cluster import Cluster
from extender.kube import resources, watch
from extender.kube.observing import Silent
from extender.kube.writes import REPORTER
from extender.wire.answers import age
from extender.wire.fields import seconds_of

Object = dict[str, Any]
EVENTS = resources.Resource("", ("v1",), "events", namespaced=True, field_selector=f"reportingComponent={REPORTER}")
COLUMNS = ("LAST", "NAMESPACE", "OBJECT", "TYPE", "REASON", "MESSAGE")


async def gather(cluster: Cluster) -> Object:
    """Our Events, the oldest first."""
    found = [event for item in await cluster.every(EVENTS, cluster.namespace) if (event := read(item)) is not None]
    return {"items": _in_order(found)}


async def follow(cluster: Cluster) -> AsyncGenerator[list[Object], None]:
    """Those that there are, then those that are written; what is lost on the way is read again, nothing comes twice."""
    await gather(cluster)  # a watch that may not begin would try for ever
    resource = replace(EVENTS, namespace=cluster.namespace or "")
    first: list[Object] | None = []
    async with contextlib.aclosing(watch.follow(cluster.api, resource, observer=_Told(cluster))) as changes:
        async for change in changes:
            event = None if isinstance(change, watch.Synced) or change.kind == watch.DELETED else read(change.object)
            if first is not None:
                first += [] if event is None else [event]
                if isinstance(change, watch.Synced):
                    yield _in_order(first)
                    first = None
            elif event is not None:
                yield [event]


def _in_order(found: list[Object]) -> list[Object]:
    return sorted(found, key=lambda event: (event["at"], event["object"]))


class _Told(Silent):
    """Says on the way that the API server is away, once each time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def watch_restarted(self, resource: str, reason: str) -> None:
        """Only failures are worth a word."""
        if reason not in ("closed", "silent"):
            self._cluster.notes.append(f"{resource}: {reason}; trying again")


def read(content: Mapping[str, Any]) -> Object | None:
    """What one Event says; None when it is not one of ours."""
    if content.get("reportingInstance") != REPORTER:
        return None
    about, meta = content.get("involvedObject"), content.get("metadata")
    about, meta = (one if isinstance(one, dict) else {} for one in (about, meta))
    times = (content.get("eventTime"), content.get("lastTimestamp"), meta.get("creationTimestamp"))
    return {
        "at": next((time for time in times if isinstance(time, str) and time), ""),
        "namespace": str(about.get("namespace") or meta.get("namespace") or ""),
        "kind": str(about.get("kind") or ""),
        "object": str(about.get("name") or ""),
        "type": str(content.get("type") or ""),
        "reason": str(content.get("reason") or ""),
        "message": str(content.get("message") or ""),
    }


def show(found: Object, now: float, paint: tables.Paint) -> Iterator[str]:
    """A table."""
    return tables.table(COLUMNS, (row(event, now) for event in found["items"]), paint)


def row(event: Object, now: float) -> tuple[str, ...]:
    """The cells of an Event."""
    at = seconds_of(event["at"])
    where = f"{event['kind'].lower()}/{event['object']}"
    return (
        "" if at is None else age(now - at),
        event["namespace"],
        where,
        event["type"],
        event["reason"],
        event["message"],
    )


def line(event: Object, paint: tables.Paint) -> str:
    """An Event that has just been seen, at its time."""
    where = f"{event['namespace']}/{event['object']}" if event["namespace"] else event["object"]
    cells = (event["at"], event["type"], where, event["reason"], event["message"])
    return "  ".join(paint.word(tables.plain(cell)) for cell in cells)
