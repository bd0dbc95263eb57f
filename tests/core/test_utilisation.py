"""Where the GPUs are: every one counts once, and the sums are those of the pods, counted one by one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from engine_driver import OPEN, Driver
from hypothesis import given
from hypothesis import strategies as st

from extender.core import messages, pools, utilisation
from extender.core.ids import QueueName
from extender.core.model import Card, CardAsk, CardRequest, Node, Pod, Share, Trouble
from extender.core.series import OF_QUEUE, STATES
from tests import builders
from tests.builders import GPU, bound, gpu_node, make_group, make_pod, make_pods, make_queue

POOL = "karpenter.sh/nodepool"
MIG = "nvidia.com/mig-1g.5gb"


def of_pools(driver: Driver) -> dict[str, dict[str, float]]:
    return {name: dict(zip(STATES, row, strict=True)) for name, row in utilisation.of_pools(driver.engine).items()}


def of_queues(driver: Driver) -> dict[str, dict[str, float]]:
    return {name: dict(zip(OF_QUEUE, row, strict=True)) for name, row in utilisation.of_queues(driver.engine).items()}


def pooled(name: str, gpus: int, pool: str = "a", **fields: object) -> Node:
    return gpu_node(name, gpus, {POOL: pool}, **fields)


@dataclass(frozen=True)
class Some:
    """A pod as it is drawn: its GPUs, the node where it stands (None: it waits), whose it is, and its queue."""

    gpus: int
    node: int | None
    ours: bool
    queue: str

    def pod(self, number: int) -> Pod:
        made = make_pod(
            f"p{number}", {GPU: self.gpus}, scheduler="muster" if self.ours else "other", queue=QueueName(self.queue)
        )
        return made if self.node is None else bound(made, f"n{self.node}")


some = st.builds(
    Some, st.integers(0, 3), st.sampled_from((None, 0, 1, 2)), st.booleans(), st.sampled_from(("left", "right"))
)


@given(
    st.lists(st.tuples(st.integers(0, 8), st.sampled_from("ab"), st.booleans()), min_size=3, max_size=3),
    st.lists(some, max_size=8),
)
def test_sums_agree_with_the_pods_and_every_gpu_is_in_one_state(
    made: list[tuple[int, str, bool]], pods: list[Some]
) -> None:
    nodes = [pooled(f"n{n}", gpus, pool, unschedulable=out) for n, (gpus, pool, out) in enumerate(made)]
    queues = [make_queue("top"), *(make_queue(name, parent=QueueName("top")) for name in ("left", "right"))]
    driver = Driver(*nodes, *queues, opened=OPEN | {QueueName("left"), QueueName("right")})
    there = [one.pod(number) for number, one in enumerate(pods)]
    driver.see(*there)
    driver.tick()
    used = {f"n{n}": sum(one.gpus for one in pods if one.node == n) for n in range(3)}
    planned = [(pod, one) for pod, one in zip(there, pods, strict=True) if driver.node(pod) is not None]
    found = of_pools(driver)
    for pool in "ab":
        of = [(f"n{n}", gpus, out) for n, (gpus, name, out) in enumerate(made) if name == pool]
        row = found.get(pool, dict.fromkeys(STATES, 0.0))
        assert sum(row.values()) == pytest.approx(sum(gpus for _, gpus, _ in of))
        assert row["allocated"] == sum(min(used[name], gpus) for name, gpus, _ in of)
        held = {name: sum(one.gpus for pod, one in planned if driver.node(pod) == name) for name, _, _ in of}
        assert row["held"] == sum(min(held[name], gpus - min(used[name], gpus)) for name, gpus, _ in of)
        assert row["outOfUse"] == sum(max(0, gpus - used[name] - held[name]) for name, gpus, out in of if out)
        assert min(row.values()) >= 0
    told = of_queues(driver)
    for queue in ("left", "right"):
        mine = [one for one in pods if one.ours and one.queue == queue]
        row = told.get(queue, dict.fromkeys(OF_QUEUE, 0.0))
        held = sum(one.gpus for _, one in planned if one.queue == queue)
        assert row["allocated"] == sum(one.gpus for one in mine if one.node is not None)
        assert row["held"] == held
        assert row["waiting"] == sum(one.gpus for one in mine if one.node is None) - held
    for state in ("allocated", "held", "waiting"):
        assert told.get("top", {}).get(state, 0) == sum(told.get(q, {}).get(state, 0) for q in ("left", "right"))


def test_what_is_kept_for_those_whose_victims_leave_is_reserved_and_never_counts_twice() -> None:
    driver = Driver(pooled("n0", 8), make_queue("research"), opened=OPEN | {QueueName("research")})
    low = make_pods(2, "low", request={GPU: 4}, group="low", queue=QueueName("research"))
    driver.see(make_group("low", 2, queue="research"), *(bound(pod, "n0") for pod in low))
    driver.tick(600)
    high = make_pod("high", {GPU: 4}, queue=QueueName("research"), priority=10)
    driver.see(high)
    evictions = [one for one in driver.ticks(2) if isinstance(one, messages.Evict)]
    assert len(evictions) == 2
    assert of_pools(driver)["a"] | {"allocated": 8.0} == of_pools(driver)["a"]
    row = of_queues(driver)["research"]
    assert (row["allocated"], row["reserved"]) == (8, 4)
    driver.see(*(replace(bound(pod, "n0"), terminating=True) for pod in low))
    driver.gone(low[0])
    driver.tick()
    now = of_pools(driver)["a"]
    assert (now["allocated"], now["reserved"], now["held"]) in ((4, 4, 0), (4, 0, 4))
    assert sum(now.values()) == 8


def test_instances_are_their_part_of_a_gpu_and_cards_count_by_their_memory() -> None:
    mig = builders.make_node("m", {MIG: 7, GPU: 1})
    cards = (
        *(Card("g0", 10, 1000, 100), Card("g1", 10, 1000, 100)),
        *(Card("g2", 10, 1000, 100, trouble=Trouble.UNHEALTHY), Card("g3", 10, 1000, 100, trouble=Trouble.MIG)),
    )
    shared = builders.make_node("s", {GPU: 20}, cards=cards)
    request = CardRequest((CardAsk(1, 250),))
    part = replace(
        make_pod("part", shape=replace(builders.make_shape({GPU: 1}), cards=request)),
        shares=((Share("g0", 250, 0),),),
    )
    instance = bound(make_pod("one", {MIG: 1}), "m")
    driver = Driver(mig, shared, instance, bound(part, "s"))
    found = of_pools(driver)[pools.ALL]
    assert sum(found.values()) == pytest.approx(2 + 3)
    assert found["allocated"] == pytest.approx(1 / 7 + 0.25)
    waiting = make_pod("next", shape=replace(builders.make_shape({GPU: 1}), cards=CardRequest((CardAsk(1, 500),))))
    driver.see(waiting)
    driver.tick()
    assert driver.node(waiting) == "s"
    found = of_pools(driver)[pools.ALL]
    assert (found["held"], found["allocated"]) == (pytest.approx(0.5), pytest.approx(1 / 7 + 0.25))


def test_a_queue_tells_what_it_owns_and_does_not_use_and_what_it_is_owed() -> None:
    queue = make_queue("research", deserved=((GPU, 6),))
    driver = Driver(pooled("n0", 8), queue, opened=OPEN | {QueueName("research")})
    driver.see(bound(make_pod("runs", {GPU: 2}, queue=QueueName("research")), "n0"))
    driver.see(make_pod("large", {GPU: 9}, queue=QueueName("research")))
    driver.tick(5)
    row = of_queues(driver)["research"]
    assert (row["allocated"], row["unused"], row["waiting"], row["fair"]) == (2, 4, 9, 8)
    driver.see(make_pod("lost", {GPU: 1}, queue=QueueName("invented"), created=driver.now))
    driver.tick()
    found = utilisation.oldest(driver.engine, driver.now + 7)
    assert found == {"research": pytest.approx(driver.now + 7), "other": 7}


def test_the_pool_is_what_the_first_known_label_says_that_any_gpu_node_bears() -> None:
    nodes = [
        gpu_node("a", 1, {POOL: "x", "node.kubernetes.io/instance-type": "big"}),
        gpu_node("b", 1, {"node.kubernetes.io/instance-type": "big"}),
        builders.make_node("cpu", {"cpu": 1}, {"eks.amazonaws.com/nodegroup": "g"}),
    ]
    assert pools.of_nodes([*nodes, None], [True, True, False, False]) == [
        "x",
        pools.NO_LABEL,
        pools.NO_LABEL,
        pools.ALL,
    ]
    assert pools.of_nodes(nodes[2:], [False]) == [pools.ALL]


def test_a_group_is_noted_when_it_reaches_its_minimum_for_the_first_time() -> None:
    driver = Driver(gpu_node("n0", 8), make_group("train", 2))
    pods = make_pods(2, request={GPU: 4}, group="train", created=driver.now - 30)
    driver.see(*pods)
    driver.tick()
    driver.now += 4
    assert list(driver.engine.starts) == []
    driver.bind(*pods)
    driver.tick()
    (start,) = driver.engine.starts
    assert (start.queue, start.gpus, start.size) == ("default", 8, "2-8")
    assert (start.waited, start.starting) == (30, 4)
    driver.gone(pods[0])
    again = make_pod("again", {GPU: 4}, group="train")
    driver.see(again)
    driver.tick()
    driver.bind(again)
    driver.tick()
    assert len(driver.engine.starts) == 1  # it has only been made whole again
