"""Patterns of names against Python's own expressions, and what is refused of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core.patterns import Pattern, PatternError


@st.composite
def patterns(draw: st.DrawFn, depth: int = 3) -> str:
    """Patterns that mean the same to both, of a few characters."""
    kind = draw(st.sampled_from(("char", "char", "class", "sequence", "either", "repeat") if depth else ("char",)))
    inner = patterns(depth - 1) if depth else st.nothing()
    match kind:
        case "char":
            return draw(st.sampled_from(("a", "b", "-", ".", r"\d", r"\W", r"\.", "0", "^", "$")))
        case "class":
            return draw(st.sampled_from(("[ab]", "[^a]", "[a-c0-]", r"[\d-]", "[]a]", "[^-b]")))
        case "sequence":
            return draw(inner) + draw(inner)
        case "either":
            return f"(?:{draw(inner)}|{draw(inner)})"
    times = draw(st.sampled_from(("*", "+", "?", "{2}", "{1,}", "{0,2}", "*?")))
    return f"({draw(inner)}){times}"


@given(patterns(), st.text("abc-.01", max_size=8))
def test_a_pattern_matches_what_python_says(text: str, name: str) -> None:
    assert Pattern(text).matches(name) == (re.search(text.replace("$", r"\Z"), name) is not None)


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        (r"^node-0[0-3]$", ["node-00", "node-03"], ["node-04", "anode-00", "node-000"]),
        (r"node", ["a-node-1", "node"], ["nod"]),
        (r"^gpu-.*-rack1-.*$", ["gpu-a-rack1-7"], ["gpu-a-rack11", "xgpu-a-rack1-"]),
        (r"^ab?$", ["a", "ab"], ["abb", "b"]),
        (r"^a|b$", ["ax", "xb"], ["xa", "bx"]),
        ("", ["anything", ""], []),
    ],
)
def test_typical_patterns(text: str, yes: list[str], no: list[str]) -> None:
    pattern = Pattern(text)
    assert [name for name in yes + no if pattern.matches(name)] == yes


@pytest.mark.parametrize(
    "text",
    [
        *("(", ")", "a)", "[", "[a", "*a", "a**", "a{2", "a{b}", "a{3,1}", "a{1001}", "(a{100}){100}", "\\"),
        *(r"\1", r"\pL", r"\b", "(?i)a", "(?P<n>a)", "(?=a)", "[[:alpha:]]", "[b-a]", "[a-ü]", "a" * 513, "(" * 99),
    ],
)
def test_what_cannot_be_read_is_refused_with_words(text: str) -> None:
    with pytest.raises(PatternError, match=r"\w"):
        Pattern(text)


def test_a_pattern_that_would_stop_an_engine_that_backtracks_answers() -> None:
    name = "a" * 250 + "b"
    for text in ("^(a+)+$", "^(a|a)*$", "^(.*)*.*.*.*.*c$", "^((a*b?)*(a?b*)*)*c$", "^(a{1,30}){1,30}$"):
        assert not Pattern(text).matches(name)


@given(st.text(max_size=12), st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str, name: str) -> None:
    try:
        Pattern(text).matches(name)
    except PatternError:
        return
