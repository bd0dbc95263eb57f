"""When the process is asked to end.

Takes: SIGTERM and SIGINT. Gives: an event. Must not: end anything itself; whoever waits for the event does,
in order.
"""

import asyncio
import contextlib
import signal
from collections.abc import Iterator

from extender.telemetry import logs

LOG = logs.Log(__name__)
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def asked_to_stop() -> Iterator[asyncio.Event]:
    """An event that is set by the first signal; the second of the same kind has its usual effect."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def asked(which: signal.Signals) -> None:
        LOG.info("asked to stop", signal=which.name)
        loop.remove_signal_handler(which)
        stop.set()

    for which in SIGNALS:
        loop.add_signal_handler(which, asked, which)
    try:
        yield stop
    finally:
        for which in SIGNALS:
            loop.remove_signal_handler(which)
