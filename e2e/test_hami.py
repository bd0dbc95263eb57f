"""Shares of cards on the real control plane: Bindings carry them under the node's lock, HAMi's plugin hands them out.

The plugin and the kubelet are played (`fake_hami`); it notes whatever the real ones would have stumbled over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e import fake_hami, kube, waiting
from e2e.fake_hami import LOCK, Card, Plugin
from e2e.scenes import SOON, Scene

MakeNodes = Callable[..., list[str]]
MakePlugin = Callable[..., Plugin]
CARDS = (Card("GPU-0"), Card("GPU-1"))
MEMORY, CORES = "nvidia.com/gpumem", "nvidia.com/gpucores"
#: the plugin of a real node takes the lock away within 20 ms; ours asks the API server for everything
SERVED_WITHIN = 30.0


@pytest.fixture
def plugin(kube: kube.Kube, make_nodes: MakeNodes) -> Iterator[MakePlugin]:
    """A function that makes nodes with cards, and their plugin."""
    made: list[Plugin] = []

    def make(nodes: int = 1, cards: tuple[Card, ...] = CARDS, form: str = "json") -> Plugin:
        one = Plugin(kube, make_nodes(nodes, 0, kwok=False), cards, form)
        made.append(one)
        one.start()
        return one

    yield make
    for one in made:
        one.stop()
    assert [fault for one in made for fault in one.faults] == []


def shares(scene: Scene, name: str) -> list[str]:
    """The cards in a pod's annotation."""
    notes = scene.kube.get("pods", name, scene.namespace)["metadata"]["annotations"]
    return [text.split(",")[0] for text in notes[fake_hami.ALLOCATED].replace(";", "").split(":") if text]


def phases(scene: Scene) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in scene.pods()}


def wait_phases(scene: Scene, **want: str) -> None:
    named = {name.replace("_", "-"): phase for name, phase in want.items()}
    waiting.wait_for(lambda: phases(scene), SERVED_WITHIN, str(named), until=lambda found: {**found, **named} == found)


def wait_unlocked(plugin: Plugin) -> None:
    waiting.wait_for(
        lambda: [plugin.lock_of(node) for node in plugin.nodes], SOON, "no lock", until=lambda locks: not any(locks)
    )


@pytest.mark.parametrize("form", ["json", "7", "9"])
def test_pods_that_ask_for_all_cores_get_different_cards(scene: Scene, plugin: MakePlugin, form: str) -> None:
    node = plugin(form=form)
    whole = {MEMORY: 16000, CORES: 100}
    scene.pod("x", extended=whole)
    scene.pod("y", extended=whole)
    wait_phases(scene, x="Running", y="Running")
    assert sorted(shares(scene, "x") + shares(scene, "y")) == ["GPU-0", "GPU-1"]
    scene.pod("z", extended={MEMORY: 300})
    scene.wait_text("z", "no card has the memory and cores")
    scene.delete("x")
    wait_phases(scene, z="Running")
    assert shares(scene, "z") != shares(scene, "y")
    wait_unlocked(node)
    scene.wait_sound()


def test_three_members_on_one_node_are_bound_one_after_the_other_under_its_lock(
    scene: Scene, plugin: MakePlugin
) -> None:
    node = plugin()
    node.slow.set()
    scene.group("g", 3)
    scene.gang("g", 3, extended={MEMORY: 4000, CORES: 10})
    scene.wait_bound("g", 1)
    # the lock is the first one's until its kubelet has asked for its devices
    first = next(iter(scene.bound("g")))
    assert node.lock_of(node.nodes[0]).split(",")[1:] == [scene.namespace, first]
    node.slow.clear()
    wait_phases(scene, g_0="Running", g_1="Running", g_2="Running")
    assert [locked.split(",")[2] for _, locked in node.served] == [name for name, _ in node.served]
    assert len({tuple(shares(scene, f"g-{n}")) for n in range(3)}) == 1  # they stand together on one card
    wait_unlocked(node)
    scene.wait_whole("g", 3)
    scene.wait_sound()


def test_containers_and_their_order_are_kept(scene: Scene, plugin: MakePlugin) -> None:
    node = plugin()
    gpus = {"nvidia.com/gpu": "2", MEMORY: "1000"}
    containers = [
        {"name": "side", "image": "none.invalid/none"},
        {"name": "main", "image": "none.invalid/none", "resources": {"limits": gpus}},
    ]
    # it ends before the others start, so it may have the whole of a card that they have parts of
    first = {"name": "first", "image": "none.invalid/none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    scene.pod("p", spec={"initContainers": [first], "containers": containers})
    wait_phases(scene, p="Running")
    notes = scene.kube.get("pods", "p", scene.namespace)["metadata"]["annotations"]
    wanted = "GPU-0,NVIDIA,16384,0:;;GPU-0,NVIDIA,1000,0:GPU-1,NVIDIA,1000,0:;"
    assert notes[fake_hami.ALLOCATED] == wanted
    assert notes[fake_hami.PHASE] == "success"
    wait_unlocked(node)


def test_a_lock_that_a_gone_pod_left_behind_is_taken(scene: Scene, plugin: MakePlugin) -> None:
    node = plugin()
    left = "2026-01-01T00:00:00Z,nowhere,gone"
    scene.kube.patch("nodes", node.nodes[0], {"metadata": {"annotations": {LOCK: left}}})
    scene.pod("p", extended={MEMORY: 100})
    wait_phases(scene, p="Running")
    wait_unlocked(node)


def test_a_node_that_refuses_three_pods_gets_nothing_until_it_reports_a_change(
    scene: Scene, plugin: MakePlugin
) -> None:
    node = plugin()
    node.failing = 3
    for number in range(3):
        scene.pod(f"p{number}", extended={MEMORY: 100})
        wait_phases(scene, **{f"p{number}": "Failed"})
    wait_unlocked(node)
    scene.pod("p3", extended={MEMORY: 100})
    scene.wait_text("p3", "take no pods now")
    node.set_health(node.nodes[0], "GPU-1", False)
    wait_phases(scene, p3="Running")
    assert shares(scene, "p3") == ["GPU-0"]
    scene.wait_sound()


def test_an_ill_card_is_not_given(scene: Scene, plugin: MakePlugin) -> None:
    node = plugin()
    node.set_health(node.nodes[0], "GPU-0", False)
    scene.pod("a", extended={CORES: 100})
    wait_phases(scene, a="Running")
    assert shares(scene, "a") == ["GPU-1"]
    scene.pod("b", extended={CORES: 100})
    scene.wait_text("b", "cards on which there would be room are out of use")
    node.set_health(node.nodes[0], "GPU-0", True)
    wait_phases(scene, b="Running")
    assert shares(scene, "b") == ["GPU-0"]
