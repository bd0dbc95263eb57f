"""Nodes and cards that kubelets refuse: counted in a row, left alone, and used again when the node reports a change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.admissions import Admissions
from extender.core.model import Card, Node, Share, Taint, Trouble
from extender.core.world import World
from tests import builders
from tests.builders import GPU, gpu_node, make_pod

CARDS = (Card("g0", 2, 100, 100), Card("g1", 2, 100, 100))


def node(**fields: object) -> Node:
    return gpu_node("n", 4, **{"hami": True, "cards": CARDS, **fields})  # type: ignore[arg-type]


class Story:
    """What the watch shows of one node, and how it counts."""

    def __init__(self, most: int = 3) -> None:
        self.world = World()
        self.counts = Admissions(self.world, most)
        self.made = 0
        self.see(node())

    def see(self, seen: Node) -> None:
        self._apply(self.counts.seen(self.world.node(seen.name), seen))

    def _apply(self, seen: Node | None) -> None:
        if seen is not None:
            self.world.apply(builders.seen(seen))

    def pod(self, phase: str, *cards: str, refused: bool = False, ours: bool = True, devices: bool = True) -> None:
        self.made += 1
        scheduler = {} if ours else {"scheduler": "other"}
        before = make_pod(f"p{self.made}", {GPU: 1} if devices else {"cpu": 1}, node="n", **scheduler)
        before = replace(before, shares=(tuple(Share(card, 1, 1) for card in cards),) if cards else ())
        self._apply(self.counts.judged(before, replace(before, phase=phase, not_admitted=refused)))

    def refuse(self, *cards: str, times: int = 1, **more: bool) -> None:
        for _ in range(times):
            self.pod("Failed", *cards, refused=True, **more)

    @property
    def now(self) -> Node:
        found = self.world.node(node().name)
        assert found is not None
        return found


def test_three_in_a_row_and_the_node_gets_nothing_more() -> None:
    story = Story()
    story.refuse(times=2)
    assert not story.now.refusing
    story.refuse()
    assert story.now.refusing


def test_one_that_is_taken_in_between_begins_anew() -> None:
    story = Story()
    story.refuse(times=2)
    story.pod("Running")
    story.refuse(times=2)
    assert not story.now.refusing


def test_one_without_devices_proves_nothing_about_devices() -> None:
    story = Story()
    story.refuse(times=2)
    story.pod("Running", devices=False)
    story.refuse()
    assert story.now.refusing


@pytest.mark.parametrize("what", [{"refused": False}, {"refused": True, "ours": False}])
def test_failures_of_other_kinds_do_not_count(what: dict[str, bool]) -> None:
    story = Story()
    for _ in range(5):
        story.pod("Failed", **what)
    assert not story.now.refusing


def test_the_same_pod_counts_once() -> None:
    story = Story()
    pod = replace(make_pod("p", {GPU: 1}, node="n"), phase="Failed", not_admitted=True)
    for _ in range(5):
        assert story.counts.judged(pod, replace(pod, priority=1)) is None


def test_a_card_is_counted_by_itself() -> None:
    story = Story()
    for _ in range(3):
        story.refuse("g0")
        story.pod("Running", "g1")
    assert not story.now.refusing
    assert [card.trouble for card in story.now.cards or ()] == [Trouble.REFUSED, Trouble.NONE]
    story.pod("Running", "g1")
    assert (story.now.cards or ())[0].trouble is Trouble.REFUSED


CHANGES = {
    "health": {"cards": (replace(CARDS[0], trouble=Trouble.UNHEALTHY), CARDS[1])},
    "a card less": {"cards": CARDS[:1]},
    "what it has": {"allocatable": (("cpu", 1), (GPU, 3), ("pods", 110))},
    "readiness": {"ready": False},
    "a cordon": {"unschedulable": True},
    "a taint": {"taints": (Taint("a", "", "NoSchedule"),)},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_report_of_a_change_lets_it_be_tried_again(change: dict[str, object]) -> None:
    story = Story()
    story.refuse("g0", times=3)
    assert story.now.refusing
    story.see(replace(node(), **change))  # type: ignore[arg-type]
    assert not story.now.refusing
    assert all(card.trouble is not Trouble.REFUSED for card in story.now.cards or ())
    story.refuse(times=2)
    assert not story.now.refusing


def test_labels_are_no_report() -> None:
    story = Story()
    story.refuse(times=3)
    story.see(node(labels={"timestamp": "1"}))
    assert story.now.refusing
    assert story.now.labels == {"timestamp": "1"}


def test_a_node_that_came_anew_has_no_past() -> None:
    story = Story()
    story.refuse(times=2)
    story.counts.gone(node().name)
    story.refuse()
    assert not story.now.refusing
