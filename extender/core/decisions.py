"""What was decided about groups while one event was handled, for the record: effects do not tell where a plan is.

Takes nothing, gives frozen values; must not be looked at by whoever decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from extender.core.ids import GroupKey, NodeName
from extender.core.reasons import Refusal


@dataclass(frozen=True, slots=True)
class Placed:
    """Members of a group got their places: by slot (a pod's uid, or the name of one that is expected) the node."""

    group: GroupKey
    places: tuple[tuple[str, NodeName], ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A group waits from now on, or for another reason than before."""

    group: GroupKey
    refusal: Refusal


Decided = Placed | Refused
