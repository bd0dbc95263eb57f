"""Reading the fields of a scenario file: typed values, or a fault that names the field and the mend.

Takes what a YAML parser gives, gives plain values; must not know which fields there are.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from extender.wire import quantity

Read = Callable[[object, str], Any]
#: times beyond ten years are mistakes
_LATEST = 10 * 366 * 24 * 3600
_MOST = 100_000


class Fault(Exception):
    """A file that cannot be read: which report and field, what is wrong, and what would mend it."""

    def __init__(self, path: str, what: str, mend: str) -> None:
        super().__init__(f"{path}: {what}; {mend}")


@dataclass(frozen=True, slots=True)
class Need:
    """A field that must be there."""

    read: Read


def text(value: object, path: str) -> str:
    """A text that is not empty; YAML's numbers are not taken for one."""
    if not isinstance(value, str) or not value:
        raise Fault(path, f"{value!r} is not a text", "write a name, in quotes if it looks like a number")
    return value


def word(value: object, path: str) -> str:
    """A text, or a number as it is written."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return text(value, path)


def flag(value: object, path: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Fault(path, f"{value!r} is not true or false", "write true or false")
    return value


def seconds(value: object, path: str) -> float:
    """A time or duration: not negative, not endless."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST:
        raise Fault(path, f"{value!r} is not a number of seconds", "write a number from 0 on")
    return float(value)


def real(value: object, path: str) -> float:
    """Any number that is one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Fault(path, f"{value!r} is not a number", "write a number")
    return float(value)


def integer(low: int = 0, high: int = _MOST) -> Read:
    """A whole number within bounds."""

    def read(value: object, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise Fault(path, f"{value!r} is not a whole number", f"write one from {low} to {high}")
        return value

    return read


def amount(value: object, path: str) -> str:
    """A Kubernetes quantity, as its text."""
    if isinstance(value, bool | None):
        raise Fault(path, f"{value!r} is not a quantity", "write one as in Kubernetes, such as 2, 500m or 16Gi")
    written = str(value)
    try:
        quantity.nanos(written)
    except quantity.QuantityError as error:
        raise Fault(path, str(error), "write one as in Kubernetes, such as 2, 500m or 16Gi") from None
    return written


def one_of(*known: str) -> Read:
    """One of these words."""

    def read(value: object, path: str) -> str:
        if value not in known:
            raise Fault(path, f"{value!r} is not known", _known(str(value), known))
        return str(value)

    return read


def list_of(read: Read, least: int = 0) -> Read:
    """A list; its elements are named by their number, or by what they call themselves."""

    def read_all(value: object, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) < least:
            raise Fault(path, f"{value!r} is not a list", f"write a list{' that is not empty' if least else ''}")
        return tuple(read(item, f"{path}[{_called(item, number)}]") for number, item in enumerate(value))

    return read_all


def map_of(read_key: Read, read: Read) -> Read:
    """A mapping of any keys."""

    def read_all(value: object, path: str) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise Fault(path, f"{value!r} is not a mapping", "write it as {name: value}")
        return {read_key(key, path): read(item, f"{path}.{key}") for key, item in value.items()}

    return read_all


def record(fields: Mapping[str, Read | Need], make: Callable[..., Any] = dict) -> Read:
    """A mapping of these keys and no others, given to `make` by their names."""

    def read(value: object, path: str) -> Any:
        if not isinstance(value, dict):
            raise Fault(path, f"{value!r} is not a mapping", f"write it with {', '.join(fields)}")
        for key in value:
            if key not in fields:
                raise Fault(f"{path}.{key}", "there is no such field", _known(str(key), fields))
        found = {}
        for key, how in fields.items():
            if key in value:
                found[key] = (how.read if isinstance(how, Need) else how)(value[key], f"{path}.{key}")
            elif isinstance(how, Need):
                raise Fault(f"{path}.{key}", "is missing", f"add `{key}`")
        return make(**found)

    return read


def _called(item: object, number: int) -> str:
    called = item.get("name") if isinstance(item, dict) else None
    return called if isinstance(called, str) else str(number)


def _known(value: str, known: Mapping[str, object] | tuple[str, ...]) -> str:
    near = difflib.get_close_matches(value, list(known), 1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
