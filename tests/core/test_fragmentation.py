"""Fragments against a slow count over every card and every typical pod, and what they do to lone pods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.core import fragmentation
from extender.core.cards import ALONE
from extender.core.engine import Engine
from extender.core.feasibility import Feasibility
from extender.core.ids import NodeName
from extender.core.model import Card, CardAsk, CardRequest, Node, Pod, Shape, Trouble
from extender.core.placement import Demand, Placement, place
from extender.core.snapshot import Room, Snapshot
from tests.builders import GPU, bound, gpu_node, make_node, make_pod, make_room, make_shape, make_world, seen
from tests.oracles import accepts

SLOTS, MEMORY = 4, 100


def card_node(name: str, number: int, cpu: int = 16_000, kind: str = "A100", trouble: Trouble = Trouble.NONE) -> Node:
    """A node that publishes so many cards of 100 MiB."""
    cards = tuple(
        Card(f"{name}-{n}", SLOTS, MEMORY, 100, kind, trouble if n == 0 else Trouble.NONE) for n in range(number)
    )
    return make_node(name, {"cpu": cpu, GPU: number * SLOTS}, hami=True, cards=cards)


def asking(cpu: int, number: int, ask: CardAsk | None = None, kinds: tuple[str, ...] = ()) -> Shape:
    """A shape with so many GPUs, or shares of cards."""
    whole = ask or CardAsk(number)
    return replace(make_shape({"cpu": cpu, GPU: number}), cards=CardRequest((whole,), kinds=kinds))


# --- the oracle ----------------------------------------------------------------------------------


def slow_fragments(room: Room, row: int) -> float:
    """Thousandths of GPUs of a node that the workload has no use for, by its definition."""
    typical = [(shape, number) for shape, number in room.snapshot.workload if fragmentation.single(shape)]
    everything = sum(number for _, number in typical)
    uses = [(number / everything, useful(room, row, shape)) for shape, number in typical]
    together = mixed(room, row, any(use for _, use in uses), typical)
    return total(room, row) - sum(weight * use for weight, use in uses) - together / 2


def mixed(room: Room, row: int, fits: bool, typical: list[tuple[Shape, int]]) -> float:
    """What of a node typical pods fill together, where one of them fits."""
    gpus = sum(number * sum(size(ask, room) for ask in asks_of(shape)) for shape, number in typical)
    most = [total(room, row)]
    for name in ("cpu", "memory"):
        asked_of = sum(number * dict(shape.request).get(name, 0) for shape, number in typical)
        column = room.snapshot.columns.of(name)
        elsewhere = sum(
            dict(node.allocatable).get(name, 0)
            for node in room.snapshot.facts.nodes
            if node is not None and not dict(node.allocatable).get(GPU)
        )
        asked_of += max(dict(room.snapshot.others).get(name, 0) - elsewhere, 0) if asked_of else 0
        if asked_of and column is not None:
            most.append(max(int(room.free[row, column]), 0) * gpus / asked_of)
    return min(most) if fits else 0.0


def asks_of(shape: Shape) -> list[CardAsk]:
    """One for each GPU."""
    ask = shape.cards.asks[0] if shape.cards else CardAsk(1)
    return [ask] * dict(shape.request)[GPU]


def size(ask: CardAsk, room: Room) -> float:
    """All cards here have the same memory; where there are none, what a share is of one is not known."""
    if room.cards is None or ask.cores >= ALONE or (ask.memory is None and ask.percent is None):
        return 1000
    return ask.percent * 10 if ask.memory is None else max(ask.memory * 1000 / MEMORY, 1)


def free_cards(room: Room, row: int) -> list[tuple[Card, int, int, int, int]] | None:
    """Each card of a node with its free slots, memory, cores, and how many shares are alone there; None: no cards."""
    cards = room.cards
    if cards is None or not cards.there[row]:
        return None
    part = cards._part(row)
    return [
        (cards.roll.cards[cards._which[at]], *map(int, cards.free[at]), int(cards.alone[at]))
        for at in range(part.start, part.stop)
    ]


def idle(room: Room, memory: int, cores: int, slots: int, alone: int, card: Card) -> float:
    if slots <= 0 or alone or card.trouble:
        return 0.0
    cored = any(shape.cards and shape.cards.asks[0].cores for shape, _ in room.snapshot.workload)
    return 1000 * min(memory / card.memory, cores / card.cores if cored else 1)


def total(room: Room, row: int) -> float:
    cards = free_cards(room, row)
    if cards is None:
        return 1000.0 * max(pieces(room, row), 0)
    return sum(idle(room, memory, cores, slots, alone, card) for card, slots, memory, cores, alone in cards)


def pieces(room: Room, row: int) -> int:
    column = room.snapshot.columns.of(GPU)
    assert column is not None
    return int(room.free[row, column])


def useful(room: Room, row: int, shape: Shape) -> float:
    node, request = room.snapshot.facts.nodes[row], shape.cards
    assert node is not None
    if not accepts(shape.constraints, node):
        return 0.0
    room_for = [
        int(room.free[row, column]) // amount
        for name, amount in shape.request
        if (column := room.snapshot.columns.of(name)) is not None
    ]
    number, cards = dict(shape.request)[GPU], free_cards(room, row)
    if cards is None:
        if request is not None and not request.plain:
            return 0.0
        fitting = shares = max(pieces(room, row), 0)
        usable = filled = 1000.0 * shares
    else:
        ask = request.asks[0] if request is not None else CardAsk(1)
        found = [shares_on(one, ask, request) for one in cards]
        part = [1000 * (1 if ask.cores >= ALONE else asked(ask, card) / card.memory) for card, *_ in cards]
        fitting, shares = sum(fits > 0 for fits in found), sum(found)
        usable = sum(
            idle(room, m, c, s, a, card) for (card, s, m, c, a), fits in zip(cards, found, strict=True) if fits
        )
        filled = sum(fits * size for fits, size in zip(found, part, strict=True))
    pods = max(min(*room_for, shares // number), 0) if fitting >= number else 0
    return usable * 3 / 8 + filled * pods * number / shares / 8 if pods else 0.0


def asked(ask: CardAsk, card: Card) -> int:
    if ask.memory is not None:
        return ask.memory
    return card.memory * (100 if ask.percent is None else ask.percent) // 100


def shares_on(one: tuple[Card, int, int, int, int], ask: CardAsk, request: CardRequest | None) -> int:
    """How many shares of this kind a card takes: one after the other until none fits."""
    card, slots, memory, cores, alone = one
    if card.trouble or alone or (request and request.kinds and not any(kind in card.kind for kind in request.kinds)):
        return 0
    found, used = 0, card.slots - slots
    while slots >= 1 and memory >= asked(ask, card) and cores >= ask.cores and not (ask.cores >= ALONE and used):
        found, slots, used = found + 1, slots - 1, used + 1
        memory, cores = memory - asked(ask, card), cores - ask.cores
    return found


# --- against it ----------------------------------------------------------------------------------

SHAPES = [
    asking(2000, 1),
    asking(1000, 2),
    asking(4000, 1, CardAsk(1, 30)),
    asking(500, 1, CardAsk(1, 81)),
    asking(500, 1, CardAsk(1, None, 25, 30)),
    asking(500, 2, CardAsk(2, 50)),
    asking(500, 1, CardAsk(1, 0, None, 10)),
    asking(1000, 1, CardAsk(1, 40, None, ALONE)),
    asking(1000, 1, CardAsk(1, 20), kinds=("H100",)),
    make_shape({"cpu": 3000, GPU: 1}, selector=(("pool", "big"),)),
]
NODES = [
    card_node("a", 2),
    card_node("b", 3, cpu=5000, kind="H100"),
    card_node("c", 2, trouble=Trouble.UNHEALTHY),
    gpu_node("d", 4, {"pool": "big"}),
    make_node("e", {"cpu": 3000, GPU: 2}),
    make_node("f", {"cpu": 64_000}),
]


@st.composite
def rooms(draw: st.DrawFn) -> Room:
    """Nodes on which some of these pods run, while others wait."""
    nodes = draw(st.lists(st.sampled_from(NODES), min_size=1, unique_by=lambda node: node.name))
    waiting = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=6))
    others = [make_pod(f"o{n}", {"cpu": 30_000}) for n in range(draw(st.integers(0, 3)))]
    room = make_room(*nodes, *others, *(replace(make_pod(f"w{n}"), shape=shape) for n, shape in enumerate(waiting)))
    for shape in draw(st.lists(st.sampled_from(SHAPES), max_size=6)):
        found = place(room, [Demand(shape, 1)])
        if isinstance(found, Placement):
            found.take(room)
    return room


@settings(max_examples=60)
@given(rooms(), st.sampled_from(SHAPES))
def test_fragments_and_their_growth_are_as_counted_card_by_card(room: Room, shape: Shape) -> None:
    rows = np.arange(len(room.free))
    fragments = fragmentation.of(room)
    if room.snapshot.columns.of(GPU) is None:
        assert fragments is None
        return
    assert fragments is not None
    before = [slow_fragments(room, row) for row in rows.tolist()]
    assert fragments.lost(room, rows).tolist() == pytest.approx(before, abs=1e-6)
    fitting = [row for row in rows.tolist() if isinstance(placed_on(room, shape, row), Placement)]
    if not fitting:
        return
    growth = fragments.growth(room, shape, room.snapshot.want(shape), np.array(fitting))
    for row, found in zip(fitting, growth.tolist(), strict=True):
        after = room.copy()
        one = placed_on(after, shape, row)
        assert isinstance(one, Placement)
        if one.shares and shape.cards and shape.cards.asks[0].number > 1:
            continue  # where it would cost room for another such pod, the roomiest cards are given, not the tightest
        one.take(after)
        assert found == pytest.approx(slow_fragments(after, row) - before[row], abs=1e-3)


def placed_on(room: Room, shape: Shape, row: int) -> object:
    """The placement of one pod on this row alone."""
    allowed = np.zeros(len(room.free), dtype=bool)
    allowed[row] = True
    return place(room, [Demand(shape, 1, allowed=allowed)])


@given(rooms(), st.lists(st.sampled_from(SHAPES), max_size=5))
@settings(max_examples=40)
def test_what_is_kept_of_a_room_is_as_worked_out_anew(room: Room, shapes: list[Shape]) -> None:
    rows = np.arange(len(room.free))
    for shape in shapes:
        found = place(room, [Demand(shape, 1)])
        if not isinstance(found, Placement):
            continue
        found.take(room)
        kept = fragmentation.of(room)
        typical = fragmentation.Typical.of(room.snapshot)
        if kept is not None and typical is not None:
            anew = fragmentation.Fragments(room, typical)
            assert kept.lost(room, rows).tolist() == pytest.approx(anew.lost(room, rows).tolist())
            other = room.copy()
            other.free[0] += 1  # another room over the same nodes, in between
            assert kept.lost(other, rows).tolist() == pytest.approx(anew.lost(other, rows).tolist())
            for row in np.flatnonzero(other.cards.there).tolist() if other.cards is not None else ():
                # as cards are kept for others, while the rest of their node is not
                other.take_cards(row, other.cards.choose(row, CardRequest((CardAsk(1, 20),))) or ())
            anew = fragmentation.Fragments(other, typical)
            assert kept.lost(other, rows).tolist() == pytest.approx(anew.lost(other, rows).tolist())


# --- what they are for ---------------------------------------------------------------------------


def where(*things: Node | Pod, shape: Shape) -> str:
    """The node of one pod of this shape, which waits beside these."""
    room = make_room(*things, replace(make_pod("new"), shape=shape))
    found = place(room, [Demand(shape, 1)])
    assert isinstance(found, Placement)
    return str(room.snapshot.names[found.rows[0][0]])


def waiting(number: int, shape: Shape) -> list[Pod]:
    return [replace(make_pod(f"waits-{n}-{dict(shape.request)['cpu']}"), shape=shape) for n in range(number)]


ONE, EIGHT = make_shape({"cpu": 1000, GPU: 1}), make_shape({"cpu": 8000, GPU: 8})


def test_a_small_pod_leaves_the_node_whole_that_many_wait_for() -> None:
    # by packing alone it would go to the node that has less free
    nodes = [gpu_node("a-whole", 8), gpu_node("b-broken", 16), bound(make_pod("there", {GPU: 1}), NodeName("b-broken"))]
    assert where(*nodes, *waiting(9, EIGHT), shape=ONE) == "b-broken"
    assert where(*nodes, shape=ONE) == "a-whole"


def test_a_pod_of_much_cpu_goes_where_cpu_is_left_over() -> None:
    poor, rich = make_node("a", {"cpu": 16_000, GPU: 4}), make_node("b", {"cpu": 64_000, GPU: 4})
    hungry = make_shape({"cpu": 12_000, GPU: 1})
    assert where(poor, rich, *waiting(9, make_shape({"cpu": 4000, GPU: 1})), shape=hungry) == "b"


def test_cpu_that_pods_without_gpus_have_no_place_for_is_kept_beside_gpus() -> None:
    # both have CPU enough for the GPUs; beside pods without GPUs only "b" has some to spare
    nodes = [make_node("a", {"cpu": 24_000, GPU: 4}), make_node("b", {"cpu": 128_000, GPU: 8})]
    pods, small = waiting(9, make_shape({"cpu": 4000, GPU: 1})), make_shape({"cpu": 4000})
    many = [replace(make_pod(f"cpu-{n}"), shape=small) for n in range(16)]
    assert where(*nodes, *pods, shape=small) == "a"
    assert where(*nodes, *pods, *many, shape=small) == "b"
    # nodes without GPUs have a place for all of them
    assert where(*nodes, make_node("c", {"cpu": 128_000}), *pods, *many, shape=small) == "c"


def test_a_share_fills_what_no_other_pod_has_use_for() -> None:
    used = replace(bound(make_pod("big", {GPU: 1}), NodeName("b")), shape=asking(500, 1, CardAsk(1, 81)))
    nodes = [card_node("a", 2), card_node("b", 2), used]
    assert where(*nodes, *waiting(5, asking(400, 1, CardAsk(1, 50))), shape=asking(300, 1, CardAsk(1, 15))) == "b"


def test_a_pod_without_gpus_still_goes_to_nodes_without_gpus() -> None:
    nodes = [make_node("z", {"cpu": 64_000}), gpu_node("a", 8)]
    assert where(*nodes, *waiting(3, ONE), shape=make_shape({"cpu": 1000})) == "z"


def test_without_pods_that_ask_for_gpus_nothing_is_known() -> None:
    room = make_room(gpu_node("a"), make_pod("cpu", {"cpu": 1000}))
    assert fragmentation.of(room) is None
    assert fragmentation.lost(room) == 0


def test_the_metric_counts_gpus_that_nobody_can_use() -> None:
    # the CPU of one node is used up, so its four GPUs are of no use to anybody
    nodes = [make_node("full", {"cpu": 4000, GPU: 4}), make_node("free", {"cpu": 64_000, GPU: 4})]
    there = bound(make_pod("there", {"cpu": 4000}), NodeName("full"))
    assert fragmentation.lost(make_room(*nodes, there, *waiting(2, ONE))) == 4


def test_the_view_tells_what_is_lost_now() -> None:
    engine = Engine(10**6)
    nodes = [make_node("full", {"cpu": 4000, GPU: 4}), make_node("free", {"cpu": 64_000, GPU: 4})]
    for thing in (*nodes, bound(make_pod("there", {"cpu": 4000}), NodeName("full")), *waiting(2, ONE)):
        engine.handle(seen(thing), 0.0)
    assert fragmentation.lost(engine.view.room()) == 4


def test_nodes_out_of_use_are_not_counted() -> None:
    nodes = [make_node("full", {"cpu": 0, GPU: 4}, ready=False), make_node("free", {"cpu": 64_000, GPU: 4})]
    assert fragmentation.lost(make_room(*nodes, *waiting(2, ONE))) == 0


def test_snapshots_of_one_workload_and_the_same_nodes_share_what_is_typical() -> None:
    world, feasibility = make_world(gpu_node("a"), *waiting(2, ONE)), Feasibility()
    first, second = (Room(Snapshot.take(world, feasibility)) for _ in range(2))
    assert fragmentation.of(first) is fragmentation.of(second) is not None
