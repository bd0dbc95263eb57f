"""What is answered of evictions: of groups and pods that are there, and of those that are gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from extender.core import messages
from extender.core.reasons import Evicted, Ground
from tests import builders
from tests.web.asking import API, NOW, TABLE, World


def leave(world: World, name: str, **fields: Any) -> None:
    """A pod that ran is drained, and gone."""
    pod = builders.bound(builders.make_pod(name, **fields), "n", NOW - 60)
    world.see(pod, replace(pod, terminating=True, evicted=Evicted(Ground.API, NOW)))
    world.engine.handle(messages.PodGone(pod.uid), NOW)


async def test_evictions_are_told_of_a_group_and_of_pods_that_are_gone(world, reader):
    world.see(builders.make_node("n"), builders.make_group("train", 2))
    for name, fields in (
        ("t-0", {"group": "train"}),
        ("t-1", {"group": "train"}),
        ("solo", {}),
        ("m-0", {"group": "m"}),
    ):
        leave(world, name, **fields)
    status = (await reader.get("namespaces/team/workloads/muster:train"))["status"]
    (told,) = status["evictions"]
    assert (status["phase"], told["rule"], told["pods"], told["at"]) == (
        *("Pending", "EvictionByEvictionAPI", 2, "1970-01-12T13:46:40Z"),
    )
    numbers = "node n, evicted 2, lost-seconds 120, checkpoint none"
    assert told["message"] == f"not by Muster: somebody evicted it, as a drain of its node does ({numbers})"
    gone = {"pod:t-1": "muster:train", "pod:solo": None, "muster:m": None, "pod:m-0": "muster:m"}
    for name, group in gone.items():
        found = await reader.get(f"namespaces/team/workloads/{name}")
        assert found["metadata"]["name"] == name
        assert (found["status"]["phase"], found["status"].get("group")) == ("Gone", group)
        assert len(found["status"]["evictions"]) == 1
        _, table, _ = await reader.ask(f"{API}/namespaces/team/workloads/{name}", Accept=TABLE)
        assert table["rows"][0]["cells"][:2] == [name, "Gone"]
    assert [one["metadata"]["name"] for one in (await reader.get("workloads"))["items"]] == ["muster:train"]
    for path in ("other/workloads/pod:solo", "team/workloads/native:solo", "team/workloads/pod:t-2"):
        assert await reader.refused(f"namespaces/{path}") == (404, "NotFound")


async def test_a_pod_that_is_there_again_is_told_of_as_it_is_with_the_evictions_of_its_name(world, reader):
    world.see(builders.make_node("n"))
    for name, fields in (("solo", {}), ("t-0", {"group": "t"})):
        leave(world, name, **fields)
        world.see(builders.make_pod(name, uid=f"new-{name}", **fields))
    status = (await reader.get("namespaces/team/workloads/pod:solo"))["status"]
    assert (status["phase"], len(status["evictions"])) == ("Pending", 1)
    assert await reader.refused("namespaces/team/workloads/pod:t-0") == (404, "NotFound")
