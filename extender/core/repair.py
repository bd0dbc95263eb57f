"""Repair of nodes to which another scheduler bound a pod at the same time as we did (design invariant 2).

Takes the world, the plans and the time, gives evictions of pods of ours; must not touch anybody else's, nor choose
the victims (`victims`).

More may be bound to a node than it has for many reasons, and only one of them is undone here:
- The race: two schedulers bound at once, and neither saw the other's pod. Told by the times of the bindings: a pod
  of others, and one of ours, were bound at most RACE_SECONDS before the overcommit was first seen. Only pods of the
  race go. That undoes our half of it, costs about a minute of work, and no more is needed: what was there before
  was seen by both sides. It is no preemption, so priorities and budgets of time do not enter, but for the order.
- The node shrank (a device plugin starts anew with nothing, a card broke): what runs is let run by the kubelet. So
  the excess is what is bound beyond the most that the node had since everything on it fitted.
- The kubelet started a static pod, which no scheduler bound, or a pod was resized: the kubelet's own matter.

    fits ──overcommitted──> Settling ──10 s, kubelet ready──> Leaving ──they are gone──> fits
                              ^   └──> NotByBinding, NothingMayGo: stays, reported; judged anew each second
                              └──a while, each time twice as long, or something changed──  EvictionRefused

Nothing here survives a restart: an overcommit that is found then is new, and older bindings than those of the last
minute are left alone, since how the node shrank before was not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from extender.core import victims
from extender.core.ids import NodeName, PodUid
from extender.core.messages import Evict
from extender.core.model import Node, Pod
from extender.core.plans import Plans
from extender.core.reasons import Detail, Ground, Overcommit
from extender.core.resources import Row
from extender.core.wholes import TRIES, Wholes, pause
from extender.core.world import World

#: nodes are looked at so often; an overcommit is to be detected within a second
LOOK_SECONDS = 1.0
#: the kubelet refuses a pod that does not fit within some seconds; only what it leaves is ours to solve
SETTLE_SECONDS = 10.0
#: bindings so shortly before an overcommit was first seen are of the race that made it: longer than the longest
#: binding of ours (30 s), the way through the watches and a second's difference of clocks
RACE_SECONDS = 60.0
#: owner of static pods: the kubelet started them
_NODE = "Node"


@dataclass(slots=True)
class _Found:
    """A node that is overcommitted."""

    since: float
    #: nobody is evicted before this time
    not_before: float
    #: the most that the node had of each resource, before its newest state
    had: Row
    #: what was bound there, and the node's amounts, when it was last judged
    state: object = None
    #: evictions planned while `state` was the same, and who was not let go
    tries: int = 0
    refused: set[PodUid] = field(default_factory=set)
    outlook: Overcommit = Overcommit.SETTLING


class Repair:
    """What is known of overcommitted nodes. `wholes` keeps the evictions that are under way."""

    def __init__(self, world: World, plans: Plans, wholes: Wholes) -> None:
        self._world = world
        self._plans = plans
        self._wholes = wholes
        self._found: dict[NodeName, _Found] = {}
        self._look_at = float("-inf")

    def reset(self) -> None:
        """Forget the nodes."""
        self._found.clear()
        self._look_at = float("-inf")

    @property
    def outlooks(self) -> dict[NodeName, Overcommit]:
        """What becomes of each node that is overcommitted."""
        return {name: found.outlook for name, found in self._found.items()}

    def node_changed(self, before: Node, now: float) -> None:
        """The world has taken in a newer state of this node: what it had is remembered as long as too much is there."""
        table = self._world.nodes
        row = table.row_of[before.name]
        found = self._found.get(before.name)
        if found is None and (table.used[row] > table.allocatable[row]).any():
            found = self._find(before.name, now)
        if found is not None:
            found.had = _most(found.had, self._world.columns.row(before.allocatable))

    def refused(self, effect: Evict, now: float) -> None:
        """An eviction that was under way could not be carried out: its node is planned again after a while."""
        found = self._found.get(_node_of(effect))
        if found is not None:
            found.refused.add(effect.uid)
            found.outlook = Overcommit.REFUSED
            found.not_before = max(found.not_before, now + pause(found.tries))

    def look(self, now: float) -> list[Evict]:
        """Judge every overcommitted node, when it is time; the evictions to write."""
        if now < self._look_at:
            return []
        self._look_at = now + LOOK_SECONDS
        over = self._world.overcommitted()
        for name in self._found.keys() - set(over):
            del self._found[name]
        evictions: list[Evict] = []
        for name in over:
            evictions += self._judge(name, self._found.get(name) or self._find(name, now), now)
        return evictions

    # --- one node -------------------------------------------------------------------------------

    def _find(self, name: NodeName, now: float) -> _Found:
        nothing = np.zeros(0, dtype=np.int64)
        found = self._found[name] = _Found(since=now, not_before=now + SETTLE_SECONDS, had=nothing)
        return found

    def _judge(self, name: NodeName, found: _Found, now: float) -> list[Evict]:
        node = self._world.node(name)
        assert node is not None, f"{name} is overcommitted and unknown"
        state = (frozenset(self._world.on_node[name]), node.allocatable)
        if state != found.state:
            found.state, found.tries = state, 0
            found.refused.clear()
        if not node.ready:  # nobody there who could refuse anything
            found.not_before = max(found.not_before, now + SETTLE_SECONDS)
        over = self._over(name, found)
        excess = self._without_leaving(name, over)
        rival = self._rival(name, found, over)
        if rival is None:
            found.outlook = Overcommit.NOT_BY_BINDING
        elif not excess.any():
            found.outlook = Overcommit.LEAVING
        elif now < found.not_before or found.tries >= TRIES:
            found.outlook = Overcommit.REFUSED if found.refused else Overcommit.SETTLING
        else:
            return self._evict(name, found, excess, rival)
        return []

    def _evict(self, name: NodeName, found: _Found, excess: Row, rival: Pod) -> list[Evict]:
        chosen = self._choose(name, found, excess)
        if not chosen:
            found.outlook = Overcommit.KEPT
            return []
        found.outlook = Overcommit.LEAVING
        found.tries += 1
        return self._wholes.ask(chosen, Ground.OVERCOMMIT, self._detail(name, excess, rival, len(chosen)))

    def _choose(self, name: NodeName, found: _Found, excess: Row) -> Sequence[Pod]:
        """Pods of the race; those that were not let go before are asked again only if nobody else will do."""

        def of_race(pod: Pod) -> bool:
            return pod.ours and pod.owner is not None and _in_race(pod, found)

        def not_refused(pod: Pod) -> bool:
            return of_race(pod) and pod.uid not in found.refused

        case = victims.Case(self._world, name, excess, self._wholes.asked, not_refused, self._plans.under_way)
        chosen = victims.choose(case)
        return victims.choose(replace(case, may_go=of_race)) if found.refused and not chosen else chosen

    def _over(self, name: NodeName, found: _Found) -> Row:
        """What is bound beyond the most that the node had since it fitted, by column."""
        table = self._world.nodes
        row = table.row_of[name]
        used = table.used[row]
        had = _most(table.allocatable[row], found.had)[: len(used)]
        over: Row = np.maximum(used - had, 0)
        for column in np.flatnonzero(over):
            if not had[column] and "/" in self._world.columns.names[column]:
                over[column] = 0  # handed out by other means (a DeviceClass), as far as is known
        return over

    def _without_leaving(self, name: NodeName, over: Row) -> Row:
        """The same once those that are leaving have gone."""
        left = over.copy()
        for pod in self._world.on_node[name].values():
            if pod.terminating or pod.uid in self._wholes.asked:
                request = self._world.request_row(pod)
                left[: len(request)] -= request
        return np.maximum(left, 0)

    def _rival(self, name: NodeName, found: _Found, over: Row) -> Pod | None:
        """The pod of others that was bound in the race and takes of what is short; the newest of them."""
        rivals = [
            pod
            for pod in self._world.on_node[name].values()
            if not pod.ours and not (pod.owner and pod.owner.kind == _NODE) and _in_race(pod, found)
            if self._takes(pod, over)
        ]
        return max(rivals, key=lambda pod: (pod.bound_at or 0.0, pod.uid), default=None)

    def _takes(self, pod: Pod, over: Row) -> bool:
        request = self._world.request_row(pod)
        return bool(((request > 0) & (over[: len(request)] > 0)).any())

    def _detail(self, name: NodeName, excess: Row, rival: Pod, number: int) -> Detail:
        table = self._world.nodes
        row, column = table.row_of[name], int(np.flatnonzero(excess)[0])
        return (
            ("node", name),
            ("resource", self._world.columns.names[column]),
            ("bound", int(table.used[row, column])),
            ("allocatable", int(table.allocatable[row, column])),
            ("theirs", f"{rival.namespace}/{rival.name}"),
            ("scheduler", rival.scheduler),
            ("evicted", number),
        )


def _in_race(pod: Pod, found: _Found) -> bool:
    return pod.bound_at is not None and pod.bound_at >= found.since - RACE_SECONDS


def _node_of(effect: Evict) -> NodeName:
    """The node for whose sake the eviction was."""
    return NodeName(str(dict(effect.detail).get("node", ""))) if effect.ground is Ground.OVERCOMMIT else NodeName("")


def _most(one: Row, other: Row) -> Row:
    """The larger of each; columns that one of them lacks are nothing there."""
    width = max(len(one), len(other))
    return np.maximum(np.pad(one, (0, width - len(one))), np.pad(other, (0, width - len(other))))
