"""What the results file and the tables say of runs, and which parts of the file stay."""

import argparse
import json
import math
import re

import pytest

from e2e.bench import __main__ as command
from e2e.bench import (
    bystanders,
    crowd,
    measure,
    observe,
    reasons,
    reclaim,
    report,
    same_rate,
    shapes,
    store,
    tables,
    topology,
)

NO_CALLS = {0.01: 0.0, 5.0: 0.0, math.inf: 0.0}
CALLS = {0.01: 98.0, 5.0: 100.0, math.inf: 100.0}
SLOW = {0.01: 0.0, 5.0: 0.0, math.inf: 1.0}


def a_run(total=10.0, create=8.0, *, cpu=None, memory=None, filters=None, overcommitted=0) -> measure.Run:
    used = cpu or {"scheduler": 4.0, "client": 2.0}
    observed = observe.Observed(used, memory or {"scheduler": 90.0}, filters or {})
    return measure.Run(total, create, total - create, 2.0, overcommitted, observed)


def of_muster(at_once, awaited, memory=64.04) -> measure.Run:
    return a_run(
        cpu={"scheduler": 1.0, "extender": 1.0, "gate": 1.0},
        memory={"extender": memory, "gate": 50.0, "scheduler": 90.0},
        filters={"at_once": at_once, "awaited": awaited},
    )


def test_a_row_has_the_keys_that_readers_of_the_file_know():
    runs = [a_run(10, 8, overcommitted=1), a_run(14, 9), a_run(12, 11)]
    assert report.rows({(500, "64x16", "muster"): runs, (500, "64x16", "native-gang"): []}) == [
        {
            "nodes": 500,
            "shape": "64x16",
            "system": "muster",
            "runs_s": [10, 14, 12],
            "median_s": 12,
            "create_s": 9,
            "bind_s": 2,
            "writes_per_pod": 2.0,
            "overcommitted_nodes": 1,
        }
    ]


def test_cpu_is_the_median_of_the_runs_for_each_process():
    runs = [a_run(cpu={"scheduler": used, "client": 1.0}) for used in (4.0, 9.0, 5.0)]
    assert report.cpu(runs) == {"scheduler": 5.0, "client": 1.0}


def test_only_runs_of_muster_have_filter_calls():
    runs = {(500, "64x16", "kube-scheduler"): [a_run()], (500, "64x16", "muster"): [of_muster(CALLS, NO_CALLS)]}
    (row,) = report.muster_rows(runs)
    assert row == {
        "nodes": 500,
        "shape": "64x16",
        "filter": {
            "at_once": {"calls": [100], "p50_ms": [10.0], "p99_ms": [5000.0]},
            "awaited": {"calls": [0], "p50_ms": [None], "p99_ms": [None]},
        },
        "memory_mib": {"extender": [64.0], "gate": [50.0]},
    }


def test_what_is_above_the_last_bound_is_said_so_and_can_be_written(tmp_path):
    found = report.muster_rows({(500, "64x16", "muster"): [of_muster(SLOW, NO_CALLS), of_muster(CALLS, CALLS)]})
    assert found[0]["filter"]["at_once"]["p99_ms"] == [">5000", 5000.0]
    store.write(tmp_path / "file.json", {"muster": found})
    assert "p99_ms >5000 5000" in tables.muster(found)
    assert "p99_ms - 5000" in tables.muster(found)


def test_the_table_of_gangs_has_the_ratios_of_muster_to_each_other():
    runs = {
        (500, "64x16", "kube-scheduler"): [a_run(10), a_run(20)],
        (500, "64x16", "native-gang"): [a_run(20), a_run(20)],
        (500, "64x16", "muster"): [a_run(15), a_run(20)],
    }
    lines = [" ".join(line.split()) for line in tables.gangs(report.rows(runs)).splitlines()]
    assert "500 64x16 muster / kube-scheduler 1.25 [1.00 .. 1.50]" in lines
    assert "500 64x16 muster / native-gang 0.88 [0.75 .. 1.00]" in lines


def test_the_table_of_cpu_has_a_column_for_each_process_and_one_for_cores():
    runs = {(500, "64x16", "kube-scheduler"): [a_run()], (500, "64x16", "muster"): [of_muster(CALLS, NO_CALLS)]}
    _, head, *lines = [line.split() for line in tables.cpu(report.cpu_rows(runs)).splitlines()]
    assert head == ["all", "cores", "scheduler", "client", "extender", "gate"]
    assert lines == [
        ["500", "64x16", "kube-scheduler", "6.00", "0.60", "4.00", "2.00", "-", "-"],
        ["500", "64x16", "muster", "3.00", "0.30", "1.00", "-", "1.00", "1.00"],
    ]


def test_paired_runs_are_told_by_what_was_timed():
    over, under = a_run(12, 8, cpu={"scheduler": 2.0, "extender": 1.0}), a_run(10, 4, cpu={"scheduler": 2.0})
    assert report.paired([over], [under]) == {
        "total": {"median": 1.2, "lowest": 1.2, "highest": 1.2},
        "create": {"median": 2.0, "lowest": 2.0, "highest": 2.0},
        "cpu": {"median": 1.5, "lowest": 1.5, "highest": 1.5},
    }


def test_the_tables_of_the_parts_are_made_from_the_file():
    rows = [report.figures([run]) | {"cpu_s": report.cpu([run])} for run in (a_run(10), a_run(11))]
    ratio = report.paired([a_run(11)], [a_run(10)])
    part = {"nodes": 500, "pods": 512}
    standing = part | {
        "rows": [
            {"process": "another", "waiting": number, "gated": False} | row
            for number, row in zip((0, 500), rows, strict=True)
        ],
        "ratios": [{"process": "another", "waiting": 500, "gated": False, "wanted": 1.25} | ratio],
    }
    text = bystanders.table(json.loads(json.dumps({"bystanders": standing})))
    assert "other process, none waiting" in text
    assert "other process, 500 strays / none:  1.10 [1.10 .. 1.10], at most 1.25 wanted" in text
    beside = part | {
        "queues": 200,
        "gated": 2000,
        "rows": [{"muster": muster} | row for muster, row in zip(("absent", "installed"), rows, strict=True)],
        "ratios": ratio,
    }
    text = same_rate.table(json.loads(json.dumps({"same_rate": beside})))
    assert "installed / absent, creation time:  1.00 [1.00 .. 1.00]" in text
    assert "installed / absent, first create to last bind:  1.10 [1.10 .. 1.10]" in text


def test_the_table_of_reclaim_is_made_from_the_file_and_says_what_is_wanted():
    row = {"shape": "50x10x8", "wanted_s": 15} | report.figures([a_run(12)]) | {"cpu_s": report.cpu([a_run()])}
    text = reclaim.table(json.loads(json.dumps({"reclaim": {"nodes": 500, "victims": 4000, "rows": [row]}})))
    assert "500 nodes of 8 GPUs, full of 4000 single pods" in text
    assert "50x10x8: at most 15 s" in text


def test_gangs_that_lack_a_member_or_stand_in_two_racks_got_no_rack():
    gangs = [gang for gang in topology.gangs(shapes.MUSTER, "x") if len(gang.pods) == 4][:4]
    rack_of = {name: f"r{number}" for number, gang in enumerate(gangs) for name in gang.names}
    rack_of[gangs[1].names[0]] = "r9"
    del rack_of[gangs[2].names[3]]
    assert topology.judge(gangs, rack_of, 2.0) == topology.Got(whole=0.75, one_rack=0.5, racks=4 / 3, total_s=2.0)


@pytest.mark.parametrize("system", shapes.SYSTEMS)
def test_each_system_is_told_of_the_rack_as_it_knows_it(system):
    gangs = list(topology.gangs(system, "x"))
    assert len(gangs) == sum(shape.groups for shape in topology.SHAPES)
    assert len({name for gang in gangs for name in gang.names}) == sum(shape.pods for shape in topology.SHAPES)
    wishes = [gang.group and {key: gang.group["spec"].get(key) for key in topology.WISH[system]} for gang in gangs]
    assert all(wish == (topology.WISH[system] or None) for wish in wishes)


def test_the_table_of_topology_is_made_from_the_file():
    row = {"system": "muster", "one_rack": [0.5, 1.0, 0.9], "whole": [1.0] * 3, "racks": [1.1] * 3, "runs_s": [9.0] * 3}
    part = {"nodes": 500, "racks": 20, "gangs": 100, "pods": 1920, "rows": [row]}
    text = topology.table(json.loads(json.dumps({"topology": part})))
    assert "100 gangs that prefer a rack (1920 pods of 2 GPUs), 500 nodes of 8 in 20 racks" in text
    assert re.search(r"muster +90.0% +100.0% +1.10 +9.00  50.0% 100.0% 90.0%", text)


def test_the_table_of_reasons_is_made_from_the_file():
    part = {"nodes": 500, "waiting": 10000, "wanted_ms": 1000, "answer": [20, 45, 130], "object": [1010, 1100, 1900]}
    text = reasons.table(json.loads(json.dumps({"reasons": part})))
    assert "beside 10000 waiting groups" in text
    assert re.search(r"live answer \(at most 1000 wanted\) +20 +45 +130\n +in its object +1010 +1100 +1900", text)


def test_the_queue_of_a_shape_is_on_its_pods():
    pods = shapes.pod_objects(shapes.Shape("2x3", 2, 3, queue="owed"), shapes.MUSTER, "x")
    assert {pod["metadata"]["labels"]["muster.dev/queue"] for pod in pods} == {"owed"}


# --- what waits, and what is to come -----------------------------------------------------------------


def test_a_crowd_is_gated_in_its_queues_and_asks_for_more_than_a_node_has():
    some = crowd.Crowd(queues=3, pods_each=2)
    pods = crowd.pod_objects(some)
    assert len({pod["metadata"]["name"] for pod in pods}) == some.pods == 6
    assert {pod["metadata"]["labels"]["muster.dev/queue"] for pod in pods} == set(some.queue_names())
    assert all(pod["spec"]["schedulingGates"] == [{"name": "muster.dev/queue"}] for pod in pods)
    assert all(int(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]) > 8 for pod in pods)


def test_the_steps_of_all_parts_are_known_beforehand():
    told = argparse.Namespace(runs=2, nodes=[3000, 500], shapes=["1x1024", "64x16"], systems=["muster"])
    number = {name: len(part.steps(told)) for name, part in command.PARTS.items()}
    # the larger number of nodes runs the first shape only
    assert number == {
        "gangs": 2 * 1 + 2 * 2,
        "bystanders": 6,
        "same-rate": 4,
        "memory": 1,
        "reclaim": 4,
        "topology": 2,
        "page": 1,
        "reasons": 1,
        "jobs": 4,
    }


@pytest.mark.parametrize("arguments", [["--runs", "0"], ["--nodes", "500", "-1"], ["--only", "unknown"]])
def test_a_command_without_sense_is_refused(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


# --- the file ----------------------------------------------------------------------------------------

FLAGS = {"qps": 5000}


def test_parts_that_are_not_measured_stay_in_the_file(tmp_path):
    path = tmp_path / "latest.json"
    assert store.read(path, FLAGS) == {"flags": FLAGS}
    store.write(path, {"flags": FLAGS, "rows": [1], "memory": {"old": 1}})
    store.write(path, store.read(path, FLAGS) | {"memory": {"new": 2}})
    assert json.loads(path.read_text()) == {"flags": FLAGS, "rows": [1], "memory": {"new": 2}}
    assert [found.name for found in tmp_path.iterdir()] == ["latest.json"]


def test_what_was_measured_under_other_flags_does_not_stay(tmp_path):
    path = tmp_path / "latest.json"
    store.write(path, {"flags": {"qps": 50}, "rows": [1]})
    assert store.read(path, FLAGS) == {"flags": FLAGS}


@pytest.mark.parametrize("text", ["", "{", "[1]", "null"])
def test_a_file_that_is_no_object_is_refused_before_anything_is_measured(tmp_path, capsys, text):
    path = tmp_path / "latest.json"
    path.write_text(text)
    assert command.main(["--only", "memory", "--output", str(path)]) == 1
    assert "no JSON" in capsys.readouterr().err
    assert path.read_text() == text
