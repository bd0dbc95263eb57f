"""Slow and obvious answers to compare the fast ones with.

Takes model objects, gives what must be true of them by the plainest code that can say it; must not import
what it judges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from extender.core.model import Constraints, Expression, Node, Shape, Taint, Term, Toleration

#: one pod as (shape, rows where it may stand)
OraclePod = tuple[Shape, tuple[int, ...]]


# --- which nodes a pod accepts -----------------------------------------------------------------------


def accepts(constraints: Constraints, node: Node) -> bool:
    """Whether kube-scheduler's checks let a pod with these constraints onto this node, read one by one."""
    if not node.ready:
        return False
    if any(key not in node.labels or node.labels[key] != value for key, value in constraints.selector):
        return False
    if constraints.affinity is not None and not any(term_matches(t, node) for t in constraints.affinity):
        return False
    taints = list(node.taints)
    if node.unschedulable:
        taints.append(Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"))
    for taint in taints:
        if taint.effect == "PreferNoSchedule":
            continue
        if not any(tolerated(taint, toleration) for toleration in constraints.tolerations):
            return False
    return True


def tolerated(taint: Taint, toleration: Toleration) -> bool:
    """core/v1 Toleration.ToleratesTaint without the comparison operators."""
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("Equal", "") and toleration.value == taint.value


def term_matches(term: Term, node: Node) -> bool:
    """A term of a node selector: not empty, parses, and everything in it holds."""
    if not term.labels and not term.fields:
        return False
    if not all(parses(expression) for expression in term.labels):
        return False
    for expression in term.fields:
        if expression.operator not in ("In", "NotIn") or len(expression.values) != 1:
            return False
    fields = {"metadata.name": str(node.name)}
    for expression in term.fields:
        equal = fields.get(expression.key, "") == expression.values[0]
        if equal != (expression.operator == "In"):
            return False
    return all(holds(expression, node.labels.get(expression.key)) for expression in term.labels)


def parses(expression: Expression) -> bool:
    """labels.NewRequirement accepts it."""
    match expression.operator:
        case "In" | "NotIn":
            return len(expression.values) > 0
        case "Exists" | "DoesNotExist":
            return len(expression.values) == 0
        case "Gt" | "Lt":
            return len(expression.values) == 1 and go_integer(expression.values[0]) is not None
    return False


def holds(expression: Expression, value: str | None) -> bool:
    """labels.Requirement.Matches for a label's value, None when the node lacks it."""
    match expression.operator:
        case "In":
            return value is not None and value in expression.values
        case "NotIn":
            return value is None or value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    number = go_integer(value) if value is not None else None
    bound = go_integer(expression.values[0])
    if number is None or bound is None:
        return False
    return number > bound if expression.operator == "Gt" else number < bound


def go_integer(text: str) -> int | None:
    """strconv.ParseInt(text, 10, 64)."""
    if not re.fullmatch("[-+]?[0-9]+", text):
        return None
    return int(text) if -(2**63) <= int(text) <= 2**63 - 1 else None


# --- whether and where pods fit ----------------------------------------------------------------------


def can_place(nodes: Sequence[Node], pods: Sequence[OraclePod]) -> bool:
    """True when every pod can stand on one of its rows with no node over its allocatable."""
    return next(placements(nodes, pods), None) is not None


def placements(nodes: Sequence[Node], pods: Sequence[OraclePod]) -> Iterator[tuple[int, ...]]:
    """Every way to place all the pods, as one row for each."""
    yield from _ways([dict(node.allocatable) for node in nodes], list(pods))


def _ways(free: list[dict[str, int]], pods: list[OraclePod]) -> Iterator[tuple[int, ...]]:
    if not pods:
        yield ()
        return
    (shape, rows), *rest = pods
    for row in rows:
        if all(free[row].get(name, 0) >= amount for name, amount in shape.request):
            for name, amount in shape.request:
                free[row][name] -= amount
            for way in _ways(free, rest):
                yield (row, *way)
            for name, amount in shape.request:
                free[row][name] += amount


def domains(nodes: Sequence[Node], keys: Sequence[str]) -> dict[tuple[str, ...], list[int]]:
    """Rows by the path of label values; nodes that lack one are in none."""
    found: dict[tuple[str, ...], list[int]] = {}
    for row, node in enumerate(nodes):
        if all(key in node.labels for key in keys):
            found.setdefault(tuple(node.labels[key] for key in keys), []).append(row)
    return found
