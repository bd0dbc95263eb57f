"""Whose write a change was, as far as a watch shows it.

Takes an object before and after, gives the request that Muster or kube-scheduler must have sent; must not keep
anything. What was refused, or changed nothing, is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from extender.core.ids import SCHEDULER_NAME
from extender.sim.api import Json, Request

#: what the field managers of extender and permit gate begin with, and kube-scheduler's
_MANAGERS = ("muster", "kube-scheduler")


def request_of(kind: str, before: Json | None, after: Json, at: float) -> Request | None:
    """The request that made this of the object, when it was theirs."""
    if kind == "Event":
        return _event(after, at)
    if before is None:
        return None
    meta = after["metadata"]
    if kind == "Pod" and not before["spec"].get("nodeName") and after["spec"].get("nodeName"):
        # a binding leaves no manager; whoever sent it, Muster or kube-scheduler, it counts
        return Request(at, "create", kind, meta["name"], "binding", meta["uid"])
    if not any(manager.startswith(_MANAGERS) for manager in _writers(before, after)):
        return None
    subresource = "status" if before.get("status") != after.get("status") else ""
    return Request(at, "patch", kind, meta["name"], subresource, meta["uid"])


def _event(event: Json, at: float) -> Request | None:
    """An Event, or one more count of it; kube-scheduler reports under the name of its profile."""
    regarding: Mapping[str, Any] = event.get("involvedObject", {})
    reporter = event.get("reportingComponent") or event.get("source", {}).get("component") or ""
    if not str(reporter).startswith((SCHEDULER_NAME, *_MANAGERS)):
        return None
    about = (str(regarding.get("kind", "")), str(regarding.get("name", "")))
    return Request(at, "create", "Event", about[1], regarding=about)


def _writers(before: Json, after: Json) -> Iterator[str]:
    """Managers whose entry is another one than before; when two writes within a second look alike, all of them."""
    old = before["metadata"].get("managedFields", [])
    entries = after["metadata"].get("managedFields", [])
    changed = [entry for entry in entries if entry not in old]
    return (str(entry.get("manager", "")) for entry in changed or entries)
