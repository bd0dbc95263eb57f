"""Each kind of event does what it says: with it the checks hold, without it one of them does not."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from extender.sim import vocabulary
from tests.sim import scenes

BASE = """
settings: {end: 100}
nodes: [{name: n1, allocatable: {cpu: 2}}, {name: n2, labels: {disk: slow}, allocatable: {cpu: 2}}]
queues: [{name: q, capability: {cpu: 9}}]
groups:
  - {name: g, queue: q, minMember: 2, tasks: [{name: w, replicas: 2, requests: {cpu: 1}, placed: {n1: 2}}]}
"""
OWNED = BASE.replace("minMember: 2", "minMember: 2, recreate: true, grace: 5")
#: `late` waits for room for three pods of 2 cpu; two nodes have it
WAITING = """
settings: {end: 100}
nodes: [{name: n1, allocatable: {cpu: 2}}, {name: n2, allocatable: {cpu: 2}}]
groups: [{name: late, minMember: 3, at: 5, tasks: [{name: w, replicas: 3, requests: {cpu: 2}}]}]
"""
#: a gang whose bind calls come at 5
PAIR = """
settings: {end: 100, http_timeout: 20}
nodes: [{name: n1, allocatable: {cpu: 2}}, {name: n2, allocatable: {cpu: 2}}]
groups: [{name: g, minMember: 2, recreate: true, tasks: [{name: w, at: 5, replicas: 2, requests: {cpu: 1}}]}]
"""
CARDS = """
settings: {end: 100}
nodes:
  - {name: n1, allocatable: {nvidia.com/gpu: 1}, devices: [{id: c0, memory_mib: 9, cores: 100, slots: 1}]}
groups:
  - {name: g, minMember: 1, at: 10, recreate: true, tasks: [{name: w, replicas: 1, requests: {nvidia.com/gpu: 1}}]}
"""
ILL = CARDS.replace("slots: 1}", "slots: 1, healthy: false}").replace(
    "allocatable: {nvidia.com/gpu: 1}", "allocatable: {}"
)

CASES: dict[str, tuple[str, str, list[str]]] = {
    "add_node": (
        WAITING,
        "{at: 10, kind: add_node, node: {name: n9, allocatable: {cpu: 2}}}",
        ["{check: bound, group: late, count: 0, at: 9}", "{check: bound, group: late, count: 3, by: 10}"],
    ),
    "label_node": (
        BASE.replace(
            "groups:", "pods: [{name: p, queue: q, requests: {cpu: 1}, node_selector: {disk: fast}}]\ngroups:"
        ),
        "{at: 10, kind: label_node, node: n2, labels: {disk: fast}}",
        [
            "{check: bound, pod: p, count: 0, at: 9}",
            "{check: nodes, pod: p, in: [n2]}",
            "{check: bound, pod: p, count: 1, by: 10}",
        ],
    ),
    "cordon": (
        PAIR,
        "{at: 3, kind: cordon, node: n1}",
        ["{check: nodes, group: g, in: [n2]}", "{check: bound, group: g, count: 2, by: 5}"],
    ),
    "uncordon": (
        PAIR.replace("cpu: 2}}]", "cpu: 0}}]") + "events: [{at: 2, kind: cordon, node: n1}]\n",
        "{at: 10, kind: uncordon, node: n1}",
        ["{check: bound, group: g, count: 0, at: 9}", "{check: bound, group: g, count: 2, by: 10}"],
    ),
    "drain": (
        OWNED,
        "{at: 10, kind: drain, node: n1}",
        [
            "{check: bound, group: g, count: 2, at: 14}",
            "{check: bound, group: g, count: 2, by: 16}",
            "{check: nodes, group: g, in: [n2], by: 16}",
            "{check: evicted_total, max: 0}",
        ],
    ),
    "fail_node": (
        PAIR,
        "{at: 3, kind: fail_node, node: n1}",
        ["{check: nodes, group: g, in: [n2]}", "{check: bound, group: g, count: 2, by: 5}"],
    ),
    "recover_node": (
        PAIR.replace("cpu: 2}}]", "cpu: 0}}]") + "events: [{at: 2, kind: fail_node, node: n1}]\n",
        "{at: 10, kind: recover_node, node: n1}",
        ["{check: bound, group: g, count: 0, at: 9}", "{check: bound, group: g, count: 2, by: 10}"],
    ),
    "remove_node": (
        BASE,
        "{at: 10, kind: remove_node, node: n1}",
        ["{check: bound, group: g, count: 2, at: 9}", "{check: bound, group: g, count: 0, by: 10}"],
    ),
    "add_pods": (
        BASE,
        "{at: 10, kind: add_pods, group: g, task: {name: w, replicas: 1, requests: {cpu: 2}}}",
        ["{check: bound, pod: g-w-2, count: 1, by: 10}", "{check: bound, group: g, count: 3, by: 10}"],
    ),
    "delete_pod": (
        OWNED,
        "{at: 10, kind: delete_pod, pods: [g-w-0]}",
        [
            "{check: bound, pod: g-w-0 (first UID), count: 1, at: 14}",
            "{check: bound, pod: g-w-0 (first UID), count: 0, by: 15}",
            "{check: queue_used, queue: q, resources: {cpu: 1}, at: 15}",
            "{check: bound, pod: g-w-0 (second UID), count: 1, by: 16}",
        ],
    ),
    "delete_group": (
        OWNED,
        "{at: 10, kind: delete_group, group: g}",
        [
            "{check: queue_used, queue: q, resources: {cpu: 2}, at: 14}",
            "{check: bound, group: g, count: 0, by: 15}",
            "{check: group_phase, group: g, not: Running, by: 10}",
        ],
    ),
    "set_min_member": (
        WAITING,
        "{at: 10, kind: set_min_member, group: late, minMember: 2}",
        ["{check: bound, group: late, count: 0, at: 9}", "{check: bound, group: late, count: 2, by: 10}"],
    ),
    "add_queue": (
        BASE,
        "{at: 10, kind: add_queue, queue: {name: up, parent: up}}",
        ["{check: rejected, object: queue up, code: QueueInvalid}"],
    ),
    "set_queue": (
        BASE.replace("queues: [", "queues: [{name: r}, "),
        "{at: 10, kind: set_queue, queue: q, set: {parent: r}}",
        [
            "{check: queue_used, queue: r, resources: {cpu: 0}, at: 9}",
            "{check: queue_used, queue: r, resources: {cpu: 2}, at: 10}",
        ],
    ),
    "recreate_pod": (
        OWNED,
        "{at: 10, kind: recreate_pod, pod: on n1, deliver: add_before_delete}",
        [
            "{check: bound, pod: g-w-1 (first UID), count: 0, by: 10}",
            "{check: bound, pod: g-w-1 (second UID), count: 1, by: 10}",
            "{check: binding_posts, pod: g-w-1, max: 1}",
        ],
    ),
    "finish_pods": (
        OWNED,
        "{at: 10, kind: finish_pods, pods: [g-w-0], phase: Failed}",
        [
            "{check: bound, group: g, count: 1, at: 10}",
            "{check: bound, pod: g-w-0 (second UID), count: 1, by: 11}",
            "{check: failed, group: g, max: 1}",
        ],
    ),
    "device_unhealthy": (
        CARDS,
        "{at: 5, kind: device_unhealthy, node: n1, device: c0, allocatable: {nvidia.com/gpu: 0}}",
        ["{check: bound, group: g, count: 0}"],
    ),
    "device_healthy": (
        ILL,
        "{at: 50, kind: device_healthy, node: n1, device: c0, allocatable: {nvidia.com/gpu: 1}}",
        ["{check: bound, group: g, count: 0, at: 49}", "{check: bound, group: g, count: 1, by: 50}"],
    ),
    "kubelet_reject": (
        CARDS,
        "{at: 5, kind: kubelet_reject, node: n1, until: 12}",
        ["{check: bound, pod: g-w-0 (first UID), count: 0}", "{check: bound, group: g, count: 1, by: 12}"],
    ),
    "delay_watch": (
        PAIR,
        "{at: 5, kind: delay_watch, object: pod/g-w-0, seconds: 4}",
        ["{check: bound, group: g, count: 0, at: 8}", "{check: bound, group: g, count: 2, by: 9}"],
    ),
    "api_conflict": (
        PAIR,
        "{at: 0, kind: api_conflict, object: podgroup/g status, times: 3}",
        ["{check: group_phase, group: g, not: Running, at: 5}", "{check: group_phase, group: g, is: Running, by: 6}"],
    ),
    "delay_bind_reply": (
        PAIR + "events: [{at: 40, kind: repeat_bind, pod: g-w-0, node: same}]\n",
        "{at: 0, kind: delay_bind_reply, pod: g-w-0, seconds: 30}",
        ["{check: bound, group: g, count: 2, by: 5}", "{check: binding_posts, pod: g-w-0, max: 1}"],
    ),
    "repeat_bind": (
        PAIR,
        "{at: 40, kind: repeat_bind, pod: g-w-0, node: same}",
        ["{check: answer, call: repeat_bind g-w-0, result: success}", "{check: binding_posts, pod: g-w-0, max: 1}"],
    ),
    "crash_during_bind": (
        PAIR,
        "{at: 0, kind: crash_during_bind, group: g, posted: 1}",
        ["{check: bound, group: g, count: 1, by: 5}", "{check: binding_posts, pod: g-w-1, max: 0}"],
    ),
    "start_sidecar": (
        PAIR + "events: [{at: 0, kind: crash_during_bind, group: g, posted: 1}]\n",
        "{at: 9, kind: start_sidecar}",
        ["{check: bound, group: g, count: 1, at: 8}", "{check: bound, group: g, count: 2, by: 9}"],
    ),
}
#: these make the names that their checks use, or must change nothing
SHOWN_BY_ITSELF = {"add_pods", "add_queue", "delay_bind_reply"}
#: tested on the cluster alone, in test_sim_cluster
ELSEWHERE = {"close_queue", "delete_queue", "freeze_budget_status"}


def _with(scenario: str, event: str | None) -> str:
    loaded: dict[str, Any] = yaml.safe_load(scenario)
    if event is not None:
        loaded["events"] = [yaml.safe_load(event), *loaded.get("events", [])]
    return yaml.safe_dump(loaded)


@pytest.mark.parametrize("kind", CASES)
def test_an_event_does_what_it_says(kind: str) -> None:
    scenario, event, checks = CASES[kind]
    assert yaml.safe_load(event)["kind"] == kind
    assert scenes.short(_with(scenario, event), *checks) == []


@pytest.mark.parametrize("kind", sorted(CASES.keys() - SHOWN_BY_ITSELF))
def test_without_it_the_checks_do_not_hold(kind: str) -> None:
    scenario, _, checks = CASES[kind]
    assert scenes.short(_with(scenario, None), *checks) != []


def test_every_kind_of_event_is_tested() -> None:
    assert CASES.keys() | ELSEWHERE == vocabulary.EVENTS.keys()
