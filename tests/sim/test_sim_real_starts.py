"""Runs that are played at once wait for each other's making, and for none that failed at it."""

from __future__ import annotations

import asyncio

import pytest

from extender.sim.real import command
from extender.sim.real.command import Starts


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "APART_SECONDS", 0.0)


async def turns() -> None:
    """Let everybody go on who can."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("how", ["begins", "fails"])
async def test_none_begins_while_another_is_being_set_up(how: str) -> None:
    starts, begun = Starts(), []

    async def run(name: str) -> None:
        await starts.begin(name)
        begun.append(name)

    for name in "ab":
        starts.open(name)
    first = asyncio.create_task(run("a"))
    await turns()
    assert begun == []
    if how == "begins":
        await run("b")
        await first
        assert sorted(begun) == ["a", "b"]
    else:
        starts.close("b")
        await first
        assert begun == ["a"]


async def test_a_later_one_waits_for_nobody_who_plays() -> None:
    starts = Starts()
    starts.open("a")
    await starts.begin("a")
    starts.open("b")
    await starts.begin("b")
