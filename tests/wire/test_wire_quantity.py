"""Quantities against Kubernetes' own parser, and against exact fractions."""

from __future__ import annotations

import contextlib
import json
from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_objects import table

from extender.core.resources import CPU, MAX_AMOUNT
from extender.wire import quantity

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "requests.json").read_text())["quantities"]
#: sound for Kubernetes, refused by us: negative, or beyond the amounts that we add up
REFUSED = {"-1", "1P", "1Pi", "1E", "1Ei"}

SUFFIXES = {"": 1, "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
SUFFIXES |= {letter: Fraction(1000 ** (i + 1)) for i, letter in enumerate("kMGTPE")}
SUFFIXES |= {f"{letter}i": Fraction(1024 ** (i + 1)) for i, letter in enumerate("KMGTPE")}


def pieces(text: object) -> int:
    """Pieces of anything but cpu."""
    return quantity.units("memory", quantity.nanos(text))


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: repr(case["text"]))
def test_agrees_with_kubernetes(case: dict) -> None:
    if not case["valid"] or case["text"] in REFUSED:
        with pytest.raises(quantity.QuantityError):
            quantity.units(CPU, quantity.nanos(case["text"]))
        return
    assert pieces(case["text"]) == case["value"]
    assert quantity.units(CPU, quantity.nanos(case["text"])) == case["milli"]


def test_the_refused_ones_are_in_the_golden_file() -> None:
    assert {case["text"] for case in GOLDEN if case["valid"]} >= REFUSED


@settings(deadline=None)
@given(
    whole=st.integers(0, 10**9),
    part=st.text("0123456789", max_size=12),
    suffix=st.sampled_from(sorted(SUFFIXES)),
)
def test_is_exact_and_rounds_up(whole: int, part: str, suffix: str) -> None:
    exact = Fraction(int(f"{whole}{part}"), 10 ** len(part)) * SUFFIXES[suffix]
    in_nanos = ceil(exact * 10**9)
    text = f"{whole}.{part}{suffix}"
    if in_nanos > MAX_AMOUNT * 10**9:
        with pytest.raises(quantity.QuantityError, match="too large"):
            quantity.nanos(text)
        return
    assert quantity.nanos(text) == in_nanos
    assert pieces(text) == ceil(Fraction(in_nanos, 10**9))


@table(
    "given, want",
    {
        "an integer of JSON": (4, 4),
        "null is nothing": (None, 0),
        "zero with a sign": ("-0", 0),
        "the largest amount": (MAX_AMOUNT, MAX_AMOUNT),
        "an exponent far below": ("1e-400000000000", 1),
    },
)
def test_reads_what_json_may_hold(given: object, want: int) -> None:
    assert pieces(given) == want


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("-5", "'-5' is negative"),
        (-5, "'-5' is negative"),
        ("-1n", "negative"),
        (MAX_AMOUNT + 1, "too large"),
        ("1e400000000000", "too large"),
        ("9" * 60, "too large"),
        ("9" * 100_000, "is not a quantity"),
        ("12 ", "'12 ' is not a quantity"),
        (" 12", "is not a quantity"),
        ("1\n", "is not a quantity"),
        ("\uff11", "is not a quantity"),
        ("", "'' is not a quantity"),
        (1.5, "is not a quantity"),
        (True, "is not a quantity"),
        ([1], "is not a quantity"),
        ({}, "is not a quantity"),
    ],
)
def test_refuses_and_names_the_text(given: object, says: str) -> None:
    with pytest.raises(quantity.QuantityError, match=says) as refused:
        pieces(given)
    assert len(str(refused.value)) < 120


def test_cpu_is_in_thousandths_and_all_else_in_pieces() -> None:
    assert quantity.units("cpu", quantity.nanos("1.0001")) == 1001
    assert quantity.units("memory", quantity.nanos("1.0001")) == 2
    assert quantity.units("nvidia.com/gpu", quantity.nanos("8")) == 8


@settings(deadline=None)
@given(st.text(max_size=70) | st.integers() | st.floats() | st.booleans())
def test_raises_nothing_else(anything: object) -> None:
    with contextlib.suppress(quantity.QuantityError):
        assert 0 <= pieces(anything) <= MAX_AMOUNT
