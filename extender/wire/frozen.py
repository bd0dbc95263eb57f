"""The whole state of an engine as bytes and back, so that a log can be replayed from its middle.

Takes an engine between two rounds, gives bytes; takes bytes, gives an engine that decides alike. Must not run anything
that stands in the bytes, which may come from anywhere: they may name classes of the core and a few of Python's
containers, arrays of numbers, and methods of those classes, nothing else. They are of use to the very same code only
(`rules`): what a decision rests on is not only what the watches have shown, but plans, clocks and histories too, and
these are what the code makes of them.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import importlib
import io
import itertools
import pathlib
import pickle
import types
from typing import Any

import numpy as np

import extender.core
from extender.core.engine import Engine

_CORE = "extender.core."
_CONTAINERS: dict[tuple[str, str], Any] = {
    ("collections", "Counter"): collections.Counter,
    ("collections", "deque"): collections.deque,
    ("collections", "defaultdict"): collections.defaultdict,
    ("itertools", "count"): itertools.count,
    ("builtins", "list"): list,
    ("builtins", "dict"): dict,
    ("builtins", "set"): set,
}
#: kinds of numbers that an array may hold: booleans, integers, floats
_KINDS = "biuf"


class Unusable(ValueError):
    """These bytes are not the state of an engine of this code."""


@functools.cache
def rules() -> str:
    """Which code decides: equal only where the core's source is."""
    found = hashlib.sha256()
    for path in sorted(pathlib.Path(extender.core.__path__[0]).glob("*.py")):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:16]


def freeze(engine: Engine) -> bytes:
    """The state. TypeError or pickle.PicklingError where something of it cannot be kept, which is a fault of ours."""
    out = io.BytesIO()
    _Freezer(out, protocol=5).dump(engine)
    return out.getvalue()


def thaw(state: bytes) -> Engine:
    """The engine that had this state; Unusable when it is none."""
    try:
        engine = _Thawer(io.BytesIO(state)).load()
    except Unusable:
        raise
    except Exception as error:  # whatever is wrong with bytes from anywhere
        raise Unusable(f"it cannot be read ({type(error).__name__}: {error})") from error
    if not isinstance(engine, Engine):
        raise Unusable("it is no engine")
    return engine


class _Freezer(pickle.Pickler):
    def reducer_override(self, found: Any) -> Any:
        """Arrays and methods are made by functions of ours, which look at what they are given."""
        if isinstance(found, np.ndarray):
            return _array, (found.dtype.str, found.shape, found.tobytes(), found.flags.writeable)
        if isinstance(found, np.generic):
            return _scalar, (found.dtype.str, found.item())
        if isinstance(found, types.MethodType):
            return _method, (found.__self__, found.__name__)
        return NotImplemented


class _Thawer(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Nothing but what an engine is made of."""
        if (module, name) in _CONTAINERS:
            return _CONTAINERS[module, name]
        if module == __name__ and name in _MAKERS:
            return _MAKERS[name]
        if module.startswith(_CORE) and name.isidentifier():
            found = getattr(importlib.import_module(module), name, None)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise Unusable(f"it names {module}.{name}")


def _dtype(name: str) -> np.dtype[Any]:
    found = np.dtype(name)
    if found.kind not in _KINDS:
        raise Unusable(f"an array of {name}")
    return found


def _array(dtype: str, shape: tuple[int, ...], content: bytes, writeable: bool) -> Any:
    made = np.frombuffer(content, dtype=_dtype(dtype)).reshape(shape).copy()
    made.flags.writeable = writeable
    return made


def _scalar(dtype: str, value: float) -> Any:
    return _dtype(dtype).type(value)


def _method(of: Any, name: str) -> Any:
    """A method of an object of the core, as its class has it."""
    kind = type(of)
    if not kind.__module__.startswith(_CORE) or not isinstance(getattr(kind, name, None), types.FunctionType):
        raise Unusable(f"it names {kind.__name__}.{name}")
    return getattr(of, name)


_MAKERS = {"_array": _array, "_scalar": _scalar, "_method": _method}
