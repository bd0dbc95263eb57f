"""A disruption budget from its JSON object (PodDisruptionBudget of policy/v1).

Takes decoded JSON, gives a Budget; must not raise for an object that has an identity. A budget that is not understood
in full protects: it allows no eviction, and what is not understood of its selector excludes no pod.
"""

from __future__ import annotations

from extender.core.model import Budget, Expression
from extender.wire.fields import Object, Reader, metadata
from extender.wire.selectors import expressions

_SELECTOR = "spec.selector"
#: how many evictions a 32-bit status can allow
_MOST = 2**31 - 1


def decode_budget(obj: object) -> Budget:
    """The budget that an object describes; DecodeError when it has no namespace, name or uid."""
    meta = metadata(obj, "namespace", "name", "uid")
    assert isinstance(obj, dict)
    reader = Reader()
    selector = _selector(reader, reader.mapping(obj, "spec", "spec"))
    status = reader.mapping(obj, "status", "status")
    allowed = reader.integer(status, "disruptionsAllowed", "status.disruptionsAllowed", 0, _MOST)
    disrupted = reader.mapping(status, "disruptedPods", "status.disruptedPods")
    desired = reader.integer(status, "desiredHealthy", "status.desiredHealthy", 0, _MOST)
    expected = reader.integer(status, "expectedPods", "status.expectedPods", 0, _MOST)
    current = _is_current(reader, meta, status)
    return Budget(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        selector=selector,
        allowed=allowed or 0 if current and not reader.problems else 0,
        desired=desired or 0,
        expected=expected or 0,
        disrupted=frozenset(disrupted),
        problems=tuple(reader.problems),
    )


def _is_current(reader: Reader, meta: Object, status: Object) -> bool:
    """False while the controller has not seen the newest spec: the API server then lets nobody go."""
    stands = reader.integer(meta, "generation", "metadata.generation") or 0
    return (reader.integer(status, "observedGeneration", "status.observedGeneration") or 0) >= stands


def _selector(reader: Reader, spec: Object) -> tuple[Expression, ...] | None:
    """All that a pod must have; None, which no pod has, when there is no selector."""
    if spec.get("selector") is None:
        return None
    selector = reader.mapping(spec, "selector", _SELECTOR)
    return expressions(reader, selector, _SELECTOR)
