"""Which GPUs of a node are taken to be free, and that pods of several GPUs keep pairs and quads whole for others."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.core import links
from extender.core.cards import each_share
from extender.core.ids import NodeName, PodUid
from extender.core.link_table import LinkTable
from extender.core.links import PATHS, Links
from extender.core.model import Card, CardAsk, CardRequest, Node, Pod, Shape, Share
from extender.core.placement import Demand, Placement, place
from extender.core.snapshot import Room
from tests.builders import GPU, bound, gpu_node, make_node, make_pod, make_room, make_shape


def joined(count: int, *groups: tuple[int, ...], name: str = "NV4", other: str = "SYS") -> Links:
    """So many GPUs, joined so within these groups and otherwise between them."""
    group_of = {gpu: number for number, group in enumerate(groups) for gpu in group}

    def link(a: int, b: int) -> str:
        if a == b:
            return "X"
        return name if a in group_of and group_of[a] == group_of.get(b) else other

    return Links(tuple(tuple(link(a, b) for b in range(count)) for a in range(count)))


PAIRS = joined(8, (0, 1), (2, 3), (4, 5), (6, 7))
QUADS = joined(8, (0, 1, 2, 3), (4, 5, 6, 7))
SWITCH = joined(8, tuple(range(8)), name="NV18")
NONE = joined(8)


def node(name: str, matrix: Links | None, gpus: int = 8) -> Node:
    return gpu_node(name, gpus, links=matrix)


def on(name: str, *sizes: int) -> list[Pod]:
    """Pods that run there, bound one after the other."""
    return [
        replace(bound(make_pod(f"{name}-{n}", {GPU: size}), NodeName(name)), bound_at=float(n))
        for n, size in enumerate(sizes)
    ]


def where(*things: Node | Pod, gpus: int) -> str:
    room = make_room(*things)
    found = place(room, [Demand(make_shape({GPU: gpus}), 1)])
    assert isinstance(found, Placement)
    return str(room.snapshot.names[found.rows[0][0]])


@pytest.mark.parametrize(
    ("things", "gpus", "wanted"),
    [
        pytest.param([node("a", NONE), node("b", PAIRS)], 2, "b", id="a pair is better than none"),
        pytest.param([node("a", PAIRS), node("b", QUADS)], 4, "b", id="four in a quad"),
        pytest.param([node("a", None), node("b", NONE)], 2, "b", id="nothing known comes last"),
        pytest.param([node("a", QUADS), node("b", SWITCH)], 2, "b", id="the worst link decides, by its bonds"),
        pytest.param([node("a", QUADS), *on("a", 2), node("b", QUADS)], 2, "a", id="the rest of a broken quad"),
        pytest.param([node("a", PAIRS), node("b", PAIRS), *on("b", 1)], 1, "b", id="one goes to a broken pair"),
        pytest.param([node("a", QUADS), node("b", QUADS), *on("b", 1, 2)], 1, "b", id="one GPU alone is left over"),
        pytest.param([node("a", QUADS), *on("a", 3, 3), node("b", NONE)], 2, "a", id="as bad, and the fuller node"),
    ],
)
def test_among_nodes(things: list, gpus: int, wanted: str) -> None:
    assert where(*things, gpus=gpus) == wanted


def test_what_is_planned_counts_as_taken() -> None:
    room = make_room(node("a", QUADS), node("b", QUADS))
    got = []
    for gpus in (2, 2, 4, 4, 2):
        found = place(room, [Demand(make_shape({GPU: gpus}), 1)])
        assert isinstance(found, Placement)
        found.take(room)
        got.append(str(room.snapshot.names[found.rows[0][0]]))
    assert got == ["a", "a", "a", "b", "b"]


# --- an exhaustive oracle --------------------------------------------------------------------------

NAMES = (*PATHS, "NV2", "NV12")


@st.composite
def matrices(draw: st.DrawFn) -> Links:
    count = draw(st.integers(2, 8))
    pairs = {pair: draw(st.sampled_from(NAMES)) for pair in combinations(range(count), 2)}
    rows = [["X" if a == b else pairs[min(a, b), max(a, b)] for b in range(count)] for a in range(count)]
    return Links(tuple(map(tuple, rows)))


def worst_of(matrix: Links, gpus: tuple[int, ...]) -> int:
    return min(links.rank(matrix.rows[a][b]) for a, b in combinations(gpus, 2))


@settings(max_examples=40)
@given(st.lists(matrices(), min_size=2, max_size=4), st.integers(2, 4))
def test_no_other_node_has_better_joined_gpus_free(of: list[Links], gpus: int) -> None:
    nodes = [node(f"n{number}", matrix, len(matrix)) for number, matrix in enumerate(of)]
    if max(map(len, of)) < gpus:
        return
    chosen = int(where(*nodes, gpus=gpus)[1:])
    best = {
        number: max(worst_of(matrix, some) for some in combinations(range(len(matrix)), gpus))
        for number, matrix in enumerate(of)
        if len(matrix) >= gpus
    }
    assert best[chosen] == max(best.values())


# --- which ones are taken ----------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), max_size=20))
def test_no_gpu_is_taken_by_two_pods(steps: list[tuple[int, int]]) -> None:
    table, there = LinkTable(), dict[PodUid, int]()
    table.put(NodeName("n"), 3, QUADS)
    for pod, number in steps:
        uid = PodUid(f"p{pod}")
        if uid in there:
            table.uncount(uid)
            del there[uid]
        else:
            table.count(replace(bound(make_pod(f"p{pod}", {GPU: number}), NodeName("n")), uid=uid))
            there[uid] = min(number, 8 - sum(there.values()))
        known = table.joined(5)
        assert known is not None
        assert int(known.free[3]).bit_count() == 8 - sum(there.values())
        assert known.which.tolist() == [-1, -1, -1, 0, -1]


def test_a_node_that_goes_or_is_joined_otherwise_is_counted_anew() -> None:
    table, pod = LinkTable(), bound(make_pod("p", {GPU: 2}), NodeName("n"))
    assert table.put(NodeName("n"), 0, PAIRS)
    assert not table.put(NodeName("n"), 0, PAIRS)
    table.count(pod)
    assert table.put(NodeName("n"), 0, QUADS)
    table.recount([pod])
    known = table.joined(1)
    assert known is not None
    assert (known.matrices, known.free.tolist()) == ((QUADS,), [0b11111100])
    table.drop(NodeName("n"))
    table.uncount(pod.uid)
    assert table.joined(1) is None


# --- whole cards --------------------------------------------------------------------------------------


def card_node(name: str, matrix: Links) -> Node:
    cards = tuple(Card(f"{name}-{n}", 10, 80_000, 100) for n in range(len(matrix)))
    return make_node(name, {"cpu": 64_000, GPU: 10 * len(matrix)}, hami=True, cards=cards, links=matrix)


def cards_of(number: int, memory: int | None = None) -> Shape:
    request = CardRequest((CardAsk(number, memory),))
    return replace(make_shape({"cpu": 1000, GPU: number}), cards=request)


def test_of_whole_cards_those_are_given_that_are_joined_best() -> None:
    matrix = joined(6, (0, 3), (1, 4), (2, 5))
    room = make_room(card_node("a", matrix))
    got = []
    for shape in (cards_of(1), cards_of(2), cards_of(2), cards_of(1)):
        found = place(room, [Demand(shape, 1)])
        assert isinstance(found, Placement)
        found.take(room)
        got.append([share.card[2:] for share in each_share(found.shares_of(0)[0])])
    assert got == [["0"], ["1", "4"], ["2", "5"], ["3"]]


def test_parts_of_cards_do_not_look_at_links() -> None:
    room = make_room(card_node("a", joined(4, (0, 3), (1, 2))))
    found = place(room, [Demand(cards_of(2, 1000), 1)])
    assert isinstance(found, Placement)
    assert [share.card for share in each_share(found.shares_of(0)[0])] == ["a-0", "a-1"]


def test_free_cards_are_known_and_not_assumed() -> None:
    broken, whole = card_node("b", PAIRS), card_node("a", PAIRS)
    # the pod has one card of each pair but the last
    shares = (tuple(Share(f"b-{n}", 80_000, 0) for n in (0, 2, 4)),)
    there = replace(bound(make_pod("there", {GPU: 3}), NodeName("b")), shares=shares, shape=cards_of(3))
    room = make_room(whole, broken, there)
    assert [chosen(room, cards_of(2)), chosen(room, cards_of(1))] == ["b", "b"]


def chosen(room: Room, shape: Shape) -> str:
    placed = place(room, [Demand(shape, 1)])
    assert isinstance(placed, Placement)
    return str(room.snapshot.names[placed.rows[0][0]])


# --- products ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("product", "number", "link"),
    [
        ("NVIDIA-H100-80GB-HBM3", 8, "NV18"),
        ("NVIDIA-H100-80GB-HBM3-SHARED", 8, "NV18"),
        ("NVIDIA-A100-SXM4-80GB", 8, "NV12"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 8, None),
        ("NVIDIA-A100-PCIE-40GB", 8, None),
        ("NVIDIA-H100-PCIe", 8, None),
        ("Tesla-V100-SXM2-32GB", 8, None),
        ("NVIDIA-H200-NVL", 8, None),
        ("NVIDIA-H200", 8, "NV18"),
        ("NVIDIA-GB200", 4, "NV18"),
        ("", 8, None),
        ("NVIDIA-H200", 0, None),
        ("NVIDIA-H200", 65, None),
    ],
)
def test_products_that_are_joined_alike(product: str, number: int, link: str | None) -> None:
    matrix = links.uniform(product, number)
    if link is None:
        assert matrix is None
    else:
        assert matrix is not None
        assert {cell for row in matrix.rows for cell in row} == {"X", link}
        assert len(matrix) == number
