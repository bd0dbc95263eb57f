"""MIG instances in scenarios: pools of their own, quotas by profile and by slices, nodes whose layout is changed."""

from __future__ import annotations

import pytest
import scenes

NODE = """
nodes:
  - name: m1
    labels: {nvidia.com/gpu.count: "2", nvidia.com/mig.strategy: mixed, nvidia.com/mig-3g.21gb.count: "16"}
    allocatable: {nvidia.com/gpu: 0, nvidia.com/mig-1g.10gb: 7, nvidia.com/mig-1g.10gb.me: 1, nvidia.com/mig-3g.40gb: 4}
"""


def group(name: str, profile: str, replicas: int, more: str = "") -> str:
    return (
        f"  - {{name: {name}, minMember: {replicas}{more}, "
        f"tasks: [{{name: w, replicas: {replicas}, requests: {{nvidia.com/{profile}: 1}}}}]}}\n"
    )


def queues(field: str, *names: str) -> str:
    """Queues of which each has one GPU, and the begin of the groups."""
    told = (f"  - {{name: {name}, {field}: {{nvidia.com/gpu: 1}}}}\n" for name in names)
    return f"queues:\n{''.join(told)}groups:\n"


def test_each_profile_is_a_pool_of_its_own_and_labels_are_no_capacity() -> None:
    scenario = NODE + "groups:\n"
    scenario += (
        group("small", "mig-1g.10gb", 7) + group("media", "mig-1g.10gb.me", 1) + group("large", "mig-3g.40gb", 4)
    )
    scenario += group("more", "mig-1g.10gb", 1, ", at: 5") + group("other", "mig-3g.21gb", 1, ", at: 5")
    scenario += group("whole", "gpu", 1, ", at: 5")
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: small, count: 7, by: 5}",
            "{check: bound, group: media, count: 1, by: 5}",
            "{check: bound, group: large, count: 4, by: 5}",
            "{check: reason, group: more, code: InsufficientResources, mentions: [nvidia.com/mig-1g.10gb, 0], at: 50}",
            "{check: reason, group: other, code: InsufficientResources, mentions: [nvidia.com/mig-3g.21gb], at: 50}",
            "{check: reason, group: whole, code: InsufficientResources, mentions: [nvidia.com/gpu], at: 50}",
            "{check: bound, group: more, count: 0}",
        )
        == []
    )


def test_where_all_instances_are_alike_they_are_what_the_node_has_of_gpus() -> None:
    scenario = """
nodes:
  - name: m1
    labels: {nvidia.com/mig.strategy: single, nvidia.com/gpu.count: "1", nvidia.com/gpu.product: A100-MIG-1g.5gb}
    allocatable: {nvidia.com/gpu: 7}
groups:
"""
    scenario += group("g", "gpu", 7) + group("more", "gpu", 1, ", at: 5")
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: g, count: 7, by: 5}",
            "{check: reason, group: more, code: InsufficientResources, mentions: [nvidia.com/gpu, 1, 0], at: 50}",
        )
        == []
    )


def test_a_queue_that_charges_by_share_counts_slices_exactly() -> None:
    scenario = "settings: {gpu_charge: share}\n" + NODE
    scenario += queues("capability", "q", "r")
    scenario += group("seven", "mig-1g.10gb", 7, ", queue: q") + group("over", "mig-1g.10gb.me", 1, ", queue: q, at: 5")
    scenario += group("two", "mig-3g.40gb", 2, ", queue: r") + group("third", "mig-3g.40gb", 1, ", queue: r, at: 5")
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: seven, count: 7, by: 5}",
            "{check: queue_used, queue: q, resources: {nvidia.com/gpu: 1}, at: 50}",
            "{check: reason, group: over, code: QuotaExceeded, mentions: [q, '0.14', 1], at: 50}",
            "{check: bound, group: two, count: 2, by: 5}",
            "{check: reason, group: third, code: QuotaExceeded, mentions: [r, '0.43', '0.86', 1], at: 50}",
        )
        == []
    )


def test_a_queue_that_counts_gpus_asked_counts_no_slices() -> None:
    scenario = NODE + "queues: [{name: q, capability: {nvidia.com/gpu: 0}}]\ngroups:\n"
    scenario += group("g", "mig-1g.10gb", 7, ", queue: q")
    assert scenes.short(scenario, "{check: bound, group: g, count: 7, by: 5}") == []


def test_what_is_deserved_in_gpus_is_taken_back_in_instances_of_the_profile_that_is_asked_for() -> None:
    """The borrower has 4/7 and 7/7 of two GPUs; who takes back wants large instances, and gets none of the small."""
    scenario = "settings: {gpu_charge: share}\n" + NODE.replace("3g.40gb: 4", "3g.40gb: 2")
    scenario += queues("deserved", "x", "y")
    scenario += group("small", "mig-1g.10gb", 7, ", queue: x")
    scenario += group("large", "mig-3g.40gb", 2, ", queue: x, at: 5").replace("minMember: 2", "minMember: 1")
    scenario += group("mine", "mig-3g.40gb", 1, ", queue: y, at: 30")
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: large, count: 2, at: 29}",
            "{check: bound, group: mine, count: 1, by: 60}",
            "{check: evicted, group: large, min: 1, max: 1}",
            "{check: evicted, group: small, max: 0}",
        )
        == []
    )


@pytest.mark.parametrize("state", ["pending", "rebooting", "failed"])
def test_a_node_whose_layout_is_changed_gets_nothing_and_keeps_what_it_has(state: str) -> None:
    scenario = NODE + "groups:\n" + group("runs", "mig-1g.10gb", 1) + group("waits", "mig-1g.10gb", 2, ", at: 30")
    scenario += f"""events:
  - {{at: 10, kind: label_node, node: m1, labels: {{nvidia.com/mig.config.state: {state}}}}}
  - {{at: 100, kind: label_node, node: m1, labels: {{nvidia.com/mig.config.state: success}}}}
"""
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: runs, count: 1, by: 5}",
            "{check: evicted_total, max: 0}",
            "{check: bound, group: waits, count: 0, at: 99}",
            f"{{check: reason, group: waits, code: NodeUnavailable, mentions: [m1, {state}], at: 90}}",
            "{check: bound, group: waits, count: 2, by: 110}",
        )
        == []
    )


def test_another_node_is_taken_instead() -> None:
    scenario = """
nodes:
  - {name: a, allocatable: {nvidia.com/mig-1g.10gb: 2}, labels: {nvidia.com/mig.config.state: pending}}
  - {name: b, allocatable: {nvidia.com/mig-1g.10gb: 2}, labels: {nvidia.com/mig.config.state: success}}
groups:
"""
    scenario += group("g", "mig-1g.10gb", 2)
    checks = ("{check: bound, group: g, count: 2, by: 5}", "{check: nodes, group: g, in: [b]}")
    assert scenes.short(scenario, *checks) == []
