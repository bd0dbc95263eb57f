"""What may stand on the command line: commands, their arguments, and options of all of them.

Takes nothing, gives tables and argparse's parser of them; must not import what reads a cluster: that takes a second,
and completion is asked at each press of a key.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: prints scripts for shells, and answers them
COMPLETION, ASK = "completion", "ask"
SHELLS = ("bash", "zsh", "fish")
#: seconds of the letters behind spans of time
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, as argparse takes it."""

    names: tuple[str, ...]
    options: Mapping[str, Any]

    @property
    def flags(self) -> tuple[str, ...]:
        """Its names, if it is an option."""
        return tuple(name for name in self.names if name.startswith("-"))


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `everywhere`: it takes -A."""

    name: str
    help: str
    arguments: tuple[Argument, ...] = ()
    everywhere: bool = False


def _argument(*names: str, **options: Any) -> Argument:
    return Argument(names, options)


def _depth(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 4):
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a whole number from 0")
    return int(text)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 8 and int(text)):
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a whole number from 1")
    return int(text)


def _span(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,6})([smhd])", text, re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no time such as 90m, 24h or 2d")
    return float(int(found[1]) * UNITS[found[2]])


_NAME = _argument("name", metavar="NAME", help="a group, or pod/NAME; kind:NAME where several have the name")
_RESOURCE = _argument("--resource", metavar="NAME", help="of this resource (GPUs; cpu where there are none)")
_POOL = _argument("--pool", metavar="LABEL", help="the label of nodes that names their pool")
_PODS = _argument("--pods", action="store_true", help="also pods that are alone")
_LEVEL = _argument("--level", metavar="LABEL", help="the levels of the Topology that has this one")
_DEPTH = _argument("--depth", type=_depth, metavar="N", help="only so many levels")
_NODE = _argument("node", metavar="NODE", help="a node")
_ONLY = _argument("--plan", action="store_true", required=True, help="only say what would follow; nothing else is done")
_FILE = _argument("-f", "--filename", metavar="FILE", required=True, help="manifests; - for standard input")
_LOG = _argument("--log", metavar="PATH", help="for queues: on the day in this decision log instead; asks no cluster")
_WATCH = _argument("-w", "--watch", action="store_true", help="go on with those to come")
_SINCE = _argument("--since", metavar="TIME", default="24h", help="so long ago (90m, 24h, 2d), or a time (24h)")
_COMPARE = _argument("--compare", metavar="TIME", help="before and after this time, side by side")
_INTO = _argument("-f", "--filename", metavar="FILE", required=True, help="CSV of jobs; hosts go into one beside it")
_FOR = _argument("--for", dest="seconds", type=_span, metavar="TIME", help="end after so long (90m, 24h, 2d)")
_MOST = _argument(
    "--most", type=_number, default=100_000, metavar="N", help="end when there are more jobs (%(default)s)"
)

COMMANDS = (
    Command("why", "why a group, or a pod of it, is waiting, and why it was evicted", (_NAME,)),
    Command("queues", "the tree of queues: what each uses, is owed and may use", (_RESOURCE,)),
    Command("top", "what is used, held and idle, by node pool and by queue", (_RESOURCE, _POOL)),
    Command("usage", "GPUs over time, by pool and queue, and how long groups waited", (_SINCE, _COMPARE)),
    Command("gangs", "groups with phase, members and reason", (_PODS,), everywhere=True),
    Command("nodes", "the topology tree, with what is free at each level", (_RESOURCE, _LEVEL, _DEPTH)),
    Command("history", "for what a group has waited, and what was done about it", (_NAME,)),
    Command(
        "plan",
        "would it start now, where, whom would it evict, else why not; or what queues would change",
        (_FILE, _RESOURCE, _LOG),
    ),
    Command("drain", "what would become of a node's pods if it was drained", (_NODE, _ONLY)),
    Command(
        "migrate", "which workloads of Volcano and Kueue would move, and what would change", (_ONLY,), everywhere=True
    ),
    Command("events", "decisions, also as they are made", (_WATCH,), everywhere=True),
    Command(
        "record",
        "what is submitted and what runs, into files that traces are replayed from; Ctrl-C ends it",
        (_INTO, _FOR, _MOST),
        everywhere=True,
    ),
)

ALL = _argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
#: of every command
OPTIONS = (
    _argument("-n", "--namespace", metavar="NAMESPACE", help="instead of the context's"),
    _argument("--kubeconfig", metavar="FILE", help="instead of KUBECONFIG or ~/.kube/config"),
    _argument("--context", metavar="NAME", help="of the kubeconfig, instead of its current one"),
    _argument("-o", "--output", choices=("json", "yaml"), help="for programs"),
)


def parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    """Options may stand before the command and behind it."""
    name = "kubectl muster" if "KUBECTL_PLUGINS_CALLER" in environ else "kubectl-muster"
    about = "Why a group waits or was evicted, queues, GPUs, nodes, and decisions as they are made."
    made = argparse.ArgumentParser(prog=name, description=about, allow_abbrev=False)
    for argument in OPTIONS:
        made.add_argument(*argument.names, **argument.options)
    several = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        one = several.add_parser(command.name, help=command.help, description=command.help, allow_abbrev=False)
        for argument in (*command.arguments, *((ALL,) if command.everywhere else ())):
            one.add_argument(*argument.names, **argument.options)
        for argument in OPTIONS:
            one.add_argument(*argument.names, **argument.options, default=argparse.SUPPRESS)
    shells = several.add_parser(COMPLETION, help="print a script that completes commands and options")
    shells.add_argument("shell", choices=(*SHELLS, ASK), metavar="bash|zsh|fish")
    shells.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    return made
