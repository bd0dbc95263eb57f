"""What pods ask for and nodes have, in base units: the sums that kubelets, quotas and checks are judged by.

Takes objects and makings, gives integers; the request of a pod is computed by the same code as the engine's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

from extender.core.resources import CPU, GPU_PARTS, MIG, parts_of
from extender.sim import objects
from extender.sim.api import Json
from extender.sim.cards import GPU, PER_CARD, PERCENT, whole
from extender.sim.objects import Making
from extender.wire import quantity, requests
from extender.wire.fields import Reader


def request_of(making: Making) -> Mapping[str, int]:
    """What a pod asks for."""
    return _request(_Same(making))


class _Same:
    """A making as a key: by identity, as its mappings cannot be hashed."""

    def __init__(self, making: Making) -> None:
        self.making = making

    def __hash__(self) -> int:
        return id(self.making.task)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.making.task is self.making.task


@lru_cache(maxsize=4096)
def _request(same: _Same) -> Mapping[str, int]:
    return dict(requests.pod_request(Reader(), objects.pod(same.making)["spec"], {}))


def amount(name: str, text: object) -> int:
    """A quantity in base units."""
    return quantity.units(name, quantity.nanos(text))


def exact(name: str, text: object) -> Fraction:
    """A quantity in base units, parts of them too: a share of a GPU."""
    return Fraction(quantity.nanos(text) * (1000 if name == CPU else 1), quantity.NANO)


def allocatable(node: Json) -> dict[str, int]:
    """What a node has."""
    return {name: amount(name, text) for name, text in node["status"]["allocatable"].items()}


def used(makings: Iterable[Making]) -> dict[str, int]:
    """The sum of what these pods ask for."""
    total: dict[str, int] = {}
    for making in makings:
        for name, value in request_of(making).items():
            total[name] = total.get(name, 0) + value
    return total


def short_of(node: Json, makings: Iterable[Making]) -> str:
    """A resource of which these pods ask more than the node has; nothing when there is none."""
    there = allocatable(node)
    return next(
        (n for n, value in used(makings).items() if n not in PER_CARD and value > there.get(n, 0)),
        "",
    )


def charge(making: Making, resource: str, by_share: bool) -> Fraction:
    """What a pod costs its queue of a resource, in base units."""
    asked = Fraction(request_of(making).get(resource, 0))
    if not by_share or resource != GPU:
        return asked
    if PERCENT in making.task.requests:
        asked = asked * whole(making.task.requests[PERCENT]) / 100
    slices = ((parts_of(name), value) for name, value in request_of(making).items() if name.startswith(MIG))
    return asked + sum((Fraction(parts * value, GPU_PARTS) for parts, value in slices), Fraction(0))
