"""`kubectl muster gangs`: all groups with their phase, members and reason.

Takes live answers, or the groups' objects where there are none; gives rows.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from typing import Any

from extender.cli import stated, tables
from extender.cli.cluster import Cluster, each
from extender.core.ids import Source
from extender.kube.feeds import GROUP_RESOURCES
from extender.wire import answers
from extender.wire.answers import age
from extender.wire.fields import seconds_of

Object = dict[str, Any]
COLUMNS = ("NAMESPACE", "NAME", "PHASE", "BOUND", "QUEUE", "POSITION", "FOR", "REASON")


async def gather(cluster: Cluster, lone: bool) -> Object:
    """Groups by namespace and name; with `lone` also pods that are alone, which only the live answers know."""
    found = await cluster.workloads(cluster.namespace)
    items = await _stated(cluster) if found is None else [_answered(one) for one in found]
    kept = [one for one in items if lone or not one["name"].startswith(answers.name_of(Source.POD, ""))]
    return {"live": found is not None, "items": sorted(kept, key=lambda one: (one["namespace"], one["name"]))}


def _answered(one: Object) -> Object:
    meta, status = one.get("metadata") or {}, one.get("status") or {}
    return {"namespace": str(meta.get("namespace", "")), "name": str(meta.get("name", "")), **status}


async def _stated(cluster: Cluster) -> list[Object]:
    lists = await asyncio.gather(*(cluster.every(one, cluster.namespace) for one in GROUP_RESOURCES.values()))
    return [
        told
        for source, contents in zip(GROUP_RESOURCES, lists, strict=True)
        for told in each(functools.partial(_of_object, source), contents)
    ]


def _of_object(source: Source, content: Object) -> Object:
    status, meta = stated.of_group(source, content), content["metadata"]
    name = answers.name_of(source, meta["name"])
    return {"namespace": str(meta.get("namespace", "")), "name": name, **status}


def show(found: Object, now: float, paint: tables.Paint) -> Iterator[str]:
    """A table."""
    return tables.table(COLUMNS, (_row(one, now) for one in found["items"]), paint)


def _row(one: Object, now: float) -> tuple[object, ...]:
    members, since = one.get("members") or {}, seconds_of(str(one.get("since", "")))
    minimum = members.get("minimum")
    return (
        one["namespace"],
        one["name"],
        one.get("phase", ""),
        f"{members.get('bound', 0) + members.get('succeeded', 0)}/{'?' if minimum is None else minimum}",
        one.get("queue", ""),
        one.get("position", ""),
        "" if since is None else age(now - since),
        one.get("reason", ""),
    )
