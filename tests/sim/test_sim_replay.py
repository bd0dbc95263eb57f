"""What is on record in a decision log is decided again, whatever has happened; anything else is found and named."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from extender.core import messages
from extender.core.engine import Engine
from extender.core.reasons import Reason, Refusal
from extender.sim import console, replay
from extender.wire import journal
from tests import builders
from tests.core import test_engine_random
from tests.core.cluster_model import Cluster
from tests.sim.recording import Recorder


class Recorded(Cluster):
    """A cluster around an engine whose decisions are on record."""

    def restart(self) -> None:
        self.recorders: list[Recorder] = getattr(self, "recorders", [])
        self.recorder: Recorder | None = None
        super().restart()

    def _handle(self, event: messages.EngineEvent) -> list[messages.Effect]:
        if self.recorder is None or self.recorder.engine is not self.engine:
            self.recorder = Recorder(self.engine, journal.Settings(self._above, self._turns), self.now)
            self.recorders.append(self.recorder)
        return self.recorder.handle(event, self.now)


class Machine(test_engine_random.Machine):
    """The steps of the engine's own machine; at times a new file begins, and in the end all are replayed."""

    cluster_type = Recorded

    @precondition(lambda self: hasattr(self, "cluster") and not self.cluster.engine.unfinished)
    @rule()
    def file_is_full(self) -> None:
        recorder = self.cluster.recorder
        assert recorder is not None
        recorder.turn(self.cluster.now)

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            self.check()

    def check(self) -> None:
        """All that is on record is decided again."""
        with tempfile.TemporaryDirectory() as folder:
            for number, recorder in enumerate(self.cluster.recorders):
                for path in recorder.write(pathlib.Path(folder), f"life{number}"):
                    found = replay.replay(path)
                    assert found.difference is None, str(found.difference)


TestMachine = pytest.mark.timeout(120)(Machine.TestCase)
TestMachine.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip


def written(folder: pathlib.Path) -> pathlib.Path:
    """A log of a gang that is placed, and one that waits."""
    recorder, now = Recorder(Engine(100), journal.Settings(100), 1764554400.0), 1764554400.0
    things = [builders.gpu_node("n0", 4), *(builders.make_pod(f"p{n}", {builders.GPU: 1}, group="a") for n in range(2))]
    things += [builders.make_pod("big", {builders.GPU: 8})]
    recorder.handle(messages.ActivityChanged(True), now)
    for thing in things:
        recorder.handle(builders.seen(thing), now)
    recorder.handle(messages.GroupSeen(builders.make_group("a", 2)), now)
    recorder.handle(messages.Tick(), now + 1.5)
    return recorder.write(folder)[0]


def run(*paths: pathlib.Path) -> tuple[int, str, str]:
    """Exit status and what is printed."""
    out, errors = io.StringIO(), io.StringIO()
    return console.main(["replay", *map(str, paths)], out, errors), out.getvalue(), errors.getvalue()


def test_a_log_that_is_decided_again_ends_with_0(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path)
    status, out, errors = run(tmp_path)
    assert (status, errors) == (0, "")
    assert f"{path}: the same is decided" in out
    assert "from 2025-12-01 02:00:00.000Z to 2025-12-01 02:00:01.500Z" in out


def test_the_first_difference_is_told_in_words(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'["uid-p1","n0"]', b'["uid-p1","n7"]'))
    status, out, _ = run(path)
    assert status == 1
    assert "something else is decided, line 8, 2025-12-01 02:00:01.500Z, after Tick:" in out
    assert "on record  muster/team/a gets its places: uid-p0 on n0, uid-p1 on n7" in out
    assert "replayed   muster/team/a gets its places: uid-p0 on n0, uid-p1 on n0" in out


def test_a_mutation_of_the_engine_is_found(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)
    monkeypatch.setattr("extender.core.plans.Plans.make", lambda *_: Refusal(Reason.FRAGMENTED))
    status, out, _ = run(tmp_path)
    assert status == 1
    assert "something else is decided" in out


BROKEN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut off": (lambda text: text[:-9], "line 8: the last line is cut off"),
    "packed and cut off": (lambda text: gzip.compress(text[:-9]), "line 8: the last line is cut off"),
    "damaged": (lambda text: gzip.compress(text)[:60] + b"x" * 40, "damaged"),
    "a broken line": (
        lambda text: text.replace(b'"event":"GroupSeen"', b'"event":3'),
        "line 7: event: '3' is not known",
    ),
    "another version": (lambda text: text.replace(b'"rules":"', b'"rules":"x'), "line 1: written by another version"),
    "no log": (lambda text: b"hello\n", "line 1: no JSON"),
    "empty": (lambda text: b"", "line 1: no JSON"),
}


@pytest.mark.parametrize(("harm", "says"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_log_is_named_with_file_and_line(
    harm: Callable[[bytes], bytes], says: str, tmp_path: pathlib.Path
) -> None:
    path = written(tmp_path)
    path.write_bytes(harm(path.read_bytes()))
    status, _, errors = run(path)
    assert status == 2
    assert str(path) in errors
    assert says in errors


def test_a_file_that_is_not_there_and_an_empty_folder_are_named(tmp_path: pathlib.Path) -> None:
    assert "the folder has no file of a decision log" in run(tmp_path)[2]
    status, _, errors = run(tmp_path / "nothing")
    assert (status, "No such file" in errors) == (2, True)


def test_another_process_with_other_hashes_decides_the_same(tmp_path: pathlib.Path) -> None:
    numbers = itertools.count()

    class Written(Machine):
        def check(self) -> None:
            for recorder in self.cluster.recorders:
                recorder.write(tmp_path, f"log{next(numbers):03}")

    quick = settings(TestMachine.settings, max_examples=8, phases=[Phase.generate], derandomize=True, database=None)
    run_state_machine_as_test(Written, settings=quick)
    environment = os.environ | {"PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    argv = [sys.executable, "-m", "extender.sim", "replay", str(tmp_path)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("the same is decided") == len(list(tmp_path.iterdir())) > 8
