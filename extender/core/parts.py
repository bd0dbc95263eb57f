"""Which parts of its group a pod belongs to: pods of one part must stand in one domain of the part's level.

Takes a pod and what its group's object says, gives parts from broad to narrow; must not look at nodes. What the object
says goes before what the pod names itself (the annotations of Kueue): they may cut across each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.core import matching
from extender.core.model import Part, PartRule, Pod


def parts_of(pod: Pod, rules: Sequence[PartRule]) -> tuple[Part, ...]:
    """The pod's parts, from broad to narrow; () when it may stand anywhere in the group's domain."""
    if not rules:
        return pod.parts
    labels = dict(pod.labels)
    found = []
    for number, rule in enumerate(rules):
        if rule.task in (None, pod.task) and matching.selects(rule.selector, labels):
            values = [labels.get(key, "") for key in rule.labels]
            values += slice_of(pod.index, rule.size)
            found.append(Part(rule.level, "/".join((str(number), *values)), divided=bool(values)))
    return tuple(found) or pod.parts


def slice_of(index: tuple[int, ...], size: int | None) -> list[str]:
    """Names the slice of so many pods to which an index belongs; without an index all such pods are of one."""
    if size is None:
        return []
    return [*map(str, index[:-1]), str(index[-1] // size) if index else "-"]


def undivided(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts that every member of the task is of, also one that does not exist yet."""
    return tuple(part for part in parts if not part.divided)
