"""Kubernetes' rules for which node a pod accepts, over one coded column per label.

Takes constraints and columns, gives masks of rows; must not know the node table or its changes. The
rules are those of kube-scheduler's NodeAffinity, TaintToleration and NodeUnschedulable plugins, 1.37.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from extender.core.ids import NodeName
from extender.core.model import Constraints, Expression, Taint, Term, Toleration
from extender.core.reasons import Detail

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
V = TypeVar("V", bound=Hashable)

#: taints of a node, and whether it is cordoned
Keeping = tuple[tuple[Taint, ...], bool]
#: a cordoned node is judged as if it bore this taint
CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_HARD = ("NoSchedule", "NoExecute")
#: taints that the cluster itself puts on nodes which are out of use
_TROUBLES = frozenset(
    f"node.kubernetes.io/{trouble}"
    for trouble in ("not-ready", "unreachable", "unschedulable", "out-of-service", "network-unavailable")
)
#: so many labels are named where no node has what is asked of them
_NAMED = 5
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


class Coded(Generic[V]):
    """One fact of every row as a small number, -1 where the row has none. Never changed once made."""

    def __init__(self, codes: Ints, index: dict[V | None, int]) -> None:
        self.codes = codes
        #: code of each value, in the order of the codes; begins with None: -1
        self._index = index

    @classmethod
    def of(cls, facts: Sequence[V | None]) -> Coded[V]:
        """The column of these facts by row; None stands for no fact."""
        index: dict[V | None, int] = {None: -1}
        return cls(_coded(facts, index), index)

    def changed(self, size: int, rows: Sequence[int], facts: Sequence[V | None]) -> Coded[V]:
        """The column of so many rows after these became otherwise; new rows must be among them."""
        index = self._index if all(fact in self._index for fact in facts) else self._index.copy()
        codes = np.full(size, -1, dtype=np.int64)
        codes[: len(self.codes)] = self.codes
        codes[rows] = _coded(facts, index)
        return Coded(codes, index)

    @property
    def values(self) -> list[V]:
        """All values by code."""
        return [value for value in self._index if value is not None]

    @property
    def stale(self) -> bool:
        """True when most of the values are values that no row has any more."""
        return len(self._index) > 2 * len(self.codes) + 64

    def where(self, holds: Callable[[V], bool]) -> Mask:
        """Rows with a value that holds; the question is asked once for each distinct value."""
        answers = [holds(value) for value in self.values]
        return np.array([*answers, False])[self.codes]  # code -1 finds the last one

    def among(self, values: Iterable[V]) -> Mask:
        """Rows that have one of the values."""
        answers = np.zeros(len(self._index), dtype=bool)
        answers[[self._index[value] for value in values if value in self._index]] = True
        return answers[self.codes]

    @property
    def present(self) -> Mask:
        """Rows that have any value."""
        return self.codes >= 0


def _coded(facts: Iterable[V | None], index: dict[V | None, int]) -> Ints:
    """Codes of the facts; new values are added to the index, and each is hashed only once."""
    return np.array([index.setdefault(fact, len(index) - 1) for fact in facts], dtype=np.int64)


class Labelled(Protocol):
    """What matching needs of the nodes."""

    def label(self, key: str) -> Coded[str]:
        """The column of a label."""

    def named(self, name: str) -> Mask:
        """The row of the node of this name; nothing when there is none."""

    @property
    def taints(self) -> Coded[Keeping]:
        """What keeps pods off each row."""

    @property
    def takes(self) -> Mask:
        """Rows that are nodes and ready."""


def accepted(constraints: Constraints, nodes: Labelled) -> Mask:
    """Rows of nodes that a pod with these constraints accepts and that take new pods."""
    mask = nodes.takes & nodes.taints.where(lambda keeping: _let_in(constraints.tolerations, keeping))
    for key, value in constraints.selector:
        mask &= nodes.label(key).among((value,))
    if constraints.affinity is None:
        return mask
    terms = [_term(term, nodes) for term in constraints.affinity if _sound(term)]
    return mask & reduce(np.logical_or, terms, np.zeros_like(mask))


def unmatched(constraints: Constraints, nodes: Labelled, alive: Mask) -> Detail:
    """Why no node accepts a pod with these constraints: what it asks of labels that no node has, else what else.

    `alive` are the rows that are nodes.
    """
    parts = [(f"{key}={value}", nodes.label(key).among((value,))) for key, value in constraints.selector]
    terms = [term for term in constraints.affinity or () if _sound(term)]
    if constraints.affinity is not None and not terms:
        return (("problem", "its node affinity can match no node"),)
    matching = reduce(np.logical_and, (mask for _, mask in parts), alive)
    if terms:
        parts += [(e.key, _label(e, nodes.label(e.key))) for term in terms for e in term.labels]
        matching = matching & reduce(np.logical_or, [_term(term, nodes) for term in terms])
    if matching.any():
        return (("matching", int(matching.sum())), ("problem", "taints keep it off them, or they are not ready"))
    missing = [name for name, mask in parts if not (mask & alive).any()] or [name for name, _ in parts]
    return tuple(("unmatched", name) for name in dict.fromkeys(missing[:_NAMED]))


def _let_in(tolerations: Sequence[Toleration], keeping: Keeping) -> bool:
    taints, cordoned = keeping
    hard = [taint for taint in taints if taint.effect in _HARD] + [CORDON] * cordoned
    return all(tolerates(tolerations, taint) for taint in hard)


def mended(keeping: Keeping) -> Keeping:
    """What keeps pods off a node when it is in use."""
    return tuple(taint for taint in keeping[0] if taint.key not in _TROUBLES), False


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """True when one of the tolerations matches; the operators Gt and Lt are off by default and never do."""
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def integer(text: str) -> int | None:
    """The number as Go's ParseInt(text, 10, 64) reads it, or None."""
    if len(text) > 64 or _INTEGER.fullmatch(text) is None:
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def _sound(term: Term) -> bool:
    """False for a term that matches nothing: an empty one, or one that Kubernetes cannot parse."""
    return (
        bool(term.labels or term.fields)
        and all(_sound_label(expression) for expression in term.labels)
        and all(e.operator in ("In", "NotIn") and len(e.values) == 1 for e in term.fields)
    )


def _sound_label(expression: Expression) -> bool:
    operator, values = expression.operator, expression.values
    if operator in ("In", "NotIn"):
        return bool(values)
    if operator in ("Exists", "DoesNotExist"):
        return not values
    return operator in ("Gt", "Lt") and len(values) == 1 and integer(values[0]) is not None


def _term(term: Term, nodes: Labelled) -> Mask:
    masks = [_label(expression, nodes.label(expression.key)) for expression in term.labels]
    masks += [_field(expression, nodes) for expression in term.fields]
    return reduce(np.logical_and, masks)


def _field(expression: Expression, nodes: Labelled) -> Mask:
    value = expression.values[0]
    if expression.key == "metadata.name":
        mask = nodes.named(value)
    else:  # an unknown field reads as ""
        mask = np.full(len(nodes.takes), value == "", dtype=bool)
    return mask if expression.operator == "In" else ~mask


def _label(expression: Expression, column: Coded[str]) -> Mask:
    match expression.operator:
        case "In":
            return column.among(expression.values)
        case "NotIn":
            return ~column.among(expression.values)
        case "Exists":
            return column.present
        case "DoesNotExist":
            return ~column.present
    bound = integer(expression.values[0])
    assert bound is not None
    greater = expression.operator == "Gt"
    return column.where(lambda value: _beyond(integer(value), bound, greater))


def _beyond(value: int | None, bound: int, greater: bool) -> bool:
    if value is None:
        return False
    return value > bound if greater else value < bound


def selects(selector: Iterable[Expression], labels: Mapping[str, str]) -> bool:
    """True when a label selector, as matchLabels and matchExpressions say it, selects what bears these labels."""
    return all(_selects(expression, labels.get(expression.key)) for expression in selector)


def _selects(expression: Expression, there: str | None) -> bool:
    match expression.operator:
        case "In":
            return there in expression.values
        case "NotIn":  # a label that is missing has none of the values
            return there not in expression.values
        case "Exists":
            return there is not None
        case "DoesNotExist":
            return there is None
    raise ValueError(f"{expression.operator!r} is no operator of label selectors")


def name_mask(row_of: dict[NodeName, int], size: int, names: Iterable[str]) -> Mask:
    """Rows of the nodes of these names; names that are no nodes are left out."""
    mask = np.zeros(size, dtype=bool)
    mask[[row_of[NodeName(name)] for name in names if name in row_of]] = True
    return mask
