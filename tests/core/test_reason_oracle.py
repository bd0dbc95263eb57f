"""The reason of a group that waits is true, and so are its numbers: an oracle that tries everything agrees.

The oracle knows of each reason in its own words when it holds, and a group waits exactly when something keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pytest
from engine_driver import OPEN, Driver
from hypothesis import given
from hypothesis import strategies as st

from extender.core.ids import QueueName
from extender.core.model import Node, Pod
from extender.core.planning import EXPECT_SECONDS
from extender.core.reasons import Reason
from extender.core.resources import amounts
from tests import builders, oracles
from tests.builders import GPU

RACK, ZONE = "rack", "zone"
#: where several hold, the one that is told
ORDER = (
    *(Reason.QUEUE_CLOSED, Reason.MEMBERS, Reason.QUOTA, Reason.UNLABELLED, Reason.NODE_UNAVAILABLE),
    *(Reason.CONSTRAINTS, Reason.RESOURCES, Reason.FRAGMENTED, Reason.TOPOLOGY),
)


@dataclass(frozen=True)
class Case:
    """A gang, the nodes with what others take of them, and its queue."""

    nodes: tuple[Node, ...]
    taken: tuple[int, ...]
    size: int
    minimum: int
    gpus: int
    choosy: bool
    close: bool
    cap: int | None
    closed: bool

    @property
    def pods(self) -> list[Pod]:
        group = "train"
        pods = builders.make_pods(self.size, request={GPU: self.gpus}, group=group, queue=QueueName("q"))
        if not self.choosy:
            return pods
        shape = builders.make_shape({GPU: self.gpus}, selector=((ZONE, "z"),))
        return [replace(pod, shape=shape) for pod in pods]

    def driver(self) -> Driver:
        queue = builders.make_queue("q", capability=() if self.cap is None else ((GPU, self.cap),), closed=self.closed)
        group = builders.make_group("train", self.minimum, queue="q", topology_required=RACK if self.close else None)
        others = [
            builders.bound(builders.make_pod(f"other-{n}", {GPU: gpus}, scheduler="other"), node.name)
            for n, (node, gpus) in enumerate(zip(self.nodes, self.taken, strict=True))
            if gpus
        ]
        things = (builders.make_topology(RACK), queue, *self.nodes, *others, group, *self.pods)
        driver = Driver(*things, opened=OPEN | {QueueName("q")})
        driver.tick()
        driver.tick(EXPECT_SECONDS + 1)
        return driver


@st.composite
def cases(draw: st.DrawFn) -> Case:
    nodes, taken = [], []
    for number in range(draw(st.integers(1, 4))):
        labels = {key: value for key, value in ((RACK, draw(st.sampled_from(("", "a", "b")))),) if value}
        labels |= {ZONE: "z"} if draw(st.booleans()) else {}
        gpus = draw(st.integers(1, 4))
        node = builders.gpu_node(f"n{number}", gpus, labels, unschedulable=draw(st.sampled_from((False, False, True))))
        nodes.append(node)
        taken.append(draw(st.integers(0, gpus - 1)))
    size = draw(st.integers(1, 3))
    return Case(
        nodes=tuple(nodes),
        taken=tuple(taken),
        size=size,
        minimum=draw(st.sampled_from((size, size, size + 1))),
        gpus=draw(st.integers(1, 3)),
        choosy=draw(st.sampled_from((False, False, True))),
        close=draw(st.booleans()),
        cap=draw(st.sampled_from((None, None, 0, 3, 6))),
        closed=draw(st.sampled_from((False, False, False, True))),
    )


# --- the oracle -------------------------------------------------------------------------------------


class Oracle:
    """Says of each reason whether it holds."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.asked = case.size * case.gpus
        #: nodes with what is left of them
        self.left = [
            replace(node, allocatable=amounts(dict(node.allocatable) | {GPU: dict(node.allocatable)[GPU] - gpus}))
            for node, gpus in zip(case.nodes, case.taken, strict=True)
        ]
        self.useful = [replace(node, unschedulable=False) for node in self.left]

    def accepting(self, nodes: Sequence[Node]) -> list[int]:
        constraints = self.case.pods[0].shape.constraints
        return [row for row, node in enumerate(nodes) if oracles.accepts(constraints, node)]

    def fits(self, nodes: Sequence[Node], rows: Sequence[int]) -> bool:
        there = tuple(row for row in self.accepting(nodes) if row in rows)
        return oracles.can_place(nodes, [(pod.shape, there) for pod in self.case.pods])

    def somewhere(self, nodes: Sequence[Node]) -> bool:
        return self.fits(nodes, range(len(nodes)))

    def in_one_rack(self, nodes: Sequence[Node]) -> bool:
        return any(self.fits(nodes, rows) for rows in oracles.domains(nodes, (RACK,)).values())

    def placed(self, nodes: Sequence[Node]) -> bool:
        return self.in_one_rack(nodes) if self.case.close else self.somewhere(nodes)

    def free(self) -> int:
        return sum(dict(self.left[row].allocatable)[GPU] for row in self.accepting(self.left))

    def with_labels(self) -> bool:
        """Whether it would do if all nodes without a rack stood in one of the racks, or in one of their own."""
        racks = set(chain.from_iterable(oracles.domains(self.left, (RACK,)))) | {"new"}
        bare = [node for node in self.left if RACK not in node.labels]
        return bool(bare) and any(
            self.in_one_rack([n if RACK in n.labels else replace(n, labels={**n.labels, RACK: r}) for n in self.left])
            for r in racks
        )

    def holds(self, reason: Reason) -> bool:
        case = self.case
        too_large = case.gpus > max(
            (dict(case.nodes[row].allocatable)[GPU] for row in self.accepting(self.left)), default=0
        )
        return {
            Reason.QUEUE_CLOSED: case.closed,
            Reason.MEMBERS: case.size < case.minimum,
            Reason.QUOTA: case.cap is not None and self.asked > case.cap,
            Reason.CONSTRAINTS: not self.accepting(self.left) and not self.placed(self.useful),
            Reason.NODE_UNAVAILABLE: not self.placed(self.left) and self.placed(self.useful),
            Reason.RESOURCES: bool(self.accepting(self.left)) and (self.free() < self.asked or too_large),
            Reason.FRAGMENTED: self.free() >= self.asked and not self.somewhere(self.left) and not too_large,
            Reason.TOPOLOGY: case.close and self.somewhere(self.left) and not self.in_one_rack(self.left),
            Reason.UNLABELLED: case.close and not self.in_one_rack(self.left) and self.with_labels(),
        }[reason]

    @property
    def kept(self) -> bool:
        """Whether anything keeps the group from starting."""
        these = (Reason.QUEUE_CLOSED, Reason.MEMBERS, Reason.QUOTA)
        return any(map(self.holds, these)) or not self.placed(self.left)


@given(cases())
def test_a_group_waits_exactly_when_something_keeps_it_and_its_reason_is_true(case: Case) -> None:
    driver, oracle = case.driver(), Oracle(case)
    reason, detail = driver.reason(case.pods[0]), driver.detail(case.pods[0])
    assert (reason is not None) == oracle.kept
    if reason is None:
        return
    assert reason is next(filter(oracle.holds, ORDER)), detail
    if reason is Reason.MEMBERS:
        assert (detail["have"], detail["minimum"]) == (case.size, case.minimum)
    if reason is Reason.QUOTA:
        assert (detail["queue"], detail["resource"], detail["asked"]) == ("q", GPU, oracle.asked)
    if reason is Reason.RESOURCES and "free" in detail:
        assert (detail["resource"], detail["asked"], detail["free"]) == (GPU, oracle.asked, oracle.free())
    if reason in (Reason.FRAGMENTED, Reason.TOPOLOGY) and "fit" in detail:
        assert 0 <= int(detail["fit"]) < int(detail["asked"]) == case.size


def node(name: str, gpus: int, rack: str = "", cordoned: bool = False) -> Node:
    return builders.gpu_node(name, gpus, {RACK: rack} if rack else {}, unschedulable=cordoned)


PLAIN = Case((node("a", 4), node("b", 4)), (0, 0), 2, 2, 3, False, False, None, False)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"closed": True}, Reason.QUEUE_CLOSED),
        ({"minimum": 3}, Reason.MEMBERS),
        ({"cap": 5}, Reason.QUOTA),
        ({"choosy": True}, Reason.CONSTRAINTS),
        ({"nodes": (node("a", 4), node("b", 4, cordoned=True))}, Reason.NODE_UNAVAILABLE),
        ({"taken": (2, 1)}, Reason.RESOURCES),
        ({"gpus": 5, "size": 1, "minimum": 1}, Reason.RESOURCES),
        ({"nodes": (node("a", 4), node("b", 2)), "taken": (0, 0)}, Reason.FRAGMENTED),
        ({"nodes": (node("a", 4, "x"), node("b", 4, "y")), "close": True}, Reason.TOPOLOGY),
        ({"nodes": (node("a", 4, "x"), node("b", 4)), "close": True}, Reason.UNLABELLED),
    ],
)
def test_each_reason_that_the_oracle_knows_is_given_for_its_plainest_case(
    changes: dict[str, Any], reason: Reason | None
) -> None:
    case = replace(PLAIN, **changes)
    assert case.driver().reason(case.pods[0]) is reason
    assert Oracle(case).kept == (reason is not None)
    assert [one for one in ORDER if Oracle(case).holds(one)][:1] == [reason][: reason is not None]
