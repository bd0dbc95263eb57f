"""Groups that run and one that waits, in short words, and what the engine does about it.

Takes queues, groups and nodes, gives counts of evicted pods by group, and where the one that waited stands; must not
hold expectations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from extender.core import messages
from extender.core.ids import QueueName
from extender.core.model import Budget, Declared, Expression, Node, Owner, Pod, Queue
from extender.core.reasons import Reason
from tests import builders
from tests.builders import GPU
from tests.core.engine_driver import START, Driver

JOB = Owner("Job", "job", "uid-of-job")
#: everybody began so long before
BEFORE = 1000.0


@dataclass(frozen=True)
class Work:
    """A group of one-GPU pods, or larger: where each of them runs; None waits."""

    name: str
    queue: str
    nodes: tuple[str | None, ...]
    least: int = 1
    priority: int = 0
    gpus: int = 1
    #: seconds that it has run
    runs: float = BEFORE
    tasks: tuple[str, ...] = ()
    tasks_least: Mapping[str, int] = field(default_factory=dict)
    saved: float | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    def pods(self) -> list[Pod]:
        """Its pods as they are when the engine comes to see them."""
        found = []
        for number, node in enumerate(self.nodes):
            pod = builders.make_pod(
                f"{self.name}-{number}",
                {GPU: self.gpus},
                group=self.name,
                task=self.tasks[number] if self.tasks else "",
                priority=self.priority,
                queue=QueueName(self.queue),
                declared=Declared(),
                owner=JOB,
                created=START - self.runs,
                labels=(("group", self.name),),
                checkpoint=self.saved,
            )
            found.append(pod if node is None else builders.bound(pod, node, START - self.runs))
        return found


def waits(name: str, queue: str, count: int, **more: Any) -> Work:
    """A gang that waits as a whole."""
    more = {"least": count, "runs": 0.0, **more}
    return Work(name, queue, (None,) * count, **more)


class Played:
    """The engine after it has judged all this, and with evicted pods that leave at once or stay a while."""

    def __init__(self, nodes: Mapping[str, int], queues: list[Queue], *works: Work, budgets: tuple[Budget, ...] = ()):
        self.works = {work.name: work for work in works}
        groups = [builders.make_group(work.name, work.least, work.tasks_least, **work.fields) for work in works]
        there: list[Node] = [builders.gpu_node(name, gpus) for name, gpus in nodes.items()]
        self.engine = Driver(*there, *queues, *groups)
        self.engine.send(*map(messages.BudgetSeen, budgets))
        self.evictions: list[messages.Evict] = []
        self.notes: list[messages.NoteEviction] = []
        self.pods = {pod.uid: pod for work in works for pod in work.pods()}
        self.engine.see(*self.pods.values())
        self.tick()

    def tick(self, seconds: float = 0.0) -> None:
        """A cycle; what it evicts begins to leave."""
        effects = self.engine.tick(seconds)
        self.notes += [effect for effect in effects if isinstance(effect, messages.NoteEviction)]
        for effect in effects:
            if isinstance(effect, messages.Evict):
                self.evictions.append(effect)
                self.engine.done(effect)
                self.pods[effect.uid] = replace(self.pods[effect.uid], terminating=True)
                self.engine.see(self.pods[effect.uid])

    def leave(self) -> None:
        """All that were evicted are gone, and their owners make new ones, which wait."""
        gone = [pod for pod in self.pods.values() if pod.terminating]
        self.engine.gone(*gone)
        for pod in gone:
            del self.pods[pod.uid]
            fresh = replace(pod, uid=f"{pod.uid}+", node=None, phase="Pending", terminating=False, bound_at=None)
            self.pods[fresh.uid] = fresh
            self.engine.see(fresh)
        self.tick()

    def start(self) -> None:
        """All that is planned is bound."""
        for pod in list(self.pods.values()):
            node = self.engine.node(pod)
            if node is not None:
                self.pods[pod.uid] = builders.bound(pod, node, self.engine.now)
                self.engine.see(self.pods[pod.uid])
        self.tick()

    @property
    def evicted(self) -> dict[str, int]:
        """How many pods of each group were evicted."""
        return dict(
            Counter(
                self.engine.engine.world.pods[e.uid].group.name
                if e.uid in self.engine.engine.world.pods
                else e.name.rsplit("-", 1)[0]
                for e in self.evictions
            )
        )

    def reason(self, name: str) -> Reason | None:
        """Why a group waits."""
        return self.engine.reason(builders.group_key(name))

    def detail(self, name: str) -> list[tuple[str, str | int]]:
        """The numbers and names of its refusal."""
        refusal = self.engine.entry(builders.group_key(name)).refusal
        return [] if refusal is None else list(refusal.detail)

    def bound(self, name: str) -> int:
        """How many pods of a group are on nodes and stay there."""
        return sum(pod.bound for pod in self.pods.values() if pod.group.name == name)


def queue(name: str, deserved: int | None = None, **fields: Any) -> Queue:
    """A queue that deserves so many GPUs."""
    owned = {} if deserved is None else {"deserved": ((GPU, deserved),)}
    return builders.make_queue(name, **owned, **fields)


def budget(name: str, group: str, allowed: int, desired: int = 0, expected: int = 0, **fields: Any) -> Budget:
    """A budget over the pods of a group, of which so many may go now."""
    selector = (Expression("group", "In", (group,)),)
    return Budget("team", name, f"uid-of-{name}", selector, allowed, desired, expected, **fields)
