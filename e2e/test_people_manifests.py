"""Manifests that people run, each played: it starts as the gang that its author meant, no sooner and no smaller.

What was meant stands in tests/golden/manifests, reviewed by hand. Every file asks for a resource of its own. With one
piece less than its minimum nothing of it starts; with its minimum so many; with enough for all, all.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from e2e import kube as kube_module
from e2e import objects, waiting
from e2e.cluster import jobs, manifests
from e2e.owners import Maker
from e2e.scenes import Scene

GOLDEN = manifests.ROOT / "tests" / "golden" / "manifests"
SHARED = manifests.ROOT.parent / "shared"
#: folders whose pods stand alone for the cards that they ask for
WITHOUT_JOBS = ("hami", "mig")
#: files that mean no start: Volcano's own webhook denies them, or their executors name a group that nobody makes
NO_START = (
    "invalid_jobs__duplicatedPolicyEvent-webhook-deny.yaml",
    "invalid_jobs__duplicatedTaskName-webhook-deny.yaml",
    "invalid_jobs__minAvailable-webhook-deny.yaml",
    "kubecon-2019-china__spark-sample__spark-pi.yaml",
)
#: labels by which these manifests name levels
LEVELS = {
    "cloud.provider.com/topology-block": "b",
    "cloud.provider.com/topology-rack": "r",
    "topology.volcano.sh/tier-1": "t1",
    "topology.volcano.sh/tier-2": "t2",
}
DEADLINE = 60.0


@dataclasses.dataclass(frozen=True)
class Meant:
    """What the author of a file meant."""

    path: pathlib.Path
    #: of each group the minimum; 1 of a pod that stands alone
    minimums: tuple[int, ...]
    pods: int
    queues: frozenset[str]

    @property
    def least(self) -> int:
        """So many pieces of room let something of it start."""
        return min(self.minimums)

    @property
    def starts(self) -> bool:
        """Whether it has as many pods as it wants together."""
        return self.pods >= max(self.minimums)


def meant_in(folder: pathlib.Path, golden: str) -> list[Meant]:
    """The files of a folder that make pods."""
    read: dict[str, list[dict[str, Any]]] = yaml.safe_load((GOLDEN / f"{golden}.yaml").read_text())
    found = []
    for name, results in read.items():
        path = folder / name.rpartition("/")[2]
        pods = sum(_pods(one) for one in results)
        if pods and path.name not in NO_START:
            least = tuple(one.get("minimum", 1) for one in results for _ in range(one.get("alone", 1)))
            found.append(Meant(path, least, pods, frozenset(one["queue"] for one in results)))
    return found


def _pods(result: dict[str, Any]) -> int:
    return int(result.get("alone", 0)) + sum(task["pods"] for task in result.get("tasks", ()))


@functools.cache
def objects_of(path: pathlib.Path) -> list[dict[str, Any]]:
    """The objects of a file; guides show pods without saying that they are."""
    if path.suffix not in (".yaml", ".yml"):
        return []
    return [{"apiVersion": "v1", "kind": "Pod"} | one for one in yaml.safe_load_all(path.read_text()) if one]


@pytest.fixture(scope="module")
def shared() -> pathlib.Path:
    """The folder `shared` beside the repository. In CI it must be there."""
    if not SHARED.is_dir():
        missing = "the folder `shared` is not beside the repository"
        if os.environ.get("CI", "").lower() not in ("", "0", "false"):
            pytest.fail(f"{missing}, and CI is set: it must be there in CI")
        pytest.skip(missing)
    return SHARED / "data" / "manifests"


@pytest.fixture(scope="module")
def _queue(kube: kube_module.Kube) -> Iterator[None]:
    """The queue that some of Volcano's examples name."""
    kube.create(objects.queue("test"))
    yield
    kube.delete("queues.muster.dev", "test")


@pytest.fixture
def play(
    kube: kube_module.Kube,
    scene: Scene,
    make_nodes: Callable[..., list[str]],
    controller: jobs.Controller,
    _queue: None,
) -> Callable[[list[Meant]], None]:
    """A function that plays files side by side."""

    def run(files: list[Meant]) -> None:
        named = {f"m{number}": meant for number, meant in enumerate(files)}
        (node,) = make_nodes(1, gpus=8, labels=LEVELS, pods=2000)
        give(kube, node, {name: meant.least - 1 for name, meant in named.items()})
        makers = {}
        for name, meant in named.items():
            # what one file names, such as a runtime, may stand in another of its folder
            known = [obj for path in sorted(meant.path.parent.iterdir()) for obj in objects_of(path)]
            makers[name] = Maker(kube, scene.namespace, name, objects_of(meant.path), known)

        def wait(said: str, wanted: dict[str, int], count: Callable[[Maker], int]) -> None:
            """Wait until each has so many, told by files."""

            def wrong() -> dict[str, Any]:
                found = {name: count(makers[name]) for name in wanted}
                return {
                    f"{name} {named[name].path.name}": f"{found[name]}, not {wanted[name]}"
                    for name in wanted
                    if found[name] != wanted[name]
                }

            waiting.wait_for(wrong, DEADLINE, said, until=lambda left: not left)
            scene.pod(said.replace(" ", "-"))
            # when this one is bound, all that came before it was looked at
            waiting.wait_for(lambda: said.replace(" ", "-") in scene.bound(), DEADLINE, f"the pod after {said}")
            assert wrong() == {}

        starting = [name for name, meant in named.items() if meant.starts]
        waiting.wait_for(
            lambda: [
                f"{name} {meant.path.name}"
                for name, meant in named.items()
                if len(makers[name].pods()) < min(meant.least, meant.pods)
            ],
            DEADLINE,
            "the pods of all minimums are there",
            until=lambda left: not left,
        )
        wait("nothing starts", dict.fromkeys(named, 0), Maker.bound)
        plain = [name for name in starting if len(set(named[name].minimums)) == 1]
        give(kube, node, {name: named[name].least for name in plain})
        wait("minimums start", {name: named[name].least for name in plain}, Maker.bound)
        give(kube, node, {name: meant.pods for name, meant in named.items()})
        wait("all start", {name: meant.pods if meant.starts else 0 for name, meant in named.items()}, Maker.bound)
        scene.wait_sound()

    return run


def give(kube: kube_module.Kube, node: str, room: dict[str, int]) -> None:
    """So much room for each file on the node."""
    amounts = {f"example.com/{name}": str(amount) for name, amount in room.items()}
    status = {"status": {"allocatable": amounts, "capacity": amounts}}
    kube.patch("nodes", node, status, subresource="status")


def test_samples_start_as_their_authors_meant(play: Callable[[list[Meant]], None]) -> None:
    play(meant_in(GOLDEN / "samples", "samples"))


def test_shared_manifests_start_as_their_authors_meant(
    shared: pathlib.Path, play: Callable[[list[Meant]], None]
) -> None:
    folders = sorted(path.name for path in shared.iterdir() if path.name not in WITHOUT_JOBS)
    play([meant for name in folders for meant in meant_in(shared / name, name)])
