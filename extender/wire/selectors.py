"""Label selectors (metav1.LabelSelector) from their JSON objects.

Takes decoded JSON, gives what must hold of labels; must not raise. What is not understood is noted and left out, so
that a selector with problems selects more than it says: who reads it decides what that means.
"""

from __future__ import annotations

from extender.core.model import Expression
from extender.wire.fields import Object, Reader

_VALUED, _BARE = frozenset({"In", "NotIn"}), frozenset({"Exists", "DoesNotExist"})


def expressions(reader: Reader, selector: Object, path: str) -> tuple[Expression, ...]:
    """All that must hold; () of an empty selector, which selects everything."""
    labels = reader.mapping(selector, "matchLabels", f"{path}.matchLabels")
    read = [_label(reader, labels, key, path) for key in sorted(labels)]
    more = f"{path}.matchExpressions"
    read += [_expression(reader, one, more) for one in reader.objects(selector, "matchExpressions", more)]
    return tuple(expression for expression in read if expression is not None)


def _label(reader: Reader, labels: Object, key: str, path: str) -> Expression | None:
    value = labels[key]
    if value.__class__ is str:
        return Expression(key, "In", (value,))
    reader.note(f"{path}.matchLabels[{key}]", value, "a text")
    return None


def _expression(reader: Reader, one: Object, path: str) -> Expression | None:
    own = Reader()
    key = own.text(one, "key", f"{path}.key")
    operator = own.text(one, "operator", f"{path}.operator")
    values = own.texts(one, "values", f"{path}.values")
    if not key:
        own.say(f"{path}.key", "is missing")
    if operator not in _VALUED | _BARE:
        own.note(f"{path}.operator", operator, "an operator of label selectors")
    elif bool(values) != (operator in _VALUED):
        own.note(f"{path}.values", values, f"what {operator} takes")
    for problem in own.problems:
        reader.take(problem)
    return None if own.problems else Expression(key, operator, values)
