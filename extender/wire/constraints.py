"""Which nodes a pod accepts: selector, required node affinity, tolerations.

Takes a decoded pod spec, gives interned values, so that equal pods share one Shape; must not match
nodes. Terms that match nothing are left out, as they say nothing.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import orjson

from extender.core.model import CardRequest, Constraints, Expression, Shape, Term, Toleration
from extender.core.resources import GPU, GPU_PARTS, GPU_SHARE, MIG, Amounts, amounts, parts_of
from extender.wire.fields import Object, Reader

_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
_TERMS = "spec.affinity.nodeAffinity.required.nodeSelectorTerms"
#: taints of this effect keep no pod off, so it does not matter who tolerates them
_SOFT = "PreferNoSchedule"

_NOWHERE = Constraints(affinity=())
#: percent of a card
_FULL = 100

_Selector = tuple[tuple[str, str], ...]


def shape_of(reader: Reader, spec: Object, request: Amounts) -> Shape:
    """The shape of a pod; the same object for equal pods as long as it is in the cache."""
    affinity = spec.get("affinity")
    if affinity.__class__ is dict:  # what it says of other pods is not read, so it must not split shapes
        affinity = {"nodeAffinity": affinity.get("nodeAffinity")}
    parts = {"affinity": affinity}
    for key in ("nodeSelector", "tolerations"):
        parts[key] = spec.get(key)
    try:
        shape, problems = _shape_of_text(request, orjson.dumps(parts))
    except TypeError:
        reader.say("spec", "nested too deeply")
        return Shape(request, _NOWHERE)
    for problem in problems:
        reader.take(problem)
    return shape


@lru_cache(maxsize=8192)
def with_gpus(shape: Shape, cards: CardRequest | None) -> Shape:
    """The shape of a pod that asks for GPUs or MIG instances, and this of cards; the same object for equal ones."""
    slices = sum(parts_of(name) * amount for name, amount in shape.request if name.startswith(MIG))
    parts = slices + (_parts(shape.request, cards) if cards is not None else 0)
    if not parts:
        return shape
    return replace(shape, request=amounts(dict(shape.request) | {GPU_SHARE: parts}), cards=cards)


def _parts(request: Amounts, cards: CardRequest) -> int:
    """GPUs asked x percentage of memory; where containers name different ones, of each its own, at any time."""
    percents = {_FULL if ask.percent is None else ask.percent for ask in cards.asks}
    if len(percents) == 1:
        return dict(request).get(GPU, 0) * percents.pop() * GPU_PARTS // _FULL
    lasting, most = 0, 0
    for at, ask in enumerate(cards.containers):
        amount = ask.number * (_FULL if ask.percent is None else ask.percent) if ask is not None else 0
        if at in cards.passing:
            most = max(most, amount)
        else:
            lasting += amount
    return max(lasting, most) * GPU_PARTS // _FULL


@lru_cache(maxsize=8192)
def _shape_of_text(request: Amounts, text: bytes) -> tuple[Shape, tuple[str, ...]]:
    """The text is a key that is quick to make, and from which the parts are read only once."""
    constraints, problems = _constraints_of_text(text)
    return _shape(request, constraints), problems


@lru_cache(maxsize=8192)
def _constraints_of_text(text: bytes) -> tuple[Constraints, tuple[str, ...]]:
    spec: Object = orjson.loads(text)
    reader = Reader()
    constraints = Constraints(_selector(reader, spec), _affinity(reader, spec), _tolerations(reader, spec))
    return constraints, tuple(reader.problems)


@lru_cache(maxsize=8192)
def _shape(request: Amounts, constraints: Constraints) -> Shape:
    """Different texts may say the same: their shapes are one object too."""
    return Shape(request, constraints)


def _selector(reader: Reader, spec: Object) -> _Selector:
    if not spec.get("nodeSelector"):
        return ()
    selector = reader.mapping(spec, "nodeSelector", "spec.nodeSelector")
    return tuple(sorted((key, reader.text(selector, key, "spec.nodeSelector")) for key in selector))


def _affinity(reader: Reader, spec: Object) -> tuple[Term, ...] | None:
    if not spec.get("affinity"):
        return None
    affinity = reader.mapping(spec, "affinity", "spec.affinity")
    if not affinity.get("nodeAffinity"):
        return None
    path = "requiredDuringSchedulingIgnoredDuringExecution"
    node = reader.mapping(affinity, "nodeAffinity", "spec.affinity.nodeAffinity")
    if node.get(path) is None:
        return None
    terms = reader.objects(reader.mapping(node, path, _TERMS), "nodeSelectorTerms", _TERMS)
    read = (_term(reader, term) for term in terms)
    return tuple(term for term in read if term is not None)


def _term(reader: Reader, term: Object) -> Term | None:
    labels = _expressions(reader, term, "matchExpressions")
    fields = _expressions(reader, term, "matchFields")
    if labels is None or fields is None or not (labels or fields):
        return None
    return Term(labels, fields)


def _expressions(reader: Reader, term: Object, key: str) -> tuple[Expression, ...] | None:
    """The expressions of a term; None when one is not understood: such a term matches nothing."""
    read = []
    for expression in reader.objects(term, key, f"{_TERMS}.{key}"):
        operator = reader.text(expression, "operator", f"{_TERMS}.{key}.operator")
        if operator not in _OPERATORS:
            reader.note(f"{_TERMS}.{key}.operator", operator, "an operator of node selectors")
            return None
        name = reader.text(expression, "key", f"{_TERMS}.{key}.key")
        read.append(Expression(name, operator, reader.texts(expression, "values", f"{_TERMS}.{key}.values")))
    return tuple(read)


def _tolerations(reader: Reader, spec: Object) -> tuple[Toleration, ...]:
    if not spec.get("tolerations"):
        return ()
    read = [
        Toleration(
            reader.text(one, "key", "spec.tolerations.key"),
            reader.text(one, "operator", "spec.tolerations.operator") or "Equal",
            reader.text(one, "value", "spec.tolerations.value"),
            reader.text(one, "effect", "spec.tolerations.effect"),
        )
        for one in reader.objects(spec, "tolerations", "spec.tolerations")
        if one.get("effect") != _SOFT
    ]
    return tuple(read)
