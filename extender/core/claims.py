"""What a queue holds back from borrowers for its groups that wait, and what it is to own what one asks for.

Takes usage and amounts, gives values; must not know who waits (`claiming` does).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from extender.core import fairshare
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


def owns(
    usage: Usage, levels: Iterable[QueueName], asked: Mapping[str, int], without: Mapping[str, int] = _NOTHING
) -> bool:
    """True when so much more is inside what is owned at each of these levels that names it, and some level does.

    `without`: as if so much of what is used was not.
    """
    amounts = tuple(asked.items())
    ats = [(usage.tree.at(name), usage.of(name)) for name in levels]
    found = [fairshare.inside(at, used, amounts, without) for at, used in ats if at is not None]
    return True in found and False not in found
