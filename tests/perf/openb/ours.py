"""Muster's own placement, through the functions that the engine calls for a pod that stands alone.

Takes a run; nodes become Node objects that publish their GPUs as cards of 1000 MiB, pods ask for MiB of one card or
for whole cards. The pods of the workload are known to it as FGD's typical pods are: they wait somewhere else.
"""

from __future__ import annotations

from functools import lru_cache

from extender.core import messages
from extender.core.feasibility import Feasibility
from extender.core.ids import GroupKey, NodeName, PodUid, Source
from extender.core.model import Card, CardAsk, CardRequest, Node, Pod
from extender.core.model import Shape as OurShape
from extender.core.placement import Demand, Placement, place
from extender.core.resources import CPU, GPU, MEMORY, PODS, amounts
from extender.core.snapshot import Room, Snapshot
from extender.core.world import World
from tests.perf.openb.cluster import Cluster
from tests.perf.openb.policies import Choice
from tests.perf.openb.trace import MILLI, Arrivals, Ints, Shape

#: pods that share one card, and pods on a node: more than there ever are
_SLOTS = 1000
_PODS = 1001
_GROUP = GroupKey(Source.MUSTER, "openb", "waiting")


class Ours:
    """One run of `place`, with what it has taken of the room."""

    def __init__(self, run: Arrivals, seed: int) -> None:
        world, hosts = World(), run.hosts
        for number, shape in enumerate(run.workload):
            world.apply(messages.PodSeen(Pod(PodUid(str(number)), "openb", str(number), ours(shape), _GROUP)))
        for row, model in enumerate(hosts.models):
            gpus = int(hosts.gpus[row])
            there = {CPU: int(hosts.cpu[row]), MEMORY: int(hosts.memory[row]), PODS: _PODS, GPU: gpus * _SLOTS}
            cards = tuple(Card(f"{row}-{gpu}", _SLOTS, MILLI, 100, model) for gpu in range(gpus))
            world.apply(messages.NodeSeen(Node(NodeName(f"{row:05}"), {}, amounts(there), hami=True, cards=cards)))
        self._room = Room(Snapshot.take(world, Feasibility()))

    def choose(self, cluster: Cluster, shape: Shape, rows: Ints) -> Choice:
        """What Muster plans, taken of its room; it must be one of these rows."""
        found = place(self._room, [Demand(ours(shape), 1)])
        assert isinstance(found, Placement), f"refused although it fits: {found}"
        row = found.rows[0][0]
        found.take(self._room)
        gpu = None
        if shape.shared:
            gpu = int(found.shares_of(0)[0][0][0].card.split("-")[1])
        return row, gpu

    def placed(self, row: int, shape: Shape) -> None:
        """The room knows it already."""


@lru_cache(maxsize=4096)
def ours(shape: Shape) -> OurShape:
    """The shape as Muster has it."""
    asked = amounts({CPU: shape.cpu, MEMORY: shape.memory, PODS: 1, GPU: shape.gpus})
    if not shape.gpus:
        return OurShape(asked)
    ask = CardAsk(shape.gpus, shape.milli if shape.shared else None)
    return OurShape(asked, cards=CardRequest((ask,), kinds=shape.models))
