"""Who may pass a group that waits, in whole runs."""

from __future__ import annotations

import pytest

from tests.sim import scenes

TWO_RACKS = """
nodes:
  - {name: n1, labels: {rack: r1}, allocatable: {cpu: 4, hugepages-2Mi: 4Gi}}
  - {name: n2, labels: {rack: r1}, allocatable: {cpu: 4, hugepages-2Mi: 4Gi}}
  - {name: n3, labels: {rack: r2}, allocatable: {cpu: 4, hugepages-2Mi: 4Gi}}
queues: [{name: a}, {name: b}]
groups:
  - {name: short, queue: a, minMember: 1, runtime: 100, declared_runtime: 100,
     tasks: [{name: w, replicas: 1, requests: {cpu: 3}, placed: {n1: 1}}]}
  - {name: long, queue: a, minMember: 1, runtime: 500, declared_runtime: 500,
     tasks: [{name: w, replicas: 1, requests: {cpu: 3}, placed: {n3: 1}}]}
  - {name: head, queue: a, minMember: 3, at: 10, runtime: 50, declared_runtime: 50,
     tasks: [{name: launcher, min: 1, replicas: 1, requests: {cpu: 1, hugepages-2Mi: 1Gi}},
             {name: worker, min: 2, replicas: 2, requests: {cpu: 3}}]}
"""


def later(name: str, seconds: int | None, cpu: int = 1, **fields: str) -> str:
    declared = "" if seconds is None else f", declared_runtime: {seconds}"
    more = "".join(f", {key}: {value}" for key, value in fields.items())
    return (
        f"  - {{name: {name}, minMember: 1, at: 20, runtime: {seconds or 400}{declared}{more},\n"
        f"     tasks: [{{name: w, replicas: 1, requests: {{cpu: {cpu}}}}}]}}\n"
    )


@pytest.mark.parametrize("queue", ["a", "b"])
def test_tasks_on_several_nodes_are_waited_for_by_all_queues(queue: str) -> None:
    """At 100 the head takes n1 and n2 but for one core; n3 has another one beside."""
    groups = later("any", None, 2, queue=queue) + later("quick", 80, queue=queue) + later("beside", None, queue=queue)
    assert (
        scenes.short(
            TWO_RACKS + groups,
            "{check: bound, group: quick, count: 1, by: 20, until: 100}",
            "{check: bound, group: beside, count: 1, by: 20, until: 100}",
            "{check: bound, group: any, count: 0, until: 100}",
            "{check: reason, group: any, code: ReservedForHead, mentions: [head], at: 50}",
            "{check: bound, group: head, count: 3, by: 100, until: 145}",
        )
        == []
    )


def test_what_is_leaving_is_kept_for_whom_it_makes_room() -> None:
    """Its user deletes what runs, which takes a while to end: nobody else may have that room."""
    scenario = """
nodes: [{name: n1, allocatable: {cpu: 4}}]
groups:
  - {name: runs, minMember: 1, grace: 30, tasks: [{name: w, replicas: 1, requests: {cpu: 3}, placed: {n1: 1}}]}
  - {name: head, minMember: 4, at: 10, tasks: [{name: w, replicas: 4, requests: {cpu: 1}}]}
  - {name: next, minMember: 1, at: 50, tasks: [{name: w, replicas: 1, requests: {cpu: 1}}]}
events: [{at: 40, kind: delete_group, group: runs}]
"""
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: next, count: 0}",
            "{check: reason, group: next, code: ReservedForHead, mentions: [head], at: 60}",
            "{check: bound, group: head, count: 4, by: 70}",
        )
        == []
    )


@pytest.mark.parametrize("declared", [None, 5])
def test_where_nothing_is_foreseen_others_pass_for_five_minutes(declared: int | None) -> None:
    """A large gang behind a service; small ones come and go, and then it is drained for."""
    says = "" if declared is None else f", declared_runtime: {declared}"
    scenario = f"""
settings: {{end: 700}}
nodes: [{{name: n1, allocatable: {{cpu: 2}}}}]
groups:
  - {{name: runs, minMember: 1, runtime: 350,
     tasks: [{{name: w, replicas: 1, requests: {{cpu: 1}}, placed: {{n1: 1}}}}]}}
  - {{name: head, minMember: 2, at: 10, tasks: [{{name: w, replicas: 2, requests: {{cpu: 1}}}}]}}
  - {{name: early, minMember: 1, at: 100, runtime: 20{says}, tasks: [{{name: w, replicas: 1, requests: {{cpu: 1}}}}]}}
  - {{name: late, minMember: 1, at: 315, runtime: 20{says}, tasks: [{{name: w, replicas: 1, requests: {{cpu: 1}}}}]}}
"""
    assert (
        scenes.short(
            scenario,
            "{check: bound, group: early, count: 1, at: 100}",
            "{check: bound, group: late, count: 0}",
            "{check: reason, group: late, code: ReservedForHead, mentions: [head], at: 320}",
            "{check: bound, group: head, count: 2, by: 350}",
        )
        == []
    )
