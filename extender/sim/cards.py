"""The cards of nodes: what each pod takes of which, as the device plugin of a node hands them out.

Takes cards as published, requests and what stands on them, gives shares; must not choose nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from extender.sim.report import Amounts, Card
from extender.wire import quantity

GPU = "nvidia.com/gpu"
MEMORY, PERCENT, CORES = "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"
#: asked per GPU and fitted on cards, not on what a node has allocatable
PER_CARD = frozenset({MEMORY, PERCENT, CORES})


@dataclass(frozen=True, slots=True)
class Share:
    """What a pod takes of one card."""

    card: str
    memory_mib: int
    cores: int
    slots: int = 1


def whole(text: str) -> int:
    """A quantity in whole units, rounded up."""
    return quantity.units("", quantity.nanos(text))


def count(requests: Amounts) -> int:
    """How many GPUs are asked for."""
    return whole(requests.get(GPU, "0"))


def share_of(card: Card, requests: Amounts) -> Share:
    """What these requests take of this card."""
    if MEMORY in requests:
        memory = whole(requests[MEMORY])
    elif PERCENT in requests:
        memory = card.memory_mib * whole(requests[PERCENT]) // 100
    else:
        memory = card.memory_mib
    return Share(card.id, memory, whole(requests.get(CORES, "0")))


def loads(shares: Iterable[Share]) -> dict[str, Share]:
    """The sum of shares by card."""
    found: dict[str, Share] = {}
    for one in shares:
        there = found.get(one.card, Share(one.card, 0, 0, 0))
        found[one.card] = Share(
            one.card, there.memory_mib + one.memory_mib, there.cores + one.cores, there.slots + one.slots
        )
    return found


def hand_out(cards: Iterable[Card], taken: Mapping[str, Share], requests: Amounts) -> tuple[Share, ...] | None:
    """The first cards that have room, as a device plugin takes them that was told nothing; None: there are too few."""
    found: list[Share] = []
    for card in cards:
        share, there = share_of(card, requests), taken.get(card.id, Share(card.id, 0, 0, 0))
        fits = (
            there.slots < card.slots
            and there.memory_mib + share.memory_mib <= card.memory_mib
            and there.cores + share.cores <= card.cores
        )
        if card.healthy and fits and len(found) < count(requests):
            found.append(share)
    return tuple(found) if len(found) == count(requests) else None


def decode(text: str) -> tuple[Share, ...]:
    """The shares in a pod's annotation: `ID,TYPE,MEMORY,CORES:` for each, `;` after each container."""
    parts = (part.split(",") for container in text.split(";") for part in container.split(":") if part)
    return tuple(Share(part[0], int(part[2]), int(part[3])) for part in parts)


def encode(shares: Iterable[Share]) -> str:
    """The text of a pod's annotation."""
    return "".join(f"{one.card},NVIDIA,{one.memory_mib},{one.cores}:" for one in shares) + ";"
