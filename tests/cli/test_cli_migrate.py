"""`migrate --plan`: what would move, what would change, and what must stay."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest

from extender.cli import problems
from tests.cli.cli_world import World, make, run

Object = dict[str, Any]


def volcano_job(name: str, scheduler: str | None = "volcano", **more: Any) -> Object:
    template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    spec: Object = {
        "minAvailable": 2,
        "queue": "research",
        "tasks": [{"name": "worker", "replicas": 2, "template": template}],
    }
    if scheduler is not None:
        spec["schedulerName"] = scheduler
    spec |= more.pop("spec", {})
    return make("batch.volcano.sh/v1alpha1", "Job", name, namespace="team", spec=spec, **more)


def pod(name: str, scheduler: str = "volcano", *, owner: tuple[str, str] | None = None, **meta: Any) -> Object:
    if owner is not None:
        meta["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
    return make("v1", "Pod", name, namespace="team", meta=meta, spec={"schedulerName": scheduler})


def workload(name: str, owner: str, *, admitted: bool) -> Object:
    status = {"conditions": [{"type": "Admitted", "status": "True" if admitted else "False"}]}
    owners = [{"kind": "Job", "name": owner, "controller": True}]
    spec = {"queueName": "lq", "podSets": [{"count": 3}, {"count": 1}]}
    meta = {"ownerReferences": owners}
    return make("kueue.x-k8s.io/v1beta2", "Workload", name, namespace="team", meta=meta, spec=spec, status=status)


def cron(name: str, scheduler: str) -> Object:
    spec = {"schedule": "@daily", "jobTemplate": {"spec": {"schedulerName": scheduler}}}
    return make("batch.volcano.sh/v1alpha1", "CronJob", name, namespace="team", spec=spec)


def test_each_workload_of_volcano_and_kueue_is_named_with_what_would_change() -> None:
    world = World(
        volcano_job("new"),
        volcano_job("runs", status={"state": {"phase": "Running"}}),
        volcano_job("ours", "muster"),
        volcano_job("unnamed", None),
        volcano_job("odd", spec={"plugins": {"mxnet": []}}),
        cron("nightly", "volcano"),
        cron("our-nightly", "muster"),
        pod("runs-worker-0", labels={"volcano.sh/job-name": "runs"}),
        pod("runs-worker-1", labels={"volcano.sh/job-name": "runs"}),
        pod("train-0", owner=("PyTorchJob", "train")),
        pod("train-1", owner=("PyTorchJob", "train")),
        pod("alone"),
        pod("stranger", "default-scheduler"),
        workload("job-a", "a", admitted=True),
        workload("job-b", "b", admitted=False),
    )
    out, said = run(world, "migrate", "--plan")
    assert said == ""
    lines = [re.split(" {3,}", line) for line in out.splitlines()]
    rows = {parts[1]: parts[2:] for parts in lines if len(parts) > 3}
    assert rows.pop("WORKLOAD")
    assert rows.keys() == {
        "Job.batch.volcano.sh/new",
        "Job.batch.volcano.sh/runs",
        "Job.batch.volcano.sh/unnamed",
        "Job.batch.volcano.sh/odd",
        "CronJob.batch.volcano.sh/nightly",
        "PyTorchJob/train",
        "Pod/alone",
        "Job/a",
        "Job/b",
    }
    assert rows["Job.batch.volcano.sh/new"] == [
        "volcano", "0", "schedulerName: muster in its manifest; a gang of 2 in queue research",
    ]  # fmt: skip
    assert rows["Job.batch.volcano.sh/runs"][:2] == ["volcano", "2"]
    assert "ends as it is, or create it anew" in rows["Job.batch.volcano.sh/runs"][2]
    assert rows["Job.batch.volcano.sh/unnamed"][0] == "volcano"
    assert "it would be refused, InvalidPlugin: " in rows["Job.batch.volcano.sh/odd"][2]
    assert rows["PyTorchJob/train"][:2] == ["volcano", "2"]
    assert rows["Job/a"][:2] == ["kueue: lq", "4"]
    assert "without the label kueue.x-k8s.io/queue-name" in rows["Job/a"][2]
    assert "muster.dev/queue: lq" in rows["Job/a"][2]
    assert "ends as it is" in rows["Job/a"][2]
    assert "created anew or resumed" in rows["Job/b"][2]


def test_it_says_that_the_definitions_must_stay_and_how_many_objects_hang_on_each() -> None:
    out, _ = run(World(volcano_job("a"), volcano_job("b"), cron("c", "volcano")), "migrate", "--plan")
    keeps = [line for line in out.splitlines() if "the definition" in line]
    assert keeps == [
        "  Keep  the definition jobs.batch.volcano.sh: to delete it would delete 2 objects, and what they own",
        "        the definition cronjobs.batch.volcano.sh: to delete it would delete 1 object, and what they own",
    ]


def test_objects_that_are_ours_already_do_not_move_but_keep_their_definition() -> None:
    out, said = run(World(volcano_job("ours", "muster")), "migrate", "--plan")
    assert "Job.batch.volcano.sh" not in out
    assert "the definition jobs.batch.volcano.sh" in out
    assert said == "nothing in namespace team names Volcano's scheduler or is Kueue's\n"


def test_where_neither_is_installed_there_is_nothing_to_say() -> None:
    out, said = run(World(without=("batch.volcano.sh", "kueue")), "migrate", "--plan")
    assert out == ""
    assert "nothing in namespace team" in said


def test_programs_get_rows_and_definitions() -> None:
    out, _ = run(World(volcano_job("a")), "migrate", "--plan", "-o", "json")
    found = orjson.loads(out)
    assert found["definitions"] == {"jobs.batch.volcano.sh": 1}
    (row,) = found["items"]
    assert (row["kind"], row["name"], row["now"], row["pods"]) == ("Job.batch.volcano.sh", "a", "volcano", 0)


def test_nothing_is_written_and_without_plan_nothing_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(volcano_job("a"))
    run(world, "migrate", "--plan")
    assert world.posted == []
    with pytest.raises(SystemExit) as end:
        run(world, "migrate")
    assert end.value.code == problems.UNUSABLE
    assert "--plan" in capsys.readouterr().err
