"""`kubectl muster top`: how much of a resource is used, held and idle, by node pool and by queue.

Takes what `nodes` and `queues` read, gives two tables. Held is what has its place and is not bound yet, as the live
answers tell; a queue's allocated amounts have it in them. A pool is what a label of nodes says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from extender.cli import amounts, nodes, queues, tables
from extender.cli.cluster import Cluster
from extender.cli.problems import UNUSABLE, Problem
from extender.core import pools

Object = dict[str, Any]
POOLS = ("POOL", "NODES", "HAS", "USED", "HELD", "IDLE", "OUT OF USE", "USED %")
QUEUES = ("QUEUE", "ALLOCATED", "FAIR", "DESERVED", "CAPABILITY", "PENDING")


async def gather(cluster: Cluster, resource: str | None, pool: str | None) -> Object:
    """Pools of nodes that have the resource, and queues."""
    (name, made, live), tree = await asyncio.gather(nodes.stocks(cluster, resource), queues.gather(cluster))
    with_some = [stock for stock in made if stock.has]
    label = _label(with_some, pool)
    parts: dict[str, list[nodes.Stock]] = {}
    for stock in with_some:
        parts.setdefault(stock.node.labels.get(label, pools.NO_LABEL) if label else pools.ALL, []).append(stock)
    return {
        "resource": name,
        "pool": label,
        "live": live,
        "pools": [_pool(part, parts[part]) for part in sorted(parts)],
        "queues": [_queue(one, name) for one in tree["items"]],
    }


def _label(made: Sequence[nodes.Stock], asked: str | None) -> str:
    if asked is not None:
        borne = {key for stock in made for key in stock.node.labels}
        if asked not in borne:
            raise Problem(f"no node bears the label {asked}", f"nodes bear {', '.join(sorted(borne))}", UNUSABLE)
        return asked
    return pools.label_of(stock.node for stock in made)


def _pool(name: str, made: Sequence[nodes.Stock]) -> Object:
    has, used, held = (sum(getattr(stock, what) for stock in made) for what in ("has", "used", "held"))
    out = sum(max(0, stock.has - stock.used) for stock in made if stock.state)
    idle = max(0, has - used - held - out)
    return {"name": name, "nodes": len(made), "has": has, "used": used, "held": held, "idle": idle, "outOfUse": out}


def _queue(one: Object, resource: str) -> Object:
    told = {
        name: amounts.amount(one.get(name), resource) for name in ("allocated", "fairShare", "deserved", "capability")
    }
    return {"name": one["name"], "depth": one["depth"], "pending": one.get("pending"), **told}


def show(told: Object, paint: tables.Paint) -> Iterator[str]:
    """Two tables."""
    name = told["resource"]
    yield f"{name}, by {tables.plain(told['pool'] or 'node')}:"
    yield from tables.table(POOLS, (_pool_row(one, name) for one in told["pools"]), paint)
    if told["queues"]:
        yield ""
        yield from tables.table(QUEUES, (_queue_row(one, name) for one in told["queues"]), paint)


def _pool_row(one: Object, resource: str) -> tuple[object, ...]:
    cells = (amounts.text(resource, one[name]) for name in ("has", "used", "held", "idle", "outOfUse"))
    return (one["name"], one["nodes"], *cells, f"{100 * one['used'] // one['has']} %")


def _queue_row(one: Object, resource: str) -> tuple[object, ...]:
    cells = (amounts.text(resource, one[name]) for name in ("allocated", "fairShare", "deserved", "capability"))
    return ("  " * one["depth"] + one["name"], *cells, "" if one["pending"] is None else one["pending"])
