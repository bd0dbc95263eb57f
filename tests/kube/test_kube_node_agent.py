"""What the node agent writes to its node: the newest matrix, once, and nothing that it contradicts."""

from __future__ import annotations

import pathlib
from typing import Any

import kube_stub
import pytest
from kube_stub import fail, ok

from extender.kube import client
from extender.node_agent import agent
from extender.wire import gpu_topology

TEXT = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"
WANTED = gpu_topology.encode(gpu_topology.parse(TEXT))
NODE = "/api/v1/nodes/n1"


def matrix(folder: pathlib.Path, text: str = TEXT) -> pathlib.Path:
    path = folder / "topo"
    path.write_text(text)
    return path


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    return matrix(tmp_path)


def node(**annotations: str) -> dict[str, Any]:
    return {"metadata": {"name": "n1", "uid": "u", "annotations": annotations}}


async def once(api: client.Api, file: pathlib.Path) -> bool:
    return await agent.once(api, agent.Source(file, "nvidia-smi"), "n1")


@pytest.mark.parametrize("stands", [{}, {gpu_topology.ANNOTATION: "an old one"}], ids=["nothing", "another"])
async def test_a_node_that_says_otherwise_is_told(
    api: client.Api, stub: kube_stub.Stub, file: pathlib.Path, stands: dict[str, str]
) -> None:
    stub.on("GET", NODE, ok(node(**stands)))
    stub.on("PATCH", NODE, ok({}))
    assert await once(api, file)
    assert stub.asked[-1].body == {"metadata": {"uid": "u", "annotations": {gpu_topology.ANNOTATION: WANTED}}}


async def test_a_node_that_says_so_is_left_alone(api: client.Api, stub: kube_stub.Stub, file: pathlib.Path) -> None:
    stub.on("GET", NODE, ok(node(**{gpu_topology.ANNOTATION: WANTED})))
    assert await once(api, file)
    assert stub.verbs() == ["GET"]


async def test_a_matrix_that_is_refused_takes_the_old_one_away(
    api: client.Api, stub: kube_stub.Stub, tmp_path: pathlib.Path
) -> None:
    file = matrix(tmp_path, TEXT.replace("NV4", "NV0"))
    stub.on("GET", NODE, ok(node(**{gpu_topology.ANNOTATION: WANTED})))
    stub.on("PATCH", NODE, ok({}))
    assert await once(api, file)
    assert stub.asked[-1].body == {"metadata": {"uid": "u", "annotations": {gpu_topology.ANNOTATION: None}}}


async def test_what_cannot_be_read_changes_nothing_and_is_tried_again_soon(
    api: client.Api, stub: kube_stub.Stub, tmp_path: pathlib.Path
) -> None:
    assert not await once(api, tmp_path / "none")
    assert stub.asked == []


@pytest.mark.parametrize(
    "answer", [fail(404, "NotFound"), fail(403, "Forbidden"), fail(500)], ids=["gone", "no", "ill"]
)
async def test_a_node_that_cannot_be_read_is_tried_again_soon(
    api: client.Api, stub: kube_stub.Stub, file: pathlib.Path, answer: kube_stub.Answer
) -> None:
    stub.on("GET", NODE, answer)
    assert not await once(api, file)
