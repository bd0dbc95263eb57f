"""Whole runs with cards: memory, cores and slots of single cards, what is out of use, and quotas by share."""

from __future__ import annotations

from tests.sim import scenes

NODE = """
settings: {end: 100%s}
nodes:
  - name: v1
    allocatable: {nvidia.com/gpu: %d}
    devices:
      - {id: gpu-0, memory_mib: 16000, cores: 100, slots: %d, healthy: true}
      - {id: gpu-1, memory_mib: 16000, cores: 100, slots: %d, healthy: true}
"""


def node(slots: int = 10, settings: str = "") -> str:
    return NODE % (settings, 2 * slots, slots, slots)


def group(name: str, at: int = 0, replicas: int = 1, least: int = 1, queue: str = "", **requests: int) -> str:
    asked = {"nvidia.com/gpu": requests.pop("gpu", 1)} | {f"nvidia.com/{key}": n for key, n in requests.items()}
    text = ", ".join(f"{key.replace('percentage', 'gpumem-percentage')}: {n}" for key, n in asked.items())
    where = f" queue: {queue}," if queue else ""
    tasks = f"[{{name: w, replicas: {replicas}, requests: {{{text}}}}}]"
    return f"  - {{name: {name},{where} minMember: {least}, at: {at}, recreate: true, tasks: {tasks}}}\n"


def test_a_gang_whose_shares_need_more_cards_than_there_are_does_not_start() -> None:
    scenario = node() + "groups:\n" + group("g", replicas=3, least=3, gpumem=9000)
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: g, count: 0}",
            "{check: reason, group: g, code: DeviceNoFit, mentions: [gpumem, 9000], at: 50}",
        )
        == []
    )


def test_a_gang_is_packed_onto_as_few_cards_as_hold_it_and_leaves_the_other_whole() -> None:
    scenario = node() + "groups:\n" + group("g", replicas=3, least=3, gpumem=5000) + group("whole", at=5)
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: g, count: 3, by: 0}",
            "{check: bound, group: whole, count: 1, by: 5}",
            "{check: cards, pods: [g-w-0, g-w-2], relation: same, at: 10}",
            "{check: cards, pods: [g-w-0, whole-w-0], relation: different, at: 10}",
            "{check: card_load, node: v1, resource: memory_mib, max: 16000}",
        )
        == []
    )


def test_a_member_of_two_gpus_has_two_cards() -> None:
    scenario = node() + "groups:\n" + group("g", replicas=2, least=2, gpu=2, percentage=50)
    scenario += group("late", at=5, percentage=1)
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: g, count: 2, by: 0}",
            "{check: bound, group: late, count: 0}",
            "{check: reason, group: late, code: DeviceNoFit, mentions: [gpumem, v1], at: 50}",
            "{check: card_load, node: v1, resource: slots, max: 2}",
        )
        == []
    )


def test_what_waits_for_an_ill_card_starts_when_it_recovers() -> None:
    scenario = node(1) + "groups:\n" + group("a", at=5) + group("b", at=5)
    scenario += """
events:
  - {at: 1, kind: device_unhealthy, node: v1, device: gpu-1, allocatable: {nvidia.com/gpu: 1}}
  - {at: 50, kind: device_healthy, node: v1, device: gpu-1, allocatable: {nvidia.com/gpu: 2}}
"""
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: b, count: 0, until: 50}",
            "{check: reason, group: b, code: DeviceUnhealthy, mentions: [v1, gpu-1], at: 40}",
            "{check: bound, group: b, count: 1, by: 50}",
        )
        == []
    )


def test_a_node_that_refuses_is_left_alone_until_it_changes() -> None:
    scenario = node(1, ", max_rejections_per_node: 2") + "groups:\n" + group("g", at=5)
    scenario += """
events:
  - {at: 1, kind: kubelet_reject, node: v1, until: 20}
  - {at: 60, kind: device_unhealthy, node: v1, device: gpu-1, allocatable: {nvidia.com/gpu: 1}}
"""
    assert (
        scenes.short(
            scenario,
            "{check: failed, group: g, max: 2}",
            "{check: bound, group: g, count: 0, at: 59}",
            "{check: reason, group: g, code: NodeUnavailable, mentions: [v1], at: 50}",
            "{check: bound, group: g, count: 1, by: 60}",
        )
        == []
    )


def test_nodes_out_of_use_are_the_reason_where_they_would_do() -> None:
    scenario = node() + "groups:\n" + group("g", at=5, gpumem=100)
    scenario += "events: [{at: 1, kind: cordon, node: v1}, {at: 60, kind: uncordon, node: v1}]\n"
    assert (
        scenes.short(
            scenario,
            "{check: reason, group: g, code: NodeUnavailable, mentions: [v1, cordoned], at: 50}",
            "{check: bound, group: g, count: 1, by: 60}",
        )
        == []
    )


def test_what_asks_for_more_than_any_card_has_is_told_so_though_a_node_is_out_of_use() -> None:
    scenario = node() + "groups:\n" + group("g", at=5, gpumem=17000)
    scenario += "events: [{at: 60, kind: cordon, node: v1}]\n"
    assert (
        scenes.short(scenario, "{check: reason, group: g, code: DeviceNoFit, mentions: [17000, 16000], at: 50}") == []
    )


QUEUES = """
queues:
  - {name: top, capability: {nvidia.com/gpu: 2}}
  - {name: q, parent: top, capability: {nvidia.com/gpu: 1}}
  - {name: r, parent: top}
groups:
"""


def test_a_queue_that_charges_by_share_counts_parts_of_gpus() -> None:
    scenario = node(10, ", gpu_charge: share") + QUEUES
    scenario += group("g", replicas=5, queue="q", percentage=30) + group("h", at=5, queue="r", replicas=2, least=2)
    scenario += group("i", at=6, queue="r", percentage=10)
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: g, count: 3}",
            "{check: queue_used, queue: q, resources: {nvidia.com/gpu: 900m}, at: 50}",
            "{check: reason, group: g, code: QuotaExceeded, mentions: [q, '0.3', '0.9', 1], at: 50}",
            "{check: reason, group: h, code: QuotaExceeded, mentions: [top, 2, 1], at: 50}",
            "{check: bound, group: i, count: 1, by: 6}",
        )
        == []
    )


def test_a_queue_that_does_not_counts_gpus_asked() -> None:
    scenario = node() + QUEUES + group("g", replicas=5, queue="q", percentage=30)
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: g, count: 1}",
            "{check: reason, group: g, code: QuotaExceeded, mentions: [q, 1], at: 50}",
        )
        == []
    )


def test_a_share_is_freed_for_more_urgent_work_on_the_right_card() -> None:
    scenario = node() + "queues: [{name: q}]\ngroups:\n"
    low = group("low", replicas=2, queue="q", gpumem=9000)
    high = group("high", at=10, queue="q", gpumem=9000).replace("minMember", "priority: 10, minMember")
    assert (
        scenes.short(
            scenario + low + high,
            "{check: bound, group: high, count: 1, by: 15}",
            "{check: evicted, group: low, min: 1, max: 1}",
            "{check: card_load, node: v1, resource: memory_mib, max: 16000}",
        )
        == []
    )
