"""Figures of snapshot and placement: `python -m tests.perf.bench_placement`, `... levels` for the last part alone.
Prints, never asserts.

Each figure is the median and the worst CPU time of several runs in this process, in microseconds, and the
median of what the clock on the wall showed (it grows with what else runs on the machine).
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from extender.core import fragmentation
from extender.core.feasibility import Feasibility
from extender.core.ids import TaskName
from extender.core.model import (
    Card,
    CardAsk,
    CardRequest,
    Constraints,
    Expression,
    Node,
    Part,
    Share,
    Taint,
    Term,
    Toleration,
)
from extender.core.placement import Demand, Placement, place
from extender.core.reasons import Refusal
from extender.core.snapshot import Known, Room, Snapshot
from extender.core.world import World
from tests.builders import (
    GI,
    GPU,
    bound,
    gpu_node,
    make_node,
    make_pod,
    make_shape,
    make_topology,
    make_world,
    show,
)

RUNS = 30


def measure(label: str, run: Callable[[], object], runs: int = RUNS) -> None:
    """Print the median and the worst time of a call, and how it ended."""
    cpu, wall = [], []
    result: object = None
    for _ in range(runs):
        begin = time.thread_time(), time.perf_counter()
        result = run()
        cpu.append((time.thread_time() - begin[0]) * 1e6)
        wall.append((time.perf_counter() - begin[1]) * 1e6)
    figures = f"{statistics.median(cpu):>9.0f} {max(cpu):>9.0f} {statistics.median(wall):>9.0f}"
    print(f"{label:<82} {figures}   {_ending(result)}")


def _ending(result: object) -> str:
    match result:
        case Placement():
            nodes = len({row for rows in result.rows for row in rows})
            return f"{sum(map(len, result.rows))} pods on {nodes} nodes, {'/'.join(result.domain) or 'anywhere'}"
        case Refusal():
            return f"{result.reason} {dict(result.detail)}"
        case int():
            return str(result)
    return ""


def uniform(count: int) -> World:
    """Empty nodes of eight GPUs in racks of 16 and blocks of 8 racks."""
    labels = [{"block": f"b{n // 128}", "rack": f"r{n // 16 % 8}"} for n in range(count)]
    nodes = [gpu_node(f"gpu-{n:05}", labels=labels[n]) for n in range(count)]
    return make_world(make_topology(), *nodes)


def mixed(count: int, racks_per_block: int, blocks: int) -> World:
    """Half-full nodes of four shapes, each rack of all four."""
    chance = random.Random(7)
    kinds = [
        {"cpu": 96_000, "memory": 1024 * GI, GPU: 8},
        {"cpu": 128_000, "memory": 2048 * GI, GPU: 8, "rdma/hca": 8},
        {"cpu": 48_000, "memory": 384 * GI, GPU: 4},
        {"cpu": 64_000, "memory": 256 * GI},
    ]
    world = make_world(make_topology())
    for n in range(count):
        block, rack = n % blocks, n // blocks % racks_per_block
        labels = {
            "block": f"b{block}",
            "rack": f"r{rack}",
            "kubernetes.io/hostname": f"node-{n:05}",
            "pool": f"p{n % 3}",
            "gpu.memory": str(40 * (n % 3)),
        }
        taints = (Taint("gpu", "yes", "NoSchedule"),) if GPU in kinds[n % 4] else ()
        node = make_node(f"node-{n:05}", kinds[n % 4], labels, taints=taints)
        full = {name: amount * chance.randint(20, 80) // 100 for name, amount in node.allocatable if name != "pods"}
        show(world, [node, bound(make_pod(f"busy-{n}", full), node.name)])
    return world


TOLERANT = {"tolerations": (Toleration("gpu", "Exists", "", ""),)}


def demands_of_three_tasks() -> list[Demand]:
    """1000 pods: a launcher, parameter servers and workers."""
    return [
        Demand(make_shape({"cpu": 4000, "memory": 16 * GI}, **TOLERANT), 1, TaskName("launcher")),
        Demand(make_shape({"cpu": 8000, "memory": 48 * GI}, **TOLERANT), 99, TaskName("ps")),
        Demand(make_shape({"cpu": 6000, "memory": 40 * GI, GPU: 1}, **TOLERANT), 900, TaskName("worker")),
    ]


def room_of(world: World) -> Room:
    """A fresh room with everything derived already, as in the middle of a cycle."""
    return Room(Snapshot.take(world, Feasibility()))


def lone_pods() -> None:
    for count in (500, 5000):
        for name, world in (("empty", uniform(count)), ("mixed", mixed(count, 10, 5))):
            room, demand = room_of(world), [Demand(make_shape({"cpu": 2000, "memory": GI}, **TOLERANT), 1)]
            measure(f"lone pod, {count} {name} nodes", lambda r=room, d=demand: place(r, d), 200)
    room = room_of(uniform(500))
    shape = make_shape({"cpu": 2000, "memory": GI, GPU: 1})

    def thousand() -> None:
        scratch = room.copy()
        for _ in range(1000):
            place(scratch, [Demand(shape, 1)]).take(scratch)  # type: ignore[union-attr]

    measure("1000 lone pods placed and taken one by one, 500 nodes", thousand, 5)


def with_a_workload() -> None:
    """Lone pods while others of many shapes wait, which fragments are counted for."""
    world = mixed(1000, 10, 5)
    chance = random.Random(3)
    for number in range(256):
        asked = {"cpu": 1000 * (number % 64 + 1), "memory": 8 * GI, GPU: chance.choice((1, 1, 2, 4, 8))}
        show(world, [make_pod(f"waits-{number}", asked)])
    snapshot, one = Snapshot.take(world, Feasibility()), make_shape({"cpu": 2000, "memory": GI, GPU: 1}, **TOLERANT)
    rooms = [Room(snapshot) for _ in range(200)]
    place(Room(snapshot), [Demand(one, 1)])
    measure(
        "lone pod of one GPU, 1000 nodes, 64 typical shapes, nothing known of the room",
        lambda: place(rooms.pop(), [Demand(one, 1)]),
        100,
    )
    room = Room(snapshot)

    def taken() -> object:
        found = place(room, [Demand(one, 1)])
        if isinstance(found, Placement):
            found.take(room)
        return found

    measure("the same, one after the other", taken, 200)
    measure("fragments of a snapshot", lambda: round(fragmentation.lost(Room(snapshot))), 50)


def gangs() -> None:
    room, shape = room_of(uniform(500)), make_shape({"cpu": 8000, "memory": 64 * GI, GPU: 1})
    measure("gang of 1024, 500 nodes", lambda: place(room, [Demand(shape, 1024)]))
    measure(
        "gang of 1024, 500 nodes, required block",
        lambda: place(room, [Demand(shape, 1024)], required="block"),
    )
    measure("gang of 64, 500 nodes, preferred rack", lambda: place(room, [Demand(shape, 64)], preferred="rack"))
    measure("gang of 5000, 500 nodes: refused", lambda: place(room, [Demand(shape, 5000)]))
    placed = place(room, [Demand(shape, 1024)])
    assert isinstance(placed, Placement)
    measure("taking a placement of 1024", lambda: placed.take(room.copy()))


def hard_gangs() -> None:
    for racks, blocks, say in (
        (4, 2, "8 racks of 625"),
        (10, 5, "50 racks of 100"),
        (40, 5, "200 racks of 25"),
    ):
        room, three = room_of(mixed(5000, racks, blocks)), demands_of_three_tasks()
        for outer, inner in (("rack", "block"), ("block", "rack")):
            measure(
                f"1000 in 3 tasks, 5000 mixed nodes in {say}: {outer} required, {inner} preferred",
                lambda r=room, t=three, o=outer, i=inner: place(r, t, required=o, preferred=i),
                10,
            )
        measure(
            "  the same with a fresh snapshot each time, rack preferred",
            lambda r=room, t=three: _fresh(r, t),
            10,
        )


def _fresh(room: Room, demands: list[Demand]) -> object:
    return place(Room(replace(room.snapshot, _wants={}, _lates={})), demands, preferred="rack")


def shares() -> None:
    """1000 nodes of eight cards, every second one with a share on each card."""
    cards = tuple(Card(f"g{n}", 10, 80_000, 100) for n in range(8))
    taken = (tuple(Share(card.id, 20_000, 20) for card in cards),)
    world = make_world()
    for n in range(1000):
        node = gpu_node(f"gpu-{n:05}", 80, hami=True, cards=cards)
        busy = replace(make_pod(f"busy-{n}", {GPU: 8}, node=node.name), shares=taken)
        show(world, [node, busy] if n % 2 else [node])
    room, shape = room_of(world), make_shape({"cpu": 2000, GPU: 1})
    one, two = (replace(shape, cards=CardRequest((CardAsk(number, 30_000, None, 10),))) for number in (1, 2))
    measure("one share of a card, 1000 nodes of 8 cards", lambda: place(room, [Demand(one, 1)]), 100)
    measure("gang of 1024 shares", lambda: place(room, [Demand(one, 1024)]), 5)
    measure("gang of 512 with shares of two cards each", lambda: place(room, [Demand(two, 512)]), 5)
    measure("snapshot, nothing changed", lambda: Snapshot.take(world, Feasibility()).cards, 10)


def unsolvable() -> None:
    nodes = [make_node(f"n{n:02}", {"cpu": 7000, "memory": 7 * GI}) for n in range(16)]
    room = room_of(make_world(*nodes))
    tasks = [
        Demand(make_shape({"cpu": 4000, "memory": 3 * GI}), 11, TaskName("a")),
        Demand(make_shape({"cpu": 3000, "memory": 4 * GI}), 11, TaskName("b")),
        Demand(make_shape({"cpu": 4000, "memory": 4 * GI}), 6, TaskName("c")),
    ]
    measure("hard and hopeless: 28 pods in 3 tasks on 16 nodes", lambda: place(room, tasks), 5)
    room = room_of(uniform(500))
    tasks = [
        Demand(make_shape({"cpu": 49_000, GPU: 1}), 400, TaskName("a")),
        Demand(make_shape({"cpu": 48_000, GPU: 5}), 300, TaskName("b")),
    ]
    measure("hopeless: 700 pods in 2 tasks on 500 nodes", lambda: place(room, tasks), 5)
    measure(
        "hopeless: the same, required block, preferred rack",
        lambda: place(room, tasks, required="block", preferred="rack"),
        5,
    )


def constraints() -> None:
    world = mixed(5000, 40, 5)
    typical = Constraints(
        (("pool", "p1"),),
        (Term((Expression("gpu.memory", "Gt", ("39",)), Expression("block", "NotIn", ("b9",)))),),
        (Toleration("gpu", "Exists", "", ""),),
    )
    measure(
        "facts of 5000 nodes and a typical selector, from nothing",
        lambda: Feasibility().at(world).mask(typical),
    )
    kept = Feasibility()
    kept.at(world).mask(typical)
    measure("snapshot of 5000 nodes, nothing changed", lambda: Snapshot.take(world, kept).facts.mask(typical))
    flip = iter(range(10**6))

    def touch() -> object:
        node = world.nodes.nodes[17]
        assert isinstance(node, Node)
        show(world, [replace(node, labels={**node.labels, "pool": f"p{next(flip) % 7}"})])
        return Snapshot.take(world, kept).facts.mask(typical)

    measure("snapshot of 5000 nodes, one node changed", touch)
    measure(
        "domains of block and rack, 5000 nodes",
        lambda: kept.at(world).under(kept.at(world).levels).domains(("block", "rack")),
    )


FIVE = ("zone", "row", "block", "rack", "kubernetes.io/hostname")


def five_levels(count: int) -> World:
    """Nodes of eight GPUs under a random load, in hosts of racks of 16 of blocks of 8 of rows of 8 of zones."""
    chance = random.Random(11)
    world = make_world(make_topology(*FIVE))
    for n in range(count):
        name = f"gpu-{n:05}"
        places = (n // 8192, n // 1024, n // 128, n // 16)
        labels = {level: f"{level[0]}{place}" for level, place in zip(FIVE, places, strict=False)} | {FIVE[-1]: name}
        used = chance.choice((0, 0, 0, 2, 4, 6, 8, 8))
        busy = [bound(make_pod(f"busy-{n}", {GPU: used}), name)] if used else []
        show(world, [gpu_node(name, labels=labels), *busy])
    return world


def wishes(chance: random.Random) -> tuple[str, list[Demand], dict[str, str | None]]:
    """A gang of any size from 2 to 2048 pods that wishes for levels, or for slices in racks or on hosts."""
    kind = chance.choice(("required", "preferred", "both", "anywhere", "slices", "two tasks"))
    pods, shape = 2 ** chance.randint(1, 11), make_shape({"cpu": 4000, GPU: chance.choice((1, 1, 2, 4, 8))})
    outer, inner = chance.choice(FIVE[:3]), chance.choice(FIVE[2:])
    levels = {"required": outer if kind in ("required", "both") else None, "preferred": None}
    if kind in ("preferred", "both", "two tasks"):
        levels["preferred"] = inner
    if kind == "slices":
        size = chance.choice((4, 8, 16))
        each = [Part(chance.choice(("rack", FIVE[-1])), f"{n}", True) for n in range(min(256, -(-pods // size)))]
        return kind, [Demand(make_shape({GPU: 1}), size, within=(part,)) for part in each], levels
    demands = [Demand(shape, pods, TaskName("worker"))]
    if kind == "two tasks":
        demands.append(Demand(make_shape({"cpu": 8000}), max(1, pods // 8), TaskName("ps")))
    return kind, demands, levels


def many_levels(count: int = 10_000, runs: int = 1000) -> None:
    """One placement each of many random gangs, none of which was asked for before."""
    room, chance = room_of(five_levels(count)), random.Random(5)
    took: dict[str, list[float]] = {}
    for level in FIVE:  # what follows from labels is kept while they stay as they are
        place(room, [Demand(make_shape({GPU: 1}), 2)], preferred=level)
    for _ in range(runs):
        kind, demands, levels = wishes(chance)
        fresh = room.copy()
        fresh.known = Known()
        begin = time.thread_time()
        found = place(fresh, demands, **levels)  # type: ignore[arg-type]
        kind = f"{kind}{', refused' * isinstance(found, Refusal)}"
        took.setdefault(kind, []).append((time.thread_time() - begin) * 1e3)
    took["all"] = [one for some in took.values() for one in some]
    for kind, times in sorted(took.items()):
        times.sort()
        p50, p99 = (times[int(len(times) * part)] for part in (0.5, 0.99))
        figures = f"p50 {p50:6.2f}  p99 {p99:6.2f}  worst {times[-1]:6.2f} ms of CPU"
        print(f"{count} nodes, 5 levels: {kind:<24} {len(times):>5} placements  {figures}")


def main() -> None:
    """Print all figures; with the name of a part that part alone."""
    if sys.argv[1:] == ["levels"]:
        many_levels()
        return
    print(f"{'microseconds':<82} {'cpu':>9} {'worst':>9} {'wall':>9}")
    for part in (constraints, lone_pods, with_a_workload, gangs, hard_gangs, shares, unsolvable, many_levels):
        part()


if __name__ == "__main__":
    main()
