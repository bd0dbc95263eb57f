"""What a queue holds back from borrowers for its groups that wait, and what it is to borrow.

Takes usage and amounts, gives values; must not know who waits (`claiming` does).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from extender.core.ids import GroupKey, QueueName
from extender.core.model import Constraints
from extender.core.quota import Sums
from extender.core.usage import Usage

_NOTHING: Mapping[str, int] = {}


@dataclass(slots=True, eq=False)
class Claim:
    """What is held back on nodes that these constraints allow, and a group for which most of it is."""

    key: GroupKey
    constraints: frozenset[Constraints]
    asked: Sums = field(default_factory=dict)


#: what is held back from one group, with this usage, if it takes so much
Against = Callable[[Usage, Mapping[str, int]], Iterable[Claim]]


def nothing(usage: Usage, asked: Mapping[str, int]) -> Iterable[Claim]:
    """Nobody holds anything back."""
    return ()


def borrows(
    usage: Usage, side: Iterable[QueueName], asked: Mapping[str, int], without: Mapping[str, int] = _NOTHING
) -> bool:
    """True when with so much more each of these levels uses more of something asked for than it owns.

    `without`: as if so much of what is used was not.
    """
    levels = [(at.owned if (at := usage.tree.at(name)) is not None else _NOTHING, usage.of(name)) for name in side]
    return any(
        all(used.get(r, 0) - without.get(r, 0) + amount > owned.get(r, 0) for owned, used in levels)
        for r, amount in asked.items()
        if amount and r in usage.tree.owned
    )
