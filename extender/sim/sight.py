"""What stands at this moment: the cluster's truth and the sidecar's answers, for the checks to read.

Takes the parts of a run, gives look-ups; must not change anything, nor know what is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Protocol

from extender.sim import report, resources
from extender.sim.answers import Said
from extender.sim.api import Json, Request
from extender.sim.cards import Share, loads
from extender.sim.lives import Life
from extender.sim.names import pod_name
from extender.sim.world import World


class Unread(Exception):
    """What a check asks for cannot be seen on this cluster; the text says why."""


class Word(Protocol):
    """What the sidecar says and does."""

    def held(self, name: str, waiting: Iterable[Life]) -> set[str]:
        """Which of a group's waiting pods have a place."""

    def why_group(self, name: str) -> Said | None:
        """Why a group waits."""

    def why_pod(self, life: Life) -> Said | None:
        """Why a waiting pod waits; one that is just about to be bound does not."""

    def answer(self, call: str) -> str | None:
        """The answer to a named call: an error, or an empty text; None when there was none."""

    def requests(self) -> Iterable[Request]:
        """All its writes."""

    def longest(self) -> float:
        """The longest call or cycle in real seconds."""


class Sight:
    """One run, seen from outside."""

    def __init__(self, scenario: report.Scenario, cluster: World, word: Word) -> None:
        self._cluster = cluster
        self._word = word
        self._groups = {group.name: group for group in scenario.groups}
        self._by_share = scenario.settings.gpu_charge == "share"
        #: number of the binding with which a group's minimum was first bound
        self._first: dict[str, int] = {}

    # --- pods -----------------------------------------------------------------------------------

    def bound(self, lives: Iterable[Life]) -> list[Life]:
        """Those that have a node which is there, and have not ended."""
        return [life for life in lives if life.takes and self.node(life.node or "") is not None]

    def group(self, name: str) -> list[Life]:
        """All pods that a group ever had."""
        return self._cluster.lives.by_group.get(name, [])

    def pod(self, written: str) -> list[Life]:
        """The pod that a name means now, if any."""
        meant = pod_name(written)
        life = self._cluster.lives.meant(meant) if meant is not None else None
        return [] if life is None else [life]

    def counted(self, written: str) -> list[Life]:
        """All pods that a name means in a counter."""
        meant = pod_name(written)
        return [] if meant is None else self._cluster.lives.counted(meant)

    def everybody(self) -> Iterable[Life]:
        """All pods that ever were."""
        return self._cluster.lives.by_uid.values()

    def finished(self, name: str) -> bool:
        """True when every pod of a group has succeeded, replaced ones aside, and all that were told of were made."""
        newest = {life.making.name: life for life in self.group(name)}
        told = sum(task.replicas for task in self._groups[name].tasks)
        return len(newest) >= told and all(life.phase == "Succeeded" for life in newest.values())

    def node(self, name: str) -> Json | None:
        """A node's object."""
        return self._cluster.api.get("Node", name)

    def note_firsts(self) -> None:
        """Note which groups have their minimum bound for the first time."""
        for name, group in self._groups.items():
            if name not in self._first:
                bound = self.bound(self.group(name))
                least = max(1, self._minimum(group))
                if len(bound) >= least:
                    self._first[name] = sorted(life.bound_as or 0 for life in bound)[least - 1]

    def _minimum(self, group: report.Group) -> int:
        thing = self._cluster.api.get("PodGroup", group.name)
        return group.minMember if thing is None else int(thing["spec"]["minMember"])

    def first(self, group: str) -> int | None:
        """The place of a group's start among all bindings; None while it has not started."""
        return self._first.get(group)

    # --- what is held, and what queues use ------------------------------------------------------

    def held(self, name: str) -> list[Life]:
        """Pods with a place and no binding: their bind call is unanswered, or their group's plan stands."""
        waiting = [life for life in self.group(name) if life.waits]
        held = self._word.held(name, waiting)
        return [life for life in waiting if life.uid in held]

    def used(self, queue: str, resource: str) -> Fraction:
        """What is bound, leaving or held in a queue and below it, of one resource, in base units."""
        below = self._below(queue)
        held = self._all_held()
        return sum(
            (
                resources.charge(life.making, resource, self._by_share)
                for life in self.everybody()
                if life.making.queue in below and (life.takes or life.uid in held)
            ),
            Fraction(0),
        )

    def _all_held(self) -> set[str]:
        """All that is held; nothing where that cannot be seen: it is little, and not for long."""
        try:
            return {life.uid for name in self._groups for life in self.held(name)}
        except Unread:
            return set()

    def _below(self, queue: str) -> set[str]:
        parents = {
            thing["metadata"]["name"]: thing.get("spec", {}).get("parent") for thing in self._cluster.api.list("Queue")
        }
        found = {queue}
        while more := {name for name, parent in parents.items() if parent in found and name not in found}:
            found |= more
        return found

    # --- cards ----------------------------------------------------------------------------------

    def card_loads(self, node: str) -> Mapping[str, Share]:
        """What the bound pods of a node take of each of its cards."""
        return loads(share for life in self.bound(self._cluster.lives.on(node)) for share in life.shares)

    # --- what the sidecar says ------------------------------------------------------------------

    def why_group(self, name: str) -> Said | None:
        """Why a group waits."""
        return self._word.why_group(name)

    def why_pod(self, written: str) -> Said | None:
        """Why a pod waits; one that is bound, or is just about to be, does not."""
        found = self.pod(written)
        return self._word.why_pod(found[0]) if found and found[0].waits else None

    def why_evicted(self, name: str) -> Said | None:
        """What the last eviction record of a group says."""
        thing = self._cluster.api.get("PodGroup", name)
        record = thing.get("status", {}).get("lastEviction") if thing is not None else None
        return None if record is None else Said(record["rule"], record["message"])

    def why_queue(self, name: str) -> Said | None:
        """What is wrong with a queue, as its conditions say: whatever it is, the queue is not as it should be."""
        thing = self._cluster.api.get("Queue", name)
        conditions = thing.get("status", {}).get("conditions", ()) if thing is not None else ()
        wrong = next((one for one in conditions if one["status"] == "False"), None)
        return None if wrong is None else Said("QueueInvalid", f"{wrong['reason']}: {wrong['message']}")

    def status(self, kind: str, name: str, key: str) -> str | None:
        """A field of an object's status."""
        thing = self._cluster.api.get(kind, name)
        found = thing.get("status", {}).get(key) if thing is not None else None
        return found if isinstance(found, str) else None

    def refusals(self) -> Iterable[tuple[str, str]]:
        """Writes of users that were refused."""
        return self._cluster.refusals

    def answer(self, call: str) -> str | None:
        """The answer to a named call: an error, or an empty text; None when there was none."""
        return self._word.answer(call)

    def requests(self) -> Iterable[Request]:
        """All writes of the sidecar."""
        return self._word.requests()

    def longest(self) -> float:
        """The longest call or cycle in real seconds."""
        return self._word.longest()
