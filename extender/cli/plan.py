"""`kubectl muster plan -f FILE`: would it start now, where, whom would it evict, else why not. Creates nothing.

Takes manifests; where there are queues in them, `queue_plan` has the word. The API server is asked for each pod as it
would be created (a dry run: with its defaults, its priority, and what admission says of it), and the live answers for
what would become of each group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from extender.cli import manifests, queue_plan, tables, why
from extender.cli.cluster import Cluster
from extender.cli.manifests import Template
from extender.core.ids import GroupKey, PodUid, Source
from extender.wire import objects
from extender.wire.plans import maker_of, source_of, supposed_group

Object = dict[str, Any]


async def gather(cluster: Cluster, path: str) -> Object:
    """The outlook of each group that a file makes, by name; or what the queues would come to that are in it."""
    found = manifests.read(path)
    if queue_plan.queues_of(path, found):
        return await queue_plan.gather(cluster, found)
    templates, groups = manifests.templates(path, found)
    parts: dict[GroupKey, list[Object]] = {}
    makers: dict[GroupKey, Object | None] = {}
    for number, template in enumerate(templates):
        key, part = await _part(cluster, template, number)
        parts.setdefault(key, []).append(part)
        makers[key] = template.maker
    items = [await _outlook(cluster, key, some, groups, makers[key]) for key, some in parts.items()]
    return {"items": items}


async def _part(cluster: Cluster, template: Template, number: int) -> tuple[GroupKey, Object]:
    """Some pods alike, with their group; of pods that are alone one is asked about."""
    namespace = template.namespace or str(cluster.namespace)
    pod = await cluster.dry_run(namespace, template.name, template.pod)
    read = replace(objects.decode_pod(pod), uid=PodUid(f"{template.name}-{number}"))
    maker = maker_of(template.maker, namespace) if template.maker is not None else None
    if maker is not None and (key := supposed_group(maker, read)) is not None:
        return key, {"pod": pod, "count": template.count}
    if read.group.lone:
        return read.group._replace(name=read.uid), {"pod": pod, "count": 1, "alone": template.count}
    return read.group, {"pod": pod, "count": template.count}


async def _outlook(
    cluster: Cluster, key: GroupKey, parts: list[Object], groups: list[Object], maker: Object | None
) -> Object:
    named = {
        (source_of(one), one["metadata"].get("name")): one for one in groups if isinstance(one.get("metadata"), dict)
    }
    spec: Object = {"pods": [{"pod": one["pod"], "count": one["count"]} for one in parts]}
    if (key.source, key.name) in named:
        spec["group"] = named[key.source, key.name]
    elif key.source is Source.OWNER and maker is not None:
        meta = maker["metadata"] if isinstance(maker.get("metadata"), dict) else {}
        labels = {"labels": meta["labels"]} if isinstance(meta.get("labels"), dict) else {}
        spec["group"] = maker | {"metadata": {"name": meta.get("name") or "supposed", **labels}}
    status = await cluster.plan(key.namespace, spec)
    pods = sum(int(one.get("alone") or one["count"]) for one in parts)
    return {"namespace": key.namespace, "pods": pods, "alone": key.lone, **status}


# --- for people --------------------------------------------------------------------------------------


def show(told: Object, resource: str | None, paint: tables.Paint) -> Iterator[str]:
    """Some lines for each group, or tables of queues."""
    if "queues" in told:
        yield from queue_plan.show(told, resource, paint)
        return
    for number, one in enumerate(told["items"]):
        if number:
            yield ""
        yield _title(one, paint)
        yield from tables.fields(_pairs(one), paint)


def _title(one: Object, paint: tables.Paint) -> str:
    if one["starts"]:
        becomes = paint(tables.GOOD, "would start now")
    elif one.get("evictions"):
        becomes = paint(tables.DOUBTFUL, "would start when others are evicted for it")
    elif "evictions" in one:
        becomes = paint(tables.DOUBTFUL, "would start when those that are leaving have left")
    else:
        becomes = paint(tables.DOUBTFUL, "would wait")
    name, namespace = tables.plain(one["name"]), tables.plain(one["namespace"])
    pods = _pods(one["pods"]) + (", each alone: one" if one["pods"] > 1 and one["alone"] else "")
    return f"{paint(tables.BOLD, name)} in namespace {namespace} ({pods}) {becomes}"


def _pairs(one: Object) -> Iterator[tuple[str, str]]:
    position = f", position {one['position']}" if "position" in one else ""
    yield "Queue", f"{one['queue']}{position}"
    for where in one["nodes"]:
        yield "Nodes", f"{where['name']} ({where['members']})"
    yield from why.waiting(one, 0.0)
    for loss in one.get("evictions", ()):
        yield (
            "Evicts",
            f"{_pods(len(loss['pods']))} of {loss['namespace']}/{loss['name']}, {loss['rule']}: {loss['message']}",
        )


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"
