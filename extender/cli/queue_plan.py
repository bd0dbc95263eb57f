"""`kubectl muster plan -f queue.yaml`: what changed or new queues would come to on what runs and waits now.

Takes Queue objects, ours and Volcano's, gives what the live answers foretell; must not apply anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from extender.cli import amounts, tables
from extender.cli.cluster import Cluster
from extender.cli.drain import count, evictions
from extender.cli.problems import UNUSABLE, Problem
from extender.wire.rehearsals import queue_source

Object = dict[str, Any]
COLUMNS = ("QUEUE", "USED", "AFTER", "FAIR", "AFTER", "SHARE", "AFTER", "WAITING", "AFTER")
#: fields of a queue's figures that hold amounts
_AMOUNTS = ("allocated", "fairShare")


def queues_of(path: str, found: list[Object]) -> list[Object]:
    """The queues of a file with these objects; () when there are none. They are asked about alone."""
    queues = [one for one in found if queue_source(one) is not None]
    if queues and len(queues) < len(found):
        raise Problem(f"{path} has queues and other objects", "ask about each kind in a file of its own", UNUSABLE)
    return queues


async def gather(cluster: Cluster, queues: list[Object]) -> Object:
    """Each queue before and after, who gains and loses, who is evicted, and warnings."""
    status = await cluster.queue_plan(queues)
    named = {str((one.get("metadata") or {}).get("name", "")) for one in queues}
    for one in status.get("queues", ()):
        one["asked"] = one["name"] in named
    return status


def show(told: Object, resource: str | None, paint: tables.Paint) -> Iterator[str]:
    """Warnings first, then a table of one resource, then who moves."""
    items = [one for one in told["queues"] if one["asked"] or one.get("before") != one.get("after")]
    sums = [one[when][field] for one in items for when in ("before", "after") if when in one for field in _AMOUNTS]
    name = amounts.chosen(resource, sums)
    for one in told["warnings"]:
        text = tables.plain(f"{one['queue']}, {one['reason']}: {one['message']}")
        yield f"{paint(tables.DOUBTFUL, 'Warning')}: {text}"
    yield f"{name}, if nothing ends and nothing comes ({_rest(told)}):"
    yield from tables.table(COLUMNS, (_row(one, name) for one in items), paint)
    same = len(told["queues"]) - len(items)
    if same:
        yield f"{count(same, 'other queue')} stay{'s' if same == 1 else ''} as {'it is' if same == 1 else 'they are'}"
    yield from tables.fields(_pairs(told), paint)


def _rest(told: Object) -> str:
    return f"at rest after {told['seconds']} s" if told["settled"] else "not at rest after an hour"


def _row(one: Object, name: str) -> tuple[object, ...]:
    before, after = one.get("before"), one.get("after")
    cells: list[object] = [one["name"]]
    for field in _AMOUNTS:
        cells += [_amount(figures, field, name) for figures in (before, after)]
    for field in ("share", "waiting"):
        cells += ["-" if figures is None else figures.get(field, "") for figures in (before, after)]
    return tuple(cells)


def _amount(figures: Object | None, field: str, name: str) -> str:
    return "-" if figures is None else amounts.text(name, amounts.amount(figures.get(field), name), "0")


def _pairs(told: Object) -> Iterator[tuple[str, str]]:
    for title, field in (("Gains", "gains"), ("Loses", "loses")):
        for one in told[field]:
            because = f"; waits, {one['reason']}: {one['message']}" if "reason" in one else ""
            group = f"{one['namespace']}/{one['name']} in {one['queue']}"
            yield title, f"{group}: {one['before']} to {count(one['after'], 'pod')} on nodes{because}"
        more = told["gaining" if field == "gains" else "losing"] - len(told[field])
        if more > 0:
            yield title, f"and {count(more, 'group')} more"
    yield from evictions(told)
    if told["evicted"]:
        yield "Evicted", f"{count(told['evicted'], 'pod')} in all"
