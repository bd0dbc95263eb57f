"""What would follow from draining a node: done on a copy of the engine, and told.

Takes an engine that is nobody's but ours (see `stage`: it is changed), gives what became of each group; must not be
given the one that acts. Of long lists there are numbers and the first ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from extender.core import messages
from extender.core.answers import Places, places_on
from extender.core.budgets import covers
from extender.core.engine import Engine
from extender.core.ids import GroupKey, NodeName, PodUid, QueueName
from extender.core.membership import STARTED, Need, satisfied
from extender.core.model import Pod
from extender.core.reasons import Detail, Ground, Refusal
from extender.core.stage import Eviction, Stage

#: a step there, and how many of them at most: an hour
STEP_SECONDS, STEPS = 15.0, 240
#: so many groups are told of, of each kind
SHOWN = 200
#: owners of pods that stay on a node that is drained, or come back to it
_OF_THE_NODE = ("DaemonSet", "Node")


@dataclass(frozen=True, slots=True)
class Named:
    """A group as its users know it."""

    key: GroupKey
    name: str
    queue: QueueName


@dataclass(frozen=True, slots=True)
class Loss:
    """Pods of a group are evicted for another one, so often."""

    of: Named
    pods: int
    ground: Ground
    #: of the first time
    detail: Detail
    times: int


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a group of which pods are on the node."""

    of: Named
    #: names of those pods, and how many of them have a controller that replaces them
    pods: tuple[str, ...]
    replaced: int
    #: members that stay, of at least so many; None where that cannot be judged
    left: int
    minimum: int | None
    #: without those pods it has too few
    below: bool
    #: where the new ones find their places, and how many do not; `refusal` says why
    nodes: tuple[Places, ...]
    waiting: int
    refusal: Refusal | None


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A disruption budget lets fewer go than are on the node."""

    namespace: str
    name: str
    allowed: int
    pods: int


@dataclass(frozen=True, slots=True)
class Drained:
    """A node without its pods. `strangers`: pods that others schedule; `stay`: pods that belong to the node."""

    node: NodeName
    fates: tuple[Fate, ...]
    strangers: int
    stay: int
    obstacles: tuple[Obstacle, ...]
    evictions: tuple[Loss, ...]
    settled: bool


def drain(engine: Engine, name: NodeName, now: float) -> Drained | None:
    """What would become of the pods of a node; None when there is no such node."""
    if engine.world.node(name) is None:
        return None
    stage = Stage(engine, now)
    there = [pod for pod in engine.world.on_node.get(name, {}).values() if not pod.terminating]
    stay = [pod for pod in there if pod.owner is not None and pod.owner.kind in _OF_THE_NODE]
    going = [pod for pod in there if pod not in stay]
    ours = [pod for pod in going if pod.ours]
    obstacles = tuple(_obstacles(engine, going))[:SHOWN]
    losing = _by_group(engine, ours)
    stage.tell(*(messages.PodGone(pod.uid) for pod in going), messages.NodeGone(name))
    left = {key: _left(engine, key) for key in losing}
    heirs: dict[GroupKey, list[PodUid]] = {}
    for pod in ours:
        if pod.owner is not None:
            heirs.setdefault(pod.group, []).append(stage.succeed(pod))
    settled = stage.rest(STEP_SECONDS, STEPS)
    fates = [_fate(stage, of, pods, heirs.get(key, []), left[key]) for key, (of, pods) in losing.items()]
    return Drained(
        name,
        tuple(fates[:SHOWN]),
        len(going) - len(ours),
        len(stay),
        obstacles,
        losses(stage.evictions),
        settled,
    )


def _by_group(engine: Engine, pods: Iterable[Pod]) -> dict[GroupKey, tuple[Named, list[Pod]]]:
    found: dict[GroupKey, tuple[Named, list[Pod]]] = {}
    for pod in pods:
        of = found.get(pod.group)
        if of is None:
            of = found[pod.group] = (named(engine, pod), [])
        of[1].append(pod)
    return found


def named(engine: Engine, pod: Pod) -> Named:
    """The pod's group."""
    return Named(pod.group, pod.name if pod.group.lone else pod.group.name, engine.world.queue_of(pod.group))


def _left(engine: Engine, key: GroupKey) -> tuple[int, int | None, bool]:
    """Members that are on nodes, how many there must be, and whether that is too few."""
    need, tally = engine.world.need(key), engine.world.tallies.get(key)
    if not isinstance(need, Need) or tally is None:
        return 0, need.min_member if isinstance(need, Need) else None, True
    return tally.count(*STARTED), need.min_member, not satisfied(need, tally)


def _fate(
    stage: Stage, of: Named, pods: Sequence[Pod], heirs: Sequence[PodUid], left: tuple[int, int | None, bool]
) -> Fate:
    world = stage.engine.world
    now = [pod for uid in heirs if (pod := world.pods.get(stage.newest(uid))) is not None]
    placed = [(pod.node, pod.shape.request) for pod in now if pod.node is not None]
    refusal = next((why for pod in now if pod.node is None and (why := stage.engine.view.refusal(pod.uid))), None)
    return Fate(
        of=of,
        pods=tuple(pod.name for pod in pods[:SHOWN]),
        replaced=len(heirs),
        left=left[0],
        minimum=left[1],
        below=left[2],
        nodes=tuple(places_on(placed)),
        waiting=len(now) - len(placed),
        refusal=refusal,
    )


def _obstacles(engine: Engine, pods: Sequence[Pod]) -> Iterator[Obstacle]:
    for namespace in sorted({pod.namespace for pod in pods} & engine.world.budgets.keys()):
        for name, budget in sorted(engine.world.budgets[namespace].items()):
            number = sum(1 for pod in pods if pod.namespace == namespace and covers(budget, pod))
            if number > budget.allowed:
                yield Obstacle(namespace, name, max(0, budget.allowed), number)


def losses(evictions: Sequence[Eviction]) -> tuple[Loss, ...]:
    """Evictions by group and rule, in the order in which they came."""
    of: dict[tuple[str, str, Ground], list[Eviction]] = {}
    for one in evictions:
        key = one.pod.group
        of.setdefault((key.namespace, one.pod.name if key.lone else str(key), one.effect.ground), []).append(one)
    found = []
    for (_, _, ground), some in list(of.items())[:SHOWN]:
        pod, pods, times = some[0].pod, len({one.pod.name for one in some}), len({one.at for one in some})
        name = Named(pod.group, pod.name if pod.group.lone else pod.group.name, some[0].queue)
        found.append(Loss(name, pods, ground, some[0].effect.detail, times))
    return tuple(found)
