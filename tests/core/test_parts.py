"""Which parts of its group a pod belongs to, and where those go whose predecessors are gone."""

from __future__ import annotations

from extender.core.homes import REMEMBERED, Homes
from extender.core.ids import TaskName
from extender.core.model import Expression, Part, PartRule
from extender.core.parts import parts_of, undivided
from tests.builders import group_key, make_pod

RACK = Part("rack", "podset w")


def test_without_rules_the_pods_own_parts_count() -> None:
    assert parts_of(make_pod(parts=(RACK,)), ()) == (RACK,)


def test_rules_of_the_object_go_before_what_the_pod_says() -> None:
    rules = (PartRule("host", TaskName("ps")), PartRule("rack", TaskName("w"), size=4))
    ps = make_pod(task="ps", parts=(RACK,))
    assert parts_of(ps, rules) == (Part("host", "0"),)
    found = [parts_of(make_pod(task="w", index=index), rules) for index in ((3,), (4,), (1, 4), ())]
    assert found == [(Part("rack", f"1/{name}", True),) for name in ("0", "1", "1/1", "-")]
    assert parts_of(make_pod(task="x", parts=(RACK,)), rules) == (RACK,)
    assert undivided((*found[0], *parts_of(ps, rules))) == (Part("host", "0"),)


def test_labels_divide() -> None:
    rule = PartRule("tier", None, (Expression("role", "In", ("a",)),), ("partition",))
    pods = [make_pod(labels=(("partition", "7"), ("role", role))) for role in "ab"]
    assert [parts_of(pod, (rule,)) for pod in pods] == [(Part("tier", "0/7", True),), ()]
    assert parts_of(make_pod(labels=(("role", "a"),)), (rule,)) == (Part("tier", "0/", True),)


def test_places_are_remembered_by_task_and_index_the_newest_last() -> None:
    homes, key = Homes(), group_key("train")
    old = make_pod("w-1", group="train", task="w", index=(1,), node="a")
    homes.left(old)
    homes.left(make_pod("w-2", group="train", task="w", index=(2,), node="b"))
    homes.left(make_pod("lone", node="c"))
    homes.left(make_pod("waits", group="train", task="w", index=(3,)))
    homes.left(make_pod("done", group="train", task="w", index=(4,), node="d", phase="Succeeded"))
    assert homes.of(key, ()) == {("w", (1,)): "a", ("w", (2,)): "b"}
    leaving = make_pod("w-1b", group="train", task="w", index=(1,), node="e")
    assert homes.of(key, (leaving,))["w", (1,)] == "e"
    homes.left(leaving)
    assert homes.of(key, ())["w", (1,)] == "e"
    homes.forget(key)
    assert homes.of(key, ()) == {}


def test_what_is_remembered_is_bounded() -> None:
    homes = Homes()
    for number in range(REMEMBERED + 5):
        homes.left(make_pod(f"w-{number}", group="train", index=(number,), node=f"n{number}"))
    found = homes.of(group_key("train"), ())
    assert len(found) == REMEMBERED
    assert ("", (4,)) not in found
