"""Effects on one object in order, failures for the moment tried again, a bounded number of times."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from extender.core.ids import PodUid
from extender.core.messages import Effect, EffectDone, Ungate
from extender.runtime import dispatcher
from extender.runtime.dispatcher import Dispatcher, Final, Transient

FIRST, SECOND = Ungate(PodUid("u"), "ns", "first"), Ungate(PodUid("u"), "ns", "second")


class Outside:
    """Plays the writer: fails as scripted, and remembers."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.written: list[Effect] = []
        self.done: asyncio.Queue[EffectDone] = asyncio.Queue()

    async def write(self, effect: Effect) -> None:
        self.written.append(effect)
        if self.failures:
            raise self.failures.pop(0)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "FIRST_DELAY", 0.001)
    monkeypatch.setattr(dispatcher, "LONGEST_DELAY", 0.002)


@contextlib.asynccontextmanager
async def dispatching(outside: Outside) -> AsyncIterator[Callable[[Effect, str], None]]:
    lanes = Dispatcher(outside.write, outside.done.put_nowait)
    running = asyncio.create_task(lanes.run())
    yield lanes.put
    running.cancel()
    await asyncio.wait({running})


async def test_what_fails_for_the_moment_is_tried_again_before_what_comes_after_it():
    outside = Outside(Transient("403"), Transient("503", retry_after=60.0))
    async with dispatching(outside) as put:
        put(FIRST, "cause")
        put(SECOND, "cause")
        assert [await outside.done.get() for _ in range(2)] == [EffectDone(FIRST, ""), EffectDone(SECOND, "")]
    assert outside.written == [FIRST, FIRST, FIRST, SECOND]


async def test_what_keeps_failing_comes_back_with_its_last_error():
    outside = Outside(*(Transient(f"403 for the time number {number}") for number in range(1, 100)))
    async with dispatching(outside) as put:
        put(FIRST, "cause")
        said = await outside.done.get()
    assert len(outside.written) == dispatcher.TRIES
    assert said == EffectDone(FIRST, f"403 for the time number {dispatcher.TRIES}")


async def test_what_cannot_succeed_is_not_tried_again():
    outside = Outside(Final("no"))
    async with dispatching(outside) as put:
        put(FIRST, "cause")
        assert await outside.done.get() == EffectDone(FIRST, "no")
    assert outside.written == [FIRST]
