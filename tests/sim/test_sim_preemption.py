"""Reclaim and preemption in whole runs: what is freed, when, and for whom."""

from __future__ import annotations

import pytest

from tests.sim import scenes

#: what happens, the scenario, and what must hold
RUNS = {
    "what was borrowed is given back within one grace period": (
        """
nodes:
  - {name: n1, allocatable: {nvidia.com/gpu: 8}}
  - {name: n2, allocatable: {nvidia.com/gpu: 8}}
queues:
  - {name: a, deserved: {nvidia.com/gpu: 8}}
  - {name: b, deserved: {nvidia.com/gpu: 8}}
groups:
  - {name: bag, queue: b, minMember: 1, recreate: true, grace: 30,
     tasks: [{name: w, replicas: 16, requests: {nvidia.com/gpu: 1}, placed: {n1: 8, n2: 8}}]}
  - {name: back, queue: a, minMember: 1, at: 20, tasks: [{name: w, replicas: 8, requests: {nvidia.com/gpu: 1}}]}
""",
        [
            "{check: bound, group: back, count: 8, by: 51}",
            "{check: reason, group: back, code: WaitingForVictims, mentions: [bag], at: 40}",
            "{check: evicted, group: bag, min: 8, max: 8}",
            "{check: queue_used_max, queue: b, resources: {nvidia.com/gpu: 16}}",
            "{check: queue_used, queue: a, resources: {nvidia.com/gpu: 0}, at: 40}",
            "{check: reason, group: bag, code: Reclaimed, mentions: [a, back], at: 40}",
        ],
    ),
    "freed room waits for the one and what ends by itself helps nobody else": (
        """
nodes:
  - {name: n1, allocatable: {nvidia.com/gpu: 8}}
  - {name: n2, allocatable: {nvidia.com/gpu: 8}}
queues:
  - {name: a, deserved: {nvidia.com/gpu: 8}}
  - {name: b, deserved: {nvidia.com/gpu: 8}}
groups:
  - {name: bag, queue: b, minMember: 1, recreate: true, grace: 30,
     tasks: [{name: w, replicas: 16, requests: {nvidia.com/gpu: 1}, placed: {n1: 8, n2: 8}}]}
  - {name: back, queue: a, minMember: 1, at: 20, tasks: [{name: w, replicas: 1, requests: {nvidia.com/gpu: 8}}]}
  - {name: third, queue: b, minMember: 1, at: 25, tasks: [{name: w, replicas: 1, requests: {nvidia.com/gpu: 1}}]}
events:
  - {at: 30, kind: finish_pods, pods: [bag-w-0], phase: Succeeded}
""",
        [
            "{check: bound, group: back, count: 1, by: 51}",
            "{check: evicted, group: bag, min: 8, max: 8}",
            "{check: bound, group: third, count: 0}",
        ],
    ),
    "a service that may not be preempted keeps to what its queue owns": (
        """
nodes:
  - {name: n1, allocatable: {nvidia.com/gpu: 8}}
queues:
  - {name: a, deserved: {nvidia.com/gpu: 4}}
  - {name: b, deserved: {nvidia.com/gpu: 4}}
groups:
  - {name: svc, queue: a, minMember: 4, preemptible: false, at: 5,
     tasks: [{name: w, replicas: 4, requests: {nvidia.com/gpu: 1}}]}
  - {name: svc2, queue: a, minMember: 1, preemptible: false, at: 6,
     tasks: [{name: w, replicas: 1, requests: {nvidia.com/gpu: 1}}]}
  - {name: soft, queue: a, minMember: 1, at: 7, recreate: true,
     tasks: [{name: w, replicas: 4, requests: {nvidia.com/gpu: 1}}]}
  - {name: back, queue: b, minMember: 4, at: 20, tasks: [{name: w, replicas: 4, requests: {nvidia.com/gpu: 1}}]}
""",
        [
            "{check: bound, group: svc, count: 4, by: 6}",
            "{check: bound, group: svc2, count: 0}",
            "{check: reason, group: svc2, code: NonPreemptibleOverQuota, mentions: [a, '4'], at: 10}",
            "{check: bound, group: soft, count: 4, at: 15}",
            "{check: bound, group: back, count: 4, by: 25}",
            "{check: evicted, group: svc, max: 0}",
            "{check: evicted, group: soft, min: 4, max: 4}",
        ],
    ),
    "two elastic jobs come to rest": (
        """
nodes:
  - {name: n1, allocatable: {cpu: 11}}
queues:
  - {name: a, deserved: {cpu: 5}, capability: {cpu: 10}}
  - {name: b, deserved: {cpu: 5}, capability: {cpu: 10}}
groups:
  - {name: ja, queue: a, minMember: 2, recreate: true,
     tasks: [{name: w, replicas: 5, requests: {cpu: 2}, placed: {n1: 5}}]}
  - {name: jb, queue: b, minMember: 2, at: 10, recreate: true, tasks: [{name: w, replicas: 5, requests: {cpu: 2}}]}
""",
        [
            "{check: evicted_total, max: 3}",
            "{check: bound, group: jb, count: 2, by: 20}",
            "{check: bound, group: ja, count: 3, by: 20}",
        ],
    ),
    "a third that comes while victims leave finds its own": (
        """
nodes:
  - {name: n1, allocatable: {cpu: 2}}
queues:
  - {name: q, deserved: {cpu: 2}}
groups:
  - {name: low, queue: q, minMember: 1, priority: 1, recreate: true, grace: 10,
     tasks: [{name: w, replicas: 2, requests: {cpu: 1}, placed: {n1: 2}}]}
  - {name: mid, queue: q, minMember: 2, priority: 5, at: 10, recreate: true, grace: 10,
     tasks: [{name: w, replicas: 2, requests: {cpu: 1}}]}
  - {name: high, queue: q, minMember: 2, priority: 9, at: 15, tasks: [{name: w, replicas: 2, requests: {cpu: 1}}]}
""",
        [
            "{check: bound, group: high, count: 2, by: 40}",
            "{check: evicted, group: low, min: 2, max: 2}",
            "{check: bound_always, group: mid, allowed: [0, 2]}",
        ],
    ),
    "who leaves anyhow is waited for": (
        """
nodes:
  - {name: n1, allocatable: {cpu: 4}}
  - {name: n2, allocatable: {cpu: 4}}
queues:
  - {name: q, deserved: {cpu: 8}}
groups:
  - {name: low, queue: q, minMember: 1, priority: 1, grace: 30,
     tasks: [{name: w, replicas: 8, requests: {cpu: 1}, placed: {n1: 4, n2: 4}}]}
  - {name: high, queue: q, minMember: 2, priority: 9, at: 15, tasks: [{name: w, replicas: 2, requests: {cpu: 1}}]}
events:
  - {at: 10, kind: delete_pod, pods: [low-w-0, low-w-1]}
""",
        [
            "{check: bound, group: high, count: 2, by: 41}",
            "{check: reason, group: high, code: WaitingForVictims, at: 20}",
            "{check: evicted_total, max: 0}",
        ],
    ),
    "a node that fails while victims leave is given up": (
        """
nodes:
  - {name: n1, allocatable: {cpu: 4}}
  - {name: n2, allocatable: {cpu: 4}}
queues:
  - {name: q, deserved: {cpu: 8}}
groups:
  - {name: low, queue: q, minMember: 1, priority: 1, grace: 30,
     tasks: [{name: w, replicas: 4, requests: {cpu: 1}, placed: {n1: 4}}]}
  - {name: lo2, queue: q, minMember: 1, priority: 2, grace: 30,
     tasks: [{name: w, replicas: 4, requests: {cpu: 1}, placed: {n2: 4}}]}
  - {name: high, queue: q, minMember: 2, priority: 9, at: 15, tasks: [{name: w, replicas: 2, requests: {cpu: 1}}]}
events:
  - {at: 20, kind: fail_node, node: n1}
""",
        [
            "{check: bound, group: high, count: 2, by: 60}",
            "{check: evicted, group: low, max: 2}",
            "{check: evicted, group: lo2, max: 2}",
            "{check: nodes, group: high, in: [n2]}",
        ],
    ),
    "a gang under a budget for one stays whole": (
        """
nodes:
  - {name: n1, allocatable: {cpu: 4}}
queues:
  - {name: q, deserved: {cpu: 4}}
groups:
  - {name: low, queue: q, minMember: 4, priority: 1,
     tasks: [{name: w, replicas: 4, requests: {cpu: 1}, placed: {n1: 4}}]}
  - {name: high, queue: q, minMember: 1, priority: 9, at: 15, tasks: [{name: w, replicas: 1, requests: {cpu: 1}}]}
budgets:
  - {name: three, group: low, min_available: 3}
""",
        [
            "{check: evicted_total, max: 0}",
            "{check: reason, group: high, code: NoEligibleVictims, mentions: [three], at: 20}",
        ],
    ),
    "a borrower under a budget that lets nobody go stays": (
        """
nodes:
  - {name: n1, allocatable: {cpu: 4}}
queues:
  - {name: a, deserved: {cpu: 2}}
  - {name: b, deserved: {cpu: 2}}
groups:
  - {name: web, queue: b, minMember: 1, tasks: [{name: w, replicas: 4, requests: {cpu: 1}, placed: {n1: 4}}]}
  - {name: own, queue: a, minMember: 1, at: 15, tasks: [{name: w, replicas: 1, requests: {cpu: 1}}]}
budgets:
  - {name: all, group: web, min_available: 4}
""",
        [
            "{check: evicted_total, max: 0}",
            "{check: reason, group: own, code: NoEligibleVictims, mentions: [all], at: 20}",
        ],
    ),
    "when the one goes away its victims come back": (
        """
nodes:
  - {name: n1, allocatable: {cpu: 4}}
queues:
  - {name: q, deserved: {cpu: 4}}
groups:
  - {name: low, queue: q, minMember: 1, priority: 1, grace: 30, recreate: true,
     tasks: [{name: w, replicas: 4, requests: {cpu: 1}, placed: {n1: 4}}]}
  - {name: high, queue: q, minMember: 2, priority: 9, at: 15, tasks: [{name: w, replicas: 2, requests: {cpu: 1}}]}
events:
  - {at: 20, kind: delete_group, group: high}
""",
        [
            "{check: bound, group: low, count: 4, by: 60}",
            "{check: evicted_total, min: 2, max: 2}",
        ],
    ),
}


@pytest.mark.parametrize(("scenario", "checks"), [pytest.param(*run, id=name) for name, run in RUNS.items()])
def test_a_run_with_victims(scenario: str, checks: list[str]) -> None:
    assert scenes.short(scenario, *checks) == []
