"""What both processes need to run: an event loop, a clock, and an exit status.

Takes a coroutine, gives its end; must not know what it does.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine
from typing import Any

from extender import settings
from extender.runtime import tasks
from extender.telemetry import logs

LOG = logs.Log(__name__)
#: young objects before the collector looks at them, and how many such looks make one at older ones: with
#: tens of thousands of living pods a full collection takes longer than a filter call may
COLLECT_AFTER = (20_000, 20, 50)


def main(name: str, logging: settings.Logging, serving: Coroutine[Any, Any, None]) -> int:
    """Run to the end, and give the exit status; what a person or a restart can mend is logged."""
    logs.configure(logging)
    try:
        run(serving)
    except (tasks.Fault, settings.Unusable, OSError) as error:
        LOG.error("the process ends", fault=error, process=name)
        return 1
    return 0


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it is installed."""
    gc.set_threshold(*COLLECT_AFTER)
    try:
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


def wall_clock() -> Callable[[], float]:
    """Seconds since the epoch that never go back: the wall clock at start, the monotonic one since."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()
