"""Disruption budgets: every field, and that what is not understood protects more, never less."""

from __future__ import annotations

from typing import Any

import pytest
from wire_objects import table

from extender.core.model import Budget, Expression
from extender.wire import objects

META = {"name": "b", "namespace": "team", "uid": "b-1"}


def budget(selector: Any = None, status: Any = None, **meta: Any) -> Budget:
    return objects.decode_budget({"metadata": META | meta, "spec": {"selector": selector}, "status": status})


def expression(key: Any, operator: Any, *values: Any) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@table(
    "selector, want",
    {
        "no selector covers no pod": (None, None),
        "an empty one covers all": ({}, ()),
        "so does one of empty parts": ({"matchLabels": {}, "matchExpressions": []}, ()),
        "labels": (
            {"matchLabels": {"b": "2", "a": "1"}},
            (Expression("a", "In", ("1",)), Expression("b", "In", ("2",))),
        ),
        "every operator": (
            {
                "matchLabels": {"a": "1"},
                "matchExpressions": [
                    expression("b", "In", "1", "2"),
                    expression("c", "NotIn", "3"),
                    {"key": "d", "operator": "Exists"},
                    expression("e", "DoesNotExist"),
                ],
            },
            (
                Expression("a", "In", ("1",)),
                Expression("b", "In", ("1", "2")),
                Expression("c", "NotIn", ("3",)),
                Expression("d", "Exists", ()),
                Expression("e", "DoesNotExist", ()),
            ),
        ),
    },
)
def test_selector(selector: Any, want: Any) -> None:
    got = budget(selector)
    assert (got.selector, got.problems) == (want, ())


A = Expression("a", "In", ("1",))
EXPRESSIONS = "spec.selector.matchExpressions"


@table(
    "selector, want, problem",
    {
        "a selector that is a list": ([], (), "spec.selector: [] is not an object"),
        "labels in a list": ({"matchLabels": ["a"]}, (), "spec.selector.matchLabels: ['a'] is not an object"),
        "a label that is a number": (
            {"matchLabels": {"a": "1", "b": 2}},
            (A,),
            "spec.selector.matchLabels[b]: 2 is not a text",
        ),
        "no key": (
            {"matchLabels": {"a": "1"}, "matchExpressions": [{"operator": "Exists"}]},
            (A,),
            f"{EXPRESSIONS}.key: is missing",
        ),
        "an operator of other selectors": (
            {"matchExpressions": [expression("b", "Gt", "1")]},
            (),
            f"{EXPRESSIONS}.operator: 'Gt' is not an operator of label selectors",
        ),
        "none of none": (
            {"matchExpressions": [expression("b", "In")]},
            (),
            f"{EXPRESSIONS}.values: () is not what In takes",
        ),
        "some of nothing": (
            {"matchExpressions": [expression("b", "Exists", "1")]},
            (),
            f"{EXPRESSIONS}.values: ('1',) is not what Exists takes",
        ),
        "a value that is a number": (
            {"matchExpressions": [expression("b", "In", "1", 2)]},
            (),
            f"{EXPRESSIONS}.values: ['1', 2] is not a list of texts",
        ),
        "the same fault twice": (
            {"matchExpressions": [expression("b", "Lt", "1"), expression("c", "Lt", "1")]},
            (),
            f"{EXPRESSIONS}.operator: 'Lt' is not an operator of label selectors",
        ),
        "an expression that is a text": (
            {"matchExpressions": ["a in (1)"]},
            (),
            f"{EXPRESSIONS}: 'a in (1)' is not an object",
        ),
    },
)
def test_what_is_not_understood_excludes_no_pod_and_allows_nothing(selector: Any, want: Any, problem: str) -> None:
    assert budget(selector, {"disruptionsAllowed": 9}) == Budget("team", "b", "b-1", want, problems=(problem,))


@table(
    "status, allowed, problems",
    {
        "some": ({"disruptionsAllowed": 3}, 3, ()),
        "none": ({"disruptionsAllowed": 0}, 0, ()),
        "not yet": (None, 0, ()),
        "seen by its controller": ({"disruptionsAllowed": 3, "observedGeneration": 2}, 3, ()),
        "less than none": (
            {"disruptionsAllowed": -1},
            0,
            ("status.disruptionsAllowed: -1 is not an integer from 0 to 2147483647",),
        ),
        "a huge number": (
            {"disruptionsAllowed": 2**31},
            0,
            ("status.disruptionsAllowed: 2147483648 is not an integer from 0 to 2147483647",),
        ),
        "a text": (
            {"disruptionsAllowed": "3"},
            0,
            ("status.disruptionsAllowed: '3' is not an integer from 0 to 2147483647",),
        ),
        "true": (
            {"disruptionsAllowed": True},
            0,
            ("status.disruptionsAllowed: True is not an integer from 0 to 2147483647",),
        ),
        "no object": ([], 0, ("status: [] is not an object",)),
        "leaving pods in a list": (
            {"disruptionsAllowed": 3, "disruptedPods": ["p"]},
            0,
            ("status.disruptedPods: ['p'] is not an object",),
        ),
    },
)
def test_what_is_allowed(status: Any, allowed: int, problems: tuple[str, ...]) -> None:
    got = budget({}, status)
    assert (got.allowed, got.problems) == (allowed, problems)


@pytest.mark.parametrize("seen", [1, None, "2"])
def test_nothing_is_allowed_by_numbers_of_an_older_spec(seen: Any) -> None:
    assert budget({}, {"disruptionsAllowed": 3, "observedGeneration": seen}, generation=2).allowed == 0


def test_pods_that_leave_are_known_by_name() -> None:
    status = {"disruptionsAllowed": 0, "disruptedPods": {"p-1": "2026-11-30T10:00:00Z", "p-2": None}}
    assert budget({}, status).disrupted == {"p-1", "p-2"}


@pytest.mark.parametrize("missing", ["namespace", "name", "uid"])
@pytest.mark.parametrize("value", [None, "", 3])
def test_a_budget_without_identity_is_refused(missing: str, value: Any) -> None:
    with pytest.raises(objects.DecodeError, match=missing):
        budget(**{missing: value})
