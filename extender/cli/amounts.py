"""Amounts of one resource, as objects state them and as people read them.

Takes quantities in JSON and base units, gives integers and texts; what cannot be read counts as nothing said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from extender.core.resources import GPU
from extender.wire import quantity, requests
from extender.wire.queues import encode_amounts


def amount(resources: object, name: str) -> int | None:
    """Base units of a resource in a resource list; None where it is not named, or not a quantity."""
    text = resources.get(name) if isinstance(resources, dict) else None
    if text is None:
        return None
    try:
        return quantity.units(name, quantity.nanos(text))
    except quantity.QuantityError:
        return None


def text(name: str, units: int | None, absent: str = "-") -> str:
    """Base units as a quantity."""
    return absent if units is None else encode_amounts(((name, units),))[name]


def chosen(asked: str | None, offered: Iterable[Mapping[str, Any]]) -> str:
    """The resource that was asked for, else GPUs: NVIDIA's, or others that are offered; cpu where there are none."""
    if asked is not None:
        return asked
    names = {name for one in offered for name in one if name != GPU and requests.counted(name) and "/" in name}
    others = sorted((not name.endswith("/gpu"), name) for name in names)
    if any(GPU in one for one in offered):
        return GPU
    return others[0][1] if others else "cpu"
