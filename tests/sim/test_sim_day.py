"""A recorded day with other queues: the jobs of the log come and run as they did, and other queues decide."""

from __future__ import annotations

import io
import pathlib
from dataclasses import replace
from typing import Any

import pytest
import yaml

from extender.core import messages
from extender.core.engine import Engine
from extender.core.ids import NodeName, PodUid, QueueName
from extender.core.model import Pod, Queue
from extender.sim import console, day, day_report
from extender.sim.recorded import Recorded, recorded
from extender.wire import journal
from tests import builders
from tests.builders import GPU
from tests.core.victim_cases import JOB
from tests.sim.recording import Recorder

START = 1764554400.0


class Past:
    """A cluster of one node whose decisions come true at once, and are on record."""

    def __init__(self, *queues: Queue, gpus: int = 4) -> None:
        self.now = START
        self.recorder = Recorder(Engine(100), journal.Settings(100), START)
        self.tell(
            messages.ActivityChanged(True), builders.seen(builders.gpu_node("n0", gpus)), *map(builders.seen, queues)
        )

    def tell(self, *events: messages.EngineEvent) -> None:
        for event in events:
            for effect in self.recorder.handle(event, self.now):
                if isinstance(effect, messages.Evict):
                    self.recorder.handle(messages.EffectDone(effect), self.now)
                    pod = self.recorder.engine.world.pods[effect.uid]
                    self.tell(messages.PodGone(effect.uid))
                    uid = f"{pod.uid}+"
                    fresh = replace(pod, uid=uid, node=None, bound_at=None, phase="Pending")
                    self.tell(messages.PodSeen(replace(fresh, group=pod.group._replace(name=uid))))

    def come(self, name: str, queue: str, gpus: int = 1, **fields: Any) -> Pod:
        pod = builders.make_pod(name, {GPU: gpus}, queue=QueueName(queue), owner=JOB, created=self.now, **fields)
        self.tell(builders.seen(pod))
        return pod

    def work(self, seconds: float) -> None:
        """Time passes in steps of 10 seconds; what is planned is bound."""
        for _ in range(round(seconds / 10)):
            self.now += 10.0
            self.tell(messages.Tick())
            for pod in list(self.recorder.engine.world.pods.values()):
                node = self.recorder.engine.view.planned(pod.uid)
                if pod.waiting and node is not None:
                    self.tell(messages.PodSeen(builders.bound(pod, node, self.now)))

    def ends(self, name: str) -> None:
        (pod,) = [pod for pod in self.recorder.engine.world.pods.values() if pod.name == name]
        self.tell(messages.PodSeen(replace(pod, phase="Succeeded")))

    def found(self, number: int = 0) -> Recorded:
        """The workload from a file on."""
        lines = [line for file in self.recorder.files[number:] for line in file]
        header = journal.read_header(lines[0])
        entries = [journal.read_line(line) for line in lines if b'"muster-decisions"' not in line]
        return recorded([one for one in entries if isinstance(one, journal.Entry)], header.engine(), header.at)


def queue(name: str, deserved: int = 0, **fields: Any) -> Queue:
    owned = {"deserved": ((GPU, deserved),)} if deserved else {}
    return builders.make_queue(name, **owned, **fields)


def lent() -> Past:
    """A queue takes all, and another one waits for an hour until the first has done its work."""
    past = Past(queue("p"), queue("q"))
    for number in range(4):
        past.come(f"p{number}", "p")
    past.work(100)
    past.come("late", "q", 2)
    past.work(3500)
    for number in range(4):
        past.ends(f"p{number}")
    past.work(1000)
    past.ends("late")
    past.work(100)
    return past


def test_the_jobs_of_a_log_have_their_times() -> None:
    found = lent().found()
    assert [(job.pod.name, job.at - START, job.ran) for job in found.jobs] == [
        *((f"p{number}", 0.0, 3590.0) for number in range(4)),
        ("late", 100.0, 990.0),
    ]


def test_the_same_queues_come_to_the_same_day_and_others_to_another() -> None:
    found = lent().found()
    same = day.play(found, Engine(100))
    assert {name: (len(one.waits), one.waiting, one.evicted) for name, one in same.items()} == {
        "p": (4, 0, 0),
        "q": (1, 0, 0),
    }
    assert same[QueueName("q")].mean == pytest.approx(3490, abs=60)
    other = day.play(found, Engine(100), [queue("q", 2)])
    assert other[QueueName("q")].mean < 60
    assert other[QueueName("p")].evicted == 2
    assert other[QueueName("p")].lost == pytest.approx(200, abs=60)
    assert other[QueueName("p")].used + other[QueueName("q")].used > same[QueueName("p")].used


def test_who_was_evicted_that_day_is_one_job_with_its_successor() -> None:
    past = Past(queue("p"), queue("q", 2))
    for number in range(4):
        past.come(f"p{number}", "p")
    past.work(100)
    past.come("late", "q", 2)
    past.work(200)
    assert past.recorder.engine.view.planned is not None
    past.ends("late")
    past.work(300)
    found = past.found()
    assert len(found.jobs) == 5
    same = day.play(found, Engine(100))
    assert same[QueueName("p")].evicted == 2
    assert day.play(found, Engine(100), [queue("q")])[QueueName("p")].evicted == 0


def test_a_log_that_begins_in_the_middle_knows_what_was_there() -> None:
    past = Past(queue("p"), queue("q"))
    past.come("p0", "p", 4)
    past.work(100)
    past.recorder.turn(past.now)
    past.come("late", "q", 2)
    past.work(500)
    past.ends("p0")
    past.work(100)
    past.tell(messages.NodeGone(NodeName("n0")))
    found = past.found(1)
    assert [(job.pod.name, job.running) for job in found.jobs] == [("p0", True), ("late", False)]
    same = day.play(found, Engine(100))
    assert same[QueueName("q")].mean == pytest.approx(500, abs=60)
    assert day.play(found, Engine(100), [queue("q", 2)])[QueueName("q")].mean < 60


def test_the_report_compares_two_days(tmp_path: pathlib.Path) -> None:
    lent().recorder.write(tmp_path)
    path = tmp_path / "queue.yaml"
    told = {"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "q"}}
    path.write_text(yaml.safe_dump(told | {"spec": {"deserved": {GPU: "2"}}}))
    out, errors = io.StringIO(), io.StringIO()
    status = console.main(["day", str(tmp_path), "--queues", str(path)], out, errors)
    assert (status, errors.getvalue()) == (0, "")
    first, head, ours, theirs = out.getvalue().splitlines()
    assert first.startswith("5 pods from 2025-12-01 02:00:00.000Z")
    assert head.split()[:3] == ["QUEUE", "STARTED", "AFTER"]
    assert "(200 s lost)" in ours or "s lost)" in ours
    assert theirs.split()[:5] == ["q", "1", "1", "0", "0"]
    path.write_text("kind: Pod\n")
    assert console.main(["day", str(tmp_path), "--queues", str(path)], out, errors) == 2
    assert "no Queue of a kind that is known" in errors.getvalue()


def test_when_the_object_of_a_pod_goes_that_has_ended_says_nothing_of_the_other_day() -> None:
    past = Past(queue("p"), queue("q"))
    for number in range(6):  # two at a time, each for 990 s; their objects are deleted a moment after their end
        past.come(f"p{number}", "p", 2)
    for first in (0, 2, 4):
        past.work(1000)
        for number in (first, first + 1):
            past.ends(f"p{number}")
            past.tell(messages.PodGone(PodUid(f"uid-p{number}")))
    past.work(1000)
    found = past.found()
    for queues in ([], [queue("p", capability=((GPU, 2),))]):
        played = day.play(found, Engine(100), queues)[QueueName("p")]
        assert played.used == pytest.approx(6 * 2 * 990 if not queues else 4 * 2 * 990, rel=0.05)
        assert (len(played.waits), played.waiting) == ((6, 0) if not queues else (5, 1))


def circling() -> Past:
    """A job that takes all is evicted for each short one of a queue that is owed a part, and starts anew behind it."""
    past = Past(queue("p"), queue("q", 2))
    past.come("long", "p", 4)
    past.work(100)
    for number in range(6):
        past.come(f"short{number}", "q", 2)
        past.work(200)
        past.ends(f"short{number}")
        past.work(300)
    return past


def test_evictions_that_the_engine_really_decides_over_and_over_are_named() -> None:
    found = circling().found()
    same = day.play(found, Engine(100))
    assert same[QueueName("p")].evicted == 6
    assert (same[QueueName("p")].often, same[QueueName("q")].often) == ({"long": 6}, {})
    spared = day.play(found, Engine(100), [queue("q")])
    assert all(one.often == {} for one in spared.values())
    seldom = day.play(lent().found(), Engine(100), [queue("q", 2)])
    assert (seldom[QueueName("p")].evicted, seldom[QueueName("p")].often) == (2, {})


@pytest.mark.parametrize(("pause", "want"), [(1700, {"long": 3}), (1900, {})])
def test_an_eviction_counts_again_within_an_hour_only(pause: int, want: dict[str, int]) -> None:
    past = Past(queue("p"), queue("q", 2))
    past.come("long", "p", 4)
    past.work(100)
    for number in range(3):
        past.come(f"short{number}", "q", 2)
        past.work(100)
        past.ends(f"short{number}")
        past.work(pause - 100)
    same = day.play(past.found(), Engine(100))
    assert (same[QueueName("p")].evicted, same[QueueName("p")].often) == (3, want)


def test_the_report_warns_of_what_would_oscillate_and_says_how_far_it_is(tmp_path: pathlib.Path) -> None:
    circling().recorder.write(tmp_path)
    path = tmp_path / "queue.yaml"
    told = {"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "q"}}

    def shown(**spec: Any) -> str:
        path.write_text(yaml.safe_dump(told | {"spec": spec}))
        out = io.StringIO()
        day_report.report([str(tmp_path)], str(path), out, said.append)
        return out.getvalue()

    said: list[str] = []
    warned = "warning: Oscillates: p: evictions go on and on: long 6 times within an hour"
    assert shown(deserved={GPU: "2"}, weight=2).splitlines()[-1].startswith(f"{warned}, as 1 of its groups")
    assert said[0] == "reading file 1 of 1"
    assert f"with those of {path}: 50%" in {f"{one.rpartition(':')[0]}: 50%" for one in said}
    assert said[-1] == ""
    assert "warning" not in shown()
