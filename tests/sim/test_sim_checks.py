"""Each kind of check holds where it should and falls short where it should, and says what it saw."""

from __future__ import annotations

import pytest

from extender.sim import vocabulary
from extender.sim.report import single
from tests.sim import scenes

#: a gang of two runs from 0 on, its other half has no room; a loose pod of another scheduler is there
GANG = """
settings: {end: 60}
nodes:
  - {name: n1, labels: {rack: a}, allocatable: {cpu: 4, x.io/gpu: 2}}
  - {name: n2, labels: {rack: a}, allocatable: {cpu: 4, x.io/gpu: 1}}
queues:
  - {name: top, capability: {cpu: 100}}
  - {name: q, parent: top}
groups:
  - {name: runs, queue: q, minMember: 2, tasks: [{name: w, replicas: 2, requests: {cpu: 500m, x.io/gpu: 1}}]}
  - {name: waits, queue: q, minMember: 2, at: 5, tasks: [{name: w, replicas: 2, requests: {cpu: 1, x.io/gpu: 1}}]}
  - {name: alone, queue: q, minMember: 3, at: 5, tasks: [{name: w, replicas: 1, requests: {cpu: 1}}]}
pods:
  - {name: other, node: n2, requests: {cpu: 1}}
events:
  - {at: 30, kind: finish_pods, pods: [runs-w-0], phase: Succeeded, keep_object: true}
  - {at: 31, kind: finish_pods, pods: [runs-w-1], phase: Succeeded, keep_object: true}
"""
#: the members of a gang come back by owners; n1's kubelet refuses what is bound there for a while
OWNED = """
settings: {end: 60, max_rejections_per_node: 9}
nodes: [{name: n1, allocatable: {cpu: 2}}]
queues: [{name: q}]
groups:
  - {name: g, queue: q, minMember: 1, recreate: true, grace: 4,
     tasks: [{name: w, replicas: 1, requests: {cpu: 1}, placed: {n1: 1}}]}
events:
  - {at: 10, kind: delete_pod, pods: [g-w-0]}
  - {at: 12, kind: kubelet_reject, node: n1, until: 18}
"""
IMPATIENT = OWNED.replace("end: 60", "end: 60, bind_window: 3")
CARDS = """
settings: {end: 20}
nodes:
  - name: v1
    allocatable: {nvidia.com/gpu: 4}
    devices:
      - {id: c0, memory_mib: 1000, cores: 100, slots: 2}
      - {id: c1, memory_mib: 1000, cores: 100, slots: 2}
groups:
  - name: g
    minMember: 1
    tasks:
      - {name: half, replicas: 2, placed: {v1: 2},
         requests: {nvidia.com/gpu: 1, nvidia.com/gpumem: 400, nvidia.com/gpucores: 30}}
      - {name: big, replicas: 1, placed: {v1: 1}, requests: {nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 60}}
      - {name: late, at: 10, replicas: 1, requests: {nvidia.com/gpu: 9}}
"""
#: one Binding is answered too late; a queue and a group are refused by the API server
CALLS = """
settings: {end: 60, http_timeout: 20}
nodes: [{name: n1, allocatable: {cpu: 1}}, {name: n2, allocatable: {cpu: 1}}]
queues: [{name: good}, {name: bad, parent: bad}]
groups:
  - {name: g, queue: good, minMember: 1, tasks: [{name: w, replicas: 1, requests: {cpu: 1}}]}
  - {name: zero, queue: good, minMember: 0, tasks: [{name: w, replicas: 1, requests: {cpu: 1}}]}
  - {name: split, queue: good, minMember: 2, tasks: [{name: w, min: 1, replicas: 2, requests: {cpu: 9}}]}
events:
  - {at: 0, kind: delay_bind_reply, pod: g-w-0, seconds: 30}
  - {at: 40, kind: repeat_bind, pod: g-w-0, node: other}
"""

#: the gate reads the group live and knows of its new minimum before the extender does
STALE = """
settings: {end: 60}
nodes: [{name: n1, allocatable: {cpu: 4}}]
groups: [{name: g, minMember: 2, tasks: [{name: w, at: 5, replicas: 2, requests: {cpu: 1}}]}]
events:
  - {at: 5, kind: set_min_member, group: g, minMember: 3}
  - {at: 5, kind: delay_watch, object: podgroup/g, seconds: 3}
"""

HOLDS = [
    (GANG, "{check: bound, group: runs, count: 2, at: 5}"),
    (GANG, "{check: bound, group: runs, count: 2, until: 30}"),
    (GANG, "{check: bound, pod: other, count: 1}"),
    (GANG, "{check: bound, pod: waits-w-0, count: 0, at: 29}"),
    (GANG, "{check: bound_always, group: runs, allowed: [0, 2]}"),
    (GANG, "{check: census, groups: [runs, waits, alone], counts: {2: 1, 0: 2}, at: 20}"),
    (GANG, "{check: census, groups: [runs, waits, alone], counts: {2: 1}, at: 20}"),
    (GANG, "{check: held, group: waits, max: 0}"),
    (GANG, "{check: finished, groups: [runs], by: 31}"),
    (GANG, "{check: order, first: runs, then: waits}"),
    (GANG, "{check: order, first: runs, then: alone}"),
    (GANG, "{check: evicted, group: runs, max: 0}"),
    (GANG, "{check: evicted_total, min: 0, max: 0}"),
    (GANG, "{check: queue_used, queue: q, resources: {cpu: 1, x.io/gpu: 2}, at: 20}"),
    (GANG, "{check: queue_used, queue: top, resources: {cpu: 1000m}, at: 20}"),
    (GANG, "{check: queue_used_max, queue: top, resources: {cpu: 2500m, x.io/gpu: 3}}"),
    (GANG, "{check: nodes, group: runs, in: [n1, n2]}"),
    (GANG, "{check: nodes, pod: other, not_in: [n1]}"),
    (GANG, "{check: same_domain, group: runs, key: rack, value: a}"),
    (GANG, "{check: reason, group: waits, code: InsufficientResources, mentions: [x.io/gpu, 2, 1], at: 20}"),
    (GANG, "{check: reason, pod: alone-w-0, code: NotEnoughMembers, mentions: ['1', 3], at: 20}"),
    (GANG, "{check: group_phase, group: runs, is: Running, at: 20}"),
    (GANG, "{check: group_phase, group: waits, not: Running, at: 20}"),
    (GANG, "{check: answers, max_seconds: 10}"),
    (GANG, "{check: binding_posts, pod: runs-w-0, max: 1}"),
    (GANG, "{check: writes, object: events of pod runs-w-0, max: 0}"),
    (GANG, "{check: writes, object: podgroup/runs status, max: 2}"),
    (OWNED, "{check: bound, pod: g-w-0 (first UID), count: 1, at: 13}"),
    (OWNED, "{check: bound, pod: g-w-0 (third UID), count: 0, at: 16}"),
    (OWNED, "{check: bound, group: g, count: 1, by: 19}"),
    (OWNED, "{check: failed, group: g, max: 3}"),
    (OWNED, "{check: bound_always, group: g, allowed: [1]}"),
    (STALE, "{check: held, group: g, max: 0, by: 20}"),
    (CARDS, "{check: cards, pods: [g-half-0, g-half-1], relation: same, at: 5}"),
    (CARDS, "{check: cards, pods: [g-half-0, g-big-0], relation: different}"),
    (CARDS, "{check: card_load, node: v1, resource: memory_mib, max: 800}"),
    (CARDS, "{check: card_load, node: v1, resource: cores, max: 60}"),
    (CARDS, "{check: card_load, node: v1, resource: slots, max: 2}"),
    (CALLS, "{check: answer, call: repeat_bind g-w-0, result: error, code: AlreadyBound}"),
    (CALLS, "{check: rejected, object: queue bad, code: QueueInvalid}"),
    (CALLS, "{check: rejected, object: group zero, code: InvalidRequest}"),
    (CALLS, "{check: any_of, options: [[{check: bound, group: g, count: 7}], [{check: bound, group: g, count: 1}]]}"),
]
SHORT = [
    (GANG, "{check: bound, group: runs, count: 1, at: 5}", "2 at 5"),
    (GANG, "{check: bound, group: runs, count: 2, by: 5}", "1 at 30"),
    (GANG, "{check: bound, group: runs, count: 2}", "1 at 30"),
    (GANG, "{check: bound, pod: other, count: 0}", "1 at 0"),
    (GANG, "{check: bound_always, group: runs, allowed: [0]}", "2 at 0"),
    (
        GANG,
        "{check: census, groups: [runs, waits, alone], counts: {2: 1, 0: 1}, at: 20}",
        "runs 2, waits 0, alone 0 at 20",
    ),
    (GANG, "{check: finished, groups: [runs, waits], by: 40}", "not finished: waits at 40"),
    (GANG, "{check: finished, groups: [runs], by: 30}", "not finished: runs at 30"),
    (
        GANG,
        "{check: order, first: waits, then: runs}",
        "waits started with binding 5, runs started with binding 3 at 60",
    ),
    (GANG, "{check: order, first: alone, then: runs}", "alone has not started, runs started with binding 3 at 60"),
    (GANG, "{check: evicted, group: runs, min: 1}", "0 at 60"),
    (GANG, "{check: evicted_total, min: 1}", "0 at 60"),
    (GANG, "{check: queue_used, queue: q, resources: {cpu: 2}, at: 20}", "cpu 1 at 20"),
    (GANG, "{check: queue_used_max, queue: top, resources: {cpu: 900m}}", "cpu 1 at 0"),
    (GANG, "{check: nodes, group: runs, in: [n2], at: 20}", "n1, n2 at 20"),
    (GANG, "{check: nodes, group: runs, not_in: [n1], at: 20}", "n1, n2 at 20"),
    (GANG, "{check: same_domain, group: runs, key: rack, value: b}", "a at 0"),
    (GANG, "{check: same_domain, group: runs, key: zone}", "None at 0"),
    (GANG, "{check: reason, group: runs, code: Fragmented, at: 20}", "no reason at 20"),
    (
        GANG,
        "{check: reason, group: alone, code: NotEnoughMembers, mentions: [7], at: 20}",
        "NotEnoughMembers: waiting for the group's other members to be created (have 1, minimum 3) without 7 at 20",
    ),
    (GANG, "{check: reason, queue: q, code: QueueInvalid, at: 20}", "no reason at 20"),
    (CALLS, "{check: queue_state, queue: bad, state: Closing, at: 20}", "no state at 20"),
    (GANG, "{check: group_phase, group: waits, is: Running, at: 20}", "Pending at 20"),
    (GANG, "{check: group_phase, group: runs, not: Running, at: 20}", "Running at 20"),
    (GANG, "{check: binding_posts, pod: runs-w-0, max: 0}", "1 at 60"),
    (GANG, "{check: writes, object: podgroup/runs status, max: 0}", "1 at 60"),
    (GANG, "{check: writes, object: pod runs-w-0, max: 0}", "1 at 60"),
    (GANG, "{check: rejected, object: queue q, code: QueueInvalid}", "neither refused nor set aside at 60"),
    (GANG, "{check: answer, call: repeat_bind runs-w-0, result: success}", "no answer at 60"),
    (OWNED, "{check: bound, pod: g-w-0 (second UID), count: 1, at: 17}", "0 at 17"),
    (OWNED, "{check: failed, group: g, max: 1}", "3 at 60"),
    (IMPATIENT, "{check: bound_always, group: g, allowed: [1]}", "0 at 14"),
    (
        CARDS,
        "{check: cards, pods: [g-half-0, g-half-1], relation: different}",
        "g-half-0 on v1/c0, g-half-1 on v1/c0 at 0",
    ),
    (CARDS, "{check: cards, pods: [g-half-0, g-big-0], relation: same}", "g-half-0 on v1/c0, g-big-0 on v1/c1 at 0"),
    (CARDS, "{check: cards, pods: [g-half-0, g-late-0], relation: different}", "g-half-0 on v1/c0 at 0"),
    (CARDS, "{check: card_load, node: v1, resource: memory_mib, max: 700}", "c0 800, c1 600 at 0"),
    (STALE, "{check: held, group: g, max: 0}", "2 at 5"),
    (STALE, "{check: held, group: g, max: 1, by: 7}", "2 at 7"),
    (
        CALLS,
        "{check: answer, call: repeat_bind g-w-0, result: success}",
        "error muster: the pod is already bound to n1 at 60",
    ),
    (CALLS, "{check: rejected, object: queue good, code: QueueInvalid}", "neither refused nor set aside at 60"),
    (
        CALLS,
        "{check: any_of, options: [[{check: bound, group: g, count: 7}], [{check: bound, group: g, count: 0}]]}",
        "option 1: bound group g count 7: 1 at 0; option 2: bound group g count 0: 1 at 0",
    ),
]


def _named(value: str) -> str | None:
    return value if value.startswith("{") else ""


@pytest.mark.parametrize(("scenario", "check"), HOLDS, ids=_named)
def test_a_check_holds(scenario: str, check: str) -> None:
    assert scenes.short(scenario, check) == []


@pytest.mark.parametrize(("scenario", "check", "seen"), SHORT, ids=_named)
def test_a_check_falls_short(scenario: str, check: str, seen: str) -> None:
    [result] = scenes.play(scenario, check)
    assert (result.held, result.seen) == (False, seen)


@pytest.mark.parametrize("table", [HOLDS, SHORT], ids=["holds", "falls short"])
def test_every_kind_of_check_is_in_the_tables(table: list[tuple[str, ...]]) -> None:
    kinds = {check.kind for row in table for check in single(scenes.report(row[0], row[1]).want)}
    assert kinds - vocabulary.CHECKS.keys() == set()
    assert vocabulary.CHECKS.keys() - kinds == {"queue_state"} if table is HOLDS else {"answers"}
