"""Which GPUs of a node belong together: against every subset on small nodes, and by table."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core import links
from extender.core.links import NVLINK, PATHS, Links

NAMES = [*PATHS, "NV1", "NV2", "NV12", "NV18"]


def node(count: int, *pairs: tuple[int, int, str], other: str = "SYS") -> Links:
    """So many GPUs, of which these pairs are joined so, and all others otherwise."""
    joined = {frozenset((a, b)): name for a, b, name in pairs}
    return Links(
        tuple(
            tuple("X" if a == b else joined.get(frozenset((a, b)), other) for b in range(count)) for a in range(count)
        )
    )


FOUR_PAIRS = node(8, *((n, n + 1, "NV4") for n in (0, 2, 4, 6)))
TWO_QUADS = node(8, *((a, b, "NV2") for quad in (range(4), range(4, 8)) for a, b in combinations(quad, 2)))
#: two pairs of which each has a third one near it
MIXED = node(6, (0, 1, "NV4"), (2, 3, "NV4"), (0, 4, "PIX"), (1, 4, "PIX"), other="NODE")


def test_names_are_ordered_from_worst_to_best() -> None:
    ranks = [links.rank(name) for name in NAMES]
    assert ranks == sorted(set(ranks))
    assert NVLINK.fullmatch("NV0") is None
    with pytest.raises(ValueError, match="tuple"):
        links.rank("NVX")


@pytest.mark.parametrize(
    ("of", "free", "number", "wanted"),
    [
        pytest.param(FOUR_PAIRS, range(8), 2, (0, 1), id="a pair"),
        pytest.param(FOUR_PAIRS, (1, 2, 3, 4), 2, (2, 3), id="the pair that is whole"),
        pytest.param(FOUR_PAIRS, (1, 2, 3, 4, 5), 1, (1,), id="one alone leaves the pairs whole"),
        pytest.param(FOUR_PAIRS, (0, 1, 2, 4, 5), 3, (0, 1, 2), id="three leave a pair"),
        pytest.param(TWO_QUADS, (0, 1, 4, 5, 6, 7), 2, (0, 1), id="two leave a quad whole"),
        pytest.param(TWO_QUADS, (0, 1, 2, 4, 5, 6, 7), 4, (4, 5, 6, 7), id="a quad"),
        pytest.param(MIXED, (0, 1, 2, 3, 4), 3, (0, 1, 4), id="the worst link decides"),
        pytest.param(FOUR_PAIRS, (3,), 1, (3,), id="the last one"),
        pytest.param(FOUR_PAIRS, (), 0, (), id="none"),
        pytest.param(FOUR_PAIRS, (3, 3), 2, None, id="too few"),
    ],
)
def test_the_best_of_the_free_ones(of: Links, free: tuple, number: int, wanted: tuple | None) -> None:
    assert links.best(of, free, number) == wanted


@st.composite
def nodes(draw: st.DrawFn, most: int = 7) -> Links:
    count = draw(st.integers(1, most))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3))
    return node(count, *((a, b, draw(st.sampled_from(names))) for a, b in combinations(range(count), 2)))


def quality(of: Links, gpus: tuple[int, ...]) -> list[int]:
    """All links among these, best first."""
    return sorted((links.rank(of.rows[a][b]) for a, b in combinations(gpus, 2)), reverse=True)


def joined(of: Links, gpus: tuple[int, ...]) -> list[tuple[int, int]]:
    """How many links there are of each kind, the best kind first."""
    kinds = sorted({links.rank(name) for row in of.rows for name in row if name != "X"}, reverse=True)
    ranks = quality(of, gpus)
    return [(kind, ranks.count(kind)) for kind in kinds]


@given(nodes(), st.data())
def test_no_other_subset_is_better(of: Links, data: st.DataObject) -> None:
    free = data.draw(st.sets(st.integers(0, len(of) - 1)))
    number = data.draw(st.integers(0, len(free)))
    chosen = links.best(of, free, number)
    assert chosen is not None
    assert set(chosen) <= free
    assert len(chosen) == number == len(set(chosen))

    def value(gpus: tuple[int, ...]) -> tuple[object, ...]:
        return (links.worst(of, gpus), joined(of, tuple(sorted(free - set(gpus)))))

    assert value(chosen) == max(map(value, combinations(sorted(free), number)))


def test_a_node_of_more_than_sixteen_is_filled_from_one_group() -> None:
    of = node(20, *((a, b, "NV2") for a, b in combinations(range(10, 20), 2)))
    assert links.best(of, range(20), 8) == tuple(range(10, 18))
    assert links.best(of, range(20), 21) is None
