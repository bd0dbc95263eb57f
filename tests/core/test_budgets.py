"""Which pods a disruption budget covers, as Kubernetes' label selectors say it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from extender.core import budgets
from extender.core.model import Budget, Expression
from tests.builders import make_pod

CASES: dict[str, tuple[tuple[Expression, ...] | None, Mapping[str, str], bool]] = {
    "no selector": (None, {"a": "1"}, False),
    "an empty selector": ((), {"a": "1"}, True),
    "an empty selector and a pod without labels": ((), {}, True),
    "a label": ((Expression("a", "In", ("1",)),), {"a": "1", "b": "2"}, True),
    "another value": ((Expression("a", "In", ("1",)),), {"a": "2"}, False),
    "a label that is missing": ((Expression("a", "In", ("1",)),), {}, False),
    "an empty value is a value": ((Expression("a", "In", ("",)),), {"a": ""}, True),
    "and not the same as none": ((Expression("a", "In", ("",)),), {}, False),
    "one of some": ((Expression("a", "In", ("1", "2")),), {"a": "2"}, True),
    "none of them": ((Expression("a", "NotIn", ("1", "2")),), {"a": "3"}, True),
    "just one of them": ((Expression("a", "NotIn", ("1", "2")),), {"a": "1"}, False),
    "none of them, as there is none": ((Expression("a", "NotIn", ("1",)),), {}, True),
    "there": ((Expression("a", "Exists", ()),), {"a": ""}, True),
    "not there": ((Expression("a", "Exists", ()),), {"b": ""}, False),
    "rightly missing": ((Expression("a", "DoesNotExist", ()),), {"b": "1"}, True),
    "wrongly there": ((Expression("a", "DoesNotExist", ()),), {"a": "1"}, False),
    "all must hold": ((Expression("a", "In", ("1",)), Expression("b", "Exists", ())), {"a": "1"}, False),
    "and all hold": ((Expression("a", "In", ("1",)), Expression("b", "Exists", ())), {"a": "1", "b": ""}, True),
    "the same key twice": ((Expression("a", "In", ("1", "2")), Expression("a", "NotIn", ("2",))), {"a": "2"}, False),
    "case matters": ((Expression("a", "In", ("x",)),), {"a": "X"}, False),
}


@pytest.mark.parametrize(("selector", "labels", "want"), CASES.values(), ids=CASES.keys())
def test_who_is_covered(selector: tuple[Expression, ...] | None, labels: Mapping[str, str], want: bool) -> None:
    pod = make_pod(labels=tuple(sorted(labels.items())))
    assert budgets.covers(Budget("team", "b", "u", selector), pod) is want


def test_a_budget_covers_its_namespace_only() -> None:
    assert not budgets.covers(Budget("other", "b", "u", ()), make_pod())


def test_an_operator_that_is_none_is_a_fault() -> None:
    with pytest.raises(ValueError, match="'Gt'"):
        budgets.covers(Budget("team", "b", "u", (Expression("a", "Gt", ("1",)),)), make_pod())
