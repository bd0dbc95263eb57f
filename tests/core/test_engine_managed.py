"""Managed namespaces in the engine: which pods of other schedulers count in which queue, and when that changes."""

from __future__ import annotations

from dataclasses import replace

from extender.core import messages
from extender.core.ids import QueueName
from extender.core.model import Pod
from extender.core.reasons import Reason
from tests import builders
from tests.builders import GPU, gpu_node, make_group, make_pod, make_queue
from tests.core.engine_driver import Driver


def label(engine: Driver, managed: bool, queue: str | None = None) -> None:
    engine.send(messages.NamespaceSeen("team", QueueName(queue) if queue else None, managed))


def foreign(name: str, gpus: int = 1, queue: str | None = None, **fields: object) -> Pod:
    """A pod of another scheduler that runs."""
    pod = make_pod(name, {GPU: gpus}, scheduler="default-scheduler", queue=QueueName(queue) if queue else None)
    return replace(builders.bound(pod, "gpu-0"), **fields)  # type: ignore[arg-type]


def used(engine: Driver) -> dict[str, int]:
    """GPUs in use by queue; queues that use none are left out."""
    usage = engine.engine.usage
    return {name: gpus for name in ("a", "b", "default") if (gpus := usage.of(QueueName(name)).get(GPU, 0))}


def test_in_a_managed_namespace_every_pod_counts_whoever_scheduled_it() -> None:
    engine = Driver(
        *(gpu_node(gpus=16), make_queue("a", capability=((GPU, 4),)), make_queue("b")),
        *(foreign("own-queue", 3, "a"), foreign("no-queue", 2), foreign("daemon", 0)),
        foreign("ended", phase="Succeeded"),
        foreign("elsewhere", namespace="other"),
        make_pod("waits", {GPU: 1}, scheduler="volcano"),
    )
    assert used(engine) == {}
    label(engine, managed=True)
    assert used(engine) == {"a": 3, "default": 2}
    label(engine, managed=True, queue="b")
    assert used(engine) == {"a": 3, "b": 2}
    assert dict(engine.engine.usage.of(QueueName("b"))) == {GPU: 2, "pods": 2}
    label(engine, managed=False, queue="b")
    assert used(engine) == {}


def test_what_others_use_is_quota_that_ours_wait_for_until_the_label_is_gone() -> None:
    ours = make_pod("ours", {GPU: 2}, queue=QueueName("a"))
    engine = Driver(gpu_node(), make_queue("a", capability=((GPU, 4),)), foreign("theirs", 3, "a"))
    label(engine, managed=True)
    engine.see(ours)
    engine.tick()
    assert engine.reason(ours) is Reason.QUOTA
    assert engine.detail(ours)["used"] == 3
    label(engine, managed=False)
    engine.tick()
    assert engine.node(ours) == "gpu-0"
    engine.bind(ours)
    label(engine, managed=True)
    assert used(engine) == {"a": 5}
    engine.send(messages.NamespaceGone("team"))
    assert used(engine) == {"a": 2}
    engine.send(messages.NamespaceGone("team"))
    assert used(engine) == {"a": 2}


def test_pods_of_other_schedulers_are_followed_from_their_binding_to_their_end() -> None:
    engine = Driver(gpu_node(), make_queue("a"), make_queue("b"), make_group("train", 2, queue="a"))
    label(engine, managed=True)
    waits = make_pod("p", {GPU: 1}, group="train", scheduler="default-scheduler")
    engine.see(waits)
    assert used(engine) == {}
    engine.see(runs := builders.bound(waits, "gpu-0"))
    assert used(engine) == {"a": 1}
    engine.see(replace(runs, terminating=True))
    assert used(engine) == {"a": 1}
    engine.see(moved := replace(runs, queue=QueueName("b")))  # nothing fixes the marks of other schedulers' pods
    assert used(engine) == {"b": 1}
    engine.gone(moved)
    assert used(engine) == {}


def test_the_label_may_be_seen_before_or_after_the_pods_and_while_the_engine_is_not_active() -> None:
    engines = [Driver(gpu_node(), make_queue("a"), active=False) for _ in range(2)]
    engines[0].see(foreign("theirs", 3, "a"))
    for engine in engines:
        label(engine, managed=True)
        label(engine, managed=True)
    engines[1].see(foreign("theirs", 3, "a"))
    for engine in engines:
        assert used(engine) == {"a": 3}
        engine.send(messages.ActivityChanged(True))
        engine.tick()
        assert used(engine) == {"a": 3}
