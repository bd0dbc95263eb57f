"""A required domain is never left: whatever happens to pods, nodes, other schedulers, priorities and the engine itself.

The machine of `test_engine_random` with nodes in racks, in which one group must be in one rack, and one has slices of
two that must each be in one. Wishes and labels stay as they are: who changes them moves nobody.
"""

from __future__ import annotations

import re
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from extender.core import messages
from extender.core.ids import NodeName
from extender.core.model import Node, Part, PartRule, Pod
from extender.core.parts import parts_of
from tests import builders
from tests.core import test_engine_random as base

#: by group: the level required of all, and how it is divided
WISHES = {"a": ("rack", ()), "b": (None, (PartRule("rack", None, size=2),)), "c": (None, ())}


class Machine(base.Machine):
    """The same steps, less those that another scheduler takes with members of these groups."""

    @rule(
        name=st.sampled_from(base.GROUPS),
        least=st.integers(1, 5),
        servers=st.just(0),
        required=st.none(),
        preemptible=st.sampled_from((None, None, None, False)),
    )
    def group_object(
        self, name: str, least: int, servers: int, required: str | None, preemptible: bool | None = None
    ) -> None:
        level, parts = WISHES[name]
        key = builders.group_key(name)
        before = self.cluster.truth.groups.get(key)
        wishes = {"topology_required": level, "parts": parts, "preemptible": preemptible}
        group = builders.make_group(name, least, generation=1, **wishes)
        if before is not None:
            kept = {"phase": before.phase, "stated_reason": before.stated_reason, "generation": before.generation}
            group = base.replace(group, **kept)
            group = base.replace(group, generation=before.generation + (group != before))
        self.cluster.show(group)

    def _pod(
        self, group: str | None, gated: bool, gpus: int, task: str, priority: int, kind: str, queue: str | None
    ) -> None:
        foreign = group is not None and kind == "default"
        super()._pod(group, gated, gpus, task, priority, "" if foreign else kind, queue)

    @rule(name=st.sampled_from(base.NODES))
    def node_deleted(self, name: str) -> None:
        node = self.cluster.truth.node(NodeName(name))
        if node is not None:
            for pod in list(self.cluster.truth.on_node.get(NodeName(name), {}).values()):
                self.cluster.delete(pod)
            self.cluster.delete(node)

    @rule(name=st.sampled_from(base.GROUPS))
    def group_object_gone(self, name: str) -> None:
        """Without its object nobody knows what the group wished for: not a step of this machine."""

    @rule(data=st.data(), thieves=st.integers(0, 4))
    def member_is_replaced(self, data: st.DataObject, thieves: int) -> None:
        members = [pod for pod in self.cluster.truth.pods.values() if pod.bound and pod.group.name in ("a", "b")]
        if members:
            self.replace_member(data.draw(st.sampled_from(members)), thieves)

    def replace_member(self, lost: Pod, thieves: int) -> None:
        """Others take its place and what else they can of its rack, and a pod of its index comes."""
        assert lost.node is not None
        self.number += 1
        self.cluster.delete(lost)
        rack = [node for node in self.cluster.truth.nodes.row_of if rack_of(node) == rack_of(lost.node)]
        for number in range(thieves):
            thief = builders.make_pod(f"t{self.number}-{number}", {builders.GPU: 1}, scheduler="default")
            room = [node for node in rack if self.cluster.fits(thief, node, foreign=True)]
            if room:
                node = lost.node if lost.node in room else room[0]
                self.cluster.show(builders.bound(thief, node, self.cluster.now))
        named = {"group": lost.group, "index": lost.index, "queue": lost.queue, "owner": lost.owner}
        self.cluster.show(builders.make_pod(f"r{self.number}", {builders.GPU: 1}, created=self.cluster.now, **named))
        self.cluster.settle()

    @invariant()
    def required_domains_hold(self) -> None:
        if not hasattr(self, "cluster"):
            return
        racks: dict[tuple[object, Part], set[str]] = defaultdict(set)
        for pod in self.cluster.truth.pods.values():
            if pod.bound and pod.node is not None and not pod.group.lone:
                for part in wishes_of(pod):
                    racks[pod.group, part].add(rack_of(pod.node))
        assert all(len(there) == 1 for there in racks.values()), racks


def rack_of(node: str) -> str:
    """As the machine labels its nodes."""
    return f"r{int(node[1:]) % 2}"


def wishes_of(pod: Pod) -> tuple[Part, ...]:
    """What the pod must share a rack with others for."""
    level, parts = WISHES[pod.group.name]
    return (*((Part(level, "whole"),) if level else ()), *parts_of(pod, parts))


class Indexed(base.Machine.cluster_type):  # type: ignore[misc]
    """Pods have the index that their names end with, and nodes are in racks."""

    def show(self, thing: object) -> None:
        if isinstance(thing, Pod) and not thing.index and not thing.group.lone:
            number = re.search(r"[0-9]+$", thing.name)
            thing = base.replace(thing, index=(int(number[0]),) if number else ())
        if isinstance(thing, Node) and "rack" not in thing.labels:
            thing = base.replace(thing, labels={"rack": rack_of(thing.name)})
        super().show(thing)


Machine.cluster_type = Indexed
TestMachine = pytest.mark.timeout(120)(Machine.TestCase)
TestMachine.settings = settings(base.TestMachine.settings, max_examples=8, stateful_step_count=30)


def running(sizes: list[int], *names: str) -> Machine:
    """Five members of each of these groups on nodes of so many GPUs, as far as they have room."""
    machine = Machine()
    machine.begin(False, sizes, True, 0, None, False, None)
    for name in names:
        machine.group_object(name, 2, 0, None)
        machine.members(name, 5, False, 1, "", 0, "")
        machine.cluster.settle()
    return machine


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 4), min_size=4, max_size=4),
    name=st.sampled_from(("a", "b")),
    losses=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6)), min_size=1, max_size=3),
)
def test_a_replacement_stands_with_its_own_or_waits(sizes: list[int], name: str, losses: list[tuple[int, int]]) -> None:
    machine = running(sizes, name)
    for number, thieves in losses:
        members = [pod for pod in machine.cluster.truth.pods.values() if pod.bound and pod.group.name == name]
        machine.replace_member(members[number % len(members)], thieves)
        machine.required_domains_hold()


@settings(max_examples=20, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 4), min_size=4, max_size=4),
    racks=st.lists(st.sampled_from(("r0", "r1", "r2")), min_size=4, max_size=4),
    restart=st.booleans(),
)
def test_new_labels_move_nobody_who_runs(sizes: list[int], racks: list[str], restart: bool) -> None:
    cluster = running(sizes, "a", "b").cluster
    before = {pod.uid: pod.node for pod in cluster.truth.pods.values() if pod.bound}
    for name, rack in zip(base.NODES, racks, strict=True):
        node = cluster.truth.node(NodeName(name))
        assert node is not None
        cluster.show(base.replace(node, labels={"rack": rack}))
    if restart:
        cluster.restart()
        cluster.tell(messages.ActivityChanged(True))
    cluster.rest()
    now = {pod.uid: pod.node for pod in cluster.truth.pods.values() if pod.uid in before and not pod.terminating}
    assert now == before
    assert before
