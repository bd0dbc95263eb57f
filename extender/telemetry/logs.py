"""Structured logs: one record a line, as JSON or text.

Takes: a constant message and named values from callers, records of libraries. Gives: lines on standard error.
Must not: log whole objects or secrets (see redaction), raise, or flood: warnings and errors of one kind are
let through a few times a minute, and the next one says how many were dropped.

A `cause` follows one event to its effects: it is taken from the argument, else from the context in which
the call runs (`caused`), which asyncio hands on to the tasks that are started there.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import datetime
import logging
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO

import orjson

from extender import settings
from extender.telemetry import redaction

OUR_PACKAGES = ("extender", "permit_gate")
#: so many records of one kind pass in one period
REPEATS = 5
PERIOD_SECONDS = 60.0
KINDS_KEPT = 512

_cause: contextvars.ContextVar[str] = contextvars.ContextVar("cause", default="")
#: what JSON allows raw inside a string, but terminals obey or readers take for line ends
_UNSEEN = re.compile("[\x7f-\x9f\u2028\u2029]")
_RESERVED = frozenset({"time", "level", "logger", "message", "cause", "dropped", "traceback"})


@contextlib.contextmanager
def caused(cause: str) -> Iterator[None]:
    """Give all that is logged inside this cause, unless a call names another."""
    token = _cause.set(cause)
    try:
        yield
    finally:
        _cause.reset(token)


def current_cause() -> str:
    """The cause of the context, or "" when nobody named one."""
    return _cause.get()


class Log:
    """The logger of one module. Messages are constant texts; what varies goes into fields."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, message: str, /, *, cause: str | None = None, **fields: object) -> None:
        """What helps to follow a single event."""
        self._say(logging.DEBUG, message, cause, fields)

    def info(self, message: str, /, *, cause: str | None = None, **fields: object) -> None:
        """What an operator wants to know of afterwards: few a second at most."""
        self._say(logging.INFO, message, cause, fields)

    def warning(self, message: str, /, *, cause: str | None = None, **fields: object) -> None:
        """What went wrong and is being handled."""
        self._say(logging.WARNING, message, cause, fields)

    def error(
        self,
        message: str,
        /,
        *,
        cause: str | None = None,
        fault: BaseException | None = None,
        **fields: object,
    ) -> None:
        """What needs a person; `fault` adds its traceback."""
        self._say(logging.ERROR, message, cause, fields, fault)

    def _say(
        self,
        level: int,
        message: str,
        cause: str | None,
        fields: dict[str, object],
        fault: BaseException | None = None,
    ) -> None:
        if self._logger.isEnabledFor(level):
            # a message is never a format here, so a percent sign in it must not be read as one: no arguments
            extra = {"muster_cause": cause, "muster_fields": fields}
            self._logger.log(level, message, exc_info=fault, extra=extra)


def configure(told: settings.Logging, stream: TextIO = sys.stderr) -> None:
    """Send every log line of the process to the stream; libraries are heard from warnings on."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if told.format == "json" else TextLines())
    handler.addFilter(Repeats())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for name in OUR_PACKAGES:
        logging.getLogger(name).setLevel(told.level.upper())
    logging.captureWarnings(True)


class Repeats(logging.Filter):
    """Drops warnings and errors that repeat. A kind is a logger, a level and a message not yet formatted."""

    def __init__(self) -> None:
        super().__init__()
        #: kind -> [begin of its period, records let through, records dropped]; oldest use first
        self._kinds: collections.OrderedDict[tuple[str, int, str], list[float]] = collections.OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """False for a record to drop; one that passes after drops bears their number."""
        if record.levelno < logging.WARNING:
            return True
        state = self._state((record.name, record.levelno, str(record.msg)[:200]), record.created)
        if state[1] >= REPEATS:
            state[2] += 1
            return False
        state[1] += 1
        if state[2]:
            record.muster_dropped = int(state[2])
            state[2] = 0
        return True

    def _state(self, kind: tuple[str, int, str], now: float) -> list[float]:
        state = self._kinds.setdefault(kind, [now, 0, 0])
        self._kinds.move_to_end(kind)
        if len(self._kinds) > KINDS_KEPT:
            self._kinds.popitem(last=False)
        # a clock that was set back must not silence anything for longer
        if not 0 <= now - state[0] < PERIOD_SECONDS:
            state[0], state[1] = now, 0
        return state


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line."""
        return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", orjson.dumps(_content(record)).decode())


class TextLines(logging.Formatter):
    """For people: time, level, logger, message, then name=value."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line; a traceback stays on it, with its line ends escaped."""
        content = _content(record)
        head = [str(content.pop(name)) for name in ("time", "level", "logger", "message")]
        return redaction.one_line(" ".join([*head, *(f"{name}={_quoted(value)}" for name, value in content.items())]))


def _quoted(value: object) -> str:
    shown = value if isinstance(value, str) else orjson.dumps(value).decode()
    return orjson.dumps(shown).decode() if not shown or " " in shown or '"' in shown else shown


def _content(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of a line, in their order."""
    cause = getattr(record, "muster_cause", None)
    content: dict[str, Any] = {
        "time": _time(record.created),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": redaction.text(_message(record)),
    }
    optional = {
        "cause": redaction.text(current_cause() if cause is None else cause),
        "dropped": getattr(record, "muster_dropped", 0),
        "traceback": _traceback(record),
    }
    for name, value in getattr(record, "muster_fields", {}).items():
        content[f"{name}_" if name in _RESERVED else name] = redaction.plain(name, value)
    return content | {name: value for name, value in optional.items() if value}


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # arguments that do not fit the format of a library's message
        return str(record.msg)


def _traceback(record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[0] is None:
        return ""
    return redaction.tail(logging.Formatter().formatException(record.exc_info))


def _time(created: float) -> str:
    moment = datetime.datetime.fromtimestamp(created, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
