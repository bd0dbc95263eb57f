"""What a kube-scheduler decided, in the order in which it did, out of its own log (`-v=3`).

Takes the log's text; gives rows: what, pod, node. Must not know what the pods are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

PLACED, REFUSED, MADE_ROOM, LEFT = "placed", "refused", "made room", "left"
Row = tuple[str, str, str]

_TRIES = '"Attempting to schedule pod"'
_BOUND = '"Successfully bound pod to node"'
_ROOM = '"the target node for the preemption is determined"'
_PREEMPTED = '"Preemptor Pod preempted victim Pod"'
_DELETED = '"Delete event for scheduled pod"'
#: not what it decided, but that it was ever told of any pod
_MARKS = (_TRIES, _BOUND, _ROOM, _DELETED)


def rows(log: str) -> list[Row]:
    """All decisions. Binding goes on beside the next ones, so a pod was placed when it was tried last before it."""
    lines = [(mark, _field(line, "pod"), _field(line, "node")) for mark, line in _marked(log)]
    bound = {pod: node for mark, pod, node in lines if mark == _BOUND}
    last = {pod: number for number, (mark, pod, _) in enumerate(lines) if mark == _TRIES}
    found: list[Row] = []
    for number, (mark, pod, node) in enumerate(lines):
        if mark == _TRIES:
            placed = pod in bound and last[pod] == number
            found.append((PLACED, pod, bound[pod]) if placed else (REFUSED, pod, ""))
        elif mark == _ROOM:
            found.append((MADE_ROOM, pod, node))
        elif mark == _DELETED and pod in bound:
            found.append((LEFT, pod, bound[pod]))
    return found


def tries(log: str) -> list[str]:
    """The pods that were tried, once for each time."""
    return [_field(line, "pod") for mark, line in _marked(log) if mark == _TRIES]


def victims(log: str) -> list[str]:
    """Pods that were deleted to make room, in order."""
    return [_field(line, "victim") for line in log.splitlines() if _PREEMPTED in line]


def _marked(log: str) -> Iterator[tuple[str, str]]:
    for line in log.splitlines():
        for mark in _MARKS:
            if mark in line:
                yield mark, line


def _field(line: str, name: str) -> str:
    """The value of a field of a log line; of `namespace/name` the name."""
    found = re.search(rf'\b{name}="([^"]*)"', line)
    return found.group(1).rpartition("/")[2] if found else ""
