"""What is recorded of pods: a row for each job, by hand-made changes; and the files, whatever ends the recording."""

from __future__ import annotations

import csv
import io
import pathlib

import pytest
from cli_world import World, run

from extender.cli import record, recording
from extender.cli.problems import Problem
from extender.core.ids import GroupKey, NodeName, PodUid, QueueName, Source
from extender.core.model import Declared, Node, Owner, Pod, Shape
from extender.core.resources import CPU, GPU, MEMORY, amounts
from extender.sim.traces import formats

GIB = 2**30
JOB = Owner("Job", "sweep", "job-uid")


def pod(name: str, created: float = 100.0, group: str = "", gpus: int = 1, **fields) -> Pod:
    key = GroupKey(Source.MUSTER, "team", group) if group else GroupKey(Source.POD, "team", name)
    shape = Shape(amounts({CPU: 2000, MEMORY: 3 * GIB, GPU: gpus}))
    return Pod(PodUid(name), "team", name, shape, key, created=created, **fields)


def bound(name: str, at: float, **fields) -> Pod:
    return pod(name, node=NodeName("n1"), bound_at=at, phase=fields.pop("phase", "Running"), **fields)


def played(*steps: tuple[float, Pod | str], most: int = 100) -> recording.Recording:
    """Pods as they are seen; a text is a pod that is gone."""
    found = recording.Recording(most)
    for now, what in steps:
        if isinstance(what, str):
            found.gone(PodUid(what), now)
            continue
        if found.is_new(what):
            found.begin(what, "stated", 900 if what.group.name == "gang" else None)
        found.see(what, now)
    return found


CASES = {
    "a gang, as one": (
        ((101, pod("a", group="gang")), (101, pod("b", group="gang")), (103, bound("a", 102, group="gang")),
         (103, bound("b", 102, group="gang")), (162, bound("a", 102, group="gang", phase="Succeeded")),
         (172, bound("b", 102, group="gang", phase="Succeeded"))),
        [("team-gang-0", "0.000", "65.000", "2", "1", "2000", "3072", "stated", "0")],
    ),
    "one that never started has what it declares": (
        ((101, pod("a", group="gang", priority=-5)),),
        [("team-gang-0", "0.000", "900", "1", "1", "2000", "3072", "stated", "-5")],
    ),
    "one that never started and declares nothing": (
        ((101, pod("a")),),
        [("team-a-0", "0.000", "", "1", "1", "2000", "3072", "stated", "0")],
    ),
    "an evicted pod and its heir are one, of one controller": (
        ((101, bound("a", 101, owner=JOB)), (111, "a"), (112, pod("b", owner=JOB)), (121, bound("b", 121, owner=JOB)),
         (141, "b")),
        [("team-sweep-0", "0.000", "30.000", "1", "1", "2000", "3072", "stated", "0")],
    ),
    "what runs on counts so far, and its own queue before its group's": (
        ((150, bound("a", 140, queue=QueueName("own"))),),
        [("team-a-0", "0.000", "60.000", "1", "1", "2000", "3072", "own", "0")],
    ),
    "what had ended before is nothing": (((101, bound("a", 90, phase="Failed")), (102, "a")), []),
    "twice, out of order and unknown": (
        ((101, "nobody"), (101, pod("a")), (102, bound("a", 102)), (103, bound("a", 102)), (112, "a"), (113, "a"),
         (114, bound("a", 102, phase="Succeeded"))),
        [("team-a-0", "0.000", "10.000", "1", "1", "2000", "3072", "stated", "0")],
    ),
    "pods of DaemonSets and of kubelets belong to their nodes": (
        tuple((101, bound(kind, 101, owner=Owner(kind, "x", kind))) for kind in ("DaemonSet", "Node")), [],
    ),
    "in order of submission": (
        ((101, pod("late", 90)), (102, pod("early", 80))),
        [("team-early-1", "0.000", "", "1", "1", "2000", "3072", "stated", "0"),
         ("team-late-0", "10.000", "", "1", "1", "2000", "3072", "stated", "0")],
    ),
    "of unequal members the most frequent request": (
        ((101, pod("a", group="gang", gpus=0)), (101, pod("b", group="gang", gpus=4)),
         (101, pod("c", group="gang", gpus=4))),
        [("team-gang-0", "0.000", "900", "3", "4", "2000", "3072", "stated", "0")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "want"), CASES.values(), ids=CASES)
def test_a_job_is_a_row(steps, want) -> None:
    assert list(played(*steps).rows(200.0)) == want


def test_a_pod_says_itself_how_long_it_runs() -> None:
    found = played((101, pod("a", declared=Declared(expected_duration=7))))
    assert [row[2] for row in found.rows(200.0)] == ["7"]


def test_it_keeps_so_many_jobs_and_says_that_there_were_more() -> None:
    steps = [(101.0, pod(f"p{number}")) for number in range(3)]
    assert not played(*steps[:2], most=2).full
    found = played(*steps, most=2)
    assert found.full
    assert found.counts() == (2, 0, 2)


def test_hosts_are_nodes_that_take_pods() -> None:
    there = amounts({CPU: 8000, MEMORY: 64 * GIB, GPU: 2})
    product = {recording.PRODUCT: "A100"}
    nodes = [
        Node(NodeName("b"), product, there),
        Node(NodeName("a"), {}, amounts({CPU: 4000})),
        Node(NodeName("c"), {}, there, unschedulable=True),
        Node(NodeName("d"), {}, there, ready=False),
    ]
    assert list(recording.hosts(nodes)) == [("a", "0", "4000", "0", ""), ("b", "2", "8000", "65536", "A100")]


def test_rows_are_read_as_a_trace(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "day.csv"
    text = io.StringIO()
    steps = CASES["an evicted pod and its heir are one, of one controller"][0]
    found = played(*steps, (150, pod("waits", 120, priority=-3)))
    csv.writer(text).writerows((recording.COLUMNS, *found.rows(200.0)))
    path.write_text(text.getvalue())
    trace = formats.load([str(path)], 1, 2)
    assert trace.bad == ()
    assert [(job.name, job.submitted, job.priority) for job in trace.jobs] == [
        ("team-sweep-0", 0.0, 0),
        ("team-waits-1", 20.0, -3),
    ]
    assert trace.jobs[0].duration == 30.0
    # nobody knows how long the other one runs, so that is drawn
    assert trace.jobs[1].duration > 0


def test_a_file_that_cannot_be_written_is_said_before_anything_is_recorded(tmp_path: pathlib.Path) -> None:
    with pytest.raises(Problem, match="cannot be written"):
        run(World(), "record", "--filename", str(tmp_path / "no" / "day.csv"), "--for", "1s")


def test_a_file_is_whole_or_the_one_before(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "day.csv"
    record._write(path, ("a",), [("1",)])

    def rows():
        yield ("2",)
        raise OSError("disk full")

    with pytest.raises(Problem, match="disk full"):
        record._write(path, ("a",), rows())
    assert path.read_text() == "a\n1\n"
