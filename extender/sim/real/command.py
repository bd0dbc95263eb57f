"""Reports on a real cluster: so many at once, with what each came to.

Takes reports and how to reach the cluster, gives an outcome for each, in their order as they end; says on the error
stream how far they are. Must not judge.
"""

from __future__ import annotations

import asyncio
import functools
import secrets
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from extender.kube import client, errors, observing
from extender.runtime import stopping
from extender.sim.real import limits, play
from extender.sim.real.hands import Hands
from extender.sim.real.translation import Translation
from extender.sim.report import Report
from extender.sim.watching import Result

#: so long after one run the next one begins
APART_SECONDS = 1.0
PROGRESS_SECONDS = 1.0
#: where no terminal is, how far it is is told so much less often
QUIET_TIMES = 20


#: what a person can mend before anything is played
CANNOT = (play.NotReady, errors.Unconfigured)


@dataclass(frozen=True, slots=True)
class Where:
    """The cluster, and how to play on it."""

    kubeconfig: str | None
    context: str | None
    scale: float
    at_once: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a report: results, or obstacles if it cannot be played."""

    report: Report
    results: Sequence[Result] = ()
    obstacles: Sequence[str] = ()
    concessions: Sequence[str] = ()


class Stopped(Exception):
    """Somebody asked the process to end."""


@dataclass(slots=True)
class _Runs:
    going: dict[str, play.Play] = field(default_factory=dict)
    done: int = 0


class Starts:
    """Runs begin one after the other, and none while another one is being set up: that would make it slow."""

    def __init__(self) -> None:
        self._opening: set[str] = set()
        self._clear = asyncio.Event()
        self._turn = asyncio.Lock()

    def open(self, name: str) -> None:
        """This run is being set up."""
        self._opening.add(name)
        self._clear.clear()

    def close(self, name: str) -> None:
        """It is set up, or has failed at that."""
        self._opening.discard(name)
        if not self._opening:
            self._clear.set()

    async def begin(self, name: str) -> None:
        """Return when this run may begin."""
        self.close(name)
        await self._clear.wait()
        async with self._turn:
            await asyncio.sleep(APART_SECONDS)


def run(reports: Sequence[Report], where: Where, tell: Callable[[Outcome], None], err: TextIO) -> None:
    """Play all reports; NotReady or Unusable when the cluster cannot be played on, Stopped after a signal."""
    asyncio.run(_run(reports, where, tell, err))


async def _run(reports: Sequence[Report], where: Where, tell: Callable[[Outcome], None], err: TextIO) -> None:
    with stopping.asked_to_stop() as stop:
        playing = asyncio.create_task(_play_all(reports, where, tell, err))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait((playing, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():
            print("stopping: what was made is removed", file=err)
            playing.cancel()
            await asyncio.wait((playing,))
            raise Stopped
        stopped.cancel()
        playing.result()


async def _play_all(reports: Sequence[Report], where: Where, tell: Callable[[Outcome], None], err: TextIO) -> None:
    runs, starts, turn = _Runs(), Starts(), asyncio.Semaphore(where.at_once)
    connected = client.connect(
        where.kubeconfig, where.context, component="scenario-runner", observer=observing.Silent()
    )
    async with connected as api:

        async def one(report: Report) -> Outcome:
            async with turn:
                outcome = await _outcome(report, api, where.scale, runs, starts, err)
            runs.done += 1
            return outcome

        progress = asyncio.create_task(_progress(runs, len(reports), err))
        playing = [asyncio.create_task(one(report)) for report in reports]
        try:
            for task in playing:
                tell(await task)
        finally:
            progress.cancel()
            for task in playing:
                task.cancel()
            await asyncio.gather(*playing, return_exceptions=True)


async def _outcome(report: Report, api: client.Api, scale: float, runs: _Runs, starts: Starts, err: TextIO) -> Outcome:
    """Play one report; in a run that broke all checks have fallen short, and the others go on."""
    if obstacles := limits.obstacles(report):
        return Outcome(report, obstacles=obstacles)
    name = f"sim-{secrets.token_hex(3)}"
    playing = play.Play(report, Hands(api, name), Translation(name, scale), functools.partial(starts.begin, name))
    runs.going[report.id] = playing
    starts.open(name)
    try:
        results = await playing.results()
    except play.NotReady:
        raise
    except Exception as fault:
        traceback.print_exception(fault, file=err)
        text = f"the run broke: {type(fault).__name__}: {fault}"
        results = [Result(check, False, text) for check in report.want]
    finally:
        starts.close(name)
        del runs.going[report.id]
        if playing.left:
            print(playing.left, file=err)
    return Outcome(report, results, concessions=limits.concessions(report))


async def _progress(runs: _Runs, number: int, err: TextIO) -> None:
    """Say how far all are: over and over on a terminal, else on a line from time to time."""
    live = err.isatty()
    while True:
        await asyncio.sleep(PROGRESS_SECONDS if live else PROGRESS_SECONDS * QUIET_TIMES)
        going = ", ".join(one.progress for one in runs.going.values())
        text = f"[{runs.done}/{number}] {going}"
        print(f"\r\033[K{text}" if live else text, end="" if live else "\n", file=err, flush=True)
