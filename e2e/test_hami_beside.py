"""Beside HAMi's own extender: its filter chooses cards, and the gate leaves the bindings of its pods to it.

Both HAMi's extender and its device plugin are played, and note whatever the real ones would have stumbled over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e import fake_hami, fake_hami_scheduler, kube
from e2e.cluster import muster
from e2e.scenes import Scene
from e2e.test_hami import CARDS, CORES, MEMORY, shares, wait_phases, wait_unlocked

MakeNodes = Callable[..., list[str]]


@pytest.fixture
def scene(kube: kube.Kube, beside: muster.Replica, namespace: str) -> Scene:
    stage = Scene(kube, beside, namespace)
    stage.wait_open()
    return stage


@pytest.fixture
def plugin(kube: kube.Kube, make_nodes: MakeNodes, hami: fake_hami_scheduler.Extender) -> Iterator[fake_hami.Plugin]:
    """A node of two cards with its plugin, known to HAMi's extender."""
    one = fake_hami.Plugin(kube, make_nodes(1, 0, kwok=False), CARDS)
    hami.serve(one)
    one.start()
    yield one
    one.stop()
    assert one.faults + hami.faults == []


def test_a_gang_starts_whole_on_the_cards_that_hami_chose(
    scene: Scene, plugin: fake_hami.Plugin, hami: fake_hami_scheduler.Extender
) -> None:
    """Two members fit on one card. For a group whose mark it does not know HAMi does not wait for its lock."""
    scene.group("g", 3)
    scene.gang("g", 2, extended={MEMORY: 8000, CORES: 40})
    scene.pod("plain-0", 0)
    scene.wait_bound("plain", 1)
    assert (scene.bound("g"), hami.asked) == ({}, [])
    scene.gang("g", 1, first=2, extended={MEMORY: 8000, CORES: 40})
    wait_phases(scene, g_0="Running", g_1="Running", g_2="Running")
    assert sorted(hami.bound) == ["g-0", "g-1", "g-2"]
    cards = [card for number in range(3) for card in shares(scene, f"g-{number}")]
    assert sorted(map(cards.count, set(cards))) == [1, 2]
    wait_unlocked(plugin)
    scene.wait_sound()


def test_what_hami_cannot_bind_is_tried_again(
    scene: Scene, plugin: fake_hami.Plugin, hami: fake_hami_scheduler.Extender
) -> None:
    """More often than the gate asks again at once: the scheduler starts over, and HAMi's filter chooses anew."""
    hami.failing = 4
    scene.pod("p", extended={MEMORY: 8000})
    wait_phases(scene, p="Running")
    assert hami.asked.count("p") == 5
    wait_unlocked(plugin)
