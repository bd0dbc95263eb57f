"""The queue tree: positions, faults that stay where they are, refusals, and guarantees that can be kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core.ids import Source
from extender.core.model import Queue
from extender.core.quota import Fault, Shortfall, Tree, grants
from extender.core.reasons import Reason
from tests.builders import GPU, make_queue


def tree(*queues: Queue) -> Tree:
    return Tree({queue.name: queue for queue in queues})


def child(name: str, parent: str, **fields: Any) -> Queue:
    return make_queue(name, parent=parent, **fields)


def guarantee(name: str, gpus: int, parent: str | None = None, **fields: Any) -> Queue:
    return make_queue(name, parent=parent, guarantee=((GPU, gpus),), **fields)


def faults(of: Tree) -> dict[str, Fault]:
    return {name: at.blame.fault for name in of.downwards if (at := of.at(name)) and at.blame}


def test_default_is_always_there_and_takes_everybody() -> None:
    found = tree()
    assert found.refusal("default", "team") is None
    assert found.admitting == {"default"}


def test_paths_lead_up_and_only_leaves_admit() -> None:
    found = tree(make_queue("a"), child("b", "a"), child("c", "b"), child("d", "b"))
    assert found.path("c") == ("c", "b", "a")
    assert found.path("nobody") == ("nobody",)
    assert found.admitting == {"default", "c", "d"}
    assert found.roots == ("a", "default")
    assert found.downwards == ("a", "default", "b", "c", "d")


def test_a_tree_may_be_deep() -> None:
    chain = [make_queue("q0"), *(child(f"q{n}", f"q{n - 1}") for n in range(1, 1500))]
    assert len(tree(*reversed(chain)).path("q1499")) == 1500


@pytest.mark.parametrize(
    ("queues", "want"),
    [
        pytest.param([child("a", "a")], {"a": Fault.CYCLE}, id="a queue above itself"),
        pytest.param(
            [child("a", "b"), child("b", "c"), child("c", "a"), child("d", "a"), make_queue("e")],
            {"a": Fault.CYCLE, "b": Fault.CYCLE, "c": Fault.CYCLE, "d": Fault.ABOVE},
            id="three in a ring and one below",
        ),
        pytest.param(
            [child("a", "ghost"), child("b", "a"), child("c", "b")],
            {"a": Fault.NO_PARENT, "b": Fault.ABOVE, "c": Fault.ABOVE},
            id="a parent that there is not",
        ),
        pytest.param(
            [make_queue("a", problems=("spec.weight: -1",)), child("b", "a"), child("c", "default")],
            {"a": Fault.SPEC, "b": Fault.ABOVE},
            id="a field that cannot be read",
        ),
        pytest.param(
            [make_queue("a", source=Source.VOLCANO, parent="root"), child("b", "root")],
            {"b": Fault.NO_PARENT},
            id="Volcano's root may be implied, by Volcano's queues",
        ),
        pytest.param([make_queue("a", source=Source.VOLCANO, parent="dept")], {"a": Fault.NO_PARENT}, id="Volcano's"),
    ],
)
def test_each_fault_has_its_name_and_stays_below(queues: list[Queue], want: dict[str, Fault]) -> None:
    found = tree(*queues)
    assert faults(found) == want
    for queue in queues:
        refusal = found.refusal(queue.name, "team")
        assert (refusal is not None and refusal.reason is Reason.QUEUE_INVALID) == (queue.name in want)


def test_volcano_s_root_is_a_queue_like_others_where_it_exists() -> None:
    found = tree(
        make_queue("root", source=Source.VOLCANO),
        make_queue("a", source=Source.VOLCANO, parent="root"),
        make_queue("b"),
    )
    assert (found.path("a"), found.path("b"), faults(found)) == (("a", "root"), ("b",), {})


@pytest.mark.parametrize(
    ("name", "reason", "detail"),
    [
        pytest.param("fine", None, (), id="an open leaf that serves the namespace"),
        pytest.param("mistyped", Reason.QUEUE_NOT_FOUND, (("queue", "mistyped"),), id="unknown"),
        pytest.param("dept", Reason.QUEUE_NOT_LEAF, (("queue", "dept"), ("below", "fine")), id="inner"),
        pytest.param("shut", Reason.QUEUE_CLOSED, (("queue", "shut"), ("closed", "shut")), id="closed"),
        pytest.param("under", Reason.QUEUE_CLOSED, (("queue", "under"), ("closed", "above")), id="closed above"),
        pytest.param("theirs", Reason.NAMESPACE, (("queue", "theirs"), ("namespace", "team")), id="for others"),
        pytest.param("below", Reason.NAMESPACE, (("queue", "their-dept"), ("namespace", "team")), id="others', above"),
        pytest.param(
            "orphan",
            Reason.QUEUE_INVALID,
            (("queue", "orphan"), ("blamed", "lost"), ("problem", "there is no queue ghöst")),
            id="an unknown one above",
        ),
    ],
)
def test_who_is_refused_and_why(name: str, reason: Reason | None, detail: tuple) -> None:
    found = tree(
        make_queue("dept"),
        child("fine", "dept", namespaces=frozenset({"team", "other"})),
        make_queue("shut", closed=True),
        make_queue("above", closed=True),
        child("under", "above"),
        make_queue("theirs", namespaces=frozenset()),
        make_queue("their-dept", namespaces=frozenset({"other"})),
        child("below", "their-dept"),
        child("lost", "ghöst"),
        child("orphan", "lost"),
    )
    refusal = found.refusal(name, "team")
    assert (refusal and refusal.reason, refusal.detail if refusal else ()) == (reason, detail)


# --- guarantees --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queues", "kept", "short"),
    [
        pytest.param([guarantee("a", 8), guarantee("b", 4)], {"a": 8, "b": 4}, {}, id="there is enough"),
        pytest.param(
            [guarantee("a", 12), guarantee("b", 8)],
            {"a": 12, "b": 4},
            {"b": (Shortfall.CLUSTER, GPU, 8, 4)},
            id="more than the cluster has, by name",
        ),
        pytest.param(
            [guarantee("a", 12), guarantee("b", 8, priority=1)],
            {"a": 8, "b": 8},
            {"a": (Shortfall.CLUSTER, GPU, 12, 8)},
            id="more than the cluster has, by priority",
        ),
        pytest.param(
            [make_queue("a"), guarantee("b", 4, "a"), guarantee("c", 2, "a")],
            {"a": 6, "b": 4, "c": 2},
            {},
            id="a queue that names none has the sum of those below",
        ),
        pytest.param(
            [guarantee("a", 5), guarantee("b", 4, "a"), guarantee("c", 2, "a")],
            {"a": 5, "b": 4, "c": 1},
            {"c": (Shortfall.PARENT, GPU, 2, 1)},
            id="more than the queue above",
        ),
        pytest.param(
            [make_queue("a", capability=((GPU, 3),)), guarantee("b", 4, "a")],
            {"a": 3, "b": 3},
            {"b": (Shortfall.PARENT, GPU, 4, 3)},
            id="more than the cap of the queue above",
        ),
        pytest.param(
            [make_queue("a"), guarantee("b", 20, "a")],
            {},
            {"b": (Shortfall.CLUSTER, GPU, 20, 0)},
            id="alone more than the cluster, in a queue below",
        ),
        pytest.param(
            [make_queue("a"), guarantee("b", 20, "a"), guarantee("c", 2, "a"), guarantee("d", 16)],
            {"a": 2, "c": 2, "d": 14},
            {"b": (Shortfall.CLUSTER, GPU, 20, 0), "d": (Shortfall.CLUSTER, GPU, 16, 14)},
            id="what cannot be kept takes nothing from others",
        ),
        pytest.param(
            [guarantee("a", 4, capability=((GPU, 2),))],
            {"a": 2},
            {"a": (Shortfall.CAPABILITY, GPU, 4, 2)},
            id="more than its own cap",
        ),
        pytest.param([guarantee("a", 4, "ghost"), guarantee("b", 14)], {"b": 14}, {}, id="nothing for a faulty queue"),
        pytest.param(
            [make_queue("a", guarantee=(("example.com/none", 1),))],
            {},
            {"a": (Shortfall.CLUSTER, "example.com/none", 1, 0)},
            id="of what nobody has",
        ),
    ],
)
def test_guarantees_are_kept_as_far_as_they_can_be(queues: list[Queue], kept: dict, short: dict) -> None:
    found = grants(tree(*queues), {GPU: 16})
    assert found.kept == {name: {GPU: amount} for name, amount in kept.items()}
    assert found.short == short


names = st.sampled_from(("a", "b", "c", "d", "e"))
any_queues = st.lists(
    st.builds(
        lambda name, parent, gpus, cap, priority: make_queue(
            name,
            parent=parent,
            guarantee=() if gpus is None else ((GPU, gpus),),
            capability=() if cap is None else ((GPU, cap),),
            priority=priority,
        ),
        names,
        st.none() | names | st.just("ghost"),
        st.none() | st.integers(0, 9),
        st.none() | st.integers(0, 9),
        st.integers(0, 1),
    ),
    max_size=6,
)


@given(any_queues, st.integers(0, 20))
def test_what_is_kept_fits_at_every_level(queues: list[Queue], total: int) -> None:
    found = tree(*queues)
    kept = {name: amounts.get(GPU, 0) for name, amounts in grants(found, {GPU: total}).kept.items()}
    assert sum(kept.get(name, 0) for name in found.roots) <= total
    for name in found.downwards:
        at = found.at(name)
        assert at is not None
        assert sum(kept.get(below, 0) for below in at.children) <= kept.get(name, 0)
        assert kept.get(name, 0) <= at.capability.get(GPU, total)
        assert at.path == (name, *(found.path(at.path[1]) if len(at.path) > 1 else ()))
        assert all(found.path(below) == (below, *at.path) for below in at.children)
