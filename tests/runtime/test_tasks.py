"""Eternal tasks: each way to end is a fault, a stop is none, and nothing is left running."""

import asyncio
import contextlib
import logging

import pytest

from extender.runtime import tasks


class Stage:
    """A task whose course the test commands."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = False

    async def run(self, then=None) -> str:
        self.started.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if then is not None:
            raise then
        return "an answer that nobody awaits"


async def test_a_stop_ends_the_wait_and_cancels_all_tasks():
    first, second, stop = Stage(), Stage(), asyncio.Event()
    async with tasks.Tasks() as running:
        running.start("first", first.run())
        running.start("second", second.run())
        await first.started.wait()
        stop.set()
        await running.run_until(stop)
    assert first.cancelled
    assert second.cancelled


ENDS = {
    "returns": (None, "the task cycle returned", type(None)),
    "fails": (ValueError("no such node"), "the task cycle failed", ValueError),
    "fails with a time-out": (TimeoutError(), "the task cycle failed", TimeoutError),
    "cancels itself": (asyncio.CancelledError(), "the task cycle was cancelled", type(None)),
}


@pytest.mark.parametrize(("end", "want", "cause"), ENDS.values(), ids=ENDS.keys())
async def test_a_task_that_ends_is_a_fault_with_a_log_line_and_the_others_are_cancelled(end, want, cause, caplog):
    ending, other = Stage(), Stage()

    async def process() -> None:
        async with tasks.Tasks() as running:
            running.start("cycle", ending.run(then=end))
            running.start("watch", other.run())
            await ending.started.wait()
            ending.go_on.set()
            await running.run_until(asyncio.Event())

    with pytest.raises(tasks.Fault, match=want) as fault:
        await process()
    assert isinstance(fault.value.__cause__, cause)
    assert other.cancelled
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.muster_fields["task"] == "cycle"


async def test_the_first_of_two_faults_is_raised_and_both_are_logged(caplog):
    stages = {"one": Stage(), "two": Stage()}

    async def process() -> None:
        async with tasks.Tasks() as running:
            for name, stage in stages.items():
                running.start(name, stage.run(then=ValueError(name)))
                stage.go_on.set()
            await running.run_until(asyncio.Event())

    with pytest.raises(tasks.Fault, match="the task one failed"):
        await process()
    assert sorted(record.muster_fields["task"] for record in caplog.records) == ["one", "two"]


async def test_a_fault_before_the_stop_is_not_hidden_by_the_stop():
    stage, stop, told = Stage(), asyncio.Event(), asyncio.Event()

    class Teller(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.set()

    async def process() -> None:
        async with tasks.Tasks() as running:
            running.start("early", stage.run())
            stage.go_on.set()
            await told.wait()
            stop.set()
            await running.run_until(stop)

    teller = Teller()
    logging.getLogger(tasks.__name__).addHandler(teller)
    try:
        with pytest.raises(tasks.Fault, match="the task early returned"):
            await process()
    finally:
        logging.getLogger(tasks.__name__).removeHandler(teller)


async def test_a_failure_while_being_cancelled_is_logged_and_is_no_fault(caplog):
    started = asyncio.Event()

    async def clumsy() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while closing")

    async with tasks.Tasks() as running:
        running.start("clumsy", clumsy())
        await started.wait()
    assert caplog.records[0].getMessage() == "a task failed while it was being cancelled"


async def test_a_task_that_ignores_its_cancelling_holds_nobody_up(caplog, monkeypatch):
    monkeypatch.setattr(tasks, "CANCEL_SECONDS", 0.01)
    started, release = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        started.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await release.wait()

    async with tasks.Tasks() as running:
        running.start("stubborn", stubborn())
        await started.wait()
    assert caplog.records[0].muster_fields["task"] == "stubborn"
    release.set()


async def test_the_cancelling_of_whoever_waits_goes_through():
    stage = Stage()

    async def process() -> None:
        async with tasks.Tasks() as running:
            running.start("cycle", stage.run())
            await running.run_until(asyncio.Event())

    whole = asyncio.create_task(process())
    await stage.started.wait()
    whole.cancel()
    with pytest.raises(asyncio.CancelledError):
        await whole
    assert stage.cancelled


async def test_an_exception_in_the_block_is_not_replaced():
    stage = Stage()

    async def process() -> None:
        async with tasks.Tasks() as running:
            running.start("cycle", stage.run())
            await stage.started.wait()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await process()
    assert stage.cancelled
