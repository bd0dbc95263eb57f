"""Cards in the engine: reservations carry them, restarts find them again, and what is out of use is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core import messages
from extender.core.ids import NodeName
from extender.core.model import Card, CardAsk, CardRequest, Node, Pod, Share, Trouble
from extender.core.reasons import Reason
from extender.core.view import Member
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_node, make_pod, make_shape
from tests.core.engine_driver import Driver

CARDS = (Card("g0", 4, 16_000, 100), Card("g1", 4, 16_000, 100))


def node(name: str = "n", cards: tuple[Card, ...] | None = CARDS) -> Node:
    slots = sum(card.slots for card in cards or () if not card.trouble)
    return make_node(name, {"cpu": 96_000, "memory": 2**40, GPU: slots}, hami=True, cards=cards)


def pod(name: str, group: str | None = None, memory: int | None = None, cores: int = 0) -> Pod:
    shape = replace(make_shape({"cpu": 100, GPU: 1}), cards=CardRequest((CardAsk(1, memory, None, cores),)))
    return make_pod(name, shape=shape, group=group)


def cards(engine: Driver, *pods: Pod) -> list[str]:
    return [share.card for one in pods for container in engine.engine.view.shares(one.uid) for share in container]


def test_what_hami_tells_pods_on_a_card_apart_by_is_no_amount_of_anything() -> None:
    first = pod("p")
    shape = replace(first.shape, request=(*first.shape.request, ("nvidia.com/priority", 1)))
    engine = Driver(node(), first := replace(first, shape=shape))
    engine.tick()
    assert cards(engine, first) == ["g0"]


def test_pods_of_one_plan_have_different_cards() -> None:
    pods = [pod(f"p{n}", "train") for n in range(2)]
    engine = Driver(node(), make_group("train", 2), *pods)
    engine.tick()
    assert sorted(cards(engine, *pods)) == ["g0", "g1"]


def test_pods_of_different_rounds_have_different_cards_before_any_is_bound() -> None:
    first, second, third = pod("a"), pod("b"), pod("c", memory=1)
    engine = Driver(node(), first)
    engine.tick()
    engine.see(second)
    engine.tick()
    engine.see(third)
    engine.tick()
    assert sorted(cards(engine, first, second)) == ["g0", "g1"]
    assert engine.reason(third) is Reason.DEVICE_NO_FIT
    assert engine.detail(third)["lacking"] == "gpumem"


def test_what_a_bound_pod_has_is_what_its_annotation_says() -> None:
    first, second = pod("a"), pod("b", memory=100)
    there = replace(builders.bound(first, "n"), shares=((Share("g1", 16_000, 0),),))
    engine = Driver(node(), there, second)
    engine.tick()
    assert cards(engine, second) == ["g0"]


def test_a_reservation_whose_card_falls_ill_is_planned_anew() -> None:
    one = pod("a")
    engine = Driver(node(), one)
    engine.tick()
    assert cards(engine, one) == ["g0"]
    engine.hold(one)
    ill = (replace(CARDS[0], trouble=Trouble.UNHEALTHY), CARDS[1])
    engine.see(node(cards=ill))
    assert engine.engine.view.vetoes([Member(one.uid, NodeName("n"))])
    engine.tick()
    assert cards(engine, one) == ["g1"]


def test_a_plan_made_before_the_node_published_its_cards_is_made_anew() -> None:
    one = pod("a")
    engine = Driver(replace(gpu_node("n", 8), hami=True), one)
    engine.tick()
    assert (engine.node(one), cards(engine, one)) == ("n", [])
    engine.see(node())
    engine.tick()
    assert (engine.node(one), cards(engine, one)) == ("n", ["g0"])
    engine.see(node(cards=None))
    engine.tick()
    assert cards(engine, one) == []


def test_old_refusals_that_a_list_shows_are_no_news() -> None:
    old = [replace(builders.bound(pod(f"old-{n}"), "n"), phase="Failed", not_admitted=True) for n in range(5)]
    engine = Driver(node(), *old, one := pod("a"), active=False)
    engine.send(messages.ActivityChanged(True))
    engine.tick()
    assert engine.node(one) == "n"
    for n in range(3):
        there = replace(builders.bound(pod(f"new-{n}"), "n"), phase="Pending")
        engine.see(there, replace(there, phase="Failed", not_admitted=True))
    engine.tick()
    assert engine.reason(one) is Reason.NODE_UNAVAILABLE


def test_after_a_restart_what_the_gate_holds_has_cards_again() -> None:
    first, second = pod("a"), pod("b")
    engine = Driver(node(), first, second, active=False)
    engine.held({first: "n", second: "n"})
    engine.send(messages.ActivityChanged(True))
    assert sorted(cards(engine, first, second)) == ["g0", "g1"]


@pytest.mark.parametrize(("unreadable", "want"), [((), Reason.DEVICE_NO_FIT), (None, None)])
def test_a_node_whose_cards_cannot_be_read_gets_no_gpu_pods(unreadable: tuple[Card, ...] | None, want: object) -> None:
    broken = replace(gpu_node("n", 8), hami=True, cards=unreadable)
    engine = Driver(broken, node("other", CARDS[:1]), one := pod("a"), two := pod("b"))
    engine.tick()
    assert [engine.node(one), engine.node(two)].count("n") == (0 if want else 1)
    assert want in (engine.reason(one), engine.reason(two))


def test_a_share_does_not_go_where_no_cards_are_published() -> None:
    first, second = pod("a", memory=9000), pod("b", memory=9000)
    engine = Driver(gpu_node("plain", 8), node("n", CARDS[:1]), first, second)
    engine.tick()
    assert [engine.node(first), engine.node(second)] == ["n", None]
    assert engine.reason(second) is Reason.DEVICE_NO_FIT


def test_without_any_cards_a_share_is_what_no_node_offers() -> None:
    shape = replace(pod("a", memory=1).shape, request=make_shape({GPU: 1, "nvidia.com/gpumem": 1}).request)
    engine = Driver(gpu_node("plain", 8), one := make_pod("a", shape=shape))
    engine.tick()
    assert engine.reason(one) is Reason.RESOURCES
    assert engine.detail(one)["problem"] == "no node offers it"


def test_mixed_shapes_of_one_gang_are_packed_exactly() -> None:
    """Two alone and four halves on three cards: each alone has its card, the halves one card of four slots."""
    three = (*CARDS, Card("g2", 4, 16_000, 100))
    alone = [pod(f"alone-{n}", "train", 100, 100) for n in range(2)]
    parts = [pod(f"part-{n}", "train", 4000, 25) for n in range(4)]
    engine = Driver(node(cards=three), make_group("train", 6), *alone, *parts)
    engine.tick()
    assert engine.reserved == 6
    assert len(set(cards(engine, *alone))) == 2
    assert len(set(cards(engine, *parts))) == 1
    assert not set(cards(engine, *alone)) & set(cards(engine, *parts))


OUT = {
    "cordoned": ({"unschedulable": True}, Reason.NODE_UNAVAILABLE, "cordoned"),
    "not ready": ({"ready": False}, Reason.NODE_UNAVAILABLE, "not ready"),
    "a card is ill": (
        {"cards": (replace(CARDS[0], trouble=Trouble.UNHEALTHY),)},
        Reason.DEVICE_UNHEALTHY,
        "unhealthy",
    ),
    "a card is cordoned": (
        {"cards": (replace(CARDS[0], trouble=Trouble.CORDONED),)},
        Reason.DEVICE_UNHEALTHY,
        "cordoned",
    ),
    "a card is cut into instances": (
        {"cards": (replace(CARDS[0], trouble=Trouble.MIG),)},
        Reason.DEVICE_NO_FIT,
        "no card in use there is of a type and name that it takes",
    ),
}


@pytest.mark.parametrize(("change", "reason", "problem"), OUT.values(), ids=OUT.keys())
def test_what_is_out_of_use_is_named(change: dict[str, object], reason: Reason, problem: str) -> None:
    engine = Driver(replace(node(cards=CARDS[:1]), **change), one := pod("a"))  # type: ignore[arg-type]
    engine.tick()
    assert engine.reason(one) is reason
    assert engine.detail(one)["problem"] == problem
    engine.see(node())
    engine.tick()
    assert engine.node(one) == "n"
