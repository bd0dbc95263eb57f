"""MIG devices and cliques of NVLink under the real kube-scheduler: profiles are resources of their own."""

from __future__ import annotations

from collections.abc import Callable

from e2e import waiting
from e2e.scenes import SOON, Scene

MakeNodes = Callable[..., list[str]]
SMALL, LARGE = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"
STATE, CLIQUE = "nvidia.com/mig.config.state", "nvidia.com/gpu.clique"


def test_profiles_are_pools_of_their_own_and_a_node_that_is_cut_anew_gets_nothing(
    scene: Scene, make_nodes: MakeNodes, queue: str
) -> None:
    (settled,) = make_nodes(1, 0, extended={SMALL: 2, LARGE: 1}, labels={STATE: "success"})
    (pending,) = make_nodes(1, 0, extended={SMALL: 7, LARGE: 2}, labels={STATE: "pending"})
    scene.kube.patch("queues.muster.dev", queue, {"spec": {"capability": {SMALL: 3, LARGE: 9}}})
    scene.group("train", 3, queue=queue)
    scene.gang("train", 3, 0, extended={SMALL: 1}, queue=queue)
    scene.wait_says("train", "NodeUnavailable")  # with the node that is being cut it would fit
    # another profile has room there all the while
    scene.pod("large", 0, extended={LARGE: 1}, queue=queue)
    waiting.wait_for(lambda: scene.bound().get("large"), SOON, "the large one is bound", until=lambda on: on == settled)
    scene.kube.patch("nodes", pending, {"metadata": {"labels": {STATE: "success"}}})
    assert set(scene.wait_whole("train", 3).values()) <= {settled, pending}
    # a fourth would be above what the queue may have of this profile, though there is room
    scene.group("more", 1, queue=queue)
    scene.gang("more", 1, 0, extended={SMALL: 1}, queue=queue)
    scene.wait_says("more", "QuotaExceeded")
    scene.wait_sound()


def test_a_gang_that_prefers_nothing_stands_in_one_clique(scene: Scene, make_nodes: MakeNodes) -> None:
    cliques = {name: clique for clique in ("a.0", "b.0") for name in make_nodes(2, 2, labels={CLIQUE: clique})}
    first = next(iter(cliques))
    scene.fill(first, 1)
    scene.group("train", 4)
    scene.gang("train", 4)
    assert {cliques[node] for node in scene.wait_whole("train", 4).values()} == {"b.0"}
