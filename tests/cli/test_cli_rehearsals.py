"""`drain --plan` and `plan` of queues: what is asked, and how the answer is told. Nothing is touched."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml

from extender.cli import console
from extender.cli.problems import Problem
from extender.kube import errors
from tests.cli.cli_world import GPU, World, queue, run

LOSS = {
    **{"namespace": "team", "name": "muster:low", "queue": "p", "pods": 2, "rule": "Preempted", "times": 1},
    "message": "a group of higher priority in the same queue takes its room (for high)",
}


def fate(name: str, **more: Any) -> dict[str, Any]:
    told = {"namespace": "team", "name": name, "queue": "q", "pods": ["a-0", "a-1"], "replaced": 2, "left": 1}
    return told | {"minimum": 3, "belowMinimum": True, "nodes": [], "waiting": 0} | more


DRAINED = {
    "node": "n1",
    "groups": [
        fate("muster:a", nodes=[{"name": "n2", "members": 2}]),
        fate("muster:b", waiting=1, replaced=1, belowMinimum=False, minimum=1)
        | {"reason": "Fragmented", "message": "too \033[0m far"},
    ],
    "strangers": 1,
    "staying": 2,
    "budgets": [{"namespace": "team", "name": "keep", "allowed": 0, "pods": 2}],
    "evictions": [LOSS],
    "settled": True,
}  # fmt: skip


def test_what_becomes_of_the_pods_of_a_node() -> None:
    there = World()
    there.planned = DRAINED
    out, said = run(there, "drain", "n1", "--plan")
    assert said == ""
    assert out == (
        "n1: 4 pods of 2 groups would be evicted, 1 group would fall below the minimum\n"
        "NAMESPACE   GROUP      QUEUE   PODS   LEFT        BECOMES\n"
        "team        muster:a   q       2      1/3 below   goes to n2 (2)\n"
        "team        muster:b   q       2      1/1         1 pod would wait, Fragmented: too \\x1b[0m far; "
        "1 pod would not come back: no controller makes another one\n"
        "  Budget  team/keep lets 0 go now, of 2 on the node\n"
        "  Evicts  2 pods of team/muster:low, Preempted: a group of higher priority in the same queue takes its room "
        "(for high)\n"
        "  Others  1 pod of other schedulers would be evicted too\n"
        "  Stays   2 pods that belong to the node\n"
    )
    ((path, asked),) = there.posted
    assert path == "/apis/visibility.muster.dev/v1alpha1/drainplans"
    assert (asked["kind"], asked["spec"]) == ("DrainPlan", {"node": "n1"})


def test_it_never_drains(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(World(), "drain", "n1")
    assert "--plan" in capsys.readouterr().err


def test_a_node_that_is_not_there_and_answers_that_are_not_installed_are_told_apart() -> None:
    there = World()
    there.fails["drainplans"] = errors.NotFound(404, "NotFound", 'nodes "n9" not found')
    with pytest.raises(Problem, match='there is no nodes "n9"'):
        run(there, "drain", "n9", "--plan")
    there.fails["drainplans"] = errors.NotFound(404, "", "404 page not found")
    with pytest.raises(Problem, match="the live answers are not installed"):
        run(there, "drain", "n9", "--plan")


def figures(used: int, fair: int, share: float | None, waiting: int) -> dict[str, Any]:
    told = {"allocated": {GPU: str(used)} if used else {}, "fairShare": {GPU: str(fair)}, "waiting": waiting}
    return told | ({} if share is None else {"share": share})


OUTCOME = {
    "queues": [
        {"name": "p", "before": figures(4, 4, 1.0, 0), "after": figures(2, 2, 1.0, 2)},
        {"name": "q", "before": figures(0, 0, 0.0, 1), "after": figures(2, 2, 1.0, 0)},
        {"name": "r", "before": figures(1, 1, 1.0, 0), "after": figures(1, 1, 1.0, 0)},
        {"name": "new", "after": figures(0, 0, None, 0)},
    ],
    "gains": [{"namespace": "team", "name": "muster:high", "queue": "q", "before": 0, "after": 2}],
    "loses": [
        {"namespace": "team", "name": "muster:low", "queue": "p", "before": 4, "after": 2}
        | {"reason": "NoRoom", "message": "m"}
    ],
    "evictions": [LOSS | {"times": 3}],
    "gaining": 4,
    "losing": 1,
    "evicted": 6,
    "warnings": [{"queue": "q", "reason": "TakenBackAtOnce", "message": "loans may not last"}],
    "settled": True,
    "seconds": 45,
}  # fmt: skip


def write(folder: pathlib.Path, *documents: Any) -> str:
    path = folder / "queue.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def test_what_queues_come_to_stands_beside_what_is(tmp_path: pathlib.Path) -> None:
    there = World()
    there.planned = OUTCOME
    spec = {"deserved": {GPU: "2"}}
    out, said = run(there, "plan", "-f", write(tmp_path, queue("q", spec=spec), queue("new")))
    assert said == ""
    assert out == (
        "Warning: q, TakenBackAtOnce: loans may not last\n"
        "nvidia.com/gpu, if nothing ends and nothing comes (at rest after 45 s):\n"
        "QUEUE   USED   AFTER   FAIR   AFTER   SHARE   AFTER   WAITING   AFTER\n"
        "p       4      2       4      2       1.0     1.0     0         2\n"
        "q       0      2       0      2       0.0     1.0     1         0\n"
        "new     -      0       -      0       -               -         0\n"
        "1 other queue stays as it is\n"
        "  Gains    team/muster:high in q: 0 to 2 pods on nodes\n"
        "           and 3 groups more\n"
        "  Loses    team/muster:low in p: 4 to 2 pods on nodes; waits, NoRoom: m\n"
        "  Evicts   2 pods of team/muster:low, 3 times, Preempted: a group of higher priority in the same queue takes "
        "its room (for high)\n"
        "  Evicted  6 pods in all\n"
    )
    ((path, asked),) = there.posted
    assert path == "/apis/visibility.muster.dev/v1alpha1/queueplans"
    assert [one["metadata"]["name"] for one in asked["spec"]["queues"]] == ["q", "new"]
    assert asked["spec"]["queues"][0]["spec"] == spec


def test_queues_are_asked_about_alone(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, queue("q"), {"kind": "Pod", "spec": {"containers": []}})
    with pytest.raises(Problem, match="has queues and other objects"):
        run(World(), "plan", "-f", path)


def test_a_recorded_day_is_played_without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(console.subprocess, "call", lambda argv, **_: asked.append(argv) or 7)
    assert console.main(["plan", "-f", "queue.yaml", "--log", "decisions"]) == 7
    assert asked[0][1:] == ["-m", "extender.sim", "day", "decisions", "--queues", "queue.yaml"]
