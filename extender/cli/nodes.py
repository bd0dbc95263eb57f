"""`kubectl muster nodes`: which nodes stand together, and what of a resource is free there, level by level.

Takes nodes, pods, Topology objects, and where they are known the places that are planned; gives a tree. The levels are
those by which groups are placed (core.topology). A node that lacks a label stands in no domain of that level.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from extender.cli import amounts, tables
from extender.cli.cluster import Cluster, each
from extender.cli.problems import UNUSABLE, Problem
from extender.core.model import Node
from extender.core.topology import HOSTNAME, Levels
from extender.kube import resources
from extender.wire import objects

Object = dict[str, Any]
COLUMNS = ("WHERE", "NODES", "HAS", "USED", "HELD", "FREE", "LARGEST", "STATE")
#: pods that take room on a node
_ON_NODES = replace(resources.PODS, field_selector="spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")
NO_LABEL = "(no label)"


@dataclass(frozen=True, slots=True)
class Stock:
    """What one node has of a resource, and what bound pods and plans take of it; base units."""

    node: Node
    has: int
    used: int
    held: int

    @property
    def free(self) -> int:
        """What a pod could get; nothing where the node takes none."""
        return max(0, self.has - self.used - self.held) if self.state == "" else 0

    @property
    def state(self) -> str:
        """Why it takes no pods; "" when it does."""
        if not self.node.ready:
            return "NotReady"
        return "Cordoned" if self.node.unschedulable else ""


async def stocks(cluster: Cluster, resource: str | None) -> tuple[str, list[Stock], bool]:
    """The resource that is looked at, what nodes have of it, by name, and whether plans are known."""
    contents, pods, planned = await asyncio.gather(
        cluster.every(resources.NODES), cluster.every(_ON_NODES), cluster.workloads(None)
    )
    read = sorted(each(objects.decode_node, contents), key=lambda node: node.name)
    name = amounts.chosen(resource, [dict(node.allocatable) for node in read])
    used: Counter[str] = Counter()
    for pod in each(objects.decode_pod, pods):
        if pod.node is not None and not pod.ended:
            used[pod.node] += dict(pod.shape.request).get(name, 0)
    held: Counter[str] = Counter()
    for place in places(planned or ()):
        held[str(place.get("name"))] += amounts.amount(place.get("requests"), name) or 0
    made = [Stock(one, dict(one.allocatable).get(name, 0), used[one.name], held[one.name]) for one in read]
    if resource is not None and not any(stock.has for stock in made):
        offered = sorted({name for node in read for name, _ in node.allocatable})
        raise Problem(f"no node offers {resource}", f"nodes offer {', '.join(offered)}", UNUSABLE)
    return name, made, planned is not None


def places(workloads: Iterable[Object]) -> Iterator[Object]:
    """Where members that are not bound yet have their places."""
    for one in workloads:
        planned = (one.get("status") or {}).get("plannedNodes")
        yield from (place for place in planned or () if isinstance(place, dict))


async def gather(cluster: Cluster, resource: str | None, level: str | None, depth: int | None) -> Object:
    """The tree, as nested domains."""
    (name, made, live), topologies = await asyncio.gather(
        stocks(cluster, resource), cluster.every(resources.TOPOLOGIES)
    )
    levels = Levels(each(objects.decode_topology, topologies))
    borne = {key for stock in made for key in stock.node.labels}
    if level is not None and level not in borne:
        raise Problem(f"no node bears the label {level}", f"nodes bear {', '.join(sorted(borne))}", UNUSABLE)
    chain = [key for key in levels.chain(level, borne.__contains__) if key != HOSTNAME]
    return {"resource": name, "levels": chain, "live": live, **_domain("", made, chain, depth)}


def _domain(name: str, made: Sequence[Stock], levels: Sequence[str], depth: int | None) -> Object:
    told: Object = {
        "name": name,
        "nodes": len(made),
        "has": sum(stock.has for stock in made),
        "used": sum(stock.used for stock in made),
        "held": sum(stock.held for stock in made),
        "free": sum(stock.free for stock in made),
        "largest": max((stock.free for stock in made), default=0),
    }
    if depth is not None and depth <= 0:
        return told
    less = None if depth is None else depth - 1
    if not levels:
        return told | {"inside": [_leaf(stock) for stock in made]}
    parts: dict[str, list[Stock]] = {}
    for stock in made:
        parts.setdefault(stock.node.labels.get(levels[0], ""), []).append(stock)
    named = sorted(part for part in parts if part)
    inside = [{"level": levels[0], **_domain(part, parts[part], levels[1:], less)} for part in named]
    if "" in parts:  # of no domain of this level, and so of none below it
        inside.append({"level": levels[0], **_domain(NO_LABEL, parts[""], (), less)})
    return told | {"inside": inside}


def _leaf(stock: Stock) -> Object:
    told: Object = {"name": stock.node.name, "has": stock.has, "used": stock.used, "held": stock.held}
    told |= {"free": stock.free, "largest": stock.free}
    return told | ({"state": stock.state} if stock.state else {})


def show(told: Object, paint: tables.Paint) -> Iterator[str]:
    """A table, indented as the tree is."""
    path = " > ".join([*told["levels"], "node"])
    yield f"{told['resource']}, by {tables.plain(path)}:"
    yield from tables.table(COLUMNS, _rows(told, 0, told["resource"]), paint)


def _rows(told: Object, depth: int, resource: str) -> Iterator[tuple[object, ...]]:
    amount = (amounts.text(resource, told[name]) for name in ("has", "used", "held", "free", "largest"))
    yield ("  " * depth + (told["name"] or "cluster"), told.get("nodes", ""), *amount, told.get("state", ""))
    for one in told.get("inside", ()):
        yield from _rows(one, depth + 1, resource)
