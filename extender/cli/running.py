"""One command on a cluster: what each reads, how people are shown it, and what is said beside it.

Takes what the command line says, gives output; what cannot be done is a Problem. What is said about the output goes to
standard error, so that programs read the output alone.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

import orjson
import yaml

from extender.cli import (
    drain,
    events,
    gangs,
    history,
    migrate,
    nodes,
    plan,
    problems,
    queues,
    record,
    tables,
    top,
    usage,
    why,
)
from extender.cli.cluster import Cluster
from extender.cli.problems import Problem
from extender.kube import client, credentials, errors, observing

Object = dict[str, Any]
Told = argparse.Namespace


@dataclass(frozen=True, slots=True)
class Command:
    """What a command reads and shows. `empty` is said where there is nothing to show."""

    gather: Callable[[Cluster, Told], Awaitable[Object]]
    show: Callable[[Object, Told, float, tables.Paint], Iterator[str]]
    empty: str = ""


COMMANDS: Mapping[str, Command] = {
    "why": Command(
        lambda cluster, told: why.gather(cluster, str(cluster.namespace), told.name),
        lambda found, _, now, paint: why.show(found, now, paint),
    ),
    "queues": Command(
        lambda cluster, _: queues.gather(cluster),
        lambda found, told, _, paint: queues.show(found, told.resource, paint),
        "there are no queues but `default`",
    ),
    "top": Command(
        lambda cluster, told: top.gather(cluster, told.resource, told.pool),
        lambda found, _, __, paint: top.show(found, paint),
    ),
    "usage": Command(
        lambda cluster, told: usage.gather(cluster, told.since, told.compare),
        lambda found, _, __, paint: usage.show(found, paint),
    ),
    "gangs": Command(
        lambda cluster, told: gangs.gather(cluster, told.pods),
        lambda found, _, now, paint: gangs.show(found, now, paint),
        "there are no groups in {where}",
    ),
    "nodes": Command(
        lambda cluster, told: nodes.gather(cluster, told.resource, told.level, told.depth),
        lambda found, _, __, paint: nodes.show(found, paint),
    ),
    "history": Command(
        lambda cluster, told: history.gather(cluster, str(cluster.namespace), told.name),
        lambda found, _, now, paint: history.show(found, now, paint),
        "nothing is remembered of it: it has not waited, or its Events have expired",
    ),
    "plan": Command(
        lambda cluster, told: plan.gather(cluster, told.filename),
        lambda found, told, _, paint: plan.show(found, told.resource, paint),
    ),
    "drain": Command(
        lambda cluster, told: drain.gather(cluster, told.node),
        lambda found, _, __, paint: drain.show(found, paint),
    ),
    "migrate": Command(
        lambda cluster, _: migrate.gather(cluster),
        lambda found, _, __, paint: migrate.show(found, paint),
        migrate.EMPTY,
    ),
    "events": Command(
        lambda cluster, _: events.gather(cluster),
        lambda found, _, now, paint: events.show(found, now, paint),
        "there are no Events of Muster in {where}",
    ),
    "record": Command(
        lambda cluster, told: record.gather(cluster, told.filename, told.seconds, told.most),
        lambda found, _, __, ___: record.show(found),
    ),
}


async def run(told: Told, out: TextIO, said: TextIO) -> None:
    """Connect, do it, and say what there is to say beside it."""
    try:
        kubeconfig = credentials.find_kubeconfig(told.kubeconfig)
        namespace = told.namespace or credentials.namespace_of(kubeconfig, told.context)
        observer = observing.Silent()
        async with client.connect(kubeconfig, told.context, component="kubectl-muster", observer=observer) as api:
            everywhere = getattr(told, "all_namespaces", False)
            await on(Cluster(api, None if everywhere else namespace), told, out, said)
    except errors.KubeError as error:
        raise problems.of(error, "what was asked for", "of the kubeconfig") from error


async def on(cluster: Cluster, told: Told, out: TextIO, said: TextIO) -> None:
    """The same on a cluster that is connected."""
    try:
        if getattr(told, "watch", False):
            await _watch(cluster, told, out, said)
        else:
            await _once(cluster, told, out, said)
    finally:
        _note(cluster, said)


async def _once(cluster: Cluster, told: Told, out: TextIO, said: TextIO) -> None:
    command = COMMANDS[told.command]
    found = await command.gather(cluster, told)
    empty = bool(command.empty) and not found.get("items")
    if empty and not await cluster.installed():
        raise Problem(problems.NOT_INSTALLED, problems.INSTALL)
    if told.output:
        _write(found, told.output, out)
        return
    for line in command.show(found, told, time.time(), tables.Paint(tables.coloured(out))):
        print(line, file=out)
    if empty:
        where = "any namespace" if cluster.namespace is None else f"namespace {cluster.namespace}"
        print(command.empty.format(where=where), file=said)


async def _watch(cluster: Cluster, told: Told, out: TextIO, said: TextIO) -> None:
    paint = tables.Paint(tables.coloured(out))
    async with contextlib.aclosing(events.follow(cluster)) as batches:
        async for batch in batches:
            for event in batch:
                if told.output:
                    _write(event, told.output, out)
                else:
                    print(events.line(event, paint), file=out)
            out.flush()
            _note(cluster, said)


def _write(found: Object, form: str, out: TextIO) -> None:
    if form == "json":
        print(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode(), file=out)
    else:
        print("---", yaml.safe_dump(found, sort_keys=False, allow_unicode=True), sep="\n", end="", file=out)


def _note(cluster: Cluster, said: TextIO) -> None:
    for note in cluster.notes:
        print(f"note: {tables.plain(note)}", file=said, flush=True)
    cluster.notes.clear()
