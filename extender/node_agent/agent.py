"""Reads the GPU topology of this node again and again, and keeps the node's annotation like it.

Takes a source and the node's name, gives writes to the node, one for each change; must not end because the driver
is not there yet, nor leave an annotation standing that the newest matrix contradicts.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import subprocess
from dataclasses import dataclass

from extender.kube import client, errors, observing, resources, writes
from extender.runtime import stopping
from extender.telemetry import logs
from extender.wire import gpu_topology

LOG = logs.Log(__name__)
#: nvidia-smi takes seconds while the driver starts, and hangs for ever when a card has fallen off the bus
READ_SECONDS = 60
#: after a failure it is tried again so soon
RETRY_SECONDS = 30
_NODES = resources.Served(resources.NODES, "v1")


class Unreadable(Exception):
    """The program that prints the matrix did not."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the matrix comes from: a file if there is one, else a program."""

    file: pathlib.Path | None
    program: str

    def __str__(self) -> str:
        return str(self.file) if self.file is not None else f"{self.program} topo -m"

    def read(self) -> str:
        """The text; OSError or Unreadable when there is none."""
        if self.file is not None:
            with self.file.open(encoding="utf-8", errors="replace") as text:
                return text.read(gpu_topology.MAX_TEXT + 1)
        try:
            command = [self.program, "topo", "-m"]  # the program is named by who starts us
            done = subprocess.run(command, capture_output=True, timeout=READ_SECONDS, check=False)  # noqa: S603
        except subprocess.TimeoutExpired as error:
            raise Unreadable(f"gave no answer in {READ_SECONDS} s") from error
        if done.returncode:
            said = done.stderr or done.stdout
            raise Unreadable(f"ended with {done.returncode}: {said[:300].decode(errors='replace').strip()}")
        return done.stdout.decode(errors="replace")


async def publish(source: Source, node: str, interval: int, kubeconfig: str | None, context: str | None) -> None:
    """Keep the annotation until the process is asked to stop."""
    with stopping.asked_to_stop() as stop:
        async with client.connect(
            kubeconfig, context, component="muster-node-agent", observer=observing.Silent()
        ) as api:
            while not stop.is_set():
                pause = interval if await once(api, source, node) else RETRY_SECONDS
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), pause)


async def once(api: client.Api, source: Source, node: str) -> bool:
    """Read the matrix and write the annotation if it is not so; False when it is to be tried again soon."""
    wanted: str | None = None
    try:
        wanted = gpu_topology.encode(gpu_topology.parse(await asyncio.to_thread(source.read)))
    except gpu_topology.TopologyError as error:  # no other answer will come soon: what was known holds no more
        LOG.error("the topology is refused", source=source, error=error)
    except (OSError, Unreadable) as error:
        LOG.warning("the topology cannot be read", source=source, error=error)
        return False
    try:
        return await _write(api, node, wanted)
    except errors.KubeError as error:
        LOG.warning("the node's annotation cannot be written", node=node, error=error)
        return False


async def _write(api: client.Api, node: str, wanted: str | None) -> bool:
    path = _NODES.path("", node)
    try:
        found = await api.read(path)
    except errors.NotFound:
        LOG.warning("the node does not exist", node=node)
        return False
    metadata = found.get("metadata") or {}
    if (metadata.get("annotations") or {}).get(gpu_topology.ANNOTATION) == wanted:
        return True
    LOG.info("the topology is published", node=node, topology=wanted or "none")
    return await writes.patch_annotations(api, path, metadata.get("uid", ""), {gpu_topology.ANNOTATION: wanted})
