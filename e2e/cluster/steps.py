"""Runs one slow program, and tells meanwhile that it goes on.

Takes what to run and whom to tell; gives the last lines that it printed when it failed. Must not know what is run.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO

PROGRESS_SECONDS = 15
_SHOWN = 30


def run(
    argv: Sequence[str],
    goes_on: Callable[[float], None],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> str | None:
    """None when it ended well, else its last lines. `goes_on` is told now and then for how many seconds it has run.

    However this is left, the program does not go on.
    """
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(argv, cwd=cwd, env=env, stdout=log, stderr=log)
        try:
            while not _ended(process):
                goes_on(time.monotonic() - started)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        return _last_lines(log) if process.returncode != 0 else None


def _last_lines(log: IO[str]) -> str:
    log.seek(0)
    return "".join(log.readlines()[-_SHOWN:])


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(PROGRESS_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True
