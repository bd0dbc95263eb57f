"""Which disruption budgets cover a pod: Kubernetes' rules for label selectors.

Takes a budget and a pod, gives yes or no; must not know what is in use or who asks.
"""

from __future__ import annotations

from collections.abc import Mapping

from extender.core.model import Budget, Expression, Pod


def covers(budget: Budget, pod: Pod) -> bool:
    """True when evicting the pod would be a disruption in the sense of this budget."""
    if budget.selector is None or budget.namespace != pod.namespace:
        return False
    labels = dict(pod.labels)
    return all(_holds(expression, labels) for expression in budget.selector)


def _holds(expression: Expression, labels: Mapping[str, str]) -> bool:
    there = labels.get(expression.key)
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
