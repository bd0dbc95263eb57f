"""In which order groups are looked at. A policy: the mechanism is in `engine`.

Takes what is known of a waiting group, gives a sort key; must not look at resources.
"""

from __future__ import annotations

from extender.core.ids import GroupKey

OrderKey = tuple[int, float, bool, str]


def order_key(key: GroupKey, priority: int, arrival: float, gated: bool) -> OrderKey:
    """Higher priority first, then earlier arrival, last of all the name.

    Arrivals are known to the second. Within one, a group whose members are all behind our gate comes after
    one that was let go, perhaps by an earlier life of ours.
    """
    return (-priority, arrival, gated, f"{key.namespace}/{key.name}/{key.source}")
