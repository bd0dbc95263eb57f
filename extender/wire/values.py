"""The core's frozen values as JSON and back: dataclasses as objects, tuples and sets as arrays, nothing left out.

Takes values of the core, gives bytes; takes decoded JSON and a type, gives a value. Must not believe what it reads:
what is not of the type that is wanted is a Malformed that names the field.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import orjson

Read = Callable[[Any, str], Any]
_PLAIN = (str, int, bool)


class Malformed(ValueError):
    """This is no value of the wanted type; the text names the field."""


def encode(value: object) -> bytes:
    """JSON of a value, or of a dict or list of such."""
    return orjson.dumps(value, _other)


def _other(value: object) -> object:
    """What orjson does not know: named tuples, sets in order, and mappings."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no value of the core")


def decode(kind: Any, found: object, path: str = "") -> Any:
    """The value of a type that stands in decoded JSON."""
    return _reader(kind)(found, path)


@functools.cache
def _reader(kind: Any) -> Read:
    if isinstance(kind, typing.NewType):
        return _reader(kind.__supertype__)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _union(parts)
    if origin is not None and (made := _container(origin, parts)) is not None:
        return made
    if isinstance(kind, type):
        return _of_class(kind)
    raise TypeError(f"{kind} cannot be read")


def _of_class(kind: type) -> Read:
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    if issubclass(kind, Enum):
        return _enum(kind)
    if issubclass(kind, tuple):
        return _named(kind)
    if kind is float:
        return _number
    if kind in _PLAIN:
        return functools.partial(_plain, kind)
    raise TypeError(f"{kind} cannot be read")


def _container(origin: Any, parts: tuple[Any, ...]) -> Read | None:
    if origin is tuple and parts[-1] is Ellipsis:
        return functools.partial(_array, tuple, _reader(parts[0]))
    if origin is tuple:
        return functools.partial(_row, [_reader(part) for part in parts], tuple)
    if origin is frozenset:
        return functools.partial(_array, frozenset, _reader(parts[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return functools.partial(_mapping, _reader(parts[0]), _reader(parts[1]))
    return None


def _fail(found: object, path: str, want: str) -> typing.NoReturn:
    raise Malformed(f"{path or 'it'}: {str(found)[:40]!r} is not {want}")


def _plain(kind: type, found: Any, path: str) -> Any:
    if type(found) is not kind:
        _fail(found, path, f"of type {kind.__name__}")
    return found


def _number(found: Any, path: str) -> Any:
    if type(found) not in (int, float):
        _fail(found, path, "a number")
    return found


def _union(parts: tuple[Any, ...]) -> Read:
    """None and one type, or some plain types, which JSON keeps apart."""
    others = [part for part in parts if part is not types.NoneType]
    none = len(others) < len(parts)
    if len(others) == 1:
        one = _reader(others[0])
        return lambda found, path: None if none and found is None else one(found, path)
    if not all(part in _PLAIN for part in others):
        raise TypeError(f"{parts} cannot be told apart")

    def read(found: Any, path: str) -> Any:
        if not (none and found is None) and type(found) not in others:
            _fail(found, path, "of a type that is known")
        return found

    return read


def _array(make: Callable[[Any], Any], each: Read, found: Any, path: str) -> Any:
    if not isinstance(found, list):
        _fail(found, path, "an array")
    return make([each(one, f"{path}[{number}]") for number, one in enumerate(found)])


def _row(parts: list[Read], make: Callable[[Any], Any], found: Any, path: str) -> Any:
    if not isinstance(found, list) or len(found) != len(parts):
        _fail(found, path, f"an array of {len(parts)}")
    return make([part(one, f"{path}[{number}]") for number, (part, one) in enumerate(zip(parts, found, strict=True))])


def _mapping(key: Read, value: Read, found: Any, path: str) -> Any:
    if not isinstance(found, dict):
        _fail(found, path, "an object")
    return {key(name, path): value(one, f"{path}.{name}") for name, one in found.items()}


def _enum(kind: type[Enum]) -> Read:
    of = {one.value: one for one in kind}

    def read(found: Any, path: str) -> Any:
        one = of.get(found) if isinstance(found, str) else None
        if one is None:
            _fail(found, path, f"one of {kind.__name__}")
        return one

    return read


def _named(kind: type) -> Read:
    hints = typing.get_type_hints(kind)
    return functools.partial(_row, [_reader(hint) for hint in hints.values()], lambda parts: kind(*parts))


def _dataclass(kind: type) -> Read:
    hints = typing.get_type_hints(kind)
    fields = {field.name: _reader(hints[field.name]) for field in dataclasses.fields(kind)}

    def read(found: Any, path: str) -> Any:
        if not isinstance(found, dict) or found.keys() != fields.keys():
            _fail(found, path, f"an object with the fields of {kind.__name__}")
        return kind(**{name: each(found[name], f"{path}.{name}" if path else name) for name, each in fields.items()})

    return read
