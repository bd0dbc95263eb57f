"""The commands, each with its arguments, what it reads, and how people are shown it.

Takes a cluster and what the command line says, gives data and lines; must not print.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from extender.cli import events, gangs, history, nodes, queues, tables, top, why
from extender.cli.cluster import Cluster

Object = dict[str, Any]
Told = argparse.Namespace


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, as argparse takes it."""

    names: tuple[str, ...]
    options: Object

    @property
    def flags(self) -> tuple[str, ...]:
        """Its names, if it is an option."""
        return tuple(name for name in self.names if name.startswith("-"))


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `empty` is said where there is nothing to show; `everywhere`: it takes -A."""

    name: str
    help: str
    arguments: tuple[Argument, ...]
    gather: Callable[[Cluster, Told], Awaitable[Object]]
    show: Callable[[Object, Told, float, tables.Paint], Iterator[str]]
    everywhere: bool = False
    empty: str = ""


def _argument(*names: str, **options: Any) -> Argument:
    return Argument(names, options)


def _depth(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 4):
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a whole number from 0")
    return int(text)


_NAME = _argument("name", metavar="NAME", help="a group, or pod/NAME; kind:NAME where several have the name")
_RESOURCE = _argument("--resource", metavar="NAME", help="of this resource (GPUs; cpu where there are none)")

COMMANDS = (
    Command(
        "why",
        "why a group, or a pod of it, is waiting, and why it was evicted",
        (_NAME,),
        lambda cluster, told: why.gather(cluster, str(cluster.namespace), told.name),
        lambda found, _, now, paint: why.show(found, now, paint),
    ),
    Command(
        "queues",
        "the tree of queues: what each uses, is owed and may use",
        (_RESOURCE,),
        lambda cluster, _: queues.gather(cluster),
        lambda found, told, _, paint: queues.show(found, told.resource, paint),
        empty="there are no queues but `default`",
    ),
    Command(
        "top",
        "what is used, held and idle, by node pool and by queue",
        (_RESOURCE, _argument("--pool", metavar="LABEL", help="the label of nodes that names their pool")),
        lambda cluster, told: top.gather(cluster, told.resource, told.pool),
        lambda found, _, __, paint: top.show(found, paint),
    ),
    Command(
        "gangs",
        "groups with phase, members and reason",
        (_argument("--pods", action="store_true", help="also pods that are alone"),),
        lambda cluster, told: gangs.gather(cluster, told.pods),
        lambda found, _, now, paint: gangs.show(found, now, paint),
        everywhere=True,
        empty="there are no groups in {where}",
    ),
    Command(
        "nodes",
        "the topology tree, with what is free at each level",
        (
            _RESOURCE,
            _argument("--level", metavar="LABEL", help="the levels of the Topology that has this one"),
            _argument("--depth", type=_depth, metavar="N", help="only so many levels"),
        ),
        lambda cluster, told: nodes.gather(cluster, told.resource, told.level, told.depth),
        lambda found, _, __, paint: nodes.show(found, paint),
    ),
    Command(
        "history",
        "for what a group has waited, and what was done about it",
        (_NAME,),
        lambda cluster, told: history.gather(cluster, str(cluster.namespace), told.name),
        lambda found, _, now, paint: history.show(found, now, paint),
        empty="nothing is remembered of it: it has not waited, or that was more than an hour ago",
    ),
    Command(
        "events",
        "decisions, also as they are made",
        (_argument("-w", "--watch", action="store_true", help="go on with those to come"),),
        lambda cluster, _: events.gather(cluster),
        lambda found, _, now, paint: events.show(found, now, paint),
        everywhere=True,
        empty="there are no Events of Muster in {where}",
    ),
)

EVERYWHERE = (
    _argument("-n", "--namespace", metavar="NAMESPACE", help="instead of the context's"),
    _argument("--kubeconfig", metavar="FILE", help="instead of KUBECONFIG or ~/.kube/config"),
    _argument("--context", metavar="NAME", help="of the kubeconfig, instead of its current one"),
    _argument("-o", "--output", choices=("json", "yaml"), help="for programs"),
)
ALL = _argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
