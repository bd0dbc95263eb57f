"""One started program: its process group, its log file, its end.

Takes a command; gives a `Process`. Each runs in a group of its own, is killed by id at exit of the runner, and by the
kernel when the runner itself is killed (see launch.py), unless it is started to stay. Must not kill by name.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import http.client
import os
import pathlib
import random
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence

from e2e import waiting

LAUNCH = str(pathlib.Path(__file__).with_name("launch.py"))
_live: set[Process] = set()
# The kernel's death signal is tied to the *thread* that started the child: one thread that lives as long as the runner.
_spawner = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


class ProcessError(Exception):
    """A program ended or did not become healthy; the text holds the end of its log."""


class Process:
    """A program with a log; `restart` runs the same command again, appending to the same log."""

    def __init__(
        self,
        argv: Sequence[str],
        name: str,
        log_path: pathlib.Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | pathlib.Path | None = None,
        uts_hostname: str | None = None,
        stay: bool = False,
    ) -> None:
        self.argv = list(argv)
        self.name = name
        self.log_path = log_path
        self._env = {**os.environ, **(env or {})}
        self._cwd = cwd
        self._hostname = uts_hostname
        self._stay = stay
        self._popen: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0  # wall clock of the newest start
        self.paused = False
        self.start()

    def start(self) -> None:
        """Start the program; it must not be running."""
        if self.alive:
            raise ProcessError(f"{self.name} is running already")
        options = [] if self._stay else ["--die-with", str(os.getpid())]
        if self._hostname:
            options += ["--hostname", self._hostname]
        command = [sys.executable, "-I", "-S", LAUNCH, *options, "--", *self.argv] if options else self.argv
        self.started_at, self.paused = time.time(), False
        self._popen = _spawner.submit(self._spawn, command).result()
        if not self._stay:
            _live.add(self)

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        with open(self.log_path, "ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self._env, cwd=self._cwd, start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """Process id of the newest start (also its process group)."""
        assert self._popen is not None
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether it runs now."""
        return self._popen is not None and self._popen.poll() is None

    @property
    def returncode(self) -> int | None:
        """Exit status, None while it runs; negative when a signal ended it."""
        return None if self._popen is None else self._popen.poll()

    def kill9(self) -> None:
        """End the whole group at once, with no chance to clean up; returns when it is gone."""
        self._end(signal.SIGKILL, 10)

    def term(self, deadline: float = 15) -> None:
        """Ask it to end; after the deadline, kill it."""
        self._end(signal.SIGTERM, deadline)

    def pause(self) -> None:
        """Stop it where it stands (SIGSTOP): alive, but answering nothing."""
        os.killpg(self.pid, signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        """Let it go on after `pause`."""
        os.killpg(self.pid, signal.SIGCONT)
        self.paused = False

    def restart(self) -> None:
        """Kill it if it runs, then start the same command again."""
        self.kill9()
        self.start()

    def _end(self, number: signal.Signals, deadline: float) -> None:
        if self._popen is None:
            return
        if self._popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)
                if number != signal.SIGKILL:
                    os.killpg(self.pid, signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(deadline)
        # Also when the leader has ended: what it started may live on in its group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
        _live.discard(self)

    def tail(self, lines: int = 30) -> str:
        """The end of the log."""
        with contextlib.suppress(FileNotFoundError):
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
        return "(no log)"

    def failure(self, what: str) -> ProcessError:
        """An error to raise that shows the end of the log."""
        state = "running" if self.alive else f"ended with {self.returncode}"
        return ProcessError(f"{self.name} ({state}): {what}\n--- last lines of {self.log_path}\n{self.tail()}")

    def wait_http(self, url: str, deadline: float = 60) -> None:
        """Wait until `url` answers 200; fails at once when the program ends."""

        def probe() -> str:
            if not self.alive:
                raise self.failure(f"ended before {url} answered")
            return http_state(url)

        try:
            waiting.wait_for(probe, deadline, f"{self.name} at {url}", until=lambda state: state == "200")
        except waiting.NotReached as error:
            raise self.failure(str(error)) from None


def http_state(url: str) -> str:
    """The status of one GET as text, or why there is none."""
    try:
        http_text(url)
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code}: {error.read(2000).decode(errors='replace')}"
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"
    return "200"


def http_text(url: str, headers: Mapping[str, str] | None = None) -> str:
    """The body of one GET; certificates are not checked (they are our own, on loopback)."""
    context = ssl._create_unverified_context() if url.startswith("https") else None
    request = urllib.request.Request(url, headers=dict(headers or {}))
    with urllib.request.urlopen(request, timeout=5, context=context) as answer:
        return str(answer.read().decode())


def free_port() -> int:
    """A port nobody listens on, below the kernel's ephemeral range: no outgoing connection can take it while its
    program is being restarted."""
    for _ in range(200):
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ProcessError("no free port between 20000 and 32000")


@atexit.register
def kill_all() -> None:
    """Kill every program that is still alive and was not started to stay."""
    for process in list(_live):
        process.kill9()
