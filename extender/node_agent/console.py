"""The node agent's command line: what it is told, and what it says when it only shows what it would do.

Takes arguments, gives lines and an exit status: 0, 1 when a topology is refused, 2 for an argument that cannot be
used. Must not write to the API server itself (`agent` does).
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import TextIO

from extender import settings
from extender.node_agent import agent
from extender.runtime import process
from extender.wire import gpu_topology

DONE, REFUSED = 0, 1
#: how often the matrix is read again: it changes with a driver, a bridge or a card
INTERVAL_SECONDS = 600


def main(argv: Sequence[str], out: TextIO = sys.stdout, errors: TextIO = sys.stderr) -> int:
    """Publish until asked to stop, or with --dry-run only show; the exit status."""
    parser = _parser()
    told = parser.parse_args(argv)
    source = agent.Source(told.from_file, told.nvidia_smi)
    if told.dry_run:
        return _show(source, out, errors)
    if not told.node:
        parser.error("--node: is missing; give the node's name, or set NODE_NAME")
    publishing = agent.publish(source, told.node, told.interval, told.kubeconfig, told.context)
    return process.main("the node agent", settings.Logging(told.log_level, told.log_format), publishing)


def _show(source: agent.Source, out: TextIO, errors: TextIO) -> int:
    try:
        print(gpu_topology.encode(gpu_topology.parse(source.read())), file=out)
    except (gpu_topology.TopologyError, OSError, agent.Unreadable) as error:
        print(f"{source}: {error}", file=errors)
        return REFUSED
    return DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m extender.node_agent",
        description=f"Writes how the GPUs of this node are joined into its annotation {gpu_topology.ANNOTATION}.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--from-file", type=pathlib.Path, metavar="FILE", help="read what `nvidia-smi topo -m` printed from a file")
    add("--nvidia-smi", default="nvidia-smi", metavar="PROGRAM", help="the program that prints it (%(default)s)")
    add("--dry-run", action="store_true", help="print what would be written, as JSON, and end")
    add("--node", default=os.environ.get("NODE_NAME", ""), help="name of this node (else NODE_NAME)")
    add("--interval", type=_seconds, default=INTERVAL_SECONDS, metavar="SECONDS", help="read it so often (%(default)s)")
    add("--kubeconfig", metavar="FILE", help="reach the API server by it (else as a pod)")
    add("--context", metavar="NAME", help="context of the kubeconfig (its current one)")
    add("--log-level", choices=settings.LOG_LEVELS, default="info", help="least severity that is logged (%(default)s)")
    add("--log-format", choices=settings.LOG_FORMATS, default="json", help="JSON or text (%(default)s)")
    return parser


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 8 and int(text) >= 10):
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not usable; give whole seconds from 10")
    return int(text)
