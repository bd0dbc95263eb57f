"""Work on what the process knows at this moment, done by a copy of the process, so that it need not stand still.

Takes a function that makes bytes, gives them later; the function must not wait for anything, use the event loop or what
other threads hold. The copy shares memory with the process until either writes to it, runs behind everything else, and
has no connection or file of the process.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pathlib
import select
import signal
import time
import warnings
from collections.abc import Callable

#: a copy that is not done by then never will be
LONGEST_SECONDS = 120.0
_PIECE = 2**20
_NICENESS = 5
_LONGEST_WORD = 500


class Aside:
    """One piece of work; making it takes as long as copying the tables of the process's memory."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._until = time.monotonic() + LONGEST_SECONDS
        self._read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads that hold locks: `make` takes none
            self._pid = os.fork()
        if not self._pid:
            _work(write, make)
        os.close(write)

    def result(self) -> bytes:
        """What was made; waits for it, and must be asked for once. OSError when the copy failed, or is too slow."""
        pieces: list[bytes] = []
        try:
            while True:
                left = self._until - time.monotonic()
                if left <= 0 or not select.select([self._read], [], [], left)[0]:
                    os.kill(self._pid, signal.SIGKILL)
                    raise TimeoutError("the copy of the process is not done in time")
                piece = os.read(self._read, _PIECE)
                if not piece:
                    break
                pieces.append(piece)
        finally:
            os.close(self._read)
            _, status = os.waitpid(self._pid, 0)
        if status:
            why = b"".join(pieces).decode(errors="replace")[:_LONGEST_WORD]
            raise OSError(f"the copy of the process ended with {os.waitstatus_to_exitcode(status)}: {why}")
        return b"".join(pieces)


def _work(write: int, make: Callable[[], bytes]) -> None:
    """In the copy: never returns."""
    status = 1
    try:
        gc.disable()  # it would touch, and so copy, all memory
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.closerange(3, write)
        os.closerange(write + 1, os.sysconf("SC_OPEN_MAX"))
        os.nice(_NICENESS)
        with contextlib.suppress(OSError):  # where memory runs out, the copy goes and not the process
            pathlib.Path("/proc/self/oom_score_adj").write_text("1000")
        with os.fdopen(write, "wb") as out:
            try:
                out.write(make())
                status = 0
            except Exception as error:  # told to who asks for the result
                out.write(f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(status)
