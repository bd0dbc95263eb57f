"""Tasks that run as long as the process.

Takes: coroutines that should never end, each with a name. Gives: the first fault. Must not: start anything
anew: a task that ended left its state in doubt, and the truth is in the API server, so the process ends and
its restart begins with a list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Self

from extender.telemetry import logs

LOG = logs.Log(__name__)
#: tasks that do not end so long after they were cancelled are left to the end of the process
CANCEL_SECONDS = 5.0


class Fault(Exception):
    """An eternal task ended; the exception that ended it, if any, is the cause."""


class Tasks:
    """The eternal tasks of a process, cancelled at the end of the block.

    Invariant: before the block ends, a task that ends in any way makes `_fault` done.
    """

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], str] = {}
        self._fault: asyncio.Future[Fault] = asyncio.get_running_loop().create_future()
        self._closing = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    def start(self, name: str, eternal: Coroutine[Any, Any, Any]) -> None:
        """Run the coroutine from now on."""
        task = asyncio.create_task(eternal, name=name)
        self._running[task] = name
        task.add_done_callback(self._ended)

    async def run_until(self, stop: asyncio.Event) -> None:
        """Return when `stop` is set; raise the Fault when a task ends before."""
        stopped = asyncio.create_task(stop.wait(), name="stop")
        ends: set[asyncio.Future[Any]] = {stopped, self._fault}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        if self._fault.done():
            raise self._fault.result()

    async def close(self) -> None:
        """Cancel all tasks and wait for their ends, though not for ever."""
        self._closing = True
        running = set(self._running)
        for task in running:
            task.cancel()
        if running:
            _, stuck = await asyncio.wait(running, timeout=CANCEL_SECONDS)
            for task in stuck:
                LOG.error("a task ignores that it is cancelled", task=task.get_name())

    def _ended(self, task: asyncio.Task[Any]) -> None:
        name = self._running.pop(task)
        error = None if task.cancelled() else task.exception()
        if self._closing:
            if error is not None:
                LOG.error("a task failed while it was being cancelled", fault=error, task=name)
            return
        how = "was cancelled" if task.cancelled() else "returned" if error is None else "failed"
        LOG.error("a task that must not end did; the process ends", fault=error, task=name, how=how)
        if not self._fault.done():
            fault = Fault(f"the task {name} {how}")
            fault.__cause__ = error
            self._fault.set_result(fault)
