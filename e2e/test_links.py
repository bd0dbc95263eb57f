"""Links between the GPUs of a node under the real kube-scheduler: who asks for two gets two that are joined."""

from __future__ import annotations

import json
from collections.abc import Callable

from e2e import waiting
from e2e.scenes import SOON, Scene

MakeNodes = Callable[..., list[str]]
ANNOTATION = "muster.dev/gpu-topology"
#: as `nvidia-smi topo -m` has them on machines with NVLink bridges, and without
PAIRS = [["X", "NV4", "SYS", "SYS"], ["NV4", "X", "SYS", "SYS"], ["SYS", "SYS", "X", "NV4"], ["SYS", "SYS", "NV4", "X"]]
APART = [["X" if row == column else "SYS" for column in range(4)] for row in range(4)]


def test_two_gpus_are_joined_though_another_node_is_fuller(scene: Scene, make_nodes: MakeNodes) -> None:
    apart, joined = make_nodes(2, 4)
    for node, links in ((apart, APART), (joined, PAIRS)):
        told = {ANNOTATION: json.dumps({"version": 1, "links": links})}
        scene.kube.patch("nodes", node, {"metadata": {"annotations": told}})
    scene.fill(apart, 2)
    scene.fill(joined, 1, "other")
    scene.pod("pair", 2)
    found = waiting.wait_for(lambda: scene.bound().get("pair", ""), SOON, "the pair is bound")
    assert found == joined
    scene.wait_sound()
