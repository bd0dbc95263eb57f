"""`kubectl muster drain NODE --plan`: what would become of a node's pods, without touching any.

Takes a node's name, gives what the live answers foretell; must not drain anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from extender.cli import tables
from extender.cli.cluster import Cluster

Object = dict[str, Any]
COLUMNS = ("NAMESPACE", "GROUP", "QUEUE", "PODS", "LEFT", "BECOMES")


async def gather(cluster: Cluster, node: str) -> Object:
    """The groups, the budgets in the way, and who else would be evicted."""
    return await cluster.drain_plan(node)


def show(told: Object, paint: tables.Paint) -> Iterator[str]:
    """A table of groups, and some lines."""
    groups, node = told["groups"], tables.plain(told["node"])
    pods = sum(len(one["pods"]) for one in groups)
    below = sum(one["belowMinimum"] for one in groups)
    yield (
        f"{paint(tables.BOLD, node)}: {count(pods, 'pod')} of {count(len(groups), 'group')} would be evicted, "
        f"{count(below, 'group')} would fall below the minimum"
    )
    yield from tables.table(COLUMNS, map(_row, groups), paint)
    yield from tables.fields(_pairs(told), paint)


def count(number: int, what: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def _row(one: Object) -> tuple[object, ...]:
    least = "?" if one["minimum"] is None else one["minimum"]
    left = f"{one['left']}/{least}" + (" below" if one["belowMinimum"] else "")
    return one["namespace"], one["name"], one["queue"], len(one["pods"]), left, "; ".join(_becomes(one))


def _becomes(one: Object) -> Iterator[str]:
    if one["nodes"]:
        yield "goes to " + ", ".join(f"{where['name']} ({where['members']})" for where in one["nodes"])
    if one["waiting"]:
        because = f", {one['reason']}: {one['message']}" if "reason" in one else ""
        yield f"{count(one['waiting'], 'pod')} would wait{because}"
    lost = len(one["pods"]) - one["replaced"]
    if lost > 0:
        yield f"{count(lost, 'pod')} would not come back: no controller makes another one"


def _pairs(told: Object) -> Iterator[tuple[str, str]]:
    for one in told["budgets"]:
        name = f"{one['namespace']}/{one['name']}"
        yield "Budget", f"{name} lets {one['allowed']} go now, of {one['pods']} on the node"
    yield from evictions(told)
    if told["strangers"]:
        yield "Others", f"{count(told['strangers'], 'pod')} of other schedulers would be evicted too"
    if told["staying"]:
        yield "Stays", f"{count(told['staying'], 'pod')} that belong to the node"


def evictions(told: Object) -> Iterator[tuple[str, str]]:
    """Who else would be evicted."""
    for one in told["evictions"]:
        often = f", {one['times']} times" if one["times"] > 1 else ""
        group = f"{one['namespace']}/{one['name']}"
        yield "Evicts", f"{count(one['pods'], 'pod')} of {group}{often}, {one['rule']}: {one['message']}"
    if not told["settled"]:
        yield "Restless", "it does not come to rest within an hour"
