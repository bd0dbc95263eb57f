"""The decision log on disk: rotated, bounded, honest about what is missing, and never in the way."""

from __future__ import annotations

import gzip
import pathlib
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from extender import settings
from extender.core import messages
from extender.core.engine import Engine
from extender.runtime import aside
from extender.runtime import journal as log
from extender.sim import logbook, replay
from extender.wire import journal
from tests.builders import GPU, gpu_node, make_pod, seen
from tests.core.engine_driver import BY_LIST


class Metrics:
    """Counts."""

    def __init__(self) -> None:
        self.lost = 0
        self.frozen: list[float] = []

    def decisions_lost(self, number: int) -> None:
        self.lost += number

    def decisions_frozen(self, seconds: float) -> None:
        self.frozen.append(seconds)


class Scene:
    """An engine with a log, and a clock that jumps."""

    def __init__(self, folder: pathlib.Path, size: int = 2**20, files: int = 3) -> None:
        self.folder, self.metrics = folder, Metrics()
        self.engine, self.now, self.number = Engine(BY_LIST), 1764554400.0, 0
        room = log.Room(folder, size, files)
        self.journal = log.Journal(room, self.engine, journal.Settings(BY_LIST), self.metrics)
        self.tell(messages.ActivityChanged(True), seen(gpu_node("n0", 8)))

    def tell(self, *events: messages.EngineEvent) -> None:
        for event in events:
            self.journal.handled(self.now, event, self.engine.handle(event, self.now))

    def pods(self, number: int) -> None:
        """So many pods come, a second apart."""
        for _ in range(number):
            self.number += 1
            self.now += 1.0
            self.tell(seen(make_pod(f"p{self.number}", {GPU: 1})), messages.Tick())

    def written(self) -> None:
        """Wait until the thread has nothing left to do."""
        done = threading.Event()
        for _ in range(1000):
            if self.journal._writer.idle:
                return
            done.wait(0.005)
        raise AssertionError("the log is not written")

    def files(self) -> list[pathlib.Path]:
        """The files there are, the oldest first."""
        return logbook.files([str(self.folder)])


@pytest.fixture
def scene(tmp_path: pathlib.Path) -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(**fields: int) -> Scene:
        made.append(Scene(tmp_path, **fields))
        return made[-1]

    yield make
    for one in made:
        one.journal.close()


def replayed(files: list[pathlib.Path]) -> list[replay.Outcome]:
    found = [replay.replay(path) for path in files]
    assert [one.difference for one in found] == [None] * len(found)
    return found


def test_what_was_decided_is_read_back_and_decided_again(scene: Callable[..., Scene]) -> None:
    told = scene()
    told.pods(5)
    told.journal.close()
    (path,) = told.files()
    text = gzip.decompress(path.read_bytes()).decode()
    assert '["Placed",{"group":["pod","team","uid-p1"],"places":[["uid-p1","n0"]]}]' in text
    (found,) = replayed([path])
    assert (found.events, found.lost) == (12, 0)


def test_a_file_of_a_process_that_was_killed_ends_with_a_whole_line(scene: Callable[..., Scene]) -> None:
    told = scene()
    told.pods(5)
    told.written()
    (found,) = replayed(told.files())
    assert found.events >= 10


def test_files_are_bounded_in_size_and_number_and_each_is_replayed_alone(scene: Callable[..., Scene]) -> None:
    told = scene(size=800, files=3)
    for _ in range(16):
        told.pods(8)
        told.written()
    told.journal.close()
    files = told.files()
    assert len(files) == 3
    assert len(told.metrics.frozen) > 3
    assert all(one.events > 8 for one in replayed(files[:2]))
    begins = [logbook.Book(path).header for path in files]
    assert [one.begins for one in begins] == [journal.FULL] * 3
    for path, header in zip(files, begins, strict=True):
        assert header.state is not None
        assert path.stat().st_size < 800 + 2 * len(header.state) + 4000


def test_what_could_not_be_written_is_counted_and_said_and_the_next_file_can_be_replayed(
    scene: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = scene()
    told.pods(3)
    told.written()
    with monkeypatch.context() as patch:
        patch.setattr(log, "UNWRITTEN_BYTES", -1)  # the disk takes nothing more
        told.journal._again_at = told.now + 5.0
        told.pods(3)
        told.written()
    told.pods(4)  # the fourth of these comes when a new file may begin
    told.journal.close()
    first, second = told.files()
    assert [one.lost for one in replayed([first, second])] == [told.metrics.lost, 0]
    assert told.metrics.lost > 6
    assert logbook.Book(second).header.begins == journal.GAP


def test_a_disk_that_is_gone_keeps_nobody_waiting_and_is_used_again_when_it_is_back(
    scene: Callable[..., Scene], tmp_path: pathlib.Path
) -> None:
    told = scene()
    told.pods(1)
    told.written()
    old = tmp_path.rename(tmp_path.with_name("away"))
    told.journal._begin(told.now, lambda: b"")
    for _ in range(4):
        told.pods(1)
        told.written()
    assert told.metrics.lost >= 4
    old.rename(tmp_path)
    told.now += log.AGAIN_SECONDS
    told.pods(1)
    told.written()
    told.pods(2)
    told.journal.close()
    assert replayed(told.files()[-1:])[0].events > 0


def test_a_folder_that_cannot_be_written_is_named(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(settings.Unusable, match=r"--decision-log: .*name a folder"):
        log.room(settings.DecisionLog(str(file / "log"), 1, 1))


def test_a_state_that_cannot_be_taken_costs_events_and_nothing_else(
    scene: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = scene(size=1)
    monkeypatch.setattr(log.frozen, "freeze", lambda _: 1 // 0)
    for _ in range(5):
        told.pods(2)
        told.written()
    assert told.metrics.lost > 0
    monkeypatch.undo()
    told.now += log.AGAIN_SECONDS
    told.pods(1)
    told.written()
    told.journal.close()
    first, *_, last = told.files()
    assert [one.difference for one in (replay.replay(first), replay.replay(last))] == [None, None]


def test_what_is_done_aside_sees_this_moment_and_is_ended_when_it_takes_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = [b"now"]
    made = aside.Aside(lambda: known[0] * 2**18)
    known[0] = b"later"
    assert made.result() == b"now" * 2**18
    with pytest.raises(OSError, match="ended with 1: ZeroDivisionError"):
        aside.Aside(lambda: bytes(1 // 0)).result()
    monkeypatch.setattr(aside, "LONGEST_SECONDS", 0.05)
    with pytest.raises(TimeoutError):
        aside.Aside(lambda: bytes(signal.pause() or 0)).result()
