"""Fair shares agree to the unit with a slow division, and the order of siblings leads to them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core.fairshare import divide, dominant, fill, rank
from extender.core.ids import QueueName
from extender.core.model import Queue
from extender.core.quota import Tree, grants
from tests.builders import GPU, make_queue


def tree(*queues: Queue) -> Tree:
    return Tree({queue.name: queue for queue in queues})


def q(name: str, parent: str | None = None, **limits: Any) -> Queue:
    fields = {
        what: ((GPU, amount),) if what in ("capability", "deserved", "guarantee") else amount
        for what, amount in limits.items()
    }
    return make_queue(name, parent=parent, **fields)


def shares(queues: list[Queue], total: int, wanted: dict[str, int]) -> dict[str, int]:
    found = tree(*queues)
    demand = {QueueName(name): {GPU: amount} for name, amount in wanted.items()}
    divided = divide(found, grants(found, {GPU: total}), {GPU: total}, demand)
    return {name: amounts[GPU] for name, amounts in divided.items() if amounts.get(GPU)}


# --- the oracle: unit by unit ------------------------------------------------------------------------


def hand_out(amount: int, claims: dict[str, tuple[int, int]], have: dict[str, int]) -> int:
    """Each unit to whom has, with it, the least per weight; by name among equals. What is left over."""
    got = dict.fromkeys(claims, 0)
    while amount:
        open_claims = [n for n, (most, weight) in claims.items() if weight and got[n] < most]
        if not open_claims:
            break
        best = min(open_claims, key=lambda n: (Fraction(got[n] + 1, claims[n][1]), n))
        got[best] += 1
        amount -= 1
    for name, number in got.items():
        have[name] = have.get(name, 0) + number
    return amount


def plain_shares(queues: dict[str, Queue], kept: dict[str, int], total: int, wanted: dict[str, int]) -> dict[str, int]:
    """By the words of the rule, one queue and one unit at a time."""
    parent = {name: queue.parent for name, queue in queues.items()}

    def below(name: str | None) -> list[str]:
        return sorted(child for child, above in parent.items() if above == name)

    def limit(name: str) -> int:
        most = max(kept.get(name, 0), wanted.get(name, 0) + sum(map(limit, below(name))))
        return min(most, dict(queues[name].capability).get(GPU, most))

    have: dict[str, int] = {}

    def divide_among(names: list[str], amount: int) -> None:
        owned = {n: max(dict(queues[n].deserved).get(GPU, 0), dict(queues[n].guarantee).get(GPU, 0)) for n in names}
        for most_of, weight_of in (
            (lambda n: kept.get(n, 0), lambda n: kept.get(n, 0)),
            (lambda n: owned[n], lambda n: owned[n]),
            (limit, lambda n: queues[n].weight),
            (limit, lambda n: int(not queues[n].weight)),
        ):
            claims = {n: (max(0, min(most_of(n), limit(n)) - have.get(n, 0)), weight_of(n)) for n in names}
            amount = hand_out(amount, claims, have)
        for name in names:
            divide_among(below(name), have.get(name, 0))

    divide_among(below(None), total)
    return {name: amount for name, amount in have.items() if amount}


@st.composite
def forests(draw: st.DrawFn) -> list[Queue]:
    """Up to six queues, each below one that was made before it, or at the top."""
    queues = []
    for number in range(draw(st.integers(1, 6))):
        parent = draw(st.none() | st.sampled_from([queue.name for queue in queues])) if queues else None
        limits = {
            what: draw(amounts)
            for what, amounts in (("capability", st.integers(0, 30)), ("deserved", st.integers(0, 12)),
                                  ("guarantee", st.integers(0, 6)))
            if draw(st.booleans())
        }  # fmt: skip
        queues.append(
            q(f"q{number}", parent, weight=draw(st.integers(0, 4)), priority=draw(st.integers(0, 1)), **limits)
        )
    return queues


demands = st.lists(st.integers(0, 30), min_size=6, max_size=6)


@given(forests(), demands, st.integers(0, 40))
def test_shares_agree_with_the_oracle_to_the_unit(queues: list[Queue], wants: list[int], total: int) -> None:
    wanted = dict(zip([queue.name for queue in queues], wants, strict=False))
    found = tree(*queues)
    kept = {name: amounts[GPU] for name, amounts in grants(found, {GPU: total}).kept.items() if GPU in amounts}
    stated = {queue.name: queue for queue in (make_queue("default"), *queues)}
    got = shares(queues, total, wanted)
    assert got == plain_shares(stated, kept, total, wanted)
    for name in found.downwards:
        at = found.at(name)
        assert at is not None
        assert got.get(name, 0) >= kept.get(name, 0)
        assert got.get(name, 0) <= at.capability.get(GPU, total)
        assert sum(got.get(child, 0) for child in at.children) <= got.get(name, 0) or not at.children


@given(st.integers(0, 50), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=6))
def test_filling_agrees_with_handing_out(amount: int, claims: list[tuple[int, int]]) -> None:
    have: dict[str, int] = {}
    hand_out(amount, {f"{n:02}": claim for n, claim in enumerate(claims)}, have)
    assert fill(amount, claims) == [have.get(f"{n:02}", 0) for n in range(len(claims))]


@given(st.integers(0, 2**60), st.lists(st.tuples(st.integers(0, 2**60), st.integers(1, 2**55)), min_size=1, max_size=6))
def test_huge_amounts_are_divided_whole_and_nobody_loses_when_there_is_more(
    amount: int, claims: list[tuple[int, int]]
) -> None:
    given_now, given_then = fill(amount, claims), fill(amount + 1, claims)
    assert sum(given_now) == min(amount, sum(most for most, _ in claims))
    assert all(now <= then for now, then in zip(given_now, given_then, strict=True))
    assert all(got <= most for got, (most, _) in zip(given_now, claims, strict=True))


@pytest.mark.parametrize(
    ("queues", "total", "wanted", "want"),
    [
        pytest.param([q("a"), q("b", weight=3)], 8, {"a": 9, "b": 9}, {"a": 2, "b": 6}, id="by weight"),
        pytest.param([q("a"), q("b")], 8, {"a": 1, "b": 9}, {"a": 1, "b": 7}, id="what one does not want, another has"),
        pytest.param(
            [q("a", deserved=4), q("b", deserved=4)], 8, {"b": 9}, {"b": 8}, id="what is deserved is lent"
        ),
        pytest.param(
            [q("a", guarantee=4), q("b")], 8, {"b": 9}, {"a": 4, "b": 4}, id="what is guaranteed is not lent"
        ),
        pytest.param(
            [q("a", deserved=6), q("b", deserved=3)], 6, {"a": 9, "b": 9}, {"a": 4, "b": 2}, id="too little for both"
        ),
        pytest.param(
            [q("a", weight=0, deserved=1), q("b", weight=1)], 2, {"a": 3, "b": 2}, {"a": 1, "b": 1},
            id="a weight of 0 has what it deserves",
        ),
        pytest.param(
            [q("a", weight=0), q("b", weight=1)], 5, {"a": 9, "b": 2}, {"a": 3, "b": 2},
            id="and what nobody else wants",
        ),
        pytest.param([q("a", capability=3), q("b")], 9, {"a": 9, "b": 9}, {"a": 3, "b": 6}, id="a cap"),
        pytest.param([q("a", capability=0), q("b")], 9, {"a": 9, "b": 9}, {"b": 9}, id="nothing forbids"),
        pytest.param(
            [q("d", capability=6), q("a", "d"), q("b", "d", weight=2), q("c")],
            12,
            {"a": 9, "b": 9, "c": 9},
            {"d": 6, "a": 2, "b": 4, "c": 6},
            id="level by level",
        ),
        pytest.param(
            [q("a", "b"), q("b", "a"), q("c", "ghost"), q("d")], 4, {"a": 1, "b": 1, "c": 1, "d": 9},
            {"a": 1, "b": 1, "c": 1, "d": 1}, id="queues with a fault count too: what runs in them is there",
        ),
    ],
)  # fmt: skip
def test_shares(queues: list[Queue], total: int, wanted: dict[str, int], want: dict[str, int]) -> None:
    assert shares(queues, total, wanted) == want


# --- order -------------------------------------------------------------------------------------------


def first(*standing: tuple[Queue, dict[str, int]], asked: dict[str, int], totals: dict[str, int]) -> str:
    """The sibling whose turn it is."""
    found = tree(*(queue for queue, _ in standing))
    ranks = {}
    for queue, used in standing:
        at = found.at(queue.name)
        assert at is not None
        ranks[queue.name] = rank(at, used, tuple(asked.items()), totals)
    return min(ranks, key=lambda name: (ranks[name], name))


H, A = "example.com/h100", "example.com/a10"


@pytest.mark.parametrize(
    ("standing", "asked", "want"),
    [
        pytest.param([(q("a"), {GPU: 2}), (q("b"), {GPU: 1})], {GPU: 1}, "b", id="the smaller share"),
        pytest.param([(q("a", weight=3), {GPU: 2}), (q("b"), {GPU: 1})], {GPU: 1}, "a", id="for its weight"),
        pytest.param([(q("a"), {GPU: 2, "cpu": 1}), (q("b"), {GPU: 1, "cpu": 90})], {GPU: 1}, "a", id="dominant"),
        pytest.param([(q("a"), {}), (q("b", priority=1), {GPU: 5})], {GPU: 1}, "b", id="the higher priority"),
        pytest.param(
            [(q("a"), {}), (q("b", deserved=4), {GPU: 3})], {GPU: 1}, "b", id="inside what it deserves, before all else"
        ),
        pytest.param(
            [(q("a"), {}), (q("b", deserved=4), {GPU: 3})], {GPU: 2}, "a", id="unless it asks for more than that"
        ),
        pytest.param(
            [(q("a", deserved=8), {GPU: 3}), (q("b", deserved=4), {GPU: 2})], {GPU: 1}, "a", id="the emptier of two"
        ),
        pytest.param([(q("a", weight=0), {}), (q("b"), {GPU: 9})], {GPU: 1}, "b", id="a weight of 0 comes last"),
        pytest.param(
            [
                (make_queue("a", deserved=((A, 0), (H, 5))), {H: 4, A: 30}),
                (make_queue("c", deserved=((A, 0), (H, 5))), {H: 5}),
            ],
            {H: 1},
            "a",
            id="ownership is judged for what is asked for",
        ),
        pytest.param([(q("a"), {"example.com/gone": 5}), (q("b"), {GPU: 1})], {GPU: 1}, "a", id="what nobody has"),
    ],
)
def test_who_is_next(standing: list[tuple[Queue, dict[str, int]]], asked: dict[str, int], want: str) -> None:
    assert first(*standing, asked=asked, totals={GPU: 16, "cpu": 100, H: 15, A: 50}) == want


@given(forests(), st.integers(0, 30))
def test_taking_turns_leaves_nobody_a_unit_ahead_of_another(queues: list[Queue], total: int) -> None:
    """Siblings at the top that always want more: what is owned first, then the rest by weight."""
    owned = {queue.name: dict(queue.deserved).get(GPU, 0) for queue in queues}
    weight = {queue.name: queue.weight for queue in queues}
    flat = [q(name, weight=weight[name], deserved=owned[name]) for name in owned]
    used = dict.fromkeys(owned, 0)
    for _ in range(total):
        turn = first(*((queue, {GPU: used[queue.name]}) for queue in flat), asked={GPU: 1}, totals={GPU: 30})
        used[turn] += 1
    beyond = {name: max(0, used[name] - owned[name]) for name in used}
    if any(beyond.values()):
        assert all(used[name] >= owned[name] for name in used)
    for one in used:
        for other in used:
            if beyond[one] and weight[other]:
                assert weight[one], "a weight of 0 took what another wanted"
                assert (beyond[one] - 1) * weight[other] <= beyond[other] * weight[one]
    if set(weight.values()) == {1} and sum(owned.values()) <= total:
        want = shares(flat, total, dict.fromkeys(used, total))
        assert all(abs(used[name] - want.get(name, 0)) <= 1 for name in used)


@pytest.mark.parametrize(
    ("used", "share", "want"),
    [
        pytest.param({}, {}, Fraction(0), id="nothing"),
        pytest.param({GPU: 2, "cpu": 1}, {GPU: 4, "cpu": 4}, Fraction(1, 2), id="the largest part"),
        pytest.param({GPU: 2}, {"cpu": 4}, None, id="of what it has no share"),
    ],
)
def test_dominant_share(used: dict[str, int], share: dict[str, int], want: Fraction | None) -> None:
    assert dominant(used, share) == want
