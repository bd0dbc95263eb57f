"""Overcommitted nodes are named, whoever bound last."""

from __future__ import annotations

import dataclasses

import pytest

from extender.core import messages
from extender.core.world import World
from tests.builders import GPU, gpu_node, make_pod

CASES = {
    "a full node is not overcommitted": ((("muster", 8),), []),
    "foreign pods alone are not our matter": ((("default-scheduler", 9),), []),
    "a foreign pod on top of ours is": ((("muster", 8), ("default-scheduler", 1)), ["gpu-0"]),
    "ours alone would be": ((("muster", 5), ("muster", 5)), ["gpu-0"]),
}


@pytest.mark.parametrize(("pods", "want"), CASES.values(), ids=CASES.keys())
def test_overcommitted_nodes_with_pods_of_ours_are_named(pods: tuple[tuple[str, int], ...], want: list[str]) -> None:
    world = World()
    for name in ("gpu-0", "gpu-1"):
        world.apply(messages.NodeSeen(gpu_node(name)))
    for number, (scheduler, gpus) in enumerate(pods):
        pod = dataclasses.replace(make_pod(f"p{number}", {GPU: gpus}, scheduler=scheduler), node="gpu-0")
        world.apply(messages.PodSeen(pod))
    assert world.overcommitted() == want
