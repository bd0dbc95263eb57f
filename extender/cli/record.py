"""`kubectl muster record`: what is submitted and what runs, into files that `trace replay` reads.

Takes a cluster and the name of a file, watches pods until it is told to end, gives what was written. Must not write to
the cluster, and must leave whole files whenever it ends: they are written anew beside their old ones, then renamed.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import os
import pathlib
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from extender.cli import recording, tables
from extender.cli.cluster import Cluster, each
from extender.cli.problems import UNUSABLE, Problem
from extender.core.ids import GroupKey, PodUid
from extender.core.model import Pod
from extender.kube import resources, watch
from extender.kube.feeds import GROUP_RESOURCES
from extender.kube.observing import Silent
from extender.wire import objects
from extender.wire.answers import age

Object = dict[str, Any]
#: files are written so often, in seconds
SAVE_SECONDS = 15.0
_ENDS = (signal.SIGINT, signal.SIGTERM)


@dataclass(slots=True)
class _Files:
    """Where jobs and hosts are written."""

    jobs: pathlib.Path
    hosts: list[recording.Row]
    begun: float = field(default_factory=time.time)

    @property
    def of_hosts(self) -> pathlib.Path:
        """Beside the file of jobs."""
        return self.jobs.with_name(f"{self.jobs.stem}.hosts{self.jobs.suffix}")

    def save(self, found: recording.Recording) -> None:
        """All that is known by now."""
        _write(self.jobs, recording.COLUMNS, found.rows(time.time()))
        if self.hosts:
            _write(self.of_hosts, recording.HOST_COLUMNS, self.hosts)


def _write(path: pathlib.Path, columns: recording.Row, rows: Iterable[recording.Row]) -> None:
    beside = path.with_name(f".{path.name}.new")
    try:
        with beside.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows((columns, *rows))
        os.replace(beside, path)
    except OSError as error:
        raise Problem(f"{path} cannot be written: {error}", "name a file with --filename", UNUSABLE) from error


async def gather(cluster: Cluster, filename: str, seconds: float | None, most: int) -> Object:
    """Record for so long, or until a signal ends it, or there are so many jobs; what was written."""
    files, found = _Files(pathlib.Path(filename), await _hosts(cluster)), recording.Recording(most)
    files.save(found)  # a file that cannot be written is said at once
    await cluster.every(resources.PODS, cluster.namespace)  # a watch that may not begin would try for ever
    async with _until_signal() as ended, contextlib.AsyncExitStack() as stack:
        tasks = [
            asyncio.create_task(_follow(cluster, found)),
            asyncio.create_task(_save(files, found)),
            asyncio.create_task(ended.wait()),
        ]
        stack.push_async_callback(_cancel, tasks)
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        files.save(found)
    return _told(files, found)


@contextlib.asynccontextmanager
async def _until_signal() -> AsyncIterator[asyncio.Event]:
    """An event that Ctrl-C, or being asked to end, sets."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in _ENDS:
        loop.add_signal_handler(number, ended.set)
    try:
        yield ended
    finally:
        for number in _ENDS:
            loop.remove_signal_handler(number)


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(cluster: Cluster, found: recording.Recording) -> None:
    """Hear of all pods; ends when there are more jobs than are kept."""
    queues: dict[str, str | None] = {}
    resource = replace(resources.PODS, namespace=cluster.namespace or "")
    changes = watch.follow(cluster.api, resource, decode=objects.decode_pod, observer=Silent())
    async with contextlib.aclosing(changes):
        async for change in changes:
            if isinstance(change, watch.Synced):
                continue
            if change.kind == watch.DELETED:
                found.gone(PodUid(change.identity.uid), time.time())
                continue
            if found.is_new(change.object):
                found.begin(change.object, *await _stated(cluster, change.object, queues))
            if found.full:
                return
            found.see(change.object, time.time())


async def _stated(cluster: Cluster, pod: Pod, queues: dict[str, str | None]) -> tuple[str | None, int | None]:
    """The queue and the duration that its group's object states, else the queue of its namespace."""
    group = recording.group_of(pod)
    queue, declared = (None, None) if group is None else await _of_group(cluster, group)
    if queue is None and pod.queue is None:
        if pod.namespace not in queues:
            queues[pod.namespace] = await _of_namespace(cluster, pod.namespace)
        queue = queues[pod.namespace]
    return queue, declared


async def _of_group(cluster: Cluster, group: GroupKey) -> tuple[str | None, int | None]:
    resource = GROUP_RESOURCES.get(group.source)
    content = None if resource is None else await cluster.get(resource, group.namespace, group.name)
    for read in each(lambda one: objects.decode_group(group.source, one), () if content is None else (content,)):
        return read.queue, read.expected_duration
    return None, None


async def _of_namespace(cluster: Cluster, namespace: str) -> str | None:
    """The queue that its label names; nothing where one may not read it."""
    with contextlib.suppress(Problem):
        content = await cluster.get(resources.NAMESPACES, "", namespace)
        return objects.decode_namespace(content)[1] if content else None
    return None


async def _hosts(cluster: Cluster) -> list[recording.Row]:
    try:
        return list(recording.hosts(each(objects.decode_node, await cluster.every(resources.NODES))))
    except Problem as problem:
        cluster.note(f"without hosts, a replay makes them up: {problem}")
        return []


async def _save(files: _Files, found: recording.Recording) -> None:
    """Write now and then, and tell a person how it goes."""
    while True:
        if tables.coloured(sys.stderr):
            jobs, running, waiting = found.counts()
            text = f"{age(time.time() - files.begun)}: {jobs} jobs, {running} run, {waiting} wait; Ctrl-C ends it"
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        await asyncio.sleep(SAVE_SECONDS)
        files.save(found)


def _told(files: _Files, found: recording.Recording) -> Object:
    jobs, running, waiting = found.counts()
    written = [str(files.jobs), *([str(files.of_hosts)] if files.hosts else [])]
    seconds = round(time.time() - files.begun, 3)
    return {
        **{"files": written, "seconds": seconds, "jobs": jobs, "running": running, "waiting": waiting},
        **{"hosts": len(files.hosts), "full": found.full},
    }


def show(found: Object) -> Iterator[str]:
    """What was written, and what can be done with it."""
    if found["full"]:
        yield f"it ended as there were more than {found['jobs']} jobs: --most keeps more"
    yield (
        f"recorded {age(found['seconds'])}: {found['jobs']} jobs, of which {found['running']} still run and"
        f" {found['waiting']} wait, and {found['hosts']} hosts"
    )
    yield f"replay it with `python -m extender.sim trace replay {' '.join(found['files'])}`"
