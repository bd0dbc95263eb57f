"""Signals: the first asks, the second of its kind does what it always does."""

import asyncio
import os
import signal

import pytest

from extender.runtime import stopping


@pytest.mark.parametrize("which", stopping.SIGNALS, ids=lambda which: which.name)
async def test_a_signal_sets_the_event(which):
    with stopping.asked_to_stop() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), which)
        await asyncio.wait_for(stop.wait(), 5)


async def test_afterwards_and_after_the_first_signal_the_usual_handler_is_back():
    usual = signal.getsignal(signal.SIGTERM)
    with stopping.asked_to_stop() as stop:
        assert signal.getsignal(signal.SIGTERM) != usual
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stop.wait(), 5)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
