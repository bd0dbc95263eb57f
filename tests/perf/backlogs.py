"""Big worlds in which much waits, for the figures of cycles: 5000 nodes, 200 queues, so many groups.

Takes the number of groups, gives an engine that has looked at all of them; must not measure.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace

from extender.core import messages
from extender.core.engine import Engine
from extender.core.ids import QUEUE_GATE, NodeName, QueueName
from extender.core.model import Declared, Node, Pod, Queue
from tests.builders import GI, GPU, bound, gpu_node, make_node, make_pod, make_queue, make_topology

NODES, QUEUES = 5000, 200
GATED = (QUEUE_GATE,)
#: the first so many queues have others below them
_INNER = 10


def queue_of(number: int) -> QueueName:
    """The queue of a group; they are dealt out in turn."""
    return QueueName(f"q{_INNER + number % (QUEUES - _INNER)}")


def _queues(fields: Callable[[int], dict[str, object]]) -> Iterator[Queue]:
    for number in range(QUEUES):
        parent = None if number < _INNER else f"q{number % _INNER}"
        yield make_queue(f"q{number}", parent=parent, **fields(number))


def full(groups: Iterator[list[Pod]], turns: int | None) -> Engine:
    """Nodes of which a pod of others takes all GPUs; every queue owns more than it uses."""
    engine = Engine(10**6, turns)
    for number in range(NODES):
        node = gpu_node(f"node-{number:05}", 8)
        engine.handle(messages.NodeSeen(node), 0.0)
        busy = make_pod(f"busy-{number}", {GPU: 8}, scheduler="default")
        engine.handle(messages.PodSeen(bound(busy, node.name)), 0.0)
    for queue in _queues(lambda _: {"deserved": ((GPU, 100),)}):
        engine.handle(messages.QueueSeen(queue), 0.0)
    return _begin(engine, groups)


def _begin(engine: Engine, groups: Iterator[list[Pod]]) -> Engine:
    engine.handle(messages.ActivityChanged(True), 0.0)
    for group in groups:
        for pod in group:
            engine.handle(messages.PodSeen(pod), 0.0)
    all_looked_at(engine, 0.0)
    return engine


def equal_pods(waiting: int, turns: int | None = None) -> Engine:
    """Pods that are all alike."""
    return full((equal_pod(number) for number in range(waiting)), turns)


def equal_pod(number: int) -> list[Pod]:
    """One of them."""
    return gang(number, 1, {"cpu": 4000, GPU: 1})


def equal_gangs(waiting: int, turns: int | None = None) -> Engine:
    """Gangs of four that are all alike."""
    return full((equal_gang(number) for number in range(waiting)), turns)


def equal_gang(number: int) -> list[Pod]:
    """One of them."""
    return gang(number, 4, {"cpu": 4000, GPU: 1})


def different(waiting: int, turns: int | None = None) -> Engine:
    """The worst case: no two groups are alike."""
    return full((different_group(number) for number in range(waiting)), turns)


def different_group(number: int) -> list[Pod]:
    """One of 200 requests x 5 sizes x 10 priorities."""
    request = {"cpu": 1000 + 10 * (number % 200), GPU: 1}
    return gang(number, 1 + number // 200 % 5, request, priority=number // 1000 % 10)


def realistic(waiting: int, turns: int | None = None) -> Engine:
    """Three kinds of nodes, nine in ten full; queues with caps, guarantees and loans; many small pods."""
    chance = random.Random(7)
    engine = Engine(10**6, turns)
    engine.handle(messages.TopologySeen(make_topology()), 0.0)
    for queue in _queues(_limits):
        engine.handle(messages.QueueSeen(queue), 0.0)
    for number in range(NODES):
        engine.handle(messages.NodeSeen(_node(number)), 0.0)
        for part in range(4):
            engine.handle(messages.PodSeen(running(number, part, chance)), 0.0)
    return _begin(engine, (typical(number, chance) for number in range(waiting)))


def _limits(number: int) -> dict[str, object]:
    if number < _INNER:
        return {"deserved": ((GPU, 2400),)}
    return [
        {"deserved": ((GPU, 120),), "capability": ((GPU, 240),)},
        {"deserved": ((GPU, 60),)},
        {"capability": ((GPU, 100), ("cpu", 1_000_000))},
        {"guarantee": ((GPU, 8),), "deserved": ((GPU, 40),)},
        {},
    ][number % 5]


def _node(number: int) -> Node:
    labels = {"block": f"b{number // 128}", "rack": f"r{number // 16 % 8}", "pool": f"p{number % 3}"}
    if number % 10 == 9:
        return make_node(f"node-{number:05}", {"cpu": 64_000, "memory": 256 * GI}, labels)
    return gpu_node(f"node-{number:05}", 8 if number % 10 < 7 else 4, labels)


def running(number: int, part: int, chance: random.Random) -> Pod:
    """One of four pods that fill a node, but for one node in ten."""
    gpus = 2 if number % 10 < 7 else 1
    request = {"cpu": 12_000, GPU: gpus} if number % 10 != 9 else {"cpu": 15_000}
    if chance.random() < 0.1:
        request = {"cpu": 1000}
    pod = make_pod(f"busy-{number}-{part}", request, queue=queue_of(chance.randrange(10**6)))
    return bound(pod, f"node-{number:05}")


def typical(number: int, chance: random.Random) -> list[Pod]:
    """A group of the realistic mix."""
    kind = chance.random()
    if kind < 0.6:  # evaluation
        return gang(number, 1, {"cpu": 1000 * chance.randint(1, 8), GPU: chance.choice((1, 1, 1, 2, 4, 8))})
    if kind < 0.9:
        return gang(number, chance.choice((2, 4, 8)), {"cpu": 8000, GPU: chance.choice((1, 4, 8))})
    if kind < 0.97:
        return gang(number, 16, {"cpu": 48_000, GPU: 8}, declared=Declared(16, topology_required="block"))
    if kind < 0.99:  # half of it is not there
        return gang(number, 2, {"cpu": 8000, GPU: 8}, declared=Declared(4))
    return gang(number, 1, {"cpu": 8000, GPU: 1}, constraints={"selector": (("pool", "none"),)})


def gang(number: int, size: int, request: dict[str, int], **fields: object) -> list[Pod]:
    """The pods of one group, gated."""
    declared = fields.pop("declared", Declared(size))
    return [
        replace(
            make_pod(
                f"p{number}-{member}",
                request,
                group=f"g{number}" if size > 1 else None,
                queue=queue_of(number),
                gates=GATED,
                created=float(number // 100),
                **fields,  # type: ignore[arg-type]
            ),
            declared=declared,
        )
        for member in range(size)
    ]


def node_renewed(engine: Engine, now: float) -> None:
    """A node went and came back, so all that waits is to be looked at."""
    node = engine.world.node(NodeName("node-00000"))
    assert node is not None
    engine.handle(messages.NodeGone(node.name), now)
    engine.handle(messages.NodeSeen(node), now)


def all_looked_at(engine: Engine, now: float) -> None:
    """The same, and the cycle that follows, to its end."""
    node_renewed(engine, now)
    engine.handle(messages.Tick(), now)
    while engine.unfinished:
        engine.handle(messages.Tick(), now)


def figures(milliseconds: list[float]) -> str:
    """How many there are, median, p99 and the worst."""
    several = milliseconds if len(milliseconds) > 1 else 2 * milliseconds
    cuts = statistics.quantiles(several, n=100, method="inclusive")
    return f"{len(milliseconds):>6} {cuts[49]:>9.2f} {cuts[98]:>9.2f} {max(milliseconds):>9.2f}"
