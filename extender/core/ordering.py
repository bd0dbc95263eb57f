"""In which order groups are looked at. A policy: the mechanism is in `engine`.

Takes what is known of a waiting group, gives a sort key; must not look at resources.
"""

from __future__ import annotations

from extender.core.ids import GroupKey

OrderKey = tuple[int, float, str]


def order_key(key: GroupKey, priority: int, arrival: float) -> OrderKey:
    """Higher priority first, then earlier arrival, last of all the name."""
    return (-priority, arrival, f"{key.namespace}/{key.name}/{key.source}")
