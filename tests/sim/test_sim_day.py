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
from extender.core.ids import NodeName, QueueName
from extender.core.model import Pod, Queue
from extender.sim import console, day
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
