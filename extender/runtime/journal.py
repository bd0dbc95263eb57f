"""The decision log as it is written: by a thread, into files that are bounded and can be replayed each alone.

Takes what the engine was told and what came of it, gives files; must not decide, and never keeps deciding waiting:
where the disk is too slow, or full, events are left out, counted and said in the log, and a new file begins later.

    Writing ──the file is full, a round has ended──> Writing (a new file, with the engine's state)
       └──too much is unwritten, or a write failed──> Losing ──all is written, a round has ended──> Writing (a new file)

The owner's task makes the lines, which is a few microseconds each; packing and writing are done beside it, where both
leave the interpreter to others. The state of an engine, which may take seconds, is taken between two rounds by a copy
of the process.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import pathlib
import queue
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from extender import settings
from extender.core import messages
from extender.core.engine import Engine
from extender.runtime import aside
from extender.telemetry import logs
from extender.wire import frozen, journal

LOG = logs.Log(__name__)
#: lines are handed to the thread when they are so many bytes, or so old
BATCH_BYTES, BATCH_SECONDS = 2**16, 1.0
#: so much may wait for the thread
UNWRITTEN_BYTES = 2**26
#: after events were lost a new file begins no earlier
AGAIN_SECONDS = 60.0
#: gzip, at the level that costs least
_LEVEL, _WBITS = 1, 31
_CLOSE_SECONDS = 5.0
_PREFIX, _SUFFIX = "decisions-", ".jsonl.gz"


class Metrics(Protocol):
    """What is told here."""

    def decisions_lost(self, number: int) -> None:
        """So many events are missing in the decision log."""

    def decisions_frozen(self, seconds: float) -> None:
        """For so long deciding stood still, to take the engine's state for a new file."""


@dataclass(frozen=True, slots=True)
class Room:
    """What the log may take: `bytes` of a file (a round more, and the state it begins with), and how many files."""

    folder: pathlib.Path
    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class _Begin:
    """A new file."""

    number: int
    at: float
    #: makes its first line
    header: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines of so many events."""

    content: bytes
    number: int


class Journal:
    """What the owner tells of each event."""

    def __init__(self, room: Room, engine: Engine, settings: journal.Settings, metrics: Metrics) -> None:
        self._room = room
        self._engine = engine
        self._settings = settings
        self._metrics = metrics
        self._writer = _Writer(room)
        self._batch: list[bytes] = []
        #: lines that the thread had given up when that was last looked at
        self._dropped = 0
        self._bytes = 0
        self._since = 0.0
        #: events are left out; so many were since the newest file began
        self._losing = False
        self._lost = 0
        self._again_at = 0.0
        #: of the file that was begun last
        self._number = 0

    def handled(self, at: float, event: messages.EngineEvent, effects: Sequence[messages.Effect]) -> None:
        """The engine has handled an event."""
        if not self._number:
            self._begin(at, functools.partial(journal.header, self._settings, journal.START, at))
        if self._losing or self._writer.behind(self._number):
            self._lose(at)
            return
        line = journal.line(at, event, effects, self._engine.decided)
        self._batch.append(line)
        self._bytes += len(line)
        if self._bytes >= BATCH_BYTES or at >= self._since + BATCH_SECONDS:
            self._hand_over(at)
            self._look_at_size(at)

    def close(self) -> None:
        """Write what is there, and end."""
        self._hand_over(self._since)
        self._writer.close()

    def _look_at_size(self, at: float) -> None:
        size = self._writer.size(self._number)
        if size >= self._room.bytes and not self._engine.unfinished:
            self._renew(at, journal.FULL)
        elif size >= 2 * self._room.bytes:
            self._losing = True  # a round that does not end

    def _lose(self, at: float) -> None:
        """This event is not written; perhaps the next one is, in a new file."""
        if not self._losing:
            self._losing = True
            self._hand_over(at)
        if not self._lost:
            LOG.warning("the decision log is not written fast enough, or not at all: events are left out")
        dropped, self._dropped = self._dropped, self._writer.dropped
        missing = 1 + self._dropped - dropped
        self._lost += missing
        self._metrics.decisions_lost(missing)
        if at >= self._again_at and self._writer.idle and not self._engine.unfinished:
            self._again_at = at + AGAIN_SECONDS
            self._renew(at, journal.GAP)

    def _renew(self, at: float, begins: str) -> None:
        """A new file begins with the engine's state; if that cannot be taken, nothing is written for a while."""
        started = time.perf_counter()
        try:
            state = aside.Aside(lambda: journal.header(self._settings, begins, at, frozen.freeze(self._engine)))
        except OSError as error:  # no memory for it; deciding goes on without a log
            LOG.error("the engine's state cannot be put on record", fault=error)
            self._losing, self._again_at = True, at + AGAIN_SECONDS
            return
        self._metrics.decisions_frozen(time.perf_counter() - started)
        if self._lost:
            LOG.info("the decision log goes on in a new file", lost=self._lost)
            self._writer.put(_Lines(journal.lost(self._lost), 0))
        self._losing, self._lost = False, 0
        self._begin(at, state.result)

    def _begin(self, at: float, header: Callable[[], bytes]) -> None:
        self._number += 1
        self._since = at
        self._writer.put(_Begin(self._number, at, header))

    def _hand_over(self, at: float) -> None:
        if self._batch:
            self._writer.put(_Lines(b"".join(self._batch), len(self._batch)))
        self._batch.clear()
        self._bytes, self._since = 0, at


class _Writer:
    """The thread and its file. What main and thread both look at is a number that one of them alone writes."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._todo: queue.SimpleQueue[_Lines | _Begin | None] = queue.SimpleQueue()
        #: bytes, written by main; bytes that were written or given up, by the thread
        self._handed = self._done = 0
        #: the number of the file, and with it how many bytes it has without the state
        self._number = 0
        self._file: tuple[int, int] = (0, 0)
        #: the number of the newest file that could not be written
        self._failed = 0
        #: lines that were given up
        self.dropped = 0
        self._out: BinaryIO | None = None
        self._packing = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WBITS)
        self._thread = threading.Thread(target=self._run, name="decision log", daemon=True)
        self._thread.start()

    def behind(self, number: int) -> bool:
        """Nothing more can be taken for the file of this number."""
        return self._failed == number or self._handed - self._done > UNWRITTEN_BYTES

    @property
    def idle(self) -> bool:
        """All that was taken is written, or given up."""
        return self._handed == self._done

    def size(self, number: int) -> int:
        """How many bytes the file of this number has, without the state; 0 when it was not begun yet."""
        file, size = self._file
        return size if file == number else 0

    def put(self, item: _Lines | _Begin) -> None:
        """Write this, some time."""
        self._handed += _size(item)
        self._todo.put(item)

    def close(self) -> None:
        """Write what was taken, and end."""
        self._todo.put(None)
        self._thread.join(_CLOSE_SECONDS)

    # --- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while (item := self._todo.get()) is not None:
            try:
                self._do(item)
            except Exception as error:  # whatever it is, deciding goes on
                LOG.error("the decision log cannot be written", fault=error, folder=self._room.folder)
                self._failed = self._number
                self.dropped += item.number if isinstance(item, _Lines) else 0
            self._done += _size(item)
        with contextlib.suppress(OSError):
            self._end()

    def _do(self, item: _Lines | _Begin) -> None:
        if isinstance(item, _Begin):
            self._begin(item)
        elif self._failed == self._number:
            self.dropped += item.number
        else:
            self._write(item.content)

    def _begin(self, begin: _Begin) -> None:
        self._number = begin.number
        with contextlib.suppress(OSError):
            self._end()
        began = datetime.datetime.fromtimestamp(begin.at, datetime.UTC)
        path = self._room.folder / f"{_PREFIX}{began:%Y%m%dT%H%M%SZ}-{begin.number:04}{_SUFFIX}"
        header = begin.header()
        self._packing = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WBITS)
        self._out = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640), "wb")
        self._write(header)
        self._file = (begin.number, 0)
        for old in sorted(self._room.folder.glob(f"{_PREFIX}*{_SUFFIX}"))[: -self._room.files]:
            old.unlink(missing_ok=True)

    def _write(self, content: bytes) -> None:
        """So that a file whose process is killed ends with a whole line."""
        assert self._out is not None
        packed = self._packing.compress(content) + self._packing.flush(zlib.Z_SYNC_FLUSH)
        self._out.write(packed)
        self._out.flush()
        number, size = self._file
        self._file = (number, size + len(packed))

    def _end(self) -> None:
        out, self._out = self._out, None
        if out is not None:
            with out:
                out.write(self._packing.flush())


def _size(item: _Lines | _Begin) -> int:
    return len(item.content) if isinstance(item, _Lines) else 1


def room(told: settings.DecisionLog) -> Room:
    """What the settings give the log; Unusable when nothing can be written there."""
    folder = pathlib.Path(told.folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise settings.Unusable(f"--decision-log: {error}; name a folder that this user may write to") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise settings.Unusable(f"--decision-log: {folder} may not be written by this user; mend its permissions")
    return Room(folder, told.file_mebibytes * 2**20, told.files)
