"""Beside HAMi's own extender: its filter chooses cards, and the gate leaves the bindings of its pods to it.

Both HAMi's extender and its device plugin are played, and note whatever the real ones would have stumbled over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e import fake_hami, fake_hami_scheduler, kube
from e2e.cluster import base, manifests, muster
from e2e.scenes import Scene
from e2e.test_hami import CARDS, CORES, MEMORY, shares, wait_phases, wait_unlocked

MakeNodes = Callable[..., list[str]]


@pytest.fixture(scope="module")
def hami(cluster: base.Cluster) -> Iterator[fake_hami_scheduler.Extender]:
    """HAMi's extender, which knows no plugin yet."""
    extender = fake_hami_scheduler.Extender(cluster.kube)
    yield extender
    extender.stop()


@pytest.fixture(scope="module")
def beside(
    cluster: base.Cluster,
    installed: manifests.Manifests,
    _replica: muster.Replica,
    hami: fake_hami_scheduler.Extender,
) -> Iterator[muster.Replica]:
    """A replica for this file, with HAMi's extender behind ours."""
    _replica.stop()
    options = muster.ReplicaOptions(extenders=[hami.entry()], arguments={"gate": ["--hami", hami.url]})
    with muster.Replica(cluster, installed, options) as replica:
        replica.wait_active()
        yield replica


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
