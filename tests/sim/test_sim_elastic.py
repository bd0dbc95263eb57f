"""Gangs that were hurt, gangs that may be larger than they must, and members that have finished, in whole runs."""

from __future__ import annotations

from tests.sim import scenes

FOUR = "nodes: [{name: n1, allocatable: {gpu/x: 2}}, {name: n2, allocatable: {gpu/x: 2}}]\n"
PLACED = "tasks: [{name: w, replicas: 4, requests: {gpu/x: 1}, placed: {n1: 2, n2: 2}}]"


# --- hurt -------------------------------------------------------------------------------------------


def test_a_hurt_gang_gets_its_room_back_before_an_older_group_that_waits() -> None:
    """The room of a lost member is kept for its replacement, which does not exist yet at the time."""
    scenario = f"""
settings: {{end: 200}}
{FOUR}
groups:
  - {{name: waits, minMember: 1, at: 1, tasks: [{{name: w, replicas: 1, requests: {{gpu/x: 1}}}}]}}
  - {{name: hurt, minMember: 4, recreate: true, {PLACED}}}
events: [{{at: 60, kind: finish_pods, pods: [hurt-w-0], phase: Failed}}]
"""
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: waits, count: 0}",
            "{check: bound, pod: hurt-w-0 (second UID), count: 1, by: 62}",
            "{check: group_phase, group: hurt, is: Running, by: 62}",
        )
        == []
    )


def test_the_room_of_a_member_that_nobody_replaces_is_not_kept() -> None:
    scenario = f"""
settings: {{end: 200}}
{FOUR}
groups:
  - {{name: waits, minMember: 1, at: 1, tasks: [{{name: w, replicas: 1, requests: {{gpu/x: 1}}}}]}}
  - {{name: hurt, minMember: 4, {PLACED}}}
events: [{{at: 60, kind: finish_pods, pods: [hurt-w-0], phase: Failed}}]
"""
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: waits, count: 1, by: 65}",
            "{check: bound, group: hurt, count: 3, by: 60}",
            "{check: reason, group: hurt, code: NotEnoughMembers, mentions: ['3', '4'], at: 80}",
            "{check: group_phase, group: hurt, not: Running, by: 65}",
            "{check: evicted_total, max: 0}",
        )
        == []
    )


def test_a_gang_that_stays_below_its_minimum_is_evicted_whole_when_its_queue_says_so() -> None:
    scenario = f"""
settings: {{end: 200, stale_gang_seconds: 30}}
{FOUR}
groups:
  - {{name: waits, minMember: 2, at: 70, tasks: [{{name: w, replicas: 2, requests: {{gpu/x: 1}}}}]}}
  - {{name: hurt, minMember: 4, recreate: true, {PLACED}}}
events: [{{at: 60, kind: remove_node, node: n2}}, {{at: 60, kind: delete_pod, pods: [hurt-w-2, hurt-w-3]}}]
"""
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: hurt, count: 2, by: 60, until: 89}",
            "{check: evicted, group: hurt, max: 0, at: 89}",
            "{check: evicted, group: hurt, min: 2, max: 2, by: 95}",
            "{check: bound_always, group: hurt, allowed: [0, 2, 4]}",
            "{check: bound, group: hurt, count: 0, by: 95}",
            "{check: bound, group: waits, count: 2, by: 95}",
            "{check: reason, group: hurt, code: InsufficientResources, at: 120}",
        )
        == []
    )


def test_a_gang_whose_members_nobody_replaces_is_evicted_as_well() -> None:
    scenario = f"""
settings: {{end: 200, stale_gang_seconds: 30}}
{FOUR}
groups: [{{name: hurt, minMember: 4, preemptible: false, {PLACED}}}]
events: [{{at: 60, kind: finish_pods, pods: [hurt-w-0], phase: Failed}}]
"""
    assert (
        scenes.short(
            scenario,
            "{check: evicted, group: hurt, max: 0, at: 85}",
            "{check: evicted, group: hurt, min: 3, max: 3, by: 95}",
            "{check: bound, group: hurt, count: 0, by: 95}",
        )
        == []
    )


def test_a_gang_that_is_whole_again_in_time_stays() -> None:
    scenario = f"""
settings: {{end: 400, stale_gang_seconds: 30}}
{FOUR}
groups: [{{name: hurt, minMember: 4, recreate: true, {PLACED}}}]
events:
  - {{at: 60, kind: remove_node, node: n2}}
  - {{at: 60, kind: delete_pod, pods: [hurt-w-2, hurt-w-3]}}
  - {{at: 85, kind: add_node, node: {{name: n3, allocatable: {{gpu/x: 2}}}}}}
"""
    assert (
        scenes.short(scenario, "{check: evicted_total, max: 0}", "{check: bound, group: hurt, count: 4, by: 90}") == []
    )


# --- elastic ----------------------------------------------------------------------------------------

ELASTIC = "{name: e, minMember: 2, recreate: true, tasks: [{name: w, replicas: 6, requests: {gpu/x: 1}}]}"


def test_members_above_the_minimum_come_as_room_appears_and_wait_with_a_reason_while_the_group_runs() -> None:
    scenario = f"""
settings: {{end: 300}}
nodes: [{{name: n1, allocatable: {{gpu/x: 3}}}}]
groups: [{ELASTIC}]
events:
  - {{at: 100, kind: add_node, node: {{name: n2, allocatable: {{gpu/x: 1}}}}}}
  - {{at: 150, kind: add_node, node: {{name: n3, allocatable: {{gpu/x: 4}}}}}}
  - {{at: 200, kind: remove_node, node: n3}}
  - {{at: 200, kind: delete_pod, pods: ["on n3", "on n3"]}}
"""
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: e, count: 3, by: 1, until: 99}",
            "{check: group_phase, group: e, is: Running, by: 5, until: 140}",
            "{check: reason, group: e, code: InsufficientResources, at: 50}",
            "{check: bound, group: e, count: 4, by: 101, until: 149}",
            "{check: bound, group: e, count: 6, by: 151, until: 199}",
            "{check: bound, group: e, count: 4, by: 202}",
            "{check: evicted_total, max: 0}",
        )
        == []
    )


def test_minimums_go_first_then_what_is_above_them() -> None:
    scenario = f"""
settings: {{end: 100}}
nodes: [{{name: n1, allocatable: {{gpu/x: 8}}}}]
groups:
  - {ELASTIC}
  - {{name: later, minMember: 4, tasks: [{{name: w, replicas: 6, requests: {{gpu/x: 1}}}}]}}
"""
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: e, count: 4, by: 2}",
            "{check: bound, group: later, count: 4, by: 2}",
        )
        == []
    )


def test_a_minimum_that_waits_gets_what_appears_before_more_of_a_group_that_runs() -> None:
    scenario = f"""
settings: {{end: 200}}
nodes: [{{name: n1, allocatable: {{gpu/x: 3}}}}]
groups:
  - {ELASTIC}
  - {{name: later, at: 10, minMember: 2, tasks: [{{name: w, replicas: 3, requests: {{gpu/x: 1}}}}]}}
events: [{{at: 100, kind: add_node, node: {{name: n2, allocatable: {{gpu/x: 2}}}}}}]
"""
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: e, count: 3, by: 2}",
            "{check: bound, group: later, count: 2, by: 102}",
        )
        == []
    )


def test_more_of_a_group_of_higher_priority_goes_before_a_minimum_of_lower() -> None:
    scenario = f"""
settings: {{end: 100}}
nodes: [{{name: n1, allocatable: {{gpu/x: 8}}}}]
groups:
  - {ELASTIC.replace("minMember", "priority: 5, minMember")}
  - {{name: low, minMember: 4, tasks: [{{name: w, replicas: 4, requests: {{gpu/x: 1}}}}]}}
"""
    assert (
        scenes.short(scenario, "{check: bound, group: e, count: 6, by: 2}", "{check: bound, group: low, count: 0}")
        == []
    )


def test_each_member_above_the_minimum_counts_against_the_capability() -> None:
    scenario = f"""
settings: {{end: 200}}
nodes: [{{name: n1, allocatable: {{gpu/x: 8}}}}]
queues: [{{name: q, capability: {{gpu/x: 3}}}}]
groups: [{ELASTIC.replace("minMember", "queue: q, minMember")}]
events: [{{at: 100, kind: set_queue, queue: q, set: {{capability: {{gpu/x: 5}}}}}}]
"""
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: e, count: 3, by: 2, until: 99}",
            "{check: reason, group: e, code: QuotaExceeded, mentions: [q], at: 50}",
            "{check: bound, group: e, count: 5, by: 102}",
            "{check: queue_used_max, queue: q, resources: {gpu/x: 5}}",
        )
        == []
    )


# --- finished ---------------------------------------------------------------------------------------


def test_finished_members_count_after_everybody_else_was_lost_at_once() -> None:
    scenario = f"""
settings: {{end: 300, stale_gang_seconds: 30}}
{FOUR}
groups: [{{name: g, minMember: 4, recreate: true, {PLACED}}}]
events:
  - {{at: 60, kind: finish_pods, pods: [g-w-0], phase: Succeeded}}
  - {{at: 100, kind: delete_pod, pods: [g-w-1, g-w-2, g-w-3]}}
"""
    assert scenes.short(scenario, "{check: bound, group: g, count: 3, by: 105}", "{check: evicted_total, max: 0}") == []


def test_a_group_that_is_made_again_under_the_same_name_starts_with_nobody_finished() -> None:
    scenario = f"""
settings: {{end: 300}}
{FOUR}
groups: [{{name: g, minMember: 4, {PLACED}}}]
events:
  - {{at: 60, kind: finish_pods, pods: [g-w-0, g-w-1, g-w-2, g-w-3], phase: Succeeded}}
  - {{at: 100, kind: add_pods, group: g, task: {{name: again, replicas: 2, requests: {{gpu/x: 1}}}}}}
  - {{at: 200, kind: add_pods, group: g, task: {{name: more, replicas: 2, requests: {{gpu/x: 1}}}}}}
"""
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: g, count: 0, by: 61, until: 199}",
            "{check: reason, group: g, code: NotEnoughMembers, mentions: ['0', '4'], at: 90}",
            "{check: reason, group: g, code: NotEnoughMembers, mentions: ['2', '4'], at: 150}",
            "{check: bound, group: g, count: 4, by: 202}",
        )
        == []
    )
