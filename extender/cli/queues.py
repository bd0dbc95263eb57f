"""`kubectl muster queues`: the tree of queues with what each uses, is owed, and may use; and what is wrong with it.

Takes Queue objects, ours and Volcano's, and live answers; gives rows in the order of the tree.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Iterator
from typing import Any

from extender.cli import amounts, tables
from extender.cli.cluster import Cluster, each
from extender.core.ids import Source
from extender.core.model import Queue
from extender.kube.feeds import QUEUE_RESOURCES
from extender.wire import objects

Object = dict[str, Any]
COLUMNS = (
    *("QUEUE", "STATE", "WEIGHT", "ALLOCATED", "FAIR", "GUARANTEE", "DESERVED", "CAPABILITY"),
    *("SHARE", "PENDING", "NEXT", "WRONG"),
)
#: fields of a spec that hold amounts, and where they stand
_LIMITS = {"capability": ("capability",), "deserved": ("deserved",), "guarantee": ("guarantee", "resource")}


async def gather(cluster: Cluster) -> Object:
    """The queues, each after the one above it."""
    live = await cluster.queues()
    lists = await asyncio.gather(*(cluster.every(resource) for resource in QUEUE_RESOURCES.values()))
    found: dict[str, Object] = {}
    for source, contents in zip(QUEUE_RESOURCES, lists, strict=True):
        for told in each(functools.partial(_declared, source), contents):
            found.setdefault(told["name"], told)
    for one in live or ():
        name, status = str((one.get("metadata") or {}).get("name", "")), one.get("status") or {}
        told = found.setdefault(name, {"name": name})
        told |= {key: value for key, value in status.items() if key != "waiting"}
        told["next"] = [f"{first['namespace']}/{first['name']}" for first in status.get("waiting", ())[:1]]
    return {"live": live is not None, "items": list(_in_tree(found))}


def _declared(source: Source, content: Object) -> Object:
    """What an object says: its limits as they are written, and its status."""
    queue = objects.decode_queue(source, content)
    spec, status = content.get("spec") or {}, content.get("status") or {}
    told: Object = {"name": queue.name, "source": source.value, "weight": queue.weight}
    if queue.parent is not None:
        told["parent"] = queue.parent
    for name, path in _LIMITS.items():
        at: object = spec
        for key in path:
            at = at.get(key) if isinstance(at, dict) else None
        if isinstance(at, dict) and at:
            told[name] = at
    if source is Source.MUSTER and isinstance(status, dict):
        told |= {key: status[key] for key in ("state", "allocated", "share", "pending") if key in status}
    return told | {"wrong": list(_wrong(queue))}


def _wrong(queue: Queue) -> Iterator[str]:
    """Conditions that do not hold, and what cannot be read."""
    for one in queue.status.conditions:
        if not one.true:
            yield f"{one.kind}: {one.reason}{f' ({one.message})' if one.message else ''}"
    if not queue.status.conditions:
        yield from queue.problems


def _in_tree(found: dict[str, Object]) -> Iterator[Object]:
    """Each queue with its depth, below its parent; those that are below nobody, or go round in a circle, at the top."""
    below: dict[str, list[str]] = {}
    for name, told in found.items():
        below.setdefault(str(told.get("parent", "")), []).append(name)
    seen: set[str] = set()

    def walk(names: Iterable[str], depth: int) -> Iterator[Object]:
        for name in sorted(names):
            if name not in seen:
                seen.add(name)
                yield {"depth": depth, **found[name]}
                yield from walk(below.get(name, ()), depth + 1)

    yield from walk((name for name, told in found.items() if told.get("parent") not in found), 0)
    yield from walk((name for name in found if name not in seen), 0)


def show(told: Object, resource: str | None, paint: tables.Paint) -> Iterator[str]:
    """A table of one resource."""
    items = told["items"]
    limits = [one[name] for one in items for name in (*_LIMITS, "allocated") if isinstance(one.get(name), dict)]
    name = amounts.chosen(resource, limits)
    if items:
        yield f"{name}:"
    yield from tables.table(COLUMNS, (_row(one, name) for one in items), paint)


def _row(one: Object, name: str) -> tuple[object, ...]:
    def of(field: str, absent: str = "-") -> str:
        return amounts.text(name, amounts.amount(one.get(field), name), absent)

    return (
        "  " * one["depth"] + one["name"],
        one.get("state", ""),
        one.get("weight", ""),
        of("allocated", "0" if "allocated" in one else "-"),
        of("fairShare", "0" if "fairShare" in one else "-"),
        of("guarantee"),
        of("deserved"),
        of("capability"),
        one.get("share", ""),
        one.get("pending", ""),
        *(one.get("next") or [""]),
        "; ".join(one.get("wrong", ())),
    )
