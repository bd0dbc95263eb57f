"""Engines whose decisions are put on record in files, as the owner does it, without threads.

Takes an engine and what it handles, gives files of a decision log; must not look at what is decided.
"""

from __future__ import annotations

import pathlib

from extender.core import messages
from extender.core.engine import Engine
from extender.wire import frozen, journal


class Recorder:
    """One engine's log: a new file with its state whenever that is asked for."""

    def __init__(self, engine: Engine, settings: journal.Settings, at: float) -> None:
        self.engine = engine
        self._settings = settings
        self.files: list[list[bytes]] = [[journal.header(settings, journal.START, at)]]

    def handle(self, event: messages.EngineEvent, now: float) -> list[messages.Effect]:
        """The engine handles an event, which is on record then."""
        effects = self.engine.handle(event, now)
        self.files[-1].append(journal.line(now, event, effects, self.engine.decided))
        return effects

    def turn(self, at: float) -> None:
        """A new file begins."""
        state = frozen.freeze(self.engine)
        self.files.append([journal.header(self._settings, journal.FULL, at, state)])

    def write(self, folder: pathlib.Path, name: str = "log") -> list[pathlib.Path]:
        """The files."""
        paths = []
        for number, lines in enumerate(self.files):
            path = folder / f"{name}-{number:04}.jsonl"
            path.write_bytes(b"".join(lines))
            paths.append(path)
        return paths
