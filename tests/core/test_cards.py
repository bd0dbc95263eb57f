"""Cards: how many pods they take, which ones a pod gets, and that what is taken of them is always the sum."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.core.card_table import CardTable
from extender.core.cards import ALONE, Cards, accepts, need
from extender.core.ids import NodeName
from extender.core.model import Card, CardAsk, CardRequest, Pod, Share, Shares, Trouble
from extender.core.placement import Demand, Placement, place
from tests.builders import GPU, make_node, make_pod, make_room, make_shape

N1, N2 = NodeName("n1"), NodeName("n2")
WHOLE = CardRequest((CardAsk(1),))


def card(name: str = "g0", slots: int = 10, memory: int = 16000, cores: int = 100, **more: object) -> Card:
    return Card(name, slots, memory, cores, **more)  # type: ignore[arg-type]


def ask(number: int = 1, memory: int | None = None, percent: int | None = None, cores: int = 0) -> CardRequest:
    return CardRequest((CardAsk(number, memory, percent, cores),))


def deck(*cards: Card, taken: Shares = ()) -> Cards:
    """The cards of one node, of which so much is taken."""
    table = CardTable()
    table.put(N1, 0, cards)
    table.add(N1, taken, 1)
    free = table.free(1)
    assert free is not None
    return free


def given_to(cards: Cards, request: CardRequest) -> list[str] | None:
    """Names of the cards that one more pod gets, and takes."""
    shares = cards.choose(0, request)
    if shares is None:
        return None
    cards.take(0, shares)
    return [share.card for container in shares for share in container]


# --- which cards -----------------------------------------------------------------------------------


def test_shares_stand_together_on_the_card_with_least_to_spare() -> None:
    cards = deck(card("g0"), card("g1"), taken=((Share("g1", 4000, 10),),))
    assert given_to(cards, ask(memory=2000)) == ["g1"]
    assert given_to(cards, ask(memory=12000)) == ["g0"]
    assert given_to(cards, ask(memory=4000)) == ["g0"]


def test_a_share_never_straddles_cards() -> None:
    cards = deck(card("g0"), card("g1"), taken=((Share("g0", 9000, 0), Share("g1", 9000, 0)),))
    assert given_to(cards, ask(memory=8000)) is None
    assert cards.capacity(ask(memory=8000), 5).tolist() == [0]


def test_all_cores_are_the_card_itself_in_both_directions() -> None:
    cards = deck(card("g0"), card("g1"))
    assert given_to(cards, ask(memory=100)) == ["g0"]
    assert given_to(cards, ask(memory=100, cores=ALONE)) == ["g1"]
    assert given_to(cards, ask(memory=100, cores=ALONE)) is None
    assert given_to(cards, ask(memory=100)) == ["g0"]
    cards = deck(card("g1", cores=500), taken=((Share("g1", 100, ALONE),),))
    assert given_to(cards, ask(memory=100)) is None  # also where cores are promised several times


def test_without_memory_a_card_is_taken_whole() -> None:
    cards = deck(card("g0"), taken=((Share("g0", 1, 0),),))
    assert given_to(cards, WHOLE) is None
    assert given_to(cards, ask(percent=50)) == ["g0"]
    assert given_to(cards, ask(percent=50)) is None


def test_several_gpus_are_different_cards_and_keep_room_for_the_next() -> None:
    # one share fits on g0, one on g1, two on g2: two pods of two fit if each takes g2
    used = ((Share("g0", 8000, 0), Share("g1", 8000, 0)),)
    cards = deck(card("g0"), card("g1"), card("g2"), taken=used)
    two = ask(2, memory=8000)
    assert cards.capacity(two, 9).tolist() == [2]
    assert "g2" in (given_to(cards, two) or [])
    assert "g2" in (given_to(cards, two) or [])
    assert given_to(cards, two) is None


def test_containers_of_a_pod_may_share_a_card() -> None:
    request = CardRequest((None, CardAsk(1, memory=4000), None, CardAsk(1, memory=8000)))
    cards = deck(card("g0"))
    shares = cards.choose(0, request)
    assert shares == ((), (Share("g0", 4000, 0),), (), (Share("g0", 8000, 0),))
    assert cards.capacity(request, 9).tolist() == [1]


def test_an_init_container_has_of_the_cards_what_the_others_have_after_it() -> None:
    request = CardRequest((CardAsk(1, memory=12_000), None, CardAsk(1, memory=9000)), passing=(0,))
    cards = deck(card("g0", slots=2), card("g1", slots=2))
    shares = cards.choose(0, request)
    assert shares == ((Share("g0", 12_000, 0, True),), (), (Share("g0", 9000, 0),))
    cards.take(0, shares)
    assert cards.free.tolist() == [[1, 4000, 100], [2, 16_000, 100]]
    cards.take(0, shares, -1)
    assert cards.free.tolist() == [[2, 16_000, 100], [2, 16_000, 100]]
    assert cards.capacity(request, 9).tolist() == [2]


def test_an_init_container_takes_another_card_where_that_of_the_others_will_not_do() -> None:
    request = CardRequest((CardAsk(1, memory=100, cores=ALONE), CardAsk(1, memory=100)), passing=(0,))
    cards = deck(card("g0"), card("g1"), taken=((Share("g0", 100, 0),),))
    assert cards.choose(0, request) == ((Share("g1", 100, ALONE, True),), (Share("g0", 100, 0),))


def test_init_containers_run_one_after_the_other() -> None:
    request = CardRequest((CardAsk(1, memory=9000), CardAsk(1, memory=10_000)), passing=(0, 1))
    cards = deck(card("g0", slots=1))
    assert given_to(cards, request) == ["g0", "g0"]
    assert cards.free.tolist() == [[0, 6000, 100]]
    assert cards.choose(0, request) is None


@pytest.mark.parametrize("trouble", [t for t in Trouble if t])
def test_cards_in_trouble_take_nothing(trouble: Trouble) -> None:
    cards = deck(card("g0", trouble=trouble), card("g1"))
    assert given_to(cards, WHOLE) == ["g1"]
    assert given_to(cards, WHOLE) is None


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        (replace(WHOLE, kinds=("A100",)), True),
        (replace(WHOLE, kinds=("V100", "A100")), True),
        (replace(WHOLE, kinds=("V100",)), False),
        (replace(WHOLE, not_kinds=("A100",)), False),
        (replace(WHOLE, not_kinds=("V100",)), True),
        (replace(WHOLE, kinds=("A100",), not_kinds=("PCIE",)), False),
        (replace(WHOLE, ids=("g0", "g7")), True),
        (replace(WHOLE, ids=("g7",)), False),
        (replace(WHOLE, not_ids=("g0",)), False),
    ],
)
def test_selectors(request_: CardRequest, want: bool) -> None:
    one = card("g0", kind="NVIDIA-A100-PCIE-40GB")
    assert accepts(request_, one) is want
    assert (deck(one).choose(0, request_) is not None) is want


def test_a_node_that_publishes_no_cards_serves_whole_gpus_only() -> None:
    table = CardTable()
    table.put(N1, 0, (card(),))
    free = table.free(2)
    assert free is not None
    assert free.choose(1, WHOLE) == ()
    assert free.choose(1, ask(memory=1)) is None
    assert free.capacity(WHOLE, 7).tolist() == [1, 7]


# --- how many: against trying everything -----------------------------------------------------------

sizes = st.sampled_from([0, 1, 2, 3, 4])
decks = st.lists(
    st.builds(
        Card,
        id=st.just(""),
        slots=sizes,
        memory=st.sampled_from([4, 6, 8]),
        cores=st.just(ALONE),
        trouble=st.sampled_from([Trouble.NONE, Trouble.NONE, Trouble.NONE, Trouble.UNHEALTHY]),
    ),
    min_size=1,
    max_size=4,
).map(lambda cards: [replace(one, id=f"g{n}") for n, one in enumerate(cards)])
card_asks = st.builds(
    CardAsk,
    number=st.sampled_from([1, 1, 2, 3]),
    memory=st.sampled_from([None, 1, 2, 3, 4]),
    percent=st.sampled_from([None, 50]),
    cores=st.sampled_from([0, 0, 25, 50, 100]),
)
requests = st.lists(st.none() | card_asks, min_size=1, max_size=3).filter(any).map(lambda a: CardRequest(tuple(a)))
lone_requests = card_asks.map(lambda one: CardRequest((one,)))


def allowed(cards: list[Card], shares: list[Share]) -> bool:
    """The rules, said plainly."""
    for one in cards:
        mine = [share for share in shares if share.card == one.id]
        if mine and (one.trouble or len(mine) > one.slots or sum(s.memory for s in mine) > one.memory):
            return False
        if sum(s.cores for s in mine) > one.cores or (len(mine) > 1 and any(s.cores >= ALONE for s in mine)):
            return False
    return True


def most_pods(cards: list[Card], one: CardAsk, have: list[Share], first: int = 0) -> int:
    """The largest number of such pods, by trying every choice of cards for each; equal pods choose in one order."""
    best = 0
    for number, combination in enumerate(itertools.combinations(cards, one.number)):
        more = [Share(c.id, need(one, c.memory), one.cores) for c in combination]
        if number >= first and allowed(cards, have + more):
            best = max(best, 1 + most_pods(cards, one, have + more, number))
    return best


def put(cards: list[Card], placed: list[CardRequest]) -> tuple[Cards, list[Share]]:
    """The cards after these pods came, as many as fit."""
    there, have = deck(*cards), []
    for request in placed:
        shares = there.choose(0, request)
        if shares is not None:
            there.take(0, shares)
            have += [share for container in shares for share in container]
    return there, have


@settings(max_examples=150, deadline=None)
@given(cards=decks, placed=st.lists(requests, max_size=2), request=lone_requests)
def test_as_many_fit_as_any_choice_of_cards_allows(
    cards: list[Card], placed: list[CardRequest], request: CardRequest
) -> None:
    there, have = put(cards, placed)
    assert allowed(cards, have)
    wanted = most_pods(cards, request.asks[0], have)
    assert there.capacity(request, 50).tolist() == [wanted]
    for _ in range(wanted):
        shares = there.choose(0, request)
        assert shares is not None
        there.take(0, shares)
        have += [share for container in shares for share in container]
        assert allowed(cards, have)
    assert there.choose(0, request) is None


@settings(max_examples=100, deadline=None)
@given(cards=decks, placed=st.lists(requests, max_size=3), request=requests)
def test_what_is_counted_can_be_given(cards: list[Card], placed: list[CardRequest], request: CardRequest) -> None:
    there, have = put(cards, placed)
    before = there.look(0)
    counted = int(there.capacity(request, 50)[0])
    assert there.look(0) == before
    for _ in range(counted):
        shares = there.choose(0, request)
        assert shares is not None
        assert [len(container) for container in shares] == [0 if a is None else a.number for a in request.containers]
        assert all(len({s.card for s in container}) == len(container) for container in shares)
        there.take(0, shares)
        have += [share for container in shares for share in container]
    assert allowed(cards, have)
    assert there.choose(0, request) is None


def with_passing(request: CardRequest, number: int) -> CardRequest:
    """The same, with so many containers at its begin that pass."""
    passing = tuple(at for at, one in enumerate(request.containers[:number]) if one is not None)
    return replace(request, passing=passing)


def moments(shares: Shares) -> list[list[Share]]:
    """What a pod has at one time or another."""
    lasting = [share for container in shares for share in container if not share.passing]
    return [lasting, *([*container] for container in shares if any(share.passing for share in container))]


@settings(max_examples=100, deadline=None)
@given(cards=decks, requests_=st.lists(st.builds(with_passing, requests, st.integers(0, 3)), max_size=4))
def test_at_no_moment_is_more_given_than_there_is(cards: list[Card], requests_: list[CardRequest]) -> None:
    there, pods = deck(*cards), []
    for request in requests_:
        counted = int(there.capacity(request, 9)[0])
        shares = there.choose(0, request)
        assert (shares is not None) is (counted > 0)
        if shares is not None:
            there.take(0, shares)
            pods.append(shares)
    for at_once in itertools.product(*map(moments, pods)):
        assert allowed(cards, [share for have in at_once for share in have])
    for shares in pods:
        there.take(0, shares, -1)
    assert there.look(0) == deck(*cards).look(0)


# --- the table -------------------------------------------------------------------------------------


def on(node: str, name: str, *shares: Share, cards: CardRequest | None = WHOLE, **more: object):  # type: ignore[no-untyped-def]
    shape = replace(make_shape({GPU: 1}), cards=cards)
    return make_pod(name, node=node, shape=shape, shares=(shares,) if shares else (), **more)


def taken(table: CardTable) -> dict[str, tuple[int, int, int]]:
    free = table.free(2)
    assert free is not None
    both = zip(free.roll.cards, free.roll.total - free.free, strict=True)
    return {one.id: tuple(used.tolist()) for one, used in both}


def test_what_a_pod_has_is_what_its_annotation_says() -> None:
    table = CardTable()
    table.put(N1, 0, (card("g0"), card("g1")))
    table.count(on("n1", "a", Share("g1", 300, 5)))
    assert taken(table) == {"g0": (0, 0, 0), "g1": (1, 300, 5)}
    table.uncount(on("n1", "a").uid)
    assert taken(table) == {"g0": (0, 0, 0), "g1": (0, 0, 0)}


def test_a_pod_of_which_nothing_says_what_it_has_has_the_first_that_fit() -> None:
    table = CardTable()
    table.put(N1, 0, (card("g0"), card("g1")))
    for name in "ab":
        table.count(on("n1", name))
    table.count(on("n1", "c", cards=ask(memory=5)))
    assert taken(table) == {"g0": (1, 16000, 0), "g1": (1, 16000, 0)}


def test_cards_that_appear_later_count_what_stands_on_them() -> None:
    table, pod = CardTable(), on("n1", "a", Share("g1", 300, 5))
    table.count(pod)
    assert not table
    assert table.put(N1, 0, (card("g0"),))
    table.recount([pod])
    assert taken(table) == {"g0": (0, 0, 0)}
    assert table.put(N1, 0, (card("g0"), card("g1")))
    table.recount([pod])
    assert taken(table)["g1"] == (1, 300, 5)
    assert not table.put(N1, 0, (card("g0"), card("g1", trouble=Trouble.UNHEALTHY)))
    assert taken(table)["g1"] == (1, 300, 5)


def test_a_card_that_is_published_no_more_is_kept_while_something_is_taken_of_it() -> None:
    table = CardTable()
    table.put(N1, 0, (card("g0"), card("g1")))
    shares = ((Share("g1", 300, 5),),)
    table.add(N1, shares, 1)
    table.put(N1, 0, (card("g0"),))
    assert table.over(N1, shares)
    table.put(N1, 0, (card("g0"), card("g1")))
    assert not table.over(N1, shares)
    table.add(N1, shares, -1)
    table.put(N1, 0, (card("g0"),))
    assert taken(table) == {"g0": (0, 0, 0)}


def test_a_node_that_stops_to_publish_is_none_with_cards() -> None:
    table = CardTable()
    table.put(N1, 0, (card("g0"),))
    table.put(N1, 0, None)
    assert table.free(1) is None
    table.put(N1, 0, ())
    free = table.free(1)
    assert free is not None
    assert free.choose(0, WHOLE) is None


names = st.sampled_from(["a", "b", "c"])
places = st.sampled_from([N1, N2])
shares = st.lists(st.builds(Share, st.sampled_from(["g0", "g1"]), st.integers(0, 9), st.sampled_from([0, 5, 100])))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), places, st.sampled_from([None, (), ("g0",), ("g0", "g1")])),
        st.tuples(st.just("drop"), places),
        st.tuples(st.just("pod"), places, names, shares),
        st.tuples(st.just("gone"), names),
        st.tuples(st.just("reserve"), places, shares),
    ),
    max_size=25,
)


class Kept:
    """A table, and beside it what was put there."""

    def __init__(self) -> None:
        self.table = CardTable()
        self.pods: dict[str, Pod] = {}
        self.reserved: list[tuple[NodeName, Shares]] = []
        self.known: dict[NodeName, tuple[str, ...]] = {}

    def put(self, node: NodeName, published: tuple[str, ...] | None) -> None:
        self.known[node] = published or ()
        cards = None if published is None else tuple(map(card, published))
        if self.table.put(node, (N1, N2).index(node), cards):
            self.table.recount([pod for pod in self.pods.values() if pod.node == node])

    def drop(self, node: NodeName) -> None:
        """Reservations there are released before, as the ledger does."""
        self.known.pop(node, None)
        for one in [one for one in self.reserved if one[0] == node]:
            self.reserved.remove(one)
            self.table.add(*one, -1)
        self.table.drop(node)

    def pod(self, node: NodeName, name: str, given_: list[Share]) -> None:
        self.gone(name)
        self.pods[name] = on(node, name, *given_, cards=None)
        self.table.count(self.pods[name])

    def gone(self, name: str) -> None:
        pod = self.pods.pop(name, None)
        if pod is not None:
            self.table.uncount(pod.uid)

    def reserve(self, node: NodeName, given_: list[Share]) -> None:
        """Only what is published is reserved."""
        given_ = [share for share in given_ if share.card in self.known.get(node, ())]
        if given_:
            self.reserved.append((node, (tuple(given_),)))
            self.table.add(*self.reserved[-1], 1)

    def check(self) -> None:
        want: Counter[tuple[object, str]] = Counter()
        for node, given_ in [(pod.node, pod.shares) for pod in self.pods.values()] + self.reserved:
            want.update((node, share.card) for container in given_ for share in container)
        free, found = self.table.free(2), {}
        for at, row in enumerate(free._row.tolist() if free is not None else []):
            key = ((N1, N2)[row], free.roll.cards[at].id)
            found[key] = int(free.roll.total[at, 0] - free.free[at, 0])
        there = {(node, name) for node, published in self.known.items() for name in published}
        assert {key: found[key] for key in there} == {key: want[key] for key in there}


@settings(max_examples=150, deadline=None)
@given(steps)
def test_what_is_taken_is_the_sum_of_pods_and_reservations(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    kept = Kept()
    for kind, *rest in steps:
        getattr(kept, kind)(*rest)
        kept.check()


# --- gangs over nodes --------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(decks, min_size=1, max_size=3), st.lists(st.tuples(requests, st.integers(1, 3)), min_size=1, max_size=3)
)
def test_a_placement_of_a_gang_gives_no_card_twice(
    nodes: list[list[Card]], asked: list[tuple[CardRequest, int]]
) -> None:
    """And what one shape alone is refused for is refused by counting every choice."""
    slots = [sum(one.slots for one in cards if not one.trouble) for cards in nodes]
    there = [
        make_node(f"n{n}", {"cpu": 10**6, "memory": 2**40, GPU: slots[n]}, cards=tuple(cards))
        for n, cards in enumerate(nodes)
    ]
    room = make_room(*there)
    demands = []
    for request, count in asked:
        number = sum(one.number for one in request.asks)
        demands.append(Demand(replace(make_shape({"cpu": 1, GPU: number}), cards=request), count))
    found = place(room, demands)
    if isinstance(found, Placement):
        for row, cards in enumerate(nodes):
            given_ = [
                share
                for rows, pods in zip(found.rows, found.shares, strict=True)
                for at, containers in zip(rows, pods, strict=True)
                if at == row
                for container in containers
                for share in container
            ]
            assert allowed(cards, given_)
        found.take(room)
        assert room.cards is not None
        assert not any(room.cards.overdrawn(row) for row in range(len(nodes)))
    elif len(asked) == 1 and len(asked[0][0].asks) == 1:
        one = asked[0][0].asks[0]
        assert sum(most_pods(cards, one, []) for cards in nodes) < asked[0][1]
