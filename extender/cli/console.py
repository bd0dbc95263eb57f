"""The command line of `kubectl muster`.

Takes arguments, gives output and an exit status: 0 done, 1 there is no answer, 2 the command line or the kubeconfig
cannot be used. What is said about the output goes to standard error, so that programs read the output alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import orjson
import yaml

from extender.cli import commands, completion, events, problems, tables
from extender.cli.cluster import Cluster
from extender.cli.commands import Command
from extender.cli.problems import Problem
from extender.kube import client, credentials, errors, observing

STOPPED = 130


def main(argv: Sequence[str] | None = None, out: TextIO = sys.stdout, said: TextIO = sys.stderr) -> int:
    """Do what the arguments say; the exit status."""
    told = parser(os.environ).parse_args(sys.argv[1:] if argv is None else argv)
    paint = tables.Paint(tables.coloured(said))
    try:
        if told.command == completion.NAME:
            return _complete(told, out)
        asyncio.run(_run(told, out, said))
    except Problem as problem:
        return _refused(problem, said, paint)
    except errors.KubeError as error:
        return _refused(problems.of(error, "what was asked for", "of the kubeconfig"), said, paint)
    except BrokenPipeError:  # whoever reads has read enough; nothing more may be flushed there
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        return problems.DONE
    except KeyboardInterrupt:
        return STOPPED
    return problems.DONE


def complete(argv: Sequence[str] | None = None, out: TextIO = sys.stdout) -> int:
    """What kubectl's own completion asks (`kubectl_complete-muster WORD...`): a candidate a line, then a directive."""
    words = sys.argv[1:] if argv is None else argv
    print(*completion.candidates(words), completion.NO_FILES, sep="\n", file=out)
    return problems.DONE


def _complete(told: argparse.Namespace, out: TextIO) -> int:
    if told.shell == completion.ASK:
        print(*completion.candidates(told.words), sep="\n", file=out)
    else:
        print(completion.SCRIPTS[told.shell], end="", file=out)
    return problems.DONE


def _refused(problem: Problem, said: TextIO, paint: tables.Paint) -> int:
    print(f"{paint(tables.BAD, 'error')}: {tables.plain(problem)}", file=said)
    return problem.status


def parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    """Options may stand before the command and behind it."""
    name = "kubectl muster" if "KUBECTL_PLUGINS_CALLER" in environ else "kubectl-muster"
    made = argparse.ArgumentParser(
        prog=name,
        description="Why a group waits or was evicted, queues, GPUs, nodes, and decisions as they are made.",
        allow_abbrev=False,
    )
    for argument in commands.EVERYWHERE:
        made.add_argument(*argument.names, **argument.options)
    several = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in commands.COMMANDS:
        one = several.add_parser(command.name, help=command.help, description=command.help, allow_abbrev=False)
        if command.everywhere:
            one.add_argument(*commands.ALL.names, **commands.ALL.options)
        for argument in command.arguments:
            one.add_argument(*argument.names, **argument.options)
        for argument in commands.EVERYWHERE:
            one.add_argument(*argument.names, **argument.options, default=argparse.SUPPRESS)
    shells = several.add_parser(completion.NAME, help="print a script that completes commands and options")
    shells.add_argument("shell", choices=(*completion.SCRIPTS, completion.ASK), metavar="bash|zsh|fish")
    shells.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    return made


# --- running -----------------------------------------------------------------------------------------


async def _run(told: argparse.Namespace, out: TextIO, said: TextIO) -> None:
    command = next(one for one in commands.COMMANDS if one.name == told.command)
    kubeconfig = credentials.find_kubeconfig(told.kubeconfig)
    namespace = told.namespace or credentials.namespace_of(kubeconfig, told.context)
    everywhere = command.everywhere and told.all_namespaces
    observer = observing.Silent()
    async with client.connect(kubeconfig, told.context, component="kubectl-muster", observer=observer) as api:
        cluster = Cluster(api, None if everywhere else namespace)
        try:
            if getattr(told, "watch", False):
                await _watch(cluster, told, out, said)
            else:
                await _once(command, cluster, told, out, said)
        finally:
            _note(cluster, said)


async def _once(command: Command, cluster: Cluster, told: argparse.Namespace, out: TextIO, said: TextIO) -> None:
    found = await command.gather(cluster, told)
    empty = command.empty and not found.get("items")
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


async def _watch(cluster: Cluster, told: argparse.Namespace, out: TextIO, said: TextIO) -> None:
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


def _write(found: dict[str, Any], form: str, out: TextIO) -> None:
    if form == "json":
        print(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode(), file=out)
    else:
        print("---", yaml.safe_dump(found, sort_keys=False, allow_unicode=True), sep="\n", end="", file=out)


def _note(cluster: Cluster, said: TextIO) -> None:
    for note in cluster.notes:
        print(f"note: {tables.plain(note)}", file=said)
    cluster.notes.clear()
