"""Makes any value fit for a log line.

Takes: names and values that callers want to log. Gives: short text or plain numbers on one line. Must not:
let a secret through, show a whole object, or raise: a log line is never worth a failure.
"""

import enum
import re
from typing import Any

TEXT_LIMIT = 400
TRACEBACK_LIMIT = 6000
LIST_LIMIT = 16
HIDDEN = "(hidden)"

Plain = str | int | float | bool | None

_SECRET_NAME = re.compile(r"token|passw|secret|authoriz|credential|private", re.IGNORECASE)
#: what stands behind an authentication scheme, a JSON web token, the user part of a URL, a private key
_SECRET_TEXT = re.compile(
    r"(?i:(?<=bearer )|(?<=basic ))[\w.~+/=-]{6,}"
    r"|eyJ[\w-]{6,}\.[\w-]+\.[\w-]*"
    r"|(?<=://)[^\s/@]+(?=@)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END|\Z)"
)
_INT_BITS = 63


def plain(name: str, value: object) -> Plain | list[Plain]:
    """The value as it may stand in a log line under `name`."""
    if _SECRET_NAME.search(name):
        return HIDDEN
    if isinstance(value, list | tuple | set | frozenset):
        shown = [_scalar(item) for item, _ in zip(value, range(LIST_LIMIT), strict=False)]
        return [*shown, f"... {len(value)} in all"] if len(value) > LIST_LIMIT else shown
    return _scalar(value)


def text(value: str, limit: int = TEXT_LIMIT) -> str:
    """Text without secrets, within the limit, that UTF-8 can hold."""
    # cut first with room to spare: the patterns must not run over megabytes
    shown = _SECRET_TEXT.sub(HIDDEN, value[: 4 * limit])
    if len(shown) > limit or len(value) > 4 * limit:
        shown = f"{shown[:limit]}... ({len(value)} characters)"
    return shown.encode("utf-8", "backslashreplace").decode()


def tail(value: str, limit: int = TRACEBACK_LIMIT) -> str:
    """The same for a traceback, whose end says most."""
    return text(value if len(value) <= limit else f"...{value[-limit:]}", limit + 3)


def one_line(value: str) -> str:
    """Text with line ends and control characters as visible escapes, so that no value can forge a line."""
    if value.isprintable():
        return value
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in value
    )


def _scalar(value: Any) -> Plain:
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, str):
        return text(value)
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _INT_BITS else f"({value.bit_length()} bits)"
    if isinstance(value, BaseException):
        return describe(value)
    return f"<{type(value).__name__}>"


def describe(error: BaseException) -> str:
    """An exception as its type and message."""
    try:
        message = str(error)
    except Exception:  # a broken __str__ is the error's fault, not ours
        message = "(no text)"
    return text(f"{type(error).__name__}: {message}" if message else type(error).__name__)
